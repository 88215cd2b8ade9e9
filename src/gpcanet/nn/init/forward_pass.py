"""One forward pass of a model for an initialiser: check the arguments, run, restore the state."""

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
from ..propagation import EdgeInput
from ..tensors import check_finite_features, check_same_device, dtype_name, is_sparse

#: Runs a model that is not called as model(x, edge_index).
Forward = Callable[[torch.nn.Module], Any]


@contextmanager
def preserved_state(model: torch.nn.Module) -> Iterator[None]:
    """Evaluation mode inside the block; afterwards modes, buffers and caches are restored.

    In evaluation mode a pass draws no random numbers and updates no running means.
    """
    modules = list(model.modules())
    modes = [module.training for module in modules]
    caches = [
        (module, name, value)
        for module in modules
        for name, value in vars(module).items()
        if name.startswith("_cached")  # as PyG calls them
    ]
    buffers = [
        {
            name: (buffer, None if is_lazy(buffer) else buffer.clone())
            for name, buffer in module.named_buffers(recurse=False)
        }
        for module in modules
    ]
    model.eval()
    try:
        yield
    finally:
        for module, mode, before in zip(modules, modes, buffers, strict=True):
            module.training = mode
            for name in dict(module.named_buffers(recurse=False)).keys() - before.keys():
                setattr(module, name, None)
            for name, (buffer, values) in before.items():
                if values is not None:
                    setattr(module, name, buffer)
                    buffer.copy_(values)
        for module, name, value in caches:
            setattr(module, name, value)


def run_model(
    model: torch.nn.Module,
    x: Any,
    edge_index: EdgeInput,
    edge_weight: Tensor | None,
    forward: Forward | None,
) -> Any:
    """Call ``forward(model)`` or ``model(x, edge_index)`` and return the result."""
    edges = () if edge_index is None else (edge_index,)
    weights = {} if edge_weight is None else {"edge_weight": edge_weight}
    try:
        return model(x, *edges, **weights) if forward is None else forward(model)
    except NotImplementedError as error:
        if not is_sparse(x):
            raise
        raise InputError(
            "a layer of the model gathers neighbours before it projects, which torch does not "
            "support for sparse features; give x.to_dense()"
        ) from error


def check_arguments(
    model: Any, x: Any, edge_index: Any, edge_weight: Any, forward: Forward | None
) -> None:
    """Raise an error if the model cannot run on these arguments; give lazy layers their shapes."""
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
    has_convolutions = any(isinstance(module, pyg.MessagePassing) for module in model.modules())
    if isinstance(edge_index, list | tuple | np.ndarray):
        raise InputTypeError(
            f"edge_index is a {type(edge_index).__name__}; give a tensor or a Graph"
        )
    # A model without convolutions of PyG may take a dense adjacency matrix.
    if isinstance(edge_index, Tensor) and has_convolutions:
        if edge_index.device != x.device:
            raise InputError(
                f"edge_index is on device {edge_index.device} and x on {x.device}; move one of them"
            )
        if not is_sparse(edge_index):
            _check_edge_index(edge_index, edge_weight, x.shape[0])
    if edge_index is None and forward is None and has_convolutions:
        raise InputError("the model has graph convolutions; give edge_index")
    if len(weights) < sum(1 for _ in model.parameters()):
        with preserved_state(model):
            run_model(model, x, edge_index, edge_weight, forward)


def _check_edge_index(edge_index: Tensor, edge_weight: Any, n_nodes: int) -> None:
    if edge_index.dim() != 2 or edge_index.shape[0] != 2:
        raise InputError(
            f"edge_index of shape {tuple(edge_index.shape)} must have shape (2, n_edges); "
            f"transpose a list of pairs"
        )
    if edge_index.is_floating_point() or edge_index.is_complex() or edge_index.dtype == torch.bool:
        raise InputTypeError(
            f"edge_index of dtype {dtype_name(edge_index)} must hold integer node positions; "
            f"convert it by edge_index.long()"
        )
    if edge_index.numel() == 0:
        raise InputError(
            "edge_index has no edges, so there is nothing to aggregate; give the edges of the "
            "graph, or edge_index=None for a model without convolutions"
        )
    smallest, largest = int(edge_index.min()), int(edge_index.max())
    if smallest < 0 or largest >= n_nodes:
        raise InputError(
            f"edge_index has node {smallest if smallest < 0 else largest}, but x has {n_nodes} "
            f"rows; node positions go from 0 to {n_nodes - 1}, so give the features of all nodes, "
            f"not those of a mini-batch"
        )
    if edge_weight is None:
        return
    if not isinstance(edge_weight, Tensor) or edge_weight.shape != edge_index.shape[1:]:
        shape = tuple(getattr(edge_weight, "shape", ())) or type(edge_weight).__name__
        raise InputError(
            f"edge_weight of shape {shape} for {edge_index.shape[1]} edges; give a tensor with "
            f"one weight per edge"
        )
    if not bool(torch.isfinite(edge_weight).all()):
        raise InputError("edge_weight contains NaN or infinite values; replace them first")
