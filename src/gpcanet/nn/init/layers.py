"""Which weights of a layer multiply what it aggregates: the rules the initialisers go by.

A layer computes F_1 W_1 + F_2 W_2 + ... of its input H: GCNConv P H W, SAGEConv the mean over
neighbours times one weight plus H times another. Its *slots* are where these weights are. With
the same W in all of them the layer computes F W, F = F_1 + F_2 + ..., and F is what the layer
itself says when the identity stands in every slot. So a rule is no more than the names of the
slots; only where a layer cannot be run that way does it need a function for F.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
import torch_geometric.nn as pyg
from torch import Tensor
from torch_geometric.utils import remove_self_loops

from ...errors import InputError, InputTypeError
from ..conv import GCNConv, GPCAConv
from ..propagation import GraphPropagation

Aggregate = Callable[..., Tensor]

#: Layers that hold their weights as out_channels x in_channels.
LINEAR = (torch.nn.Linear, pyg.Linear)


class Rule(NamedTuple):
    slots: tuple[str, ...]
    aggregate: Aggregate | None  # (layer, x, *arguments) -> F; None: with identities in the slots
    copies: Callable[[Any], int]  # how often W stands side by side in a slot
    passes_on: bool  # the layer's own weights are in layers inside it, which see what it aggregates


class Weight(NamedTuple):
    """A matrix of weights, read and written as in_channels x out_channels."""

    parameter: torch.nn.Parameter
    is_transposed: bool

    @property
    def matrix(self) -> Tensor:
        return self.parameter.T if self.is_transposed else self.parameter


class Tower(NamedTuple):
    """One of several networks side by side in a layer, whose outputs are concatenated."""

    number: int = 0
    of: int = 1
    same_input: bool = False  # all towers get the same features


_rules: dict[type, Rule] = {}


def register_layer(
    kind: type,
    *slots: str,
    aggregate: Aggregate | None = None,
    copies: Callable[[Any], int] = lambda layer: 1,
) -> None:
    """Tell the initialisers about a layer of your own.

    Parameters
    ----------
    kind : type
        A subclass of ``torch.nn.Module``. Its subclasses are covered, too.
    *slots : str
        Names of the attributes whose weights multiply what the layer aggregates: linear layers,
        lists of them, or parameters of shape (in, out). None at all: the weights are in modules
        inside the layer, which are set for the input they get there, as in ``GINConv``.
    aggregate : callable, optional
        ``aggregate(layer, x, *arguments)`` returns F for the layer's arguments. By default the
        layer itself is run with the identity in every slot and without its ``bias``.
    copies : callable, optional
        How often the weights stand side by side in a slot, as heads that are averaged do.

    Examples
    --------
    >>> class MyConv(torch.nn.Module):
    ...     def __init__(self, width, out):
    ...         super().__init__()
    ...         self.mix = torch.nn.Linear(width, out)
    ...     def forward(self, x, edge_index):
    ...         return self.mix(x + x.mean(0))
    >>> register_layer(MyConv, "mix")
    """
    if not (isinstance(kind, type) and issubclass(kind, torch.nn.Module)):
        raise InputTypeError(f"{kind!r} must be a class of layers (a subclass of torch.nn.Module)")
    _rules[kind] = Rule(slots, aggregate, copies, passes_on=not slots)


def rule_of(layer: torch.nn.Module) -> Rule | None:
    return next((_rules[kind] for kind in type(layer).__mro__ if kind in _rules), None)


def towers_of(model: torch.nn.Module) -> dict[torch.nn.Module, Tower]:
    """The linear layers that the towers of a ``PNAConv`` begin with."""
    found = {}
    for conv in model.modules():
        if isinstance(conv, pyg.PNAConv):
            for networks in (conv.pre_nns, conv.post_nns):
                for number, network in enumerate(networks):
                    tower = Tower(number, conv.towers, same_input=not conv.divide_input)
                    found[next(m for m in network.modules() if isinstance(m, LINEAR))] = tower
    return found


def weights_of(layer: torch.nn.Module, rule: Rule) -> list[Weight]:
    """The weights in the slots of a layer, each once.

    Raises LayerUnset where they cannot be set all alike.
    """
    found: dict[int, Weight] = {}
    for owner, name in _places(layer, rule):
        value: Any = getattr(owner, name)
        if isinstance(value, LINEAR):
            owner, name, value = value, "weight", value.weight
        if not isinstance(owner._parameters.get(name), torch.nn.Parameter):
            raise LayerUnset("its weight is computed from others (parametrised or pruned)")
        found[id(value)] = Weight(value, is_transposed=isinstance(owner, LINEAR))
    weights = list(found.values())
    if not weights:
        raise InputError(
            f"{type(layer).__name__} has no attribute {' or '.join(map(repr, rule.slots))}; name "
            f"its weights in register_layer"
        )
    if len({weight.matrix.shape for weight in weights}) > 1:
        raise LayerUnset("its weights are of different shapes")
    if not all(weight.parameter.requires_grad for weight in weights):
        raise LayerUnset("its weights are frozen")
    return weights


class LayerUnset(Exception):
    """Why the weights of a layer stay as they are."""


def aggregation(
    layer: torch.nn.Module, rule: Rule, n_nodes: int, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Callable[[Tensor], Tensor]:
    """The function from columns of a layer's input to F, given its other arguments."""
    if isinstance(layer, GCNConv | GPCAConv):
        args, kwargs = (_propagation_of(layer, n_nodes, *args, **kwargs),), {}

    def aggregated(x: Tensor) -> Tensor:
        if rule.aggregate is not None:
            return rule.aggregate(layer, x, *args, **kwargs)
        with _identities(layer, rule, x.shape[1]):
            return layer.forward(x, *args, **kwargs)

    return aggregated


