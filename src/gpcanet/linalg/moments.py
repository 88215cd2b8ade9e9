"""X^T F and some rows of F = (I + alpha L)^-1 X for several alphas, without storing any F.

All F are series in the same terms T_t(P) X, so X^T F is a sum of the moments X^T T_t(P) X. Two
terms are in memory at a time, in half precision if X is in single precision and no alpha is large.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..utils.progress import report_progress
from .features import row_chunks
from .interpolation import series_coefficients
from .operators.half_precision import HalfPropagation
from .operators.propagation import Propagation
from .parallel import parallel_sum
from .solvers.base import HALF_ALPHA


def products_and_rows(
    P: Propagation,
    X: np.ndarray,
    shift: np.ndarray | None,
    alphas: list[float],
    tol: float,
    rows: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """B^T (I + alpha L)^-1 B, and rows of (I + alpha L)^-1 B, for B = X - shift and every alpha.

    Their shapes are (n_alphas, w, w) and (n_alphas, n_rows, w). P has no ghost factor and is
    symmetric. ``rows`` are in ascending order. ``tol`` is the largest error of the series as a
    function of the eigenvalues of L; in single precision, up to ``HALF_ALPHA``, rounding of the
    terms to float16 adds to it.

    Examples
    --------
    >>> import numpy as np
    >>> P = Propagation(np.array([0, 1, 2]), np.array([1, 0]))  # a single edge
    >>> X = np.array([[1.0], [3.0]])
    >>> products, F = products_and_rows(P, X, None, [0.0, 1.0], 1e-9, np.array([1]))
    >>> products.round(6).ravel(), F.round(6).ravel()  # 10 = 1 * 1 + 3 * 3, 9 = 1.5 * 1 + 2.5 * 3
    (array([10.,  9.]), array([3. , 2.5]))
    """
    coefficients = series_coefficients(alphas, tol, P.dtype)
    if P.dtype == np.float32 and max(alphas) <= HALF_ALPHA:
        # A term may exceed the range of float16 in theory, since P is bounded in the 2-norm only.
        found = _sum_of_terms(HalfPropagation(P), X, shift, coefficients, rows)
        if np.isfinite(found[0]).all():
            return found
    return _sum_of_terms(P.for_blocks_of(X.shape[1]), X, shift, coefficients, rows)


def _sum_of_terms(
    P: Propagation,
    X: np.ndarray,
    shift: np.ndarray | None,
    coefficients: np.ndarray,
    rows: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    n, w = X.shape
    n_alphas, n_terms = coefficients.shape
    products, found = np.zeros((n_alphas, w, w)), np.zeros((n_alphas, len(rows), w), X.dtype)
    source: Any = P.to_internal(X, shift)
    last: Any = P.scaled(source, 1.0)
    before = last
    for t in range(n_terms):
        if t == 1:
            last = P.matmul(last)
        elif t > 1:
            last, before = P.step(last, last, before, 2.0, 0.0, -1.0), last
        factors = coefficients[:, t]

        def add_chunk(chunk: slice, last: Any = last, factors: np.ndarray = factors) -> np.ndarray:
            term = P.rows(last, source, chunk.start, chunk.stop)
            part = slice(*np.searchsorted(rows, [chunk.start, chunk.stop]))
            if part.start < part.stop:
                of_rows = term[rows[part] - chunk.start]
                for i in np.flatnonzero(factors):
                    found[i, part] += factors[i] * of_rows
            left = X[chunk] if shift is None else X[chunk] - shift
            return left.T @ term

        with np.errstate(over="ignore", invalid="ignore"):
            moment = parallel_sum(add_chunk, row_chunks(n, w, X.dtype), np.zeros((w, w)))
            products += np.multiply.outer(factors, moment)
        report_progress("solving for all alphas", t + 1, n_terms)
    return products, found
