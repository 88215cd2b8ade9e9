"""P F in one pass, for those who want a single product and not a solve."""

from __future__ import annotations

import numpy as np

from .propagation import Propagation


class Product:
    """P as a matrix with values, for symmetric normalisation without ghost edges.

    A solve enters the walk variable once and takes many steps there. A network takes one step,
    and would pay for the way in and out each time; reading a number with every index costs less.
    """

    def __init__(self, P: Propagation) -> None:
        assert P.normalization == "sym"
        assert P.ghost_factors is None
        self.P = P
        root = np.sqrt(P.mass)
        values = 1 / root[P.indices] if P.weights is None else P.weights / root[P.indices]
        values.flags.writeable = False
        # The kernel adds a node's own row to those of its neighbours with weight 1, not 1 / root.
        row_scale = 1 / root
        self._arrays = values, row_scale, 1 / P.mass - row_scale

    def __matmul__(self, F: np.ndarray) -> np.ndarray:
        if not self.P.is_fused(F.shape[1]):
            return self.P @ F
        from . import kernels

        out, number = np.empty_like(F), self.P.dtype.type
        factors = (number(factor) for factor in (1, 0, 0, 0))
        with kernels.parallel_launch():
            kernels.step(self.P.indptr, self.P.indices, *self._arrays, F, F, out, *factors)
        return out
