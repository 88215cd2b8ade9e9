"""Fixed-point (Richardson) iteration: F <- c P F + (1 - c) X, starting from F = X."""

from __future__ import annotations

import math

import numpy as np

from ...utils.progress import report_progress
from ..operators.blocks import Block
from .system import System

#: Steps between two checks of the residual.
STEPS_PER_CHECK = 10


def fixed_point(system: System, X: Block, n_steps: int) -> np.ndarray:
    """F after ``n_steps`` steps; the paper uses 5."""
    F, spare = system.P.scaled(X, 1.0), system.P.scaled(X, 0.0)
    return _iterate(system, X, F, spare, range(n_steps), n_steps)[0]


def fixed_point_to_tolerance(
    system: System, X: Block, tol: float, max_iter: int
) -> tuple[np.ndarray, int]:
    """F with a relative residual of at most tol, and the number of steps."""
    F, spare = system.P.scaled(X, 1.0), system.P.scaled(X, 0.0)
    n_steps = 0
    while n_steps < max_iter:
        end = min(n_steps + STEPS_PER_CHECK, max_iter)
        F, spare = _iterate(system, X, F, spare, range(n_steps, end), None)
        n_steps = end
        if system.relative_norm(system.residual(F, X), X) <= tol:
            break
    return F, n_steps


def fixed_point_steps(alpha: float, tol: float) -> int:
    """Number of steps after which the relative residual is at most tol.

    The first residual is alpha L X, at most 2 alpha times X, and each step multiplies it by c.
    """
    first = max(2 * alpha, tol)
    return math.ceil(math.log(tol / first) / math.log(alpha / (1 + alpha)))


def _iterate(
    system: System, X: Block, F: np.ndarray, spare: np.ndarray, steps: range, total: int | None
) -> tuple[np.ndarray, np.ndarray]:
    for step in steps:
        F, spare = system.P.step(F, X, spare, system.c, 1 - system.c, 0.0), F
        report_progress("solving", step + 1, total)
    return F, spare
