"""Woodbury formula for the ghost edges, which are a low-rank term of P."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..operators.propagation import Propagation


def woodbury(
    P: Propagation, alpha: float, solve: Callable[[np.ndarray], np.ndarray]
) -> Callable[[np.ndarray], np.ndarray]:
    """Function that turns S^-1 X into (S - alpha U V^T)^-1 X.

    S is the system without the ghost factor U V^T of P, and ``solve`` applies S^-1. The function
    multiplies errors by up to alpha (1 + alpha).
    """
    factors = P.dense_ghost_factors
    if factors is None:
        return lambda F: F
    U, V = factors
    SU = solve(U)
    correction = SU @ woodbury_factor(V.T @ SU, alpha)
    return lambda F: F + (correction @ (V.T @ F)).astype(F.dtype, copy=False)


def woodbury_factor(VSU: np.ndarray, strength: float) -> np.ndarray:
    """C such that (S - strength U V^T)^-1 = S^-1 + S^-1 U C V^T S^-1; VSU is V^T S^-1 U."""
    identity = np.eye(len(VSU))
    return np.linalg.solve(identity - strength * VSU, strength * identity)
