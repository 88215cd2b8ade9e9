"""Labels of nodes, and perhaps which of them are to train, to decide and to test."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..errors import DataError
from ..utils.labels import is_unlabeled, labeled_mask, missing_words_note
from .columns import Columns
from .ids import PLAIN_INTEGER, Ids, are_whole, read_ids, row_numbers, to_integers
from .matrices import MATRIX_SUFFIXES, read_arrays
from .tables import TABLE_SUFFIXES, Table, read_table, suffix_of, table_of_arrays

#: An integer as pandas writes it beside missing values.
WHOLE_FLOAT = re.compile(r"-?[0-9]+\.0$")

PARTS = ("train", "validation", "test")

#: What the parts of a split may be called.
SPLIT_WORDS = {
    "train": "train", "training": "train",
    "validation": "validation", "valid": "validation", "val": "validation",
    "test": "test", "testing": "test",
}  # fmt: skip


@dataclass(frozen=True)
class Labels:
    """Row by row: a node, the code of its class (-1 for unlabelled), its part of the split."""

    ids: Ids
    codes: np.ndarray
    class_names: np.ndarray
    split: np.ndarray | None
    name: str  # of the column
    note: str | None = None  # about words that were taken for missing labels


def read_labels(path: Path, columns: Columns) -> Labels:
    """Labels from a file of their own."""
    suffix = suffix_of(path)
    if suffix in MATRIX_SUFFIXES:
        table = _columns_of_arrays(path, read_arrays(path), columns)
    elif suffix in TABLE_SUFFIXES:
        table = read_table(path, as_text=lambda name: True)
        if not table.has_header and len(table.names) == 2:
            columns = Columns(id=table.names[0], label=table.names[1])  # pairs without a header
    else:
        raise DataError(
            f"{path}: labels come as {', '.join((*TABLE_SUFFIXES, '.npy', '.npz'))}, not "
            f"{suffix or 'without a suffix'}"
        )
    label = columns.find_label(table, needed=True)
    assert label is not None
    return take_labels(table, ids_of(table, columns), label, columns.find_split(table))


def ids_of(table: Table, columns: Columns) -> Ids:
    """The column of ids, or the numbers of rows where there is none."""
    name = columns.find_id(table)
    return row_numbers(table.path, table.n_rows) if name is None else read_ids(table, name)


def _columns_of_arrays(path: Path, arrays: Mapping[str, Any], columns: Columns) -> Table:
    """The arrays of a file of labels, under the names that tables have."""
    found = {name: a for name, a in arrays.items() if name and columns.is_kept_as_text(name)}
    only = next((name for name in ("y", "") if name in arrays), None)
    if only is not None and "label" not in found:
        found["label"] = arrays[only]
    if not found or any(getattr(array, "ndim", 0) != 1 for array in found.values()):
        raise DataError(f"{path}: labels must be one array, 'label', with one value per node")
    sizes = {name: len(array) for name, array in found.items()}
    if len(set(sizes.values())) > 1:
        raise DataError(f"{path}: arrays of lengths {sizes} must be alike, one value per node")
    return table_of_arrays(path, found)


def take_labels(table: Table, ids: Ids, label: str, split: str | None) -> Labels:
    """Labels, and the split if there is one, out of columns of a table."""
    values = _label_values(table, label)
    known = labeled_mask(values)
    codes = np.full(len(values), -1)
    class_names, codes[known] = np.unique(values[known].tolist(), return_inverse=True)
    parts = None if split is None else split_values(table, split)
    return Labels(ids, codes, class_names, parts, label, missing_words_note(values))


def _label_values(table: Table, name: str) -> np.ndarray:
    """Text or integers, unlabelled ones included."""
    column, types = table.column(name), pa.types
    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if types.is_floating(column.type):
        column = column.cast(pa.float64())
        column = pc.if_else(pc.is_nan(column), None, column)
        if not are_whole(column):
            raise _fractions(table, name)
    if are_whole(column):
        try:
            column = to_integers(column)
        except pa.ArrowInvalid:
            raise DataError(
                f"{table.path}: column {name!r} has labels beyond 64 bits; give them as text"
            ) from None
    if types.is_boolean(column.type):
        column = column.cast(pa.string())
    if not any(
        is_kind(column.type)
        for is_kind in (types.is_integer, types.is_string, types.is_large_string, types.is_null)
    ):
        raise DataError(
            f"{table.path}: column {name!r} holds {column.type}; a label must be an integer or text"
        )
    values = np.empty(len(column), object)
    values[:] = column.to_pylist()
    return _integers_where_plain(table, name, values) if table.is_text else values


def _integers_where_plain(table: Table, name: str, values: np.ndarray) -> np.ndarray:
    """Labels of a CSV: integers if all are plainly that; 01 and 1 stay two classes."""
    known = [value for value in values if not is_unlabeled(value)]
    plain = [re.match(PLAIN_INTEGER, v) or WHOLE_FLOAT.match(v) for v in known]
    if known and all(plain):
        to_integer = {value: int(value.removesuffix(".0")) for value in set(known)}
        values[:] = [to_integer.get(value) for value in values]
    elif any("." in v for v in known) and all(re.fullmatch(r"-?[0-9.]+", v) for v in known):
        raise _fractions(table, name)
    return values


def _fractions(table: Table, name: str) -> DataError:
    return DataError(
        f"{table.path}: column {name!r} holds fractions; a label must be an integer or text"
    )


def split_values(table: Table, name: str) -> np.ndarray:
    """The part of each row, None where it has none."""
    words = np.empty(table.n_rows, object)
    for row, value in enumerate(table.column(name).to_pylist()):
        word = "" if value is None else str(value).strip().lower()
        if word and word not in SPLIT_WORDS:
            raise DataError(
                f"{table.place(row)}: {value!r} in column {name!r} must be train, validation, "
                f"test or empty"
            )
        words[row] = SPLIT_WORDS.get(word)
    return words
