"""Harmonic extension: missing values that are the weighted mean of their neighbours."""

from __future__ import annotations

import warnings
from functools import cached_property, partial

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components
from sklearn.exceptions import ConvergenceWarning

from .operators.propagation import Propagation
from .solvers.conjugate_gradient import conjugate_gradient
from .solvers.direct import factorize, has_little_fill_in
from .solvers.refinement import refine
from .solvers.system import LinearSystem

#: Largest number of patterns of missing values that are factorised separately. For more, one
#: conjugate gradient iteration for all columns is faster.
FEW_PATTERNS = 4

#: Smallest correlation along edges with which neighbours predict better than the mean does.
SMALLEST_CORRELATION = 0.01

#: Largest number of conjugate gradient steps.
MAX_STEPS = 10_000


class HarmonicSystem(LinearSystem):
    """(I - M P + R) F = B for blocks F and B that are zero outside the mask M of each column.

    R is diagonal: ``shrinkage`` of the column over the mass of the row.
    """

    scale = 1.0

    def __init__(self, P: Propagation, mask: np.ndarray, shrinkage: np.ndarray) -> None:
        # As numbers: numpy would convert a boolean mask in every product.
        self.P, self._mask, self._shrinkage = P, mask.astype(P.dtype), shrinkage

    def right_hand_side(self, X: np.ndarray) -> np.ndarray:
        """M P X."""
        product = self.P.matmul(X)
        product *= self._mask
        return product

    def apply(self, F: np.ndarray, out: np.ndarray) -> np.ndarray:
        return self._masked(self.P.step(F, F, out, -1.0, 1.0, 0.0), F, 1.0)

    def residual(self, F: np.ndarray, X: np.ndarray) -> np.ndarray:
        out = self.P.step(F, X, self.P.scaled(F, 0.0), 1.0, 1.0, 0.0, own=-1.0)
        return self._masked(out, F, -1.0)

    def _masked(self, block: np.ndarray, F: np.ndarray, sign: float) -> np.ndarray:
        """M times the block, plus or minus R F."""
        block *= self._mask
        if self._shrinkage.any():
            block += (sign / self.P.mass)[:, None] * (self._shrinkage * F)
        return block


