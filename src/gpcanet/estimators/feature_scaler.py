"""FeatureScaler: scaling of X before the embedding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.feature_extraction.text import TfidfTransformer

from ..linalg import column_variances, extreme_exponent, times_power_of_two


@dataclass(eq=False)
class FeatureScaler:
    """Scales X: by 2**-exponent, its columns by ``factors``, then its rows to unit norm.

    The exponent is that of the X of ``fit`` if its squares could overflow or underflow, else 0.
    "standard" scales columns only, to unit variance, "l2" scales rows only, "tfidf" both, and
    "none" neither. X is not centred. A sparse X stays sparse, and tf-idf is always sparse.

    Stores an array instead of a scikit-learn object, so that save_model can write it.
    """

    kind: str
    factors: np.ndarray | None = None
    exponent: int = 0

    def fit(self, X: Any) -> Self:
        self.exponent = extreme_exponent(X, X.dtype)
        X = times_power_of_two(X, -self.exponent)
        if self.kind == "standard":
            variances = column_variances(X)
            self.factors = 1 / np.sqrt(np.where(variances > 0, variances, 1.0))
        elif self.kind == "tfidf":
            self.factors = TfidfTransformer().fit(X).idf_
        return self

    def transform(self, X: Any) -> Any:
        X = times_power_of_two(X, -self.exponent)
        X = sp.csr_array(X) if self.kind == "tfidf" else X
        if self.factors is not None:
            # The factor of a tiny column may be too large for float32.
            factors = np.minimum(self.factors, np.finfo(X.dtype).max).astype(X.dtype)
            X = sp.csr_array(X @ sp.diags_array(factors)) if sp.issparse(X) else X * factors
        return unit_rows(X) if self.kind in ("l2", "tfidf") else X


def unit_rows(X: Any) -> Any:
    """X with rows of unit norm; rows of zeros stay zero.

    scikit-learn's ``normalize`` leaves small dense rows as they are, and sums float32 squares in
    float32.
    """
    if sp.issparse(X):
        squares = sp.csr_array((X.data.astype(np.float64) ** 2, X.indices, X.indptr), shape=X.shape)
        norms = np.sqrt(squares.sum(axis=1))
    else:
        norms = np.sqrt(np.einsum("ij,ij->i", X, X, dtype=np.float64))
    norms = np.where(norms > 0, norms, 1).astype(X.dtype)
    if not sp.issparse(X):
        return X / norms[:, None]
    values = X.data / np.repeat(norms, np.diff(X.indptr))
    return sp.csr_array((values, X.indices, X.indptr), shape=X.shape)


def scale_ratio(X: np.ndarray) -> float:
    """The largest standard deviation of a column over the smallest one that is not 0."""
    variances = column_variances(times_power_of_two(X, -extreme_exponent(X, X.dtype)))
    variances = variances[variances > 0]
    return float(np.sqrt(variances.max() / variances.min())) if len(variances) else 1.0
