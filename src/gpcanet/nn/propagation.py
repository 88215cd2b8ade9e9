"""P for tensors: P @ F and the fixed point of GPCA, with a backward pass of their own.

Both are polynomials in P, so the gradient with respect to F is the same polynomial in P^T, and
nothing needs to be kept between the two passes. With symmetric normalisation P^T is P, with the
random walk it is D P D^-1: the kernel that goes forward also goes back.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from ..errors import InputError
from ..estimators.validation import check_labels
from ..graph import Graph
from ..linalg import GhostForm, Normalization, Product, Propagation, Solver
from ..utils.checks import check_choice, check_number
from .tensors import csr_tensor

#: What layers take as ``edge_index``.
Edges = Any

#: Devices whose memory the compiled step can read; on others P is a sparse tensor.
COMPILED_ON = ("cpu",)

_NUMPY = {torch.float32: np.float32, torch.float64: np.float64}


class GraphPropagation:
    """The propagation matrix of one graph, for blocks of any float type on any device.

    Layers take one in place of ``edge_index``, so that several of them share what is computed
    from the edges once.

    Parameters
    ----------
    edges : Tensor, Graph, or anything that becomes one
        An ``edge_index`` of shape (2, entries), a sparse adjacency (COO or CSR), or a ``Graph``.
        The graph is undirected: an edge counts in both directions.
    edge_weight : Tensor, optional
        One per entry of an ``edge_index``.
    n_nodes : int, optional
        Needed where the last nodes have no edges.
    normalization : {"sym", "rw"}
    y : Tensor, optional
        Class per node, -1 for none; needed for ghost edges.
    beta : float
        Share of the ghost edges between nodes of equal label.
    ghost : {"balanced", "paper"}

    Examples
    --------
    >>> P = GraphPropagation(torch.tensor([[0, 1], [1, 0]]))
    >>> P @ torch.tensor([[1.0], [3.0]])
    tensor([[2.],
            [2.]])
    """

    def __init__(
        self,
        edges: Edges,
        edge_weight: Tensor | None = None,
        *,
        n_nodes: int | None = None,
        normalization: Normalization = "sym",
        y: Tensor | None = None,
        beta: float = 0.0,
        ghost: GhostForm = "balanced",
    ) -> None:
        check_choice("normalization", normalization, ("sym", "rw"))
        check_choice("ghost", ghost, ("balanced", "paper"))
        check_number("beta", beta, 0, 1, advice="use beta=0 to ignore labels")
        self.graph = graph_of(edges, edge_weight, n_nodes)
        self.n_nodes = self.graph.n_nodes
        self.normalization, self.beta, self.ghost = normalization, beta, ghost
        self.labels = None
        if beta > 0:
            if y is None:
                raise missing_labels(beta)
            self.labels, _ = check_labels(_to_numpy(y), self.n_nodes)
        self._operators: dict[Any, Propagation] = {}
        self._products: dict[Any, Product] = {}
        self._matrices: dict[tuple[torch.device, torch.dtype, bool], Any] = {}

    def __matmul__(self, F: Tensor) -> Tensor:
        """P F."""
        return _Polynomial.apply(F, self, None, 1, False)

    def fixed_point(self, H: Tensor, alpha: float | Tensor, n_iter: int) -> Tensor:
        """n_iter steps of F <- alpha/(1+alpha) P F + 1/(1+alpha) H from F = H.

        ``alpha`` may be a tensor that is learnt.
        """
        if not isinstance(alpha, Tensor):
            return _Polynomial.apply(H, self, float(alpha), n_iter, False)
        share = alpha / (1 + alpha)
        F = H
        for _ in range(n_iter):
            F = share * (self @ F) + (1 - share) * H
        return F

    # -- the work -------------------------------------------------------------------------

    def _polynomial(self, F: Tensor, alpha: float | None, n_iter: int, back: bool) -> Tensor:
        if F.dim() != 2 or F.shape[0] != self.n_nodes:
            raise InputError(
                f"features of shape {tuple(F.shape)} do not fit a graph of {self.n_nodes} nodes; "
                f"give one row per node"
            )
        if F.dtype not in _NUMPY:  # 16 bits are too few to add up in
            return self._polynomial(F.float(), alpha, n_iter, back).to(F.dtype)
        if F.shape[1] == 0:
            return F.clone()
        operator = self._operator(_NUMPY[F.dtype])
        if F.device.type in COMPILED_ON and (not back or operator.self_adjoint):
            return self._compiled(operator, F, alpha, n_iter, back)
        matrix, left, right = self._matrix(F.device, F.dtype, back)
        share = 1.0 if alpha is None else alpha / (1 + alpha)
        X, F = F, F.clone()
        for _ in range(n_iter):
            product = matrix @ F
            if left is not None:
                product += left @ (right.T @ F)
            F = product.mul_(share).add_(X, alpha=1 - share)
        return F

    def _compiled(
        self, operator: Propagation, F: Tensor, alpha: float | None, n_iter: int, back: bool
    ) -> Tensor:
        # P^T = D P D^-1 for the walk, and P itself with symmetric normalisation.
        turned = back and self.normalization == "rw"
        block = np.ascontiguousarray(F.detach().numpy())
        if turned:
            block = block / operator.mass[:, None]
        if alpha is None:
            block = self._product(operator) @ block
        else:
            solver = Solver(operator, alpha, method="fixed-point", n_iter=n_iter)
            block = solver.apply(block)
        if turned:
            block *= operator.mass[:, None]
        return torch.from_numpy(block)

    def _operator(self, dtype: Any) -> Propagation:
        if dtype not in self._operators:
            self._operators[dtype] = Propagation(
                self.graph.indptr,
                self.graph.indices,
                self.graph.weights,
                normalization=self.normalization,
                labels=self.labels,
                beta=self.beta,
                ghost=self.ghost,
                dtype=dtype,
            )
        return self._operators[dtype]

    def _product(self, operator: Propagation) -> Propagation | Product:
        if self.normalization != "sym" or self.beta > 0:
            return operator
        if operator.dtype not in self._products:
            self._products[operator.dtype] = Product(operator)
        return self._products[operator.dtype]

    def _matrix(self, device: torch.device, dtype: torch.dtype, back: bool) -> Any:
        """P as a sparse tensor and the two sides of its ghost part, for where numpy is not."""
        key = (device, dtype, back)
        if key not in self._matrices:
            matrix, sides = self._as_matrix()
            sparse = csr_tensor(sp.csr_array(matrix.T if back else matrix)).to(device, dtype)
            left, right = (None, None) if sides is None else (sides[::-1] if back else sides)
            self._matrices[key] = (
                sparse,
                *(
                    None if side is None else torch.from_numpy(side).to(device, dtype)
                    for side in (left, right)
                ),
            )
        return self._matrices[key]

    def _as_matrix(self) -> tuple[sp.csr_array, tuple[np.ndarray, np.ndarray] | None]:
        operator = self._operator(np.float64)
        matrix, sides = operator.sparse_part, operator.ghost_factors
        if self.normalization == "sym":  # the operator's own are those of the walk
            root = np.sqrt(operator.mass)[:, None]
            matrix = sp.csr_array(matrix.multiply(root).multiply(1 / root.T))
            sides = None if sides is None else (sides[0] * root, sides[1] / root)
        return matrix, sides

    def __repr__(self) -> str:
        return (
            f"GraphPropagation(n_nodes={self.n_nodes}, n_edges={self.graph.n_edges}, "
            f"normalization={self.normalization!r}, beta={self.beta})"
        )


def missing_labels(beta: float) -> InputError:
    return InputError(
        f"beta={beta} adds ghost edges between nodes of equal label; give y, with -1 where "
        f"unknown, or use beta=0"
    )


class _Polynomial(torch.autograd.Function):
    """P F, or the fixed point after some steps."""

    @staticmethod
    def forward(
        ctx: Any, F: Tensor, P: GraphPropagation, alpha: float | None, n_iter: int, back: bool
    ) -> Tensor:
        ctx.P, ctx.alpha, ctx.n_iter, ctx.back = P, alpha, n_iter, back
        with torch.autocast(F.device.type, enabled=False):  # 16 bits are too few to add up in
            return P._polynomial(F, alpha, n_iter, back)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None, None]:
        (gradient,) = gradients
        back = _Polynomial.apply(gradient, ctx.P, ctx.alpha, ctx.n_iter, not ctx.back)
        return back, None, None, None, None


# -- edges -> Graph -----------------------------------------------------------------------


def as_propagation(
    edges: Edges, edge_weight: Tensor | None, n_nodes: int, **settings: Any
) -> GraphPropagation:
    """``edges`` itself if it is a propagation, else a new one of these edges."""
    _check_weights(edges, edge_weight)
    if isinstance(edges, GraphPropagation):
        return edges
    return GraphPropagation(edges, edge_weight, n_nodes=n_nodes, **settings)


def graph_of(edges: Edges, edge_weight: Tensor | None, n_nodes: int | None) -> Graph:
    """The undirected graph of an edge_index, a sparse adjacency or a Graph."""
    _check_weights(edges, edge_weight)
    if isinstance(edges, GraphPropagation):
        edges = edges.graph
    if isinstance(edges, Graph):
        return edges
    if edges is None:
        raise InputError("edge_index is missing; give the edges of the graph")
    if not isinstance(edges, Tensor):
        return Graph(edges)
    if edges.layout != torch.strided:
        return Graph(edges.cpu().to_sparse_coo())
    if isinstance(edge_weight, Tensor) and edge_weight.is_floating_point():
        edge_weight = edge_weight.double()  # numpy has no bfloat16
    return Graph.from_edge_index(edges, edge_weight, n_nodes=n_nodes)


def _check_weights(edges: Edges, edge_weight: Tensor | None) -> None:
    if edge_weight is None:
        return
    if not isinstance(edges, Tensor) or edges.layout != torch.strided:
        raise InputError("edge_weight goes with an edge_index; other edges bring their own weights")
    if isinstance(edge_weight, Tensor) and edge_weight.requires_grad and torch.is_grad_enabled():
        raise InputError(
            "edge_weight is learnt, which this propagation does not do; detach() it, or use PyG's "
            "GCNConv"
        )


def _to_numpy(values: Any) -> np.ndarray:
    return values.detach().cpu().numpy() if isinstance(values, Tensor) else np.asarray(values)
