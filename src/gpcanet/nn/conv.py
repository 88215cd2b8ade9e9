"""GPCAConv, a layer of GPCANet; and PyG's GCNConv with our propagation."""

from __future__ import annotations

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
from .checks import check_layer_input
from .propagation import Edges, GraphPropagation, as_propagation

#: Steps of the fixed point, or the first-order Taylor series, (1 - alpha) H + alpha P H.
Steps = int | Literal["taylor"]


class GPCAConv(torch.nn.Module):
    """One layer of GPCANet (Algorithm 1 of the paper): centre, propagate, project.

    With H the input less its mean, F after ``n_iter`` steps of
    ``F <- alpha/(1+alpha) P F + 1/(1+alpha) H``, the output is ``F W + b``.

    Parameters
    ----------
    in_channels, out_channels : int
    alpha : float
        How much neighbours are drawn together; 0 ignores the graph.
    beta : float
        Share of ghost edges between nodes of equal label; ``forward`` then needs ``y``.
    n_iter : int or "taylor"
        Steps of the fixed point. ``"taylor"`` is the first-order series instead; with ``alpha=1``
        and ``center=False`` the layer then is a GCN layer.
    normalization : {"sym", "rw"}
    ghost : {"balanced", "paper"}
    center : bool
        Subtract the mean row. It is that of the whole graph: a pass over at least as many nodes
        as any before takes its own mean, and keeps it while training; a smaller one, a
        mini-batch, uses the mean that was kept.
    bias : bool
    learn_alpha : bool
        Let alpha be a parameter, held as its logarithm.

    Examples
    --------
    >>> conv = GPCAConv(2, 1, alpha=5.0)
    >>> conv(torch.eye(3, 2), torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])).shape
    torch.Size([3, 1])
    """

    mean: Tensor
    seen: Tensor

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
        check_number("alpha", alpha, 0, 1e6, advice="use alpha=0 to ignore the graph")
        check_number("beta", beta, 0, 1, advice="use beta=0 to ignore labels")
        check_choice("normalization", normalization, ("sym", "rw"))
        check_choice("ghost", ghost, ("balanced", "paper"))
        if n_iter != "taylor":
            check_number("n_iter", n_iter, 0, advice="or use n_iter='taylor'", integer=True)
        if learn_alpha and alpha <= 0:
            raise InputError(f"alpha={alpha} cannot be learnt from; start from one above 0")
        self.in_channels, self.out_channels = in_channels, out_channels
        self.beta, self.n_iter, self.center = float(beta), n_iter, center
        self.normalization, self.ghost = normalization, ghost
        self.initial_alpha = float(alpha)
        self.keeps_mean = False  # in evaluation mode, too
        self.weight = torch.nn.Parameter(torch.empty(in_channels, out_channels))
        self.bias = torch.nn.Parameter(torch.empty(out_channels)) if bias else None
        self.log_alpha = torch.nn.Parameter(torch.empty(())) if learn_alpha else None
        self.register_buffer("mean", torch.zeros(in_channels))
        self.register_buffer("seen", torch.zeros((), dtype=torch.int64))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        glorot(self.weight)
        zeros(self.bias)
        self.mean.zero_()
        self.seen.zero_()
        if self.log_alpha is not None:
            torch.nn.init.constant_(self.log_alpha, float(torch.tensor(self.initial_alpha).log()))

    @property
    def alpha(self) -> float | Tensor:
        """The strength of the graph, a tensor where it is learnt."""
        return self.initial_alpha if self.log_alpha is None else self.log_alpha.exp()

    def forward(
        self,
        x: Tensor,
        edge_index: Edges,
        edge_weight: Tensor | None = None,
        y: Tensor | None = None,
    ) -> Tensor:
        """Rows of the output for rows of x.

        ``edge_index`` may also be a sparse adjacency, a ``Graph``, or a ``GraphPropagation``,
        whose own normalisation, labels and beta then count. Edges are prepared in every call;
        a ``GraphPropagation`` is prepared once.
        """
        check_layer_input(x, self.weight, self.in_channels)
        P = self.propagation(edge_index, edge_weight, x.shape[0], y)
        mean = self._mean_of(x) if self.center else None
        # All is linear, so what is narrower goes through the graph. A sparse x stays sparse.
        if x.layout != torch.strided or self.out_channels < self.in_channels:
            out = x @ self.weight
            out = out if mean is None else out - mean @ self.weight
            out = self._propagate(P, out)
        else:
            out = self._propagate(P, x if mean is None else x - mean) @ self.weight
        return out if self.bias is None else out + self.bias

    def propagation(
        self, edges: Edges, edge_weight: Tensor | None, n_nodes: int, y: Tensor | None = None
    ) -> GraphPropagation:
        """The propagation matrix of some edges; a given one is returned as it is."""
        return as_propagation(
            edges, edge_weight, n_nodes,
            normalization=self.normalization, y=y, beta=self.beta, ghost=self.ghost,
        )  # fmt: skip

    def _propagate(self, P: GraphPropagation, H: Tensor) -> Tensor:
        if self.n_iter != "taylor":
            return P.fixed_point(H, self.alpha, self.n_iter)
        product = P @ H
        if self.log_alpha is None and self.initial_alpha == 1:
            return product
        return (1 - self.alpha) * H + self.alpha * product

    def _mean_of(self, x: Tensor) -> Tensor:
        if x.shape[0] < int(self.seen):
            return self.mean.clone()  # the buffer may be written to before a backward pass
        if x.layout == torch.strided:
            mean = x.mean(0)
        else:
            mean = torch.sparse.sum(x.to_sparse_coo(), 0).to_dense() / x.shape[0]
        if self.training or self.keeps_mean or not int(self.seen):
            self.mean.copy_(mean.detach())
            self.seen.fill_(x.shape[0])
        return mean

    def extra_repr(self) -> str:
        learnt = ", learn_alpha=True" if self.log_alpha is not None else ""
        return (
            f"{self.in_channels}, {self.out_channels}, alpha={self.initial_alpha:g}, "
            f"beta={self.beta:g}, n_iter={self.n_iter!r}, "
            f"normalization={self.normalization!r}, ghost={self.ghost!r}, "
            f"center={self.center}{learnt}"
        )


