"""GPCANet: stacked GPCA layers with a linear head, and PyG's GCN with a faster propagation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Self

import numpy as np
import torch
import torch_geometric.nn as pyg
from torch import Tensor
from torch_geometric.nn.resolver import activation_resolver

from ..errors import InputError
from ..estimators.gpca import GPCA
from ..linalg import GhostForm, Normalization
from ..utils.checks import check_number
from .conv import GCNConv, GPCAConv, Steps
from .dropout import Dropout
from .init.eigenvectors import layer_eigenvectors, mixing_matrix
from .init.report import InitReport, LayerReport
from .propagation import EdgeInput, GraphPropagation
from .tensors import check_finite_features, check_layer_input, check_seed, to_numpy_or_scipy


class GPCANet(torch.nn.Module):
    """Stacked GPCA layers and a head of one or two linear layers.

    Parameters
    ----------
    in_channels : int
        Number of features.
    hidden_channels : int
        Width of every GPCA layer.
    num_layers : int
        Number of GPCA layers, without the head.
    out_channels : int
        Width of the output, the number of classes.
    dropout : float
        Dropout probability after each layer.
    act : str, callable or None
        Activation after each GPCA layer. If it is a ReLU, ``pretrain_`` uses each eigenvector
        with both signs.
    alpha : float or sequence of float
        Strength of the graph regularisation, for all layers or for each layer.
    beta : float
        Share of the ghost edges between nodes of equal label. If positive, ``pretrain_`` and
        ``forward`` require ``y``.
    n_iter, normalization, ghost, center, learn_alpha
        As in ``GPCAConv``.
    head_layers : {1, 2}
        Number of linear layers of the head.

    Examples
    --------
    >>> _ = torch.manual_seed(0)
    >>> x, edges = torch.randn(4, 3), torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]])
    >>> model = GPCANet(3, 4, num_layers=2, out_channels=2, alpha=5.0)
    >>> model.pretrain_(x, edges).n_set
    2
    >>> model(x, edges).shape
    torch.Size([4, 2])
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        num_layers: int,
        out_channels: int,
        dropout: float = 0.0,
        act: str | Callable[[Tensor], Tensor] | None = "relu",
        *,
        alpha: float | Sequence[float] = 1.0,
        beta: float = 0.0,
        n_iter: Steps = 5,
        normalization: Normalization = "sym",
        ghost: GhostForm = "balanced",
        center: bool = True,
        learn_alpha: bool = False,
        head_layers: int = 1,
    ) -> None:
        super().__init__()
        check_number("num_layers", num_layers, 1, advice="give at least one layer", integer=True)
        if head_layers not in (1, 2):
            raise InputError(f"head_layers={head_layers} must be 1 or 2")
        alphas: Any = [alpha] * num_layers if np.ndim(alpha) == 0 else np.asarray(alpha).tolist()
        if len(alphas) != num_layers:
            raise InputError(
                f"alpha has {len(alphas)} values for {num_layers} layers; give one for all, or "
                f"one for each"
            )
        self.in_channels, self.hidden_channels = in_channels, hidden_channels
        self.num_layers, self.out_channels = num_layers, out_channels
        self.dropout = Dropout(dropout)
        self.act = activation_resolver(act)
        widths = [in_channels] + [hidden_channels] * num_layers
        self.convs = torch.nn.ModuleList(
            GPCAConv(
                widths[layer], widths[layer + 1], alphas[layer], beta, n_iter, normalization,
                ghost=ghost, center=center, learn_alpha=learn_alpha,
            )
            for layer in range(num_layers)
        )  # fmt: skip
        hidden = [torch.nn.Linear(hidden_channels, hidden_channels)] * (head_layers - 1)
        self.head = torch.nn.ModuleList([*hidden, torch.nn.Linear(hidden_channels, out_channels)])

    def reset_parameters(self) -> None:
        """Reset the parameters of all layers."""
        for layer in (*self.convs, *self.head):
            layer.reset_parameters()

    def propagation(
        self, edge_index: EdgeInput, edge_weight: Tensor | None, n_nodes: int, y: Tensor | None
    ) -> GraphPropagation:
        """Return the propagation matrix, which ``forward`` accepts in place of ``edge_index``."""
        conv: Any = self.convs[0]
        return conv.propagation(edge_index, edge_weight, n_nodes, y)

    def forward(
        self,
        x: Tensor,
        edge_index: EdgeInput,
        edge_weight: Tensor | None = None,
        y: Tensor | None = None,
    ) -> Tensor:
        """Run the model; the arguments are those of ``GPCAConv.forward``."""
        self._check_features(x)
        P = self.propagation(edge_index, edge_weight, x.shape[0], y)
        for conv in self.convs:
            x = self.dropout(self._activate(conv(x, P)))
        for linear in self.head[:-1]:
            x = self.dropout(torch.relu(linear(x)))
        return self.head[-1](x)

    def _check_features(self, x: Any) -> None:
        first: Any = self.convs[0]
        check_layer_input(x, first.weight, first.in_channels)

    def _has_relu(self) -> bool:
        return self.act is not None and self.act(torch.tensor([-1.0, 1.0])).tolist() == [0.0, 1.0]

    def _activate(self, x: Tensor) -> Tensor:
        return x if self.act is None else self.act(x)

    @torch.no_grad()
    def pretrain_(
        self,
        x: Tensor,
        edge_index: EdgeInput,
        y: Tensor | None = None,
        edge_weight: Tensor | None = None,
        *,
        seed: int = 0,
    ) -> InitReport:
        """Set the weights of all GPCA layers in closed form; the head is left alone.

        The weights of a layer are the components of ``GPCA`` on its input H: the leading
        eigenvectors of H^T F, or of H^T D F for the random walk. A layer that is wider than the
        number of eigenvectors gets additional random directions in their span, drawn by ``seed``.
        """
        self._check_features(x)
        check_finite_features(x)
        check_seed(seed)
        P = self.propagation(edge_index, edge_weight, x.shape[0], y)
        pairs = self._has_relu()
        layers = []
        for index, layer in enumerate(self.convs):
            conv: Any = layer
            rank = min(conv.in_channels, x.shape[0])
            C = mixing_matrix(rank, conv.out_channels, pairs=pairs, seed=seed)
            conv.weight.copy_(torch.from_numpy(_components(conv, x, P, len(C)) @ C))
            if conv.bias is not None:
                conv.bias.zero_()
            conv.reset_mean()
            x = self._activate(conv(x, P))
            layers.append(
                LayerReport(
                    f"convs.{index}", "GPCAConv", conv.in_channels, conv.out_channels, is_set=True
                )
            )
        layers += [
            LayerReport(f"head.{index}", "Linear", reason="the head is trained on labels")
            for index in range(len(self.head))
        ]
        return InitReport("gpca", tuple(layers))

    def freeze(self) -> Self:
        """Freeze the GPCA layers, so that only the head is trained, on stacked GPCA."""
        for parameter in self.convs.parameters():
            parameter.requires_grad_(False)
        return self


