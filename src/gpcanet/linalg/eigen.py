"""Leading eigenpairs of symmetric matrices, with order and signs fixed in one place.

``leading_eigenpairs`` takes a matrix and calls LAPACK. ``leading_eigenpairs_of`` takes products
with the matrix and runs a thick-restart block Lanczos iteration with full orthogonalisation.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable

import numpy as np
import scipy.linalg
from sklearn.exceptions import ConvergenceWarning

from .parallel import one_blas_thread

#: From d x b blocks V to M V.
Apply = Callable[[np.ndarray], np.ndarray]

#: Rows up to which LAPACK computes all eigenvectors in less time than the leading ones. In larger
#: matrices it is so for more than half of them.
DIVIDE_AND_CONQUER_ROWS = 500

#: Vectors per product. More make a product cheaper per vector, but need a larger subspace.
BLOCK_SIZE = 8

#: Residuals ||M w - lambda w|| below this fraction of the largest eigenvalue are not reduced
#: further. The error of an eigenvalue is the square of its residual over the gap.
SMALLEST_RESIDUAL = 1e-9

#: Expected factor by which one block reduces the residual. It schedules the convergence checks.
REDUCTION_PER_BLOCK = 3.0

#: Restarts after which the iteration is given up. A fit of citation graphs takes none.
MAX_RESTARTS = 100

#: Size relative to the largest product below which a new direction is rounding error.
EXHAUSTED = 1e-10

#: Size relative to its product below which a new direction is orthogonalised once more.
CANCELLED = 1e-4

#: Random vectors in an estimate of a trace.
PROBES = 32

#: Rows (288 MB of float64) up to which a matrix is formed if its eigenvalues are repeated.
FORMED_ROWS = 6_000

#: Relative gap below which two eigenvalues count as equal.
EQUAL_GAP = 1e-7

#: Eigenvalues below this fraction of the largest count as zero.
ZERO_SHARE = 1e-12

#: Entries this close to the largest one count as equally large when a sign is chosen.
SIGN_TOLERANCE = 1e-4


def leading_eigenpairs(M: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The k algebraically largest eigenvalues of M, largest first, and their eigenvectors.

    M is symmetrised first: a truncated series or a random walk makes it slightly unsymmetric,
    and LAPACK reads one triangle only.
    """
    M, d = (M + M.T) / 2, len(M)
    # Two BLAS threads wait for each other in matrices of this size.
    with one_blas_thread():
        if d > DIVIDE_AND_CONQUER_ROWS and 2 * k <= d:
            try:
                values, vectors = scipy.linalg.eigh(M, subset_by_index=[d - k, d - 1])
                if len(values) == k:  # LAPACK's MRRR may lose repeated eigenvalues
                    return values[::-1], fix_signs(vectors[:, ::-1])
            except np.linalg.LinAlgError:
                pass
        values, vectors = np.linalg.eigh(M)
    return values[: -k - 1 : -1], fix_signs(vectors[:, : -k - 1 : -1])


def leading_eigenpairs_of(
    apply: Apply,
    d: int,
    k: int,
    *,
    tol: float = SMALLEST_RESIDUAL,
    may_form: bool = True,
    advice: str = "form the matrix and call leading_eigenpairs",
) -> tuple[np.ndarray, np.ndarray]:
    """The k largest eigenvalues and their eigenvectors of a matrix given by its products.

    Block Lanczos finds at most ``BLOCK_SIZE`` eigenvectors of a repeated eigenvalue. If it finds
    that many, or does not converge, the matrix is formed, provided that ``may_form`` is true and
    the matrix has at most ``FORMED_ROWS`` rows. Otherwise a ConvergenceWarning is issued.

    Parameters
    ----------
    apply : callable
        M V for a block V of shape (d, b).
    d, k : int
        Rows of M and number of eigenpairs.
    tol : float
        Largest residual norm of an eigenpair relative to its eigenvalue, or
        ``SMALLEST_RESIDUAL`` relative to the largest one.
    may_form : bool
        Whether there is memory for a d x d matrix.
    advice : str
        What the ConvergenceWarning suggests.

    Examples
    --------
    >>> import numpy as np
    >>> diagonal = np.arange(200.0)
    >>> values, vectors = leading_eigenpairs_of(lambda V: diagonal[:, None] * V, 200, 2)
    >>> values.round(6)
    array([199., 198.])
    """
    may_form = may_form and d <= FORMED_ROWS
    if may_form and d < 2 * k + 4 * BLOCK_SIZE:
        return leading_eigenpairs(_formed(apply, d), k)
    with one_blas_thread():
        basis = KrylovBasis(d, k)
        values, vectors, excess = _block_lanczos(apply, basis, k, tol)
    problem = None
    if excess > 1:
        problem = f"Lanczos stopped at a relative residual of {excess * tol:.1e}"
    elif basis.size < d and _are_repeated(values, BLOCK_SIZE):
        problem = "eigenvalues are repeated, and Lanczos may have missed eigenvectors"
    if problem and may_form:
        return leading_eigenpairs(_formed(apply, d), k)
    if problem:
        warnings.warn(f"{problem}; {advice}", ConvergenceWarning, stacklevel=2)
    # One step of Newton: a basis of few independent directions has lost some orthogonality.
    vectors = vectors - vectors @ ((vectors.T @ vectors - np.eye(k)) / 2)
    return values, fix_signs(vectors)


