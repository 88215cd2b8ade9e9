"""What a model is trained on, as tensors."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..datasets import Dataset
from ..graph import Graph
from .conv import GCNConv
from .models import GPCANet
from .propagation import as_propagation
from .tensors import feature_tensor, rows_of


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
            return source.to(device)
        if isinstance(source, Dataset):
            x = feature_tensor(source.X)
            parts = [source.y, source.train, source.validation, source.test]
            tensors = [torch.from_numpy(np.asarray(part, np.int64)) for part in parts]
            return cls(x, source.graph, *tensors).to(device)
        masks = [getattr(source, f"{part}_mask", None) for part in ("train", "val", "test")]
        if masks[0] is None:
            raise ValueError(
                f"{type(source).__name__} has no train_mask; give a Dataset, a NodeData, or a PyG "
                f"Data with train_mask, val_mask and test_mask"
            )
        nodes = [
            torch.empty(0, dtype=torch.int64) if mask is None else mask.nonzero().flatten()
            for mask in masks
        ]
        return cls(source.x, Graph.from_pyg(source), source.y, *nodes).to(device)

    def __post_init__(self) -> None:
        n = self.graph.n_nodes
        if self.x.shape[0] != n or self.y.shape[0] != n:
            raise ValueError(
                f"{self.x.shape[0]} rows of features and {self.y.shape[0]} labels for {n} nodes; "
                f"give one of each per node"
            )
        for name in ("train", "validation"):
            if len(getattr(self, name)) == 0:
                raise ValueError(f"no node for {name}; training needs a split that has some")
        for name in ("train", "validation", "test"):
            nodes = getattr(self, name)
            if len(nodes) and int(self.y[nodes].min()) < 0:
                raise ValueError(f"a {name} node has no label (-1); drop it from the split")

    @property
    def n_classes(self) -> int:
        return int(self.y.max()) + 1

    @property
    def visible_labels(self) -> Tensor:
        """y with -1 wherever a model may not look while it learns."""
        visible = torch.full_like(self.y, -1)
        visible[self.train] = self.y[self.train]
        return visible

    def to(self, device: Any) -> NodeData:
        tensors = ("x", "y", "train", "validation", "test")
        return replace(self, **{name: getattr(self, name).to(device) for name in tensors})

    def part(self, nodes: np.ndarray) -> tuple[Tensor, Graph, Tensor]:
        """Features, graph and visible labels of some nodes."""
        chosen = torch.from_numpy(nodes).to(self.y.device)
        return rows_of(self.x, nodes), self.graph.subgraph(nodes), self.visible_labels[chosen]


def edges_for(model: torch.nn.Module, graph: Graph, y: Tensor, device: Any) -> tuple[Any, ...]:
    """What the model takes besides x: our propagation where it can, an edge_index elsewhere."""
    if isinstance(model, GPCANet):
        return (model.propagation(graph, None, graph.n_nodes, y),)
    if any(isinstance(module, GCNConv) for module in model.modules()):
        return (as_propagation(graph, None, graph.n_nodes),)
    entries = np.repeat(np.arange(graph.n_nodes), np.diff(graph.indptr))
    pair = torch.from_numpy(np.stack([graph.indices.astype(np.int64), entries])).to(device)
    if graph.weights is None:
        return (pair,)
    return pair, torch.from_numpy(np.array(graph.weights, np.float32)).to(device)
