"""What a model is trained on, as tensors."""

from __future__ import annotations

import inspect
import warnings
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
import torch_geometric.nn as pyg
from torch import Tensor

from ..datasets import Dataset
from ..errors import InputError
from ..graph import Graph
from ..outcome import SPLIT
from .conv import GCNConv
from .models import GPCANet
from .passes import as_it_was
from .propagation import as_propagation
from .tensors import feature_tensor, is_sparse, rows_of, values_of


@dataclass(frozen=True)
class NodeData:
    """A graph with features, labels and the nodes to train, select and test on.

    ``y`` is -1 where a label is unknown; ``train``, ``validation`` and ``test`` are positions.
    """

    x: Tensor
    graph: Graph
    y: Tensor
    train: Tensor
    validation: Tensor
    test: Tensor

    @classmethod
    def of(cls, source: Any, device: Any = "cpu") -> NodeData:
        """From a ``Dataset`` of ours or a ``torch_geometric.data.Data`` with masks."""
        if isinstance(source, NodeData):
            return source.check().to(device)
        if isinstance(source, Dataset):
            x = feature_tensor(source.X)
            parts = [source.y, source.train, source.validation, source.test]
            tensors = [torch.from_numpy(np.asarray(part, np.int64)) for part in parts]
            return cls(x, source.graph, *tensors).check().to(device)
        masks = [getattr(source, f"{part}_mask", None) for part in ("train", "val", "test")]
        if masks[0] is None:
            raise InputError(
                f"{type(source).__name__} has no train_mask; give a Dataset, a NodeData, or a PyG "
                f"Data with train_mask, val_mask and test_mask"
            )
        for mask in masks:
            if mask is not None and mask.dim() != 1:
                raise InputError(
                    f"masks of shape {tuple(mask.shape)} are several splits; choose one, as "
                    f"train_mask[:, 0]"
                )
        nodes = [
            torch.empty(0, dtype=torch.int64) if mask is None else mask.nonzero().flatten()
            for mask in masks
        ]
        y = source.y.flatten() if source.y.shape[1:] == (1,) else source.y  # as OGB has it
        return cls(source.x, Graph.from_pyg(source), y.long(), *nodes).check().to(device)

    def check(self) -> NodeData:
        """The data itself, if a model can be trained on it."""
        n = self.graph.n_nodes
        if self.x.shape[0] != n or tuple(self.y.shape) != (n,):
            raise InputError(
                f"features of shape {tuple(self.x.shape)} and labels of shape "
                f"{tuple(self.y.shape)} for {n} nodes; give a row and a label per node"
            )
        if not bool(torch.isfinite(values_of(self.x)).all()):
            raise InputError("features have values that are NaN or infinite; fill them in first")
        for name in ("train", "validation"):
            if len(getattr(self, name)) == 0:
                raise InputError(f"no node for {name}; training needs a split that has some")
        member = torch.zeros(n, dtype=torch.int64, device=self.y.device)
        for name in SPLIT:
            nodes = getattr(self, name)
            if len(nodes) and int(self.y[nodes].min()) < 0:
                raise InputError(f"a {name} node has no label (-1); drop it from the split")
            member[nodes] += 1
        if int(member.max()) > 1:
            raise InputError(
                f"node {int(member.argmax())} is in more than one of {', '.join(SPLIT)}; a split "
                f"has every node once"
            )
        return self

    @property
    def n_classes(self) -> int:
        return int(self.y.max()) + 1

    @property
    def visible_labels(self) -> Tensor:
        """y with -1 wherever a model may not look while it learns."""
        visible = torch.full_like(self.y, -1)
        visible[self.train] = self.y[self.train]
        return visible

    @cached_property
    def edge_index(self) -> Tensor:
        """Both directions of every edge, as PyG has them: sources above targets."""
        targets = np.repeat(np.arange(self.graph.n_nodes), np.diff(self.graph.indptr))
        pair = np.stack([self.graph.indices.astype(np.int64), targets])
        return torch.from_numpy(pair).to(self.y.device)

    def to(self, device: Any) -> NodeData:
        tensors = ("x", "y", *SPLIT)
        return replace(self, **{name: getattr(self, name).to(device) for name in tensors})

    def part(self, nodes: np.ndarray) -> NodeData:
        """Some nodes and the edges among them; whoever of them is in the split stays in it."""
        place = torch.full((self.graph.n_nodes,), -1)
        place[torch.from_numpy(nodes)] = torch.arange(len(nodes))
        chosen = {name: place[getattr(self, name).cpu()] for name in SPLIT}
        return NodeData(
            rows_of(self.x, nodes),
            self.graph.subgraph(nodes),
            self.y[torch.from_numpy(nodes).to(self.y.device)],
            **{name: rows[rows >= 0].to(self.y.device) for name, rows in chosen.items()},
        )


class Edges(NamedTuple):
    """What a model takes besides its features."""

    edge_index: Any
    edge_weight: Tensor | None = None

    def run(self, model: torch.nn.Module, x: Tensor) -> Tensor:
        if self.edge_weight is None:
            return model(x, self.edge_index)
        return model(x, self.edge_index, edge_weight=self.edge_weight)


def edges_for(model: torch.nn.Module, data: NodeData) -> Edges:
    """Our propagation where the model can take it, an edge_index elsewhere."""
    graph = data.graph
    if isinstance(model, GPCANet):
        return Edges(model.propagation(graph, None, graph.n_nodes, data.visible_labels))
    convolutions = [m for m in model.modules() if isinstance(m, pyg.MessagePassing)]
    kinds = {m.normalization if isinstance(m, GCNConv) else None for m in convolutions}
    if kinds in ({"sym"}, {"rw"}):
        return Edges(as_propagation(graph, None, graph.n_nodes, normalization=kinds.pop()))
    if graph.weights is None:
        return Edges(data.edge_index)
    if not _takes_weights(model):
        warnings.warn(
            f"{type(model).__name__} takes no edge weights; they are left out", stacklevel=2
        )
        return Edges(data.edge_index)
    weights = torch.from_numpy(np.array(graph.weights)).to(data.y.device, torch.float32)
    return Edges(data.edge_index, weights)


def _takes_weights(model: torch.nn.Module) -> bool:
    named = "edge_weight" in inspect.signature(model.forward).parameters
    return named and getattr(model, "supports_edge_weight", True)


@torch.no_grad()
def suited_to(model: torch.nn.Module, data: NodeData) -> NodeData:
    """The same data, with dense features if the model cannot take sparse ones.

    Layers that project first can; PyG's that look up neighbours first cannot.
    """
    if not is_sparse(data.x):
        return data
    try:
        with as_it_was(model):
            edges_for(model, data).run(model, data.x)
    except NotImplementedError:
        return replace(data, x=data.x.to_dense())
    return data
