"""Find the layers that compute the outputs of a model, from the autograd graph of one pass.

A layer is an output layer if its result reaches what the model returns and is not the input of
another layer. The last layer of a residual network is one and the layers before it are not; a
model with two heads has two; a propagation or normalisation without a weight matrix after the last
layer does not count as a layer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import torch
import torch_geometric.nn as pyg
from torch import Tensor

from .rules import find_layers, get_layer

#: Parts of the names of autograd nodes that are matrix products.
MATRIX_PRODUCTS = ("mm", "mv", "linear")


def find_output_layers(model: torch.nn.Module, run: Callable[[], Any]) -> set[str]:
    """Return the names of the output layers; ``run`` calls the model.

    Layers without a rule count as well, unless all their parameters have one dimension, as those
    of norms. If no gradient reaches the result, all layers whose result is not the input of another
    layer are returned; without any autograd graph, the last layer that ran. So is the last layer
    if it ran without gradients, as in a reentrant checkpoint.
    """
    layers = _layers_with_matrices(model)
    calls: list[str] = []  # names of layers in the order of their calls
    results: dict[Any, int] = {}  # autograd node of a result -> index of the call
    returned: list[Any] = []
    has_gradient = True  # the last call

    def record(name: str, _: Any, __: Any, output: Any) -> None:
        nonlocal has_gradient
        floats = [tensor for tensor in tensors_in(output) if tensor.is_floating_point()]
        nodes = {tensor.grad_fn for tensor in floats} - {None}
        results.update(dict.fromkeys(nodes, len(calls)))
        has_gradient = bool(nodes)
        calls.append(name)

    with ExitStack() as hooks, _autograd_graph_only(model):
        for name, layer in layers.items():
            hooks.enter_context(layer.register_forward_hook(partial(record, name)))
        last = model.register_forward_hook(lambda *hooked: returned.append(hooked[-1]))
        hooks.enter_context(last)
        result = run()
    if not results or not has_gradient:
        return set(calls[-1:])
    called = {id(p) for name in calls for p in layers[name].parameters()}
    outside = {id(p) for p in model.parameters() if p.dim() > 1 and id(p) not in called}
    roots = {tensor.grad_fn for tensor in tensors_in(returned or result)} - {None}
    return {calls[call] for call in _unused_results(roots or set(results), results, outside)}


def _layers_with_matrices(model: torch.nn.Module) -> dict[str, torch.nn.Module]:
    """Layers that are called as a whole and have a weight matrix, with or without a rule."""
    with_rule, without_rule = find_layers(model)
    layers = {
        layer.name: layer.module for layer in with_rule.values() if not layer.rule.is_container
    }
    for report in without_rule:
        layer = get_layer(model, report.name)
        if isinstance(layer, pyg.MessagePassing) or not any(True for _ in layer.children()):
            layers[report.name] = layer
    return {
        name: layer
        for name, layer in layers.items()
        if any(parameter.dim() > 1 for parameter in layer.parameters())
    }


@contextmanager
def _autograd_graph_only(model: torch.nn.Module) -> Iterator[None]:
    """Record an autograd graph of all parameters, without saving tensors for a backward pass."""
    frozen = [p for p in model.parameters() if not p.requires_grad and p.is_floating_point()]
    for parameter in frozen:
        parameter.requires_grad_(True)
    try:
        hooks = torch.autograd.graph.saved_tensors_hooks(lambda _: None, lambda _: None)
        with torch.inference_mode(False), torch.enable_grad(), hooks:
            yield
    finally:
        for parameter in frozen:
            parameter.requires_grad_(False)


def _unused_results(roots: set[Any], results: Mapping[Any, int], outside: set[int]) -> set[int]:
    """Return the calls whose result reaches a root and is not the input of another call.

    ``outside`` are ids of weight matrices that the model uses itself, outside of its layers.
    """
    reached: dict[Any, set[int]] = {}  # calls whose result a node depends on without another call
    only_outside: set[Any] = set()  # nodes that depend on no other parameters
    used: set[int] = set()
    for node in _inputs_first(roots):
        inputs = [function for function, _ in node.next_functions if function is not None]
        below = set().union(*(reached[function] for function in inputs))
        variable = getattr(node, "variable", None)
        if node in results:
            used |= below - {results[node]}
            below = {results[node]}
        elif id(variable) in outside or (inputs and only_outside.issuperset(inputs)):
            only_outside.add(node)
        elif only_outside.intersection(inputs) and _is_matrix_product(node):
            used |= below
        reached[node] = below
    return set().union(*(reached[root] for root in roots)) - used


def _is_matrix_product(node: Any) -> bool:
    return any(part in node.name().lower() for part in MATRIX_PRODUCTS)


def _inputs_first(roots: set[Any]) -> Iterator[Any]:
    """Iterate over the nodes of an autograd graph, each after its inputs."""
    visited: set[Any] = set()
    stack = [(root, False) for root in roots]
    while stack:
        node, is_ready = stack.pop()
        if is_ready:
            yield node
        elif node not in visited:
            visited.add(node)
            stack.append((node, True))
            stack += [(function, False) for function, _ in node.next_functions if function]


def tensors_in(value: Any) -> Iterator[Tensor]:
    """Iterate over the tensors in a result: a tensor, or a tuple, dict or object of tensors."""
    remaining, visited = [value], {}
    while remaining:
        item = remaining.pop()
        if id(item) in visited:  # objects may refer to each other
            continue
        visited[id(item)] = item
        if isinstance(item, Tensor):
            yield item
        elif isinstance(item, Mapping):
            remaining += item.values()
        elif isinstance(item, list | tuple):
            remaining += item
        elif hasattr(item, "__dict__") and not isinstance(item, type | torch.nn.Module):
            remaining += vars(item).values()
