"""An order of the nodes in which neighbours are near, so that their rows share the cache.

A step on a large graph waits for memory: the rows of neighbours lie anywhere. Label propagation
finds groups of nodes that are mostly joined to each other, at the price of about a step; laid
out group by group, a step takes two thirds of the time or less.
"""

import numba as nb
import numpy as np

from .kernels import ROWS_PER_CHUNK, parallel_launch

SWEEPS = 4

#: Neighbours that are asked, evenly spread over the list of a node with more.
SAMPLE = 24

#: Nodes of a group at most: rows of a much larger one would not fit in cache together.
LARGEST_GROUP = 30_000


def locality_order(indptr: np.ndarray, indices: np.ndarray) -> np.ndarray:
    """Positions of the nodes, group by group; the same for every call."""
    return np.argsort(_groups(indptr, indices), kind="stable")


@nb.njit(cache=True)
def _groups(indptr, indices):
    n = len(indptr) - 1
    group = np.arange(n).astype(np.int32)
    size = np.ones(n, np.int32)
    seen = np.empty(SAMPLE, np.int32)
    for _ in range(SWEEPS):
        # One node after the other, each seeing the latest groups: settles in few sweeps and,
        # unlike a parallel sweep, always in the same way.
        for i in range(n):
            begin, degree = indptr[i], indptr[i + 1] - indptr[i]
            count = min(degree, SAMPLE)
            for t in range(count):
                seen[t] = group[indices[begin + t * degree // count]]
            best, most = group[i], 0
            for t in range(count):
                votes = 0
                for u in range(count):
                    votes += seen[u] == seen[t]
                has_room = size[seen[t]] < LARGEST_GROUP or seen[t] == group[i]
                if votes > most and has_room:
                    best, most = seen[t], votes
            size[group[i]] -= 1
            size[best] += 1
            group[i] = best
    return group


def permute(
    indptr: np.ndarray, indices: np.ndarray, weights: np.ndarray | None, order: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """The same graph with node ``order[i]`` at position i."""
    place = np.empty(len(order), np.int32)
    place[order] = np.arange(len(order), dtype=np.int32)
    new_indptr = np.concatenate([[0], np.cumsum(np.diff(indptr)[order])])
    new_indices = np.empty_like(indices)
    new_weights = np.empty(0) if weights is None else np.empty_like(weights)
    with parallel_launch():
        _move(indptr, indices, weights, order, place, new_indptr, new_indices, new_weights)
    return new_indptr, new_indices, None if weights is None else new_weights


@nb.njit(parallel=True, cache=True)
def _move(indptr, indices, weights, order, place, new_indptr, new_indices, new_weights):
    """Copy every row to its new position, its neighbours under their new names."""
    n = len(order)
    for chunk in nb.prange((n + ROWS_PER_CHUNK - 1) // ROWS_PER_CHUNK):
        for i in range(chunk * ROWS_PER_CHUNK, min(n, (chunk + 1) * ROWS_PER_CHUNK)):
            old, new = indptr[order[i]], new_indptr[i]
            for t in range(new_indptr[i + 1] - new):
                new_indices[new + t] = place[indices[old + t]]
                if weights is not None:
                    new_weights[new + t] = weights[old + t]
