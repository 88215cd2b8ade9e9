"""Several files as one table: folders, patterns, and partitioned Parquet."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa

from ..errors import DataError
from .id_columns import CANONICAL_INTEGER
from .paths import files_in, is_several_files, partition_values
from .tables import Table, decoded, read_one_table

#: Name of the folder in which Hive and Spark store rows without a value.
NO_VALUE = "__HIVE_DEFAULT_PARTITION__"


def read_table(
    path: Path, *, as_text: Callable[[str], bool], header_may_be_numbers: bool = False
) -> Table:
    """Read CSV, TSV or Parquet: a file, all files of a folder, or those of a pattern.

    Files are joined in the order of their names and must have the same columns. Folders such as
    ``year=2020`` give a column with these values. The other parameters are those of
    ``read_one_table``.
    """
    if not is_several_files(path):
        return read_one_table(path, as_text=as_text, header_may_be_numbers=header_may_be_numbers)
    files = files_in(path)
    parts = [
        read_one_table(file, as_text=as_text, header_may_be_numbers=header_may_be_numbers)
        for file in files
    ]
    values = [partition_values(path, file) for file in files]
    names = list(dict.fromkeys(name for found in values for name in found))
    for name in names:
        missing = next((f for f, found in zip(files, values, strict=True) if name not in found), "")
        if missing:
            raise DataError(f"{missing} is not in a folder {name}=..., unlike others of {path}")
        if any(name in part.names for part in parts):
            raise DataError(f"{path}: {name!r} is a column and a folder {name}=...; rename one")
    return JoinedTable(path, parts, _partition_columns(names, values, parts, as_text))


class JoinedTable(Table):
    """The rows of several tables, each with its place in its own file."""

    def __init__(self, path: Path, parts: list[Table], further: dict[str, Any]) -> None:
        first = parts[0]
        for part in parts[1:]:
            _check_same_columns(first, part)
        columns = {name: _join([part.column(name) for part in parts]) for name in first.names}
        super().__init__(
            path,
            pa.table(columns | further),
            has_header=first.has_header if first.is_text else None,
            starts_with_numbers=first.starts_with_numbers,
            index_names=first.index_names,
            unnamed_index=first.unnamed_index,
            has_lost_index=any(part.has_lost_index for part in parts),
        )
        self.parts = parts
        self._ends = np.cumsum([part.n_rows for part in parts])

    def place(self, row: int) -> str:
        number = int(np.searchsorted(self._ends, row, side="right"))
        begin = self._ends[number] - self.parts[number].n_rows
        return self.parts[number].place(int(row - begin))


def _check_same_columns(first: Table, part: Table) -> None:
    if first.has_header != part.has_header:
        with_header, without = (first, part) if first.has_header else (part, first)
        raise DataError(f"{without.path} has no header, unlike {with_header.path}; add it there")
    for one, other in ((part, first), (first, part)):
        known = set(one.names)
        missing = next((name for name in other.names if name not in known), None)
        if missing is not None:
            raise DataError(
                f"{one.path} has no column {missing!r}, unlike {other.path}; all files need the "
                f"same columns"
            )


def _join(columns: list[Any]) -> Any:
    """Columns of several files as one; as text if one file has text and another has numbers."""
    types = {column.type for column in columns}
    if any(map(pa.types.is_dictionary, types)):  # each file has its own categories
        columns = [decoded(column) for column in columns]
        types = {column.type for column in columns}
        joined = pa.chunked_array([c for column in columns for c in column.chunks], *types)
        return joined.dictionary_encode()
    if len(types) > 1:
        try:
            fields = [pa.schema([("", column.type)]) for column in columns]
            common = pa.unify_schemas(fields, promote_options="permissive").field(0).type
        except pa.ArrowException:
            common = pa.string()
        # Arrow refuses to round integers; floats of this size are refused if they are ids.
        is_exact = not pa.types.is_floating(common)
        columns = [column.cast(common, safe=is_exact) for column in columns]
        types = {common}
    return pa.chunked_array([c for column in columns for c in column.chunks], *types)


def _partition_columns(
    names: list[str],
    values: list[dict[str, str]],
    parts: list[Table],
    as_text: Callable[[str], bool],
) -> dict[str, Any]:
    """One column for each name of folders, with integers if all values are integers."""
    columns = {}
    for name in names:
        texts = [None if v[name] == NO_VALUE else unquote(v[name]) for v in values]
        column: Any = pa.array(texts, pa.string())
        is_integer = all(
            t is None or (re.match(CANONICAL_INTEGER, t) and len(t) < 19) for t in texts
        )
        if is_integer and not (parts[0].is_text and as_text(name)):
            column = column.cast(pa.int64())
        columns[name] = column.take(np.repeat(np.arange(len(parts)), [p.n_rows for p in parts]))
    return columns
