"""Gradient boosting as arrays: fitted by scikit-learn, stored and applied without its objects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy.special import softmax
from sklearn.ensemble import HistGradientBoostingClassifier

#: Number of boosting iterations, their learning rate and the L2 penalty of the leaves.
ITERATIONS, LEARNING_RATE, PENALTY = 200, 0.05, 1.0

#: Rows whose trees are evaluated at a time.
ROWS = 4096


@dataclass(eq=False)
class BoostedTrees:
    """Gradient boosting by scikit-learn's HistGradientBoostingClassifier.

    The trees are stored in one table of nodes, so that save_model can write them: a leaf has the
    feature -1 and points to itself.
    """

    seed: int = 0
    features: np.ndarray | None = None
    thresholds: np.ndarray | None = None
    children: np.ndarray | None = None  # left and right
    values: np.ndarray | None = None
    roots: np.ndarray | None = None  # of shape (n_iterations, n_trees per iteration)
    baseline: np.ndarray | None = None
    depth: int = 0

    def fit(self, table: np.ndarray, codes: np.ndarray, weights: np.ndarray | None = None) -> Self:
        model = HistGradientBoostingClassifier(
            max_iter=ITERATIONS, learning_rate=LEARNING_RATE, l2_regularization=PENALTY,
            early_stopping=False, random_state=self.seed,
        ).fit(table, codes, weights)  # fmt: skip
        # scikit-learn has no public access to these trees; a test compares the predictions.
        state = vars(model)
        trees = [[tree.nodes for tree in iteration] for iteration in state["_predictors"]]
        flat = [nodes for iteration in trees for nodes in iteration]
        begins = np.cumsum([0, *(len(nodes) for nodes in flat)])
        nodes = np.concatenate(flat)
        offsets = np.repeat(begins[:-1], [len(one) for one in flat])
        own, leaf = np.arange(len(nodes)), nodes["is_leaf"].astype(bool)
        self.features = np.where(leaf, 0, nodes["feature_idx"]).astype(np.int32)
        self.thresholds = np.where(leaf, np.inf, nodes["num_threshold"])
        self.children = np.stack(
            [
                np.where(leaf, own, nodes[side].astype(np.int64) + offsets)
                for side in ("left", "right")
            ]
        )
        self.values = np.where(leaf, nodes["value"], 0.0)
        self.roots = begins[:-1].reshape(len(trees), -1)
        self.baseline = np.ravel(state["_baseline_prediction"])
        self.depth = int(nodes["depth"].max())
        return self

    def predict_proba(self, table: np.ndarray) -> np.ndarray:
        assert self.roots is not None
        logits = np.empty((len(table), self.roots.shape[1]))
        for begin in range(0, len(table), ROWS):
            rows = slice(begin, begin + ROWS)
            logits[rows] = self.baseline + self._sums(table[rows])
        if logits.shape[1] == 1:  # two classes have one tree per iteration
            logits = np.hstack([np.zeros_like(logits), logits])
        return softmax(logits, axis=1)

    def _sums(self, table: np.ndarray) -> np.ndarray:
        """Sums of the leaves that the rows of the table reach."""
        assert self.roots is not None
        arrays: Any = (self.features, self.thresholds, self.children, self.values)
        features, thresholds, children, values = arrays
        total = np.zeros((len(table), self.roots.shape[1]))
        every = np.arange(len(table))[:, None]
        for roots in self.roots:
            node = np.broadcast_to(roots, total.shape)
            for _ in range(self.depth):
                right = table[every, features[node]] > thresholds[node]
                node = children[right.astype(np.int64), node]
            total += values[node]
        return total
