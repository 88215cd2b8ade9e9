"""GPCAConv, the layer of GPCANet, and PyG's GCNConv with a faster propagation."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

import torch
import torch_geometric.nn as pyg
from torch import Tensor
from torch.nn.parameter import is_lazy
from torch_geometric.nn.inits import glorot, zeros

from ..errors import InputError
from ..linalg import GhostForm, Normalization
from ..utils.checks import check_choice, check_number
from .propagation import EdgeInput, GraphPropagation, to_propagation
from .tensors import check_layer_input, is_sparse

#: Number of fixed-point steps, or "taylor" for (1 - alpha) H + alpha P H.
Steps = int | Literal["taylor"]


class GPCAConv(torch.nn.Module):
    """GPCA layer (Algorithm 1 of the paper): centre, propagate, project.

    H is the centred input, F the result of ``n_iter`` steps of
    ``F <- alpha/(1+alpha) P F + 1/(1+alpha) H``, and the output is ``F W + b``.

    Parameters
    ----------
    in_channels, out_channels : int
        Size of each input and output row.
    alpha : float
        Strength of the graph regularisation; 0 ignores the graph.
    beta : float
        Share of the ghost edges between nodes of equal label. If positive, ``forward`` requires
        ``y``.
    n_iter : int or "taylor"
        Number of fixed-point steps. ``"taylor"`` is the first-order Taylor series
        ``(1 - alpha) H + alpha P H``; with ``alpha=1`` and ``center=False`` the layer is then a
        GCN layer.
    normalization : {"sym", "rw"}
        Symmetric or random-walk normalisation of the adjacency matrix.
    ghost : {"balanced", "paper"}
        Form of the ghost edges, as in ``GPCA``.
    center : bool
        Subtract the mean row of the whole graph. A forward pass with fewer nodes than the largest
        one so far is a mini-batch and uses the stored mean; any other pass uses the mean of its
        own input and, in training mode, stores it.
    bias : bool
        Learn an additive bias.
    learn_alpha : bool
        Learn alpha, parametrised by its logarithm.

    Examples
    --------
    >>> conv = GPCAConv(2, 1, alpha=5.0)
    >>> conv(torch.eye(3, 2), torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])).shape
    torch.Size([3, 1])
    """

    mean: Tensor
    mean_n_nodes: Tensor

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        alpha: float = 1.0,
        beta: float = 0.0,
        n_iter: Steps = 5,
        normalization: Normalization = "sym",
        *,
        ghost: GhostForm = "balanced",
        center: bool = True,
        bias: bool = True,
        learn_alpha: bool = False,
    ) -> None:
        super().__init__()
        for name, width in (("in_channels", in_channels), ("out_channels", out_channels)):
            check_number(name, width, 1, advice="give the width of the layer", integer=True)
        check_number("alpha", alpha, 0, 1e6, advice="use 0 to ignore the graph")
        check_number("beta", beta, 0, 1, advice="use 0 to ignore labels")
        check_choice("normalization", normalization, ("sym", "rw"))
        check_choice("ghost", ghost, ("balanced", "paper"))
        if n_iter != "taylor":
            check_number("n_iter", n_iter, 0, advice="or use n_iter='taylor'", integer=True)
        if learn_alpha and alpha <= 0:
            raise InputError(f"alpha={alpha} must be positive to be learnt; use alpha=1")
        self.in_channels, self.out_channels = in_channels, out_channels
        self.beta, self.n_iter, self.center = float(beta), n_iter, center
        self.normalization, self.ghost = normalization, ghost
        self.initial_alpha = float(alpha)
        self.stores_mean_in_eval = False
        self.weight = torch.nn.Parameter(torch.empty(in_channels, out_channels))
        self.bias = torch.nn.Parameter(torch.empty(out_channels)) if bias else None
        self.log_alpha = torch.nn.Parameter(torch.empty(())) if learn_alpha else None
        self.register_buffer("mean", torch.zeros(in_channels))
        self.register_buffer("mean_n_nodes", torch.zeros((), dtype=torch.int64))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Reset the parameters and forget the stored mean."""
        glorot(self.weight)
        zeros(self.bias)
        self.reset_mean()
        if self.log_alpha is not None:
            torch.nn.init.constant_(self.log_alpha, math.log(self.initial_alpha))

    def reset_mean(self) -> None:
        """Forget the stored mean: the next forward pass stores a new one, whatever its size."""
        self.mean.zero_()
        self.mean_n_nodes.zero_()

    @property
    def alpha(self) -> float | Tensor:
        """Strength of the graph regularisation; a tensor if it is learnt."""
        return self.initial_alpha if self.log_alpha is None else self.log_alpha.exp()

    def forward(
        self,
        x: Tensor,
        edge_index: EdgeInput,
        edge_weight: Tensor | None = None,
        y: Tensor | None = None,
    ) -> Tensor:
        """Run the layer.

        Parameters
        ----------
        x : Tensor of shape (n_nodes, in_channels)
            Node features, dense or sparse.
        edge_index : Tensor, Graph or GraphPropagation
            Edges are prepared in every call. A ``GraphPropagation`` is prepared once; its own
            normalisation, labels and beta are used.
        edge_weight : Tensor, optional
            Edge weights.
        y : Tensor of shape (n_nodes,), optional
            Class of each node, -1 for unlabelled nodes. Used if beta > 0.
        """
        check_layer_input(x, self.weight, self.in_channels)
        P = self.propagation(edge_index, edge_weight, x.shape[0], y)
        mean = self._choose_mean(x) if self.center else None
        # The layer is linear, so the narrower of input and output is propagated. A sparse x is
        # projected first, which keeps it sparse.
        if is_sparse(x) or self.out_channels < self.in_channels:
            out = x @ self.weight
            out = out if mean is None else out - mean @ self.weight
            out = self.aggregate(P, out)
        else:
            out = self.aggregate(P, x if mean is None else x - mean) @ self.weight
        return out if self.bias is None else out + self.bias

    def propagation(
        self, edges: EdgeInput, edge_weight: Tensor | None, n_nodes: int, y: Tensor | None = None
    ) -> GraphPropagation:
        """Return the propagation matrix of some edges; a GraphPropagation is returned unchanged."""
        return to_propagation(
            edges, edge_weight, n_nodes,
            normalization=self.normalization, y=y, beta=self.beta, ghost=self.ghost,
        )  # fmt: skip

    def aggregate(self, P: GraphPropagation, H: Tensor) -> Tensor:
        """Return F for centred features H."""
        if self.n_iter != "taylor":
            return P.fixed_point(H, self.alpha, self.n_iter)
        product = P @ H
        if self.log_alpha is None and self.initial_alpha == 1:
            return product
        return (1 - self.alpha) * H + self.alpha * product

    def _choose_mean(self, x: Tensor) -> Tensor:
        if x.shape[0] < int(self.mean_n_nodes):
            return self.mean.clone()  # the buffer may change before the backward pass
        if is_sparse(x):
            mean = torch.sparse.sum(x.to_sparse_coo(), 0).to_dense() / x.shape[0]
        else:
            mean = x.mean(0)
        if self.training or self.stores_mean_in_eval or not int(self.mean_n_nodes):
            self.mean.copy_(mean.detach())
            self.mean_n_nodes.fill_(x.shape[0])
        return mean

    def extra_repr(self) -> str:
        learnt = ", learn_alpha=True" if self.log_alpha is not None else ""
        return (
            f"{self.in_channels}, {self.out_channels}, alpha={self.initial_alpha:g}, "
            f"beta={self.beta:g}, n_iter={self.n_iter!r}, "
            f"normalization={self.normalization!r}, ghost={self.ghost!r}, "
            f"center={self.center}{learnt}"
        )


