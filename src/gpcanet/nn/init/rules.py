"""Which weights of a layer multiply what it aggregates: one rule per kind of layer.

A layer computes F_1 W_1 + F_2 W_2 + ... from its input H. For GCNConv this is P H W, for SAGEConv
the mean over the neighbours times one weight plus H times another. If all weights are the same
matrix W, the output is F W with F = F_1 + F_2 + ..., and F is the output of the layer with
identity matrices as weights. A rule is therefore a list of names of weights. Only a layer that
cannot run with identity matrices needs a function that computes F.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
import torch_geometric.nn as pyg
from torch import Tensor
from torch_geometric.utils import remove_self_loops

from ...errors import InputError, InputTypeError
from ..conv import GCNConv, GPCAConv
from ..propagation import GraphPropagation
from ..tensors import is_sparse
from .report import LayerReport

Aggregate = Callable[..., Tensor]

#: Layers whose weight has shape (out_channels, in_channels).
LINEAR = (torch.nn.Linear, pyg.Linear)

#: Name in the report of a layer that is the model itself.
MODEL_NAME = "(the model)"


def _one_copy(layer: Any) -> int:
    return 1


class Rule(NamedTuple):
    """How to initialise a kind of layer; the fields are the arguments of ``register_layer``."""

    weights: tuple[str, ...] = ()
    aggregate: Aggregate | None = None
    copies: Callable[[Any], int] = _one_copy

    @property
    def is_container(self) -> bool:
        """Whether the weights belong to layers inside the layer, which have their own rules."""
        return not self.weights


# -- functions for F ----------------------------------------------------------------------


def _identity(layer: Any, x: Tensor) -> Tensor:
    return x


def _propagate(layer: GCNConv, x: Tensor, P: GraphPropagation) -> Tensor:
    return P @ x


def _propagate_centered(layer: GPCAConv, x: Tensor, P: GraphPropagation) -> Tensor:
    return layer.aggregate(P, x - x.mean(0) if layer.center else x)


def _average_neighbors(layer: Any, x: Tensor, edge_index: Any, *_: Any, **__: Any) -> Tensor:
    """Attention with equal coefficients."""
    combine = "self_loop" if layer.add_self_loops else None
    if combine and isinstance(edge_index, Tensor) and not is_sparse(edge_index):
        edge_index, _ = remove_self_loops(edge_index)  # attention replaces them, too
    return pyg.SimpleConv(aggr="mean", combine_root=combine, flow=layer.flow)(x, edge_index)


def _averaged_heads(layer: Any) -> int:
    return 1 if layer.concat else int(layer.heads)


def concatenated_heads(layer: Any) -> int:
    """Number of attention heads whose outputs are concatenated, 1 for other layers."""
    return int(layer.heads) if getattr(layer, "concat", False) and hasattr(layer, "heads") else 1


# -- the rules ----------------------------------------------------------------------------

#: Rules by class. Subclasses without their own rule use that of their base class.
RULES: dict[type, Rule] = {
    torch.nn.Linear: Rule(("weight",), _identity),
    pyg.Linear: Rule(("weight",), _identity),
    GCNConv: Rule(("lin",), _propagate),
    GPCAConv: Rule(("weight",), _propagate_centered),
    pyg.GCNConv: Rule(("lin",)),
    pyg.SGConv: Rule(("lin",)),
    pyg.GraphConv: Rule(("lin_rel", "lin_root")),
    pyg.SAGEConv: Rule(("lin_l", "lin_r")),
    pyg.ClusterGCNConv: Rule(("lin_out", "lin_root")),
    pyg.ChebConv: Rule(("lins",)),
    pyg.TAGConv: Rule(("lins",)),
    pyg.GCN2Conv: Rule(("weight1", "weight2")),
    pyg.GATConv: Rule(("lin", "lin_src"), _average_neighbors, _averaged_heads),
    pyg.GATv2Conv: Rule(("lin_l",), _average_neighbors, _averaged_heads),
    pyg.GINConv: Rule(),
    pyg.GINEConv: Rule(),
    pyg.EdgeConv: Rule(),
    pyg.DynamicEdgeConv: Rule(),
    pyg.PNAConv: Rule(),
}


def register_layer(
    kind: type,
    *weights: str,
    aggregate: Aggregate | None = None,
    copies: Callable[[Any], int] = _one_copy,
) -> None:
    """Add a rule for a kind of layer, so that the initialisers can set its weights.

    Parameters
    ----------
    kind : type
        A subclass of ``torch.nn.Module``. The rule also applies to its subclasses.
    *weights : str
        Names of the attributes that multiply what the layer aggregates: linear layers, lists of
        linear layers, or parameters of shape (in_channels, out_channels). Without names, the
        weights belong to modules inside the layer, which are set for their own input, as in
        ``GINConv``.
    aggregate : callable, optional
        ``aggregate(layer, x, *args, **kwargs)`` returns F; the arguments are those of the layer's
        ``forward``. By default the layer itself runs with identity matrices as weights and
        without its ``bias``.
    copies : callable, optional
        ``copies(layer)`` is the number of times that W is repeated side by side in each weight,
        such as the number of averaged attention heads. 1 by default.

    Examples
    --------
    >>> class MyConv(torch.nn.Module):
    ...     def __init__(self, in_channels, out_channels):
    ...         super().__init__()
    ...         self.lin = torch.nn.Linear(in_channels, out_channels)
    ...     def forward(self, x, edge_index):
    ...         return self.lin(x + x.mean(0))
    >>> register_layer(MyConv, "lin")
    """
    if not (isinstance(kind, type) and issubclass(kind, torch.nn.Module)):
        raise InputTypeError(
            f"kind={kind!r} is not a subclass of torch.nn.Module; pass the class of a layer"
        )
    RULES[kind] = Rule(weights, aggregate, copies)


# -- the layers of a model ----------------------------------------------------------------


def find_layers(
    model: torch.nn.Module,
) -> tuple[dict[str, tuple[torch.nn.Module, Rule]], list[LayerReport]]:
    """Return the layers that have a rule by name, and reports of modules that have none."""
    layers: dict[str, tuple[torch.nn.Module, Rule]] = {}
    without_rule: list[LayerReport] = []
    done: list[str] = []  # prefixes of modules that belong to a layer found before
    for name, module in model.named_modules():
        if any(name.startswith(prefix) for prefix in done):
            continue
        kind, shown, prefix = type(module), name or MODEL_NAME, f"{name}." if name else ""
        rule = next((RULES[base] for base in kind.__mro__ if base in RULES), None)
        if rule is not None:
            layers[shown] = (module, rule)
            if not rule.is_container:
                done.append(prefix)
        elif isinstance(module, pyg.MessagePassing) and any(True for _ in module.parameters()):
            reason = f"there is no rule for {kind.__name__}; add one by register_layer"
            without_rule.append(LayerReport(shown, kind.__name__, reason=reason))
            done.append(prefix)
        elif any(True for _ in module.parameters(recurse=False)):
            reason = "neither a convolution nor a linear layer"
            without_rule.append(LayerReport(shown, kind.__name__, reason=reason))
    return layers, without_rule


@dataclass(frozen=True)
class Tower:
    """Position of a layer among parallel layers whose outputs are concatenated."""

    index: int = 0
    count: int = 1
    same_input: bool = False


def find_towers(model: torch.nn.Module) -> dict[torch.nn.Module, Tower]:
    """Return the first linear layer of each tower of every ``PNAConv``."""
    towers = {}
    for conv in model.modules():
        if isinstance(conv, pyg.PNAConv):
            for networks in (conv.pre_nns, conv.post_nns):
                for index, network in enumerate(networks):
                    first = next(m for m in network.modules() if isinstance(m, LINEAR))
                    towers[first] = Tower(index, conv.towers, same_input=not conv.divide_input)
    return towers


# -- the weights of a layer ---------------------------------------------------------------


class LayerSkipped(Exception):
    """The weights of a layer cannot be set; the message is the reason in the report."""


def find_weights(layer: torch.nn.Module, rule: Rule) -> dict[torch.nn.Parameter, Tensor]:
    """Return the weights that a rule names, and their views of shape (in_channels, out_channels).

    Raises LayerSkipped if they cannot all be set to the same matrix.
    """
    weights: dict[torch.nn.Parameter, Tensor] = {}
    for owner, name in _attributes(layer, rule):
        value: Any = getattr(owner, name)
        if isinstance(value, LINEAR):
            owner, name, value = value, "weight", value.weight
        if name not in _own_parameters(owner):
            raise LayerSkipped("its weight is computed from others (parametrised or pruned)")
        weights[value] = value.T if isinstance(owner, LINEAR) else value
    if not weights:
        raise InputError(
            f"{type(layer).__name__} has no attribute {' or '.join(map(repr, rule.weights))}; "
            f"correct the names in register_layer"
        )
    if len({matrix.shape for matrix in weights.values()}) > 1:
        raise LayerSkipped("its weights have different shapes")
    if not all(parameter.requires_grad for parameter in weights):
        raise LayerSkipped("its weights are frozen")
    return weights


def find_biases(layer: torch.nn.Module, rule: Rule) -> list[torch.nn.Parameter]:
    """Return the biases that are added to F W, that of the layer itself first."""
    owners = [layer, *(getattr(owner, name) for owner, name in _attributes(layer, rule))]
    biases = [getattr(owner, "bias", None) for owner in owners]
    return list(dict.fromkeys(bias for bias in biases if isinstance(bias, torch.nn.Parameter)))


def bind_aggregation(
    layer: torch.nn.Module, rule: Rule, n_nodes: int, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Callable[[Tensor], Tensor]:
    """Return the function from columns of a layer's input to F, given its other arguments."""
    if isinstance(layer, GCNConv | GPCAConv):
        args, kwargs = (_prepare_edges(layer, n_nodes, *args, **kwargs),), {}

    def aggregate(x: Tensor) -> Tensor:
        if rule.aggregate is not None:
            return rule.aggregate(layer, x, *args, **kwargs)
        with _identity_weights(layer, rule, x.shape[1]):
            return layer.forward(x, *args, **kwargs)

    return aggregate


