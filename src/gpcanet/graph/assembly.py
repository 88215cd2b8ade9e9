"""Entries of a graph -> checked, merged, symmetric CSR arrays.

Peak memory matters here: the positions of 62 million edges take half a gigabyte. Unweighted
entries therefore carry one byte each, and no step copies the entries to drop a few of them.
"""

from __future__ import annotations

import warnings
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..errors import InputError, InputTypeError
from .node_ids import id_array, unique_ids

#: Node positions are stored as int32.
MAX_NODES = np.iinfo(np.int32).max


class GraphWarning(UserWarning):
    """The graph is valid, but may not be what the user meant.

    Examples
    --------
    >>> import warnings
    >>> from gpcanet import Graph, GraphWarning
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", GraphWarning)
    ...     Graph([[0, 1], [0, 0]])  # a directed edge
    Graph(n_nodes=2, n_edges=1, weighted=False)
    """


class Entries(NamedTuple):
    """Entries of an adjacency matrix, or undirected edges.

    ``weights`` is None if all entries have weight 1. If ``undirected``, the order of the two
    ends of an entry has no meaning.
    """

    rows: np.ndarray
    columns: np.ndarray
    weights: np.ndarray | None
    n_nodes: int
    node_ids: Any = None
    undirected: bool = False


def assemble(entries: Entries, *, symmetric_source: str | None = None) -> dict[str, Any]:
    """Return the attributes of a Graph, by the rules in the docstring of graph.py.

    ``symmetric_source`` names an input that should list both directions of every edge; if it
    does not, a GraphWarning is issued.
    """
    n_nodes, node_ids, undirected = entries.n_nodes, entries.node_ids, entries.undirected
    forward, self_loops, repeated, zeros = _merge_repeated(entries)
    del entries  # frees memory for the next step
    n_forward = forward.nnz
    matrix, one_way, unequal = _join_directions(forward)
    if symmetric_source and (one_way or unequal):
        reason = "weights differ by direction"
        if one_way:
            reason = f"{count_of(one_way, 'edge')} in one direction only"
        warnings.warn(
            f"the {symmetric_source} is directed ({reason}); it was made undirected, and each edge "
            f"has the larger weight of its two directions",
            GraphWarning,
            stacklevel=3,
        )
    ids = None if node_ids is None else unique_ids(node_ids)
    if ids is not None and len(ids) != n_nodes:
        raise InputError(f"{len(ids)} node_ids for {n_nodes} nodes; give one id per node")
    rule = "merged"
    if undirected and matrix.dtype == bool:
        # Listing both directions of an edge does not count as repeating it.
        repeated = max(0, repeated + n_forward - matrix.nnz)
    elif undirected:
        rule = "merged (largest weight kept)"
    changes = [
        (self_loops, "self-loop", "dropped"),
        (repeated, "repeated edge", rule),
        (one_way if symmetric_source else 0, "one-way edge", "made two-way"),
        (unequal, "weight", "raised to that of the other direction"),
        (zeros, "edge", "of weight 0 dropped"),
    ]
    indptr, indices, weights = csr_arrays(matrix)
    arrays = {"indptr": indptr, "indices": indices, "weights": weights}
    return {**arrays, "node_ids": ids, "_changes": changes}


def _merge_repeated(entries: Entries) -> tuple[sp.csr_array, int, int, int]:
    """Rules 1 to 3: a matrix of distinct entries, and the number of self-loops, repeats and zeros.

    The matrix is boolean if the entries have no weights.
    """
    check_entries(entries)
    weights, shape = entries.weights, (int(entries.n_nodes),) * 2
    # With int64 positions scipy would use int64 indices in every matrix below.
    rows, columns = (ends.astype(np.int32, copy=False) for ends in entries[:2])
    kept = rows != columns
    self_loops = len(kept) - int(np.count_nonzero(kept))
    # Self-loops become zeros, which eliminate_zeros drops in place.
    values = kept if weights is None else np.where(kept, weights, 0).astype(np.float64, copy=False)
    n_values = int(np.count_nonzero(values))
    if entries.undirected and weights is not None:
        rows, columns = np.minimum(rows, columns), np.maximum(rows, columns)
        rows, columns, values = _keep_largest(rows, columns, values)
    matrix = sp.coo_array((values, (rows, columns)), shape=shape).tocsr()
    matrix.eliminate_zeros()
    return matrix, self_loops, n_values - matrix.nnz, len(kept) - self_loops - n_values


