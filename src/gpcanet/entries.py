"""What graphs arrive as, taken apart into entries and node ids and checked."""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp


def matrix_entries(
    matrix: Any,
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None, tuple[int, ...]]:
    """Rows, columns, weights (None for all ones) and shape of an adjacency matrix."""
    if is_torch_sparse(matrix):
        coo = matrix.detach().cpu().to_sparse_coo().coalesce()
        _check_matrix(tuple(coo.shape), np.dtype(complex if coo.is_complex() else float))
        entries = (coo.values().double().numpy(), tuple(coo.indices().numpy()))
        matrix = sp.coo_array(entries, shape=tuple(coo.shape))
    elif not sp.issparse(matrix):
        matrix = to_numpy(matrix)
    _check_matrix(matrix.shape, matrix.dtype)
    # In float64 before repeated entries are added up: small integers would overflow.
    csr = sp.csr_array(matrix.astype(bool if matrix.dtype == bool else np.float64))
    csr.sum_duplicates()
    coo = csr.tocoo()
    weights = None if np.all(coo.data == 1) else coo.data
    return coo.row, coo.col, weights, coo.shape


def _check_matrix(shape: tuple[int, ...], dtype: np.dtype) -> None:
    if len(shape) != 2:
        raise ValueError(
            f"adjacency of shape {shape} must have two dimensions; a scipy or dense matrix, or a "
            f"sparse tensor, is taken here, other kinds of graphs by the methods Graph.from_*"
        )
    if not is_real(dtype):
        raise TypeError(f"adjacency of dtype {dtype} must hold real numbers; convert it first")


class Joined(NamedTuple):
    """A symmetric matrix without diagonal, and how many entries had to change for it."""

    matrix: sp.csr_array
    self_loops: int
    repeated: int
    one_way: int
    unequal: int


def join_entries(
    rows: np.ndarray, columns: np.ndarray, weights: np.ndarray | None, n_nodes: int
) -> Joined:
    """Bring entries to the one form of a Graph, by the rules at the head of graph.py."""
    check_entries(rows, columns, weights, n_nodes)
    kept = rows != columns
    self_loops = len(kept) - int(np.count_nonzero(kept))
    if weights is not None:
        kept &= weights != 0
    values = np.ones(len(rows), bool) if weights is None else weights.astype(np.float64)
    if not kept.all():
        values, rows, columns = values[kept], rows[kept], columns[kept]
    forward = sp.coo_array((values, (rows, columns)), shape=(n_nodes, n_nodes)).tocsr()
    both = forward.maximum(forward.T.tocsr()).tocsr()
    both.sort_indices()
    if not np.all(np.isfinite(both.data)):
        raise ValueError("weights of repeated edges add up to infinity; scale them down")
    one_way = both.nnz - forward.nnz
    unequal = 0
    if one_way == 0:  # the same pattern: entries correspond
        unequal = int(np.count_nonzero(forward.sorted_indices().data != both.data))
    return Joined(both, self_loops, len(rows) - forward.nnz, one_way, unequal)


def check_entries(
    rows: np.ndarray, columns: np.ndarray, weights: np.ndarray | None, n_nodes: int
) -> None:
    """Raise unless these entries can be a graph."""
    for ends in (rows, columns):
        if len(ends) and (ends.min() < 0 or ends.max() >= n_nodes):
            worst = ends.min() if ends.min() < 0 else ends.max()
            raise ValueError(
                f"node {worst} is out of range; with n_nodes={n_nodes} positions go from 0 to "
                f"{n_nodes - 1}"
            )
    if n_nodes < 1:
        raise ValueError("the graph has no nodes; at least 1 is needed")
    if weights is None:
        return
    if weights.shape != rows.shape:
        raise ValueError(
            f"weights of shape {weights.shape} must have one value for each of {len(rows)} edges"
        )
    if not is_real(weights.dtype):
        raise TypeError(
            f"weights of dtype {weights.dtype} must be real numbers; convert them or leave them out"
        )
    wrong = ~(np.isfinite(weights) & (weights >= 0))
    if wrong.any():
        first = int(np.argmax(wrong))
        raise ValueError(
            f"weight {weights[first]} of edge ({rows[first]}, {columns[first]}) must be finite "
            f"and at least 0 ({wrong.sum()} of {len(wrong)} weights); drop or mend these edges"
        )


def check_positions(nodes: Any, n_nodes: int) -> np.ndarray:
    """Distinct positions of nodes in a graph."""
    nodes = np.asarray(nodes)
    if nodes.ndim != 1:
        raise ValueError(f"nodes of shape {nodes.shape} must be a list of positions")
    if len(nodes) == 0:
        raise ValueError("nodes is empty; name at least one node")
    if not np.issubdtype(nodes.dtype, np.integer):
        raise TypeError(
            f"nodes of dtype {nodes.dtype} must be integer positions in the graph; use "
            f"graph.positions for ids and np.flatnonzero for a mask"
        )
    if nodes.min() < 0 or nodes.max() >= n_nodes:
        worst = nodes.min() if nodes.min() < 0 else nodes.max()
        raise ValueError(
            f"node {worst} is out of range for a graph of {n_nodes} nodes; positions go from 0 to "
            f"{n_nodes - 1}"
        )
    distinct, counts = np.unique(nodes, return_counts=True)
    if len(distinct) < len(nodes):
        raise ValueError(
            f"nodes names node {distinct[np.argmax(counts)]} more than once; name each node once"
        )
    return nodes


def is_real(dtype: np.dtype) -> bool:
    return dtype.kind in "biuf"


def to_numpy(values: Any) -> np.ndarray:
    """An array of what may be a torch tensor, perhaps on a GPU."""
    if hasattr(values, "detach"):
        values = values.detach().cpu().numpy()
    return np.asarray(values)


def is_torch_sparse(values: Any) -> bool:
    return "sparse" in str(getattr(values, "layout", ""))


# -- node ids ---------------------------------------------------------------------------------


def id_array(names: Iterable[Any]) -> np.ndarray:
    """Names as an array that keeps each of them as it is.

    numpy would cut tuples open, turn the 1 of [1, "a"] into text, and large integers of two
    types into floats that are no longer distinct; such names go into an array of objects.
    """
    if isinstance(names, np.ndarray) and names.ndim == 1:
        return names
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
        raise ValueError(f"node id {twice!r} occurs more than once; ids must be unique")
    return ids


def factorize(ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Distinct ids and the code of each id. Text and numbers are sorted, others as they come."""
    missing = _is_missing(ids)
    if missing.any():
        row = int(np.argmax(missing))
        raise ValueError(f"node id {ids[row]} at position {row} is missing; drop or name that node")
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
        raise ValueError(f"node id {unknown!r} in {asker} is not in {holder}; add it or drop it")
    return found
