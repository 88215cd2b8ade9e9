"""P for blocks in half precision."""

from __future__ import annotations

from typing import Any

import numpy as np

from .propagation import BlockOperator, Propagation


class HalfPropagation(BlockOperator):
    """P of a graph for blocks held in half precision (float16) and summed in single.

    A step reads and writes half the bytes and takes half the time. Numbers keep 11 bits, so that
    a block is rounded to 3 parts in 10,000 at every step. ``shrink`` and ``grow`` bring columns
    into the range of 16 bits and back: by powers of two, which round nothing.
    """

    #: Largest number that a column is scaled to: far from 65,504, where 16 bits end, and with
    #: numbers ten million times smaller still in full precision.
    LARGEST = 2.0**10

    def __init__(self, P: Propagation) -> None:
        if P.dtype != np.float32:
            raise ValueError(f"half precision is summed in float32, not {P.dtype}")
        self.P, self.mass, self.self_adjoint = P, P.mass, P.self_adjoint

    def shrink(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The block in 16 bits, and the scale of each column."""
        largest = np.maximum(X.max(axis=0), -X.min(axis=0)).astype(np.float64)
        exponent = np.floor(np.log2(self.LARGEST / np.where(largest > 0, largest, 1)))
        scale = np.exp2(np.clip(exponent, -120, 120)).astype(np.float32)
        return _rescaled(X, scale, np.float16), scale

    def grow(self, F: np.ndarray, scale: np.ndarray) -> np.ndarray:
        """The way back to float32."""
        return _rescaled(F, 1 / scale, np.float32)

    def scaled(self, X: np.ndarray, factor: float) -> np.ndarray:
        if factor == 0:
            return np.zeros_like(X)
        return _rescaled(X, np.full(X.shape[1], factor, np.float32), np.float16)

    def matmul(self, F: np.ndarray) -> np.ndarray:
        return self.step(F, F, np.empty_like(F), 1.0, 0.0, 0.0)

    def step(
        self, F: np.ndarray, X: np.ndarray, out: np.ndarray, a: float, b: float, c: float
    ) -> np.ndarray:
        from . import kernels

        bits = [block.view(np.uint16) for block in (F, X, out)]
        scalars = [np.float32(scalar) for scalar in (a, b, c)]
        P = self.P
        with kernels.parallel_launch():
            kernels.step(P.indptr, P.indices, P.weights, P._row_scale, P._diagonal, *bits, *scalars)
        if P._ghost is not None:
            P._ghost.add_to_half_(out, F, a)
        return out


def _rescaled(X: np.ndarray, scale: np.ndarray, dtype: Any) -> np.ndarray:
    """Columns times their scales, in another precision; numpy converts ten times as slowly."""
    from . import kernels

    result = np.empty(X.shape, dtype)
    blocks = [b.view(np.uint16) if b.dtype == np.float16 else b for b in (X, result)]
    with kernels.parallel_launch():
        kernels.rescale(blocks[0], scale, blocks[1])
    return result
