"""The triad of McCalpin's STREAM benchmark, which measures memory bandwidth."""

from collections.abc import Callable

import numba as nb
import numpy as np


@nb.njit(parallel=True, cache=True)
def _triad(a, b, c, scalar):
    for i in nb.prange(len(a)):
        a[i] = b[i] + scalar * c[i]


def triad_task(n_numbers: int) -> tuple[Callable[[], None], int]:
    """The task a <- b + s c on float64 arrays, and its bytes as STREAM counts them."""
    a, b, c = np.zeros(n_numbers), np.ones(n_numbers), np.full(n_numbers, 2.0)
    return lambda: _triad(a, b, c, 3.0), 3 * 8 * n_numbers
