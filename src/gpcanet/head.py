"""The parts of GPCAClassifier around the embedding: scaling before it, a head after it."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any, Self

import numpy as np
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import normalize

from .graph import Graph
from .linalg import Propagation, Solver, one_blas_thread

#: Strength of correct-and-smooth, as an alpha: a walk that restarts every sixth step.
SMOOTHING_ALPHA = 5.0

#: Entries of Z up to which a head trains on one thread.
SMALL_HEAD = 1_000_000


class FeatureScaler:
    """Rows of X to unit length ("l2"), to tf-idf of unit length ("tfidf"), or as they are."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def fit(self, X: Any) -> Self:
        if self.kind == "tfidf":
            self._tfidf = TfidfTransformer().fit(X)
        return self

    def transform(self, X: Any) -> Any:
        if self.kind == "none":
            return X
        return normalize(X) if self.kind == "l2" else self._tfidf.transform(X)


class Head:
    """Logistic regression on rows of Z, each of unit length or all scaled alike."""

    def __init__(self, C: float, *, unit_rows: bool) -> None:
        self.unit_rows = unit_rows
        self.regression = LogisticRegression(C=C, max_iter=1000)

    def fit(self, Z: np.ndarray, codes: np.ndarray) -> Self:
        # Rows of unit length on average, so that one C means the same for every X.
        self.scale = 1 / (np.sqrt(np.mean(np.sum(Z**2, axis=1))) or 1.0)
        with one_blas_thread() if Z.size <= SMALL_HEAD else nullcontext():
            self.regression.fit(self._prepared(Z), codes)
        return self

    def predict_proba(self, Z: np.ndarray) -> np.ndarray:
        return self.regression.predict_proba(self._prepared(Z))

    def _prepared(self, Z: np.ndarray) -> np.ndarray:
        return normalize(Z) if self.unit_rows else Z * self.scale


class CorrectAndSmooth:
    """Spread the head's errors, then the labels themselves, over the graph.

    After Huang et al., "Combining Label Propagation and Simple Models Out-performs Graph Neural
    Networks" (2021), with both of their iterations replaced by the limit they converge to,
    (I + alpha L)^-1.
    """

    def __init__(self, graph: Graph) -> None:
        P = Propagation(graph.indptr, graph.indices, graph.weights)
        self._solver = Solver(P, SMOOTHING_ALPHA)

    def __call__(self, probabilities: np.ndarray, codes: np.ndarray) -> np.ndarray:
        known = np.flatnonzero(codes >= 0)
        truth = np.eye(probabilities.shape[1])[codes[known]]
        errors = np.zeros(probabilities.shape)
        errors[known] = truth - probabilities[known]
        smoothed = probabilities + self._solver.apply(errors)
        smoothed[known] = truth
        smoothed = np.maximum(self._solver.apply(smoothed), 0)
        totals = smoothed.sum(axis=1, keepdims=True)
        return np.where(totals > 0, smoothed / np.where(totals > 0, totals, 1), probabilities)
