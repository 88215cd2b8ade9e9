"""Tables with named columns: CSV, TSV and Parquet, by pyarrow.

An error names the file, and the line wherever there are lines.
"""

from __future__ import annotations

import io
import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv
import pyarrow.parquet as pq

from ..errors import DataError

TEXT_SUFFIXES = (".csv", ".tsv")
PARQUET_SUFFIXES = (".parquet", ".pq")
TABLE_SUFFIXES = (*TEXT_SUFFIXES, *PARQUET_SUFFIXES)

#: A value in quotes, which may hold line ends, and one whose end is still to come.
_QUOTED = re.compile(rb'(^|[,;\t])"[^"]*(?:""[^"]*)*"(?!")')
_OPEN_QUOTE = re.compile(rb'(^|[,;\t])"')

#: A first row 0, 1, 2, ... of at least this many columns is a header: the names that pandas gives
#: to columns without names. In a narrower table it is as likely a row of data.
NUMBERED_COLUMNS = 3

_INTEGER = re.compile(r"\s*[0-9]+\s*$")


def suffix_of(path: Path) -> str:
    """The suffix that tells the format: of ``edges.csv.gz`` it is ``.csv``."""
    name = path.name.lower()
    for packed in (".gz", ".bz2", ".zst"):
        name = name.removesuffix(packed)
    return Path(name).suffix


