"""Parts of GPCAClassifier around the embedding: feature scaling, heads, correct-and-smooth."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from scipy.special import softmax
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import normalize

from ..graph import Graph
from ..linalg import Propagation, Solver, one_blas_thread

#: alpha of the solves in correct-and-smooth: a random walk with restart probability 1/6.
SMOOTHING_ALPHA = 5.0

#: Size of Z up to which a head is trained with one BLAS thread.
ONE_THREAD_SIZE = 1_000_000


@dataclass(eq=False)
class FeatureScaler:
    """Scales the rows of X: "l2" to unit norm, "tfidf" to tf-idf of unit norm, "none" not at all.

    Stores arrays instead of a scikit-learn object, so that save_model can write it.
    """

    kind: str
    inverse_frequencies: np.ndarray | None = None

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


@dataclass(eq=False)
class Head:
    """Logistic regression on an embedding.

    Rows of Z are scaled to unit norm each (``unit_rows``) or by one common factor. Like
    FeatureScaler, a head stores arrays only.
    """

    C: float
    _: KW_ONLY
    unit_rows: bool
    scale: float = 1.0
    coefficients: np.ndarray | None = None
    intercepts: np.ndarray | None = None

    def fit(self, Z: np.ndarray, codes: np.ndarray) -> Self:
        # Scaled to unit norm on average, so that C has the same effect for every X. A Python
        # float keeps the dtype of float32 embeddings.
        self.scale = 1 / (float(np.sqrt(np.mean(np.sum(Z**2, axis=1)))) or 1.0)
        with one_blas_thread() if Z.size <= ONE_THREAD_SIZE else nullcontext():
            regression = LogisticRegression(C=self.C, max_iter=1000)
            regression.fit(self.scale_rows(Z), codes)
        self.coefficients, self.intercepts = regression.coef_, regression.intercept_
        if len(self.intercepts) == 1:  # for two classes, scikit-learn omits the first row, zeros
            self.coefficients = np.vstack([np.zeros_like(self.coefficients), self.coefficients])
            self.intercepts = np.append(np.zeros_like(self.intercepts), self.intercepts)
        return self

    def predict_proba(self, Z: np.ndarray) -> np.ndarray:
        assert self.coefficients is not None
        return softmax(self.scale_rows(Z) @ self.coefficients.T + self.intercepts, axis=1)

    def scale_rows(self, Z: np.ndarray) -> np.ndarray:
        return normalize(Z) if self.unit_rows else Z * self.scale


def correct_and_smooth(graph: Graph, probabilities: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Propagate the errors of a head on labelled nodes, then the labels, over the graph.

    Follows Huang et al., "Combining Label Propagation and Simple Models Out-performs Graph Neural
    Networks" (2021). Both iterations are replaced by their limit, (I + alpha L)^-1.
    """
    P = Propagation(graph.indptr, graph.indices, graph.weights)
    solver = Solver(P, SMOOTHING_ALPHA)
    labeled = np.flatnonzero(codes >= 0)
    truth = np.eye(probabilities.shape[1])[codes[labeled]]
    errors = np.zeros(probabilities.shape)
    errors[labeled] = truth - probabilities[labeled]
    smoothed = probabilities + solver.apply(errors)
    smoothed[labeled] = truth
    smoothed = np.maximum(solver.apply(smoothed), 0)
    totals = smoothed.sum(axis=1, keepdims=True)
    return np.where(totals > 0, smoothed / np.where(totals > 0, totals, 1), probabilities)
