"""The propagation matrix P for tensors: P F and the fixed point of GPCA, with gradients.

Both are polynomials in P, so the gradient with respect to F is the same polynomial in P^T and
needs no stored activations. P^T is P for symmetric normalisation and D P D^-1 for the random
walk, so that the backward pass uses the same compiled kernel.
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
from .tensors import is_sparse, to_csr_tensor

#: An edge_index, a sparse adjacency matrix, a Graph or a GraphPropagation.
EdgeInput = Any

#: Devices whose memory numpy can read. On other devices P is a sparse tensor.
NUMPY_DEVICES = ("cpu",)

_NUMPY_DTYPES = {torch.float32: np.float32, torch.float64: np.float64}


class GraphPropagation:
    """Propagation matrix of a graph, for tensors of any float dtype on any device.

    Layers accept it in place of ``edge_index``, so that the edges are prepared only once.

    Parameters
    ----------
    edges : Tensor or Graph
        An ``edge_index`` of shape (2, n_entries), a sparse adjacency matrix (COO or CSR), or
        anything that ``Graph`` accepts. The graph is undirected: each edge counts in both
        directions.
    edge_weight : Tensor of shape (n_entries,), optional
        Weights of an ``edge_index``.
    n_nodes : int, optional
        Number of nodes. Required for an ``edge_index`` if the last nodes have no edges.
    normalization : {"sym", "rw"}
        Symmetric or random-walk normalisation.
    y : Tensor of shape (n_nodes,), optional
        Class of each node, -1 for unlabelled nodes. Required if beta > 0.
    beta : float
        Share of the ghost edges between nodes of equal label.
    ghost : {"balanced", "paper"}
        Form of the ghost edges, as in ``GPCA``.

    Examples
    --------
    >>> P = GraphPropagation(torch.tensor([[0, 1], [1, 0]]))
    >>> P @ torch.tensor([[1.0], [3.0]])
    tensor([[2.],
            [2.]])
    """

    def __init__(
        self,
        edges: EdgeInput,
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
        check_number("beta", beta, 0, 1, advice="use 0 to ignore labels")
        self.graph = to_graph(edges, edge_weight, n_nodes)
        self.n_nodes = self.graph.n_nodes
        self.normalization, self.beta, self.ghost = normalization, beta, ghost
        self.labels = None
        if beta > 0:
            if y is None:
                raise missing_labels_error(beta)
            values = y.detach().cpu().numpy() if isinstance(y, Tensor) else np.asarray(y)
            self.labels, _ = check_labels(values, self.n_nodes)
        self._operators: dict[Any, Propagation] = {}
        self._products: dict[Any, Product] = {}
        self._sparse_tensors: dict[tuple[torch.device, torch.dtype, bool], Any] = {}

    @torch.compiler.disable  # numpy and numba compute it
    def __matmul__(self, F: Tensor) -> Tensor:
        """Return P F."""
        return _Polynomial.apply(F, self, None, 1, False)

    @torch.compiler.disable
    def fixed_point(self, H: Tensor, alpha: float | Tensor, n_iter: int) -> Tensor:
        """Return n_iter steps of F <- alpha/(1+alpha) P F + 1/(1+alpha) H, starting from F = H.

        ``alpha`` may be a tensor; gradients with respect to it are then computed.
        """
        if not isinstance(alpha, Tensor):
            return _Polynomial.apply(H, self, float(alpha), n_iter, False)
        share = alpha / (1 + alpha)
        F = H
        for _ in range(n_iter):
            F = share * (self @ F) + (1 - share) * H
        return F

    def evaluate(self, F: Tensor, alpha: float | None, n_iter: int, *, transposed: bool) -> Tensor:
        """Return the fixed point, or P F if alpha is None, without recording gradients.

        ``transposed`` uses P^T in place of P.
        """
        if F.dim() != 2 or F.shape[0] != self.n_nodes:
            raise InputError(
                f"features of shape {tuple(F.shape)} do not fit a graph of {self.n_nodes} nodes; "
                f"give one row per node"
            )
        if F.dtype not in _NUMPY_DTYPES:  # sums in 16 bits lose too much precision
            return self.evaluate(F.float(), alpha, n_iter, transposed=transposed).to(F.dtype)
        if F.shape[1] == 0:
            return F.clone()
        operator = self._operator(_NUMPY_DTYPES[F.dtype])
        if F.device.type in NUMPY_DEVICES and (not transposed or operator.self_adjoint):
            return self._evaluate_numpy(operator, F, alpha, n_iter, transposed)
        matrix, left, right = self._sparse_tensor(F.device, F.dtype, transposed)
        share = 1.0 if alpha is None else alpha / (1 + alpha)
        H, F = F, F.clone()
        for _ in range(n_iter):
            product = matrix @ F
            if left is not None:
                product += left @ (right.T @ F)
            F = product.mul_(share).add_(H, alpha=1 - share)
        return F

    def _evaluate_numpy(
        self, operator: Propagation, F: Tensor, alpha: float | None, n_iter: int, transposed: bool
    ) -> Tensor:
        # For the random walk, P^T = D P D^-1.
        scaled = transposed and self.normalization == "rw"
        block = np.ascontiguousarray(F.detach().numpy())
        if scaled:
            block = block / operator.mass[:, None]
        if alpha is None:
            block = self._product(operator) @ block
        else:
            block = Solver(operator, alpha, method="fixed-point", n_iter=n_iter).apply(block)
        if scaled:
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

    def _sparse_tensor(self, device: torch.device, dtype: torch.dtype, transposed: bool) -> Any:
        """P = S + left @ right.T as a sparse tensor S and two dense ones; None without ghosts."""
        key = (device, dtype, transposed)
        if key not in self._sparse_tensors:
            matrix, factors = self.sparse_matrix()
            if transposed:
                matrix, factors = sp.csr_array(matrix.T), factors[::-1]
            self._sparse_tensors[key] = (
                to_csr_tensor(matrix).to(device, dtype),
                *(None if f is None else torch.from_numpy(f).to(device, dtype) for f in factors),
            )
        return self._sparse_tensors[key]

    def sparse_matrix(self) -> tuple[sp.csr_array, tuple[np.ndarray | None, np.ndarray | None]]:
        """P = S + left @ right.T in float64 as S and (left, right); (None, None) without ghosts."""
        operator = self._operator(np.float64)
        matrix, (left, right) = operator.sparse_part, operator.dense_ghost_factors or (None, None)
        if self.normalization == "sym":  # sparse_part belongs to the random walk
            root = np.sqrt(operator.mass)[:, None]
            matrix = matrix.multiply(root).multiply(1 / root.T)
            if left is not None and right is not None:
                left, right = left * root, right / root
        return sp.csr_array(matrix), (left, right)

    def __repr__(self) -> str:
        return (
            f"GraphPropagation(n_nodes={self.n_nodes}, n_edges={self.graph.n_edges}, "
            f"normalization={self.normalization!r}, beta={self.beta})"
        )


class _Polynomial(torch.autograd.Function):
    """``GraphPropagation.evaluate`` with a gradient: the same polynomial in the transpose."""

    @staticmethod
    def forward(
        ctx: Any, F: Tensor, P: GraphPropagation, alpha: float | None, n_iter: int, transposed: bool
    ) -> Tensor:
        ctx.P, ctx.alpha, ctx.n_iter, ctx.transposed = P, alpha, n_iter, transposed
        with torch.autocast(F.device.type, enabled=False):  # sums in 16 bits lose precision
            return P.evaluate(F, alpha, n_iter, transposed=transposed)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None, None]:
        (gradient,) = gradients
        result = _Polynomial.apply(gradient, ctx.P, ctx.alpha, ctx.n_iter, not ctx.transposed)
        return result, None, None, None, None


def missing_labels_error(beta: float) -> InputError:
    return InputError(
        f"beta={beta} adds ghost edges between nodes of equal label; give y with -1 for "
        f"unlabelled nodes, or use beta=0"
    )


# -- edges --------------------------------------------------------------------------------


def to_propagation(
    edges: EdgeInput, edge_weight: Tensor | None, n_nodes: int, **settings: Any
) -> GraphPropagation:
    """Return ``edges`` if it is a GraphPropagation, otherwise a new one of these edges."""
    if isinstance(edges, GraphPropagation) and edge_weight is None:
        return edges
    return GraphPropagation(edges, edge_weight, n_nodes=n_nodes, **settings)


def to_graph(edges: EdgeInput, edge_weight: Tensor | None, n_nodes: int | None) -> Graph:
    """Convert an edge_index, a sparse adjacency matrix or a propagation to an undirected Graph."""
    _check_edge_weight(edges, edge_weight)
    if isinstance(edges, GraphPropagation):
        edges = edges.graph
    if isinstance(edges, Graph):
        return edges
    if edges is None:
        raise InputError("edge_index is missing; give the edges of the graph")
    if not isinstance(edges, Tensor):
        return Graph(edges)
    if is_sparse(edges):
        return Graph(edges.cpu().to_sparse_coo())
    if isinstance(edge_weight, Tensor) and edge_weight.is_floating_point():
        edge_weight = edge_weight.double()  # numpy has no bfloat16
    return Graph.from_edge_index(edges, edge_weight, n_nodes=n_nodes)


def _check_edge_weight(edges: EdgeInput, edge_weight: Tensor | None) -> None:
    if edge_weight is None:
        return
    if not isinstance(edges, Tensor) or is_sparse(edges):
        raise InputError(
            "edge_weight is given, but edges that are not an edge_index have their own weights; "
            "drop edge_weight"
        )
    if isinstance(edge_weight, Tensor) and edge_weight.requires_grad and torch.is_grad_enabled():
        raise InputError(
            "edge_weight requires a gradient, which this propagation does not compute; detach() "
            "it, or use PyG's GCNConv"
        )