class Table:
    """The columns of a file, and where in it each row is."""

    def __init__(
        self,
        path: Path,
        columns: Any,
        *,
        has_header: bool | None = None,
        starts_with_numbers: bool = False,
        index_names: Sequence[str] = (),
        has_lost_index: bool = False,
    ) -> None:
        self.path = path
        self.index_names = list(index_names)  # columns in which pandas wrote its index
        self.has_lost_index = has_lost_index  # pandas stated one, but for other rows
        self.starts_with_numbers = starts_with_numbers  # the first row, header or not: 0, 1, ...
        self._columns = columns
        self._has_header = has_header  # None where there are no lines
        names = sorted(columns.column_names)
        for name, following in itertools.pairwise(names):
            if name == following:
                raise DataError(f"{path}: column {name!r} occurs twice; rename one")

    @property
    def names(self) -> list[str]:
        return list(self._columns.column_names)

    @property
    def n_rows(self) -> int:
        return int(self._columns.num_rows)

    @property
    def has_header(self) -> bool:
        return self._has_header is not False

    @property
    def is_text(self) -> bool:
        """Whether types were guessed from text, and not stated by the file."""
        return self._has_header is not None

    def column(self, name: str) -> Any:
        if name not in self.names:
            raise DataError(f"{self.path} has no column {name!r}; {self._listing()}")
        return self._columns.column(name)

    def place(self, row: int) -> str:
        """Where a row is, for a message: file and line, or file and row."""
        if self._has_header is None:
            return f"{self.path}, row {row}"
        return f"{self.path}, line {_line_of(self.path, row + self._has_header)}"

    def numbers(self, name: str) -> np.ndarray:
        """A column of numbers, or a block of columns where each value is a list of them."""
        column = self.column(name)
        if not self.n_rows:
            return np.empty(0)
        if column.null_count:
            row = pc.index(column.is_null(), True).as_py()
            raise self._no_number(row, name)
        kind = column.type
        if (
            pa.types.is_list(kind)
            or pa.types.is_large_list(kind)
            or pa.types.is_fixed_size_list(kind)
        ):
            return self._block(name, column)
        if pa.types.is_decimal(kind):
            column, kind = column.cast(pa.float64()), pa.float64()
        if not (
            pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind)
        ):
            raise self._not_numbers(name, column)
        values = column.to_numpy()
        return values.astype(np.result_type(values.dtype, np.float32), copy=False)

    def _block(self, name: str, column: Any) -> np.ndarray:
        lengths = pc.list_value_length(column).to_numpy()
        if len(lengths) and (wrong := lengths != lengths[0]).any():
            row = int(np.argmax(wrong))
            raise DataError(
                f"{self.place(row)}: {lengths[row]} values in column {name!r}, but {lengths[0]} "
                f"in the first row; all rows must have as many"
            )
        flat = pc.list_flatten(column)
        if flat.null_count:
            raise self._no_number(pc.index(flat.is_null(), True).as_py() // lengths[0], name)
        inner = Table(self.path, pa.table({name: flat}))
        return inner.numbers(name).reshape(len(column), lengths[0] if len(lengths) else 0)

    def _no_number(self, row: int, name: str) -> DataError:
        return DataError(f"{self.place(row)}: column {name!r} has no number there; fill it in")

    def _not_numbers(self, name: str, column: Any) -> DataError:
        advice = "mend it, ignore the column, or name it as the label"
        if pa.types.is_dictionary(column.type):
            return DataError(
                f"{self.path}: column {name!r} holds categories ({column.type.value_type}), not "
                f"numbers; give a column of 0 and 1 per category (pandas.get_dummies), ignore the "
                f"column, or name it as the label"
            )
        text = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
        if not (text and self.is_text):
            return DataError(
                f"{self.path}: column {name!r} holds {column.type}, not numbers; {advice}"
            )
        number = pc.match_substring_regex(
            column, r"^\s*[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?\s*$"
        )
        row = pc.index(number, False).as_py()
        row = max(row, 0)
        return DataError(
            f"{self.place(row)}: {column[row].as_py()!r} in column {name!r} is not a number; "
            f"{advice}"
        )

    def _listing(self) -> str:
        shown = ", ".join(map(repr, self.names[:8]))
        more = f" and {len(self.names) - 8} more" if len(self.names) > 8 else ""
        return f"it has {shown}{more}"


def read_table(
    path: Path, *, as_text: Callable[[str], bool], numbers_may_be_names: bool = False
) -> Table:
    """Read CSV, TSV (both also packed by gzip, bzip2 or zstandard) or Parquet.

    Columns that are to be text are read from CSV as they stand, so that an id 007 stays 007. A
    first row of numbers is data; with ``numbers_may_be_names``, 0, 1, 2, ... is a header, and it
    is an error if that remains open.
    """
    suffix = suffix_of(path)
    if suffix in PARQUET_SUFFIXES:
        return _with_index_of_pandas(path, _read_parquet(path))
    if suffix in TEXT_SUFFIXES:
        return _read_csv(path, as_text, numbers_may_be_names)
    raise DataError(f"{path}: {suffix or 'no suffix'} is no table; use {', '.join(TABLE_SUFFIXES)}")


def table_of_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> Table:
    """Arrays of one file as the columns of a table."""
    columns = {}
    for name, array in arrays.items():
        try:
            columns[name] = pa.array(np.ascontiguousarray(array, array.dtype.newbyteorder("=")))
        except (pa.ArrowException, ValueError, TypeError):
            raise DataError(
                f"{path}: array {name!r} of shape {array.shape} and dtype {array.dtype} must be "
                f"one row of numbers or text"
            ) from None
    return Table(path, pa.table(columns))


def _read_parquet(path: Path) -> Any:
    check_file(path)
    try:
        with pq.ParquetFile(path) as file:
            columns = file.read()
        columns.validate(full=True)  # text that is not UTF-8 would be met much later
        list(columns.column_names)
        return columns
    except (pa.ArrowException, OSError, ValueError, TypeError) as error:
        raise DataError(f"{path} is no readable Parquet file: {first_line(error)}") from None


def _with_index_of_pandas(path: Path, columns: Any) -> Table:
    """A table of Parquet columns and the index that pandas stated in its metadata.

    A range is stated without a column. The default, 0, 1, 2, ..., is the position of each row; any
    other becomes a column.
    """
    try:
        stated = (columns.schema.pandas_metadata or {}).get("index_columns", [])
    except (ValueError, AttributeError):  # not what pandas writes
        stated = []
    names = [name for name in stated if isinstance(name, str) and name in columns.column_names]
    for entry in stated:
        index = _range_of(entry)
        if index is None or (index.start, index.step) == (0, 1):
            continue
        if len(index) != columns.num_rows:
            return Table(path, columns, has_lost_index=True)
        name = entry["name"] if isinstance(entry.get("name"), str) else "id"
        while name in columns.column_names:
            name += "_"
        columns = columns.append_column(
            name, pa.array(np.arange(index.start, index.stop, index.step))
        )
        names.append(name)
    return Table(path, columns, index_names=names)


def _range_of(entry: Any) -> range | None:
    if not isinstance(entry, dict) or entry.get("kind") != "range":
        return None
    bounds: list[Any] = [entry.get(key) for key in ("start", "stop", "step")]
    if not all(isinstance(bound, int) and abs(bound) < 2**62 for bound in bounds) or not bounds[2]:
        return None
    return range(*bounds)


def _read_csv(path: Path, as_text: Callable[[str], bool], numbers_may_be_names: bool) -> Table:
    first = _first_row(path)
    delimiters = "\t" if suffix_of(path) == ".tsv" else ",;\t"
    delimiter = max(delimiters, key=lambda mark: len(_cells(path, first, mark)))
    names = _cells(path, first, delimiter)
    has_header = not all(map(_is_number, names))
    is_running = _are_running(names)
    if not has_header and numbers_may_be_names:
        has_header = _is_numbered_header(path, names, delimiter)
    if not has_header:
        names = [f"f{i}" for i in range(len(names))]  # as pyarrow calls them

    def read(source: Any, *, use_threads: bool) -> Any:
        with pa.input_stream(source, compression="detect") as stream:
            return csv.read_csv(
                stream,
                csv.ReadOptions(use_threads=use_threads, autogenerate_column_names=not has_header),
                csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
                csv.ConvertOptions(
                    column_types={name: pa.string() for name in names if as_text(name)}
                ),
            )

    try:
        columns = read(str(path), use_threads=True)
    except (pa.ArrowException, OSError) as failure:
        # pyarrow sees nothing in a file of one line without a line end.
        is_one_line = "Empty CSV file" in str(failure)
        source = pa.BufferReader(first + b"\n") if is_one_line else str(path)
        try:
            columns = read(source, use_threads=False)  # slower, but it knows the row
        except (pa.ArrowException, OSError) as error:
            raise _csv_error(path, error) from None
    table = Table(
        path,
        columns,
        has_header=has_header,
        starts_with_numbers=is_running,
        index_names=[""] if names[:1] == [""] else [],
    )
    for name in table.names:
        if pa.types.is_binary(table.column(name).type):
            row = _first_not_utf8(table.column(name))
            raise DataError(f"{table.place(row)}: not UTF-8 text; convert the file to UTF-8")
    return table


def _is_numbered_header(path: Path, names: list[str], delimiter: str) -> bool:
    """Whether a first row of numbers is a header; raise if it may be either."""
    if _are_running(names) and len(names) >= NUMBERED_COLUMNS:
        return True
    is_open = _are_running(names)
    if not is_open and len(set(names)) == len(names) and all(map(_INTEGER.match, names)):
        # Distinct integers above fractions in every column: other columns of pandas, or years.
        second = next(itertools.islice(_rows(path), 1, None), None)
        cells = [] if second is None else _cells(path, second[1], delimiter)
        is_open = any(cells) and not any(map(_INTEGER.match, cells))
    if is_open:
        row = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
        raise DataError(
            f"{path}: its first row ({row}) may be a header or the features of a node; add a first "
            f"row with names of the columns, or rename them"
        )
    return False


def _are_running(names: list[str]) -> bool:
    return all(name.strip() == str(i) for i, name in enumerate(names))


def _cells(path: Path, row: bytes, delimiter: str) -> list[str]:
    """The cells of one row, as the names of columns."""
    try:
        one_row = pa.BufferReader(row + b"\n")
        return list(csv.read_csv(one_row, None, csv.ParseOptions(delimiter=delimiter)).column_names)
    except (pa.ArrowException, ValueError) as error:
        raise _csv_error(path, error) from None


def _csv_error(path: Path, error: Exception) -> DataError:
    message = first_line(error)
    row = re.search(r"Row #(\d+): (.*)", message)
    if row is None:
        return DataError(f"{path} is no readable CSV: {message}")
    what = row[2].removeprefix("CSV parse error: ").removeprefix("CSV conversion error to ")
    if "invalid UTF8" in what:
        what = "not UTF-8 text; convert the file to UTF-8"
    return DataError(f"{path}, line {_line_of(path, int(row[1]) - 1)}: {what}")


def _first_row(path: Path) -> bytes:
    """The first row that is not empty."""
    check_file(path)
    for line, row in _rows(path):
        if b"\0" in row:
            raise DataError(f"{path} is no text in UTF-8; convert or export it as UTF-8 CSV")
        try:
            row.decode()
        except UnicodeDecodeError:
            raise DataError(
                f"{path}, line {line}: not UTF-8 text; convert the file to UTF-8"
            ) from None
        return row
    raise DataError(f"{path} is empty; a header and at least one row are needed")


def _line_of(path: Path, row: int) -> int:
    """The line, counted from 1, where a row, counted from 0, begins."""
    return next(itertools.islice(_rows(path), row, None), (row + 1, b""))[0]


def _rows(path: Path) -> Iterator[tuple[int, bytes]]:
    """Every row with the number of its first line; empty lines are no rows."""
    lines: list[bytes] = []
    begin, is_open = 0, False
    for number, line in enumerate(_lines(path), start=1):
        if not is_open:
            begin, lines = number, []
        lines.append(line)
        if b'"' in line:
            rest = _QUOTED.sub(rb"\1", b'"' + line if is_open else line)
            is_open = _OPEN_QUOTE.search(rest) is not None
        if line and not is_open:
            yield begin, b"\n".join(lines)
    if is_open:
        yield begin, b"\n".join(lines)


def _lines(path: Path) -> Iterator[bytes]:
    try:
        with pa.input_stream(str(path), compression="detect") as stream:
            # Bytes as they are, but with line ends of any kind.
            for line in io.TextIOWrapper(io.BufferedReader(stream), "latin-1"):
                yield line.rstrip("\n").encode("latin-1")
    except (OSError, pa.ArrowException) as error:
        raise DataError(f"{path} cannot be read: {first_line(error)}") from None


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
    return True


def first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0]


def check_file(path: Path) -> None:
    try:
        if path.is_dir():
            raise DataError(f"{path} is a folder; give a file")
        if not path.exists():
            raise DataError(f"{path} does not exist; check the name")
    except OSError as error:  # a folder that may not be entered, a name too long
        raise DataError(f"{path} cannot be read: {error.strerror}") from None
