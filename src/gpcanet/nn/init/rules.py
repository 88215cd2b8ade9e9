"""Which weights of a layer multiply what it aggregates: one rule per kind of layer.

A layer computes F_1 W_1 + F_2 W_2 + ... from its input H. For GCNConv this is P H W, for SAGEConv
the mean over the neighbours times one weight plus H times another. If all weights are the same
matrix W, the output is F W with F = F_1 + F_2 + .... If the weights of the neighbours and of the
node itself have different inputs, then W stacks one block of rows, and F one block of columns, per
input. F is the output of the layer with identity matrices as weights. A rule is therefore a list of
names of weights. Only a layer that cannot run with identity matrices needs a function that computes
F.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
import torch_geometric.nn as pyg
from torch import Tensor
from torch.nn.parameter import is_lazy
from torch.nn.utils.parametrize import is_parametrized

from ...errors import InputError, InputTypeError
from ..conv import GCNConv, GPCAConv
from . import neighbors
from .report import LayerReport

Aggregate = Callable[..., Tensor]

#: Layers whose weight has shape (out_channels, in_channels).
LINEAR = (torch.nn.Linear, pyg.Linear)

#: Layers that do not aggregate.
WITHOUT_EDGES = (*LINEAR, pyg.HeteroLinear)

#: Name in the report of a layer that is the model itself.
MODEL_NAME = "(the model)"


def _one(layer: Any) -> int:
    return 1


class Rule(NamedTuple):
    """How to initialise a kind of layer; the first fields are the arguments of ``register_layer``.

    ``reason(layer)`` is the reason why a layer cannot be set, or empty. ``stacks(layer)`` is the
    number of parallel weights whose results are averaged after an activation, the last index
    before the matrix; each of them gets other eigenvectors. ``pads_input`` is set if the layer
    appends zeros to its input, ``pairs=False`` if no activation can follow the weights.
    ``results(layer)`` is the number of results of the same W side by side. ``is_linear`` is unset
    if the layer has other steps after the weights.
    """

    weights: tuple[str, ...] = ()
    root: tuple[str, ...] = ()
    aggregate: Aggregate | None = None
    copies: Callable[[Any], int] = _one
    reason: Callable[[Any], str] = lambda layer: ""
    stacks: Callable[[Any], int] = _one
    results: Callable[[Any], int] = _one
    pads_input: bool = False
    pairs: bool = True
    is_linear: bool = True

    @property
    def is_container(self) -> bool:
        """Whether the weights belong to layers inside the layer, which have their own rules."""
        return not self.weights


# -- the rules ----------------------------------------------------------------------------


def _averaged_heads(layer: Any) -> int:
    return 1 if layer.concat else int(layer.heads)


def concatenated_heads(layer: Any) -> int:
    """Number of attention heads whose outputs are concatenated, 1 for other layers."""
    return int(layer.heads) if getattr(layer, "concat", False) and hasattr(layer, "heads") else 1


def _reason_blocks(layer: pyg.RGCNConv) -> str:
    if layer.num_blocks is None:
        return ""
    return "its weights are block-diagonal (num_blocks), which eigenvectors of all features are not"


def _reason_edge_features(layer: pyg.ResGatedGraphConv) -> str:
    return "" if layer.edge_dim is None else "its weights also multiply edge features (edge_dim)"


#: Rules by class. Subclasses without their own rule use that of their base class.
RULES: dict[type, Rule] = {
    torch.nn.Linear: Rule(("weight",), aggregate=neighbors.identity),
    pyg.Linear: Rule(("weight",), aggregate=neighbors.identity),
    pyg.HeteroLinear: Rule(("weight",), aggregate=neighbors.identity),
    torch.nn.MultiheadAttention: Rule(
        reason=lambda layer: "attention between all nodes does not aggregate over edges"
    ),
    GCNConv: Rule(("lin",), aggregate=neighbors.propagate),
    GPCAConv: Rule(("weight",), aggregate=neighbors.propagate_centered),
    pyg.GCNConv: Rule(("lin",)),
    pyg.SGConv: Rule(("lin",)),
    pyg.SSGConv: Rule(("lin",)),
    pyg.GraphConv: Rule(("lin_rel",), ("lin_root",)),
    pyg.SAGEConv: Rule(("lin_l",), ("lin_r",)),
    pyg.ClusterGCNConv: Rule(("lin_out",), ("lin_root",)),
    pyg.LEConv: Rule(("lin1",), ("lin2", "lin3")),
    pyg.ChebConv: Rule(("lins",)),
    pyg.TAGConv: Rule(("lins",)),
    pyg.GCN2Conv: Rule(("weight1", "weight2")),
    pyg.RGCNConv: Rule(("weight",), ("root",), reason=_reason_blocks),
    pyg.ARMAConv: Rule(
        ("init_weight",), ("root_weight",), neighbors.propagate_normalized,
        stacks=lambda layer: layer.num_stacks, is_linear=False,
    ),
    pyg.MixHopConv: Rule(
        ("lins",), aggregate=neighbors.mix_powers, results=lambda layer: len(layer.powers),
        is_linear=False,
    ),
    pyg.GatedGraphConv: Rule(
        ("weight",), aggregate=neighbors.aggregate, pads_input=True, pairs=False, is_linear=False
    ),
    pyg.GATConv: Rule(("lin", "lin_src"), ("res",), neighbors.average, _averaged_heads),
    pyg.GATv2Conv: Rule(("lin_l",), ("res",), neighbors.average, _averaged_heads),
    pyg.SuperGATConv: Rule(("lin",), (), neighbors.average, _averaged_heads),
    pyg.TransformerConv: Rule(
        ("lin_value",), ("lin_skip",), neighbors.average, _averaged_heads
    ),
    pyg.FiLMConv: Rule(
        ("lins",), ("lin_skip",), neighbors.aggregate_relations, is_linear=False
    ),
    pyg.ResGatedGraphConv: Rule(
        ("lin_value",), ("lin_skip",), neighbors.aggregate_gated, reason=_reason_edge_features
    ),
    pyg.FAConv: Rule(
        reason=lambda layer: "it has no weight matrix, only attention coefficients"
    ),
    pyg.GINConv: Rule(),
    pyg.GINEConv: Rule(),
    pyg.GENConv: Rule(),
    pyg.EdgeConv: Rule(),
    pyg.DynamicEdgeConv: Rule(),
    pyg.PNAConv: Rule(),
}  # fmt: skip


def register_layer(
    kind: type,
    *weights: str,
    root: Collection[str] = (),
    aggregate: Aggregate | None = None,
    copies: Callable[[Any], int] = _one,
) -> None:
    """Add a rule for a kind of layer, so that the initialisers can set its weights.

    Parameters
    ----------
    kind : type
        A subclass of ``torch.nn.Module``. The rule also applies to its subclasses.
    *weights : str
        Names of the attributes that multiply what the layer aggregates: linear layers, lists of
        linear layers, or parameters of shape (in_channels, out_channels), also with further
        dimensions in front, such as one for relations. Without names, the weights belong to
        modules inside the layer, which are set for their own input, as in ``GINConv``.
    root : collection of str
        Names of the attributes that multiply the features of the node itself. A layer that takes
        a pair of source and destination features needs them here, others may list them above.
    aggregate : callable, optional
        ``aggregate(layer, x, *args, **kwargs)`` returns F without the part of ``root``; the
        arguments are those of the layer's ``forward``. By default the layer itself runs with
        identity matrices as weights and without its ``bias``.
    copies : callable, optional
        ``copies(layer)`` is the number of times that W is repeated side by side in the widest
        weight, such as the number of averaged attention heads. 1 by default.

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
    if isinstance(root, str):
        raise InputTypeError(f"root={root!r} is a string; give a list of names, [{root!r}]")
    RULES[kind] = Rule(weights, tuple(root), aggregate, copies)


