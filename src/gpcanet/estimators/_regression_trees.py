"""Gradient boosting of scikit-learn as arrays, and the table of node features for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.ensemble import HistGradientBoostingRegressor

from ..errors import InputError
from ..graph import Graph
from ..linalg import Propagation


@dataclass(eq=False)
class RegressionTrees:
    """Trees of one HistGradientBoostingRegressor, as arrays that save_model can write.

    The nodes of all trees come one after another; ``roots`` has the position of each root. A row
    goes to ``left`` if its feature is at most the threshold, else to ``right``.
    """

    baseline: float
    roots: np.ndarray
    features: np.ndarray
    thresholds: np.ndarray
    left: np.ndarray
    right: np.ndarray
    values: np.ndarray
    is_leaf: np.ndarray

    def __post_init__(self) -> None:
        # Children come after their parent, so every path ends; a damaged file may say otherwise.
        at = np.flatnonzero(~self.is_leaf)
        for children in (self.left[at], self.right[at]):
            if np.any(children <= at) or np.any(children >= len(self.values)):
                raise InputError("a node of a tree has a child that is not after it")

    @classmethod
    def fit(cls, table: np.ndarray, y: np.ndarray, weights: np.ndarray) -> Self:
        """Train with the defaults of scikit-learn, without a random validation set."""
        model = HistGradientBoostingRegressor(early_stopping=False)
        return cls.of(model.fit(table, y, sample_weight=weights))

    @classmethod
    def of(cls, model: HistGradientBoostingRegressor) -> Self:
        """The trees of a fitted model with one target."""
        trees = [predictors[0].nodes for predictors in model._predictors]
        sizes = [len(tree) for tree in trees]
        roots = np.cumsum([0, *sizes])[:-1]
        nodes = np.concatenate(trees)
        offsets = np.repeat(roots, sizes)
        return cls(
            baseline=float(np.ravel(model._baseline_prediction)[0]),
            roots=roots,
            features=nodes["feature_idx"].astype(np.int64),
            thresholds=nodes["num_threshold"].copy(),
            left=nodes["left"].astype(np.int64) + offsets,
            right=nodes["right"].astype(np.int64) + offsets,
            values=nodes["value"].copy(),
            is_leaf=nodes["is_leaf"].astype(bool),
        )

    def predict(self, table: np.ndarray) -> np.ndarray:
        result = np.full(len(table), self.baseline)
        for root in self.roots:
            at = np.full(len(table), root)
            inner = np.arange(0 if self.is_leaf[root] else len(table))
            while len(inner):
                node = at[inner]
                goes_left = table[inner, self.features[node]] <= self.thresholds[node]
                at[inner] = np.where(goes_left, self.left[node], self.right[node])
                inner = inner[~self.is_leaf[at[inner]]]
            result += self.values[at]
        return result


def node_table(X: Any, graph: Graph) -> np.ndarray:
    """Features, their means and standard deviations over neighbours, means over two hops, degree.

    A node counts as its own neighbour.
    """
    X = np.asarray(X.toarray() if sp.issparse(X) else X, np.float64)
    P = Propagation(graph.indptr, graph.indices, graph.weights, normalization="rw")
    means = P @ X
    deviations = np.sqrt(np.maximum(P @ X**2 - means**2, 0))
    return np.hstack([X, means, deviations, P @ means, np.log(P.mass)[:, None]])