def _components(conv: GPCAConv, x: Tensor, P: GraphPropagation, k: int) -> np.ndarray:
    """Return the k leading eigenvectors of H^T F as columns."""
    if conv.n_iter == "taylor" or conv.n_iter == 0 or not conv.center:
        return layer_eigenvectors(x, partial(conv.aggregate, P), k, center=conv.center).vectors
    gpca = GPCA(
        k, alpha=float(conv.alpha), normalization=P.normalization, solver="fixed-point",
        n_iter=conv.n_iter, beta=P.beta, ghost=P.ghost,
    )  # fmt: skip
    return gpca.fit(to_numpy_or_scipy(x), P.labels, graph=P.graph).components_.T


class GCN(pyg.GCN):
    """PyG's ``GCN`` with a faster propagation and dropout.

    The arguments and the names of the parameters are those of PyG. Edges are prepared once per
    call for all layers, or with ``cached=True`` in the first call only (see ``GCNConv``).

    Examples
    --------
    >>> x, edges = torch.randn(4, 3), torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]])
    >>> model = GCN(3, hidden_channels=8, num_layers=2, out_channels=2, dropout=0.5)
    >>> model(x, edges).shape
    torch.Size([4, 2])
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.dropout: Dropout = Dropout(self.get_submodule("dropout").p)

    def forward(
        self,
        x: Tensor,
        edge_index: EdgeInput,
        edge_weight: Tensor | None = None,
        **kwargs: Any,
    ) -> Tensor:
        """Run the model; ``edge_index`` may be a tensor, a Graph or a GraphPropagation."""
        # With sampled neighbours every layer has its own edges.
        if isinstance(x, Tensor) and kwargs.get("num_sampled_nodes_per_hop") is None:
            first: Any = self.convs[0]
            edge_index = first.propagation(edge_index, edge_weight, x.shape[0])
            edge_weight = None
        return super().forward(x, edge_index, edge_weight, **kwargs)

    def init_conv(self, in_channels: int, out_channels: int, **kwargs: Any) -> GCNConv:
        return GCNConv(in_channels, out_channels, **kwargs)
