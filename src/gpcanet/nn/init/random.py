"""Random weights by the interface of ``gpca_init_``, to compare it with."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.parameter import is_lazy

from ..propagation import Edges
from .layers import LayerUnset, weights_of
from .passes import check_arguments, layers_of
from .report import InitReport, LayerReport


def xavier_init_(
    model: torch.nn.Module, x: Tensor | None = None, edge_index: Edges = None, *, seed: int = 0
) -> InitReport:
    """Glorot's uniform weights in every layer that ``gpca_init_`` knows."""
    return _random_init_("xavier", torch.nn.init.xavier_uniform_, model, x, edge_index, seed)


def he_init_(
    model: torch.nn.Module, x: Tensor | None = None, edge_index: Edges = None, *, seed: int = 0
) -> InitReport:
    """He's uniform weights for ReLU in every layer that ``gpca_init_`` knows."""

    def fill(weight: Tensor, generator: torch.Generator) -> Tensor:
        return torch.nn.init.kaiming_uniform_(weight, nonlinearity="relu", generator=generator)

    return _random_init_("he", fill, model, x, edge_index, seed)


def orthogonal_init_(
    model: torch.nn.Module, x: Tensor | None = None, edge_index: Edges = None, *, seed: int = 0
) -> InitReport:
    """Random orthogonal weights times the square root of 2 in every layer that is known."""

    def fill(weight: Tensor, generator: torch.Generator) -> Tensor:
        return torch.nn.init.orthogonal_(weight, gain=math.sqrt(2), generator=generator)

    return _random_init_("orthogonal", fill, model, x, edge_index, seed)


@torch.no_grad()
def _random_init_(
    scheme: str,
    fill: Callable[..., Tensor],
    model: torch.nn.Module,
    x: Tensor | None,
    edge_index: Edges,
    seed: int,
) -> InitReport:
    if any(is_lazy(parameter) for parameter in model.parameters()):
        check_arguments(model, x, edge_index, None, None)  # which gives them their shapes
    generator = torch.Generator().manual_seed(seed)
    layers, left = layers_of(model)
    reports = []
    for name, (layer, rule) in layers.items():
        if rule.passes_on:
            continue
        kind = type(layer).__name__
        try:
            weights = weights_of(layer, rule)
        except LayerUnset as error:
            reports.append(LayerReport(name, kind, reason=str(error)))
            continue
        n_in, n_out = weights[0].matrix.shape
        for weight in weights:
            # On the CPU, so that a seed means the same on every device.
            weight.matrix.copy_(fill(torch.empty(n_out, n_in), generator=generator).T)
        reports.append(LayerReport(name, kind, n_in, n_out, is_set=True))
    return InitReport(scheme, (*reports, *left)).unless_nothing()
