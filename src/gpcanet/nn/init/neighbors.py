"""What layers aggregate from the neighbours, for layers that cannot run with identity matrices.

Every function takes the layer and the arguments of its ``forward``, and returns F without the part
of the node's own features.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, TypeAlias

import torch
import torch_geometric.nn as pyg
from torch import Tensor
from torch_geometric.nn.conv.gcn_conv import gcn_norm
from torch_geometric.utils import add_self_loops, remove_self_loops

from ..conv import GCNConv, GPCAConv
from ..propagation import GraphPropagation
from ..tensors import is_sparse


class Pair(NamedTuple):
    """Features of the source and of the destination nodes of a layer."""

    source: Tensor
    root: Tensor | None


#: Features that a layer aggregates.
Features: TypeAlias = Tensor | Pair


def parts_of(features: Features) -> list[Tensor]:
    """The features of the node sets."""
    if isinstance(features, Tensor):
        return [features]
    return [part for part in features if part is not None]


def identity(layer: Any, x: Tensor, *_: Any, **__: Any) -> Tensor:
    return x


def propagate(layer: GCNConv, x: Tensor, P: GraphPropagation) -> Tensor:
    return P @ x


def propagate_centered(layer: GPCAConv, x: Tensor, P: GraphPropagation) -> Tensor:
    return layer.aggregate(P, x - x.mean(0) if layer.center else x)


def average(layer: Any, x: Features, edge_index: Any, *_: Any, size: Any = None, **__: Any) -> Any:
    """Attention with equal coefficients."""
    combine = None
    if getattr(layer, "add_self_loops", False):
        if isinstance(edge_index, Tensor) and not is_sparse(edge_index):
            edge_index, _ = remove_self_loops(edge_index)  # attention replaces them, too
            n_common_nodes = min(part.shape[0] for part in parts_of(x))
            edge_index, _ = add_self_loops(edge_index, num_nodes=n_common_nodes)
        else:
            combine = "self_loop"
    return pyg.SimpleConv("mean", combine, flow=layer.flow)(x, edge_index, size=size)


def aggregate(layer: Any, x: Features, edge_index: Any, edge_weight: Any = None) -> Tensor:
    """The layer's aggregation of the features of the neighbours."""
    return pyg.SimpleConv(layer.aggr, flow=layer.flow)(x, edge_index, edge_weight)


def aggregate_gated(layer: Any, x: Features, edge_index: Any, *_: Any, **__: Any) -> Tensor:
    """The layer's aggregation, halved, because gates are half open before training."""
    return aggregate(layer, x, edge_index) / 2


def aggregate_relations(
    layer: Any, x: Features, edge_index: Any, edge_type: Tensor | None = None
) -> Tensor:
    """Sum over the relations of the layer's aggregation."""
    if layer.num_relations == 1 or edge_type is None:
        return aggregate(layer, x, edge_index)
    parts = [
        aggregate(layer, x, edge_index[:, edge_type == relation])
        for relation in range(layer.num_relations)
    ]
    return torch.stack(parts).sum(0)


def propagate_normalized(
    layer: Any, x: Tensor, edge_index: Any, edge_weight: Tensor | None = None
) -> Tensor:
    """One step of ARMAConv."""
    edge_index, edge_weight = gcn_norm(
        edge_index, edge_weight, x.shape[0], add_self_loops=False, flow=layer.flow, dtype=x.dtype
    )
    return layer.propagate(edge_index, x=x, edge_weight=edge_weight)


def mix_powers(layer: Any, x: Tensor, edge_index: Any, edge_weight: Tensor | None = None) -> Tensor:
    """Sum over the powers of P of MixHopConv.

    The results of the powers are concatenated. The division gives the sum of equal results the
    norm that they have side by side.
    """
    edge_index, edge_weight = gcn_norm(
        edge_index, edge_weight, x.shape[0], add_self_loops=layer.add_self_loops, flow=layer.flow,
        dtype=x.dtype,
    )  # fmt: skip
    results = [x]
    for _ in range(max(layer.powers)):
        results.append(layer.propagate(edge_index, x=results[-1], edge_weight=edge_weight))
    return torch.stack([results[power] for power in layer.powers]).sum(0) / math.sqrt(
        len(layer.powers)
    )
