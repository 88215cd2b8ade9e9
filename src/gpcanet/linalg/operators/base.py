"""What the solvers need to know of an operator, and blocks for its kernels."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any

import numpy as np

#: numpy.ndarray or torch.Tensor; the solvers use only operations that both have.
Array = Any

CACHE_LINE_BYTES = 64


class BlockOperator(ABC):
    """What the solvers need to know of P; only ``matmul`` is abstract.

    The methods work on any array type with numpy's operators, for example torch tensors.
    """

    #: Diagonal of the inner product in which P is self-adjoint; None for the identity.
    mass: Array | None = None

    #: Whether P is self-adjoint in that inner product.
    self_adjoint: bool = True

    @abstractmethod
    def matmul(self, F: Array) -> Array:
        """P F as a new block."""

    def to_internal(self, X: Array, shift: Array | None = None) -> Array:
        """X - shift in the variable of ``step``.

        The result may be X itself or an object that is computed when it is read. It can be the
        second argument of ``step``, and an argument of ``scaled`` and ``dots``.
        """
        return X if shift is None else X - shift

    def materialize(self, block: Array) -> Array:
        """The result of ``to_internal`` in the form that is fastest to read many times."""
        return block

    def from_internal(self, F: Array, source: Array) -> Array:
        """Convert F, computed from ``source``, back to the variable of the caller; may modify F."""
        return F

    def rows(self, F: Array, source: Array, begin: int, end: int) -> Array:
        """Rows ``begin`` to ``end`` of ``from_internal``; does not modify F."""
        return F[begin:end]

    def step(
        self, F: Array, X: Array, out: Array, a: float, b: float, c: float, own: float = 0.0
    ) -> Array:
        """a P F + b X + c out + own F; may overwrite ``out``, which is not read if c is 0."""
        result = self.matmul(F)
        result *= a
        result += b * X
        if c != 0:
            result += c * out
        if own != 0:
            result += own * F
        return result

    def scaled(self, X: Array, factor: float) -> Array:
        """factor * X as a new block."""
        return X * factor

    def dots(self, U: Array, V: Array) -> Array:
        """Inner product of each column of U with the same column of V."""
        product = U * V
        return (product if self.mass is None else self.mass[:, None] * product).sum(0)

    def norms(self, block: Array, squares: Array | None = None) -> Array:
        """Norm of each column, in which the norm of (I + alpha L)^-1 is at most 1.

        ``squares`` is ``dots(block, block)`` if that is known.
        """
        return (self.dots(block, block) if squares is None else squares) ** 0.5

    def combine_(self, Y: Array, y_scale: Array | float, Z: Array, z_scale: Array | float) -> Array:
        """Y <- y_scale * Y + z_scale * Z, with scales per column."""
        Y *= y_scale
        Y += z_scale * Z
        return Y


def zero_block(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Zeros that are aligned to cache lines.

    numpy aligns large arrays to 16 bytes, so a row of 128 bytes would touch three cache lines
    instead of two.
    """
    n_bytes = math.prod(shape) * np.dtype(dtype).itemsize
    memory = np.zeros(n_bytes + CACHE_LINE_BYTES, np.uint8)
    begin = -memory.ctypes.data % CACHE_LINE_BYTES
    return memory[begin : begin + n_bytes].view(dtype).reshape(shape)
