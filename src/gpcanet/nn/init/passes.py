"""One forward pass over a model that leaves everything but weights as it was."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
import torch_geometric.nn as pyg
from torch import Tensor
from torch.nn.parameter import is_lazy

from ...errors import InputError, InputTypeError
from ..checks import check_edge_index, check_finite_features, check_same_device
from ..propagation import Edges
from ..tensors import is_sparse
from .layers import Rule, rule_of
from .report import LayerReport

Forward = Callable[[torch.nn.Module], Any]

#: The name of a layer that is the model itself.
THE_MODEL = "(the model)"


def layers_of(
    model: torch.nn.Module,
) -> tuple[dict[str, tuple[torch.nn.Module, Rule]], list[LayerReport]]:
    """Layers with a rule, by name; and those with weights that stay as they are."""
    layers: dict[str, tuple[torch.nn.Module, Rule]] = {}
    left: list[LayerReport] = []
    closed: list[str] = []  # what is inside belongs to the layer
    for name, module in model.named_modules():
        if any(name.startswith(prefix) for prefix in closed):
            continue
        rule, shown = rule_of(module), name or THE_MODEL
        if rule is not None:
            layers[shown] = (module, rule)
            if not rule.passes_on:
                closed.append(f"{name}." if name else "")
        elif isinstance(module, pyg.MessagePassing) and any(True for _ in module.parameters()):
            kind = type(module).__name__
            reason = f"no rule for {kind}; register_layer({kind}, ...) makes one"
            left.append(LayerReport(shown, kind, reason=reason))
            closed.append(f"{name}." if name else "")
        elif any(True for _ in module.parameters(recurse=False)):
            left.append(
                LayerReport(shown, type(module).__name__, reason="not a convolution, nor linear")
            )
    return layers, left


@contextmanager
def as_it_was(model: torch.nn.Module) -> Iterator[None]:
    """Evaluation mode inside, and afterwards every flag and cache as before.

    In evaluation mode a pass draws no random numbers and changes no running means.
    """
    training = {module: module.training for module in model.modules()}
    attributes = [(vars(module), name) for module in model.modules() for name in vars(module)]
    caches = [(held, name, held[name]) for held, name in attributes if name.startswith("_cached")]
    buffers = [
        (module._buffers, name, buffer, None if buffer is None else buffer.clone())
        for module in model.modules()
        for name, buffer in module._buffers.items()
        if not (buffer is not None and is_lazy(buffer))
    ]
    model.eval()
    try:
        yield
    finally:
        for module, flag in training.items():
            module.training = flag
        for held, name, value in caches:
            held[name] = value
        for kept, name, buffer, values in buffers:
            kept[name] = buffer
            if buffer is not None:
                buffer.copy_(values)


def run(
    model: torch.nn.Module,
    x: Any,
    edge_index: Edges,
    edge_weight: Tensor | None,
    forward: Forward | None,
) -> Any:
    """Call the model and return what it or ``forward`` returns."""
    extra = {} if edge_weight is None else {"edge_weight": edge_weight}
    edges = () if edge_index is None else (edge_index,)
    try:
        if forward is not None:
            return forward(model)
        return model(x, *edges, **extra)
    except NotImplementedError as error:
        if not is_sparse(x):
            raise
        raise InputError(
            "the model looks up neighbours before it projects, which torch cannot do with sparse "
            "features; give x.to_dense()"
        ) from error


def check_arguments(
    model: Any, x: Any, edge_index: Any, edge_weight: Any, forward: Forward | None
) -> None:
    if not isinstance(model, torch.nn.Module):
        raise InputTypeError(f"model is a {type(model).__name__}; give a torch.nn.Module")
    if not isinstance(x, Tensor):
        raise InputTypeError(
            f"x is a {type(x).__name__}; give the features of all nodes as one tensor and the "
            f"edges of the whole graph, also for a model that is trained on mini-batches"
        )
    weights = [parameter for parameter in model.parameters() if not is_lazy(parameter)]
    if weights and x.device not in {weight.device for weight in weights}:
        check_same_device(x, weights[0])
    check_finite_features(x)
    convolves = any(isinstance(module, pyg.MessagePassing) for module in model.modules())
    if isinstance(edge_index, list | tuple | np.ndarray):
        raise InputTypeError(
            f"edge_index is a {type(edge_index).__name__}; give a tensor or a Graph"
        )
    if isinstance(edge_index, Tensor) and convolves:  # other models may take a dense adjacency
        if edge_index.device != x.device:
            raise InputError(
                f"edge_index is on device {edge_index.device} and x on {x.device}; move one of them"
            )
        if edge_index.layout == torch.strided:
            check_edge_index(edge_index, edge_weight, x.shape[0])
    if edge_index is None and forward is None and convolves:
        raise InputError("the model has graph convolutions; give edge_index")
    if any(is_lazy(parameter) for parameter in model.parameters()):
        with as_it_was(model):  # gives them their shapes
            run(model, x, edge_index, edge_weight, forward)
