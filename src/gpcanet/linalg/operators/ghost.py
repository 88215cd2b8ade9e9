"""Ghost edges between nodes of equal label, as a low-rank factor."""

from __future__ import annotations

from typing import Literal

import numpy as np
import scipy.sparse as sp

GhostForm = Literal["balanced", "paper"]


def ghost_entries(
    labels: np.ndarray, mass: np.ndarray | None, form: GhostForm
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Labelled nodes, their class codes, and their entries of U and V.

    U V^T D is the matrix of class means, D being the diagonal ``mass``, None for ones. The means
    of the balanced form are weighted by D, so that they are a projector that is self-adjoint in
    the inner product of D. Those of the paper are not weighted, as in the code of its authors.
    """
    nodes = np.flatnonzero(labels >= 0)
    codes = np.unique(labels[nodes], return_inverse=True)[1]
    weights = np.ones(len(nodes)) if mass is None else mass[nodes].astype(np.float64)
    if form == "balanced":
        left = right = np.bincount(codes, weights)[codes] ** -0.5
    else:
        left = np.bincount(codes)[codes] ** -0.5
        right = left / weights
    return nodes, codes, left, right


class GhostFactor:
    """U V^T, where U and V have one nonzero per labelled node and one column per class."""

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
            (right.astype(dtype), (codes, nodes)), shape=(codes.max(initial=-1) + 1, n_nodes)
        )

    @property
    def norm(self) -> float:
        """Norm of U V^T induced by the maximum norm."""
        class_sums = abs(self.right_transposed).sum(axis=1)
        return float((np.abs(self.left) * class_sums[self.codes]).max())

    def add_to_(self, out: np.ndarray, F: np.ndarray, a: float) -> None:
        """out <- out + a U V^T F; sums in float32 if the blocks are float16."""
        rows, sums_dtype = self.nodes, self.left.dtype
        left = (sums_dtype.type(a) * self.left)[:, None]
        if F.dtype != np.float16:
            out[rows] += left * (self.right_transposed @ F)[self.codes]
            return
        class_sums = self.right_transposed[:, rows] @ F[rows].astype(sums_dtype)
        added = left * class_sums[self.codes]
        out[rows] = (out[rows].astype(sums_dtype) + added).astype(np.float16)

    def dense(self) -> tuple[np.ndarray, np.ndarray]:
        """U and V as dense arrays."""
        V = np.ascontiguousarray(self.right_transposed.T.toarray())
        U = np.zeros_like(V)
        U[self.nodes, self.codes] = self.left
        return U, V
