"""Conjugate gradient method for all columns at once."""

from __future__ import annotations

import numpy as np

from ...utils.progress import report_progress
from ..operators.blocks import Block
from .system import LinearSystem


def conjugate_gradient(
    system: LinearSystem, X: Block, tol: float, max_iter: int
) -> tuple[np.ndarray, int]:
    """F with a residual of at most tol, as computed by the recurrence, and the number of steps.

    Rounding may make the true residual larger.
    """
    P = system.P
    size = P.norms(X)
    size = size + (size == 0)
    F, R = P.scaled(X, 0.0), P.scaled(X, 1.0)
    D, product = R * 1.0, R * 0
    n_steps, squares = 0, P.dots(R, R)
    while float((P.norms(R, squares) / size).max()) > tol and n_steps < max_iter:
        product = system.apply(D, product)
        curvature = P.dots(D, product)
        # A column that is solved exactly has no residual and no curvature; it stays unchanged.
        length = squares / (curvature + (curvature == 0))
        P.combine_(F, 1.0, D, length)
        P.combine_(R, 1.0, product, -length)
        squares, previous = P.dots(R, R), squares
        P.combine_(D, squares / (previous + (previous == 0)), R, 1.0)
        n_steps += 1
        report_progress("solving", n_steps)
    return F, n_steps
