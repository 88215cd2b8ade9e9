"""Node ids of several files, converted to one type and looked up in each other.

An id is an integer or text. Parquet and npz files state the type. Ids of a CSV are integers only
if all ids of all files are integers in canonical form: 007 stays text. A column in which all end in
``.0``, as pandas writes integers that it has read as floats, counts as integers, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..errors import DataError
from ..utils.messages import quoted
from .tables import Table, decoded

#: An integer in canonical form: reading and writing does not change it.
CANONICAL_INTEGER = r"^(0|-?[1-9][0-9]{0,18})$"

LARGEST_INTEGER = str(2**63 - 1)

#: An integer of this size or more, written as a float64, may have been rounded.
ROUNDED_FROM = 2**53


@dataclass(frozen=True)
class NodeIds:
    """A column of node ids: int64 or text, without missing values."""

    table: Table
    name: str
    values: Any  # a pyarrow ChunkedArray
    are_positions: bool = False  # the file has no ids, node i is row i

    @property
    def is_text(self) -> bool:
        return bool(pa.types.is_string(self.values.type))

    @property
    def can_be_integers(self) -> bool:
        if not self.is_text:
            return True
        return self.table.is_text and self._first_non_integer() < 0

    def to_integers(self) -> NodeIds:
        digits = self._digits()
        integers = digits.cast(pa.int64())
        if digits is not self.values and _any_from(integers, ROUNDED_FROM):
            raise rounded_integers(self.table, self.name)
        return replace(self, values=integers)

    def positions_in(self, nodes: NodeIds) -> np.ndarray:
        """Position of every id among those of ``nodes``; -1 if it is not there."""
        if self.are_positions or nodes.are_positions:
            values = self.values.to_numpy()
            return np.where((values >= 0) & (values < len(nodes.values)), values, -1)
        found = pc.index_in(self.values, value_set=nodes.values.combine_chunks())
        return found.fill_null(-1).to_numpy()

    def describe(self, row: int) -> str:
        """The id of a row and its place in the file."""
        return f"{self.table.place(row)}: node {quoted(self.values[row].as_py())}"

    def example_of_text(self) -> str:
        return quoted(self.values[max(self._first_non_integer(), 0)].as_py())

    def _digits(self) -> Any:
        """The ids, without their last two characters if all end in ``.0``."""
        if self.is_text and pc.all(pc.ends_with(self.values, ".0"), min_count=0).as_py():
            return pc.utf8_slice_codeunits(self.values, 0, -2)
        return self.values

    def _first_non_integer(self) -> int:
        values = self._digits()
        canonical = pc.match_substring_regex(values, CANONICAL_INTEGER)
        digits = pc.utf8_ltrim(values, "-")
        long = pc.equal(pc.utf8_length(digits), len(LARGEST_INTEGER))
        too_large = pc.and_(long, pc.greater(digits, LARGEST_INTEGER))
        return int(pc.index(pc.and_not(canonical, too_large), False).as_py())


def read_ids(table: Table, name: str) -> NodeIds:
    """Read a column of a table as ids."""
    column, types = decoded(table.column(name)), pa.types
    if types.is_null(column.type):
        column = column.cast(pa.string())
    if types.is_floating(column.type):
        column = nan_as_null(column)
    if column.null_count:
        raise _missing(table, name, pc.index(column.is_null(), True).as_py())
    if are_whole_numbers(column):
        return NodeIds(table, name, to_int64(table, name, column))
    if not (types.is_string(column.type) or types.is_large_string(column.type)):
        raise DataError(
            f"{table.path}: column {name!r} has type {column.type}; node ids must be integers or "
            f"text"
        )
    column = column.cast(pa.string())
    empty = pc.index(column, "").as_py()
    if empty >= 0:
        raise _missing(table, name, empty)
    return NodeIds(table, name, column)


def row_positions(path: Path, n_rows: int) -> NodeIds:
    """Ids of a file without ids: node i is row i."""
    table = Table(path, pa.table({"row": np.arange(n_rows)}))
    return NodeIds(table, "row", table.column("row"), are_positions=True)


def to_common_type(columns: Sequence[NodeIds]) -> list[NodeIds]:
    """Convert the ids of several columns to integers if possible, otherwise leave them as text."""
    if all(column.can_be_integers for column in columns):
        return [column.to_integers() for column in columns]
    text = next(column for column in columns if not column.can_be_integers)
    for column in columns:
        if not column.is_text:
            what = "no node ids (rows count as 0, 1, ...)" if column.are_positions else "integers"
            raise DataError(
                f"{column.table.path} has {what} but {text.table.path} has text for node ids "
                f"(column {text.name!r}, such as {text.example_of_text()}); use one type"
            )
    return list(columns)


def check_unique(ids: NodeIds) -> None:
    """Raise if an id occurs in two rows."""
    distinct = pc.unique(ids.values)
    if len(distinct) == len(ids.values):
        return
    codes = pc.index_in(ids.values, value_set=distinct).to_numpy()
    _, first_rows = np.unique(codes, return_index=True)
    repeated = np.ones(len(codes), bool)
    repeated[first_rows] = False
    raise DataError(f"{ids.describe(int(np.argmax(repeated)))} occurs twice; remove one row")


def are_whole_numbers(column: Any) -> bool:
    """Whether all values are integers; pandas stores them as floats next to missing values."""
    if not pa.types.is_floating(column.type):
        return bool(pa.types.is_integer(column.type))
    column = column.cast(pa.float64())
    return bool(pc.all(pc.equal(column, pc.round(column)), min_count=0).as_py())


def nan_as_null(column: Any) -> Any:
    """Floats as float64, with null for NaN; pyarrow cannot round and convert float16."""
    column = column.cast(pa.float64())
    return pc.if_else(pc.is_nan(column), None, column)


def to_int64(table: Table, name: str, column: Any) -> Any:
    """The whole numbers of a column as int64; raise if they do not fit or may be rounded."""
    for part in (table, *table.parts):  # files of one folder may have several types
        if name in part.names:
            _check_floats(part, name)
    try:
        return column.cast(pa.int64())
    except pa.ArrowInvalid:
        raise DataError(
            f"{table.path}: column {name!r} has integers beyond 64 bits; write them as text"
        ) from None


def rounded_integers(table: Table, name: str) -> DataError:
    """The error about integers in a column of text that have been floats."""
    return DataError(
        f"{table.path}: column {name!r} has integers of {ROUNDED_FROM:,} or more written as "
        f"floats, which rounds them; write them as integers"
    )


def _check_floats(table: Table, name: str) -> None:
    """Raise if a column of floats has integers of a size at which its type skips integers."""
    column = decoded(table.column(name))
    if not pa.types.is_floating(column.type):
        return
    limit = 2 ** (np.finfo(column.type.to_pandas_dtype()).nmant + 1)
    if _any_from(nan_as_null(column), limit):
        raise DataError(
            f"{table.path}: column {name!r} has integers of {limit:,} or more as {column.type}, "
            f"which rounds them; write them as integers or text"
        )


def _any_from(column: Any, limit: int) -> bool:
    """Whether a number has this absolute value or a larger one."""
    return bool(pc.any(pc.greater_equal(pc.abs(column), limit), min_count=0).as_py())


def _missing(table: Table, name: str, row: int) -> DataError:
    return DataError(f"{table.place(row)}: the node id in column {name!r} is missing; fill it in")
