"""FeatureScaler: scaling of X before the embedding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.preprocessing import StandardScaler, normalize
from sklearn.utils import gen_batches

#: Rows whose variances are computed at a time.
ROWS = 2**16


@dataclass(eq=False)
class FeatureScaler:
    """Scales X: its columns by ``factors``, then its rows to unit norm.

    "standard" scales columns only, to unit variance, "l2" scales rows only, "tfidf" both, and
    "none" neither. X is not centred. A sparse X stays sparse, and tf-idf is always sparse.

    Stores an array instead of a scikit-learn object, so that save_model can write it.
    """

    kind: str
    factors: np.ndarray | None = None

    def fit(self, X: Any) -> Self:
        if self.kind == "standard":
            self.factors = 1 / _fit_scales(X).scale_
        elif self.kind == "tfidf":
            self.factors = TfidfTransformer().fit(X).idf_
        return self

    def transform(self, X: Any) -> Any:
        X = sp.csr_array(X) if self.kind == "tfidf" else X
        if self.factors is not None:
            factors = self.factors.astype(X.dtype)
            X = sp.csr_array(X @ sp.diags_array(factors)) if sp.issparse(X) else X * factors
        return normalize(X) if self.kind in ("l2", "tfidf") else X


def scale_ratio(X: np.ndarray) -> float:
    """The largest standard deviation of a column over the smallest one that is not 0."""
    variances = _fit_scales(X).var_
    variances = variances[variances > 0]
    return float(np.sqrt(variances.max() / variances.min())) if len(variances) else 1.0


def _fit_scales(X: Any) -> StandardScaler:
    scaler = StandardScaler(with_mean=False)
    for rows in gen_batches(X.shape[0], ROWS):  # each batch is copied
        scaler.partial_fit(X[rows])
    return scaler
