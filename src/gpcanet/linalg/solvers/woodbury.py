"""Woodbury formula for the ghost edges, which are a low-rank term of P."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..operators.base import Array
from ..operators.propagation import Propagation


def woodbury(
    P: Propagation, alpha: float, solve: Callable[[Array], Array]
) -> Callable[[Array], Array]:
    """Function that turns S^-1 X into (S - alpha U V^T)^-1 X.

    S is the system without the ghost factor U V^T of P, and ``solve`` applies S^-1. The function
    multiplies errors by up to alpha (1 + alpha).
    """
    factors = P.ghost_factors
    if factors is None:
        return lambda F: F
    U, V = factors
    SU = solve(U).astype(np.float64, copy=False)
    VSU = V.T @ SU

    def add_ghost_edges(F: Array) -> Array:
        added = SU @ woodbury_coefficients(VSU, V.T @ F, alpha)
        return F + added.astype(F.dtype, copy=False)

    return add_ghost_edges


def woodbury_coefficients(VSU: np.ndarray, VF: np.ndarray, strength: float) -> np.ndarray:
    """C such that (S - strength U V^T)^-1 X = F + S^-1 U C, where F = S^-1 X.

    ``VSU`` is V^T S^-1 U and ``VF`` is V^T F.
    """
    return np.linalg.solve(np.eye(len(VSU)) - strength * VSU, strength * VF)