# -- the layers of a model ----------------------------------------------------------------


class NamedLayer(NamedTuple):
    """A layer of a model with its name in reports and its rule."""

    name: str
    module: Any
    rule: Rule

    def report(self, **fields: Any) -> LayerReport:
        """Return the report of the layer with these fields."""
        return LayerReport(self.name, type(self.module).__name__, **fields)


def unwrap(model: torch.nn.Module) -> torch.nn.Module:
    """Return the model inside DataParallel, DistributedDataParallel or torch.compile."""
    parallel = (torch.nn.DataParallel, torch.nn.parallel.DistributedDataParallel)
    while True:
        inner = model.module if isinstance(model, parallel) else getattr(model, "_orig_mod", None)
        if not isinstance(inner, torch.nn.Module):
            return model
        model = inner


def get_layer(model: torch.nn.Module, name: str) -> torch.nn.Module:
    """Return a layer of an unwrapped model by its name in a report."""
    return model if name == MODEL_NAME else model.get_submodule(name)


def find_layers(model: torch.nn.Module) -> tuple[dict[str, NamedLayer], list[LayerReport]]:
    """Return the layers that have a rule by name, and reports of layers that cannot be set.

    Modules without a weight matrix, such as norms, are in neither.
    """
    layers: dict[str, NamedLayer] = {}
    cannot_be_set: list[LayerReport] = []
    done: list[str] = []  # prefixes of modules that belong to a layer found before
    for name, module in unwrap(model).named_modules():
        if any(name.startswith(prefix) for prefix in done):
            continue
        kind, shown, prefix = type(module), name or MODEL_NAME, f"{name}." if name else ""
        rule = next((RULES[base] for base in kind.__mro__ if base in RULES), None)
        reason = ""
        if rule is not None:
            reason = rule.reason(module)
            if not reason:
                layers[shown] = NamedLayer(shown, module, rule)
            if reason or not rule.is_container:
                done.append(prefix)
        elif isinstance(module, pyg.MessagePassing) and _has_matrix(module, recurse=True):
            reason = f"there is no rule for {kind.__name__}; add one by register_layer"
            done.append(prefix)
        elif _has_matrix(module, recurse=False):
            reason = "neither a convolution nor a linear layer"
        if reason:
            cannot_be_set.append(LayerReport(shown, kind.__name__, reason=reason))
    return layers, cannot_be_set


