"""Models by name, all built from the same few numbers."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch
import torch_geometric.nn as pyg
from torch import Tensor

from ...errors import InputError
from ...utils.checks import check_choice, check_number
from ..dropout import Dropout
from ..init.gpca import gpca_init_
from ..init.random import he_init_, orthogonal_init_, xavier_init_
from ..init.report import InitReport
from ..models import GCN, GPCANet

#: Steps of APPNP, and its chance to return to where it started.
APPNP_STEPS, APPNP_RETURN = 10, 0.1


class APPNP(torch.nn.Module):
    """A perceptron whose predictions are propagated."""

    def __init__(self, *widths: int, dropout: float) -> None:
        super().__init__()
        self.mlp = MLP(*widths, dropout=dropout)
        self.propagate = pyg.APPNP(APPNP_STEPS, APPNP_RETURN)

    def forward(self, x: Tensor, edge_index: Any, edge_weight: Tensor | None = None) -> Tensor:
        return self.propagate(self.mlp(x), edge_index, edge_weight)


class MLP(torch.nn.Module):
    """Linear layers that see no edges, though they are handed some."""

    def __init__(self, *widths: int, dropout: float) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(*pair) for pair in pairwise(widths))
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor, edge_index: Any = None, edge_weight: Any = None) -> Tensor:
        for layer in self.layers[:-1]:
            x = self.dropout(torch.relu(layer(x)))
        return self.layers[-1](x)


class SGC(pyg.SGConv):
    """One linear layer on features propagated as often as it has "layers"."""

    def __init__(self, in_channels: int, out_channels: int, steps: int) -> None:
        super().__init__(in_channels, out_channels, K=steps)


def _widths(n_in: int, hidden: int, layers: int, n_out: int) -> list[int]:
    return [n_in, *[hidden] * (layers - 1), n_out]


MODELS: dict[str, Callable[..., torch.nn.Module]] = {
    "gcn": lambda i, h, n, o, dropout, **how: GCN(i, h, n, o, dropout=dropout, **how),
    "sage": lambda i, h, n, o, dropout: pyg.GraphSAGE(i, h, n, o, dropout=dropout),
    "gat": lambda i, h, n, o, dropout: pyg.GAT(i, h, n, o, dropout=dropout),
    "gatv2": lambda i, h, n, o, dropout: pyg.GAT(i, h, n, o, dropout=dropout, v2=True),
    "gin": lambda i, h, n, o, dropout: pyg.GIN(i, h, n, o, dropout=dropout),
    "appnp": lambda i, h, n, o, dropout: APPNP(*_widths(i, h, n, o), dropout=dropout),
    "mlp": lambda i, h, n, o, dropout: MLP(*_widths(i, h, n, o), dropout=dropout),
    "sgc": lambda i, h, n, o, dropout: SGC(i, o, n),
}

#: Ways to set the weights that training starts from.
INITS: dict[str, Callable[..., InitReport]] = {
    "gpca": gpca_init_,
    "xavier": xavier_init_,
    "he": he_init_,
    "orthogonal": orthogonal_init_,
}

MODEL_NAMES = (*MODELS, "gpcanet")


def build_model(
    name: str,
    in_channels: int,
    out_channels: int,
    *,
    layers: int = 2,
    hidden: int = 128,
    dropout: float = 0.5,
    **how: Any,
) -> torch.nn.Module:
    """A model by its name. ``how``: alpha, beta, n_iter for GPCANet; normalization for it and GCN.

    Examples
    --------
    >>> build_model("gcn", 10, 3, layers=4, hidden=16).num_layers
    4
    """
    check_choice("model", name, MODEL_NAMES)
    check_number("layers", layers, 1, advice="give at least one", integer=True)
    check_number("hidden", hidden, 1, advice="128 and 256 are usual", integer=True)
    check_number("dropout", dropout, 0, 0.99, advice="0 drops nothing")
    if name == "gpcanet":
        return GPCANet(in_channels, hidden, layers, out_channels, dropout, **how)
    if foreign := set(how) - ({"normalization"} if name == "gcn" else set()):
        models = "models gpcanet and gcn" if min(foreign) == "normalization" else "model gpcanet"
        raise InputError(f"{min(foreign)} is for the {models}; {name} has no such thing")
    return MODELS[name](in_channels, hidden, layers, out_channels, dropout, **how)
