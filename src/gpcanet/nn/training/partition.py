"""Parts of a graph for mini-batches (ClusterGCN), by METIS."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ...errors import InputError
from ...graph import Graph
from ...utils.checks import check_number
from .data import Edges, NodeData, edges_for


def partition(graph: Graph, n_parts: int, *, seed: int = 0) -> list[np.ndarray]:
    """Positions of the nodes of each part; few edges go between parts, and all are about equal.

    Examples
    --------
    >>> graph = Graph.from_edge_index([[0, 1, 2, 3], [1, 0, 3, 2]])
    >>> sorted(part.tolist() for part in partition(graph, 2))
    [[0, 1], [2, 3]]
    """
    check_number("n_parts", n_parts, 1, graph.n_nodes, advice="one is the whole", integer=True)
    if n_parts == 1:
        return [np.arange(graph.n_nodes)]
    if len(graph.indices) > np.iinfo(np.int32).max:
        raise InputError(f"METIS takes 2^31 entries, and the graph has {len(graph.indices):,}")
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
    """Features, edges, and the rows that have a loss with their labels."""

    x: Tensor
    edges: Edges
    rows: Tensor
    y: Tensor

    @classmethod
    def of(cls, model: torch.nn.Module, data: NodeData, edges: Edges | None = None) -> Batch:
        edges = edges_for(model, data) if edges is None else edges
        return cls(data.x, edges, data.train, data.y[data.train])


class Batches:
    """Parts of the graph, joined at random anew for each epoch."""

    def __init__(
        self,
        model: torch.nn.Module,
        data: NodeData,
        n_parts: int,
        parts_per_batch: int,
        seed: int,
    ) -> None:
        self.model, self.data, self.per_batch, self.seed = model, data, parts_per_batch, seed
        is_train = np.zeros(data.graph.n_nodes, bool)
        is_train[data.train.cpu().numpy()] = True
        parts = partition(data.graph, n_parts, seed=seed)
        self.parts = [np.sort(part) for part in parts]
        self.has_train = np.array([is_train[part].any() for part in self.parts])
        self._edges: dict[int, Edges] = {}  # of single parts, which stay the same

    def of(self, epoch: int) -> Iterator[Batch]:
        # Seeded by the epoch, so that a resumed training sees the same parts in the same order.
        order = np.random.default_rng([self.seed, epoch]).permutation(len(self.parts))
        for start in range(0, len(order), self.per_batch):
            chosen = order[start : start + self.per_batch]
            if self.has_train[chosen].any():  # else there is nothing to learn from
                yield self._batch(chosen)

    def _batch(self, chosen: np.ndarray) -> Batch:
        nodes = np.sort(np.concatenate([self.parts[part] for part in chosen]))
        part = self.data.part(nodes)
        if len(chosen) > 1:
            return Batch.of(self.model, part)
        batch = Batch.of(self.model, part, self._edges.get(int(chosen[0])))
        self._edges[int(chosen[0])] = batch.edges
        return batch
