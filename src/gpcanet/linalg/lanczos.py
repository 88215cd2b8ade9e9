"""Leading eigenpairs of a matrix known only by its action on blocks of vectors."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .eigen import fix_signs, leading_eigenpairs_of
from .threads import one_blas_thread

#: Vectors multiplied at a time, where few and where many are wanted. More make products quicker
#: and need a larger space.
FEW_BLOCK, BLOCK, MANY = 4, 8, 48

#: Times the vectors wanted: dimensions after which to look for them first. It mostly takes more.
FIRST_LOOK = 4

#: Residuals of the eigenvectors, relative to the smallest eigenvalue wanted.
RESIDUAL = 1e-6

#: Never more accurate than this, however near the next eigenvalue is: then nobody can tell the two
#: apart.
LEAST_RESIDUAL = 1e-7

#: A new direction that much smaller than the matrix is rounding: the space is exhausted.
EXHAUSTED = 1e-10


def leading_eigenpairs_by_blocks(
    apply: Callable[[np.ndarray], np.ndarray], d: int, k: int, *, angle: float | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """The k largest eigenvalues, largest first, and their eigenvectors, by block Lanczos.

    ``apply`` takes d x b blocks to d x b blocks and is symmetric. The space is never restarted:
    it takes 4 k to 5 k dimensions and, with a hundred vectors wanted, half the time of ARPACK.
    All vectors are orthogonalised against all others, and the residuals decide when to stop: small
    beside the smallest eigenvalue or, with an ``angle``, beside its distance to the next one. That
    bounds the sine of the angle between the space found and that of the eigenvectors. Where the
    space is exhausted or grows too large, ARPACK takes over.

    Examples
    --------
    >>> import numpy as np
    >>> sizes = np.arange(200.0)
    >>> values, vectors = leading_eigenpairs_by_blocks(lambda V: sizes[:, None] * V, 200, 2)
    >>> values.round(6)
    array([199., 198.])
    """
    with one_blas_thread():
        found = _block_lanczos(apply, d, k, angle)
    if found is None:
        return leading_eigenpairs_of(lambda v: apply(v.reshape(-1, 1)).ravel(), d, k)
    return found


def _block_lanczos(
    apply: Callable[[np.ndarray], np.ndarray], d: int, k: int, angle: float | None
) -> tuple[np.ndarray, np.ndarray] | None:
    b = FEW_BLOCK if k < MANY else BLOCK
    largest = min(d, 8 * k + 32 * b) - b
    if largest < FIRST_LOOK * k:
        return None
    # One vector per row: products with a thin block are quickest that way round.
    V = np.empty((largest + b, d))
    H = np.zeros((len(V), len(V)))
    # A fixed start makes the result repeatable; a random one meets every eigenvector.
    V[:b] = _orthonormal_rows(np.random.default_rng(0).standard_normal((b, d)))[0]
    m, look_at = b, FIRST_LOOK * k
    while m <= largest:
        new, near = slice(m - b, m), slice(max(0, m - 2 * b), m)
        Z = np.ascontiguousarray(apply(np.ascontiguousarray(V[new].T)).T)
        size = np.linalg.norm(Z)
        # Lanczos' own three terms first, then everything, for what rounding has left.
        for part in (near, slice(0, m)):
            along = Z @ V[part].T
            Z -= along @ V[part]
            H[new, part] += along
        V[m : m + b], R = _orthonormal_rows(Z)
        if np.abs(np.diag(R)).min() <= EXHAUSTED * size:
            return None
        if m >= look_at:
            values, U = np.linalg.eigh(H[:m, :m])  # scipy's would keep other threads waiting
            values, U = values[: -k - 2 : -1], U[:, : -k - 1 : -1]
            smallest, gap = values[k - 1], values[k - 1] - values[k]
            residuals = R.T @ U[-b:]
            if angle is None:
                done = np.linalg.norm(residuals, axis=0).max() <= RESIDUAL * smallest
            else:
                done = np.linalg.norm(residuals, 2) <= max(angle * gap, LEAST_RESIDUAL * smallest)
            if done:
                return values[:k], fix_signs(V[:m].T @ U)
            look_at = m + max(b, k // 4)
        m += b
    return None


def _orthonormal_rows(Z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Q and R such that Z = R Q, Q having orthonormal rows."""
    Q, R = np.linalg.qr(Z.T)
    return Q.T, R.T
