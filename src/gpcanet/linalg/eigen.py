"""Leading eigenpairs, with their order and signs fixed in one place."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.linalg
import scipy.sparse.linalg

from .threads import one_blas_thread

#: Entries this close to the largest one count as equally large when a sign is chosen.
SIGN_TOLERANCE = 1e-4


def leading_eigenpairs(M: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The k algebraically largest eigenvalues of M, largest first, and their eigenvectors.

    M is symmetrised first: the truncated series and the random walk leave it slightly or
    plainly unsymmetric, and LAPACK would read one triangle only.
    """
    d = M.shape[0]
    values, vectors = scipy.linalg.eigh((M + M.T) / 2, subset_by_index=[d - k, d - 1])
    return values[::-1], fix_signs(vectors[:, ::-1])


def whole_eigenpairs(M: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The same by way of all eigenvectors: LAPACK's divide and conquer.

    On one thread it is quicker than ``leading_eigenpairs`` up to some 500 rows, and several
    matrices can be worked on at a time.
    """
    values, vectors = np.linalg.eigh((M + M.T) / 2)
    return values[: -k - 1 : -1], fix_signs(vectors[:, : -k - 1 : -1])


def leading_eigenpairs_of(
    apply: Callable[[np.ndarray], np.ndarray], d: int, k: int
) -> tuple[np.ndarray, np.ndarray]:
    """The same for a d x d matrix known only by its action on vectors (Lanczos, ARPACK)."""
    operator = scipy.sparse.linalg.LinearOperator((d, d), matvec=apply, dtype=np.float64)
    # A fixed start makes the result repeatable; a random one meets every eigenvector.
    start = np.random.default_rng(0).standard_normal(d)
    if not np.any(apply(start)):  # the zero matrix, which ARPACK refuses
        return np.zeros(k), np.eye(d, k)
    with one_blas_thread():
        values, vectors = scipy.sparse.linalg.eigsh(operator, k=k, which="LA", v0=start)
    order = np.argsort(values)[::-1]
    return values[order], fix_signs(vectors[:, order])


def fix_signs(vectors: np.ndarray) -> np.ndarray:
    """Turn each column so that the first of its largest entries in size is positive."""
    sizes = np.abs(vectors)
    first = np.argmax(sizes >= (1 - SIGN_TOLERANCE) * sizes.max(axis=0), axis=0)
    signs = np.where(vectors[first, np.arange(vectors.shape[1])] < 0, -1, 1)
    return vectors * signs.astype(vectors.dtype)
