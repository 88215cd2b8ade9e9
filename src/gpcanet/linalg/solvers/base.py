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
from functools import cached_property, partial
from typing import Literal

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg
from sklearn.exceptions import ConvergenceWarning

from ...errors import InputError, InputTypeError
from ...utils.progress import report
from ..operators.half_precision import HalfPropagation
from ..operators.propagation import Array, BlockOperator, Propagation

#: From X and the most steps allowed to F and the steps taken.
Iterate = Callable[..., tuple[Array, int]]

Method = Literal["auto", "fixed-point", "chebyshev", "cg", "direct"]

#: Up to here a sparse LU factor costs less than the iterations it saves. Citation-like graphs
#: fill in slowly below a few thousand nodes; from 20,000 on the factorisation dominates.
DIRECT_NODES, DIRECT_ENTRIES = 6_000, 40_000

#: In half precision, steps beyond this tolerance change nothing but rounding.
HALF_TOL = 1e-4

#: Rounding to 11 bits at every step adds up to an error of F of at most this times 2 + alpha:
#: smooth errors decay by only c = alpha / (1 + alpha) a step.
HALF_ERROR = 5e-4

#: Largest alpha in half precision.
HALF_ALPHA = 50.0

#: Where full precision is made of half (``Solver._refined``): from these bytes of a block on, since
#: smaller ones win little and would wait for more code to be compiled at the first use; and from
#: these steps on, since every stage takes one in full.
REFINED_BYTES, REFINED_STEPS = 2**26, 12

#: Up to this alpha, for a solve in 16 bits leaves 4e-4 (1 + alpha) of a smooth X as its residual;
#: and for tolerances from this one on, the least that single precision promises.
REFINED_ALPHA, REFINED_TOL = 100.0, 1e-5

#: A stage is to leave no less than the first share of its residual: of a rough one, as residuals
#: are, 16 bits leave 1e-3. And no more than the second, so that a near miss is made up for.
STAGE_LEAST, STAGE_MOST = 2e-3, 0.25

SMALLEST_ALPHA = 1e-300

#: A solve that is repeated on the residual aims at this share of what is missing.
REPEATED_SHARE = 0.25

#: Steps a fixed point to tolerance takes between two looks at its residual.
STEPS_PER_CHECK = 10


class Solution:
    """What a solve returns: the block F, the steps it took, and how well it fits.

    ``residual`` is measured on F itself, not carried along by the iteration: the largest over
    the columns of ||X - (I + alpha L) F|| / ||X||, in a norm in which it bounds the error of F
    relative to X: the 2-norm for ``sym``, the maximum norm for ``rw``. NaN where it was not
    ``measured``.

    F stays in the operator's variable, and in half precision where that was asked for, until it
    is read: whole as ``F``, or some ``rows`` at a time.
    """

    def __init__(
        self, P: BlockOperator, entered: Array, F: Array, rest: Array, n_iter: int, residual: float
    ) -> None:
        self._P, self._entered, self._block, self._rest = P, entered, F, rest
        self.n_iter, self.residual, self.measured = n_iter, residual, rest is not None

    @cached_property
    def F(self) -> Array:
        """The whole block; ``rows`` are no more to be had once it is read."""
        block, self._block, self._rest = self._block, None, None
        return self._P.leave(block, self._entered)

    def rows(self, rows: slice) -> Array:
        """Some rows of F."""
        return self._P.rows(self._block, self._entered, rows.start, rows.stop)

    def rest_rows(self, rows: slice) -> Array:
        """The same rows of (X - (I + alpha L) F) / (1 + alpha)."""
        return self._P.rows(self._rest, self._entered, rows.start, rows.stop)

    def drop_rest(self) -> None:
        """Give back the memory of what ``rest_rows`` reads."""
        self._rest = None


