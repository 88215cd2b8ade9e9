"""Entries of a graph, checked and brought to its one form, and the ids of its nodes.

Both directions of 62 million edges are half a gigabyte of positions, so what the steps below hold
at a time matters: a byte beside each position where edges have no weights, and never a copy that
only drops a few entries.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from .errors import InputError, InputTypeError

MOST_NODES = np.iinfo(np.int32).max


class GraphWarning(UserWarning):
    """The graph was legal, but perhaps not what was meant."""


class Entries(NamedTuple):
    """Positions of both ends and the weight of each entry; weights None for all ones.

    ``undirected`` entries are edges: the order of their ends means nothing.
    """

    rows: np.ndarray
    columns: np.ndarray
    weights: np.ndarray | None
    n_nodes: int
    node_ids: Any = None
    undirected: bool = False


def assemble(entries: Entries, *, directed: str | None = None) -> dict[str, Any]:
    """The attributes of a Graph, by the rules at the head of graph.py.

    ``directed`` names a source that ought to hold both directions, and warns if it does not.
    """
    undirected = entries.undirected
    n_nodes, node_ids = entries.n_nodes, entries.node_ids
    if not isinstance(n_nodes, Integral):
        raise InputTypeError(f"n_nodes={n_nodes!r} must be an integer")
    merged = _merge_repeated(entries)
    del entries  # joining needs their memory
    joined = _join_directions(merged.matrix)
    if directed and (joined.one_way or joined.unequal):
        what = "weights differ by direction"
        if joined.one_way:
            what = f"{count_of(joined.one_way, 'edge')} in one direction only"
        warnings.warn(
            f"the {directed} is directed ({what}); it was made undirected by joining both "
            f"directions, the larger weight counting",
            GraphWarning,
            stacklevel=3,
        )
    ids = None if node_ids is None else unique_ids(node_ids)
    if ids is not None and len(ids) != n_nodes:
        raise InputError(f"{len(ids)} node_ids for {n_nodes} nodes; give one id per node")
    repeated, rule = merged.repeated, "merged"
    if undirected and joined.matrix.dtype == bool:
        # A list of both directions repeats no edge.
        repeated = max(0, merged.repeated + merged.matrix.nnz - joined.matrix.nnz)
    elif undirected:
        rule = "merged (largest weight kept)"
    changes = [
        (merged.self_loops, "self-loop", "dropped"),
        (repeated, "repeated edge", rule),
        (joined.one_way if directed else 0, "one-way edge", "made two-way"),
        (joined.unequal, "weight", "raised to that of the other direction"),
        (merged.zeros, "edge", "of weight 0 dropped"),
    ]
    indptr, indices, weights = csr_arrays(joined.matrix)
    arrays = {"indptr": indptr, "indices": indices, "weights": weights}
    return {**arrays, "node_ids": ids, "_changes": changes}


class OneWay(NamedTuple):
    """Entries with both directions still apart, no two alike, and what was left out for it."""

    matrix: sp.csr_array  # of booleans, where the entries had no weights
    self_loops: int
    repeated: int
    zeros: int  # entries of weight 0


class Joined(NamedTuple):
    """A symmetric matrix, and how many entries had to change for it."""

    matrix: sp.csr_array
    one_way: int
    unequal: int


def _merge_repeated(entries: Entries) -> OneWay:
    """Rules 1 to 3: no loops, no zeros, no repeated entries."""
    rows, columns, weights = entries.rows, entries.columns, entries.weights
    n_nodes = int(entries.n_nodes)
    check_entries(entries)
    # scipy would take over 8-byte positions for every matrix below.
    rows, columns = (ends.astype(np.int32, copy=False) for ends in (rows, columns))
    kept = rows != columns
    self_loops = len(kept) - int(np.count_nonzero(kept))
    # Loops become zeros, which the matrix then drops in place.
    values = kept if weights is None else np.where(kept, weights, 0).astype(np.float64, copy=False)
    n_values = int(np.count_nonzero(values))
    if entries.undirected and weights is not None:
        rows, columns = np.minimum(rows, columns), np.maximum(rows, columns)
        rows, columns, values = _largest_of_repeated(rows, columns, values)
    matrix = sp.coo_array((values, (rows, columns)), shape=(n_nodes, n_nodes)).tocsr()
    matrix.eliminate_zeros()
    return OneWay(matrix, self_loops, n_values - matrix.nnz, len(kept) - self_loops - n_values)


def _largest_of_repeated(
    rows: np.ndarray, columns: np.ndarray, values: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Each place once, with the largest of its values."""
    order = np.lexsort((columns, rows))
    rows, columns, values = rows[order], columns[order], values[order]
    is_new = np.ones(len(rows), bool)
    is_new[1:] = (rows[1:] != rows[:-1]) | (columns[1:] != columns[:-1])
    if is_new.all():
        return rows, columns, values
    first = np.flatnonzero(is_new)
    return rows[first], columns[first], np.maximum.reduceat(values, first)


