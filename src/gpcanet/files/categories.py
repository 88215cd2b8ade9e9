"""Categorical features as columns of 0 and 1."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..errors import DataError
from .tables import Table

#: Columns with more distinct values are refused: they are more likely names than categories.
LARGEST_NUMBER = 1_000

#: Separates the column and the category in the name of a feature.
SEPARATOR = "="


def is_categorical(table: Table, name: str) -> bool:
    """Whether a column is categorical by its type, as pandas and polars write it."""
    return bool(pa.types.is_dictionary(table.column(name).type))


def encode_categories(
    table: Table, name: str, known: Sequence[str] | None = None
) -> tuple[np.ndarray, list[str]]:
    """Columns of 0 and 1, NaN where the value is missing, and their names.

    ``known`` are the categories if a model determines them; another value is an error. Otherwise
    they are those that a categorical column declares, or the distinct values, sorted.
    """
    column = table.column(name)
    if pa.types.is_dictionary(column.type):
        column = column.unify_dictionaries()
        declared = column.chunk(0).dictionary if column.num_chunks else pa.array([], pa.string())
        categories = [str(value) for value in declared.to_pylist() if value is not None]
        column = column.cast(column.type.value_type)
    else:
        categories = []
    text = _as_text(table, name, column)
    text = pc.if_else(pc.equal(pc.utf8_trim_whitespace(text), ""), None, text)
    categories = list(known) if known is not None else categories
    categories = categories or sorted(v for v in pc.unique(text).to_pylist() if v is not None)
    if not categories:
        raise DataError(f"{table.path}: column {name!r} has no value; ignore it")
    if len(categories) > LARGEST_NUMBER:
        raise DataError(
            f"{table.path}: column {name!r} has {len(categories):,} distinct values, more than "
            f"{LARGEST_NUMBER:,}; group them, or ignore the column"
        )
    codes = pc.index_in(text, value_set=pa.array(categories, pa.string()))
    unknown = pc.and_(codes.is_null(), text.is_valid())
    if pc.any(unknown).as_py():
        row = pc.index(unknown, True).as_py()
        listed = ", ".join(map(repr, categories[:5])) + (", ..." if len(categories) > 5 else "")
        raise DataError(
            f"{table.place(row)}: {text[row].as_py()!r} in column {name!r} is not a category of "
            f"the model; it has {listed}"
        )
    block = np.zeros((table.n_rows, len(categories)), np.float32)
    positions = codes.fill_null(0).to_numpy()
    block[np.arange(table.n_rows), positions] = 1
    block[codes.is_null().to_numpy()] = np.nan
    return block, [f"{name}{SEPARATOR}{category}" for category in categories]


def categories_of_features(features: Iterable[str] | None) -> dict[str, list[str]]:
    """Columns and categories in names of features, such as ``{"kind": ["a", "b"]}``.

    A column or a category may contain the separator: ``a=b=c`` is found in ``a`` and in ``a=b``.
    """
    names, found = dict.fromkeys(() if features is None else features), dict[str, list[str]]()
    for name in names:
        *parts, _ = name.split(SEPARATOR)
        for n_parts in range(1, len(parts) + 1):
            column = SEPARATOR.join(parts[:n_parts])
            if column not in names:
                found.setdefault(column, []).append(name[len(column) + len(SEPARATOR) :])
    return found


def _as_text(table: Table, name: str, column: Any) -> Any:
    kinds = (
        pa.types.is_string, pa.types.is_large_string, pa.types.is_integer, pa.types.is_boolean,
        pa.types.is_null,
    )  # fmt: skip
    if not any(is_kind(column.type) for is_kind in kinds):
        raise DataError(
            f"{table.path}: column {name!r} has type {column.type}; categories must be text, "
            f"integers or booleans"
        )
    if pa.types.is_boolean(column.type):
        return pc.if_else(column, "True", "False")  # as pandas and numpy write them
    return column.cast(pa.string())
