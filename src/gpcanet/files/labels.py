"""Labels of nodes, and perhaps which of them are to train, to decide and to test."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..datasets.errors import DataError
from .ids import (
    Ids,
    are_whole,
    find_id_column,
    id_candidates,
    read_ids,
    row_numbers,
    to_integers,
)
from .matrices import MATRIX_SUFFIXES, read_arrays
from .tables import TABLE_SUFFIXES, Table, read_table, suffix_of, table_of_arrays

LABEL_NAME, SPLIT_NAME = "label", "split"

#: What stands for no label.
UNLABELLED = (None, "", -1, "-1")

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


def read_labels(
    path: Path, id_column: str | None, label_column: str | None, split_column: str | None
) -> Labels:
    """Labels from a file of their own."""
    if suffix_of(path) in MATRIX_SUFFIXES:
        table = _table_of_array(path)
        return take_labels(table, row_numbers(path, table.n_rows), LABEL_NAME, None)
    if suffix_of(path) not in TABLE_SUFFIXES:
        raise DataError(
            f"{path}: labels come as {', '.join((*TABLE_SUFFIXES, '.npy', '.npz'))}, not "
            f"{suffix_of(path) or 'without a suffix'}"
        )
    table = read_table(path, as_text=id_candidates(id_column))
    id_name = find_id_column(table, id_column)
    ids = row_numbers(path, table.n_rows) if id_name is None else read_ids(table, id_name)
    split_column = split_column or (SPLIT_NAME if SPLIT_NAME in table.names else None)
    if label_column is None:
        apart = {id_name, split_column, *table.index_columns()}
        others = [name for name in table.names if name not in apart]
        if not others:
            raise DataError(f"{path} has no column of labels beside the ids; add one")
        if LABEL_NAME not in others and len(others) != 1:
            raise DataError(
                f"{path}: which column is the label? Name one of {', '.join(map(repr, others))}"
            )
        label_column = LABEL_NAME if LABEL_NAME in others else others[0]
    return take_labels(table, ids, label_column, split_column)


def take_labels(table: Table, ids: Ids, label_column: str, split_column: str | None) -> Labels:
    """Labels, and the split if there is one, out of columns of a table."""
    values = _label_values(table, label_column)
    known = np.array([value not in UNLABELLED for value in values], bool)
    codes = np.full(len(values), -1)
    class_names, codes[known] = np.unique(values[known].tolist(), return_inverse=True)
    split = None if split_column is None else _split_values(table, split_column)
    return Labels(ids, codes, class_names, split)


def _label_values(table: Table, name: str) -> np.ndarray:
    """Text or integers, None where there is no label."""
    column, types = table.column(name), pa.types
    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if types.is_floating(column.type):
        column = column.cast(pa.float64())
        column = pc.if_else(pc.is_nan(column), None, column)
        if not are_whole(column):
            raise DataError(
                f"{table.path}: column {name!r} holds fractions; a label must be an integer or text"
            )
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
    return values


def _split_values(table: Table, name: str) -> np.ndarray:
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


def _table_of_array(path: Path) -> Table:
    arrays = read_arrays(path)
    name = next((name for name in (LABEL_NAME, "labels", "y", "") if name in arrays), None)
    if name is None or getattr(arrays[name], "ndim", 0) != 1:
        raise DataError(
            f"{path}: labels must be one array, {LABEL_NAME!r}, with one value per node"
        )
    return table_of_arrays(path, {LABEL_NAME: arrays[name]})
