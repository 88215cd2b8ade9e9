"""Reader of Matrix Market files, the text format of sparse and dense matrices.

scipy.io.mmread is not used: damaged files, such as one cut inside a number, can crash scipy 1.17
and the interpreter.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import scipy.sparse as sp

from .text_rows import open_stream

BANNER = "%%matrixmarket"


def read_matrix_market(path: Path) -> sp.csr_array:
    """Read a real matrix from a file, compressed or not; raise ValueError for a malformed one."""
    with open_stream(path) as stream:
        lines, body = _split_header(stream.read())
    words = lines[0].lower().split()
    if len(words) != 5 or words[:2] != [BANNER, "matrix"]:
        raise ValueError("the first line must be a banner such as %%MatrixMarket matrix ...")
    form, field, symmetry = words[2:]
    if field not in ("real", "double", "integer", "unsigned-integer", "pattern"):
        raise ValueError(f"its numbers are {field}, but must be real")
    if symmetry not in ("general", "symmetric"):
        raise ValueError(f"it is {symmetry}, but must be general or symmetric")
    sizes = [int(word) for word in lines[-1].split()]
    if len(sizes) != {"coordinate": 3, "array": 2}.get(form) or min(sizes) < 0:
        raise ValueError(f"its sizes {lines[-1]!r} are not those of a {form} matrix")
    is_symmetric = symmetry == "symmetric"  # such a file contains one triangle only
    if is_symmetric and sizes[0] != sizes[1]:
        raise ValueError(f"it is symmetric, but has {sizes[0]} rows and {sizes[1]} columns")
    if form == "coordinate":
        return _from_coordinates(body, sizes, is_symmetric, has_values=field != "pattern")
    return _from_array(body, sizes, is_symmetric)


def _split_header(content: bytes) -> tuple[list[str], bytes]:
    """The lines up to the sizes, and the rest of the file."""
    lines, begin = [], 0
    while begin < len(content):
        end = content.find(b"\n", begin)
        end = len(content) if end < 0 else end
        line = content[begin:end].decode("latin-1").strip()
        begin = end + 1
        if line:
            lines.append(line)
        if line and not line.startswith("%"):
            break
    if not lines:
        raise ValueError("it is empty")
    return lines, content[begin:]


def _from_coordinates(
    body: bytes, sizes: Sequence[int], is_symmetric: bool, *, has_values: bool
) -> sp.csr_array:
    *shape, n_entries = sizes
    entries = _read_numbers(body, n_entries, 3 if has_values else 2)
    positions = entries[:, :2]
    wrong = ~((positions >= 1) & (positions <= shape) & (positions % 1 == 0)).all(axis=1)
    if wrong.any():
        first = int(np.argmax(wrong))
        raise ValueError(f"entry {first + 1} is at {positions[first].tolist()}, outside of {shape}")
    rows, columns = positions.T.astype(np.int64) - 1
    values = entries[:, 2] if has_values else np.ones(n_entries)
    if is_symmetric:
        mirrored = rows != columns
        values = np.append(values, values[mirrored])
        rows, columns = np.append(rows, columns[mirrored]), np.append(columns, rows[mirrored])
    return sp.csr_array(sp.coo_array((values, (rows, columns)), shape=tuple(shape)))


def _from_array(body: bytes, sizes: Sequence[int], is_symmetric: bool) -> sp.csr_array:
    n_rows, n_columns = sizes
    if not is_symmetric:
        values = _read_numbers(body, n_rows * n_columns, 1)
        return sp.csr_array(values.reshape(n_columns, n_rows).T)
    values = _read_numbers(body, n_rows * (n_rows + 1) // 2, 1)
    matrix: Any = np.zeros((n_rows, n_rows))
    columns, rows = np.triu_indices(n_rows)
    matrix[rows, columns] = matrix[columns, rows] = values.ravel()
    return sp.csr_array(matrix)


def _read_numbers(body: bytes, n_lines: int, n_columns: int) -> np.ndarray:
    # A number takes at least two bytes, so that a wrong count cannot request much memory.
    if 2 * n_lines * n_columns > len(body) + 1:
        raise ValueError(f"it is truncated: its header states {n_lines} lines")
    try:
        numbers = _parse_columns(body, n_columns)
    except pa.ArrowException:  # several spaces between numbers, or text
        numbers = _parse_words(body)
    if numbers.size != n_lines * n_columns:
        raise ValueError(
            f"it has {numbers.size} numbers, but its header states {n_lines} lines of {n_columns}"
        )
    return numbers.reshape(n_lines, n_columns)


def _parse_columns(body: bytes, n_columns: int) -> np.ndarray:
    """Fast parser of numbers that are separated by single spaces."""
    names = [f"f{i}" for i in range(n_columns)]
    table = csv.read_csv(
        pa.BufferReader(body),
        csv.ReadOptions(column_names=names),
        csv.ParseOptions(delimiter=" ", quote_char=False),
        csv.ConvertOptions(column_types=dict.fromkeys(names, pa.float64()), null_values=[]),
    )
    return np.column_stack([table.column(name).to_numpy() for name in names])


def _parse_words(body: bytes) -> np.ndarray:
    """Parser of numbers that are separated by any white space."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)  # numpy issues it for text
        try:
            return np.fromstring(body, sep=" ") if body.strip() else np.empty(0)
        except (DeprecationWarning, ValueError):
            raise ValueError("it contains text between its numbers") from None