def _join_directions(forward: sp.csr_array) -> Joined:
    """Rule 4: the larger weight of the two directions."""
    if not np.all(np.isfinite(forward.data)):
        raise InputError("weights of repeated edges add up to infinity; scale them down")
    backward = forward.T.tocsr()
    if not _have_equal_pattern(forward, backward):
        both = forward.maximum(backward)
        return Joined(both, both.nnz - forward.nnz, 0)
    unequal = int(np.count_nonzero(forward.data < backward.data))
    if unequal:
        np.maximum(forward.data, backward.data, out=forward.data)
    return Joined(forward, 0, unequal)


def _have_equal_pattern(one: sp.csr_array, other: sp.csr_array) -> bool:
    return np.array_equal(one.indptr, other.indptr) and np.array_equal(one.indices, other.indices)


def csr_arrays(matrix: sp.csr_array) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """indptr, indices and weights that a Graph keeps of a symmetric matrix."""
    unweighted = matrix.dtype == bool or np.all(matrix.data == 1)
    # One dtype each, so that one compiled kernel serves every graph.
    return (
        matrix.indptr.astype(np.int64, copy=False),
        matrix.indices.astype(np.int32, copy=False),
        None if unweighted else matrix.data,
    )


def check_entries(entries: Entries) -> None:
    """Raise unless these entries can be a graph."""
    rows, columns, weights, n_nodes, node_ids, _ = entries
    for ends in (rows, columns):
        if len(ends) and (ends.min() < 0 or ends.max() >= n_nodes):
            worst = ends.min() if ends.min() < 0 else ends.max()
            raise InputError(
                f"node {worst} is out of range; with n_nodes={n_nodes} positions go from 0 to "
                f"{n_nodes - 1}"
            )
    if n_nodes < 1:
        raise InputError("the graph has no nodes; at least 1 is needed")
    if n_nodes > MOST_NODES:
        raise InputError(
            f"n_nodes={n_nodes} must be at most {MOST_NODES}, as positions are kept in 4 bytes; "
            f"take a part of the graph"
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
            f"and at least 0 ({wrong.sum()} of {len(wrong)} weights); drop or mend these edges"
        )


def check_positions(nodes: Any, n_nodes: int) -> np.ndarray:
    """Distinct positions of nodes in a graph."""
    nodes = np.asarray(nodes)
    if nodes.ndim != 1:
        raise InputError(f"nodes of shape {nodes.shape} must be a list of positions")
    if len(nodes) == 0:
        raise InputError("nodes is empty; name at least one node")
    if not np.issubdtype(nodes.dtype, np.integer):
        raise InputTypeError(
            f"nodes of dtype {nodes.dtype} must be integer positions in the graph; use "
            f"graph.positions for ids and np.flatnonzero for a mask"
        )
    if nodes.min() < 0 or nodes.max() >= n_nodes:
        worst = nodes.min() if nodes.min() < 0 else nodes.max()
        raise InputError(
            f"node {worst} is out of range for a graph of {n_nodes} nodes; positions go from 0 to "
            f"{n_nodes - 1}"
        )
    distinct, counts = np.unique(nodes, return_counts=True)
    if len(distinct) < len(nodes):
        raise InputError(
            f"nodes names node {distinct[np.argmax(counts)]} more than once; name each node once"
        )
    return nodes


