"""Blocks of columns, which operators and solvers work on."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

#: A numpy.ndarray, or a LazyBlock of the compiled kernels, which is computed when it is read.
Block = Any

CACHE_LINE_BYTES = 64


def zero_block(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Zeros that are aligned to cache lines.

    numpy aligns large arrays to 16 bytes, so a row of 128 bytes would touch three cache lines
    instead of two.
    """
    n_bytes = math.prod(shape) * np.dtype(dtype).itemsize
    memory = np.zeros(n_bytes + CACHE_LINE_BYTES, np.uint8)
    begin = -memory.ctypes.data % CACHE_LINE_BYTES
    return memory[begin : begin + n_bytes].view(dtype).reshape(shape)
