"""Node ids: arrays that keep every id unchanged, and the positions of ids in a graph."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from datetime import date, timedelta
from numbers import Integral
from typing import Any

import numpy as np

from ..errors import InputError, InputTypeError
from ..utils.checks import as_array
from ..utils.labels import is_missing

#: Floats represent all integers up to this one exactly.
EXACT = 2**53


def check_positions(nodes: Any, n_nodes: int) -> np.ndarray:
    """Return a copy of ``nodes`` as an array of distinct node positions, or raise."""
    nodes = as_array(nodes, "nodes").copy()
    if nodes.ndim != 1:
        raise InputError(f"nodes of shape {nodes.shape} must be a list of positions")
    if len(nodes) == 0:
        raise InputError("nodes is empty; give at least one node")
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
            f"nodes has node {distinct[np.argmax(counts)]} more than once; give each node once"
        )
    return nodes


def id_array(ids: Iterable[Any]) -> np.ndarray:
    """Return the ids as an array that keeps each of them unchanged.

    numpy would split tuples, turn the 1 of [1, "a"] into text, and convert large integers of two
    types to floats that are no longer distinct; such ids go into an object array. So do dates
    and times, as Python objects: only these compare equal to the values of a pandas index.
    """
    if isinstance(ids, np.ndarray) and ids.ndim == 1:
        if ids.dtype.kind in "mM":
            return ids.astype(f"{ids.dtype.kind}8[us]").astype(object)
        return ids
    if isinstance(ids, str) or not isinstance(ids, Iterable):
        raise InputTypeError(f"node ids of type {type(ids).__name__} must be a list of ids")
    listed = list(ids)
    try:
        array = np.asarray(listed)
    except ValueError:  # tuples of several lengths
        array = np.empty(0)
    kind = array.dtype.kind
    changed = (kind == "U" and not all(isinstance(name, str) for name in listed)) or (
        kind == "f" and any(isinstance(one, Integral) and abs(int(one)) > EXACT for one in listed)
    )
    if array.shape != (len(listed),) or changed:
        return object_array(listed)
    return id_array(array) if kind in "mM" else array


def object_array(items: list[Any]) -> np.ndarray:
    array = np.empty(len(items), object)
    array[:] = items
    return array


def join_ids(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Concatenate two arrays of ids without converting text to numbers or the reverse.

    Integers become floats only if all of them can be represented.
    """
    kinds = {first.dtype.kind, second.dtype.kind}
    inexact = "f" in kinds and any(
        ids.dtype.kind in "iu" and (ids.max(initial=0) > EXACT or ids.min(initial=0) < -EXACT)
        for ids in (first, second)
    )
    if kinds == {"i", "u"} or inexact or ("U" in kinds and len(kinds) > 1):
        first, second = first.astype(object), second.astype(object)
    return np.concatenate([first, second])


def unique_ids(ids: Iterable[Any]) -> np.ndarray:
    """Return a copy of the ids as an array; raise if one is repeated or missing."""
    array = id_array(ids).copy()
    distinct, codes = factorize(array)
    if len(distinct) < len(array):
        repeated = distinct[[np.argmax(np.bincount(codes))]].tolist()[0]
        raise InputError(f"node id {repeated!r} occurs more than once; ids must be unique")
    return array


def factorize(ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct ids and the code of each id.

    Text, numbers and dates are sorted; ids of mixed types keep their order of appearance.
    """
    if ids.dtype != object:
        missing = ids != ids  # NaN
    else:
        missing = np.fromiter((is_missing(name) for name in ids), bool, len(ids))
    if missing.any():
        row = int(np.argmax(missing))
        raise InputError(f"node id {ids[row]} at position {row} is missing; drop or name that node")
    if ids.dtype != object:
        return np.unique(ids, return_inverse=True)
    distinct = list(dict.fromkeys(ids.tolist()))
    for kind in (str, Integral, date, timedelta):
        if all(isinstance(name, kind) for name in distinct):
            with suppress(TypeError):  # dates with and without time or zone do not compare
                distinct = sorted(distinct)
    position = {name: i for i, name in enumerate(distinct)}
    codes = np.fromiter((position[name] for name in ids), np.int64, len(ids))
    return object_array(distinct), codes


def find_positions(
    known: np.ndarray, ids: np.ndarray, ids_name: str, known_name: str
) -> np.ndarray:
    """Return the position of each id in ``known``; raise if one is not there."""
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
        raise InputError(
            f"node id {unknown!r} in {ids_name} is not in {known_name}; add it or drop it"
        )
    return found
