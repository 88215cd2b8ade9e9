"""Centred features, without a centred copy of a large or sparse X."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

from .parallel import parallel_map, parallel_sum

#: Size up to which a centred copy of a dense X is kept. A larger X is centred by chunks.
KEPT_BYTES = 2**29

#: Size of a chunk of rows. It stays in cache between two operations.
CHUNK_BYTES = 2**23


class CenteredFeatures:
    """X - 1 mean^T of a dense or sparse X.

    Parameters
    ----------
    X : ndarray or csr_array of shape (n, d)
    mean : ndarray of shape (d,), optional
        By default the column means of X.
    keep : bool
        Whether a centred copy of a small dense X may be kept.

    Attributes
    ----------
    values, shift
        X and its mean, or the centred X and None.

    Examples
    --------
    >>> import numpy as np, scipy.sparse as sp
    >>> X = CenteredFeatures(sp.csr_array([[2.0, 0.0], [0.0, 0.0]]))
    >>> X @ np.eye(2)
    array([[ 1.,  0.],
           [-1.,  0.]])
    """

    def __init__(self, X: Any, mean: np.ndarray | None = None, *, keep: bool = True) -> None:
        self.shape: tuple[int, int] = X.shape
        n, d = self.shape
        self.dtype = X.dtype
        self.is_sparse = sp.issparse(X)
        # Summed in float64: float32 loses digits over a million rows. (scipy's sparse sums
        # ignore the dtype argument.)
        if mean is None and self.is_sparse:
            mean = np.bincount(X.indices, weights=X.data, minlength=d) / n
        elif mean is None:
            mean = X.mean(axis=0, dtype=np.float64)
        self.mean = mean.astype(X.dtype)
        self.values: Any = X
        self.shift: np.ndarray | None = self.mean
        if keep and not self.is_sparse and X.nbytes <= KEPT_BYTES:
            self.values, self.shift = np.subtract(X, self.mean, order="C"), None
        self._transposed: sp.csr_array | None = None

    def __matmul__(self, W: np.ndarray) -> np.ndarray:
        if self.is_sparse:
            # In float64, since the difference may be much smaller than its terms.
            W = W.astype(np.float64, copy=False)
            product = self.values @ W
            product -= self.mean @ W
            return product.astype(self.dtype, copy=False)
        if self.shift is None:
            return self.values @ W
        product = np.empty((self.shape[0], W.shape[1]), self.dtype)

        def multiply(rows: slice) -> None:
            np.matmul(self.rows(rows), W, out=product[rows])

        parallel_map(multiply, row_chunks(*self.shape, self.dtype))
        return product

    def transposed_dot(self, F: np.ndarray) -> np.ndarray:
        """(X - 1 mean^T)^T F."""
        if not self.is_sparse:
            if self.shift is None:
                return self.values.T @ F
            total = np.zeros((self.shape[1], F.shape[1]))
            chunks = row_chunks(*self.shape, self.dtype)
            parallel_sum(lambda rows: self.rows(rows).T @ F[rows], chunks, total)
            return total.astype(self.dtype, copy=False)
        if self._transposed is None:
            self._transposed = self.values.T.tocsr()
        # Centred columns are orthogonal to constants, so F may be centred first. Without it the
        # difference of two large terms would lose all digits in float32.
        F = F - F.mean(axis=0, dtype=np.float64).astype(F.dtype)
        product = self._transposed @ F
        product -= np.multiply.outer(self.mean, F.sum(axis=0))
        return product

    def rows(self, rows: slice) -> np.ndarray:
        """A slice of rows of a dense X, centred."""
        part = self.values[rows]
        return part if self.shift is None else part - self.shift

    def columns(self, columns: slice) -> np.ndarray:
        """A slice of columns, dense and centred."""
        if self.is_sparse:
            return self.values[:, columns].toarray() - self.mean[columns]
        if self.shift is None:
            return np.ascontiguousarray(self.values[:, columns])
        block = np.empty((self.shape[0], columns.stop - columns.start), self.dtype)
        for rows in row_chunks(*self.shape, self.dtype):
            np.subtract(self.values[rows, columns], self.shift[columns], out=block[rows])
        return block

    def squared_norm(self, row_weights: np.ndarray | None) -> float:
        """Sum of the squares of all entries, rows weighted by row_weights."""
        weights = np.ones(self.shape[0]) if row_weights is None else row_weights.astype(np.float64)
        if not self.is_sparse:
            total = 0.0
            for rows in row_chunks(*self.shape, self.dtype):
                part = self.rows(rows)
                total += weights[rows] @ np.einsum("ij,ij->i", part, part, dtype=np.float64)
            return float(total)
        # From differences: x^2 - mean^2 would lose all digits of columns with a large mean.
        X, mean, total = self.values, self.mean.astype(np.float64), 0.0
        for rows in row_chunks(len(weights), 1 + X.nnz // len(weights), np.float64):
            entries = slice(X.indptr[rows.start], X.indptr[rows.stop])
            repeated = np.repeat(weights[rows], np.diff(X.indptr[rows.start : rows.stop + 1]))
            total += repeated @ (X.data[entries] - mean[X.indices[entries]]) ** 2
        is_full = np.bincount(X.indices, minlength=len(mean)) == len(weights)
        stored = weights @ sp.csr_array((np.ones(X.nnz, bool), X.indices, X.indptr), X.shape)
        zeros = np.where(is_full, 0.0, weights.sum() - stored)
        return float(total + zeros @ mean**2)


def extreme_exponent(X: Any, dtype: Any, mean: np.ndarray | None = None) -> int:
    """Binary exponent of X and ``mean`` if sums of squares could overflow or underflow, else 0."""
    largest = 0.0
    for values in (X.data if sp.issparse(X) else X, mean):
        if values is not None and values.size:
            largest = max(largest, float(values.max()), -float(values.min()))
    exponent = math.frexp(largest)[1]
    return exponent if abs(exponent) > np.finfo(dtype).maxexp // 4 else 0


def times_power_of_two(X: Any, exponent: int) -> Any:
    """X * 2**exponent, which is exact within the range of the dtype; X itself for exponent 0."""
    if exponent == 0:
        return X
    if sp.issparse(X):
        return sp.csr_array(
            (times_power_of_two(X.data, exponent), X.indices, X.indptr), shape=X.shape
        )
    with np.errstate(over="ignore", under="ignore"):
        return np.ldexp(X, exponent)


def row_chunks(n_rows: int, n_columns: int, dtype: Any) -> Iterator[slice]:
    """Slices of consecutive rows of about CHUNK_BYTES."""
    height = max(1, CHUNK_BYTES // (n_columns * np.dtype(dtype).itemsize))
    for begin in range(0, n_rows, height):
        yield slice(begin, min(n_rows, begin + height))


def column_variances(X: Any) -> np.ndarray:
    """Variances of the columns of an array or a CSR matrix, in float64.

    They are exactly 0 for constants, and for columns whose squares leave the range of float64.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        mean, variances = _mean_and_variances(X)
        rounding = (X.shape[0] * np.finfo(np.float64).eps * mean) ** 2
        return np.where((variances > rounding) & np.isfinite(variances), variances, 0.0)


def _mean_and_variances(X: Any) -> tuple[np.ndarray, np.ndarray]:
    n, d = X.shape
    squares = np.zeros(d)
    if not sp.issparse(X):
        mean = X.mean(axis=0, dtype=np.float64)
        for rows in row_chunks(n, d, np.float64):
            squares += ((X[rows] - mean) ** 2).sum(axis=0)
        return mean, squares / n
    chunks, total = list(row_chunks(X.nnz, 1, np.float64)), np.zeros(d)
    for part in chunks:
        total += np.bincount(X.indices[part], X.data[part], d)
    mean, counts = total / n, np.zeros(d, np.int64)
    for part in chunks:
        columns = X.indices[part]
        counts += np.bincount(columns, minlength=d)
        squares += np.bincount(columns, (X.data[part] - mean[columns]) ** 2, d)
    return mean, (squares + (n - counts) * mean**2) / n


def column_blocks(n_columns: int, block_size: int) -> list[slice]:
    """Slices of columns: as few as possible, of about equal size, at most ``block_size``."""
    n_blocks = -(-n_columns // block_size)
    edges = [n_columns * i // n_blocks for i in range(n_blocks + 1)]
    return [slice(begin, end) for begin, end in itertools.pairwise(edges)]
