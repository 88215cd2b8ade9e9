"""Dataset: a graph with features, labels and a split."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from ..graph import Graph


@dataclass(frozen=True)
class Dataset:
    """An attributed graph with labels; row i of X and entry i of y belong to node i.

    ``train``, ``validation`` and ``test`` are positions of nodes. A label of -1 is unknown.
    """

    name: str
    graph: Graph
    X: np.ndarray | sp.csr_array
    y: np.ndarray
    train: np.ndarray
    validation: np.ndarray
    test: np.ndarray

    def visible_labels(self, *, validation: bool = True) -> np.ndarray:
        """y with -1 wherever a classifier must not look."""
        y = np.full_like(self.y, -1)
        y[self.train] = self.y[self.train]
        if validation:
            y[self.validation] = self.y[self.validation]
        return y
