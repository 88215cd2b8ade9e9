"""Graph, features, labels and split as tensors, and the call of a model on them."""

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
from torch.nn.parameter import is_lazy

from ...datasets import Dataset
from ...errors import InputError, InputTypeError
from ...graph import Graph
from ...utils.labels import SPLIT
from ...utils.messages import first_line
from ..conv import GCNConv, GPCAConv, uses_ghost_edges
from ..init.forward_pass import preserved_state
from ..models import GPCANet
from ..propagation import to_propagation
from ..tensors import (
    check_finite_features,
    dtype_name,
    is_sparse,
    select_rows,
    to_feature_tensor,
)


@dataclass(frozen=True, eq=False)
class NodeData:
    """A graph with features, labels and a split into training, validation and test nodes.

    Attributes
    ----------
    x : Tensor of shape (n_nodes, n_features)
        Features, dense or sparse.
    graph : Graph
    y : Tensor of shape (n_nodes,)
        Class of each node, -1 for unlabelled nodes.
    train, validation, test : Tensor
        Positions of the nodes of each part of the split.

    Examples
    --------
    >>> from gpcanet.datasets import load
    >>> data = NodeData.of(load("digits"))
    >>> data.x.shape, data.n_classes, len(data.train)
    (torch.Size([1797, 64]), 10, 50)
    """

    x: Tensor
    graph: Graph
    y: Tensor
    train: Tensor
    validation: Tensor
    test: Tensor

    @classmethod
    def of(cls, source: Any, device: Any = "cpu") -> NodeData:
        """Create it from a ``Dataset`` or a ``torch_geometric.data.Data`` with masks."""
        if isinstance(source, NodeData | Dataset):
            x = source.x if isinstance(source, NodeData) else to_feature_tensor(source.X)
            graph = source.graph
            split = [to_positions(getattr(source, name), graph.n_nodes, name) for name in SPLIT]
        else:
            masks = [getattr(source, f"{part}_mask", None) for part in ("train", "val", "test")]
            if masks[0] is None:
                raise InputError(
                    f"{type(source).__name__} has no train_mask; give a Dataset, a NodeData, or a "
                    f"PyG Data with train_mask, val_mask and test_mask"
                )
            x = source.x
            if not isinstance(x, Tensor):
                raise InputTypeError(
                    f"x of the data is a {type(x).__name__}; give a tensor of features"
                )
            graph = Graph.from_pyg(source)
            split = [_mask_positions(mask, graph.n_nodes) for mask in masks]
        return cls(x, graph, to_class_codes(source.y), *split).to(device).check()

    def check(self) -> NodeData:
        """Return the data, or raise an error if a model cannot be trained on it."""
        n = self.graph.n_nodes
        if self.x.dim() != 2 or self.x.shape[0] != n or tuple(self.y.shape) != (n,):
            raise InputError(
                f"features of shape {tuple(self.x.shape)} and labels of shape "
                f"{tuple(self.y.shape)} for {n} nodes; give one row and one label per node"
            )
        check_finite_features(self.x)
        for name in ("train", "validation"):
            if len(getattr(self, name)) == 0:
                raise InputError(f"the split has no {name} nodes; add at least one")
        count = torch.zeros(n, dtype=torch.int64, device=self.y.device)
        for name in SPLIT:
            nodes = getattr(self, name)
            if len(nodes) and int(self.y[nodes].min()) < 0:
                raise InputError(f"a {name} node has no label (-1); remove it from the split")
            count += torch.bincount(nodes, minlength=n)
        if int(count.max()) > 1:
            raise InputError(
                f"node {int(count.argmax())} occurs more than once in {', '.join(SPLIT)}; give "
                f"every node at most once"
            )
        return self

    @property
    def n_classes(self) -> int:
        """Largest class code plus one."""
        return int(self.y.max()) + 1

    @property
    def visible_labels(self) -> Tensor:
        """Labels of the training nodes, -1 for all other nodes."""
        visible = torch.full_like(self.y, -1)
        visible[self.train] = self.y[self.train]
        return visible

    @cached_property
    def edge_index(self) -> Tensor:
        """Both directions of every edge in PyG's format: sources in row 0, targets in row 1."""
        targets = np.repeat(np.arange(self.graph.n_nodes), np.diff(self.graph.indptr))
        pair = np.stack([self.graph.indices.astype(np.int64), targets])
        return torch.from_numpy(pair).to(self.y.device)

    def to(self, device: Any) -> NodeData:
        """Return the data with all tensors on a device."""
        tensors = ("x", "y", *SPLIT)
        return replace(self, **{name: getattr(self, name).to(device) for name in tensors})

    def subset(self, nodes: np.ndarray) -> NodeData:
        """Return the induced subgraph of some nodes with their features, labels and split."""
        position = torch.full((self.graph.n_nodes,), -1)
        position[torch.from_numpy(nodes)] = torch.arange(len(nodes))
        split = {name: position[getattr(self, name).cpu()] for name in SPLIT}
        return NodeData(
            select_rows(self.x, nodes),
            self.graph.subgraph(nodes),
            self.y[torch.from_numpy(nodes).to(self.y.device)],
            **{name: rows[rows >= 0].to(self.y.device) for name, rows in split.items()},
        )


