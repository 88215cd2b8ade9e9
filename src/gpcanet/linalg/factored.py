"""X^T (I + alpha L)^-1 X times a few vectors at a time, for a sparse X on a small graph.

With D the degrees, K = D (I + alpha L) in the walk variable is symmetric and positive definite,
and has entries where the graph has edges, whatever alpha and beta are. So the order in which to
eliminate nodes, and where its factor has entries, are found once; for each alpha and beta there
is left a factorisation in a millisecond. The matrix is then X'^T K^-1 X', X' being X less its means
with row i multiplied by D_ii^1/2 for ``sym`` and by D_ii for ``rw``, and a product with eight
vectors takes about as long as reading X and the factor twice.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from .features import CenteredFeatures
from .propagation import Propagation, zero_block
from .solve import symmetric_factor

#: Vectors multiplied at a time: in float64, as many as a cache line and the widest registers hold.
COLUMNS = 8


class FactoredProducts:
    """The matrices X^T (I + alpha L)^-1 X of one sparse X and graph (X^T D ... for ``rw``).

    Parameters
    ----------
    X : CenteredFeatures
        Sparse, in float64.
    P : Propagation
        Of the graph; without an order of its own.

    Examples
    --------
    >>> import numpy as np, scipy.sparse as sp
    >>> X = CenteredFeatures(sp.csr_array([[0.0], [2.0]]))
    >>> P = Propagation(np.array([0, 1, 2]), np.array([1, 0]))  # a single edge
    >>> FactoredProducts(X, P).matrix(P, alpha=1.0)(np.eye(1))  # -0.5 * -1 + 0.5 * 1
    array([[1.]])
    """

    def __init__(self, X: CenteredFeatures, P: Propagation) -> None:
        from . import factor_kernels as kernels

        n = P.n_nodes
        # Each entry's place among those of the graph, plus one: zeros would be dropped.
        numbered = np.arange(1, len(P.indices) + 1)
        graph = sp.csr_array((numbered, P.indices, P.indptr), shape=(n, n))
        self._order = _elimination_order(graph)
        below = sp.tril(graph[self._order][:, self._order], -1).tocsr()
        self._places = below.data - 1
        self._below = below.indptr.astype(np.int32), below.indices.astype(np.int32)
        indptr, indices = kernels.rows_of_factor(*self._below)
        pattern = sp.csr_array((np.ones(len(indices), bool), indices, indptr), shape=(n, n))
        pattern.sort_indices()
        self._rows = indptr, pattern.indices
        counts = np.bincount(indices, minlength=n)
        self._columns = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
        mass = P.mass[self._order]
        scale = np.sqrt(mass) if P.normalization == "sym" else mass
        rescaled = sp.diags_array(scale) @ X.values[self._order]
        self._X = kernels.Features(_compressed(rescaled), scale, X.mean)
        self._transposed = kernels.Features(_compressed(rescaled.T), X.mean, scale)

    @property
    def n_entries(self) -> int:
        """Entries of the factor off its diagonal."""
        return int(self._columns[-1])

    def matrix(self, P: Propagation, alpha: float) -> FactoredMatrix:
        """That of one alpha, for a P of the graph with any beta."""
        from . import factor_kernels as kernels

        off_diagonal, diagonal = P.weighted_entries()
        mass, n = P.mass[self._order], self.n_entries
        K = kernels.Compressed(*self._below, -alpha * off_diagonal[self._places])
        own = (1 + alpha) * mass - alpha * diagonal[self._order]
        L = kernels.Compressed(self._columns, np.empty(n, np.int32), np.empty(n))
        pivots = np.empty(P.n_nodes)
        kernels.factorise(K, own, *self._rows, L, pivots)
        no_ghosts = np.empty((2, len(self._X.right), 0))
        M = FactoredMatrix(kernels.Matrix(self._X, self._transposed, L, pivots, *no_ghosts))
        factors = P.ghost_factors
        if factors is None or alpha == 0:
            return M
        # K - alpha (D U) V^T by Woodbury's formula, with X' multiplied in.
        U, V = (factor[self._order] for factor in factors)
        solved, left = M.solved(mass[:, None] * U)
        capacitance = np.eye(U.shape[1]) / alpha - V.T @ solved
        return M.with_ghosts(left @ np.linalg.inv(capacitance), M.solved(V)[1])


class FactoredMatrix:
    """M = X'^T K^-1 X' as a function of blocks of up to ``COLUMNS`` vectors.

    Not for several threads at a time: a product has its memory ready.
    """

    def __init__(self, matrix: Any) -> None:
        self._matrix = matrix
        n, d = len(matrix.X.left), len(matrix.X.right)
        self._blocks = tuple(zero_block((rows, COLUMNS), np.float64) for rows in (n, d, d, d))

    def with_ghosts(self, left: np.ndarray, right: np.ndarray) -> FactoredMatrix:
        """M + left right^T."""
        spare = np.zeros((len(left), -left.shape[1] % 4))  # the kernel takes four at a time
        padded = np.hstack([left, spare]), np.hstack([right, spare])
        return FactoredMatrix(self._matrix._replace(left=padded[0], right=padded[1]))

    def __call__(self, V: np.ndarray) -> np.ndarray:
        """M V."""
        return self._product(V, 0.0, twice=False)

    def squared(self, V: np.ndarray, shift: float) -> np.ndarray:
        """(M - shift I)^2 V."""
        return self._product(V, shift, twice=True)

    def _product(self, V: np.ndarray, shift: float, *, twice: bool) -> np.ndarray:
        from .factor_kernels import product

        if V.shape[1] > COLUMNS:
            raise ValueError(f"V has {V.shape[1]} columns; give at most {COLUMNS} at a time")
        rows = np.ascontiguousarray(V.T)
        result = np.empty_like(rows)
        product(self._matrix, rows, shift, twice, self._blocks, result)
        return result.T

    def solved(self, B: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """K^-1 B and X'^T K^-1 B, whatever the width of B."""
        from . import factor_kernels as kernels

        F, out = self._blocks[:2]
        solved, collected = np.empty_like(B), np.empty((len(out), B.shape[1]))
        for begin in range(0, B.shape[1], COLUMNS):
            part = slice(begin, begin + COLUMNS)
            width = B[:, part].shape[1]
            F[:, :width] = B[:, part]
            kernels.substitute(self._matrix.L, self._matrix.pivots, F)
            kernels.multiply(self._matrix.transposed, F, out)
            solved[:, part], collected[:, part] = F[:, :width], out[:, :width]
        return solved, collected


def _compressed(matrix: sp.csr_array) -> Any:
    from .factor_kernels import Compressed

    rows = matrix.tocsr()
    return Compressed(rows.indptr.astype(np.int32), rows.indices.astype(np.int32), rows.data)


def _elimination_order(graph: sp.csr_array) -> np.ndarray:
    """Nodes in an order in which eliminating them adds few entries: minimum degree, SuperLU's."""
    n = graph.shape[0]
    factor = symmetric_factor(graph.sign() + sp.diags_array(np.diff(graph.indptr) + 1.0))
    order = np.empty(n, np.intp)
    order[factor.perm_c] = np.arange(n)
    return order
