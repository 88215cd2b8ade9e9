"""Tables with named columns: CSV, TSV and Parquet files, read with pyarrow.

Error messages contain the file and, for text files, the line. White space around a name or a
cell of text in CSV and TSV files is not part of it.
"""

from __future__ import annotations

import contextlib
import csv as text_csv
import itertools
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv
import pyarrow.parquet as pq

from ..errors import DataError
from ..graph.assembly import count_of
from ..utils.messages import first_line, quoted
from .paths import (
    PARQUET_SUFFIXES,
    TABLE_SUFFIXES,
    TEXT_SUFFIXES,
    check_file,
    suffix_of,
    wrong_format,
)
from .text_rows import line_of, nth_row, open_stream, read_rows

#: Smallest number of columns with which a first row 0, 1, 2, ... is a header, as pandas writes it
#: for columns without names. In a narrower table it may also be data.
NUMBERED_COLUMNS = 3

#: Name of the column in which pandas writes an index without a name to Parquet.
UNNAMED_INDEX = "__index_level_0__"

#: Largest number of columns of text that an error names.
MOST_NAMES = 5

#: Largest size of a block of a CSV, and of one row, in bytes.
LARGEST_BLOCK = 2**26

_INTEGER = re.compile(r"\s*[0-9]+\s*$")

_NUMBER = r"^\s*[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?\s*$"

_COMMA_IN_NUMBER = re.compile(rb"(?<=[0-9]),(?=[0-9])")

_TAB_AT_SEMICOLON = re.compile(rb"\t *;|; *\t")

_DECIMAL_COMMA = re.compile(r"\s*[-+]?[0-9]+,[0-9]+\s*$")

_NO_COMMAS = "write decimal points, and no commas between thousands"

_LIST_TYPES = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
_NUMBER_TYPES = (pa.types.is_floating, pa.types.is_integer, pa.types.is_boolean)