class HarmonicExtension:
    """Fills missing values so that each is the weighted mean of its neighbours.

    For every column, the values f at the known nodes k are fixed, and those at the unknown nodes u
    solve ``L_uu f_u = -L_uk f_k`` with the combinatorial Laplacian L = D - A. The random walk P of
    GPCA has the same solution: its self-loops cancel in ``f = P f``. P is self-adjoint in the inner
    product with D + I, so conjugate gradients need one product P F per step for all columns,
    whatever entries are missing. With shrinkage s towards a centre c, ``(L_uu + s I) (f_u - c) =
    -L_uk (f_k - c)``.

    Parameters
    ----------
    indptr, indices, weights : ndarray
        Symmetric adjacency matrix in CSR form without self-loops; ``weights=None`` for an
        unweighted graph.
    tol : float
        Largest difference between a value and the weighted mean of its neighbours, relative to
        the largest difference between a known value of the column and their mean.

    Examples
    --------
    >>> import numpy as np
    >>> path = np.array([0, 1, 3, 4]), np.array([1, 0, 2, 1])  # 0 - 1 - 2
    >>> HarmonicExtension(*path).fill(np.array([[1.0], [np.nan], [4.0]]))
    array([[1. ],
           [2.5],
           [4. ]])
    """

    def __init__(
        self,
        indptr: np.ndarray,
        indices: np.ndarray,
        weights: np.ndarray | None = None,
        *,
        tol: float = 1e-8,
    ) -> None:
        self.n_nodes, self.tol, shape = len(indptr) - 1, tol, (len(indptr) - 1,) * 2
        values = np.ones(len(indices)) if weights is None else weights.astype(np.float64)
        self._adjacency = sp.csr_array((values, indices, indptr), shape=shape)
        self._weights, self._exponent = None, 0
        if weights is not None and len(weights):
            # The self-loops of P have weight 1, so no degree may be far below 1. A power of two
            # does not round.
            degrees = self._adjacency.sum(axis=1)
            self._exponent = 1 - int(np.frexp(degrees[degrees > 0].min())[1])
            self._weights = np.ldexp(values, self._exponent)
            self._adjacency = sp.csr_array((self._weights, indices, indptr), shape=shape)

    @cached_property
    def _propagation(self) -> Propagation:
        A = self._adjacency
        return Propagation(A.indptr, A.indices, self._weights, normalization="rw")

    @cached_property
    def _members(self) -> sp.csr_array:
        """Indicator of the connected components, one row for each."""
        n, labels = connected_components(self._adjacency, directed=False)
        nodes = np.arange(self.n_nodes)
        return sp.csr_array((np.ones(self.n_nodes), (labels, nodes)), shape=(n, self.n_nodes))

    def unreachable(self, missing: np.ndarray) -> np.ndarray:
        """The missing entries without a known value in their connected component."""
        has_value = self._members @ (~missing).astype(np.float32) > 0
        return missing & ~has_value[self._members.tocsc().indices]

    def shrinkage(self, X: np.ndarray) -> np.ndarray:
        """For each column the shrinkage that the known values suggest; inf for the mean alone.

        Let r be the correlation of known values along edges. If values have variance v and
        covariance r v along edges, and neighbours of a node have the same covariance, the best
        linear predictor of a value from m neighbours is its shrinkage by m / (m + (1 - r) / r).
        """
        known = ~np.isnan(X)
        values = _Standardized(X, ~known).values
        variance = (values**2).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
        neighbors = self._adjacency @ known.astype(np.float64)
        weight = (known * neighbors).sum(axis=0)
        products = (values * (self._adjacency @ values)).sum(axis=0)
        correlation = products / np.where(weight * variance > 0, weight * variance, 1)
        correlation[correlation < SMALLEST_CORRELATION] = 0
        mean_weight = self._adjacency.data.mean() if self._adjacency.nnz else 1.0
        with np.errstate(divide="ignore"):
            shrinkage = np.maximum(1 / correlation - 1, 0) * mean_weight
        return np.ldexp(shrinkage, -self._exponent)

    def fill(
        self,
        X: np.ndarray,
        shrinkage: np.ndarray | None = None,
        center: np.ndarray | None = None,
    ) -> np.ndarray:
        """A float64 copy of X with its NaN filled; NaN remain where nothing determines a value.

        Parameters
        ----------
        X : ndarray of shape (n_nodes, n_columns)
        shrinkage : ndarray of shape (n_columns,), optional
            Weight of the centre in each mean. A column with an infinite weight is not filled.
        center : ndarray of shape (n_columns,), optional
            Required with shrinkage.
        """
        missing = np.isnan(X)
        shrinkage = np.zeros(X.shape[1]) if shrinkage is None else shrinkage
        mask = missing & ~self.unreachable(missing) & np.isfinite(shrinkage)
        if not mask.any():
            return X.astype(np.float64)
        columns = np.flatnonzero(mask.any(axis=0))
        shrinkage, mask = shrinkage[columns], mask[:, columns]
        center = None if center is None else np.where(shrinkage > 0, center[columns], np.nan)
        known = _Standardized(X[:, columns], missing[:, columns], center)
        F = self._solve(known.values, mask, np.ldexp(shrinkage, self._exponent))
        filled = X.astype(np.float64)
        filled[:, columns] = np.where(mask, known.restore(F), filled[:, columns])
        return filled

    def _solve(self, X: np.ndarray, mask: np.ndarray, shrinkage: np.ndarray) -> np.ndarray:
        """Values at the mask; X is zero at all missing entries."""
        patterns, pattern_of = _column_patterns(mask, shrinkage)
        F, is_solved = np.zeros_like(X), np.zeros(X.shape[1], bool)
        for number, first in enumerate(patterns if len(patterns) <= FEW_PATTERNS else []):
            nodes = np.flatnonzero(mask[:, first])
            rows = self._adjacency[nodes]
            inner = rows[:, nodes]
            if has_little_fill_in(inner):
                columns = np.flatnonzero(pattern_of == number)
                factor = factorize(sp.diags_array(rows.sum(axis=1) + shrinkage[first]) - inner)
                F[np.ix_(nodes, columns)] = factor.solve(rows @ X[:, columns])
                is_solved[columns] = True
        if not is_solved.all():
            rest = ~is_solved
            F[:, rest] = self._iterate(X[:, rest], mask[:, rest], shrinkage[rest])
        return F

    def _iterate(self, X: np.ndarray, mask: np.ndarray, shrinkage: np.ndarray) -> np.ndarray:
        """Conjugate gradients for all columns, each with its own mask."""
        system = HarmonicSystem(self._propagation, mask, shrinkage)
        B = system.right_hand_side(np.ascontiguousarray(X))
        # Self-loops of weight 1 at degrees of at least 1 halve the residual at most.
        tol = self.tol / 2
        F, n_steps = refine(system, partial(conjugate_gradient, system), B, tol, MAX_STEPS)
        # Known values are at most 1, but B may be so small that rounding hides it.
        reached = 2 * float(system.P.norms(system.residual(F, B)).max())
        if not reached <= self.tol:
            warnings.warn(
                f"harmonic extension stopped after {n_steps} iterations with residual "
                f"{reached:.1e}, tol={self.tol:.1e}; values far from all known ones may be wrong",
                ConvergenceWarning,
                stacklevel=2,
            )
        return F


class _Standardized:
    """Known values, centred and scaled to at most 1 in every column; 0 where one is missing.

    The centre is the mean of the known values where it is not given.
    """

    def __init__(
        self, X: np.ndarray, missing: np.ndarray, center: np.ndarray | None = None
    ) -> None:
        X = np.where(missing, 0.0, X)
        center = np.full(X.shape[1], np.nan) if center is None else center
        largest = np.fmax(np.abs(X).max(axis=0), np.abs(center))
        self._exponents = np.frexp(largest)[1]  # so that no sum overflows
        X, center = np.ldexp(X, -self._exponents), np.ldexp(center, -self._exponents)
        mean = X.sum(axis=0) / np.maximum((~missing).sum(axis=0), 1)
        self._center = np.where(np.isnan(center), mean, center)
        low = np.where(missing, np.inf, X).min(axis=0)
        high = np.where(missing, -np.inf, X).max(axis=0)
        self._low, self._high = np.fmin(low, center), np.fmax(high, center)
        self._spread = np.maximum(high - self._center, self._center - low)
        self._spread[~(self._spread > 0)] = 1.0
        self.values = np.where(missing, 0, (X - self._center) / self._spread)

    def restore(self, F: np.ndarray) -> np.ndarray:
        # A weighted mean has its extremes at known values; beyond them is rounding.
        F = np.clip(F * self._spread + self._center, self._low, self._high)
        return np.ldexp(F, self._exponents)


def _column_patterns(mask: np.ndarray, shrinkage: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The first column of each pattern (mask and shrinkage), and the pattern of each column."""
    packed = np.packbits(mask, axis=0).T
    numbers: dict[tuple[bytes, float], int] = {}
    keys = zip((row.tobytes() for row in packed), shrinkage.tolist(), strict=True)
    pattern_of = np.array([numbers.setdefault(key, len(numbers)) for key in keys])
    return np.unique(pattern_of, return_index=True)[1], pattern_of
