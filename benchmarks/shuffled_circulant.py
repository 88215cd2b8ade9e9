"""Regular random-like graphs written to a store chunk by chunk, in bounded memory.

With a pseudorandom permutation p of the nodes, node i is joined to the nodes j with
``p(j) = p(i) + c`` or ``p(i) - c`` modulo n, for each of a few random offsets c. So the neighbours
of a node are computed from its number alone, the graph is symmetric without repeated edges, and
neighbours are spread over all nodes: a cache hardly helps, as in the worst case of a real graph.
"""

from collections.abc import Iterator
from pathlib import Path

import numba as nb
import numpy as np

from gpcanet.distributed.writing import checked_size, column_sums, write_store_manifest
from gpcanet.linalg import parallel_rows
from gpcanet.utils.array_files import write_array

#: Nodes whose neighbours or features are in memory at a time.
NODES_PER_CHUNK = 2**20

#: Rounds of the permutation.
ROUNDS = 3


@nb.njit(nogil=True, cache=True)
def _neighbors(begin, end, first, n, bits, multipliers, inverses, offsets, out):
    """out[r] <- the sorted neighbours of node ``first + r``."""
    mask, shift = np.uint64((1 << bits) - 1), np.uint64(bits // 2)
    size = np.uint64(n)
    for r in range(begin, end):
        place = np.uint64(first + r)
        while True:  # until the permutation of 2^bits numbers gives one below n
            for t in range(len(multipliers)):
                place = (place * multipliers[t]) & mask
                place ^= place >> shift
            if place < size:
                break
        for j in range(len(offsets)):
            x = (place + offsets[j]) % size
            while True:
                for t in range(len(inverses)):
                    x ^= x >> shift
                    x = (x * inverses[t]) & mask
                if x < size:
                    break
            slot, neighbor = j, np.int32(x)
            while slot > 0 and out[r, slot - 1] > neighbor:
                out[r, slot] = out[r, slot - 1]
                slot -= 1
            out[r, slot] = neighbor


def adjacency_rows(n_nodes: int, degree: int, seed: int = 0) -> Iterator[np.ndarray]:
    """The neighbours of one chunk of nodes after the other; the degree must be even."""
    assert degree % 2 == 0
    bits = max(2, (n_nodes - 1).bit_length())
    bits += bits % 2  # then x ^= x >> bits / 2 is its own inverse
    rng = np.random.default_rng(seed)
    odd = [2 * int(x) + 1 for x in rng.integers(2 ** (bits - 2), 2 ** (bits - 1), ROUNDS)]
    multipliers = np.array(odd, np.uint64)
    inverses = np.array([pow(x, -1, 1 << bits) for x in odd[::-1]], np.uint64)
    chosen = rng.choice((n_nodes - 1) // 2, degree // 2, replace=False) + 1
    offsets = np.concatenate([chosen, n_nodes - chosen]).astype(np.uint64)
    out = np.empty((min(n_nodes, NODES_PER_CHUNK), degree), np.int32)
    for first in range(0, n_nodes, NODES_PER_CHUNK):
        n = min(NODES_PER_CHUNK, n_nodes - first)
        arguments = first, n_nodes, bits, multipliers, inverses, offsets, out
        parallel_rows(_neighbors, n, *arguments)
        yield out[:n].reshape(-1)


def write_store(
    folder: Path, n_nodes: int, degree: int, n_features: int, columns_per_block: int
) -> None:
    """Write a store with features in half precision into an existing folder."""
    rows, n_entries = adjacency_rows(n_nodes, degree), n_nodes * degree
    arrays = {"indices": write_array(folder / "indices.npy", rows, (n_entries,), np.int32)}
    edges = range(0, n_nodes + 1, NODES_PER_CHUNK)
    starts = (
        np.arange(begin, min(begin + NODES_PER_CHUNK, n_nodes + 1)) * degree for begin in edges
    )
    arrays["indptr"] = write_array(folder / "indptr.npy", starts, (n_nodes + 1,), np.int64)
    statistics: list[tuple[int, np.ndarray, float]] = []
    for number, first in enumerate(range(0, n_features, columns_per_block)):
        width = min(columns_per_block, n_features - first)
        chunks = feature_chunks(n_nodes, width, number, statistics)
        path = folder / f"X{number}.npy"
        arrays[f"X{number}"] = write_array(path, chunks, (n_nodes, width), np.float16)
    n_blocks = number + 1
    sums = [sum(total for block, total, _ in statistics if block == i) for i in range(n_blocks)]
    largest = max(size for _, _, size in statistics)
    name = "shuffled circulant"
    write_store_manifest(folder, arrays, sums=np.concatenate(sums), largest=largest, name=name)


def feature_chunks(
    n_nodes: int, width: int, block: int, statistics: list[tuple[int, np.ndarray, float]]
) -> Iterator[np.ndarray]:
    """Normal features of different variance; appends sums and largest sizes to ``statistics``."""
    for begin in range(0, n_nodes, NODES_PER_CHUNK):
        rng = np.random.default_rng((block, begin))
        n = min(NODES_PER_CHUNK, n_nodes - begin)
        X = rng.standard_normal((n, width), dtype=np.float32)
        X *= np.linspace(2, 1, width, dtype=np.float32) / (1 + block)
        stored = X.astype(np.float16)
        statistics.append((block, column_sums(stored), checked_size(stored)))
        yield stored
