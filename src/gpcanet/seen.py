"""What GPCA keeps of the nodes it was fitted on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from .graph import Graph
from .labels import UNLABELED


@dataclass(frozen=True)
class SeenNodes:
    """What ``transform`` may use of ``fit`` when it meets the same graph again."""

    graph: Graph
    nodes: np.ndarray | None
    X: Any
    labels: np.ndarray | None

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
