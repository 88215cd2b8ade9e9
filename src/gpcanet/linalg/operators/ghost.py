"""The ghost edges between nodes of equal label, as a thin factor."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp


class GhostFactor:
    """U V^T with one non-zero per labelled node in each of U and V."""

    def __init__(
        self,
        nodes: np.ndarray,
        codes: np.ndarray,
        left: np.ndarray,
        right: np.ndarray,
        n_nodes: int,
        dtype: np.dtype,
    ) -> None:
        self.nodes, self.codes = nodes, codes
        self.left = left.astype(dtype)
        self.right_transposed = sp.csr_array(
            (right.astype(dtype), (codes, nodes)), shape=(codes.max() + 1, n_nodes)
        )

    @property
    def gain(self) -> float:
        """How many times larger than F a number of U V^T F may be."""
        class_sums = abs(self.right_transposed).sum(axis=1)
        return float((np.abs(self.left) * class_sums[self.codes]).max())

    def add_to_(self, out: np.ndarray, F: np.ndarray, a: float) -> None:
        class_sums = self.right_transposed @ F
        out[self.nodes] += (self.left.dtype.type(a) * self.left)[:, None] * class_sums[self.codes]

    def add_to_half_(self, out: np.ndarray, F: np.ndarray, a: float) -> None:
        """The same for blocks of 16 bits, of which only labelled rows are taken out."""
        rows, single = self.nodes, np.float32
        class_sums = self.right_transposed[:, rows] @ F[rows].astype(single)
        added = (single(a) * self.left)[:, None] * class_sums[self.codes]
        out[rows] = (out[rows].astype(single) + added).astype(out.dtype)

    def dense(self) -> tuple[np.ndarray, np.ndarray]:
        V = np.ascontiguousarray(self.right_transposed.T.toarray())
        U = np.zeros_like(V)
        U[self.nodes, self.codes] = self.left
        return U, V
