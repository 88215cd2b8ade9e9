"""Fixed-point (Richardson) iteration: F <- c P F + (1 - c) X, starting from F = X."""

from __future__ import annotations

import math

import numpy as np

from ...utils.progress import report_progress
from ..operators.blocks import Block
from .system import System

#: Steps between two checks of the residual.
STEPS_PER_CHECK = 10


def fixed_point(
    system: System, X: Block, tol: float | None, max_iter: int
) -> tuple[np.ndarray, int]:
    """F with a relative residual of at most tol, and the number of steps.

    Without a tol, F after ``max_iter`` steps; the paper uses 5.
    """
    F, spare = system.P.scaled(X, 1.0), system.P.scaled(X, 0.0)
    for step in range(1, max_iter + 1):
        F, spare = system.P.step(F, X, spare, system.c, 1 - system.c, 0.0), F
        report_progress("solving", step, max_iter if tol is None else None)
        if tol is None or step % STEPS_PER_CHECK:
            continue
        if system.relative_norm(system.residual(F, X), X) <= tol:
            return F, step
    return F, max_iter


def fixed_point_steps(alpha: float, tol: float) -> int:
    """Number of steps after which the relative residual is at most tol.

    The first residual is alpha L X, at most 2 alpha times X, and each step multiplies it by c.
    """
    first = max(2 * alpha, tol)
    return math.ceil(math.log(tol / first) / math.log(alpha / (1 + alpha)))
