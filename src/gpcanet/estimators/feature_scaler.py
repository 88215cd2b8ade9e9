"""FeatureScaler: scaling of X before the embedding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.preprocessing import normalize

from ..linalg import column_variances


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
            variances = column_variances(X)
            self.factors = 1 / np.sqrt(np.where(variances > 0, variances, 1.0))
        elif self.kind == "tfidf":
            self.factors = TfidfTransformer().fit(X).idf_
        return self

    def transform(self, X: Any) -> Any:
        X = sp.csr_array(X) if self.kind == "tfidf" else X
        if self.factors is not None:
            # The factor of a tiny column may be too large for float32.
            factors = np.minimum(self.factors, np.finfo(X.dtype).max).astype(X.dtype)
            X = sp.csr_array(X @ sp.diags_array(factors)) if sp.issparse(X) else X * factors
        return normalize(X) if self.kind in ("l2", "tfidf") else X


def scale_ratio(X: np.ndarray) -> float:
    """The largest standard deviation of a column over the smallest one that is not 0."""
    variances = column_variances(X)
    variances = variances[variances > 0]
    return float(np.sqrt(variances.max() / variances.min())) if len(variances) else 1.0
