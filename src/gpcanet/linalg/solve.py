"""F = (I + alpha L)^-1 X for all columns of X at once, from P @ F alone.

With L = I - P and c = alpha / (1 + alpha) the system is F = c P F + (1 - c) X. P has its
spectrum in [-1, 1], so I + alpha L has its own in [1, 1 + 2 alpha]: the fixed point converges
for every alpha, and the Chebyshev iteration knows beforehand how many steps it needs.

The bodies below use only operators and methods that numpy arrays and torch tensors share.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg
from sklearn.exceptions import ConvergenceWarning

from .half import HalfPropagation
from .progress import report
from .propagation import Array, BlockOperator, Propagation

Method = Literal["auto", "fixed-point", "chebyshev", "cg", "direct"]

#: Up to here a sparse LU factor costs less than the iterations it saves. Citation-like graphs
#: fill in slowly below a few thousand nodes; from 20,000 on the factorisation dominates.
DIRECT_NODES, DIRECT_ENTRIES = 6_000, 40_000

#: In half precision, steps beyond this tolerance change nothing but rounding, and a residual over
#: the second figure means that something is wrong with the numbers.
HALF_TOL, HALF_RESIDUAL = 1e-4, 2e-2

#: Steps a fixed point to tolerance takes between two looks at its residual.
STEPS_PER_CHECK = 10


@dataclass(frozen=True)
class Solution:
    """What a solve returns: the block, the steps it took, and how well it fits.

    ``residual`` is measured on F itself, not carried along by the iteration: the largest over
    the columns of ||X - (I + alpha L) F|| / ||X||, in the norm in which P is self-adjoint.
    """

    F: Array
    n_iter: int
    residual: float


class Solver:
    """Solves (I + alpha (I - P)) F = X for one P and alpha and any number of blocks X.

    Parameters
    ----------
    P : BlockOperator
    alpha : float
        At least 0.
    method : {"auto", "fixed-point", "chebyshev", "cg", "direct"}
        ``auto`` factorises small sparse graphs and iterates by Chebyshev elsewhere.
    tol : float
        Largest relative residual allowed. A solve that misses it warns.
    n_iter : int, optional
        For ``fixed-point`` only: this many steps from F = X, as in the paper, whatever the
        residual is then.
    max_iter : int
        Steps after which an iteration to tolerance gives up.
    half : bool
        Hold blocks in 16 bits while iterating (``fixed-point`` and ``chebyshev``): twice as fast
        where memory is the limit, at a relative error of F of 3e-4 up to alpha = 10 and a few
        1e-3 at alpha = 50. The tolerance is then at least ``HALF_TOL``.

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
        P: BlockOperator,
        alpha: float,
        *,
        method: Method = "auto",
        tol: float = 1e-6,
        n_iter: int | None = None,
        max_iter: int = 1000,
        half: bool = False,
    ) -> None:
        self.P, self.alpha = P, float(alpha)
        self.method = _choose(P) if method == "auto" else method
        if half and self.method == "direct":
            self.method = "chebyshev"
        self.tol, self.n_iter, self.max_iter = tol, n_iter, max_iter
        self.half = half
        if half:
            self.tol = max(tol, HALF_TOL)
        self._iterate = self._prepare()

    def _prepare(self) -> Callable[[Array], tuple[Array, int]]:
        if self.alpha == 0:
            return lambda X: (X * 1.0, 0)
        if self.method == "direct":
            return _direct(self.P, self.alpha)
        if self.half:
            return self._in_half()
        if self.method == "fixed-point":
            return lambda X: self._fixed_point(self.P, X)
        iterate = {"chebyshev": self._chebyshev, "cg": self._cg}[self.method]
        if self.P.self_adjoint:
            return lambda X: iterate(self.P, X, self.max_iter)
        return self._split(iterate)

    def solve(self, X: Array) -> Solution:
        """F with its true residual; warns where the tolerance was not reached."""
        B = self.P.enter(X)
        F, n_iter = self._iterate(B)
        residual = self._last_residual(F, B, is_ours=B is not X)
        del B  # the way back needs its memory
        exact = self.method != "fixed-point" or self.n_iter is None
        # Not <=, so that a NaN residual counts as missed.
        if exact and not residual <= (HALF_RESIDUAL if self.half else self.tol):
            cure = "raise max_iter" if n_iter >= self.max_iter else "use float64 features"
            warnings.warn(
                f"solver {self.method!r} stopped after {n_iter} iterations (max_iter="
                f"{self.max_iter}) with relative residual {residual:.1e}, tol={self.tol:.1e}; "
                f"{cure} or loosen tol",
                ConvergenceWarning,
                stacklevel=2,
            )
        return Solution(self.P.leave(F), n_iter, residual)

    def apply(self, X: Array) -> Array:
        """F alone, without the step that measures the residual."""
        return self.P.leave(self._iterate(self.P.enter(X))[0])

    def system(self, F: Array) -> Array:
        """(I + alpha L) F, in the operator's own variable."""
        return self.P.step(F, F, F * 0, -self.alpha, 1 + self.alpha, 0.0)

    # -- residual -------------------------------------------------------------------------

    def _residual(self, P: BlockOperator, F: Array, B: Array) -> Array:
        return P.step(F, F, B * 1.0, self.alpha, -(1 + self.alpha), 1.0)

    def _residual_norm(self, P: BlockOperator, R: Array, B: Array) -> float:
        size = P.dots(B, B)
        return float((P.dots(R, R) / (size + (size == 0))).max()) ** 0.5

    def _last_residual(self, F: Array, B: Array, *, is_ours: bool) -> float:
        """The residual of a result, made in the place of B, which nobody needs any more."""
        size = self.P.dots(B, B)
        place = B if is_ours else B * 1.0
        R = self.P.step(F, F, place, self.alpha, -(1 + self.alpha), 1.0)
        return float((self.P.dots(R, R) / (size + (size == 0))).max()) ** 0.5

    # -- iterations, in the operator's variable -------------------------------------------

    def _fixed_point(self, P: BlockOperator, X: Array) -> tuple[Array, int]:
        if self.n_iter is not None:
            return self._fixed_steps(P, X, self.n_iter), self.n_iter
        c = self.alpha / (1 + self.alpha)
        F, spare = P.scaled(X, 1.0), P.scaled(X, 0.0)
        steps = 0
        while True:
            last = min(steps + STEPS_PER_CHECK, self.max_iter)
            while steps < last:
                F, spare = P.step(F, X, spare, c, 1 - c, 0.0), F
                steps += 1
                report("solving", steps)
            reached = self._residual_norm(P, self._residual(P, F, X), X) <= self.tol
            if reached or steps >= self.max_iter:
                return F, steps

    def _fixed_steps(self, P: BlockOperator, X: Array, n_steps: int) -> Array:
        c = self.alpha / (1 + self.alpha)
        F, spare = P.scaled(X, 1.0), P.scaled(X, 0.0)
        for step in range(n_steps):
            F, spare = P.step(F, X, spare, c, 1 - c, 0.0), F
            report("solving", step + 1, n_steps)
        return F

    def _chebyshev(self, P: BlockOperator, X: Array, max_iter: int) -> tuple[Array, int]:
        c = self.alpha / (1 + self.alpha)
        # After k steps from F = 0 the residual is at most 1 / T_k(1/c) of X.
        needed = math.ceil(math.acosh(1 / self.tol) / math.acosh(1 / c))
        steps = max(1, min(needed, max_iter))
        before, F = P.scaled(X, 0.0), P.scaled(X, 1 - c)
        omega = 2.0
        for step in range(1, steps):
            omega = 1 / (1 - c * c * omega / 4)
            F, before = P.step(F, X, before, omega * c, omega * (1 - c), 1 - omega), F
            report("solving", step + 1, steps)
        return F, steps

    def _cg(self, P: BlockOperator, X: Array, max_iter: int) -> tuple[Array, int]:
        size = P.dots(X, X)
        size = size + (size == 0)
        F, R = X * 0, X * 1.0
        steps, reached = 0, math.inf
        while True:
            D, product = R * 1.0, R * 0
            rr = P.dots(R, R)
            while float((rr / size).max()) > self.tol**2 and steps < max_iter:
                product = P.step(D, D, product, -self.alpha, 1 + self.alpha, 0.0)
                curvature = P.dots(D, product)
                # A column that is solved exactly has rr = curvature = 0 and stays as it is.
                length = rr / (curvature + (curvature == 0))
                P.combine_(F, 1.0, D, length)
                P.combine_(R, 1.0, product, -length)
                rr, old = P.dots(R, R), rr
                P.combine_(D, rr / (old + (old == 0)), R, 1.0)
                steps += 1
                report("solving", steps)
            # The recurrence for R drifts by rounding: go on from the true residual for as long
            # as that still halves it.
            R = self._residual(P, F, X)
            before, reached = reached, self._residual_norm(P, R, X)
            if reached <= self.tol or steps >= max_iter or not reached < before / 2:
                return F, steps

    def _in_half(self) -> Callable[[Array], tuple[Array, int]]:
        if not isinstance(self.P, Propagation) or not self.P.self_adjoint or self.method == "cg":
            raise ValueError(
                f"half precision goes with the solvers 'chebyshev' and 'fixed-point' and a "
                f"self-adjoint operator, not with {self.method!r} here; use full precision"
            )
        P16 = HalfPropagation(self.P)

        def run(X: Array) -> tuple[Array, int]:
            small, scale = P16.shrink(X)
            if self.method == "fixed-point":
                # A residual in 16 bits says little. Without it: after k steps from F = X it is at
                # most c^k of the first one, alpha L X, which is at most 2 alpha of X.
                c = self.alpha / (1 + self.alpha)
                needed = math.ceil(math.log(self.tol / max(2 * self.alpha, self.tol)) / math.log(c))
                steps = min(needed, self.max_iter) if self.n_iter is None else self.n_iter
                F = self._fixed_steps(P16, small, steps)
            else:
                F, steps = self._chebyshev(P16, small, self.max_iter)
            del small  # the block in full precision needs its memory
            return P16.grow(F, scale), steps

        return run

    def _split(
        self, iterate: Callable[[BlockOperator, Array, int], tuple[Array, int]]
    ) -> Callable[[Array], tuple[Array, int]]:
        """For a P that is not self-adjoint: iterate without the ghost factor and put it back.

        Putting it back multiplies errors by up to alpha beta (1 + alpha beta), so the result is
        refined on the residual of the whole system until that is small enough.
        """
        assert isinstance(self.P, Propagation)
        base = self.P.without_ghost_factor()
        complete = _woodbury(self.P, self.alpha, lambda B: iterate(base, B, self.max_iter)[0])

        def run(X: Array) -> tuple[Array, int]:
            F, steps = X * 0, 0
            R, reached = X, math.inf
            while True:
                correction, more = iterate(base, R, self.max_iter - steps)
                F += complete(correction)
                steps += more
                R = self._residual(self.P, F, X)
                before, reached = reached, self._residual_norm(self.P, R, X)
                if reached <= self.tol or steps >= self.max_iter or not reached < before / 2:
                    return F, steps

        return run


