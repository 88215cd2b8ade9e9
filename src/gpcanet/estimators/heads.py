"""Parts of GPCAClassifier around the embedding: feature scaling, logistic heads, calibration."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, softmax
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import normalize

from ..linalg import one_blas_thread

#: Size of Z up to which a head is trained with one BLAS thread.
ONE_THREAD_SIZE = 1_000_000

#: Relative accuracy of the logistic regressions; more does not change predictions.
HEAD_TOL = 1e-3

#: Range of the temperature that calibrates probabilities.
TEMPERATURES = (0.1, 10.0)

#: Smallest probability whose logarithm is taken.
SMALLEST_PROBABILITY = 1e-12


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
    """Logistic regression on an embedding Z, optionally with more columns beside it.

    Rows of Z are scaled to unit norm each (``unit_rows``) or by one common factor; the other
    columns have one factor of their own. Like FeatureScaler, a head stores arrays only.
    """

    C: float
    _: KW_ONLY
    unit_rows: bool
    scale: float = 1.0
    others_scale: float = 1.0
    coefficients: np.ndarray | None = None
    intercepts: np.ndarray | None = None

    def fit(
        self,
        Z: np.ndarray,
        codes: np.ndarray,
        weights: np.ndarray | None = None,
        *,
        others: Any = None,
        start: Head | None = None,
    ) -> Self:
        """Fit on these rows, beginning with the coefficients of another head (``start``)."""
        # Scaled to unit norm on average, so that C has the same effect for every X. A Python
        # float keeps the dtype of float32 embeddings.
        self.scale = 1 / (float(np.sqrt(np.mean(np.sum(Z**2, axis=1)))) or 1.0)
        if others is not None:
            squares = others.multiply(others) if sp.issparse(others) else others**2
            self.others_scale = 1 / (float(np.sqrt(squares.sum() / len(codes))) or 1.0)
        regression = LogisticRegression(C=self.C, max_iter=1000, tol=HEAD_TOL, warm_start=True)
        if start is not None and start.coefficients is not None and start.intercepts is not None:
            rows = slice(None) if len(start.intercepts) > 2 else slice(1, None)
            regression.coef_ = start.coefficients[rows].copy()
            regression.intercept_ = start.intercepts[rows].copy()
        with one_blas_thread() if Z.size <= ONE_THREAD_SIZE else nullcontext():
            regression.fit(self.columns(Z, others), codes, weights)
        self.coefficients, self.intercepts = regression.coef_, regression.intercept_
        if len(self.intercepts) == 1:  # for two classes, scikit-learn omits the first row, zeros
            self.coefficients = np.vstack([np.zeros_like(self.coefficients), self.coefficients])
            self.intercepts = np.append(np.zeros_like(self.intercepts), self.intercepts)
        return self

    def predict_proba(self, Z: np.ndarray, others: Any = None) -> np.ndarray:
        assert self.coefficients is not None
        k = Z.shape[1]
        logits = self.scale_rows(Z) @ self.coefficients[:, :k].T + self.intercepts
        if others is not None:
            logits += others @ (self.others_scale * self.coefficients[:, k:].T)
        return softmax(logits, axis=1)

    def columns(self, Z: np.ndarray, others: Any) -> Any:
        """Scaled Z and the other columns as one matrix, sparse if the others are."""
        Z = self.scale_rows(Z).astype(np.float64)
        if others is None:
            return Z
        others = others * self.others_scale
        if sp.issparse(others):
            return sp.hstack([sp.csr_array(Z), others], format="csr")
        return np.hstack([Z, others])

    def scale_rows(self, Z: np.ndarray) -> np.ndarray:
        return normalize(Z) if self.unit_rows else Z * self.scale


def with_temperature(probabilities: np.ndarray, temperature: float) -> np.ndarray:
    """Probabilities to the power 1 / temperature, normalised."""
    if temperature == 1:
        return probabilities
    return softmax(safe_log(probabilities) / temperature, axis=1)


def fit_temperature(
    probabilities: np.ndarray, codes: np.ndarray, weights: np.ndarray | None = None
) -> float:
    """The temperature with the largest likelihood of the true classes."""
    logits, rows = safe_log(probabilities), np.arange(len(codes))

    def loss(exponent: float) -> float:
        likelihood = log_softmax(logits / np.exp(exponent), axis=1)[rows, codes]
        return -float(np.average(likelihood, weights=weights))

    found = minimize_scalar(loss, bounds=np.log(TEMPERATURES), method="bounded")
    return float(np.exp(found.x))


def safe_log(probabilities: np.ndarray) -> np.ndarray:
    """Finite logarithms."""
    return np.log(np.maximum(probabilities, SMALLEST_PROBABILITY))
