"""Ghost edges between nodes with similar labels, as a low-rank factor.

Labels are class codes of shape (n,), -1 for unlabelled nodes, or a matrix Y of shape (n, t) of
continuous targets or label indicators, NaN where unknown. Class codes are a Y with one indicator
per class.

- ``paper``: G = D^-1/2 Y Y^T D^-1/2 for ``sym`` and D^-1 Y Y^T for ``rw``, with the row sums
  D = |Y| |Y|^T 1. Without negative entries these are the row sums of Y Y^T, as in the paper; with
  them, those may be 0. Unknown entries of Y are 0.
- ``balanced``: G is the orthogonal projection onto the span of [1, Y] on the labelled nodes,
  weighted by degree for ``rw``. The diagonal of P has a 1 for every unlabelled node. Affine maps
  of Y do not change it. For class codes G Z is the class means of Z. Unknown entries in a row with
  known ones are the column means.

The spectrum of P stays in [-1, 1]: G is positive semidefinite, and |G| <= D^-1/2 |Y| |Y|^T D^-1/2
entry by entry, whose spectral radius is 1. The rows of D^-1 |Y| |Y|^T sum to 1, which bounds the
``rw`` form in the maximum norm. A projection, and also its sum with the diagonal, has the
eigenvalues 0 and 1. So I + alpha (I - P) is invertible for every alpha and beta, and its smallest
eigenvalue is at least 1 where P is self-adjoint.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import scipy.sparse as sp

GhostForm = Literal["balanced", "paper"]


def labeled_node_mask(labels: np.ndarray) -> np.ndarray:
    """Mask of the labelled nodes: those with a class code, or with a known entry of Y."""
    return labels >= 0 if labels.ndim == 1 else ~np.isnan(labels).all(axis=1)


def max_rank(labels: np.ndarray) -> int:
    """Largest rank of the ghost edges."""
    return len(np.unique(labels[labels >= 0])) if labels.ndim == 1 else labels.shape[1] + 1


def ghost_factors(
    labels: np.ndarray, mass: np.ndarray | None, form: GhostForm
) -> tuple[np.ndarray, sp.csr_array, sp.csr_array]:
    """The labelled nodes, and U and V with one row for each, such that G = U V^T D.

    D is the diagonal ``mass``, None for ``sym``. The projection of the balanced form is
    self-adjoint in the inner product of D. The paper's form is not, as in the code of its authors.
    """
    nodes = np.flatnonzero(labeled_node_mask(labels))
    weights = np.ones(len(nodes)) if mass is None else mass[nodes].astype(np.float64)
    Y = _indicators(labels[nodes]) if labels.ndim == 1 else None
    if form == "balanced":
        if Y is None:
            U = sp.csr_array(_orthonormal_basis(labels[nodes], weights))
        else:  # indicators of classes are orthogonal, and their sum is 1
            U = sp.csr_array(Y @ sp.diags_array((weights @ Y) ** -0.5))
        return nodes, U, U
    if Y is None:
        known = np.nan_to_num(labels[nodes].astype(np.float64))
        Y = sp.csr_array(known / (np.abs(known).max(initial=0.0) or 1.0))  # squares do not overflow
    column_sums = abs(Y).sum(axis=0)
    row_sums = abs(Y) @ column_sums
    inverse = np.divide(1, row_sums, out=np.zeros_like(row_sums), where=row_sums > 0)
    if mass is None:
        U = sp.csr_array(sp.diags_array(np.sqrt(inverse)) @ Y)
        return nodes, U, U
    scale = np.sqrt(np.where(column_sums > 0, column_sums, 1.0))
    left = sp.csr_array(sp.diags_array(inverse) @ Y @ sp.diags_array(scale))
    return nodes, left, sp.csr_array(sp.diags_array(1 / weights) @ Y @ sp.diags_array(1 / scale))


def _indicators(codes: np.ndarray) -> sp.csr_array:
    """One column per class that occurs, with a 1 for each of its nodes."""
    columns = np.unique(codes, return_inverse=True)[1]
    n = len(codes)
    shape = n, columns.max(initial=-1) + 1
    return sp.csr_array((np.ones(n), columns, np.arange(n + 1)), shape=shape)


def _orthonormal_basis(Y: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """A basis of the span of [1, Y], orthonormal in the inner product of the weights."""
    if len(Y) == 0:
        return np.zeros((0, 0))
    # The columns have different units. They are scaled to unit norm before small singular values
    # are dropped.
    eps = np.finfo(np.float64).eps
    Y, known = Y.astype(np.float64), ~np.isnan(Y)
    largest = np.max(np.abs(Y), axis=0, initial=0.0, where=known)
    Y = Y / np.where(largest > 0, largest, 1.0)
    totals = weights @ known
    means = weights @ np.where(known, Y, 0.0) / np.where(totals > 0, totals, 1.0)
    roots = np.sqrt(weights)[:, None]
    Y = roots * np.where(known, Y - means, 0.0)
    norms = np.linalg.norm(Y, axis=0)
    Y = Y[:, norms > 8 * eps * np.linalg.norm(roots)]  # other columns are constant
    Y = np.hstack([roots, Y])
    basis, values, _ = np.linalg.svd(Y / np.linalg.norm(Y, axis=0), full_matrices=False)
    return basis[:, values > max(Y.shape) * eps * values[0]] / roots


class GhostFactor:
    """U V^T, where U and V have one nonzero row per labelled node."""

    def __init__(
        self,
        nodes: np.ndarray,
        left: sp.csr_array,
        right: sp.csr_array,
        n_nodes: int,
        dtype: np.dtype,
    ) -> None:
        self.nodes = nodes
        self.left = left.astype(dtype)
        entries = right.tocoo()
        self.right_transposed = sp.csr_array(
            (entries.data.astype(dtype), (entries.col, nodes[entries.row])),
            shape=(right.shape[1], n_nodes),
        )

    @property
    def norm(self) -> float:
        """Bound of the norm of U V^T induced by the maximum norm; exact for class codes."""
        sums = abs(self.right_transposed).sum(axis=1)
        return float((abs(self.left) @ sums).max())

    def add_to_(self, out: np.ndarray, F: np.ndarray, a: float) -> None:
        """out <- out + a U V^T F; sums in float32 if the blocks are float16."""
        rows, sums_dtype = self.nodes, self.left.dtype
        left = self.left * sums_dtype.type(a)
        if F.dtype != np.float16:
            out[rows] += left @ (self.right_transposed @ F)
            return
        added = left @ (self.right_transposed[:, rows] @ F[rows].astype(sums_dtype))
        out[rows] = (out[rows].astype(sums_dtype) + added).astype(np.float16)

    def dense(self) -> tuple[np.ndarray, np.ndarray]:
        """U and V as dense arrays."""
        V = np.ascontiguousarray(self.right_transposed.T.toarray())
        U = np.zeros_like(V)
        U[self.nodes] = self.left.toarray()
        return U, V