class Solver:
    """Solves (I + alpha (I - P)) F = X for one P and alpha and any number of blocks X.

    Parameters
    ----------
    P : BlockOperator
    alpha : float
        At least 0.
    method : {"auto", "fixed-point", "chebyshev", "cg", "direct"}
        ``auto`` factorises small sparse graphs and iterates by Chebyshev elsewhere, which for
        large blocks in single precision takes most steps in half and refines what they give.
    tol : float
        Largest relative residual allowed (see ``Solution``). A solve that misses it warns.
    n_iter : int, optional
        For ``fixed-point`` only: this many steps from F = X, as in the paper, whatever the
        residual is then. It is not measured, which would take a step more.
    max_iter : int
        Steps after which an iteration to tolerance gives up, those in 16 bits included.
    half : bool
        Hold blocks in 16 bits while iterating (``fixed-point`` and ``chebyshev``), for alpha up
        to ``HALF_ALPHA``: twice as fast where memory is the limit, at a relative error of F of
        at most ``HALF_ERROR * (2 + alpha)``. The tolerance is then at least ``HALF_TOL``.

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
        # One so small that its inverse is not finite adds nothing to I.
        self.P, self.alpha = P, float(alpha) if alpha > SMALLEST_ALPHA else 0.0
        self.method = _choose(P) if method == "auto" else method
        self.tol, self.n_iter, self.max_iter = tol, n_iter, max_iter
        self.half = half
        if half:
            self._use_half()
        self._iterate = self._prepare()
        self._rough = self._prepare_refinement()

    def _use_half(self) -> None:
        P = self.P
        if not isinstance(P, Propagation) or not P.self_adjoint or self.method == "cg":
            raise InputError(
                f"half precision goes with the solvers 'chebyshev' and 'fixed-point' and a "
                f"self-adjoint operator, not with {self.method!r} here; use full precision"
            )
        if self.alpha > HALF_ALPHA:
            raise InputError(
                f"half precision goes with alpha up to {HALF_ALPHA:g}, not {self.alpha:g}, since "
                f"rounding errors grow with it; use full precision"
            )
        self.P = HalfPropagation(P)
        self.tol = max(self.tol, HALF_TOL)
        if self.method == "direct":
            self.method = "chebyshev"

    def _prepare(self) -> Iterate:
        if self.alpha == 0:
            return lambda X, most=0: (self.P.scaled(X, 1.0), 0)
        if self.method == "direct":
            return _direct(self.P, self.alpha)
        if self.method == "fixed-point":
            return self._fixed_point
        iterate = {"chebyshev": self._chebyshev, "cg": self._cg}[self.method]
        if not self.P.self_adjoint:
            return self._repeated(self._split(iterate))
        # Chebyshev's step count bounds the residual in the norm in which P is self-adjoint. In 16
        # bits the residual is mostly rounding and cannot be reduced.
        if self.half or (self.method == "chebyshev" and not self._in_maximum_norm):
            return lambda X, most=self.max_iter: iterate(self.P, X, most, self.tol)
        return self._repeated(partial(iterate, self.P))

    def _prepare_refinement(self) -> HalfPropagation | None:
        """P in half precision, if full precision may be made of it."""
        P = self.P
        if (
            not isinstance(P, Propagation)
            or P.dtype != np.float32
            or not P.self_adjoint
            or self.method != "chebyshev"
            or not 0 < self.alpha <= REFINED_ALPHA
            or self.tol < REFINED_TOL
        ):
            return None
        steps = self._chebyshev_steps(self.tol)
        # max_iter must leave room for a second try in full precision.
        return HalfPropagation(P) if REFINED_STEPS <= steps <= self.max_iter // 3 else None

    def _refines(self, entered: Array) -> bool:
        """Whether that pays for a block of this size."""
        if self._rough is None:
            return False
        n, d = entered.shape
        return self._rough.P.is_fused(d) and 4 * n * d >= REFINED_BYTES

    def solve(self, X: Array, shift: Array | None = None) -> Solution:
        """F of X - shift with its true residual; warns where the tolerance was not reached.

        After a given number of steps there is neither.
        """
        if self.method == "fixed-point" and self.n_iter is not None:
            return self.run(X, shift)
        entered = self.P.enter(X, shift)
        if self._refines(entered):
            F, n_iter, rest, residual = self._refined(entered)
        else:
            B = self.P.fetch(entered)
            F, n_iter = self._iterate(B)
            rest = self._rest(self.P, F, B)
            residual = self._size(self.P, rest, B)
            del B
        # Not <=, so that a NaN residual counts as missed.
        allowed = 4 * HALF_ERROR * (1 + self.alpha) if self.half else self.tol
        if not residual <= allowed:
            cure = "raise max_iter" if n_iter >= self.max_iter else "use float64 features"
            warnings.warn(
                f"solver {self.method!r} stopped after {n_iter} iterations (max_iter="
                f"{self.max_iter}) with relative residual {residual:.1e}, tol={self.tol:.1e}; "
                f"{cure} or loosen tol",
                ConvergenceWarning,
                stacklevel=2,
            )
        return Solution(self.P, entered, F, rest, n_iter, residual)

    def run(self, X: Array, shift: Array | None = None) -> Solution:
        """The same without the step that measures the residual, which is NaN."""
        entered = self.P.enter(X, shift)
        if self._refines(entered):
            F, n_iter, *_ = self._refined(entered)
        else:
            F, n_iter = self._iterate(self.P.fetch(entered))
        return Solution(self.P, entered, F, None, n_iter, math.nan)

    def apply(self, X: Array) -> Array:
        """F alone."""
        return self.run(X).F

    # -- residual -------------------------------------------------------------------------

    def _rest(self, P: BlockOperator, F: Array, X: Array) -> Array:
        # What one more step of the fixed point would add: the residual over 1 + alpha, which has
        # the size of F and so stays in the range of half precision, too.
        c = self.alpha / (1 + self.alpha)
        return P.step(F, X, P.scaled(F, 0.0), c, 1 - c, 0.0, stay=-1.0)

    def _size(self, P: BlockOperator, rest: Array, X: Array) -> float:
        size = P.norms(X)
        return (1 + self.alpha) * float((P.norms(rest) / (size + (size == 0))).max())

    @property
    def _in_maximum_norm(self) -> bool:
        P = self.P.P if isinstance(self.P, HalfPropagation) else self.P
        return isinstance(P, Propagation) and P.normalization == "rw"

    # -- iterations, in the operator's variable -------------------------------------------

    def _fixed_point(self, X: Array, most: int | None = None) -> tuple[Array, int]:
        P, c = self.P, self.alpha / (1 + self.alpha)
        steps, last = 0, self.n_iter
        if self.half and last is None:
            # A residual in 16 bits says little. Without it: after k steps from F = X it is at
            # most c^k of the first one, alpha L X, which is at most 2 alpha of X.
            first = max(2 * self.alpha, self.tol)
            last = min(math.ceil(math.log(self.tol / first) / math.log(c)), self.max_iter)
        F, spare = P.scaled(X, 1.0), P.scaled(X, 0.0)
        while True:
            goal = min(steps + STEPS_PER_CHECK, self.max_iter) if last is None else last
            while steps < goal:
                F, spare = P.step(F, X, spare, c, 1 - c, 0.0), F
                steps += 1
                report("solving", steps, last)
            if last is not None or steps >= self.max_iter:
                return F, steps
            if self._size(P, self._rest(P, F, X), X) <= self.tol:
                return F, steps

    def _chebyshev_steps(self, tol: float) -> int:
        # After k steps from F = 0 the residual is at most 1 / T_k(1/c) of X.
        c = self.alpha / (1 + self.alpha)
        return math.ceil(math.acosh(1 / tol) / math.acosh(1 / c))

    def _chebyshev(
        self, P: BlockOperator, X: Array, max_iter: int, tol: float, done: int = 0
    ) -> tuple[Array, int]:
        """To ``tol`` in the norm in which P is self-adjoint, after ``done`` steps elsewhere."""
        c = self.alpha / (1 + self.alpha)
        whole = self._chebyshev_steps(self.tol)
        steps = max(1, min(self._chebyshev_steps(tol), max_iter))
        before, F = P.scaled(X, 0.0), P.scaled(X, 1 - c)
        omega = 2.0
        for step in range(1, steps):
            omega = 1 / (1 - c * c * omega / 4)
            F, before = P.step(F, X, before, omega * c, omega * (1 - c), 1 - omega), F
            report("solving", done + step + 1, max(done + steps, min(whole, max_iter)))
        return F, steps

    def _refined(self, X: Array) -> tuple[Array, int, Array, float]:
        """Chebyshev in half precision, again and again on the residual in full.

        A step in 16 bits takes half the time, and solves to tolerances whose product is tol take
        about as many steps as one to tol; what needs 32 bits is F and one step a solve, for the
        residual. Returned are also that of F, as what one step more would add, and its size.
        """
        assert self._rough is not None
        P, rough = self.P, self._rough
        F, steps, in_full = P.scaled(X, 0.0), 0, self._chebyshev_steps(self.tol)
        # The residual is factor * rest; a block of it in 16 bits has columns of a scale of its own.
        rest, factor, reached = X, 1.0, 1.0
        while True:
            # What is missing, in equal stages, with some room for the rounding to 16 bits.
            missing = 0.9 * self.tol / reached
            n_stages = math.ceil(math.log(missing) / math.log(STAGE_LEAST))
            tol = min(missing ** (1 / n_stages), STAGE_MOST)
            block, scale = rough.narrowed(rest)
            del rest
            block, more = self._chebyshev(rough, block, self.max_iter - steps, tol, steps)
            rough.add_to_(F, block, factor / scale)
            del block
            steps += more
            rest, factor = self._rest(P, F, X), 1 + self.alpha
            before, reached = reached, self._size(P, rest, X)
            if reached <= self.tol:
                return F, steps, rest, reached
            if not reached < before / 2 or steps + 2 * in_full > self.max_iter:
                break
        # 16 bits do not get there, which has not been seen of ordinary columns.
        del F, rest
        F, more = self._iterate(X, self.max_iter - steps)
        rest = self._rest(P, F, X)
        return F, steps + more, rest, self._size(P, rest, X)

    def _cg(self, P: BlockOperator, X: Array, max_iter: int, tol: float) -> tuple[Array, int]:
        size = P.norms(X)
        size = size + (size == 0)
        F, R = P.scaled(X, 0.0), P.scaled(X, 1.0)
        D, product = R * 1.0, R * 0
        steps, rr = 0, P.dots(R, R)
        while float((P.norms(R, rr) / size).max()) > tol and steps < max_iter:
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
        return F, steps

    def _repeated(self, solve: Callable[[Array, int, float], tuple[Array, int]]) -> Iterate:
        """Repeat a solve on the true residual until that is within tol, or is not halved any more.

        The residual may be larger than the solve reports: by rounding (CG's recurrence), by what
        putting the ghost factor back adds, or because it is measured in the maximum norm.
        """

        def run(X: Array, most: int = self.max_iter) -> tuple[Array, int]:
            F, steps = solve(X, most, self.tol)
            reached = math.inf
            while True:
                R = self._rest(self.P, F, X)
                before, reached = reached, self._size(self.P, R, X)
                if reached <= self.tol or steps >= most or not reached < before / 2:
                    return F, steps
                R *= 1 + self.alpha
                correction, more = solve(R, most - steps, REPEATED_SHARE * self.tol / reached)
                F += correction
                steps += more

        return run

    def _split(
        self, iterate: Callable[[BlockOperator, Array, int, float], tuple[Array, int]]
    ) -> Callable[[Array, int, float], tuple[Array, int]]:
        """For a P that is not self-adjoint: iterate without the ghost factor and put it back.

        Putting it back multiplies errors by up to alpha (1 + alpha). Corrections must reduce the
        residual nonetheless, so the iteration is at least that much more accurate.
        """
        assert isinstance(self.P, Propagation)
        base = self.P.without_ghost_factor()
        accurate = max(
            0.25 / (1 + self.alpha * (1 + self.alpha)), 8 * float(np.finfo(self.P.dtype).eps)
        )
        goal = min(self.tol, accurate)
        woodbury = _woodbury(self.P, self.alpha, lambda B: iterate(base, B, self.max_iter, goal)[0])

        def solve(X: Array, most: int, tol: float) -> tuple[Array, int]:
            F, steps = iterate(base, X, most, goal)
            return woodbury(F), steps

        return solve


def _choose(P: BlockOperator) -> Method:
    return "direct" if isinstance(P, Propagation) and is_small(P) else "chebyshev"


def is_small(P: Propagation) -> bool:
    """Whether a factorisation is quicker than iterations."""
    return P.n_nodes <= DIRECT_NODES and len(P.indices) <= DIRECT_ENTRIES


def _direct(P: BlockOperator, alpha: float) -> Iterate:
    if not isinstance(P, Propagation):
        raise InputTypeError(f"solver 'direct' needs a Propagation, got {type(P).__name__}")
    system = (1 + alpha) * sp.eye_array(P.n_nodes) - alpha * P.sparse_part.astype(np.float64)
    factor = symmetric_factor(system)

    def solve_sparse(B: np.ndarray) -> np.ndarray:
        return factor.solve(B.astype(np.float64, copy=False))

    complete = _woodbury(P, alpha, solve_sparse)

    def run(X: Array, most: int = 1) -> tuple[Array, int]:
        F = complete(solve_sparse(X if isinstance(X, np.ndarray) else P.scaled(X, 1.0)))
        return np.ascontiguousarray(F, dtype=P.dtype), 1

    return run


def symmetric_factor(system: sp.sparray) -> scipy.sparse.linalg.SuperLU:
    """LU of a matrix of symmetric pattern with dominant diagonal: no pivoting, least fill."""
    return scipy.sparse.linalg.splu(
        system.tocsc(),
        permc_spec="MMD_AT_PLUS_A",
        diag_pivot_thresh=0.0,
        options={"SymmetricMode": True},
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
