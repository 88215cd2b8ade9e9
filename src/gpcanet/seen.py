"""What GPCA keeps of the nodes it was fitted on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from .entries import find_positions
from .errors import InputError
from .graph import Graph
from .labels import UNLABELED


@dataclass(frozen=True)
class SeenNodes:
    """What ``transform`` may use of ``fit`` when it meets the same graph again."""

    graph: Graph
    nodes: np.ndarray | None
    X: Any
    labels: np.ndarray | None

    def on(self, graph: Graph) -> SeenNodes | None:
        """The same in the positions of another graph; None if that has other edges or nodes.

        Graphs whose nodes come in another order are compared by their ids.
        """
        if graph.is_same(self.graph):
            return self
        order = _positions_by_id(graph, self.graph)
        if order is None or not graph.is_same(self.graph.subgraph(order)):
            return None
        place = np.argsort(order)  # position here -> position there
        if self.nodes is not None:
            return replace(self, graph=graph, nodes=place[self.nodes])
        labels = None if self.labels is None else self.labels[order]
        return replace(self, graph=graph, labels=labels)

    def beside(
        self, X: np.ndarray | sp.csr_array, nodes: np.ndarray | None
    ) -> tuple[np.ndarray | sp.csr_array, np.ndarray | None, np.ndarray | None]:
        """X, nodes and labels of the rows asked for, then of the seen rows that are not."""
        label_of = np.full(self.graph.n_nodes, UNLABELED)
        if self.labels is not None:
            label_of[slice(None) if self.nodes is None else self.nodes] = self.labels
        if nodes is None:
            return X, None, label_of
        if self.nodes is not None and self.X is not None:
            others = ~np.isin(self.nodes, nodes)
            nodes = np.concatenate([nodes, self.nodes[others]])
            rows = self.X[others].astype(X.dtype)
            if sp.issparse(X):
                X = sp.vstack([X, sp.csr_array(rows)], format="csr")
            else:
                X = np.vstack([X, rows.toarray() if sp.issparse(rows) else rows])
        return X, nodes, label_of[nodes]


def _positions_by_id(graph: Graph, other: Graph) -> np.ndarray | None:
    """Where the nodes of a graph are in another one; None unless both have the same ids."""
    if graph.node_ids is None or other.node_ids is None or graph.n_nodes != other.n_nodes:
        return None
    try:
        return find_positions(other.node_ids, graph.node_ids, "one graph", "the other")
    except InputError:
        return None