def lanczos_vectors(d: int, k: int) -> int:
    """Vectors of length d that Lanczos holds for k eigenpairs, with those of a restart."""
    limit = _largest_size(d, k)
    return limit + BLOCK_SIZE + _kept_size(limit, k)


def _largest_size(d: int, k: int) -> int:
    return min(d, 4 * k + 16 * BLOCK_SIZE)


def _kept_size(size: int, k: int) -> int:
    return k + max(0, size - k) // 3


def estimate_trace(apply: Apply, values: np.ndarray, vectors: np.ndarray) -> float:
    """Trace of a matrix whose leading eigenpairs are known.

    The remainder is estimated from random vectors orthogonal to the eigenvectors (Hutch++).
    """
    d = len(vectors)
    if d <= PROBES:
        return float(np.trace(apply(np.eye(d))))
    signs = np.random.default_rng(0).choice([-1.0, 1.0], (d, PROBES))
    with one_blas_thread():
        signs -= vectors @ (vectors.T @ signs)
        return float(values.sum() + np.einsum("ij,ij", signs, apply(signs)) / PROBES)


class KrylovBasis:
    """Orthonormal basis of a block Krylov subspace, and the matrix projected onto it.

    Parameters
    ----------
    d : int
        Length of the vectors.
    k : int
        Number of eigenpairs to be computed.

    Attributes
    ----------
    size : int
        Dimension of the subspace.
    """

    def __init__(self, d: int, k: int) -> None:
        self.size, self._limit = 0, _largest_size(d, k)
        # One vector per row. The rows after ``size`` hold the next block.
        self._V = np.empty((min(d, self._limit + BLOCK_SIZE), d))
        self._H = np.zeros((self._limit, self._limit))
        # A fixed seed makes the result repeatable; random vectors contain every eigenvector.
        self._rng = np.random.default_rng(0)
        self._restarted, self._scale = False, 0.0
        start = self._rng.standard_normal((min(BLOCK_SIZE, d), d))
        self._next = self._V[: len(start)]
        self._next[:], self._R = _orthonormal_rows(start)

    @property
    def is_full(self) -> bool:
        """Whether the next block does not fit into the limit."""
        return self.size + len(self._next) > self._limit

    @property
    def is_complete(self) -> bool:
        """Whether the subspace is the whole space."""
        return len(self._next) == 0

    def grow(self, apply: Apply) -> None:
        """Add the next block, multiply it, and orthogonalise the product to the next one."""
        V, begin, m = self._V, self.size, self.size + len(self._next)
        Z = np.ascontiguousarray(apply(V[begin:m].T).T)
        norm = float(np.linalg.norm(Z))
        self._scale = max(self._scale, norm)
        # The three-term recurrence first, then all vectors: rounding errors of the large terms
        # would grow with every block otherwise. After a restart all terms are large.
        recent = slice(0 if self._restarted else max(0, begin - BLOCK_SIZE), m)
        for part in (recent, slice(0, m)):
            coefficients = Z @ V[part].T
            Z -= coefficients @ V[part]
            self._H[begin:m, part] += coefficients
        self.size, self._restarted = m, False
        width = min(len(Z), V.shape[1] - m)
        self._next = V[m : m + width]
        if width:
            self._next[:], self._R = self._continued(Z, width, norm)

    def _continued(self, Z: np.ndarray, width: int, norm: float) -> tuple[np.ndarray, np.ndarray]:
        """Q and R with Z = R Q; random directions replace those that Z does not have."""
        exhausted = EXHAUSTED * self._scale
        if width == len(Z):
            Q, R = _orthonormal_rows(Z)
            if np.abs(np.diag(R)).min() > max(CANCELLED * norm, exhausted):
                return Q, R
        _, sizes, Q = np.linalg.svd(Z, full_matrices=False)
        n_kept = min(width, int(np.sum(sizes > exhausted)))
        Q = np.vstack([Q[:n_kept], self._rng.standard_normal((width - n_kept, Z.shape[1]))])
        for _ in range(2):
            Q -= (Q @ self._V[: self.size].T) @ self._V[: self.size]
            Q = np.linalg.qr(Q.T)[0].T
        return Q, Z @ Q.T

    def ritz_pairs(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Ritz values, largest first, coefficients of the Ritz vectors, and residual norms."""
        values, U = np.linalg.eigh(self._H[: self.size, : self.size])  # reads the lower triangle
        values, U = values[::-1], U[:, ::-1]
        if self.is_complete:
            return values, U, np.zeros(self.size)
        last = U[self.size - len(self._R) :]
        return values, U, np.linalg.norm(self._R.T @ last, axis=0)

    def vectors(self, U: np.ndarray) -> np.ndarray:
        """Vectors with these coefficients, one per column."""
        return (U.T @ self._V[: self.size]).T

    def restart(self, values: np.ndarray, U: np.ndarray) -> None:
        """Reduce the subspace to the span of the leading Ritz vectors."""
        kept, width = len(values), len(self._next)
        following = self._next.copy()
        self._V[:kept] = U.T @ self._V[: self.size]
        self._H[:] = 0
        self._H[range(kept), range(kept)] = values
        self.size, self._restarted = kept, True
        self._next = self._V[kept : kept + width]
        self._next[:] = following


def _block_lanczos(
    apply: Apply, basis: KrylovBasis, k: int, tol: float
) -> tuple[np.ndarray, np.ndarray, float]:
    """The k leading Ritz values and vectors, and their largest residual over the allowed one."""
    check_at = 2 * k + 8 * BLOCK_SIZE  # smallest size at which a real graph reached 1e-6
    restarts = 0
    while True:
        basis.grow(apply)
        ends = basis.is_complete or basis.is_full
        if not (ends or basis.size >= check_at) or basis.size < k:
            continue
        values, U, residuals = basis.ritz_pairs()
        sizes = np.abs(values[:k])
        allowed = np.maximum(tol * sizes, SMALLEST_RESIDUAL * sizes[0]) + np.finfo(float).tiny
        excess = float((residuals[:k] / allowed).max())
        if excess <= 1 or basis.is_complete or restarts == MAX_RESTARTS:
            return values[:k], basis.vectors(U[:, :k]), excess
        if basis.is_full:
            kept = _kept_size(basis.size, k)
            basis.restart(values[:kept], U[:, :kept])
            restarts += 1
        n_blocks = round(math.log(excess) / math.log(REDUCTION_PER_BLOCK))
        check_at = basis.size + BLOCK_SIZE * max(2, n_blocks)


def _formed(apply: Apply, d: int) -> np.ndarray:
    M = np.empty((d, d))
    for begin in range(0, d, BLOCK_SIZE):
        width = min(BLOCK_SIZE, d - begin)
        M[:, begin : begin + width] = apply(np.eye(d, width, -begin))
    return M


def _are_repeated(values: np.ndarray, times: int) -> bool:
    """Whether ``times`` of these eigenvalues, largest first, are equal and not zero."""
    values = values[values > ZERO_SHARE * values[0]]
    first, last = values[: max(0, len(values) - times + 1)], values[times - 1 :]
    return bool(np.any(first - last <= EQUAL_GAP * first))


def _orthonormal_rows(Z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Q with orthonormal rows and lower triangular R such that Z = R Q."""
    Q, R = np.linalg.qr(Z.T)
    return Q.T, R.T


def fix_signs(vectors: np.ndarray) -> np.ndarray:
    """Flip each column so that the first of its largest entries in size is positive."""
    sizes = np.abs(vectors)
    first = np.argmax(sizes >= (1 - SIGN_TOLERANCE) * sizes.max(axis=0), axis=0)
    signs = np.where(vectors[first, np.arange(vectors.shape[1])] < 0, -1, 1)
    return vectors * signs.astype(vectors.dtype)