def _propagation_of(
    layer: Any, n_nodes: int, edge_index: Any, edge_weight: Any = None, *y: Any, **kwargs: Any
) -> GraphPropagation:
    return layer.propagation(edge_index, edge_weight, n_nodes, *y, **kwargs)


def _places(layer: Any, rule: Rule) -> Iterator[tuple[Any, str]]:
    """Where the slots are: the module that holds each, and its name there."""
    for slot in rule.slots:
        value = getattr(layer, slot, None)
        if isinstance(value, torch.nn.ModuleList):
            yield from ((value, name) for name in value._modules)
        elif value is not None:
            yield layer, slot


@contextmanager
def _identities(layer: Any, rule: Rule, width: int) -> Iterator[None]:
    before: list[tuple[dict[str, Any], str, Any]] = []
    try:
        for owner, name in list(_places(layer, rule)):
            kept = owner._modules if name in owner._modules else owner._parameters
            before.append((kept, name, kept[name]))
            if kept is owner._modules:
                kept[name] = torch.nn.Identity()
            else:
                kept[name] = torch.nn.Parameter(torch.eye(width).to(kept[name]), False)
        if isinstance(layer, pyg.SAGEConv):  # rows of length 1 are made after the weights
            before.append((vars(layer), "normalize", layer.normalize))
            layer.normalize = False
        if layer._parameters.get("bias") is not None:
            before.append((layer._parameters, "bias", layer.bias))
            layer._parameters["bias"] = None
        yield
    finally:
        for kept, name, value in reversed(before):
            kept[name] = value


# -- the rules ----------------------------------------------------------------------------


def _propagated(layer: GCNConv, x: Tensor, P: GraphPropagation) -> Tensor:
    return P @ x


def _gpca(layer: GPCAConv, x: Tensor, P: GraphPropagation) -> Tensor:
    return layer._propagate(P, x - x.mean(0) if layer.center else x)


def _mean_over_neighbours(layer: Any, x: Tensor, edge_index: Any, *_: Any, **__: Any) -> Tensor:
    """What attention aggregates while it prefers nobody."""
    combine = "self_loop" if layer.add_self_loops else None
    if combine and isinstance(edge_index, Tensor) and edge_index.layout == torch.strided:
        edge_index, _ = remove_self_loops(edge_index)  # as attention does before it adds its own
    return pyg.SimpleConv(aggr="mean", combine_root=combine, flow=layer.flow)(x, edge_index)


def _averaged_heads(layer: Any) -> int:
    return 1 if layer.concat else int(layer.heads)


def _itself(layer: Any, x: Tensor) -> Tensor:
    return x


for linear in LINEAR:
    register_layer(linear, "weight", aggregate=_itself)
for one in (pyg.GCNConv, pyg.SGConv):
    register_layer(one, "lin")
register_layer(GCNConv, "lin", aggregate=_propagated)
register_layer(GPCAConv, "weight", aggregate=_gpca)
register_layer(pyg.GraphConv, "lin_rel", "lin_root")
register_layer(pyg.SAGEConv, "lin_l", "lin_r")
register_layer(pyg.ClusterGCNConv, "lin_out", "lin_root")
for many in (pyg.ChebConv, pyg.TAGConv):
    register_layer(many, "lins")
register_layer(pyg.GCN2Conv, "weight1", "weight2")
register_layer(
    pyg.GATConv, "lin", "lin_src", aggregate=_mean_over_neighbours, copies=_averaged_heads
)
register_layer(pyg.GATv2Conv, "lin_l", aggregate=_mean_over_neighbours, copies=_averaged_heads)
for container in (pyg.GINConv, pyg.GINEConv, pyg.EdgeConv, pyg.DynamicEdgeConv, pyg.PNAConv):
    register_layer(container)