def is_real(dtype: np.dtype) -> bool:
    return dtype.kind in "biuf"


def count_of(n: int, what: str) -> str:
    return f"{n:,} {what}{'' if n == 1 else 's'}"


# -- node ids ---------------------------------------------------------------------------------


def id_array(names: Iterable[Any]) -> np.ndarray:
    """Names as an array that keeps each of them as it is.

    numpy would cut tuples open, turn the 1 of [1, "a"] into text, and large integers of two
    types into floats that are no longer distinct; such names go into an array of objects.
    """
    if isinstance(names, np.ndarray) and names.ndim == 1:
        return names
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise InputTypeError(f"node ids of type {type(names).__name__} must be a list of ids")
    names = list(names)
    try:
        ids = np.asarray(names)
    except ValueError:  # tuples of several lengths
        ids = np.empty(0)
    changed = (ids.dtype.kind == "U" and not all(isinstance(name, str) for name in names)) or (
        ids.dtype.kind == "f" and all(isinstance(name, Integral) for name in names)
    )
    if ids.shape != (len(names),) or changed:
        ids = np.empty(len(names), object)
        ids[:] = names
    return ids


def join_ids(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Both one after the other, text and numbers each kept as they are."""
    kinds = {first.dtype.kind, second.dtype.kind}
    if kinds == {"i", "u"} or ("U" in kinds and len(kinds) > 1):
        first, second = first.astype(object), second.astype(object)
    return np.concatenate([first, second])


def unique_ids(names: Iterable[Any]) -> np.ndarray:
    """A copy of the names as an array; raises if one occurs twice or is missing."""
    ids = id_array(names).copy()
    distinct, codes = factorize(ids)
    if len(distinct) < len(ids):
        twice = distinct[[np.argmax(np.bincount(codes))]].tolist()[0]
        raise InputError(f"node id {twice!r} occurs more than once; ids must be unique")
    return ids


def factorize(ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Distinct ids and the code of each id. Text and numbers are sorted, others as they come."""
    missing = _is_missing(ids)
    if missing.any():
        row = int(np.argmax(missing))
        raise InputError(f"node id {ids[row]} at position {row} is missing; drop or name that node")
    if ids.dtype != object:
        return np.unique(ids, return_inverse=True)
    names = list(dict.fromkeys(ids.tolist()))
    if all(isinstance(name, str) for name in names) or all(
        isinstance(name, Integral) for name in names
    ):
        names.sort()
    position = {name: i for i, name in enumerate(names)}
    distinct = np.empty(len(names), object)
    distinct[:] = names
    return distinct, np.fromiter((position[name] for name in ids), np.int64, len(ids))


def _is_missing(ids: np.ndarray) -> np.ndarray:
    if ids.dtype != object:
        return ids != ids  # NaN, NaT
    return np.fromiter((is_missing(name) for name in ids), bool, len(ids))


def is_missing(value: Any) -> bool:
    """Whether a value is None, NaN, NaT or pandas' NA."""
    try:
        return value is None or bool(value != value)
    except TypeError:  # pandas' NA has no truth value
        return True


def find_positions(known: np.ndarray, ids: np.ndarray, asker: str, holder: str) -> np.ndarray:
    """Where each id is among the known ones."""
    if known.dtype.kind == ids.dtype.kind != "O" and len(known):
        order = np.argsort(known)
        slots = np.searchsorted(known, ids, sorter=order)
        found = order[np.minimum(slots, len(known) - 1)]
        found = np.where(known[found] == ids, found, -1)
    else:
        position = {name: i for i, name in enumerate(known.tolist())}
        found = np.fromiter((position.get(name, -1) for name in ids.tolist()), np.int64, len(ids))
    if np.any(found < 0):
        unknown = ids[[np.argmax(found < 0)]].tolist()[0]
        raise InputError(f"node id {unknown!r} in {asker} is not in {holder}; add it or drop it")
    return found
