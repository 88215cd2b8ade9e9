"""Fixed-point (Richardson) iteration: F <- c P F + (1 - c) X, starting from F = X."""

from __future__ import annotations

import math

from ...utils.progress import report_progress
from ..operators.base import Array
from .system import System


def fixed_point(system: System, X: Array, n_steps: int) -> Array:
    """F after ``n_steps`` steps; the paper uses 5."""
    F, spare = system.P.scaled(X, 1.0), system.P.scaled(X, 0.0)
    for step in range(n_steps):
        F, spare = system.P.step(F, X, spare, system.c, 1 - system.c, 0.0), F
        report_progress("solving", step + 1, n_steps)
    return F


def fixed_point_steps(alpha: float, tol: float) -> int:
    """Number of steps after which the relative residual is at most tol.

    The first residual is alpha L X, at most 2 alpha times X, and each step multiplies it by c.
    """
    first = max(2 * alpha, tol)
    return math.ceil(math.log(tol / first) / math.log(alpha / (1 + alpha)))