class Table:
    """The columns of a file, and the place of every row in it."""

    parts: Sequence[Table] = ()  # the tables of several files

    def __init__(
        self,
        path: Path,
        columns: Any,
        *,
        has_header: bool | None = None,
        starts_with_numbers: bool = False,
        index_names: Sequence[str] = (),
        unnamed_index: str | None = None,
        has_lost_index: bool = False,
    ) -> None:
        self.path = path
        self.index_names = list(index_names)  # columns that are an index of pandas
        self.unnamed_index = unnamed_index  # the column of an index that has no name in pandas
        self.has_lost_index = has_lost_index  # the metadata has an index for other rows
        self.starts_with_numbers = starts_with_numbers  # the first row is 0, 1, ..., header or not
        self.names: list[str] = columns.column_names
        self._columns = columns
        self._positions = {name: i for i, name in enumerate(self.names)}
        self._has_header = has_header  # None if the format has no lines
        for name, following in itertools.pairwise(sorted(self.names)):
            if name == following:
                raise DataError(f"{path}: column {name!r} occurs twice; rename one of them")

    @property
    def n_rows(self) -> int:
        return int(self._columns.num_rows)

    @property
    def has_header(self) -> bool:
        return self._has_header is not False

    @property
    def is_text(self) -> bool:
        """Whether types were inferred from text instead of stated by the file."""
        return self._has_header is not None

    def column(self, name: str, advice: str = "") -> Any:
        if name not in self._positions:
            raise DataError(f"{self.path} has no column {name!r}; {self._column_list()}{advice}")
        return self._columns.column(self._positions[name])

    def with_decoded_text(self) -> Table:
        """The same table with bytes decoded as UTF-8 and trimmed; raise if they are not UTF-8."""
        for position, name in enumerate(self.names):
            column = self.column(name)
            if pa.types.is_binary(column.type):
                try:
                    decoded = column.cast(pa.string())
                except pa.ArrowInvalid:
                    raise _not_utf8(self.place(_first_not_utf8(column))) from None
                decoded = pc.utf8_trim_whitespace(decoded)
                self._columns = self._columns.set_column(position, name, decoded)
        return self

    def place(self, row: int) -> str:
        """File and line of a row, or file and row if there are no lines."""
        if self._has_header is None:
            return f"{self.path}, row {row}"
        return f"{self.path}, line {line_of(self.path, row + self._has_header)}"

    def numbers(
        self, name: str, *, are_features: bool = False, others: Sequence[str] = ()
    ) -> np.ndarray:
        """A column of numbers, or a matrix if every value is a list of numbers.

        Missing features are NaN; other missing numbers are an error. The error for a column of text
        names those of the ``others`` that are also text.
        """
        column = decoded(self.column(name))
        if not self.n_rows:
            return np.empty(0)
        is_list = any(is_type(column.type) for is_type in _LIST_TYPES)
        if column.null_count and (is_list or not are_features):
            row = pc.index(column.is_null(), True).as_py()
            raise self._missing_number(row, name)
        if is_list:
            return self._matrix(name, column, are_features)
        if pa.types.is_null(column.type):
            return np.full(self.n_rows, np.nan, np.float32)
        if column.null_count and pa.types.is_boolean(column.type):
            column = column.cast(pa.uint8())  # numpy has no boolean NaN
        if pa.types.is_decimal(column.type):
            column = column.cast(pa.float64())
        if not any(is_type(column.type) for is_type in _NUMBER_TYPES):
            raise self._not_numbers(name, column, are_features, others)
        values = column.to_numpy()
        return values.astype(np.result_type(values.dtype, np.float32), copy=False)

    def _matrix(self, name: str, column: Any, are_features: bool) -> np.ndarray:
        lengths = pc.list_value_length(column).to_numpy()
        if len(lengths) and (wrong := lengths != lengths[0]).any():
            row = int(np.argmax(wrong))
            raise DataError(
                f"{self.place(row)}: column {name!r} has {lengths[row]} values, but {lengths[0]} "
                f"in the first row; use the same number in all rows"
            )
        flat = pc.list_flatten(column)
        if flat.null_count and not are_features:
            raise self._missing_number(pc.index(flat.is_null(), True).as_py() // lengths[0], name)
        inner = Table(self.path, pa.table({name: flat}))
        values = inner.numbers(name, are_features=are_features)
        return values.reshape(len(column), lengths[0] if len(lengths) else 0)

    def _missing_number(self, row: int, name: str) -> DataError:
        return DataError(f"{self.place(row)}: the number in column {name!r} is missing; fill it in")

    def _not_numbers(
        self, name: str, column: Any, are_features: bool, others: Sequence[str]
    ) -> DataError:
        advice = "correct it"
        if are_features:
            advice += ", ignore the column, one-hot encode it, or name it as the label"
        more = [other for other in others if other != name and _is_text(self.column(other))]
        if more:
            listed = ", ".join(map(quoted, more[: MOST_NAMES - 1]))
            rest = f" and {len(more) - MOST_NAMES + 1} more" if len(more) >= MOST_NAMES else ""
            advice += f" (also text: {listed}{rest})"
        if not (_is_text(column) and self.is_text):
            return DataError(
                f"{self.path}: column {name!r} has type {column.type}, not numbers; {advice}"
            )
        number = pc.match_substring_regex(column, _NUMBER)
        row = max(pc.index(number, False).as_py(), 0)
        value = column[row].as_py()
        return DataError(
            f"{self.place(row)}: {quoted(value)} in column {name!r} is not a number; "
            f"{decimal_comma_advice(value) or advice}"
        )

    def _column_list(self) -> str:
        shown = ", ".join(map(quoted, self.names[:8]))
        more = f" and {len(self.names) - 8} more" if len(self.names) > 8 else ""
        return f"it has {shown}{more}"


def _is_text(column: Any) -> bool:
    return bool(pa.types.is_string(column.type) or pa.types.is_large_string(column.type))


def decoded(column: Any) -> Any:
    """A column with the values of its categories, if it is categorical."""
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


def decimal_comma_advice(value: str) -> str | None:
    """What to do about a number with a comma; None for other text."""
    is_number = _DECIMAL_COMMA.match(value)
    return _NO_COMMAS if is_number else None


def read_one_table(
    path: Path, *, as_text: Callable[[str], bool], header_may_be_numbers: bool = False
) -> Table:
    """Read CSV, TSV (both also compressed by gzip, bzip2 or zstandard) or Parquet.

    CSV columns for which ``as_text`` is true are not converted, so that an id 007 stays 007. A
    first row of numbers is data. With ``header_may_be_numbers``, the row 0, 1, 2, ... is a header,
    and an ambiguous row is an error.
    """
    suffix = suffix_of(path)
    if suffix in PARQUET_SUFFIXES:
        return _with_pandas_index(path, _read_parquet(path))
    if suffix in TEXT_SUFFIXES:
        return _read_csv(path, as_text, header_may_be_numbers)
    raise wrong_format(path, "a table", TABLE_SUFFIXES)


def table_of_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> Table:
    """A table whose columns are arrays of a file."""
    columns = {}
    for name, array in arrays.items():
        try:
            columns[name] = pa.array(np.ascontiguousarray(array, array.dtype.newbyteorder("=")))
        except (pa.ArrowException, ValueError, TypeError):
            raise DataError(
                f"{path}: array {name!r} of shape {array.shape} and dtype {array.dtype} must be "
                f"one-dimensional, with numbers or text"
            ) from None
    return Table(path, pa.table(columns))


def _read_parquet(path: Path) -> Any:
    check_file(path)
    try:
        with pq.ParquetFile(pa.OSFile(os.fsencode(path))) as file:  # as text, it must be UTF-8
            columns = file.read()
        columns.validate(full=True)  # finds text that is not UTF-8
        list(columns.column_names)
        return columns
    except (pa.ArrowException, OSError, ValueError, TypeError) as error:
        raise DataError(f"{path} is not a readable Parquet file: {first_line(error)}") from None


def _with_pandas_index(path: Path, columns: Any) -> Table:
    """A table of Parquet columns, with the index from the metadata of pandas.

    A range index has no column in the file. It becomes a column unless it is 0, 1, 2, ...
    """
    try:
        metadata = columns.schema.pandas_metadata or {}
        stated, described = metadata.get("index_columns", []), metadata.get("columns", [])
        categorical = [c["field_name"] for c in described if c["pandas_type"] == "categorical"]
    except (ValueError, AttributeError, KeyError, TypeError):  # not written by pandas
        stated, categorical = [], []
    columns = _with_categories(columns, categorical)
    names = [name for name in stated if isinstance(name, str) and name in columns.column_names]
    unnamed = UNNAMED_INDEX if UNNAMED_INDEX in names else None
    for entry in stated:
        index = _range_of(entry)
        if index is None or (index.start, index.step) == (0, 1):
            continue
        if len(index) != columns.num_rows:
            return Table(path, columns, has_lost_index=True)
        is_named = isinstance(entry.get("name"), str)
        name = entry["name"] if is_named else "id"
        while name in columns.column_names:
            name += "_"
        unnamed = unnamed if is_named else name
        columns = columns.append_column(
            name, pa.array(np.arange(index.start, index.stop, index.step))
        )
        names.append(name)
    return Table(path, columns, index_names=names, unnamed_index=unnamed)


def _with_categories(columns: Any, names: Sequence[Any]) -> Any:
    """A table in which these columns are categorical; Parquet has integers for those of pandas."""
    for position, name in enumerate(columns.column_names):
        column = columns.column(position)
        if name in names and pa.types.is_integer(column.type):
            categories = pc.unique(column.drop_null()).sort()
            codes = pc.index_in(column, value_set=categories).combine_chunks()
            encoded = pa.DictionaryArray.from_arrays(codes, categories)
            columns = columns.set_column(position, name, encoded)
    return columns


def _range_of(entry: Any) -> range | None:
    if not isinstance(entry, dict) or entry.get("kind") != "range":
        return None
    bounds: list[Any] = [entry.get(key) for key in ("start", "stop", "step")]
    if not all(isinstance(bound, int) and abs(bound) < 2**62 for bound in bounds) or not bounds[2]:
        return None
    return range(*bounds)


def _read_csv(path: Path, as_text: Callable[[str], bool], header_may_be_numbers: bool) -> Table:
    first = _first_row(path)
    delimiter = _delimiter(path, first)
    names = _cells(path, first, delimiter)
    has_header = not all(map(_is_number, names))
    if has_header and all(_is_number(name.replace(",", "")) for name in names):
        cell = next(name for name in names if not _is_number(name))
        raise DataError(f"{path}, line {line_of(path, 0)}: {cell!r} is not a number; {_NO_COMMAS}")
    starts_with_numbers = _are_consecutive(names)
    if not has_header and header_may_be_numbers:
        has_header = _is_numbered_header(path, names, delimiter)
    if not has_header:
        names = [f"f{i}" for i in range(len(names))]  # the names that pyarrow generates
    # pyarrow treats a file of one line without a line end as empty.
    only_row = None if nth_row(path, 1) else first + b"\n"
    # Read as bytes, because pyarrow does not report which row is not UTF-8.
    types = {name: pa.binary() for name in names if as_text(name.strip())}
    try:
        columns = _parse(
            lambda: open_stream(path) if only_row is None else pa.BufferReader(only_row),
            first,
            csv.ReadOptions(autogenerate_column_names=not has_header),
            csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
            csv.ConvertOptions(column_types=types),
        )
    except (pa.ArrowException, OSError) as error:
        _check_row_lengths(path, delimiter, len(names))
        raise _unreadable(path, error) from None
    names = [name.strip() for name in names]
    table = Table(
        path,
        columns.rename_columns(names),
        has_header=has_header,
        starts_with_numbers=starts_with_numbers,
        index_names=[""] if names[:1] == [""] else [],
        unnamed_index="" if names[:1] == [""] else None,
    )
    return table.with_decoded_text()


def _parse(open_text: Callable[[], Any], first: bytes, read: Any, *options: Any) -> Any:
    """The columns of a CSV; pyarrow needs blocks as large as the longest row."""
    read.block_size = min(max(read.block_size, 2 * len(first)), LARGEST_BLOCK)
    while True:
        try:
            with open_text() as stream:
                return csv.read_csv(stream, read, *options)
        except pa.ArrowInvalid as error:
            if "straddling object" not in str(error) or read.block_size >= LARGEST_BLOCK:
                raise
            read.block_size = min(16 * read.block_size, LARGEST_BLOCK)


def _delimiter(path: Path, first: bytes) -> str:
    """The delimiter of a TSV, or the one that divides the first row into most cells."""
    if suffix_of(path) == ".tsv":
        return "\t"
    candidates = ",;\t"
    if b";" in first and b"," not in _COMMA_IN_NUMBER.sub(b"", first):
        # Commas between digits are decimal commas, and tabs next to semicolons are white space.
        candidates = ";" if _TAB_AT_SEMICOLON.search(first) else ";\t"
    return max(candidates, key=lambda mark: len(_cells(path, first, mark)))


def _check_row_lengths(path: Path, delimiter: str, n_columns: int) -> None:
    """Raise for the first row with a wrong number of cells; called after pyarrow has failed."""
    with contextlib.suppress(text_csv.Error):
        for line, row in read_rows(path):
            cells = next(text_csv.reader([row.decode("latin-1")], delimiter=delimiter))
            if len(cells) != n_columns:
                raise DataError(
                    f"{path}, line {line}: {count_of(len(cells), 'cell')}, but the first row has "
                    f"{n_columns}; correct one of them"
                )


def _unreadable(path: Path, error: Exception) -> DataError:
    return DataError(f"{path} is not a readable CSV file: {first_line(error)}")


def _is_numbered_header(path: Path, names: list[str], delimiter: str) -> bool:
    """Whether a first row of numbers is a header; raise if it is ambiguous."""
    is_ambiguous = _are_consecutive(names)
    if is_ambiguous and len(names) >= NUMBERED_COLUMNS:
        return True
    if not is_ambiguous and len(set(names)) == len(names) and all(map(_INTEGER.match, names)):
        # Distinct integers above fractions may be years or other names of columns.
        second = nth_row(path, 1)
        cells = _cells(path, second[1], delimiter) if second else []
        is_ambiguous = any(cells) and not any(map(_INTEGER.match, cells))
    if is_ambiguous:
        row = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
        raise DataError(
            f"{path}: the first row ({row}) may be a header or the features of a node; add a "
            f"header with names that are not numbers"
        )
    return False


def _are_consecutive(names: list[str]) -> bool:
    return all(name.strip() == str(i) for i, name in enumerate(names))


def _cells(path: Path, row: bytes, delimiter: str) -> list[str]:
    """The cells of one row."""
    try:
        parse = csv.ParseOptions(delimiter=delimiter)
        columns = _parse(lambda: pa.BufferReader(row + b"\n"), row, csv.ReadOptions(), parse)
        return list(columns.column_names)
    except (pa.ArrowException, ValueError) as error:
        raise _unreadable(path, error) from None


def _first_row(path: Path) -> bytes:
    """The first row that is not empty, as UTF-8."""
    check_file(path)
    for line, row in read_rows(path):
        if b"\0" in row:
            raise DataError(
                f"{path} is not UTF-8 text; export it as CSV, or give it the suffix of its format"
            )
        try:
            row.decode()
        except UnicodeDecodeError:
            raise _not_utf8(f"{path}, line {line}") from None
        return row
    raise DataError(f"{path} is empty; give a header and at least one row")


def _not_utf8(place: str) -> DataError:
    return DataError(f"{place}: not UTF-8 text; convert the file to UTF-8")


def _first_not_utf8(column: Any) -> int:
    for row, value in enumerate(column.to_pylist()):
        try:
            (value or b"").decode()
        except UnicodeDecodeError:
            return row
    return 0


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell  # Python reads 1_000 as a number
