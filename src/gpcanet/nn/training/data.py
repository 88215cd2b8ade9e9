"""What a model is trained on, as tensors."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
import torch_geometric.nn as pyg
from torch import Tensor

from ...datasets import Dataset
from ...errors import InputError, InputTypeError
from ...graph import Graph
from ...utils.training_result import SPLIT
from ..checks import check_finite_features, class_codes, positions
from ..conv import GCNConv
from ..init.passes import as_it_was
from ..models import GPCANet
from ..propagation import as_propagation
from ..tensors import feature_tensor, is_sparse, rows_of


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
        if isinstance(source, NodeData | Dataset):
            x = source.x if isinstance(source, NodeData) else feature_tensor(source.X)
            n = source.graph.n_nodes
            split = [positions(getattr(source, name), n, name) for name in SPLIT]
            return cls(x, source.graph, class_codes(source.y), *split).to(device).check()
        masks = [getattr(source, f"{part}_mask", None) for part in ("train", "val", "test")]
        if masks[0] is None:
            raise InputError(
                f"{type(source).__name__} has no train_mask; give a Dataset, a NodeData, or a PyG "
                f"Data with train_mask, val_mask and test_mask"
            )
        if not isinstance(source.x, Tensor):
            raise InputTypeError(
                f"x of the data is a {type(source.x).__name__}; give a tensor of features"
            )
        graph = Graph.from_pyg(source)
        nodes = [_members(mask, graph.n_nodes) for mask in masks]
        return cls(source.x, graph, class_codes(source.y), *nodes).to(device).check()

    def check(self) -> NodeData:
        """The data itself, if a model can be trained on it."""
        n = self.graph.n_nodes
        if self.x.dim() != 2 or self.x.shape[0] != n or tuple(self.y.shape) != (n,):
            raise InputError(
                f"features of shape {tuple(self.x.shape)} and labels of shape "
                f"{tuple(self.y.shape)} for {n} nodes; give a row and a label per node"
            )
        check_finite_features(self.x)
        for name in ("train", "validation"):
            if len(getattr(self, name)) == 0:
                raise InputError(f"no node for {name}; training needs a split that has some")
        member = torch.zeros(n, dtype=torch.int64, device=self.y.device)
        for name in SPLIT:
            nodes = getattr(self, name)
            if len(nodes) and int(self.y[nodes].min()) < 0:
                raise InputError(f"a {name} node has no label (-1); drop it from the split")
            member += torch.bincount(nodes, minlength=n)
        if int(member.max()) > 1:
            raise InputError(
                f"node {int(member.argmax())} is more than once in {', '.join(SPLIT)}; a split has "
                f"every node once"
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


def _members(mask: Tensor | None, n_nodes: int) -> Tensor:
    """Positions of the nodes of a mask."""
    if mask is None:
        return torch.empty(0, dtype=torch.int64)
    if mask.dim() == 2:
        raise InputError(
            f"masks of shape {tuple(mask.shape)} are several splits; choose one, as "
            f"train_mask[:, 0]"
        )
    if mask.dtype != torch.bool or tuple(mask.shape) != (n_nodes,):
        raise InputError(
            f"a mask of shape {tuple(mask.shape)} and dtype {mask.dtype} for {n_nodes} nodes; give "
            f"one bool per node"
        )
    return mask.nonzero().flatten()


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
    with as_input_errors(data), as_it_was(model):
        try:
            edges_for(model, data).run(model, data.x)
        except NotImplementedError:
            return replace(data, x=data.x.to_dense())
    return data


@contextmanager
def as_input_errors(data: NodeData) -> Iterator[None]:
    """Errors of torch in the first pass of a model say that it does not fit the data."""
    try:
        yield
    except RuntimeError as error:
        if "memory" in str(error):
            raise
        n, d = data.x.shape
        reason = str(error).splitlines()[0]
        raise InputError(
            f"the model does not take {n} nodes with {d} features: {reason}"
        ) from error