def _keep_largest(
    rows: np.ndarray, columns: np.ndarray, values: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Each (row, column) once, with the largest of its values."""
    order = np.lexsort((values, columns, rows))
    rows, columns, values = rows[order], columns[order], values[order]
    last = np.ones(len(rows), bool)
    last[:-1] = (rows[1:] != rows[:-1]) | (columns[1:] != columns[:-1])
    return rows[last], columns[last], values[last]


def _join_directions(forward: sp.csr_array) -> tuple[sp.csr_array, int, int]:
    """Rule 4: the symmetric matrix, and the number of one-way entries and of unequal weights."""
    if not np.all(np.isfinite(forward.data)):
        raise InputError("weights of repeated edges add up to infinity; scale them down")
    backward = forward.T.tocsr()
    if not (
        np.array_equal(forward.indptr, backward.indptr)
        and np.array_equal(forward.indices, backward.indices)
    ):
        both = forward.maximum(backward)
        return both, both.nnz - forward.nnz, 0
    unequal = int(np.count_nonzero(forward.data < backward.data))
    if unequal:
        np.maximum(forward.data, backward.data, out=forward.data)
    return forward, 0, unequal


def csr_arrays(matrix: sp.csr_array) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """indptr, indices and weights of a symmetric matrix, as a Graph stores them."""
    unweighted = matrix.dtype == bool or np.all(matrix.data == 1)
    # Fixed dtypes, so that the compiled kernels need one signature only.
    return (
        matrix.indptr.astype(np.int64, copy=False),
        matrix.indices.astype(np.int32, copy=False),
        None if unweighted else matrix.data,
    )


def check_entries(entries: Entries) -> None:
    """Raise unless these entries can be a graph."""
    rows, columns, weights, n_nodes, node_ids, _ = entries
    if not isinstance(n_nodes, Integral):
        raise InputTypeError(f"n_nodes={n_nodes!r} must be an integer")
    for ends in (rows, columns):
        if len(ends) and (ends.min() < 0 or ends.max() >= n_nodes):
            worst = ends.min() if ends.min() < 0 else ends.max()
            raise InputError(
                f"node {worst} is out of range; with n_nodes={n_nodes} positions go from 0 to "
                f"{n_nodes - 1}"
            )
    if n_nodes < 1:
        raise InputError("the graph has no nodes; at least 1 is needed")
    if n_nodes > MAX_NODES:
        raise InputError(
            f"n_nodes={n_nodes} must be at most {MAX_NODES}, as positions are stored as int32; "
            f"use a subgraph"
        )
    if weights is None:
        return
    if weights.shape != rows.shape:
        raise InputError(
            f"weights of shape {weights.shape} must have one value for each of {len(rows)} edges"
        )
    if not is_real(weights.dtype):
        raise InputTypeError(
            f"weights of dtype {weights.dtype} must be real numbers; convert them or leave them out"
        )
    wrong = ~(np.isfinite(weights) & (weights >= 0))
    if wrong.any():
        first = int(np.argmax(wrong))
        edge = [rows[first], columns[first]]
        if node_ids is not None:
            edge = id_array(node_ids)[edge].tolist()
        raise InputError(
            f"weight {weights[first]} of edge ({edge[0]}, {edge[1]}) must be finite "
            f"and at least 0 ({wrong.sum()} of {len(wrong)} weights); drop or correct these edges"
        )


def is_real(dtype: np.dtype) -> bool:
    return dtype.kind in "biuf"


def count_of(n: int, noun: str, plural: str | None = None) -> str:
    return f"{n:,} {noun if n == 1 else plural or noun + 's'}"
