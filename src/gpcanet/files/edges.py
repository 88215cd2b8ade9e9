"""Edges between nodes: a table with the ids of both nodes, or a matrix."""

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
from .arrays import ARRAY_SUFFIXES, read_arrays
from .column_roles import check_distinct_columns
from .id_columns import NodeIds, read_ids
from .joined_tables import read_table
from .paths import TABLE_SUFFIXES, suffix_of, wrong_format
from .tables import Table, table_of_arrays


@dataclass(frozen=True)
class Edges:
    """Both nodes of every edge, and weights if there are any."""

    source: NodeIds
    target: NodeIds
    weights: np.ndarray | None
    note: str | None = None  # about columns that are weights or may be


def read_edges(path: Path, source: str, target: str, weight: str | None) -> Edges | sp.csr_array:
    """Read edges by node id, or an adjacency matrix with the same rows as the features."""
    suffix = suffix_of(path)
    if suffix in TABLE_SUFFIXES:
        ends = (source.strip().lower(), target.strip().lower())
        table = read_table(path, as_text=lambda name: name.lower() in ends)
        return _from_table(table, source, target, weight)
    if suffix in ARRAY_SUFFIXES:
        return _from_arrays(path, source, target, weight)
    raise wrong_format(path, "edges", (*TABLE_SUFFIXES, *ARRAY_SUFFIXES))


def _from_table(table: Table, source: str, target: str, weight: str | None) -> Edges:
    if not table.has_header:
        # Without a header, the columns are source, target and perhaps weight.
        if named := _named(source, target, weight):
            raise DataError(
                f"{table.path} has no header, and therefore no column {named[0]!r}; add a header "
                f"or leave out the names of columns"
            )
        if len(table.names) not in (2, 3):
            raise DataError(
                f"{table.path} has {len(table.names)} columns and no header; give two or three "
                f"columns, or a header with {source!r} and {target!r}"
            )
        source, target, *rest = table.names
        weight = rest[0] if rest else None
    elif table.is_text:  # its names have no white space around them
        source, target = source.strip(), target.strip()
        weight = None if weight is None else weight.strip()
    source, target = _find_end(table, source), _find_end(table, target)
    try:
        check_distinct_columns({"source": source, "target": target, "weight": weight})
    except InputError as error:
        raise DataError(f"{table.path}: {error}") from None
    weight = weight or _find_weight(table.path, table.names)
    weights = None if weight is None else table.numbers(weight)
    ends = read_ids(table, source), read_ids(table, target)
    if weights is not None:
        _check_weights(table, weights)
        note = None
        if not table.has_header:
            note = f"{table.path} has no header: its columns are source, target and weight"
        return Edges(*ends, weights, note)
    used = (source, target, *table.index_names)
    unused = [name for name in table.names if name not in used]
    return Edges(*ends, None, _numeric_columns_note(table, unused))


def _find_end(table: Table, name: str) -> str:
    """The column of this name, if necessary in upper or lower case."""
    alike = [other for other in table.names if other.lower() == name.lower()]
    if name not in alike and len(alike) == 1:
        return alike[0]
    table.column(name, "; give the names of the source and the target column")
    return name


def _find_weight(path: Path, names: Sequence[str]) -> str | None:
    try:
        return find_weight_column(names)
    except InputError as error:
        raise DataError(f"{path}: {error}") from None


def _numeric_columns_note(table: Table, unused: list[str]) -> str | None:
    """A sentence about unused numeric columns, which may be weights."""
    types = {name: table.column(name).type for name in unused}
    numeric = [n for n, t in types.items() if pa.types.is_integer(t) or pa.types.is_floating(t)]
    if not numeric:
        return None
    names = ", ".join(map(repr, numeric))
    return f"{table.path}: column {names} is not used; name it if it contains edge weights"


def _named(source: str, target: str, weight: str | None) -> list[str]:
    """The columns that are not the default ones."""
    columns = (source, "source"), (target, "target"), (weight, None)
    return [name for name, default in columns if name is not None and name != default]


def _from_arrays(path: Path, source: str, target: str, weight: str | None) -> Edges | sp.csr_array:
    arrays = read_arrays(path)
    only: Any = arrays.get("")
    named = _named(source, target, weight)
    if named and only is not None:
        raise DataError(
            f"{path} has no names, and therefore no array {named[0]!r}; leave out the names"
        )
    if sp.issparse(only):
        if only.shape[0] != only.shape[1]:
            raise DataError(f"{path}: the adjacency matrix of shape {only.shape} must be square")
        return only
    pairs = None if _named(source, target, None) else arrays.get("edge_index", only)
    if pairs is not None:
        if pairs.ndim != 2 or 2 not in pairs.shape or pairs.dtype.kind not in "iu":
            raise DataError(
                f"{path}: edges of shape {pairs.shape} and dtype {pairs.dtype} must be two rows "
                f"of integers, the positions of the nodes"
            )
        ends = pairs if pairs.shape[0] == 2 else pairs.T
    elif {source, target} <= set(arrays):
        ends = arrays[source], arrays[target]
    else:
        raise DataError(
            f"{path} must contain edge_index, or {source} and {target}, or a sparse matrix; it "
            f"contains {', '.join(map(repr, arrays))}"
        )
    if weight and weight not in arrays:
        raise DataError(
            f"{path} has no array {weight!r}; name one of {', '.join(map(repr, arrays))}"
        )
    found = weight or _find_weight(path, list(arrays))
    columns = {"source": ends[0], "target": ends[1]}
    if found:
        columns["weight"] = arrays[found]
    sizes = {name: np.shape(array) for name, array in columns.items()}
    if len(set(sizes.values())) > 1 or len(sizes["source"]) != 1:
        raise DataError(f"{path}: arrays have shapes {sizes}, but must have one value per edge")
    edges = _from_table(table_of_arrays(path, columns), "source", "target", None)
    if pairs is None:
        return edges
    first, second = (replace(ids, are_positions=True) for ids in (edges.source, edges.target))
    return replace(edges, source=first, target=second)


def check_adjacency(path: Path, matrix: sp.csr_array) -> None:
    """Raise unless all weights are finite and non-negative."""
    if matrix.dtype.kind not in "fiub":
        raise DataError(f"{path}: weights of dtype {matrix.dtype} must be real numbers")
    wrong = ~(np.isfinite(matrix.data) & (matrix.data >= 0))
    if wrong.any():
        entries, first = matrix.tocoo(), int(np.argmax(wrong))
        raise DataError(
            f"{path}: weight {matrix.data[first]} of edge ({entries.row[first]}, "
            f"{entries.col[first]}) must be finite and at least 0; correct or remove this edge"
        )


def _check_weights(table: Table, weights: np.ndarray) -> None:
    wrong = ~(np.isfinite(weights) & (weights >= 0))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise DataError(
            f"{table.place(row)}: weight {weights[row]} must be finite and at least 0; correct or "
            f"remove this edge"
        )
