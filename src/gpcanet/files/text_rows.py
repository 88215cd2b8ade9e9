"""Rows of CSV and TSV files with their line numbers; a quoted cell may contain line ends."""

from __future__ import annotations

import io
import itertools
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from ..errors import DataError
from ..utils.messages import first_line

#: Compressions by the suffix of a file.
COMPRESSIONS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}

#: A quoted cell, which may contain line ends.
_QUOTED = re.compile(rb'(^|[,;\t])"[^"]*(?:""[^"]*)*"(?!")')

#: The beginning of a quoted cell without its end.
_OPEN_QUOTE = re.compile(rb'(^|[,;\t])"')


def line_of(path: Path, row: int) -> int:
    """The line, counted from 1, in which a row, counted from 0, begins."""
    found = nth_row(path, row)
    return found[0] if found else row + 1


def nth_row(path: Path, row: int) -> tuple[int, bytes] | None:
    """Line number and content of row ``row``, counted from 0; None if the file is shorter."""
    return next(itertools.islice(read_rows(path), row, None), None)


def read_rows(path: Path) -> Iterator[tuple[int, bytes]]:
    """Every row with the number of its first line; empty lines are skipped."""
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


def open_stream(path: Path) -> Any:
    """The content of a file, compressed or not. Its name need not be UTF-8."""
    compression = COMPRESSIONS.get(path.suffix.lower())
    return pa.input_stream(pa.OSFile(os.fsencode(path)), compression=compression)


def _lines(path: Path) -> Iterator[bytes]:
    try:
        with open_stream(path) as stream:
            # latin-1 keeps all bytes; TextIOWrapper handles all kinds of line ends.
            for line in io.TextIOWrapper(io.BufferedReader(stream), "latin-1"):
                yield line.rstrip("\n").encode("latin-1")
    except (OSError, pa.ArrowException) as error:
        raise DataError(f"{path} is not readable: {first_line(error)}") from None
