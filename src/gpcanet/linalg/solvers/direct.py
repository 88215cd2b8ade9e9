"""Direct solver: sparse LU factorisation, for small graphs with little fill-in."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg

from ..operators.blocks import Block
from ..operators.propagation import Propagation
from .system import System
from .woodbury import woodbury

#: Largest number of nodes and of entries of the adjacency matrix of a small graph.
SMALL_NODES, SMALL_ENTRIES = 6_000, 40_000

#: Largest number of entries of the factor per entry of the matrix, for half of the nodes, with
#: which a factorisation is faster than an iteration. For all nodes it is up to ten times larger.
LITTLE_FILL_IN = 2.0


class Factorization:
    """LU factorisation of I + alpha L; ghost edges are added by the Woodbury formula."""

    def __init__(self, system: System) -> None:
        P, alpha = system.P, system.alpha
        self._P = P
        identity = sp.eye_array(P.n_nodes)
        self._factor = factorize((1 + alpha) * identity - alpha * P.sparse_part.astype(np.float64))
        self._with_ghost_edges = woodbury(P, alpha, self._solve_sparse)

    def solve(self, X: Block) -> np.ndarray:
        block = X if isinstance(X, np.ndarray) else self._P.scaled(X, 1.0)
        F = self._with_ghost_edges(self._solve_sparse(block))
        return np.ascontiguousarray(F, dtype=self._P.dtype)

    def _solve_sparse(self, B: np.ndarray) -> np.ndarray:
        return self._factor.solve(B.astype(np.float64, copy=False))


def factorizes_well(P: Propagation) -> bool:
    """Whether a factorisation is faster than an iteration."""
    if P.n_nodes > SMALL_NODES:
        return False
    ones = np.ones(len(P.indices))
    return has_little_fill_in(sp.csr_array((ones, P.indices, P.indptr), shape=P.shape))


def has_little_fill_in(adjacency: sp.csr_array) -> bool:
    """Whether the graph is small and its Laplacian has little fill-in.

    The fill-in is that of a random half of the nodes, whose factorisation is much faster than that
    of all nodes. It is close to 1 on citation graphs and on neighbours in two or three
    dimensions, and above 2 on random graphs, which have no small separators.
    """
    n_nodes = adjacency.shape[0]
    if n_nodes > SMALL_NODES or adjacency.nnz > SMALL_ENTRIES:
        return False
    half = np.random.default_rng(0).permutation(n_nodes)[: n_nodes // 2]
    if len(half) == 0:
        return True
    part = adjacency[half][:, half]
    factor = factorize(sp.diags_array(part.sum(axis=1) + 1) - part)
    n_entries = part.nnz / 2 + len(half)  # of the lower triangle with the diagonal
    return bool(factor.L.nnz <= LITTLE_FILL_IN * n_entries)


def factorize(system: sp.sparray) -> scipy.sparse.linalg.SuperLU:
    """LU of a diagonally dominant matrix with symmetric pattern: no pivoting, minimum degree."""
    return scipy.sparse.linalg.splu(
        system.tocsc(),
        permc_spec="MMD_AT_PLUS_A",
        diag_pivot_thresh=0.0,
        options={"SymmetricMode": True},
    )
