"""Solver: F = (I + alpha L)^-1 X for all columns of X, by one of several methods."""

from __future__ import annotations

import math
import warnings
from functools import cached_property, partial
from typing import Any, Literal

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ..operators.blocks import Block
from ..operators.half_precision import HalfPropagation
from ..operators.propagation import Propagation
from .chebyshev import chebyshev
from .conjugate_gradient import conjugate_gradient
from .direct import SMALL_NODES, Factorization, factorizes_well
from .fixed_point import fixed_point, fixed_point_steps
from .refinement import MixedPrecision, MixedSolution, Solve, is_large_block, refine
from .system import System
from .woodbury import woodbury

Method = Literal["auto", "fixed-point", "chebyshev", "cg", "direct"]

#: Smallest tolerance in half precision. More steps would change nothing but rounding.
HALF_TOL = 1e-4

#: The relative error of F in half precision is at most this times 2 + alpha. Rounding X and every
#: step by up to 2^-11 adds up to 2^-11 (2 + alpha), since an error decays by alpha / (1 + alpha)
#: per step; the tolerance adds ``HALF_TOL``.
HALF_ERROR = 6e-4

#: Largest alpha in half precision.
HALF_ALPHA = 50.0

#: Smallest alpha that is not treated as 0; the inverse of a smaller one is not finite.
SMALLEST_ALPHA = 1e-300


class Solution:
    """The result of a solve.

    F is kept in the internal variable of the operator until it is read, whole or by rows.

    Attributes
    ----------
    n_iter : int
        Number of steps.
    residual : float
        Largest ||X - (I + alpha L) F|| / ||X|| over the columns, computed from F. It bounds the
        relative error of F, in the 2-norm for ``sym`` and in the maximum norm for ``rw``. NaN if
        not ``has_residual``.
    has_residual : bool
        Whether the residual was computed.
    """

    def __init__(
        self, P: Propagation, source: Block, F: np.ndarray, residual_block: np.ndarray | None,
        n_iter: int, residual: float,
    ) -> None:  # fmt: skip
        self._P, self._source = P, source
        self._block: Any = F
        self._residual_block: Any = residual_block
        self.n_iter, self.residual = n_iter, residual
        self.has_residual = residual_block is not None

    @cached_property
    def F(self) -> np.ndarray:
        """All rows of F; afterwards ``rows`` can no longer be called."""
        block, self._block, self._residual_block = self._block, None, None
        return self._P.from_internal(block, self._source)

    def rows(self, rows: slice) -> np.ndarray:
        """Some rows of F."""
        return self._P.rows(self._block, self._source, rows.start, rows.stop)

    def residual_rows(self, rows: slice) -> np.ndarray:
        """The same rows of (X - (I + alpha L) F) / (1 + alpha)."""
        return self._P.rows(self._residual_block, self._source, rows.start, rows.stop)

    def drop_residual(self) -> None:
        """Free the memory that ``residual_rows`` reads."""
        self._residual_block = None


