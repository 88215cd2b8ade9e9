"""X^T (I + alpha L)^-1 X for every alpha of a range from its values at a few of them.

As a function of log alpha, 1 / (1 + alpha lambda) has no pole nearer to the real axis than pi.
So a polynomial through a dozen Chebyshev points is as good as the solves themselves. All of them
come out of one recurrence, T_t+1(P) X = 2 P T_t(P) X - T_t-1(P) X, each with coefficients of its
own (:mod:`gpcanet.linalg.moments`).

Compared with moments this takes twice the steps and, for the dozen of points, a dozen of products
X^T F, where moments need one for every t: right for wide X, where products are what costs.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .moments import moments_needed, series, sum_over_rows
from .progress import report
from .propagation import FUSED_WORK, Propagation

#: Terms of the series that are collected before they are added to the sums: a sum is read and
#: written once for all of them.
TERMS = 8

#: Points beyond which interpolation is given up.
MOST_POINTS = 32

#: Most columns solved for at a time, for all points, and most memory of their blocks.
COLUMNS, BLOCK_BYTES = 256, 2**29


class Samples:
    """B^T (I + alpha L)^-1 B for alpha = 0 and every alpha of a range.

    Takes what :class:`gpcanet.linalg.moments.Moments` takes, and a ``smallest_alpha`` above 0.

    Examples
    --------
    >>> import numpy as np
    >>> P = Propagation(np.array([0, 1, 2]), np.array([1, 0]))  # a single edge
    >>> samples = Samples(P, np.array([[1.0], [3.0]]), 0.5, 5.0, tol=1e-9)
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
    ) -> None:
        points = sample_points(smallest_alpha, largest_alpha, tol)
        if points is None:
            raise ValueError(
                f"alphas from {smallest_alpha:g} to {largest_alpha:g} cannot be sampled to "
                f"tol={tol:g}; solve for each"
            )
        self.alphas = points
        lengths = [moments_needed(alpha, tol) + 1 for alpha in self.alphas]
        coefficients = np.zeros((len(lengths), max(lengths)), B.dtype)
        for row, alpha, length in zip(coefficients, self.alphas, lengths, strict=True):
            row[:length] = series(alpha, length)
        B = P.scaled(P.enter(B), 1.0)
        weighted = P.mass[:, None] * B
        w = B.shape[1]
        products = np.zeros((len(lengths) + 1, w, w))
        column_bytes = (len(lengths) + TERMS) * len(B) * B.itemsize
        columns = max(1, min(COLUMNS, BLOCK_BYTES // column_bytes))
        for begin in range(0, w, columns):
            part = slice(begin, min(w, begin + columns))
            block = np.ascontiguousarray(B[:, part])
            sums = _sums_of_series(P, block, coefficients)

            def products_of(rows: slice, begin: int = begin, F: Any = (block, *sums)) -> np.ndarray:
                left = weighted[rows, begin:].T
                return np.stack([left @ one[rows] for one in F]).astype(np.float64)

            products[:, begin:, part] = sum_over_rows(products_of, len(B))
            report("solving for all alphas", part.stop, w)
        lower = np.tril(products)
        products = lower + np.tril(products, -1).transpose(0, 2, 1)
        self._at_zero, self._products = products[0], products[1:]

    def product(self, alpha: float) -> np.ndarray:
        """B^T (I + alpha L)^-1 B."""
        if alpha == 0:
            return self._at_zero
        shares = _lagrange(np.log(self.alphas), np.log([alpha]))[0]
        return np.tensordot(shares, self._products, axes=1)


def sample_points(smallest: float, largest: float, tol: float) -> np.ndarray | None:
    """Chebyshev points in log alpha, as many as interpolate 1 / (1 + alpha lambda) to tol.

    None where ``MOST_POINTS`` do not, since the range is too wide or the tolerance at rounding.
    """
    low, high = np.log(smallest), np.log(largest)
    where = np.linspace(low, high, 201)
    eigenvalues = np.concatenate([[0.0], np.geomspace(1e-3 / largest, 2, 201)])
    expected = 1 / (1 + np.multiply.outer(np.exp(where), eigenvalues))
    for n_points in range(1, MOST_POINTS + 1):
        angles = np.pi * (np.arange(n_points)[::-1] + 0.5) / n_points
        points = (low + high) / 2 + (high - low) / 2 * np.cos(angles)
        values = 1 / (1 + np.multiply.outer(np.exp(points), eigenvalues))
        if np.abs(_lagrange(points, where) @ values - expected).max() <= tol:
            return np.exp(points)
    return None


def _lagrange(points: np.ndarray, where: np.ndarray) -> np.ndarray:
    """Share of the value at each point in the polynomial's value at each place, a row a place."""
    apart = where[:, None] - points
    shares = np.empty_like(apart)
    for j, point in enumerate(points):
        others = np.arange(len(points)) != j
        shares[:, j] = np.prod(apart[:, others] / (point - points[others]), axis=1)
    return shares


def _sums_of_series(P: Propagation, block: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
    """sum_t coefficients[i, t] T_t(P) block for every i."""
    n_sums, n_terms = coefficients.shape
    sums = np.zeros((n_sums, *block.shape), block.dtype)
    terms = np.empty((TERMS, *block.shape), block.dtype)
    for t in range(n_terms):
        new, last = terms[t % TERMS], terms[(t - 1) % TERMS]
        if t == 0:
            new[:] = block
        elif t == 1:
            new[:] = P.matmul(last)
        else:
            made = P.step(last, terms[(t - 2) % TERMS], new, 2.0, -1.0, 0.0)
            if made is not new:
                new[:] = made
        if t % TERMS == TERMS - 1 or t == n_terms - 1:
            first = t - t % TERMS
            factors = np.ascontiguousarray(coefficients[:, first : t + 1])
            # Points are in ascending order, and the series of small alphas are over first.
            going_on = int(np.argmax(factors[:, 0] != 0))
            _add_terms(terms[: t + 1 - first], factors[going_on:], sums[going_on:])
    return sums


def _add_terms(terms: np.ndarray, factors: np.ndarray, sums: np.ndarray) -> None:
    if sums.size * len(terms) >= FUSED_WORK:
        from . import kernels

        with kernels.parallel_launch():
            kernels.add_terms(terms, factors, sums)
    else:
        sums += np.tensordot(factors, terms, axes=1)
