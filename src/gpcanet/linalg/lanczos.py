"""Leading eigenpairs of a matrix known only by its action on blocks of vectors."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .eigen import (
    EQUAL,
    FORMED_ROWS,
    are_repeated,
    fix_signs,
    leading_eigenpairs_of,
    warn_of_repeated,
)
from .threads import one_blas_thread

Apply = Callable[[np.ndarray], np.ndarray]
Squared = Callable[[np.ndarray, float], np.ndarray]

#: Vectors multiplied at a time, where few and where many are wanted. More make products quicker
#: and need a larger space.
FEW_BLOCK, BLOCK, MANY = 4, 8, 48

#: Dimensions after which to look for them first: so many a vector, and so many blocks more. It is
#: about what an angle of 5e-3 takes on citation graphs, with the matrix itself and with its square.
FIRST_LOOK, FIRST_LOOK_SQUARED = (2.25, 11), (1.5, 8)

#: Angle between the space found and that of the eigenvectors, where none is given.
EXACT_ANGLE = 1e-6

#: How much smaller the angle gets with a block, at the most: the next look is not before that.
GAIN = 8.0

#: Eigenvalues nearer to each other than this part of them cannot be told apart.
LEAST_GAP = 1e-9

#: A new direction that much smaller than the matrix is rounding: the space is exhausted.
EXHAUSTED = 1e-10

#: Rows that are no nearer to dependence than this are made orthonormal by way of their products,
#: in half the time: what rounding leaves is 1e-16 over its square.
WELL_CONDITIONED = 0.1

#: Eigenvalues up to about that of number CUT k are what the square brings close together, found by
#: so many blocks. Where the largest is larger than WIDEST of them, squares would lose digits: what
#: is left is 1e-9 of the smaller ones, and what is wanted must be above them by more than that.
CUT, CUT_BLOCKS, WIDEST, ABOVE = 2, 4, 1e3, 1e-6


def leading_eigenpairs_by_blocks(
    apply: Apply, d: int, k: int, *, angle: float = EXACT_ANGLE, squared: Squared | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """The k largest eigenvalues, largest first, and their eigenvectors, by block Lanczos.

    ``apply`` takes d x b blocks to new d x b blocks and is symmetric. The space is never restarted,
    and all its vectors are orthogonalised against all others: it takes 3 k to 4.5 k dimensions
    and, with a hundred vectors wanted, half the time of ARPACK. It ends when the space found is
    within an ``angle`` of that of the eigenvectors, as estimated to second order. Where it is
    exhausted or grows too large, ARPACK takes over; also where as many eigenvalues are equal as
    a block has vectors, since it sees no more of them, and there may be others.

    Where products are cheap and M is positive semidefinite, ``squared`` may give those with
    (M - s I)^2 for any s. With s half of about the eigenvalue of number 2 k, all smaller ones end
    up close to each other, and those above it farther apart: 2 k to 3 k dimensions are enough.

    Examples
    --------
    >>> import numpy as np
    >>> sizes = np.arange(200.0)
    >>> values, vectors = leading_eigenpairs_by_blocks(lambda V: sizes[:, None] * V, 200, 2)
    >>> values.round(6)
    array([199., 198.])
    """
    b = BLOCK if squared or k >= MANY else FEW_BLOCK
    found = None
    if d >= 2 * k + 2 * b:
        # A fixed start makes the result repeatable; a random one meets every eigenvector.
        start = _orthonormal_rows(np.random.default_rng(0).standard_normal((b, d)))[0]
        with one_blas_thread():
            if squared:
                found = _by_square(apply, squared, start, k, angle)
            if found is None:
                found = _block_lanczos(apply, start, k, angle, FIRST_LOOK)
    if found is not None:
        within = min(max(EQUAL, 10 * angle**2), 1e-4)  # as near as they are known
        repeated = are_repeated(found[0], b, within)
        if repeated and d > FORMED_ROWS:
            warn_of_repeated(d)
        if not (repeated and d <= FORMED_ROWS):
            return found[0], fix_signs(found[1])
    return leading_eigenpairs_of(apply, d, k)


def _by_square(
    apply: Apply, squared: Squared, start: np.ndarray, k: int, angle: float
) -> tuple[np.ndarray, np.ndarray] | None:
    middle = _middle(apply, start, CUT * k)
    if middle is None:
        return None
    found = _block_lanczos(lambda V: squared(V, middle), start, k, angle, FIRST_LOOK_SQUARED)
    # Otherwise the middle was too high, and they are not the largest ones. All zeros of M come out
    # as middle^2, but for rounding.
    if found is None or found[0][-1] <= middle**2 * (1 + ABOVE):
        return None
    return middle + np.sqrt(found[0]), found[1]


def _middle(apply: Apply, start: np.ndarray, n_above: int) -> float | None:
    """Half of the eigenvalue that about so many are larger than; None where that does not help.

    The share of a Ritz vector in random vectors tells how many eigenvalues it stands for.
    """
    b, d = start.shape
    space = KrylovSpace(start, CUT_BLOCKS * b)
    if not all(space.grow(apply) for _ in range(CUT_BLOCKS)):
        return None
    values, U = space.eigenpairs()
    n_larger = np.cumsum((U[:b] ** 2).sum(axis=0)) * d / b
    # Rather the smaller one of the two that enclose it: too low takes longer, too high is no use.
    where = int(np.searchsorted(n_larger, n_above))
    cut = float(values[min(where, len(values) - 1)])
    return cut / 2 if cut * WIDEST > values[0] else None


def _block_lanczos(
    apply: Apply, start: np.ndarray, k: int, angle: float, first_look: tuple[float, int]
) -> tuple[np.ndarray, np.ndarray] | None:
    b, d = start.shape
    space = KrylovSpace(start, min(d, 8 * k + 32 * b) - b)
    look_at = first_look[0] * k + first_look[1] * b
    while space.grow(apply):
        if space.size >= look_at:
            values, U = space.eigenpairs()
            reached = space.estimated_angle(values, U, k)
            if reached <= angle:
                return values[:k], space.vectors(U[:, :k])
            n_blocks = np.ceil(np.log(min(reached, 1.0) / angle) / np.log(GAIN))
            look_at = space.size + b * max(n_blocks, 1)
    return None


class KrylovSpace:
    """Orthonormal vectors that become more by a block with every product with a matrix.

    Parameters
    ----------
    start : ndarray of shape (b, d)
        Orthonormal.
    most : int
        Dimensions it may have.
    """

    def __init__(self, start: np.ndarray, most: int) -> None:
        b, d = start.shape
        self.size, self._b = 0, b
        # One vector per row: products with a thin block are quickest that way round. The last
        # block is not of the space yet.
        self._V = np.empty((most + b, d))
        self._V[:b] = start
        self._R = np.zeros((b, b))
        self._products: list[np.ndarray] = []  # of each block with itself and those before it

    def grow(self, apply: Apply) -> bool:
        """Take the last block in and find the next; false where that cannot be done."""
        m, b, V = self.size + self._b, self._b, self._V
        if m + b > len(V):
            return False
        new, near = slice(m - b, m), slice(max(0, m - 2 * b), m)
        Z = np.ascontiguousarray(apply(V[new].T).T)
        size = np.linalg.norm(Z)
        # Lanczos' own three terms first, then everything, for what rounding has left. At once
        # would not do: what rounding leaves of large terms would grow with every block.
        products = np.zeros((b, m))
        for part in (near, slice(0, m)):
            along = Z @ V[part].T
            Z -= along @ V[part]
            products[:, part] += along
        self._products.append(products)
        V[m : m + b], self._R = _orthonormal_rows(Z)
        self.size = m
        return bool(np.abs(np.diag(self._R)).min() > EXHAUSTED * size)

    def eigenpairs(self) -> tuple[np.ndarray, np.ndarray]:
        """All of the matrix within the space, the largest first; vectors in terms of the space."""
        H = np.zeros((self.size, self.size))
        for products in self._products:  # numpy reads the lower triangle
            begin = products.shape[1] - self._b
            H[begin : begin + self._b, : products.shape[1]] = products
        values, U = np.linalg.eigh(H)  # scipy's would keep other threads waiting
        return values[::-1], U[:, ::-1]

    def vectors(self, U: np.ndarray) -> np.ndarray:
        """Vectors given in terms of the space, one a column."""
        return (U.T @ self._V[: self.size]).T

    def estimated_angle(self, values: np.ndarray, U: np.ndarray, k: int) -> float:
        """Sine of the largest angle between the first k Ritz vectors and the eigenvectors.

        What Ritz vectors miss is a part of the next block, which is to the matrix as the last
        one is. To first order it is their residual over the distance to there, ever smaller
        where eigenvalues have been found. To second order, what two of them miss in common mixes
        them: that counts between one of the first k and one of the others, and the more the
        nearer these two are to each other.
        """
        last = slice(self.size - self._b, self.size)
        beyond = np.linalg.eigvalsh(self._products[-1][:, last])[-1]
        distance = values[:k] - beyond
        if distance[-1] <= 0:
            return np.inf
        residuals = self._R.T @ U[last]
        missed = residuals[:, :k] / distance
        gaps = np.maximum(values[:k, None] - values[k:], LEAST_GAP * values[k - 1])
        mixed = missed.T @ residuals[:, k:] / gaps
        return float(np.linalg.norm(missed) + np.linalg.norm(mixed))


def _orthonormal_rows(Z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Q and R such that Z = R Q, Q having orthonormal rows and R being lower triangular."""
    try:
        R = np.linalg.cholesky(Z @ Z.T)
        sizes = np.diag(R)
        if sizes.min() > WELL_CONDITIONED * sizes.max():
            return np.linalg.inv(R) @ Z, R
    except np.linalg.LinAlgError:
        pass  # dependent rows
    Q, R = np.linalg.qr(Z.T)
    return Q.T, R.T
