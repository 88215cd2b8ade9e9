"""Features with their column means taken off, without writing that down for sparse X."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp


class CenteredFeatures:
    """X - 1 mean^T. Dense X is centred once; sparse X stays sparse and is centred on the fly.

    ``mean`` is that of the columns of X unless it is given.

    Examples
    --------
    >>> import numpy as np, scipy.sparse as sp
    >>> X = CenteredFeatures(sp.csr_array([[2.0, 0.0], [0.0, 0.0]]))
    >>> X @ np.eye(2)
    array([[ 1.,  0.],
           [-1.,  0.]])
    """

    def __init__(self, X: Any, mean: np.ndarray | None = None) -> None:
        n, d = self.shape = X.shape
        self.dtype = X.dtype
        self.is_sparse = sp.issparse(X)
        # Summed in float64 (scipy's sparse sums are not, whatever dtype they are given): float32
        # loses digits over a million rows.
        if mean is None and self.is_sparse:
            mean = np.bincount(X.indices, weights=X.data, minlength=d) / n
        elif mean is None:
            mean = X.mean(axis=0, dtype=np.float64)
        self.mean = mean.astype(X.dtype)
        self.X: Any = X if self.is_sparse else X - self.mean
        self._transposed: sp.csr_array | None = None

    def __matmul__(self, W: np.ndarray) -> np.ndarray:
        if not self.is_sparse:
            return self.X @ W
        # In float64, since two large numbers may be taken from each other.
        W = W.astype(np.float64, copy=False)
        return (self.X @ W - self.mean @ W).astype(self.dtype, copy=False)

    def transposed_dot(self, F: np.ndarray) -> np.ndarray:
        """(X - 1 mean^T)^T F."""
        if not self.is_sparse:
            return self.X.T @ F
        if self._transposed is None:
            self._transposed = self.X.T.tocsr()
        # Centred columns are orthogonal to constants, so F may lose its means first. Otherwise
        # two large numbers would be taken from each other, which float32 does not survive.
        F = F - F.mean(axis=0, dtype=np.float64).astype(F.dtype)
        return self._transposed @ F - np.multiply.outer(self.mean, F.sum(axis=0))

    def columns(self, begin: int, end: int) -> np.ndarray:
        """A dense block of columns."""
        block = self.X[:, begin:end]
        return block.toarray() - self.mean[begin:end] if self.is_sparse else block

    def squared_norm(self, row_weights: np.ndarray | None) -> float:
        """Sum of squares of all entries, each row counted row_weights times."""
        weights = np.ones(self.shape[0]) if row_weights is None else row_weights.astype(np.float64)
        if not self.is_sparse:
            return float(weights @ np.einsum("ij,ij->i", self.X, self.X, dtype=np.float64))
        squares = weights @ self.X.multiply(self.X).sum(axis=1, dtype=np.float64)
        mean = self.mean.astype(np.float64)
        cross = (weights @ self.X) @ mean
        return float(squares - 2 * cross + weights.sum() * (mean @ mean))
