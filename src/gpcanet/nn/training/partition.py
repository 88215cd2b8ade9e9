"""Mini-batches of parts of a graph (ClusterGCN), partitioned by METIS."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ...errors import InputError
from ...graph import Graph
from ...utils.checks import check_number
from .data import ModelEdges, NodeData, prepare_edges


def partition(graph: Graph, n_parts: int, *, seed: int = 0) -> list[np.ndarray]:
    """Partition a graph into parts of about equal size with few edges between them.

    Parameters
    ----------
    graph : Graph
    n_parts : int
        Number of parts. Empty parts are dropped.
    seed : int
        Random seed of METIS.

    Returns
    -------
    list of ndarray
        Node positions of each part.

    Examples
    --------
    >>> graph = Graph.from_edge_index([[0, 1, 2, 3], [1, 0, 3, 2]])
    >>> sorted(part.tolist() for part in partition(graph, 2))
    [[0, 1], [2, 3]]
    """
    check_number(
        "n_parts", n_parts, 1, graph.n_nodes, advice="use 1 for the whole graph", integer=True
    )
    if n_parts == 1:
        return [np.arange(graph.n_nodes)]
    if len(graph.indices) > np.iinfo(np.int32).max:
        raise InputError(
            f"the graph has {len(graph.indices):,} entries, but METIS supports 2^31 at most; use "
            f"one part"
        )
    import pymetis

    _, membership = pymetis.part_graph(
        int(n_parts),
        pymetis.CSRAdjacency(graph.indptr.astype(np.int32), graph.indices),
        options=pymetis.Options(seed=int(seed)),
    )
    member = np.asarray(membership)
    parts = np.split(np.argsort(member, kind="stable"), np.cumsum(np.bincount(member))[:-1])
    return [part for part in parts if len(part)]


class Batch(NamedTuple):
    """Features, edges, and the rows with a loss and their labels."""

    x: Tensor
    edges: ModelEdges
    rows: Tensor
    y: Tensor

    @classmethod
    def of(cls, model: torch.nn.Module, data: NodeData, edges: ModelEdges | None = None) -> Batch:
        edges = prepare_edges(model, data) if edges is None else edges
        return cls(data.x, edges, data.train, data.y[data.train])


class Batches:
    """Parts of a graph, merged at random into batches in every epoch."""

    def __init__(
        self,
        model: torch.nn.Module,
        data: NodeData,
        n_parts: int,
        parts_per_batch: int,
        seed: int,
    ) -> None:
        self.model, self.data, self.seed = model, data, seed
        self.parts_per_batch = parts_per_batch
        is_train = np.zeros(data.graph.n_nodes, bool)
        is_train[data.train.cpu().numpy()] = True
        self.parts = [np.sort(part) for part in partition(data.graph, n_parts, seed=seed)]
        self.has_train = np.array([is_train[part].any() for part in self.parts])
        self._part_edges: dict[int, ModelEdges] = {}  # of batches that are a single part

    def epoch(self, epoch: int) -> Iterator[Batch]:
        """Iterate over the batches of an epoch; batches without training nodes are left out."""
        # Seeded by the epoch, so that a resumed training has the same batches.
        order = np.random.default_rng([self.seed, epoch]).permutation(len(self.parts))
        for start in range(0, len(order), self.parts_per_batch):
            chosen = order[start : start + self.parts_per_batch]
            if self.has_train[chosen].any():
                yield self._batch(chosen)

    def _batch(self, chosen: np.ndarray) -> Batch:
        nodes = np.sort(np.concatenate([self.parts[part] for part in chosen]))
        data = self.data.subset(nodes)
        if len(chosen) > 1:
            return Batch.of(self.model, data)
        batch = Batch.of(self.model, data, self._part_edges.get(int(chosen[0])))
        self._part_edges[int(chosen[0])] = batch.edges
        return batch