def uses_ghost_edges(model: torch.nn.Module) -> bool:
    """Whether a GPCA layer of a model has beta > 0, so that the model needs labels."""
    return any(isinstance(layer, GPCAConv) and layer.beta > 0 for layer in model.modules())


@contextmanager
def storing_means(model: torch.nn.Module) -> Iterator[None]:
    """Let GPCA layers store means in evaluation mode, too.

    In training on parts of a graph, only evaluation passes the whole graph to the layers.
    """
    layers = [module for module in model.modules() if isinstance(module, GPCAConv)]
    for layer in layers:
        layer.stores_mean_in_eval = True
    try:
        yield
    finally:
        for layer in layers:
            layer.stores_mean_in_eval = False


class GCNConv(pyg.GCNConv):
    """PyG's ``GCNConv`` with a faster propagation that uses less memory.

    The parameters have the same names, so a ``state_dict`` fits both. The graph is undirected and
    every node has one self-loop of weight 1, in place of self-loops in the ``edge_index``. Edges
    that occur several times count once, or with the sum of their weights. ``improved``,
    ``normalize=False`` and ``add_self_loops=False`` are not supported.

    Parameters
    ----------
    in_channels, out_channels : int
        Size of each input and output row; -1 derives ``in_channels`` from the first input.
    bias : bool
        Learn an additive bias.
    normalization : {"sym", "rw"}
        Symmetric normalisation as in PyG, or the mean over a node and its neighbours.
    cached : bool
        Keep the edges of the first call and ignore those of later calls, as in PyG. Use it for
        transductive learning only. ``reset_parameters`` clears the cache. Without a cache the
        edges are prepared in every call; a ``GraphPropagation`` is prepared once.

    Examples
    --------
    >>> x, edges = torch.randn(4, 3), torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]])
    >>> conv, of_pyg = GCNConv(3, 2), pyg.GCNConv(3, 2)
    >>> conv.load_state_dict(of_pyg.state_dict())
    <All keys matched successfully>
    >>> torch.allclose(conv(x, edges), of_pyg(x, edges), atol=1e-6)
    True
    """

    _cached_propagation: GraphPropagation | None

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        bias: bool = True,
        normalization: Normalization = "sym",
        *,
        cached: bool = False,
    ) -> None:
        super().__init__(in_channels, out_channels, cached=cached, bias=bias)
        check_choice("normalization", normalization, ("sym", "rw"))
        self.normalization = normalization

    def reset_parameters(self) -> None:
        """Reset the parameters and clear the cache."""
        super().reset_parameters()
        self._cached_propagation = None

    def forward(
        self, x: Tensor, edge_index: EdgeInput, edge_weight: Tensor | None = None
    ) -> Tensor:
        """Run the layer; ``edge_index`` may be a tensor, a Graph or a GraphPropagation."""
        weight: Any = self.lin.weight
        if is_lazy(weight):
            self.lin.initialize_parameters(self.lin, (x,))
        check_layer_input(x, weight, weight.shape[1])
        P = self.propagation(edge_index, edge_weight, x.shape[0])
        if is_sparse(x):
            out = P @ (x @ weight.T)
        elif weight.shape[0] <= weight.shape[1]:
            out = P @ self.lin(x)
        else:
            out = self.lin(P @ x)
        return out if self.bias is None else out + self.bias

    def propagation(
        self, edges: EdgeInput, edge_weight: Tensor | None, n_nodes: int
    ) -> GraphPropagation:
        """Return the propagation matrix of some edges, or the cached one."""
        is_given = isinstance(edges, GraphPropagation)
        if self._cached_propagation is not None and not is_given:
            return self._cached_propagation
        P = to_propagation(edges, edge_weight, n_nodes, normalization=self.normalization)
        if P.normalization != self.normalization:
            raise InputError(
                f"the GraphPropagation has normalization={P.normalization!r} and the layer "
                f"normalization={self.normalization!r}; use the same for both"
            )
        if self.cached and not is_given:
            self._cached_propagation = P
        return P

    def __repr__(self) -> str:
        suffix = "" if self.normalization == "sym" else f", normalization={self.normalization!r}"
        return f"{type(self).__name__}({self.in_channels}, {self.out_channels}{suffix})"
