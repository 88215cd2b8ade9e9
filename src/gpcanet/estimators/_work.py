"""Estimated work of the two ways to compute W: from the matrix X^T F, or by Lanczos.

The constants are nanoseconds of one core. Only their ratios matter, which depend less on the
machine. They were fitted to measured fits (decision record 59).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

#: Density from which a sparse X is converted to a dense array.
DENSE_SHARE = 0.05

#: Largest size of that dense array, and of a dense X that Lanczos copies in float64.
DENSE_BYTES = 2**29

#: A step for a node or an entry of the adjacency, in a wide block of float32 or of float64, and in
#: the narrow blocks of float64 of Lanczos.
WIDE_STEP, WIDE_STEP_DOUBLE, NARROW_STEP = 0.17, 0.45, 0.5

#: A solve by a factorisation, for a node or an entry of the adjacency.
DIRECT_SOLVE = 6.0

#: A product with a dense X in a wide block, per entry of X, and in a narrow one.
WIDE_PRODUCT, WIDE_PRODUCT_DOUBLE, NARROW_PRODUCT = 0.08, 0.16, 0.11

#: A product with a sparse X, per entry of X.
SPARSE_PRODUCT = 0.9

#: Eigenvectors of the matrix by LAPACK, for one of its d^3 terms.
LAPACK, LAPACK_DOUBLE = 0.05, 0.1

#: Orthogonalisation in Lanczos, per vector of the subspace, vector, and feature.
ORTHOGONALIZATION = 0.2

#: Vectors multiplied by Lanczos, with those for the trace and Z: these times k, plus these. A flat
#: spectrum takes twice as many, a steep one half.
VECTORS_PER_COMPONENT, MORE_VECTORS = 5, 150


class WorkSize(NamedTuple):
    """The sizes that the work of a fit depends on."""

    n_nodes: int
    n_features: int
    n_components: int
    n_entries: int  # of the adjacency
    sparse_entries: int | None  # of a sparse X
    becomes_dense: bool  # whether a sparse X is converted to form the matrix
    item: int  # bytes of a number of X
    steps: int | None  # of a solve; None for a factorisation

    @classmethod
    def of(cls, X: Any, n_entries: int, n_components: int, steps: int | None) -> WorkSize:
        (n, d), stored = X.shape, X.nnz if sp.issparse(X) else None
        dense, item = becomes_dense(X, X.dtype), X.dtype.itemsize
        return cls(n, d, n_components, n_entries, stored, dense, item, steps)


def formed_work(size: WorkSize) -> float:
    """X^T F for all features, and its eigenvectors."""
    d, is_double = size.n_features, size.item == 8
    solve = _solve(size, WIDE_STEP_DOUBLE if is_double else WIDE_STEP)
    lapack = (LAPACK_DOUBLE if is_double else LAPACK) * d**2
    if size.sparse_entries is not None and not size.becomes_dense:
        return (
            d * (solve + SPARSE_PRODUCT * size.sparse_entries + lapack) + size.n_components * solve
        )
    product = (WIDE_PRODUCT_DOUBLE if is_double else WIDE_PRODUCT) * size.n_nodes * d
    return d * (solve + product + lapack)


def lanczos_work(size: WorkSize) -> float:
    """Products with X^T (I + alpha L)^-1 X, in blocks of a few vectors of float64."""
    d, k = size.n_features, size.n_components
    n_vectors = min(VECTORS_PER_COMPONENT * k + MORE_VECTORS, d + k)
    if size.sparse_entries is None:
        products = 2 * NARROW_PRODUCT * size.n_nodes * d
    else:
        products = 2 * SPARSE_PRODUCT * size.sparse_entries
    orthogonalization = ORTHOGONALIZATION * n_vectors * d
    return n_vectors * (_solve(size, NARROW_STEP) + products + orthogonalization)


def becomes_dense(X: Any, dtype: np.dtype) -> bool:
    """Whether a sparse X is converted to a dense array to form X^T F."""
    size = X.shape[0] * X.shape[1]
    is_dense = sp.issparse(X) and X.nnz >= DENSE_SHARE * size
    return bool(is_dense and size * dtype.itemsize <= DENSE_BYTES)


def _solve(size: WorkSize, step: float) -> float:
    """A solve for one column."""
    unit = DIRECT_SOLVE if size.steps is None else step * size.steps
    return unit * (size.n_nodes + size.n_entries)
