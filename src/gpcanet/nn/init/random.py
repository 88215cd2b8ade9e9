"""Random initialisers with the interface of ``gpca_init_``, for comparison.

They set all weights that ``gpca_init_`` can set. ``x`` and ``edge_index`` are needed only for a
model with lazy layers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from torch import Tensor
from torch.nn.parameter import is_lazy

from ..propagation import EdgeInput
from .forward_pass import check_arguments
from .report import InitReport, LayerReport
from .rules import LayerSkipped, find_layers, find_weights


def xavier_init_(
    model: torch.nn.Module, x: Tensor | None = None, edge_index: EdgeInput = None, *, seed: int = 0
) -> InitReport:
    """Set the weights of all layers by Glorot's uniform distribution."""
    return _random_init_("xavier", torch.nn.init.xavier_uniform_, model, x, edge_index, seed)


def he_init_(
    model: torch.nn.Module, x: Tensor | None = None, edge_index: EdgeInput = None, *, seed: int = 0
) -> InitReport:
    """Set the weights of all layers by He's uniform distribution for ReLU."""
    fill = partial(torch.nn.init.kaiming_uniform_, nonlinearity="relu")
    return _random_init_("he", fill, model, x, edge_index, seed)


def orthogonal_init_(
    model: torch.nn.Module, x: Tensor | None = None, edge_index: EdgeInput = None, *, seed: int = 0
) -> InitReport:
    """Set the weights of all layers to random orthogonal matrices times sqrt(2)."""
    fill = partial(torch.nn.init.orthogonal_, gain=math.sqrt(2))
    return _random_init_("orthogonal", fill, model, x, edge_index, seed)


@torch.no_grad()
def _random_init_(
    scheme: str,
    fill: Callable[..., Tensor],
    model: torch.nn.Module,
    x: Tensor | None,
    edge_index: EdgeInput,
    seed: int,
) -> InitReport:
    if any(is_lazy(parameter) for parameter in model.parameters()):
        check_arguments(model, x, edge_index, None, None)
    generator = torch.Generator().manual_seed(seed)
    layers, without_rule = find_layers(model)
    reports = []
    for name, (layer, rule) in layers.items():
        if rule.is_container:
            continue
        kind = type(layer).__name__
        try:
            weights = find_weights(layer, rule)
        except LayerSkipped as error:
            reports.append(LayerReport(name, kind, reason=str(error)))
            continue
        for weight in weights.values():
            n_in, n_out = weight.shape[-2:]
            for index in np.ndindex(weight.shape[:-2]):
                # Drawn on the CPU, so that a seed gives the same weights on every device.
                weight[index].copy_(fill(torch.empty(n_out, n_in), generator=generator).T)
        reports.append(LayerReport(name, kind, n_in, n_out, is_set=True))
    report = InitReport(scheme, (*reports, *without_rule))
    report.raise_if_empty()
    return report
