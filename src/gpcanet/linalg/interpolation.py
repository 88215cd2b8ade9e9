"""X^T (I + alpha L)^-1 X for every alpha of a range, interpolated between a few of them.

The poles of 1 / (1 + alpha lambda) as a function of log alpha have a distance of at least pi from
the real axis, so a polynomial through a dozen Chebyshev points is as accurate as the solves. The
solves at all points share one recurrence, T_t+1(P) X = 2 P T_t(P) X - T_t-1(P) X, and differ in
their coefficients only.

Only X^T F is needed of a solve F, and it has twice the digits of F. With S = I + alpha L and the
residual R = X - S F,

    X^T S^-1 X = F^T (X + R) + R^T S^-1 R.

After K steps of the Chebyshev iteration R is T_K(P) X / T_K(1 / c), c = alpha / (1 + alpha). The
last term is at most 1 / T_K(1 / c)^2 of X^T X, so half the number of steps suffices.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..utils.progress import report_progress
from .operators.propagation import FUSED_WORK, Propagation
from .parallel import parallel_map, parallel_rows, parallel_sum

#: Terms of the series that are added to the sums at a time, which reads and writes a sum once.
TERMS = 8

#: Largest number of interpolation points.
MAX_POINTS = 32

#: Largest number of columns per block.
COLUMNS = 128

#: Largest memory of the sums and terms of a block.
BLOCK_BYTES = 2**30

#: Rows per product; the products are added up in float64.
ROWS = 2048


class InterpolatedProducts:
    """B^T (I + alpha L)^-1 B for every alpha of a range, and for alpha = 0.

    Products are those in which P is self-adjoint: plain for ``sym``, weighted by D for ``rw``.

    Parameters
    ----------
    P : Propagation
        Without a ghost factor; its spectrum is in [-1, 1].
    B : ndarray of shape (n, w)
    smallest_alpha, largest_alpha : float
        The range, above 0, for which there are :func:`sample_points`.
    tol : float
        Largest error of (I + alpha L)^-1 as a function of the eigenvalues of L.
    zero : bool
        Whether alpha = 0 is needed, too. It takes one more product.

    Examples
    --------
    >>> import numpy as np
    >>> P = Propagation(np.array([0, 1, 2]), np.array([1, 0]))  # a single edge
    >>> samples = InterpolatedProducts(P, np.array([[1.0], [3.0]]), 0.5, 5.0, tol=1e-9)
    >>> samples.product(0.0), samples.product(1.0).round(6)  # 1.5 * 1 + 2.5 * 3
    (array([[10.]]), array([[9.]]))
    """

    def __init__(
        self,
        P: Propagation,
        B: np.ndarray,
        smallest_alpha: float,
        largest_alpha: float,
        tol: float,
        *,
        zero: bool = True,
    ) -> None:
        points = sample_points(smallest_alpha, largest_alpha, tol)
        assert points is not None
        self.alphas = points
        n_steps = steps_needed(largest_alpha, tol)
        series = [solve_series(alpha, n_steps, tol) for alpha in points]
        coefficients = np.array([terms for terms, _ in series], B.dtype)
        shares = [B.dtype.type(share) for _, share in series]
        P = P.for_blocks_of(B.shape[1])
        B = P.scaled(P.to_internal(B), 1.0)
        weighted = P.mass[:, None] * B
        all_at_once = not P.is_fused(1) and len(points) * B.nbytes <= BLOCK_BYTES
        make = _products_at_once if all_at_once else _products_by_columns
        upper = make(P, B, weighted, coefficients, shares)
        self._products = np.triu(upper) + np.triu(upper, 1).transpose(0, 2, 1)
        self._at_zero: np.ndarray | None = None
        if zero:
            self._at_zero = _sum_over_rows(lambda rows: weighted[rows].T @ B[rows], len(B))

    def product(self, alpha: float) -> np.ndarray:
        """B^T (I + alpha L)^-1 B."""
        if alpha == 0:
            assert self._at_zero is not None
            return self._at_zero
        shares = _lagrange(np.log(self.alphas), np.log([alpha]))[0]
        return np.tensordot(shares, self._products, axes=1)


def _products_by_columns(
    P: Propagation,
    B: np.ndarray,
    weighted: np.ndarray,
    coefficients: np.ndarray,
    shares: list[Any],
) -> np.ndarray:
    """Upper triangles of all products.

    Blocks of columns run one after the other, because the compiled step is itself parallel.
    """
    n, w = B.shape
    n_points, last_term = len(shares), np.empty_like(B)
    products = np.zeros((n_points, w, w))
    for part, sums, last in _sums_by_columns(P, B, coefficients):
        np.multiply(P.mass[:, None], last, out=last_term[:, part])
        # Only with the columns up to here: the last term of the others is not computed yet.
        done = slice(0, part.stop)

        def products_of(
            rows: slice, part: slice = part, done: slice = done, sums: np.ndarray = sums
        ) -> np.ndarray:
            X, last = weighted[rows, done], last_term[rows, done]
            found = np.empty((n_points, part.stop, part.stop - part.start))
            for product, share, F in zip(found, shares, sums, strict=True):
                product[:] = (X + share * last if share else X).T @ F[rows]
            return found

        products[:, done, part] = _sum_over_rows(products_of, n)
    return products


def _products_at_once(
    P: Propagation,
    B: np.ndarray,
    weighted: np.ndarray,
    coefficients: np.ndarray,
    shares: list[Any],
) -> np.ndarray:
    """The same for small sums: blocks of columns in parallel, then points in parallel."""
    n, w = B.shape
    last_term, sums = np.empty_like(B), np.empty((len(shares), n, w), B.dtype)
    columns = max(1, COLUMNS // 2)
    own = threading.local()

    def solve(part: slice) -> None:
        if not hasattr(own, "workspace"):
            own.workspace = Workspace(coefficients, (n, columns), B.dtype)
        sums[:, :, part], last = _sums_of_series(P, B[:, part], coefficients, own.workspace)
        last_term[:, part] = P.mass[:, None] * last

    def multiply(point: int) -> np.ndarray:
        share = shares[point]
        left = weighted + share * last_term if share else weighted
        return (left.T @ sums[point]).astype(np.float64)

    parallel_map(solve, _parts(w, columns))
    return np.stack(parallel_map(multiply, range(len(shares))))


def _sum_over_rows(function: Callable[[slice], np.ndarray], n_rows: int) -> np.ndarray:
    slices = [slice(begin, begin + ROWS) for begin in range(0, n_rows, ROWS)]
    return parallel_sum(function, slices)


def series_length(alpha: float, tol: float) -> int:
    """Last term of the Chebyshev series of 1 / (1 + alpha (1 - mu)) needed for an error of tol."""
    factor, r = _geometric_series(alpha)
    if r == 0:
        return 0
    remainder = factor / (1 - r)  # times r^(t + 1)
    return max(0, math.ceil(math.log(tol / remainder) / math.log(r)) - 1)


def _geometric_series(alpha: float) -> tuple[float, float]:
    """Factor and ratio r of the coefficients of that series: factor * r^t, half of it for t = 0.

    With c = alpha / (1 + alpha), r is (1 - sqrt(1 - c^2)) / c.
    """
    c = alpha / (1 + alpha)
    root = math.sqrt(1 - c * c)
    return 2 * (1 - c) / root, c / (1 + root)


def series_coefficients(alphas: list[float], tol: float, dtype: Any) -> np.ndarray:
    """Coefficients of (I + alpha L)^-1 as a Chebyshev series in P, one row per alpha."""
    lengths = [series_length(alpha, tol) + 1 for alpha in alphas]
    coefficients = np.zeros((len(alphas), max(lengths)), dtype)
    for row, alpha, length in zip(coefficients, alphas, lengths, strict=True):
        factor, r = _geometric_series(alpha)
        row[:length] = factor * r ** np.arange(length)
        row[0] /= 2
    return coefficients


def steps_needed(alpha: float, tol: float) -> int:
    """Chebyshev steps for an error of F^T (X + R) of at most tol relative to X^T X."""
    return max(1, math.ceil(math.acosh(max(1 / tol, 1.0) ** 0.5) / math.acosh(1 + 1 / alpha)))


def solve_series(alpha: float, n_steps: int, tol: float) -> tuple[np.ndarray, float]:
    """F after ``n_steps`` as a Chebyshev series in P, and the factor of T_n_steps(P) X in R."""
    # 1 / cosh of the exponent, which does not overflow.
    decay = math.exp(-n_steps * math.acosh(1 + 1 / alpha))
    share = 2 * decay / (1 + decay**2)

    def solved(mu: Any) -> Any:
        return (1 - share * np.cos(n_steps * np.arccos(mu))) / (1 + alpha * (1 - mu))

    terms = np.polynomial.chebyshev.chebinterpolate(solved, n_steps - 1)
    # The series of a small alpha ends earlier. The error of cutting it is not squared.
    terms[series_length(alpha, tol / 4) + 1 :] = 0
    return terms, share if share > tol / 4 else 0.0


def sample_points(smallest: float, largest: float, tol: float) -> np.ndarray | None:
    """Chebyshev points in log alpha that interpolate 1 / (1 + alpha lambda) to tol.

    None if ``MAX_POINTS`` do not suffice: the range is too wide, or tol is at rounding level.
    """
    low, high = np.log(smallest), np.log(largest)
    where = np.linspace(low, high, 201)
    eigenvalues = np.concatenate([[0.0], np.geomspace(1e-3 / largest, 2, 201)])
    expected = 1 / (1 + np.multiply.outer(np.exp(where), eigenvalues))
    for n_points in range(1, MAX_POINTS + 1):
        angles = np.pi * (np.arange(n_points)[::-1] + 0.5) / n_points
        points = (low + high) / 2 + (high - low) / 2 * np.cos(angles)
        values = 1 / (1 + np.multiply.outer(np.exp(points), eigenvalues))
        if np.abs(_lagrange(points, where) @ values - expected).max() <= tol:
            return np.exp(points)
    return None


def solutions_by_columns(
    P: Propagation, B: np.ndarray, alphas: list[float], tol: float
) -> Iterator[tuple[slice, list[np.ndarray]]]:
    """Yield (I + alpha L)^-1 B for several alphas from one recurrence, by blocks of columns.

    The solutions, one per alpha, come with their columns and are valid until the next ones.
    ``tol`` is the largest error of (I + alpha L)^-1 as a function of the eigenvalues of L. The
    alphas are positive and ascending.

    Examples
    --------
    >>> import numpy as np
    >>> P = Propagation(np.array([0, 1, 2]), np.array([1, 0]))  # a single edge
    >>> [(_, [F])] = solutions_by_columns(P, np.array([[1.0], [3.0]]), [1.0], 1e-9)
    >>> F.round(6).ravel()
    array([1.5, 2.5])
    """
    coefficients = series_coefficients(alphas, tol, B.dtype)
    P = P.for_blocks_of(B.shape[1])
    B = P.scaled(P.to_internal(B), 1.0)
    for part, sums, _ in _sums_by_columns(P, B, coefficients):
        yield part, [P.from_internal(F, B) for F in sums]


def _lagrange(points: np.ndarray, where: np.ndarray) -> np.ndarray:
    """Lagrange polynomials of ``points`` at ``where``, one row per place."""
    apart = where[:, None] - points
    shares = np.empty_like(apart)
    for j, point in enumerate(points):
        others = np.arange(len(points)) != j
        shares[:, j] = np.prod(apart[:, others] / (point - points[others]), axis=1)
    return shares


def _parts(width: int, most: int) -> list[slice]:
    return [slice(begin, min(width, begin + most)) for begin in range(0, width, most)]


class Workspace:
    """Reused memory for sums and terms: allocating it takes as long as filling it."""

    def __init__(self, coefficients: np.ndarray, shape: tuple[int, int], dtype: Any) -> None:
        n_sums, n_terms = coefficients.shape
        n_kept = min(TERMS, n_terms + 1)
        self.sums, self.added = (np.empty((n_sums, *shape), dtype) for _ in range(2))
        self.terms = np.empty((n_kept, *shape), dtype)

    def of(self, shape: tuple[int, ...]) -> Iterator[np.ndarray]:
        """Sums, terms and temporary sums for blocks of a shape, contiguous even if smaller."""
        for memory in (self.sums, self.terms, self.added):
            size = len(memory) * math.prod(shape)
            yield memory.reshape(-1)[:size].reshape(len(memory), *shape)


def _sums_by_columns(
    P: Propagation, B: np.ndarray, coefficients: np.ndarray
) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
    """Yield columns of B and their ``_sums_of_series``, which are valid until the next ones."""
    (n, w), n_sums = B.shape, len(coefficients)
    most = BLOCK_BYTES // ((2 * n_sums + TERMS) * n * B.itemsize)
    columns = max(1, min(w, COLUMNS, most))
    workspace = Workspace(coefficients, (n, columns), B.dtype)
    for part in _parts(w, columns):
        yield part, *_sums_of_series(P, B[:, part], coefficients, workspace)
        report_progress("solving for all alphas", part.stop, w)


def _sums_of_series(
    P: Propagation, block: np.ndarray, coefficients: np.ndarray, workspace: Workspace
) -> tuple[np.ndarray, np.ndarray]:
    """sum_t coefficients[i, t] T_t(P) block for every i, and the first term that is left out."""
    n_terms = coefficients.shape[1]
    fused = P.is_fused(block.shape[1])
    sums, terms, added = workspace.of(block.shape)
    sums[:] = 0
    n_kept, twice = len(terms), None if fused else 2 * P.sparse_part
    for t in range(n_terms + 1):
        new, last = terms[t % n_kept], terms[(t - 1) % n_kept]
        if t == 0:
            new[:] = block
        elif t == 1:
            new[:] = P.matmul(last)
        elif fused:
            P.step(last, terms[(t - 2) % n_kept], new, 2.0, -1.0, 0.0)
        else:
            np.subtract(twice @ last, terms[(t - 2) % n_kept], out=new)
        if t < n_terms and (t % n_kept == n_kept - 1 or t == n_terms - 1):
            first = t - t % n_kept
            factors = np.ascontiguousarray(coefficients[:, first : t + 1])
            # Points are in ascending order, and the series of small alphas end first.
            active = int(np.argmax(factors[:, 0] != 0))
            _add_terms(
                terms[: t + 1 - first],
                factors[active:],
                sums[active:],
                added[active:],
            )
    return sums, new


def _add_terms(terms: np.ndarray, factors: np.ndarray, sums: np.ndarray, added: np.ndarray) -> None:
    if sums.size * len(terms) >= FUSED_WORK:
        from .operators import kernels

        parallel_rows(kernels.add_terms, sums.shape[1], terms, factors, sums)
    else:
        np.matmul(factors, terms.reshape(len(terms), -1), out=added.reshape(len(sums), -1))
        sums += added
