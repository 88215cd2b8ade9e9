"""Labels of nodes and their split into training, validation and test nodes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..errors import DataError
from ..utils.labels import (
    MISSING_WORDS,
    is_missing,
    is_unlabeled,
    labeled_mask,
    missing_words_note,
)
from .arrays import ARRAY_SUFFIXES, read_arrays
from .column_roles import ID_ARRAY_NAMES, ID_NAMES, ColumnRoles
from .id_columns import (
    CANONICAL_INTEGER,
    ROUNDED_FROM,
    NodeIds,
    are_whole_numbers,
    nan_as_null,
    read_ids,
    rounded_integers,
    row_positions,
    to_int64,
)
from .joined_tables import read_table
from .paths import TABLE_SUFFIXES, suffix_of, wrong_format
from .tables import Table, decimal_comma_advice, decoded, table_of_arrays

#: An integer that pandas writes as a float because its column has missing values.
WHOLE_FLOAT = re.compile(r"-?[0-9]+\.0$")

#: Accepted words for the parts of a split.
SPLIT_WORDS = {
    "train": "train", "training": "train",
    "validation": "validation", "valid": "validation", "val": "validation",
    "test": "test", "testing": "test",
}  # fmt: skip


@dataclass(frozen=True)
class Labels:
    """For every row: a node, the code of its class (-1 if unlabelled), its part of the split.

    If labels are numbers, the distinct numbers are the ``class_names``.
    """

    ids: NodeIds
    codes: np.ndarray
    class_names: np.ndarray
    split: np.ndarray | None
    name: str  # of the column
    note: str | None = None  # about words that count as missing labels
    are_numbers: bool = False


def read_labels(path: Path, roles: ColumnRoles) -> Labels:
    """Read a file of labels."""
    suffix = suffix_of(path)
    if suffix in ARRAY_SUFFIXES:
        table = _table_of_label_arrays(path, read_arrays(path), roles)
    elif suffix in TABLE_SUFFIXES:
        table = read_table(path, as_text=lambda name: True)
        roles = roles.for_table(table)
        if not table.has_header and len(table.names) == 2:
            roles = replace(roles, id=table.names[0], label=table.names[1], split=None)
    else:
        raise wrong_format(path, "labels", (*TABLE_SUFFIXES, ".npy", ".npz"))
    label = roles.find_label(table, required=True)
    assert label is not None
    return extract_labels(table, find_ids(table, roles), label, roles, roles.find_split(table))


def find_ids(table: Table, roles: ColumnRoles) -> NodeIds:
    """The column of ids, or the positions of the rows if there is none."""
    name = roles.find_id(table)
    return row_positions(table.path, table.n_rows) if name is None else read_ids(table, name)


def per_node_arrays(path: Path, arrays: Mapping[str, Any], roles: ColumnRoles) -> dict[str, Any]:
    """Arrays of an npz file that are node ids, labels or a split, by the names that tables have."""
    found = {name: array for name, array in arrays.items() if name and roles.is_text(name)}
    if not any(name == roles.id or name.lower() in ID_NAMES for name in found):
        ids = [n for n in arrays if n.lower() in ID_ARRAY_NAMES and n not in roles.ignore]
        if len(ids) > 1:
            raise DataError(
                f"{path} has several arrays that may be the node ids, {', '.join(map(repr, ids))}; "
                f"name one of them as the id column"
            )
        if ids:
            found["id"] = arrays[ids[0]]
    if "y" in arrays and "label" not in found:
        found["label"] = arrays["y"]
    return found


def _table_of_label_arrays(path: Path, arrays: Mapping[str, Any], roles: ColumnRoles) -> Table:
    found = per_node_arrays(path, arrays, roles)
    if "" in arrays and "label" not in found:
        found["label"] = arrays[""]
    if not found or any(getattr(array, "ndim", 0) != 1 for array in found.values()):
        raise DataError(f"{path}: labels must be one array, 'label', with one value per node")
    sizes = {name: len(array) for name, array in found.items()}
    if len(set(sizes.values())) > 1:
        raise DataError(f"{path}: arrays have lengths {sizes}, but must have one value per node")
    return table_of_arrays(path, found)


def extract_labels(
    table: Table, ids: NodeIds, label: str, roles: ColumnRoles, split: str | None
) -> Labels:
    """Labels, and the split if there is one, from columns of a table."""
    parts = None if split is None else split_values(table, split)
    if roles.label_is_number:
        numbers = _numbers(table, label)
        known, note = ~np.isnan(numbers), None
        values: Any = numbers
    else:
        values = _label_values(table, label)
        known, note = labeled_mask(values), missing_words_note(values)
    codes = np.full(len(values), -1)
    class_names, codes[known] = np.unique(values[known].tolist(), return_inverse=True)
    return Labels(ids, codes, class_names, parts, label, note, roles.label_is_number)


def _numbers(table: Table, name: str) -> np.ndarray:
    """Numbers to predict, NaN where a cell is empty or has a word for a missing value."""
    column = table.column(name)
    numbers = np.full(len(column), np.nan)
    for row, value in enumerate(column.to_pylist()):
        text = isinstance(value, str)
        if is_missing(value) or (text and (not value.strip() or value in MISSING_WORDS)):
            continue
        try:
            numbers[row] = float(value)
        except (TypeError, ValueError):
            numbers[row] = np.inf
        if not np.isfinite(numbers[row]) or (text and "_" in value):  # Python reads 1_000
            advice = decimal_comma_advice(value) if text else None
            raise DataError(
                f"{table.place(row)}: {value!r} in column {name!r} is not a finite number; "
                f"{advice or 'leave the cell empty where the value is unknown'}"
            )
    return numbers


def _label_values(table: Table, name: str) -> np.ndarray:
    """Labels as text or integers, including those that mean unlabelled."""
    column, types = decoded(table.column(name)), pa.types
    if types.is_floating(column.type):
        column = nan_as_null(column)
        if not are_whole_numbers(column):
            raise _fractions(table, name)
    if are_whole_numbers(column):
        column = to_int64(table, name, column)
    if types.is_boolean(column.type):
        column = pc.if_else(column, "True", "False")  # as pandas and numpy write them
    if not any(
        is_type(column.type)
        for is_type in (types.is_integer, types.is_string, types.is_large_string, types.is_null)
    ):
        raise DataError(
            f"{table.path}: column {name!r} has type {column.type}; labels must be integers or text"
        )
    values = np.empty(len(column), object)
    values[:] = column.to_pylist()
    return _to_integers_if_canonical(table, name, values) if table.is_text else values


def _to_integers_if_canonical(table: Table, name: str, values: np.ndarray) -> np.ndarray:
    """Labels of a CSV as integers if all are in canonical form; 01 and 1 stay two classes."""
    known = [value for value in values if not is_unlabeled(value)]
    are_integers = [re.match(CANONICAL_INTEGER, v) or WHOLE_FLOAT.match(v) for v in known]
    if known and all(are_integers):
        to_integer = {value: int(value.removesuffix(".0")) for value in set(known)}
        if any(v.endswith(".0") and abs(i) >= ROUNDED_FROM for v, i in to_integer.items()):
            raise rounded_integers(table, name)
        values[:] = [to_integer.get(value) for value in values]
    elif any("." in v for v in known) and all(re.fullmatch(r"-?[0-9.]+", v) for v in known):
        raise _fractions(table, name)
    return values


def _fractions(table: Table, name: str) -> DataError:
    return DataError(
        f"{table.path}: column {name!r} contains fractions; labels must be integers or text; use "
        f"gpcanet regress to predict numbers"
    )


def split_values(table: Table, name: str) -> np.ndarray:
    """The part of the split of every row; None if it has none."""
    parts = np.empty(table.n_rows, object)
    for row, value in enumerate(table.column(name).to_pylist()):
        word = "" if value is None else str(value).strip().lower()
        if word and word not in SPLIT_WORDS:
            raise DataError(
                f"{table.place(row)}: {value!r} in column {name!r} must be train, validation, "
                f"test or empty; rename the column if it is a feature, or leave it out (--ignore "
                f"{name})"
            )
        parts[row] = SPLIT_WORDS.get(word)
    return parts