def reports_of_idle_layers(
    layers: Iterable[NamedLayer], reached: Collection[str]
) -> list[LayerReport]:
    """Return the reports of the layers that did not run."""
    reason = "the forward pass did not reach it"
    return [layer.report(reason=reason) for layer in layers if layer.name not in reached]


def _has_matrix(module: torch.nn.Module, *, recurse: bool) -> bool:
    return any(is_lazy(p) or p.dim() > 1 for p in module.parameters(recurse=recurse))


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


class WeightMatrix(NamedTuple):
    """A weight of a layer, as a view of shape (in_channels, out_channels).

    The view has further dimensions in front if the parameter has, such as one for relations.
    ``is_root`` is set if it multiplies the features of the node itself.
    """

    matrix: Tensor
    is_root: bool


def find_weights(layer: NamedLayer) -> dict[torch.nn.Parameter, WeightMatrix]:
    """Return the weights that the rule names; raise LayerSkipped if they cannot be set together."""
    weights: dict[torch.nn.Parameter, WeightMatrix] = {}
    for owner, name, is_root in weight_attributes(layer):
        value: Any = None if is_parametrized(owner, name) else getattr(owner, name)
        if isinstance(value, LINEAR):
            owner, name = value, "weight"
            value = None if is_parametrized(owner, name) else owner.weight
        elif isinstance(value, torch.nn.Module):
            raise LayerSkipped(
                f"its {name} is a {type(value).__name__} and not a linear layer; correct the names "
                f"in register_layer, or set the layers inside it by a rule without names"
            )
        if name not in own_parameters(owner):
            raise LayerSkipped("its weight is computed from others (parametrised or pruned)")
        if value.dim() < 2:
            raise LayerSkipped(f"its parameter {name} is not a matrix")
        weights[value] = WeightMatrix(value.T if isinstance(owner, LINEAR) else value, is_root)
    if not weights:
        names = " or ".join(map(repr, layer.rule.weights + layer.rule.root))
        kind = type(layer.module).__name__
        raise InputError(f"{kind} has no attribute {names}; correct the names in register_layer")
    widths = [matrix.shape[-1] for matrix, _ in weights.values()]
    n_rows = {(is_root, matrix.shape[-2]) for matrix, is_root in weights.values()}
    if len(n_rows) > len({is_root for is_root, _ in n_rows}) or any(
        width % (max(widths) // layer.rule.copies(layer.module)) for width in widths
    ):
        raise LayerSkipped("its weights have different shapes")
    if not all(parameter.requires_grad for parameter in weights):
        raise LayerSkipped("its weights are frozen")
    return weights


def find_biases(layer: NamedLayer) -> list[torch.nn.Parameter]:
    """Return the biases that are added to F W and are not frozen.

    The bias of the layer is first. Then follow those of the weights for the node itself, which no
    aggregation changes.
    """
    found = sorted(weight_attributes(layer), key=lambda found: not found[2])
    owners = [layer.module, *(getattr(owner, name) for owner, name, _ in found)]
    biases = dict.fromkeys(getattr(owner, "bias", None) for owner in owners)
    return [b for b in biases if isinstance(b, torch.nn.Parameter) and b.requires_grad]


def weight_attributes(layer: NamedLayer) -> Iterator[tuple[Any, str, bool]]:
    """The modules that hold the weights, the names of the weights in them, and if they are root."""
    _, module, rule = layer
    has_root = getattr(module, "root_weight", True) is not False  # some keep an unused weight
    for name in rule.weights + (rule.root if has_root else ()):
        is_root = name in rule.root
        if is_parametrized(module, name):  # reading it may change buffers, as in spectral_norm
            yield module, name, is_root
            continue
        value = getattr(module, name, None)
        if isinstance(value, torch.nn.ModuleList):
            for index, part in enumerate(value):
                if any(True for _ in part.parameters()):
                    yield value, str(index), is_root
        elif value is not None:
            yield module, name, is_root


def own_parameters(module: torch.nn.Module) -> dict[str, torch.nn.Parameter]:
    return dict(module.named_parameters(recurse=False, remove_duplicate=False))
