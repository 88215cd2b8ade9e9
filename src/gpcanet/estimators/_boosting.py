"""Gradient boosting as arrays: fitted by scikit-learn, stored and applied without its objects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy.special import softmax
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from threadpoolctl import ThreadpoolController

from ..errors import InputError

#: Settings of the classifier: iterations, learning rate and L2 penalty of the leaves. The
#: regressor has the defaults of scikit-learn.
ITERATIONS, LEARNING_RATE, PENALTY = 200, 0.05, 1.0

#: Trees on a table with at most this many entries are fitted with one thread.
ONE_THREAD_SIZE = 1_000_000

#: Rows whose trees are evaluated at a time.
ROWS = 4096


@dataclass(eq=False)
class BoostedTrees:
    """The trees of scikit-learn's HistGradientBoosting in one table, which save_model can write.

    A row goes from a node to ``children[0]`` if its feature is at most the threshold, else to
    ``children[1]``. Both children of a leaf are the leaf itself.
    """

    features: np.ndarray
    thresholds: np.ndarray
    children: np.ndarray
    values: np.ndarray
    roots: np.ndarray  # of shape (n_iterations, n_trees per iteration)
    baseline: np.ndarray
    depth: int

    def __post_init__(self) -> None:
        # Indices out of range would fail late or read another node; a damaged file may have them.
        at = np.arange(len(self.values))
        if np.any(self.children < at) or np.any(self.children >= len(at)):
            raise InputError("a node of a tree has a child that is not after it")

    @classmethod
    def fit_classes(
        cls, table: np.ndarray, codes: np.ndarray, weights: np.ndarray | None = None
    ) -> Self:
        model = HistGradientBoostingClassifier(
            max_iter=ITERATIONS, learning_rate=LEARNING_RATE, l2_regularization=PENALTY,
            early_stopping=False, random_state=0,
        )  # fmt: skip
        return cls._fit(model, table, codes, weights)

    @classmethod
    def fit_values(cls, table: np.ndarray, y: np.ndarray, weights: np.ndarray) -> Self:
        # The bins are those of a random sample if there are many rows.
        model = HistGradientBoostingRegressor(early_stopping=False, random_state=0)
        return cls._fit(model, table, y, weights)

    @classmethod
    def _fit(cls, model: Any, table: np.ndarray, y: np.ndarray, weights: np.ndarray | None) -> Self:
        # Threads of OpenMP wait for each other in short loops, even more so beside other processes.
        n_threads = 1 if table.size <= ONE_THREAD_SIZE else None
        # threadpool_limits would also restore the number of BLAS threads, which others may limit.
        with ThreadpoolController().select(user_api="openmp").limit(limits=n_threads):
            return cls.of(model.fit(table, y, weights))

    @classmethod
    def of(cls, model: Any) -> Self:
        """The trees of a fitted model."""
        # scikit-learn has no public access to these trees; a test compares the predictions.
        state = vars(model)
        trees = [[tree.nodes for tree in iteration] for iteration in state["_predictors"]]
        flat = [nodes for iteration in trees for nodes in iteration]
        begins = np.cumsum([0, *(len(nodes) for nodes in flat)])
        nodes = np.concatenate(flat)
        offsets = np.repeat(begins[:-1], [len(one) for one in flat])
        own, leaf = np.arange(len(nodes)), nodes["is_leaf"].astype(bool)
        children = [
            np.where(leaf, own, nodes[side].astype(np.int64) + offsets)
            for side in ("left", "right")
        ]
        return cls(
            features=np.where(leaf, 0, nodes["feature_idx"]).astype(np.int32),
            thresholds=np.where(leaf, np.inf, nodes["num_threshold"]),
            children=np.stack(children),
            values=np.where(leaf, nodes["value"], 0.0),
            roots=begins[:-1].reshape(len(trees), -1),
            baseline=np.ravel(state["_baseline_prediction"]),
            depth=int(nodes["depth"].max()),
        )

    def predict_proba(self, table: np.ndarray) -> np.ndarray:
        logits = self.predict_all(table)
        if logits.shape[1] == 1:  # two classes have one tree per iteration
            logits = np.hstack([np.zeros_like(logits), logits])
        return softmax(logits, axis=1)

    def predict(self, table: np.ndarray) -> np.ndarray:
        return self.predict_all(table)[:, 0]

    def predict_all(self, table: np.ndarray) -> np.ndarray:
        """Sums of the leaves that each row reaches, of shape (n_rows, n_trees per iteration)."""
        result = np.tile(self.baseline, (len(table), 1)).astype(np.float64)
        for begin in range(0, len(table), ROWS):
            rows = table[begin : begin + ROWS]
            every = np.arange(len(rows))[:, None]
            for roots in self.roots:
                node = np.broadcast_to(roots, (len(rows), len(roots)))
                for _ in range(self.depth):
                    right = rows[every, self.features[node]] > self.thresholds[node]
                    node = self.children[right.astype(np.int64), node]
                result[begin : begin + ROWS] += self.values[node]
        return result
