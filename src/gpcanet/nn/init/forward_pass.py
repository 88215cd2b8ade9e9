"""One forward pass of a model for an initialiser: check the arguments, run, restore the state."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import numpy as np
import torch
import torch_geometric.nn as pyg
from torch import Tensor
from torch.nn.parameter import is_lazy

from ...errors import InputError, InputTypeError, UserError
from ...utils.messages import first_line
from ..tensors import check_finite_features, check_module, check_same_device, dtype_name, is_sparse
from .model_input import Forward, ModelInput, check_call, read_input
from .rules import NamedLayer, unwrap


@contextmanager
def preserved_state(model: torch.nn.Module) -> Iterator[None]:
    """Evaluation mode and empty caches inside the block; all state is restored afterwards.

    In evaluation mode a pass draws no random numbers and updates no running means. A cache may be
    that of another graph.
    """
    saved = [
        (
            module,
            module.training,
            {
                name: (buffer, None if is_lazy(buffer) else buffer.clone())
                for name, buffer in module.named_buffers(recurse=False)
            },
            # PyG's names of caches.
            {name: value for name, value in vars(module).items() if name.startswith("_cached")},
        )
        for module in model.modules()
    ]
    model.eval()
    for module, _, _, caches in saved:
        for name in caches if getattr(module, "cached", None) is True else ():
            setattr(module, name, None)
    try:
        yield
    finally:
        for module, mode, _, _ in saved:
            module.training = mode
        for module, _, buffers, caches in saved:
            for name in dict(module.named_buffers(recurse=False)).keys() - buffers.keys():
                setattr(module, name, None)
            for name, (buffer, values) in buffers.items():
                if values is not None:
                    setattr(module, name, buffer)
                    if not _is_same(buffer, values):  # some buffers cannot be written in place
                        buffer.copy_(values)
            for name, value in caches.items():
                setattr(module, name, value)


def _is_same(buffer: Tensor, values: Tensor) -> bool:
    if is_sparse(buffer):  # torch cannot compare them
        return False
    return buffer.is_meta or torch.equal(buffer, values)


@contextmanager
def restored_on_error(layers: Iterable[NamedLayer]) -> Iterator[None]:
    """Restore the parameters of these layers if the block raises an error."""
    parameters = {p for layer in layers for p in layer.module.parameters() if not is_lazy(p)}
    before = [(parameter, parameter.clone()) for parameter in parameters]
    try:
        yield
    except BaseException:
        for parameter, values in before:
            parameter.copy_(values)
        raise


def run_model(model: torch.nn.Module, given: ModelInput) -> Any:
    """Call ``forward(model)`` or ``model(x, edge_index)`` and return the result."""
    model = unwrap(model)
    x, edge_index, edge_weight, forward = given
    args = (x,) if edge_index is None else (x, edge_index)
    kwargs = {} if edge_weight is None else {"edge_weight": edge_weight}
    if forward is None:
        check_call(model, args, kwargs)
    try:
        with _compilation_disabled(model):
            return model(*args, **kwargs) if forward is None else forward(model)
    except RuntimeError as error:  # also NotImplementedError
        if not (isinstance(x, Tensor) and is_sparse(x)) or isinstance(error, UserError):
            raise
        if isinstance(error, NotImplementedError):
            raise InputError(
                "a layer of the model gathers neighbours before it projects, which torch does not "
                "support for sparse features; give x.to_dense()"
            ) from error
        raise InputError(
            f"the model does not run on sparse features ({first_line(error)}); give x.to_dense()"
        ) from error


@contextmanager
def _compilation_disabled(model: torch.nn.Module) -> Iterator[None]:
    """Run parts of a model that are compiled by torch.compile without compiling them."""
    names = ("_orig_mod", "_compiled_call_impl")
    if all(getattr(module, name, None) is None for module in model.modules() for name in names):
        yield
        return
    if not hasattr(torch.compiler, "set_stance"):  # before torch 2.6
        raise InputError("a part of the model is compiled; initialise it before torch.compile")
    with torch.compiler.set_stance("force_eager"):
        yield


@contextmanager
def before_each_layer(
    layers: Iterable[NamedLayer], action: Callable[[NamedLayer, Any, tuple[Any, ...], Any], None]
) -> Iterator[None]:
    """Call ``action(layer, first, args, kwargs)`` before each layer runs inside the block.

    ``first`` is the first argument of the layer, also if it is given by name.
    """

    def hook(layer: NamedLayer, module: Any, args: tuple[Any, ...], kwargs: Any) -> None:
        if args:
            action(layer, args[0], args[1:], kwargs)
        else:
            first = next(iter(inspect.signature(module.forward).parameters))
            others = {key: value for key, value in kwargs.items() if key != first}
            action(layer, kwargs.get(first), (), others)

    with ExitStack() as hooks:
        for layer in layers:
            hooks.enter_context(
                layer.module.register_forward_pre_hook(partial(hook, layer), with_kwargs=True)
            )
        yield


def check_arguments(
    model: Any, x: Any, edge_index: Any, edge_weight: Any, forward: Forward | None
) -> ModelInput:
    """Raise an error if the model cannot run on these arguments; give lazy layers their shapes.

    Returns the arguments of ``run_model``; features and edges of PyG data are taken out of it.
    """
    check_module(model)
    model = unwrap(model)
    compiled = [part for part in model.modules() if isinstance(part, torch.jit.ScriptModule)]
    if any(True for part in compiled for _ in part.parameters()):
        raise InputTypeError(
            "the model, or a part of it, is compiled by TorchScript; initialise it before"
        )
    given = read_input(model, x, edge_index, edge_weight, forward)
    if isinstance(given.x, Tensor) and given.x.is_inference():  # autograd does not take these
        given = given._replace(x=given.x.clone())
    x, edge_index, edge_weight, forward = given
    features = _features_by_type(x, forward)
    weights = [parameter for parameter in model.parameters() if not is_lazy(parameter)]
    for block in features.values():
        if weights and block.device not in {weight.device for weight in weights}:
            check_same_device(block, weights[0])
        check_finite_features(block)
    has_convolutions = any(isinstance(module, pyg.MessagePassing) for module in model.modules())
    if isinstance(edge_index, list | tuple | np.ndarray):
        raise InputTypeError(
            f"edge_index is a {type(edge_index).__name__}; give a tensor or a Graph"
        )
    if edge_index is None and forward is None and has_convolutions:
        raise InputError("the model has graph convolutions; give edge_index")
    # A model without convolutions of PyG may take a dense adjacency matrix.
    if has_convolutions and features:
        _check_edges(edge_index, edge_weight, features)
    if len(weights) < sum(1 for _ in model.parameters()):
        with preserved_state(model):
            run_model(model, given)
    return given


def check_one_graph(given: ModelInput, what: str, advice: str) -> None:
    """Raise an error unless the features of one set of nodes are known."""
    if not isinstance(given.x, Tensor):
        raise InputError(f"{what} the features of one set of nodes; give x, or {advice}")


def _features_by_type(x: Any, forward: Forward | None) -> dict[Any, Tensor]:
    """The features of each node type; one type None for a tensor."""
    if x is None and forward is not None:
        return {}
    features = x if isinstance(x, Mapping) else {None: x}
    for block in features.values():
        if not isinstance(block, Tensor):
            raise InputTypeError(
                f"x is a {type(x if block is x else block).__name__}; give the features of all "
                f"nodes as one tensor and the edges of the whole graph, or PyG's Data, also for a "
                f"model that is trained on mini-batches"
            )
    return dict(features)


def _check_edges(edge_index: Any, edge_weight: Any, features: Mapping[Any, Tensor]) -> None:
    by_type = edge_index if isinstance(edge_index, Mapping) else {(None, None): edge_index}
    for kind, edges in by_type.items():
        source, destination = (features.get(kind[end]) for end in (0, -1))
        if not isinstance(edges, Tensor) or source is None or destination is None:
            continue
        if edges.device != source.device:
            raise InputError(
                f"edge_index is on device {edges.device} and x on {source.device}; move one of them"
            )
        if not is_sparse(edges):
            n_nodes = (source.shape[0], destination.shape[0])
            _check_edge_index(edges, edge_weight, n_nodes, may_be_empty=kind != (None, None))


def _check_edge_index(
    edge_index: Tensor, edge_weight: Any, n_nodes: tuple[int, int], *, may_be_empty: bool
) -> None:
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
    if edge_index.numel() == 0 and may_be_empty:
        return
    if edge_index.numel() == 0:
        raise InputError(
            "edge_index has no edges, so there is nothing to aggregate; give the edges of the "
            "graph, or edge_index=None for a model without convolutions"
        )
    for ends, n in zip(edge_index, n_nodes, strict=True):
        smallest, largest = int(ends.min()), int(ends.max())
        if smallest < 0 or largest >= n:
            raise InputError(
                f"edge_index has node {smallest if smallest < 0 else largest}, but x has {n} rows; "
                f"node positions go from 0 to {n - 1}, so give the features of all nodes, not "
                f"those of a mini-batch"
            )
    if edge_weight is None or may_be_empty:
        return
    if not isinstance(edge_weight, Tensor) or edge_weight.shape != edge_index.shape[1:]:
        shape = tuple(getattr(edge_weight, "shape", ())) or type(edge_weight).__name__
        raise InputError(
            f"edge_weight of shape {shape} for {edge_index.shape[1]} edges; give a tensor with "
            f"one weight per edge"
        )
    if not bool(torch.isfinite(edge_weight).all()):
        raise InputError("edge_weight contains NaN or infinite values; replace them first")