def _choose(P: BlockOperator) -> Method:
    if not isinstance(P, Propagation):
        return "chebyshev"
    small = P.n_nodes <= DIRECT_NODES and len(P.indices) <= DIRECT_ENTRIES
    return "direct" if small else "chebyshev"


def _direct(P: BlockOperator, alpha: float) -> Callable[[Array], tuple[Array, int]]:
    if not isinstance(P, Propagation):
        raise TypeError(f"solver 'direct' needs a Propagation, got {type(P).__name__}")
    system = (1 + alpha) * sp.eye_array(P.n_nodes) - alpha * P.sparse_part.astype(np.float64)
    # Rows are diagonally dominant and the pattern symmetric: no pivoting, least fill.
    factor = scipy.sparse.linalg.splu(
        system.tocsc(),
        permc_spec="MMD_AT_PLUS_A",
        diag_pivot_thresh=0.0,
        options={"SymmetricMode": True},
    )

    def solve_sparse(B: np.ndarray) -> np.ndarray:
        return factor.solve(B.astype(np.float64, copy=False))

    complete = _woodbury(P, alpha, solve_sparse)
    return lambda X: (
        np.ascontiguousarray(complete(solve_sparse(X)), dtype=P.dtype),
        1,
    )


def _woodbury(
    P: Propagation, alpha: float, solve_base: Callable[[Array], Array]
) -> Callable[[Array], Array]:
    """Turns S^-1 X into (S - alpha U V^T)^-1 X, S being the system without ghost factor."""
    factors = P.ghost_factors
    if factors is None:
        return lambda F: F
    U, V = factors
    SU = solve_base(U)
    capacitance = np.eye(U.shape[1]) / alpha - V.T @ SU
    correction = SU @ np.linalg.inv(capacitance)
    return lambda F: F + (correction @ (V.T @ F)).astype(F.dtype, copy=False)
