"""Iterative refinement: solve again for the true residual until that is within the tolerance."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ..operators.blocks import Block
from ..operators.half_precision import HalfPropagation
from ..operators.propagation import Propagation
from .chebyshev import chebyshev, chebyshev_steps
from .system import LinearSystem, System

#: From X, tol and max_iter to F and the number of steps.
Solve = Callable[[Block, float, int], tuple[np.ndarray, int]]

#: A correction aims at this fraction of the tolerance relative to the residual.
CORRECTION_SHARE = 0.25

#: Size of a block, in bytes of float32, from which mixed precision saves more time than its
#: kernels take to compile when they are first used.
MIXED_BYTES = 2**26

#: Number of steps from which mixed precision pays off: every stage has one in full precision.
MIXED_STEPS = 12

#: Largest alpha. A float16 solve leaves a relative residual of about 4e-4 (1 + alpha).
MIXED_ALPHA = 100.0

#: Smallest tolerance, which is the smallest that float32 reaches.
MIXED_TOL = 1e-5

#: Smallest reduction of the residual by a float16 solve; rounding leaves 1e-3 of a rough block.
SMALLEST_REDUCTION = 2e-3

#: Largest reduction of a stage, so that a near miss is corrected with some margin.
LARGEST_REDUCTION = 0.25

#: Fraction of the tolerance that stages aim at, as a margin for rounding to float16.
MARGIN = 0.9


def is_large_block(P: Propagation, n_columns: int) -> bool:
    """Whether steps in float16 would save more time than their kernels take to compile."""
    return P.is_fused(n_columns) and 4 * P.n_nodes * n_columns >= MIXED_BYTES


def refine(
    system: LinearSystem, solve: Solve, X: Block, tol: float, max_iter: int
) -> tuple[np.ndarray, int]:
    """Repeat a solve on the true residual until it is within tol or no longer halved.

    The true residual may exceed that of the solve: by rounding in the recurrence of the conjugate
    gradient method, by the Woodbury formula, or because it is measured in the maximum norm.
    """
    F, n_steps = solve(X, tol, max_iter)
    reached = math.inf
    while True:
        R = system.residual(F, X)
        previous, reached = reached, system.relative_norm(R, X)
        if reached <= tol or n_steps >= max_iter or not reached < previous / 2:
            return F, n_steps
        R *= system.scale
        correction, more = solve(R, CORRECTION_SHARE * tol / reached, max_iter - n_steps)
        F += correction
        n_steps += more


class MixedSolution(NamedTuple):
    """F in float32, its residual block, the relative norm of that, and the number of steps."""

    F: np.ndarray
    residual: np.ndarray
    relative_norm: float
    n_steps: int


class MixedPrecision:
    """Chebyshev iteration in float16, refined on the residual in float32.

    A step in float16 takes half the time. Solves to several tolerances need about as many steps
    together as one solve to their product. Only the residual after each stage takes a step in
    float32.
    """

    def __init__(self, system: System) -> None:
        self._system, self._half = system, HalfPropagation(system.P)

    @classmethod
    def is_suitable(cls, system: System, tol: float, max_iter: int) -> bool:
        """Whether mixed precision reaches tol and pays off for large blocks."""
        if system.P.dtype != np.float32 or not system.P.self_adjoint:
            return False
        if not (0 < system.alpha <= MIXED_ALPHA and tol >= MIXED_TOL):
            return False
        # max_iter must also allow for a second solve in full precision.
        return MIXED_STEPS <= chebyshev_steps(system.alpha, tol) <= max_iter // 3

    def solve(self, X: Block, tol: float, max_iter: int) -> MixedSolution | int:
        """The solution, or the number of steps after which the residual no longer decreased."""
        system, half = self._system, System(self._half, self._system.alpha)
        F, n_steps = system.P.scaled(X, 0.0), 0
        n_total = chebyshev_steps(system.alpha, tol)
        # The residual is factor * R. In float16 its columns have scales of their own.
        R, factor, reached = X, 1.0, 1.0
        while True:
            needed = MARGIN * tol / reached
            n_stages = math.ceil(math.log(needed) / math.log(SMALLEST_REDUCTION))
            reduction = min(needed ** (1 / n_stages), LARGEST_REDUCTION)
            block, scale = self._half.rounded(R)
            del R
            block, more = chebyshev(
                half, block, reduction, max_iter - n_steps, n_before=n_steps, n_total=n_total
            )
            self._half.add_to_(F, block, factor / scale)
            del block
            n_steps += more
            R, factor = system.residual(F, X), 1 + system.alpha
            previous, reached = reached, system.relative_norm(R, X)
            if reached <= tol:
                return MixedSolution(F, R, reached, n_steps)
            if not reached < previous / 2 or n_steps + 2 * n_total > max_iter:
                return n_steps
