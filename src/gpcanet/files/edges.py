"""Edges between nodes: a table with the ids of both ends, or a matrix."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from ..errors import DataError, InputError
from ..graph.conversion import find_weight_column
from .ids import Ids, read_ids
from .matrices import MATRIX_SUFFIXES, read_arrays
from .tables import TABLE_SUFFIXES, Table, read_table, suffix_of, table_of_arrays


@dataclass(frozen=True)
class Edges:
    """Both ends of every edge, row by row, and weights if there are any."""

    source: Ids
    target: Ids
    weights: np.ndarray | None
    note: str | None = None  # about a column that was left out


def read_edges(path: Path, source: str, target: str, weight: str | None) -> Edges | sp.csr_array:
    """Edges by id, or an adjacency matrix whose rows are those of the features."""
    suffix = suffix_of(path)
    if suffix in TABLE_SUFFIXES:
        return _from_table(
            read_table(path, as_text=lambda name: name in (source, target)), source, target, weight
        )
    if suffix in MATRIX_SUFFIXES:
        return _from_arrays(path, weight)
    raise DataError(
        f"{path}: edges come as {', '.join((*TABLE_SUFFIXES, *MATRIX_SUFFIXES))}, not "
        f"{suffix or 'without a suffix'}"
    )


def _from_table(table: Table, source: str, target: str, weight: str | None) -> Edges:
    if not table.has_header:
        # Pairs of numbers without a header: the ends, and perhaps a weight, in this order.
        if len(table.names) not in (2, 3):
            raise DataError(
                f"{table.path} has {len(table.names)} columns and no header; edges need two or "
                f"three, or a header with {source!r} and {target!r}"
            )
        source, target, *rest = table.names
        weight = rest[0] if rest else None
    weight = weight or _find_weight(table.path, table.names)
    weights = None if weight is None else table.numbers(weight)
    ends = read_ids(table, source), read_ids(table, target)
    if weights is not None:
        _check_weights(table, weights)
        return Edges(*ends, weights)
    apart = (source, target, *table.index_names)
    unused = [name for name in table.names if name not in apart]
    return Edges(*ends, None, _note_on_numbers(table, unused))


def _find_weight(path: Path, names: Sequence[str]) -> str | None:
    try:
        return find_weight_column(names)
    except InputError as error:
        raise DataError(f"{path}: {error}") from None


def _note_on_numbers(table: Table, unused: list[str]) -> str | None:
    """A sentence about other columns of numbers, which may hold weights."""
    numeric = [name for name in unused if _is_numeric(table.column(name).type)]
    if not numeric:
        return None
    named = ", ".join(map(repr, numeric))
    return f"{table.path}: column {named} was left out; name it if it holds edge weights"


def _is_numeric(kind: Any) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _from_arrays(path: Path, weight: str | None) -> Edges | sp.csr_array:
    arrays = read_arrays(path)
    only: Any = arrays.get("")
    if sp.issparse(only):
        if only.shape[0] != only.shape[1]:
            raise DataError(f"{path}: an adjacency of shape {only.shape} must be square")
        return only
    pairs = arrays.get("edge_index", only)
    if pairs is not None:
        if pairs.ndim != 2 or 2 not in pairs.shape or pairs.dtype.kind not in "iu":
            raise DataError(
                f"{path}: edges of shape {pairs.shape} and dtype {pairs.dtype} must be two rows "
                f"of integers, the positions of nodes"
            )
        ends = pairs if pairs.shape[0] == 2 else pairs.T
    elif {"source", "target"} <= set(arrays):
        ends = arrays["source"], arrays["target"]
    else:
        raise DataError(
            f"{path} must hold edge_index, or source and target, or a sparse matrix; it has "
            f"{', '.join(map(repr, arrays))}"
        )
    if weight and weight not in arrays:
        raise DataError(f"{path} has no array {weight!r}")
    found = weight or _find_weight(path, list(arrays))
    columns = {"source": ends[0], "target": ends[1]}
    if found:
        columns["weight"] = arrays[found]
    sizes = {name: np.shape(array) for name, array in columns.items()}
    if len(set(sizes.values())) > 1 or len(sizes["source"]) != 1:
        raise DataError(f"{path}: arrays of shapes {sizes} must be of one length, one per edge")
    edges = _from_table(table_of_arrays(path, columns), "source", "target", None)
    if pairs is None:
        return edges
    source, target = (replace(ids, are_rows=True) for ids in (edges.source, edges.target))
    return replace(edges, source=source, target=target)


def check_adjacency(path: Path, matrix: sp.csr_array) -> None:
    """Raise unless all weights are finite and at least 0."""
    if matrix.dtype.kind not in "fiub":
        raise DataError(f"{path}: weights of dtype {matrix.dtype} must be real numbers")
    wrong = ~(np.isfinite(matrix.data) & (matrix.data >= 0))
    if wrong.any():
        entries, first = matrix.tocoo(), int(np.argmax(wrong))
        raise DataError(
            f"{path}: weight {matrix.data[first]} of edge ({entries.row[first]}, "
            f"{entries.col[first]}) must be finite and at least 0; drop or mend this edge"
        )


def _check_weights(table: Table, weights: np.ndarray) -> None:
    wrong = ~(np.isfinite(weights) & (weights >= 0))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise DataError(
            f"{table.place(row)}: weight {weights[row]} must be finite and at least 0; drop or "
            f"mend this edge"
        )
