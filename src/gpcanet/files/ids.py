"""Node ids of several files brought to one kind, and found in each other.

An id is an integer or text. Parquet and npz say which; a CSV does not, so its ids count as
integers only if every one of them, in every file, is written as an integer would be written
back: 007 stays text.
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
from .tables import Table

#: An integer written the one way that reading and writing it back does not change.
PLAIN_INTEGER = r"^(0|-?[1-9][0-9]{0,18})$"

LARGEST_INTEGER = str(2**63 - 1)


@dataclass(frozen=True)
class Ids:
    """A column of node ids: int64 or text, none missing."""

    table: Table
    name: str
    values: Any  # a pyarrow ChunkedArray
    are_rows: bool = False  # the ids are numbers of rows: the file has no others

    @property
    def is_text(self) -> bool:
        return bool(pa.types.is_string(self.values.type))

    @property
    def could_be_integers(self) -> bool:
        if not self.is_text:
            return True
        return self.table.is_text and self._first_text() < 0

    def as_integers(self) -> Ids:
        return replace(self, values=self.values.cast(pa.int64()))

    def positions_in(self, known: Ids) -> np.ndarray:
        """Where each id is among the known ones; -1 where it is not."""
        if self.are_rows or known.are_rows:
            values = self.values.to_numpy()
            return np.where((values >= 0) & (values < len(known.values)), values, -1)
        found = pc.index_in(self.values, value_set=known.values.combine_chunks())
        return found.fill_null(-1).to_numpy()

    def show(self, row: int) -> str:
        """An id and where it stands, for a message."""
        return f"{self.table.place(row)}: node {self.values[row].as_py()!r}"

    def example_of_text(self) -> str:
        return repr(self.values[max(self._first_text(), 0)].as_py())

    def _first_text(self) -> int:
        plain = pc.match_substring_regex(self.values, PLAIN_INTEGER)
        digits = pc.utf8_ltrim(self.values, "-")
        long = pc.equal(pc.utf8_length(digits), len(LARGEST_INTEGER))
        too_large = pc.and_(long, pc.greater(digits, LARGEST_INTEGER))
        return int(pc.index(pc.and_not(plain, too_large), False).as_py())


def read_ids(table: Table, name: str) -> Ids:
    """A column of a table as ids."""
    column, types = table.column(name), pa.types
    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if types.is_null(column.type):
        column = column.cast(pa.string())
    if column.null_count:
        raise _missing(table, name, pc.index(column.is_null(), True).as_py())
    if are_whole(column):
        try:
            return Ids(table, name, to_integers(column))
        except pa.ArrowInvalid:
            raise DataError(
                f"{table.path}: column {name!r} has node ids beyond 64 bits; give them as text"
            ) from None
    if not (types.is_string(column.type) or types.is_large_string(column.type)):
        raise DataError(
            f"{table.path}: column {name!r} holds {column.type}; node ids must be integers or text"
        )
    column = column.cast(pa.string())
    empty = pc.index(column, "").as_py()
    if empty >= 0:
        raise _missing(table, name, empty)
    return Ids(table, name, column)


def row_numbers(path: Path, n_rows: int) -> Ids:
    """Ids for a file that has none: node i is row i."""
    table = Table(path, pa.table({"row": np.arange(n_rows)}))
    return Ids(table, "row", table.column("row"), are_rows=True)


def alike(columns: Sequence[Ids]) -> list[Ids]:
    """The same ids, all integers or all text."""
    if all(column.could_be_integers for column in columns):
        return [column.as_integers() for column in columns]
    text = next(column for column in columns if not column.could_be_integers)
    for column in columns:
        if not column.is_text:
            what = "no node ids, so its rows count as 0, 1, ..." if column.are_rows else "integers"
            raise DataError(
                f"{column.table.path} has {what} but {text.table.path} has text for node ids "
                f"(column {text.name!r}, such as {text.example_of_text()}); make them alike"
            )
    return list(columns)


def check_unique(ids: Ids) -> None:
    """Raise if an id stands in two rows."""
    distinct = pc.unique(ids.values)
    if len(distinct) == len(ids.values):
        return
    codes = pc.index_in(ids.values, value_set=distinct).to_numpy()
    _, first_rows = np.unique(codes, return_index=True)
    again = np.ones(len(codes), bool)
    again[first_rows] = False
    raise DataError(f"{ids.show(int(np.argmax(again)))} stands there a second time; name it once")


def are_whole(column: Any) -> bool:
    """Whether all are integers, perhaps as floats: pandas makes them that beside a missing one."""
    if not pa.types.is_floating(column.type):
        return bool(pa.types.is_integer(column.type))
    column = column.cast(pa.float64())
    return bool(pc.all(pc.equal(column, pc.round(column)), min_count=0).as_py())


def to_integers(column: Any) -> Any:
    """Whole numbers as int64; ArrowInvalid beyond that."""
    if pa.types.is_floating(column.type):
        column = column.cast(pa.float64())  # from 16 bits there is no other way
    return column.cast(pa.int64())


def _missing(table: Table, name: str, row: int) -> DataError:
    return DataError(f"{table.place(row)}: no node id in column {name!r}; name that node")
