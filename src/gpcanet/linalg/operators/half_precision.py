"""P for blocks in half precision."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .propagation import FETCHED_BYTES, BlockOperator, Propagation, largest_values, zero_block

if TYPE_CHECKING:
    from .kernels import Source


class HalfPropagation(BlockOperator):
    """P of a graph for blocks held in half precision (float16) and summed in single.

    A step reads and writes half the bytes and takes half the time. Numbers keep 11 bits, so that
    a block is rounded to 3 parts in 10,000 at every step. What enters is read where it lies, in
    single precision; blocks made from it have their columns brought into the range of 16 bits by
    powers of two, which round nothing.
    """

    #: Largest number that a column is scaled to: far from 65,504, where 16 bits end, and with
    #: numbers ten million times smaller still in full precision.
    LARGEST = 2.0**10

    def __init__(self, P: Propagation) -> None:
        if P.dtype != np.float32:
            raise ValueError(f"half precision is summed in float32, not {P.dtype}")
        self.P, self.mass, self.self_adjoint = P, P.mass, P.self_adjoint
        # Rows of A~ are means and keep numbers in range; ghost rows may not be.
        gain = 1.0 if P._ghost is None else max(1.0, P._ghost.gain)
        self._largest = self.LARGEST / gain

    def enter(self, X: np.ndarray, shift: np.ndarray | None = None) -> Source:
        raw = self.P.source(X, shift)
        return raw._replace(column_scale=self._column_scale(raw))

    def _column_scale(self, block: np.ndarray | Source) -> np.ndarray:
        """The power of two for each column that brings it into range."""
        largest = largest_values(block)
        exponent = np.floor(np.log2(self._largest / np.where(largest > 0, largest, 1)))
        return np.exp2(np.clip(exponent, -120, 120)).astype(np.float32)

    def narrowed(self, block: np.ndarray | Source) -> tuple[np.ndarray, np.ndarray]:
        """A block of P itself in 16 bits, and what its columns were multiplied by."""
        scale = self._column_scale(block)
        result = np.empty(block.shape, np.float16)
        rescale(block, scale, result)
        return result, scale

    def add_to_(self, F: np.ndarray, block: np.ndarray, scale: np.ndarray) -> None:
        """F <- F + scale * block, column by column, with F in single precision."""
        self.P.combine_(F, 1.0, _bits(block), scale)

    def fetch(self, entered: Source) -> np.ndarray | Source:
        return entered if entered.values.nbytes > 2 * FETCHED_BYTES else self.scaled(entered, 1.0)

    def leave(self, F: np.ndarray, entered: Source) -> np.ndarray:
        return self.rows(F, entered, 0, len(F))

    def rows(self, F: np.ndarray, entered: Source, begin: int, end: int) -> np.ndarray:
        """Rows begin to end of F in the caller's variable, in single precision."""
        from . import kernels

        result = np.empty((end - begin, F.shape[1]), np.float32)
        places = self.P.place[begin:end]
        kernels.gather(_bits(F), places, entered.row_scale, entered.column_scale, result)
        return result

    def scaled(self, X: np.ndarray | Source, factor: float) -> np.ndarray:
        result = zero_block(X.shape, np.float16)
        if factor != 0:
            rescale(X, np.full(X.shape[1], factor, np.float32), result)
        return result

    def matmul(self, F: np.ndarray) -> np.ndarray:
        return self.step(F, F, np.empty_like(F), 1.0, 0.0, 0.0)

    def step(
        self,
        F: np.ndarray,
        X: np.ndarray | Source,
        out: np.ndarray,
        a: float,
        b: float,
        c: float,
        stay: float = 0.0,
    ) -> np.ndarray:
        self.P.compiled_step(_bits(F), _bits(X), _bits(out), a, b, c, stay)
        if self.P._ghost is not None:
            self.P._ghost.add_to_half_(out, F, a)
        return out

    def dots(self, U: np.ndarray | Source, V: np.ndarray | Source) -> np.ndarray:
        from . import kernels

        parts = np.zeros((kernels.N_PARTS, U.shape[1]))
        with kernels.parallel_launch():
            kernels.partial_dots(_bits(U), _bits(V), self.mass, parts)
        return parts.sum(axis=0)

    def norms(self, block: np.ndarray | Source, squares: np.ndarray | None = None) -> np.ndarray:
        if self.P.normalization == "sym":
            return super().norms(block, squares)
        return largest_values(_bits(block))


def rescale(X: np.ndarray | Source, scale: np.ndarray, out: np.ndarray) -> None:
    """out <- columns of X times their scales; numpy converts ten times as slowly."""
    from . import kernels

    with kernels.parallel_launch():
        kernels.rescale(_bits(X), scale, _bits(out))


def _bits(block: Any) -> Any:
    is_half = isinstance(block, np.ndarray) and block.dtype == np.float16
    return block.view(np.uint16) if is_half else block
