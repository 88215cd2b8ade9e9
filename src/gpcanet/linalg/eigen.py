"""Leading eigenpairs, with their order and signs fixed in one place."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
import scipy.linalg
import scipy.sparse.linalg
from sklearn.exceptions import ConvergenceWarning

from .threads import one_blas_thread

#: Up to so many rows (288 MB), a matrix is formed if Lanczos cannot be trusted with it.
FORMED_ROWS = 6_000

#: So many columns at a time: as many as any product takes.
FORMED_COLUMNS = 8

#: Restarts after which ARPACK is stopped if there is that way out. A fit on Cora takes two.
RESTARTS = 50

#: Eigenvalues nearer to each other than the first part of them count as equal, and those up to the
#: second part of the largest as zero.
EQUAL, ZERO = 1e-7, 1e-12

#: Entries this close to the largest one count as equally large when a sign is chosen.
SIGN_TOLERANCE = 1e-4


def leading_eigenpairs(M: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The k algebraically largest eigenvalues of M, largest first, and their eigenvectors.

    M is symmetrised first: the truncated series and the random walk leave it slightly or
    plainly unsymmetric, and LAPACK would read one triangle only.
    """
    d = M.shape[0]
    try:
        values, vectors = scipy.linalg.eigh((M + M.T) / 2, subset_by_index=[d - k, d - 1])
    except np.linalg.LinAlgError:
        return whole_eigenpairs(M, k)
    if len(values) < k:  # LAPACK's MRRR may lose highly repeated eigenvalues
        return whole_eigenpairs(M, k)
    return values[::-1], fix_signs(vectors[:, ::-1])


def whole_eigenpairs(M: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The same by way of all eigenvectors: LAPACK's divide and conquer.

    On one thread it is quicker than ``leading_eigenpairs`` up to some 500 rows, and several
    matrices can be worked on at a time.
    """
    values, vectors = np.linalg.eigh((M + M.T) / 2)
    return values[: -k - 1 : -1], fix_signs(vectors[:, : -k - 1 : -1])


def leading_eigenpairs_of(
    apply: Callable[[np.ndarray], np.ndarray], d: int, k: int, *, may_form: bool = True
) -> tuple[np.ndarray, np.ndarray]:
    """The same for a d x d matrix known only by its action on d x b blocks (Lanczos, ARPACK).

    Of an eigenvalue that several eigenvectors share, Lanczos may find only some. Where it has
    found two of one or does not come to an end, the matrix is formed, if it may be and is not too
    large.
    """
    # A fixed start makes the result repeatable; a random one meets every eigenvector.
    start = np.random.default_rng(0).standard_normal((d, 1))
    if not np.any(apply(start)):  # the zero matrix, which ARPACK refuses
        return np.zeros(k), np.eye(d, k)
    operator = scipy.sparse.linalg.LinearOperator(
        (d, d), matvec=lambda v: apply(v.reshape(-1, 1)).ravel(), dtype=np.float64
    )
    may_form = may_form and d <= FORMED_ROWS
    with one_blas_thread():
        try:
            values, vectors = scipy.sparse.linalg.eigsh(
                operator, k=k, which="LA", v0=start[:, 0], maxiter=RESTARTS if may_form else None
            )
        except scipy.sparse.linalg.ArpackError:
            if not may_form:
                raise
        else:
            order = np.argsort(values)[::-1]
            repeated = are_repeated(values[order], 2)
            if repeated and not may_form:
                warn_of_repeated(d)
            if not (repeated and may_form):
                return values[order], fix_signs(vectors[:, order])
    return leading_eigenpairs(_formed(apply, d), k)


def _formed(apply: Callable[[np.ndarray], np.ndarray], d: int) -> np.ndarray:
    M = np.empty((d, d))
    for begin in range(0, d, FORMED_COLUMNS):
        width = min(FORMED_COLUMNS, d - begin)
        M[:, begin : begin + width] = apply(np.eye(d, width, -begin))
    return M


def are_repeated(values: np.ndarray, times: int, within: float = EQUAL) -> bool:
    """Whether so many of these eigenvalues, largest first, are equal to each other and not zero."""
    values = values[values > ZERO * values[0]]
    first, last = values[: max(0, len(values) - times + 1)], values[times - 1 :]
    return bool(np.any(first - last <= within * first))


def warn_of_repeated(d: int) -> None:
    warnings.warn(
        f"some eigenvalues are equal, and Lanczos may have missed eigenvectors that share them; "
        f"only with up to {FORMED_ROWS:,} features (here {d:,}) and no memory_limit is it made "
        f"sure that it has not; use GPCA with eigen_solver='formed', or fewer features",
        ConvergenceWarning,
        stacklevel=2,
    )


def fix_signs(vectors: np.ndarray) -> np.ndarray:
    """Turn each column so that the first of its largest entries in size is positive."""
    sizes = np.abs(vectors)
    first = np.argmax(sizes >= (1 - SIGN_TOLERANCE) * sizes.max(axis=0), axis=0)
    signs = np.where(vectors[first, np.arange(vectors.shape[1])] < 0, -1, 1)
    return vectors * signs.astype(vectors.dtype)