def _prepare_edges(
    layer: Any, n_nodes: int, edge_index: Any, edge_weight: Any = None, *y: Any, **kwargs: Any
) -> GraphPropagation:
    return layer.propagation(edge_index, edge_weight, n_nodes, *y, **kwargs)


def _attributes(layer: Any, rule: Rule) -> Iterator[tuple[Any, str]]:
    """The modules that hold the weights, and the names of the weights in them."""
    for name in rule.weights:
        value = getattr(layer, name, None)
        if isinstance(value, torch.nn.ModuleList):
            yield from ((value, str(index)) for index in range(len(value)))
        elif value is not None:
            yield layer, name


def _own_parameters(module: torch.nn.Module) -> dict[str, torch.nn.Parameter]:
    return dict(module.named_parameters(recurse=False, remove_duplicate=False))


@contextmanager
def _identity_weights(layer: Any, rule: Rule, width: int) -> Iterator[None]:
    """Replace the weights by identity matrices, and the bias by none."""
    replaced: list[tuple[Any, str, Any]] = []

    def replace(owner: Any, name: str, value: Any) -> None:
        replaced.append((owner, name, getattr(owner, name)))
        setattr(owner, name, value)

    try:
        for owner, name in list(_attributes(layer, rule)):
            value = getattr(owner, name)
            if isinstance(value, torch.nn.Module):
                replace(owner, name, torch.nn.Identity())
            else:
                replace(owner, name, torch.nn.Parameter(torch.eye(width).to(value), False))
        if isinstance(layer, pyg.SAGEConv):  # normalises its rows after the projection
            replace(layer, "normalize", False)
        if "bias" in _own_parameters(layer):
            replace(layer, "bias", None)
        yield
    finally:
        for owner, name, value in reversed(replaced):
            setattr(owner, name, value)