class Solver:
    """Solves (I + alpha (I - P)) F = X for one P and alpha, and any number of blocks X.

    Parameters
    ----------
    P : Propagation
    alpha : float
        At least 0.
    method : {"auto", "fixed-point", "chebyshev", "cg", "direct"}
        ``auto`` factorises small graphs with little fill-in and uses Chebyshev iteration for all
        others. Large float32 blocks are solved in mixed precision, by iterative refinement.
    tol : float
        Largest relative residual; a solve that does not reach it issues a ConvergenceWarning.
    n_iter : int, optional
        Number of steps of ``fixed-point``, starting from F = X as in the paper. The residual is
        not computed.
    max_iter : int
        Largest number of steps to the tolerance, including those in half precision.
    half : bool
        Whether ``fixed-point`` and ``chebyshev`` store blocks in float16. Requires a
        self-adjoint P in float32 and an alpha of at most ``HALF_ALPHA``. The relative error of F
        is at most ``HALF_ERROR * (2 + alpha)``.

    Attributes
    ----------
    method : str
        The method that is used.

    Examples
    --------
    >>> import numpy as np
    >>> from gpcanet.linalg import Propagation
    >>> P = Propagation(np.array([0, 1, 2]), np.array([1, 0]))
    >>> Solver(P, alpha=1.0).solve(np.array([[1.0], [3.0]])).F
    array([[1.5],
           [2.5]])
    """

    def __init__(
        self,
        P: Propagation,
        alpha: float,
        *,
        method: Method = "auto",
        tol: float = 1e-6,
        n_iter: int | None = None,
        max_iter: int = 1000,
        half: bool = False,
    ) -> None:
        self.alpha = float(alpha) if alpha > SMALLEST_ALPHA else 0.0
        self.method = choose_method(P) if method == "auto" else method
        self.tol, self.n_iter, self.max_iter, self.half = tol, n_iter, max_iter, half
        if half:
            assert P.self_adjoint
            assert self.method != "cg"
            assert self.alpha <= HALF_ALPHA
            P, self.tol = HalfPropagation(P), max(tol, HALF_TOL)
            if self.method == "direct":
                self.method = "chebyshev"
        self._system = system = System(P, self.alpha)
        self._solve = self._make_solve()
        self._mixed: MixedPrecision | None = None
        may_be_mixed = self.method == "chebyshev" and not half
        if may_be_mixed and MixedPrecision.is_suitable(system, tol, max_iter):
            self._mixed = MixedPrecision(system)

    def _make_solve(self) -> Solve:
        """The function from X, tol and max_iter to F and the number of steps."""
        system = self._system
        if self.alpha == 0:
            return lambda X, tol, max_iter: (system.P.scaled(X, 1.0), 0)
        if self.method == "direct":
            factorization = Factorization(system)
            return lambda X, tol, max_iter: (factorization.solve(X), 1)
        if self.method == "fixed-point":
            n_iter = self.n_iter
            if n_iter is None and self.half:  # rounding dominates the residual in half precision
                n_iter = min(fixed_point_steps(self.alpha, self.tol), self.max_iter)
            if n_iter is None:
                return partial(fixed_point, system)
            return lambda X, tol, max_iter: fixed_point(system, X, None, n_iter)
        iterate = chebyshev if self.method == "chebyshev" else conjugate_gradient
        if not system.P.self_adjoint:
            return partial(refine, system, self._without_ghost_factor(iterate))
        solve = partial(iterate, system)
        # The number of Chebyshev steps bounds the residual in the norm in which P is self-adjoint.
        # In half precision the residual is mostly rounding and cannot be reduced.
        if self.half or (self.method == "chebyshev" and system.P.normalization == "sym"):
            return solve
        return partial(refine, system, solve)

    def _without_ghost_factor(self, iterate: Any) -> Solve:
        """Solve without the ghost factor, which makes P self-adjoint, and add it by Woodbury.

        The iteration is more accurate by the factors that the Woodbury formula and the change to
        the maximum norm may lose, so that each correction reduces the residual.
        """
        P = self._system.P
        base = System(P.without_ghost_factor(), self.alpha)
        loss = 1 + self.alpha * (1 + self.alpha)
        loss *= math.sqrt(P.mass.max() / P.mass.min())
        accuracy = min(self.tol, max(0.25 / loss, 8 * float(np.finfo(P.dtype).eps)))
        add_ghost_edges = woodbury(
            P, self.alpha, lambda U: iterate(base, U, accuracy, self.max_iter)[0]
        )

        def solve(X: Block, tol: float, max_iter: int) -> tuple[np.ndarray, int]:
            F, n_steps = iterate(base, X, accuracy, max_iter)
            return add_ghost_edges(F), n_steps

        return solve

    def solve(
        self, X: np.ndarray, shift: np.ndarray | None = None, *, with_residual: bool = True
    ) -> Solution:
        """Solve for X - shift and compute the residual, except after ``n_iter`` steps."""
        if self.method == "fixed-point" and self.n_iter is not None:
            with_residual = False
        system, P = self._system, self._system.P
        source = P.to_internal(X, shift)
        residual_block, residual = None, math.nan
        mixed: MixedSolution | int = 0  # the number of steps that were taken without success
        if self._mixed is not None and is_large_block(P, X.shape[1]):
            mixed = self._mixed.solve(source, self.tol, self.max_iter)
        if isinstance(mixed, MixedSolution):
            F, residual_block, residual, n_iter = mixed
        else:
            B = P.materialize(source)
            F, n_iter = self._solve(B, self.tol, self.max_iter - mixed)
            n_iter += mixed
            if with_residual:
                residual_block = system.residual(F, B)
                residual = system.relative_norm(residual_block, B)
            del B
        if not with_residual:
            return Solution(P, source, F, None, n_iter, math.nan)
        self._warn_if_not_converged(n_iter, residual)
        return Solution(P, source, F, residual_block, n_iter, residual)

    def apply(self, X: np.ndarray) -> np.ndarray:
        """F alone."""
        return self.solve(X, with_residual=False).F

    def _warn_if_not_converged(self, n_iter: int, residual: float) -> None:
        allowed = 4 * HALF_ERROR * (1 + self.alpha) if self.half else self.tol
        if residual <= allowed:  # false for NaN
            return
        advice = "use float64 features"
        if n_iter >= self.max_iter:
            is_small = self._system.P.n_nodes <= SMALL_NODES
            may_factorize = is_small and not self.half and self.method != "direct"
            advice = "raise max_iter" + (", use solver='direct'" if may_factorize else "")
            if self.method == "chebyshev" and not self.half:  # cg needs fewer for a large alpha
                advice += ", use solver='cg'"
        warnings.warn(
            f"solver {self.method!r} stopped after {n_iter} iterations (max_iter={self.max_iter}) "
            f"with relative residual {residual:.1e}, tol={self.tol:.1e}; {advice} or loosen tol",
            ConvergenceWarning,
            stacklevel=3,
        )


def choose_method(P: Propagation) -> Method:
    """The method of ``auto``: direct for small graphs with little fill-in, else Chebyshev."""
    return "direct" if factorizes_well(P) else "chebyshev"
