"""The parts of GPCAClassifier around the embedding: scaling before it, a head after it."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from scipy.special import softmax
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

        self.inverse_frequencies: np.ndarray | None = None

    def fit(self, X: Any) -> Self:
        if self.kind == "tfidf":
            self.inverse_frequencies = TfidfTransformer().fit(X).idf_
        return self

    def transform(self, X: Any) -> Any:
        if self.kind == "none":
            return X
        if self.inverse_frequencies is not None:
            frequencies = sp.dia_array((self.inverse_frequencies, 0), shape=(X.shape[1],) * 2)
            X = sp.csr_array(X @ frequencies.astype(X.dtype))
        return normalize(X)


class Head:
    """Logistic regression on rows of Z, each of unit length or all scaled alike.

    Keeps coefficients, not scikit-learn's object, so that it can be saved and loaded anywhere.
    """

    def __init__(self, C: float, *, unit_rows: bool) -> None:
        self.C, self.unit_rows = C, unit_rows

    def fit(self, Z: np.ndarray, codes: np.ndarray) -> Self:
        # Rows of unit length on average, so that one C means the same for every X.
        # A plain float, which leaves float32 what it is.
        self.scale = 1 / (float(np.sqrt(np.mean(np.sum(Z**2, axis=1)))) or 1.0)
        with one_blas_thread() if Z.size <= SMALL_HEAD else nullcontext():
            regression = LogisticRegression(C=self.C, max_iter=1000)
            regression.fit(self._prepared(Z), codes)
        self.coefficients, self.intercepts = regression.coef_, regression.intercept_
        if len(self.intercepts) == 1:  # two classes: scikit-learn leaves out the first, all zero
            self.coefficients = np.vstack([np.zeros_like(self.coefficients), self.coefficients])
            self.intercepts = np.append(np.zeros_like(self.intercepts), self.intercepts)
        return self

    def predict_proba(self, Z: np.ndarray) -> np.ndarray:
        return softmax(self._prepared(Z) @ self.coefficients.T + self.intercepts, axis=1)

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
