"""Chebyshev semi-iteration.

The spectrum of P is in [-1, 1], so the number of steps for a tolerance is known beforehand, and a
step needs no inner products: it is one fused pass over three blocks.
"""

from __future__ import annotations

import math

import numpy as np

from ...utils.progress import report_progress
from ..operators.blocks import Block
from .system import System


def chebyshev_steps(alpha: float, tol: float) -> int:
    """Number of steps from F = 0 after which the relative residual is at most tol.

    After k steps it is at most 1 / T_k(1 / c), T_k being the Chebyshev polynomial.
    """
    return math.ceil(math.acosh(1 / tol) / math.acosh(1 + 1 / alpha))


def chebyshev(
    system: System, X: Block, tol: float, max_iter: int, *, n_before: int = 0, n_total: int = 0
) -> tuple[np.ndarray, int]:
    """F with a residual of at most tol in the norm in which P is self-adjoint.

    ``n_before`` and ``n_total`` are numbers of steps for the progress report, for a solve that is
    part of a longer one.
    """
    P, c = system.P, system.c
    n_steps = max(1, min(chebyshev_steps(system.alpha, tol), max_iter))
    previous, F = P.scaled(X, 0.0), P.scaled(X, 1 - c)
    omega = 2.0
    for step in range(1, n_steps):
        omega = 1 / (1 - c * c * omega / 4)
        F, previous = P.step(F, X, previous, omega * c, omega * (1 - c), 1 - omega), F
        report_progress("solving", n_before + step + 1, max(n_before + n_steps, n_total))
    return F, n_steps