# -- labels and splits --------------------------------------------------------------------


def to_class_codes(y: Any) -> Tensor:
    """Convert labels to one integer class code per node; integral floats are accepted."""
    if y is None:
        raise InputError("the data have no y; give one class code per node, -1 where unknown")
    if not isinstance(y, Tensor):
        values = np.asarray(y)
        if values.dtype.kind not in "biuf":
            raise InputTypeError(
                f"y of dtype {values.dtype} must hold integer class codes; np.unique(y, "
                f"return_inverse=True) converts names to codes"
            )
        y = torch.from_numpy(values)
    if y.shape[1:] == (1,):  # the format of OGB
        y = y.flatten()
    if y.dim() != 1:
        raise InputError(
            f"y of shape {tuple(y.shape)} has several values per node; give one class code per "
            f"node, for one-hot labels y.argmax(1)"
        )
    if y.is_complex():
        raise InputTypeError("y holds complex numbers; give integer class codes")
    if y.is_floating_point():
        wrong = ~torch.isfinite(y) | (y != y.floor())
        if bool(wrong.any()):
            node = int(wrong.nonzero()[0])
            raise InputError(
                f"y is {y[node]:g} at node {node}, which is not a class code; train does not "
                f"support node regression, so give integer class codes, -1 where unknown"
            )
    return y.long()


def to_positions(nodes: Any, n_nodes: int, name: str) -> Tensor:
    """Convert a list of node positions to an integer tensor."""
    nodes = nodes if isinstance(nodes, Tensor) else torch.from_numpy(np.asarray(nodes))
    if nodes.dim() != 1 or (
        len(nodes) and (nodes.is_floating_point() or nodes.dtype == torch.bool)
    ):
        raise InputTypeError(
            f"{name} of shape {tuple(nodes.shape)} and dtype {dtype_name(nodes)} must be a list of "
            f"integer positions; np.flatnonzero converts a mask to positions"
        )
    if len(nodes) and not 0 <= int(nodes.min()) <= int(nodes.max()) < n_nodes:
        wrong = int(nodes.min()) if int(nodes.min()) < 0 else int(nodes.max())
        raise InputError(
            f"{name} contains node {wrong}, but there are {n_nodes} nodes; node positions go from "
            f"0 to {n_nodes - 1}"
        )
    return nodes.long()


def _mask_positions(mask: Tensor | None, n_nodes: int) -> Tensor:
    if mask is None:
        return torch.empty(0, dtype=torch.int64)
    if mask.dim() == 2:
        raise InputError(
            f"masks of shape {tuple(mask.shape)} contain several splits; choose one, for example "
            f"train_mask[:, 0]"
        )
    if mask.dtype != torch.bool or tuple(mask.shape) != (n_nodes,):
        raise InputError(
            f"a mask has shape {tuple(mask.shape)} and dtype {dtype_name(mask)} for {n_nodes} "
            f"nodes; give one bool per node"
        )
    return mask.nonzero().flatten()


