"""Node ordering that places neighbours close to each other in memory.

On a large graph a step waits for memory, because the rows of neighbours are spread over the whole
block. Label propagation finds groups of nodes that are mostly joined to each other; with the nodes
ordered by group, rows of neighbours are often in cache already.
"""

import numpy as np

from ..parallel import parallel_rows
from .compilation import compiled

#: Sweeps of label propagation.
SWEEPS = 4

#: Consecutive nodes that vote together.
CHUNK = 128

#: Batches of a sweep. Nodes of a batch vote in parallel and then move.
BATCHES = 8

#: Neighbours that vote, evenly spread over the list of a node that has more.
SAMPLE = 24

#: Largest size of a group; the rows of a much larger one do not fit in cache together.
LARGEST_GROUP = 30_000


def locality_order(indptr: np.ndarray, indices: np.ndarray) -> np.ndarray:
    """Positions of the nodes in the new order; deterministic."""
    n = len(indptr) - 1
    group = np.arange(n, dtype=np.int32)
    wanted, size = np.empty(n, np.int32), np.ones(n, np.int32)
    n_chunks = -(-n // CHUNK)
    for _ in range(SWEEPS):
        # A batch is every 8th chunk, not an 8th of the nodes in one piece: nodes with similar
        # positions are often neighbours, and neighbours should not all move at once.
        for first in range(BATCHES):
            n_batch = -(-(n_chunks - first) // BATCHES)
            parallel_rows(_vote, n_batch, indptr, indices, group, size, first, wanted, min_rows=1)
            _move_nodes(group, size, first, wanted)
    return np.argsort(group, kind="stable")


@compiled()
def _vote(begin, end, indptr, indices, group, size, first, wanted):
    """wanted[i] <- the most frequent group among the sampled neighbours of node i."""
    n = len(group)
    votes_for = np.empty(SAMPLE, np.int32)
    for chunk in range(begin, end):
        start = (first + chunk * BATCHES) * CHUNK
        for i in range(start, min(n, start + CHUNK)):
            e, degree = indptr[i], indptr[i + 1] - indptr[i]
            count = min(degree, SAMPLE)
            for t in range(count):
                votes_for[t] = group[indices[e + t * degree // count]]
            best, most = group[i], np.int32(0)
            for t in range(count):
                votes = np.int32(0)
                for u in range(t, count):  # earlier votes for this group counted already
                    votes += np.int32(votes_for[u] == votes_for[t])
                has_room = size[votes_for[t]] < LARGEST_GROUP or votes_for[t] == group[i]
                if votes > most and has_room:
                    best, most = votes_for[t], votes
            wanted[i] = best


@compiled()
def _move_nodes(group, size, first, wanted):
    n = len(group)
    for begin in range(first * CHUNK, n, BATCHES * CHUNK):
        for i in range(begin, min(n, begin + CHUNK)):
            if size[wanted[i]] < LARGEST_GROUP:
                size[group[i]] -= 1
                size[wanted[i]] += 1
                group[i] = wanted[i]


def positions_of(order: np.ndarray) -> np.ndarray:
    """Position of each node in an order."""
    position = np.empty(len(order), np.int32)
    position[order] = np.arange(len(order), dtype=np.int32)
    return position


def permute(
    indptr: np.ndarray,
    indices: np.ndarray,
    weights: np.ndarray | None,
    order: np.ndarray,
    position: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """The same graph with node ``order[i]`` at position i; ``position`` is the inverse of that."""
    new_indptr = np.concatenate([[0], np.cumsum(np.diff(indptr)[order])])
    new_indices = np.empty_like(indices)
    new_weights = np.empty(0) if weights is None else np.empty_like(weights)
    arrays = indptr, indices, weights, order, position, new_indptr, new_indices, new_weights
    parallel_rows(_permute_rows, len(order), *arrays)
    return new_indptr, new_indices, None if weights is None else new_weights


@compiled()
def _permute_rows(
    begin, end, indptr, indices, weights, order, position, new_indptr, new_indices, new_weights
):
    for i in range(begin, end):
        old, new = indptr[order[i]], new_indptr[i]
        for t in range(new_indptr[i + 1] - new):
            new_indices[new + t] = position[indices[old + t]]
            if weights is not None:
                new_weights[new + t] = weights[old + t]
