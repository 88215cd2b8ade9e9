"""Models by name, built with the same arguments, and initialised."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any, Literal

import torch
import torch_geometric.nn as pyg
from torch import Tensor

from ...errors import InputError
from ...utils.checks import check_choice, check_number
from ..dropout import Dropout
from ..init.gpca import gpca_init_
from ..init.head import HeadKind
from ..init.lsuv import lsuv_init_
from ..init.random import g_init_, he_init_, orthogonal_init_, xavier_init_
from ..init.report import InitReport
from ..init.rules import find_layers
from ..init.spog import spog_init_
from ..init.virgo import virgo_init_
from ..models import GCN, GPCANet
from .data import NodeData, densify_if_needed, prepare_edges

#: Propagation steps of APPNP.
APPNP_STEPS = 10

#: Teleport probability of APPNP.
APPNP_TELEPORT = 0.1


class MLP(torch.nn.Module):
    """Multi-layer perceptron that accepts edges and ignores them."""

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        num_layers: int,
        out_channels: int,
        dropout: float,
    ) -> None:
        super().__init__()
        self.in_channels, self.hidden_channels = in_channels, hidden_channels
        self.num_layers, self.out_channels = num_layers, out_channels
        widths = [in_channels, *[hidden_channels] * (num_layers - 1), out_channels]
        self.layers = torch.nn.ModuleList(torch.nn.Linear(*pair) for pair in pairwise(widths))
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor, edge_index: Any = None, edge_weight: Any = None) -> Tensor:
        for layer in self.layers[:-1]:
            x = self.dropout(torch.relu(layer(x)))
        return self.layers[-1](x)


class APPNP(torch.nn.Module):
    """Multi-layer perceptron whose predictions are propagated."""

    def __init__(self, *args: Any) -> None:
        super().__init__()
        self.mlp = MLP(*args)
        self.in_channels, self.out_channels = self.mlp.in_channels, self.mlp.out_channels
        self.propagate = pyg.APPNP(APPNP_STEPS, APPNP_TELEPORT)

    def forward(self, x: Tensor, edge_index: Any, edge_weight: Tensor | None = None) -> Tensor:
        return self.propagate(self.mlp(x), edge_index, edge_weight)


#: Called with in_channels, hidden_channels, num_layers, out_channels and dropout.
MODELS: dict[str, Callable[..., torch.nn.Module]] = {
    "gcn": GCN,
    "sage": pyg.GraphSAGE,
    "gat": pyg.GAT,
    "gatv2": partial(pyg.GAT, v2=True),
    "gin": pyg.GIN,
    "appnp": APPNP,
    "mlp": MLP,
    "sgc": lambda i, hidden, n, o, dropout: pyg.SGConv(i, o, K=n),
    "gpcanet": GPCANet,
}

MODEL_NAMES = tuple(MODELS)

#: Initialisers by name.
INITS: dict[str, Callable[..., InitReport]] = {
    "gpca": gpca_init_,
    "xavier": xavier_init_,
    "he": he_init_,
    "orthogonal": orthogonal_init_,
    "lsuv": lsuv_init_,
    "virgo": virgo_init_,
    "spog": spog_init_,
    "ginit": g_init_,
}


def build_model(
    name: str,
    in_channels: int,
    out_channels: int,
    *,
    layers: int = 2,
    hidden: int = 128,
    dropout: float = 0.5,
    **kwargs: Any,
) -> torch.nn.Module:
    """Build a model by its name.

    Further keyword arguments: those of ``GPCANet`` for gpcanet, normalization for gcn.

    Examples
    --------
    >>> build_model("gcn", 10, 3, layers=4, hidden=16).num_layers
    4
    """
    check_choice("model", name, MODEL_NAMES)
    check_number("layers", layers, 1, advice="give at least one", integer=True)
    check_number("hidden", hidden, 1, advice="128 and 256 are usual", integer=True)
    check_number("dropout", dropout, 0, 0.99, advice="use dropout=0 for no dropout")
    allowed = {"gpcanet": set(kwargs), "gcn": {"normalization"}}.get(name, set())
    if unknown := set(kwargs) - allowed:
        models = "models gpcanet and gcn" if min(unknown) == "normalization" else "model gpcanet"
        raise InputError(f"{min(unknown)} applies to the {models} only; leave it out for {name}")
    return MODELS[name](in_channels, hidden, layers, out_channels, dropout, **kwargs)


def model_arguments(name: str, model: torch.nn.Module) -> dict[str, Any]:
    """Return the arguments of ``build_model`` for a model of this name.

    Examples
    --------
    >>> model_arguments("sage", build_model("sage", 10, 3, hidden=16))
    {'in_channels': 10, 'out_channels': 3, 'layers': 2, 'hidden': 16, 'dropout': 0.5}
    """
    part: Any = model.mlp if isinstance(model, APPNP) else model
    arguments: dict[str, Any] = {
        "in_channels": int(part.in_channels),
        "out_channels": int(part.out_channels),
    }
    if name == "sgc":  # a single layer, without hidden channels and dropout
        return arguments | {"layers": int(part.K)}
    arguments |= {
        "layers": int(part.num_layers),
        "hidden": int(part.hidden_channels),
        "dropout": float(part.dropout.p),
    }
    if name == "gcn":
        arguments["normalization"] = part.convs[0].normalization
    if name == "gpcanet":
        first = part.convs[0]
        arguments |= {
            "act": None if part.act is None else "relu",
            "alpha": [conv.initial_alpha for conv in part.convs],
            "beta": first.beta,
            "n_iter": first.n_iter if first.n_iter == "taylor" else int(first.n_iter),
            "normalization": first.normalization,
            "ghost": first.ghost,
            "center": bool(first.center),
            "learn_alpha": first.log_alpha is not None,
            "head_layers": len(part.head),
        }
    return arguments


def build_initialized_model(
    name: str,
    data: NodeData,
    *,
    init: str = "xavier",
    spectrum: float | Literal["auto", "paper"] = "auto",
    head: HeadKind | None = None,
    seed: int = 0,
    **kwargs: Any,
) -> tuple[torch.nn.Module, InitReport]:
    """Build a model for some data and set its weights; the seed makes them reproducible.

    ``init="gpca"`` means ``pretrain_`` for GPCANet and ``gpca_init_`` for other models. Then
    ``head`` sets the output layer from the labels of the training nodes; without it, the output
    layer has Xavier weights, unless it is the only layer.
    """
    check_choice("init", init, tuple(INITS))
    with torch.random.fork_rng([]):
        torch.manual_seed(seed)  # for biases, attention and norms, which no initialiser sets
        model = build_model(name, data.x.shape[1], data.n_classes, **kwargs)
    data = densify_if_needed(model, data)
    edges = prepare_edges(model, data)
    if init != "gpca":
        return model, INITS[init](model, data.x, *edges, seed=seed)
    xavier_init_(model, data.x, *edges, seed=seed)  # for the output layer
    layers = [layer.name for layer in find_layers(model)[0].values() if not layer.rule.is_container]
    labels: dict[str, Any] = {}
    if head is not None:
        labels = {
            "head": head, "y": data.y, "train_mask": data.train, "val_mask": data.validation
        }  # fmt: skip
    if isinstance(model, GPCANet):
        report = model.pretrain_(data.x, edges.edge_index, seed=seed)
        if head is not None:
            report = report.updated(gpca_init_(model, data.x, *edges, skip=layers[:-1], **labels))
        return model, report
    return model, gpca_init_(
        model, data.x, *edges, spectrum=spectrum, last=len(layers) == 1, seed=seed, **labels
    )
