"""Layer-sequential unit-variance initialisation (Mishkin and Matas, 2016)."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from ..propagation import EdgeInput
from .forward_pass import check_arguments, preserved_state, run_model
from .layer_weights import LayerWeights, ModelWeights
from .model_input import Forward
from .report import InitReport

#: Accepted deviation of the variance from 1.
TOLERANCE = 1e-4

#: Largest number of rescalings. A layer that is linear in its weights needs one. With a bias or
#: attention it needs a few more.
MAX_STEPS = 20

#: Exponent of the variance as a function of the scale, for a layer that is linear in its weights.
LINEAR_SLOPE = 2.0

#: Exponents below this are replaced by that of a linear layer, because their steps are too long.
MIN_SLOPE = 0.5

#: Largest logarithm of a scale; exp(80) is still finite in float32.
MAX_LOG_SCALE = 80.0


@torch.no_grad()
def lsuv_init_(
    model: torch.nn.Module,
    x: Tensor,
    edge_index: EdgeInput = None,
    edge_weight: Tensor | None = None,
    *,
    seed: int = 0,
    forward: Forward | None = None,
) -> InitReport:
    """Set orthonormal weights, scaled so that the output of every layer has variance 1.

    Source: D. Mishkin, J. Matas, "All you need is a good init", ICLR 2016. In one forward pass,
    each layer gets random orthonormal weights before it runs. They are divided by the standard
    deviation of all entries of the layer's output, before any activation. Where the output is not
    linear in the weights, because of a bias or attention, further steps of the secant method follow
    (the paper repeats the division). All layers are set that ``gpca_init_`` can set, output layers
    as well; biases are left alone.

    Parameters
    ----------
    model, x, edge_index, edge_weight, forward
        As in ``gpca_init_``.
    seed : int
        Random seed of the orthonormal weights.

    Returns
    -------
    InitReport
        If no scale gives a layer variance 1, because its output is constant, normalised or
        dominated by a residual connection, its weights are orthonormal and the reason is stated.

    Examples
    --------
    >>> import torch_geometric.nn as pyg
    >>> x, edges = torch.eye(6, 4), torch.tensor([[0, 1, 2, 3, 4, 5], [1, 0, 3, 2, 5, 4]])
    >>> conv = pyg.GCNConv(4, 8)
    >>> lsuv_init_(conv, x, edges).n_set
    1
    >>> round(conv(x, edges).var(correction=0).item(), 3)
    1.0
    """
    given = check_arguments(model, x, edge_index, edge_weight, forward)
    weights = ModelWeights("lsuv", model, seed)

    def set_before_first_run(
        found: LayerWeights, first: Any, args: tuple[Any, ...], kwargs: Any
    ) -> None:
        if found.name not in weights.reasons:
            weights.draw_(found, torch.nn.init.orthogonal_)
            run = partial(found.layer.module.forward, first, *args, **kwargs)
            weights.reasons[found.name] = _scale_to_unit_variance(found, run)

    hooked = weights.before_each_run(set_before_first_run)
    with preserved_state(model), weights.restored_on_error(), hooked:
        run_model(model, given)
    return weights.report()


def _scale_to_unit_variance(found: LayerWeights, run: Callable[[], Any]) -> str:
    """Scale the weights, or leave them alone and return the reason; ``run`` calls the layer."""
    start = [matrix.clone() for matrix in found.matrices]
    tolerance = max(TOLERANCE, torch.finfo(start[0].dtype).eps)
    log_scale, step, last = 0.0, 0.0, 0.0
    for _ in range(MAX_STEPS):
        variance = _variance(run())
        if abs(variance - 1) <= tolerance:
            return ""
        if not 0 < variance < math.inf or abs(log_scale) > MAX_LOG_SCALE:
            break
        value = math.log(variance)
        slope = (value - last) / step if step else LINEAR_SLOPE
        step, last = -value / (slope if slope > MIN_SLOPE else LINEAR_SLOPE), value
        log_scale += step
        found.copy_scaled_(start, math.exp(log_scale))
    found.copy_scaled_(start, 1.0)
    return "orthonormal, as no scale of its weights gives its output variance 1"


def _variance(output: Any) -> float:
    """Variance of all entries; of the first result if a layer returns several."""
    if isinstance(output, tuple):
        output = output[0]
    return float(output.double().var(correction=0))
