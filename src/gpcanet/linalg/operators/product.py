"""A single product P F, for networks."""

from __future__ import annotations

import numpy as np

from ..parallel import parallel_rows
from .propagation import Propagation


class Product:
    """P as a matrix with edge values, for symmetric normalisation without ghost edges.

    A solver converts F to the scaled variable once and takes many steps there. A network needs
    one product at a time; for that, reading an edge value with every index is faster.
    """

    def __init__(self, P: Propagation) -> None:
        assert P.normalization == "sym"
        assert P.ghost is None
        self.P = P
        root = np.sqrt(P.mass)
        values = 1 / root[P.indices] if P.weights is None else P.weights / root[P.indices]
        values.flags.writeable = False
        # The kernel adds the node's own row with weight 1; the diagonal makes that 1 / mass.
        row_scale = 1 / root
        self._arrays = values, row_scale, 1 / P.mass - row_scale

    def __matmul__(self, F: np.ndarray) -> np.ndarray:
        if not self.P.is_fused(F.shape[1]):
            return self.P @ F
        from . import kernels

        out, number = np.empty_like(F), self.P.dtype.type
        factors = (number(factor) for factor in (1, 0, 0, 0))
        arrays = self.P.indptr, self.P.indices, *self._arrays, F, F, out
        parallel_rows(kernels.step, len(F), *arrays, *factors)
        return out