# -- calling a model ----------------------------------------------------------------------


class ModelEdges(NamedTuple):
    """The arguments of a model besides the features."""

    edge_index: Any
    edge_weight: Tensor | None = None

    def run(self, model: torch.nn.Module, x: Tensor) -> Tensor:
        """Call the model on features and these edges."""
        if self.edge_weight is not None:
            return model(x, self.edge_index, edge_weight=self.edge_weight)
        try:
            return model(x, self.edge_index)
        except (AttributeError, TypeError) as error:
            if "GraphPropagation" not in str(error):
                raise
            raise InputError(
                f"the model uses its edges outside of its convolutions ({error}), for which they "
                f"must be an edge_index; use GCNConv of PyG in this model"
            ) from error


def prepare_edges(model: torch.nn.Module, data: NodeData) -> ModelEdges:
    """Return a GraphPropagation if the model accepts it, otherwise an edge_index."""
    graph = data.graph
    if isinstance(model, GPCANet):
        return ModelEdges(model.propagation(graph, None, graph.n_nodes, data.visible_labels))
    kinds = {
        layer.normalization if isinstance(layer, GCNConv | GPCAConv) else None
        for layer in model.modules()
        if isinstance(layer, pyg.MessagePassing | GPCAConv)
    }
    if kinds in ({"sym"}, {"rw"}) and not uses_ghost_edges(model):
        return ModelEdges(to_propagation(graph, None, graph.n_nodes, normalization=kinds.pop()))
    if graph.weights is None:
        return ModelEdges(data.edge_index)
    accepts_weights = "edge_weight" in inspect.signature(model.forward).parameters
    if not (accepts_weights and getattr(model, "supports_edge_weight", True)):
        warnings.warn(
            f"{type(model).__name__} does not support edge weights; they are ignored", stacklevel=2
        )
        return ModelEdges(data.edge_index)
    weights = torch.from_numpy(np.array(graph.weights)).to(data.y.device, data.x.dtype)
    return ModelEdges(data.edge_index, weights)


@torch.no_grad()
def initialize_lazy_layers(model: torch.nn.Module, data: NodeData) -> None:
    """Give lazy layers their shapes by one pass."""
    if any(is_lazy(parameter) for parameter in model.parameters()):
        with translating_torch_errors(data), preserved_state(model):
            prepare_edges(model, data).run(model, data.x)


@torch.no_grad()
def densify_if_needed(model: torch.nn.Module, data: NodeData) -> NodeData:
    """Return the data with dense features if the model does not support sparse ones.

    Layers that project first support them, layers of PyG that gather neighbours first do not.
    """
    if not is_sparse(data.x):
        return data
    with translating_torch_errors(data), preserved_state(model):
        try:
            prepare_edges(model, data).run(model, data.x)
        except NotImplementedError:
            return replace(data, x=data.x.to_dense())
    return data


def check_output(output: Any, n_nodes: int) -> None:
    """Raise an error unless a model returned one row of scores per node."""
    if isinstance(output, Tensor) and output.dim() == 2 and len(output) == n_nodes:
        return
    is_tensor = isinstance(output, Tensor)
    returned = f"shape {tuple(output.shape)}" if is_tensor else type(output).__name__
    raise InputError(
        f"the model returns {returned}; wrap it in one that returns a tensor of {n_nodes} rows "
        f"with one score per class"
    )


@contextmanager
def translating_torch_errors(data: NodeData) -> Iterator[None]:
    """Raise an InputError if torch fails because the model does not fit the data."""
    try:
        yield
    except RuntimeError as error:
        if "memory" in str(error):
            raise
        n, d = data.x.shape
        raise InputError(
            f"the model does not accept {n} nodes with {d} features: {first_line(error)}"
        ) from error
