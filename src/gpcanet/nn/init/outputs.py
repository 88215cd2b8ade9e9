"""Which layers of a model compute its outputs, read from the autograd graph of one pass.

A layer is an output layer if its result reaches what the model returns and no other layer takes
it as input. So the last layer of a residual network is one and those before it are not, both
heads of a model with two heads are, and a propagation or normalisation without a weight matrix
after the last layer makes no difference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
import torch_geometric.nn as pyg
from torch import Tensor

from .passes import THE_MODEL, layers_of

#: Parts of the names of autograd nodes that multiply by a matrix.
MATRIX_PRODUCTS = ("mm", "mv", "linear")


def output_layers(model: torch.nn.Module, run: Callable[[], Any]) -> set[str]:
    """Names of the output layers; of the last layer that ran if there is no autograd graph.

    ``run`` calls the model. If no gradient reaches what it returns, all layers count whose result
    no other layer takes. Layers without a rule count, too; those with parameters of one dimension
    only, such as norms, do not.
    """
    layers = _with_weights(model)
    calls: list[str] = []  # names of layers, in the order of their calls
    results: dict[Any, int] = {}  # autograd node -> call
    returned: list[Any] = []

    def note(name: str) -> Callable[..., None]:
        def after_it_ran(_: Any, __: Any, output: Any) -> None:
            results.update((tensor.grad_fn, len(calls)) for tensor in _tensors_in(output))
            calls.append(name)

        return after_it_ran

    handles = [layer.register_forward_hook(note(name)) for name, layer in layers.items()]
    handles.append(model.register_forward_hook(lambda *hooked: returned.append(hooked[-1])))
    try:
        with _autograd_graph_only(model):
            last = run()
    finally:
        for handle in handles:
            handle.remove()
    results.pop(None, None)
    if not results:
        return set(calls[-1:])
    called = {id(p) for name in calls for p in layers[name].parameters()}
    loose = {id(p) for p in model.parameters() if p.dim() > 1 and id(p) not in called}
    roots = {tensor.grad_fn for tensor in _tensors_in(returned or last)} - {None}
    return {calls[call] for call in _unused_results(roots or set(results), results, loose)}


def _with_weights(model: torch.nn.Module) -> dict[str, torch.nn.Module]:
    """Layers that are called as a whole and hold a weight matrix, with or without a rule."""
    known, left = layers_of(model)
    layers = {name: layer for name, (layer, rule) in known.items() if not rule.passes_on}
    for report in left:
        layer = model if report.name == THE_MODEL else model.get_submodule(report.name)
        if isinstance(layer, pyg.MessagePassing) or not any(True for _ in layer.children()):
            layers[report.name] = layer
    return {
        name: layer
        for name, layer in layers.items()
        if any(parameter.dim() > 1 for parameter in layer.parameters())
    }


@contextmanager
def _autograd_graph_only(model: torch.nn.Module) -> Iterator[None]:
    """Record an autograd graph of all parameters that keeps no tensors for a backward pass."""
    frozen = [p for p in model.parameters() if not p.requires_grad and p.is_floating_point()]
    for parameter in frozen:
        parameter.requires_grad_(True)
    try:
        hooks = torch.autograd.graph.saved_tensors_hooks(lambda _: None, lambda _: None)
        with torch.enable_grad(), hooks:
            yield
    finally:
        for parameter in frozen:
            parameter.requires_grad_(False)


def _unused_results(roots: set[Any], results: Mapping[Any, int], loose: set[int]) -> set[int]:
    """Calls whose result reaches a root and is no input of another call.

    ``loose`` are weights that a model multiplies by itself, outside of any layer.
    """
    reached: dict[Any, set[int]] = {}  # calls whose result a node depends on without another call
    only_loose: set[Any] = set()  # nodes that depend on no other parameters
    used: set[int] = set()
    for node in _inputs_first(roots):
        inputs = [function for function, _ in node.next_functions if function is not None]
        below = set().union(*(reached[function] for function in inputs))
        variable = getattr(node, "variable", None)
        if node in results:
            used |= below - {results[node]}
            below = {results[node]}
        elif id(variable) in loose or (inputs and only_loose.issuperset(inputs)):
            only_loose.add(node)
        elif only_loose.intersection(inputs) and _multiplies(node):
            used |= below
        reached[node] = below
    return set().union(*(reached[root] for root in roots)) - used


def _multiplies(node: Any) -> bool:
    return any(part in node.name().lower() for part in MATRIX_PRODUCTS)


def _inputs_first(roots: set[Any]) -> Iterator[Any]:
    """All nodes of an autograd graph, each after its inputs."""
    seen: set[Any] = set()
    stack = [(root, False) for root in roots]
    while stack:
        node, is_ready = stack.pop()
        if is_ready:
            yield node
        elif node not in seen:
            seen.add(node)
            stack.append((node, True))
            stack += [(function, False) for function, _ in node.next_functions if function]


def _tensors_in(value: Any) -> Iterator[Tensor]:
    """Tensors in what a model returns: itself, or a tuple, dict or object that holds some."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _tensors_in(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _tensors_in(item)
    elif hasattr(value, "__dict__") and not isinstance(value, type | torch.nn.Module):
        yield from _tensors_in(vars(value))