@contextmanager
def keeping_means(model: torch.nn.Module) -> Iterator[None]:
    """Let GPCA layers keep the means of a pass in evaluation mode.

    Who trains on parts of a graph sees all of it only when it looks at the accuracies.
    """
    layers = [module for module in model.modules() if isinstance(module, GPCAConv)]
    for layer in layers:
        layer.keeps_mean = True
    try:
        yield
    finally:
        for layer in layers:
            layer.keeps_mean = False


class GCNConv(pyg.GCNConv):
    """PyG's ``GCNConv`` through our propagation: the same numbers in less time and memory.

    Parameters and their names are PyG's, so that weights go from one to the other. The graph is
    undirected, its own self-loops are left out, and every node gets one of weight 1; what PyG
    does otherwise (``improved``, ``normalize=False``, ``add_self_loops=False``) is not to be had.
    ``normalization="rw"``, the mean of a node and its neighbours, is, which PyG has not.

    Edges are prepared in every call; a ``GraphPropagation`` in their place is prepared once.
    With ``cached=True`` the layer keeps the first edges it gets and ignores all later ones, so
    this is for transductive learning only, as in PyG. ``reset_parameters`` clears the cache.
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
        super().reset_parameters()
        self._cached_propagation = None

    def forward(self, x: Tensor, edge_index: Edges, edge_weight: Tensor | None = None) -> Tensor:
        weight: Any = self.lin.weight
        if is_lazy(weight):
            self.lin.initialize_parameters(self.lin, (x,))
        check_layer_input(x, weight, weight.shape[1])
        P = self.propagation(edge_index, edge_weight, x.shape[0])
        if x.layout != torch.strided:
            out = P @ (x @ weight.T)
        elif weight.shape[0] <= weight.shape[1]:
            out = P @ self.lin(x)
        else:
            out = self.lin(P @ x)
        return out if self.bias is None else out + self.bias

    def propagation(
        self, edges: Edges, edge_weight: Tensor | None, n_nodes: int
    ) -> GraphPropagation:
        """The propagation matrix of some edges; a given one must have this normalization."""
        is_given = isinstance(edges, GraphPropagation)
        if self._cached_propagation is not None and not is_given:
            return self._cached_propagation
        P = as_propagation(edges, edge_weight, n_nodes, normalization=self.normalization)
        if P.normalization != self.normalization:
            raise InputError(
                f"the propagation is of normalization={P.normalization!r}, this layer of "
                f"{self.normalization!r}; make both the same"
            )
        if self.cached and not is_given:
            self._cached_propagation = P
        return P

    def __repr__(self) -> str:
        how = "" if self.normalization == "sym" else f", normalization={self.normalization!r}"
        return f"{type(self).__name__}({self.in_channels}, {self.out_channels}{how})"
