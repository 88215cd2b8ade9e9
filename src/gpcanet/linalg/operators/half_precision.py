"""The propagation operator on blocks in half precision."""

from __future__ import annotations

import numpy as np

from ..parallel import parallel_rows
from .blocks import Block, zero_block
from .propagation import MATERIALIZED_BYTES, Propagation, column_dots, column_max_abs

#: Largest absolute value that a column is scaled to. float16 ends at 65,504; values down to
#: 1e-7 of this one keep full precision.
LARGEST_VALUE = 2.0**10


class HalfPropagation(Propagation):
    """P on blocks that are stored in float16 and summed in float32.

    A step reads and writes half the bytes of a step in float32. Every step rounds to 11 bits. The
    columns of a block are scaled by powers of two into the range of float16.

    Parameters
    ----------
    P : Propagation
        In float32; its arrays are shared.
    """

    def __init__(self, P: Propagation) -> None:
        if P.dtype != np.float32:
            raise ValueError(f"half precision requires a float32 operator, not {P.dtype}")
        vars(self).update(vars(P))
        # Rows of A~ are averages and stay in range; sums over ghost edges may be larger.
        ghost_norm = 1.0 if P.ghost is None else max(1.0, P.ghost.norm)
        self._largest = LARGEST_VALUE / ghost_norm

    def to_internal(self, X: np.ndarray, shift: np.ndarray | None = None) -> Block:
        unscaled = self.lazy_block(X, shift)
        return unscaled._replace(column_scale=self._column_scale(unscaled))

    def _column_scale(self, block: Block) -> np.ndarray:
        """Power of two for each column that brings it into range."""
        largest = column_max_abs(block)
        exponent = np.floor(np.log2(self._largest / np.where(largest > 0, largest, 1)))
        return np.exp2(np.clip(exponent, -120, 120)).astype(np.float32)

    def rounded(self, block: Block) -> tuple[np.ndarray, np.ndarray]:
        """A float32 block of P rounded to float16, and the scales of its columns."""
        scale = self._column_scale(block)
        result = np.empty(block.shape, np.float16)
        _rescale(block, scale, result)
        return result, scale

    def add_to_(self, F: np.ndarray, block: np.ndarray, scale: np.ndarray) -> None:
        """F <- F + scale * block, with F in float32 and one scale per column."""
        self.combine_(F, 1.0, _bits(block), scale)

    def materialize(self, block: Block) -> Block:
        return block if block.values.nbytes > 2 * MATERIALIZED_BYTES else self.scaled(block, 1.0)

    def from_internal(self, F: np.ndarray, source: Block) -> np.ndarray:
        return self.rows(F, source, 0, len(F))

    def rows(self, F: np.ndarray, source: Block, begin: int, end: int) -> np.ndarray:
        from . import kernels

        result = np.empty((end - begin, F.shape[1]), np.float32)
        if self.position is None:
            positions = np.arange(begin, end, dtype=np.int32)
        else:
            positions = self.position[begin:end]
        kernels.gather(_bits(F), positions, source.row_scale, source.column_scale, result)
        return result

    def scaled(self, X: Block, factor: float) -> np.ndarray:
        result = zero_block(X.shape, np.float16)
        if factor != 0:
            _rescale(X, np.full(X.shape[1], factor, np.float32), result)
        return result

    def step(
        self,
        F: np.ndarray,
        X: Block,
        out: np.ndarray,
        a: float,
        b: float,
        c: float,
        own: float = 0.0,
    ) -> np.ndarray:
        self.compiled_step(_bits(F), _bits(X), _bits(out), a, b, c, own)
        if self.ghost is not None:
            self.ghost.add_to_(out, F, a)
        return out

    def dots(self, U: Block, V: Block) -> np.ndarray:
        return column_dots(_bits(U), _bits(V), self.mass)

    def max_abs(self, block: Block) -> np.ndarray:
        return column_max_abs(_bits(block))


def _rescale(X: Block, scale: np.ndarray, out: np.ndarray) -> None:
    """out <- X times one scale per column; numpy's conversion to float16 is ten times slower."""
    from . import kernels

    parallel_rows(kernels.rescale, len(out), _bits(X), scale, _bits(out))


def _bits(block: Block) -> Block:
    is_half = isinstance(block, np.ndarray) and block.dtype == np.float16
    return block.view(np.uint16) if is_half else block
