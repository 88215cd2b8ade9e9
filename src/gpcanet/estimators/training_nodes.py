"""TrainingNodes: what a fitted estimator keeps of the nodes it was fitted on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..errors import InputError
from ..graph import Graph
from ..graph.node_ids import find_positions
from ..utils.labels import UNLABELED


@dataclass(frozen=True)
class TrainingNodes:
    """Graph, node positions, features and labels of ``fit``, for use on the same graph.

    ``nodes`` is None if row i is node i; ``X`` is None if the rows of X were not kept.
    """

    graph: Graph
    nodes: np.ndarray | None
    X: Any
    labels: np.ndarray | None

    def in_graph(self, graph: Graph) -> TrainingNodes | None:
        """The training nodes with their positions in another graph; None if it is not the same.

        The same graph may have its nodes in another order; they are matched by id.
        """
        if graph.is_same(self.graph):
            return self
        if graph.node_ids is None or self.graph.node_ids is None:
            return None
        if graph.n_nodes != self.graph.n_nodes:
            return None
        try:
            order = find_positions(self.graph.node_ids, graph.node_ids, "graph", "fit")
        except InputError:
            return None
        if not graph.is_same(self.graph.subgraph(order)):
            return None
        if self.nodes is not None:
            return replace(self, graph=graph, nodes=np.argsort(order)[self.nodes])
        labels = None if self.labels is None else self.labels[order]
        return replace(self, graph=graph, labels=labels)

    def with_training_nodes(
        self, X: np.ndarray | sp.csr_array, nodes: np.ndarray | None
    ) -> tuple[np.ndarray | sp.csr_array, np.ndarray | None, np.ndarray]:
        """Return X, nodes and labels of the given rows, then of all other training rows."""
        labels = np.full(self.graph.n_nodes, UNLABELED)
        if self.labels is not None:
            if self.labels.ndim == 2:  # targets instead of class codes
                labels = np.full((self.graph.n_nodes, self.labels.shape[1]), np.nan)
            labels[slice(None) if self.nodes is None else self.nodes] = self.labels
        if nodes is None:
            return X, None, labels
        if self.nodes is not None and self.X is not None:
            others = ~np.isin(self.nodes, nodes)
            nodes = np.concatenate([nodes, self.nodes[others]])
            rows = self.X[others].astype(X.dtype)
            if sp.issparse(X):
                X = sp.vstack([X, sp.csr_array(rows)], format="csr")
            else:
                X = np.vstack([X, rows.toarray() if sp.issparse(rows) else rows])
        return X, nodes, labels[nodes]
