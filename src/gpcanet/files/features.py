"""Features of nodes: a matrix, the ids of its rows, and labels that stand beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from ..errors import DataError
from .columns import LABEL_NAMES, Columns
from .ids import Ids, read_ids, row_numbers
from .labels import Labels, ids_of, split_values, take_labels
from .matrices import MATRIX_SUFFIXES, read_arrays
from .tables import (
    TABLE_SUFFIXES,
    Table,
    check_file,
    first_line,
    read_table,
    suffix_of,
    table_of_arrays,
)

#: Names under which an npz may hold features.
FEATURE_ARRAYS = ("features", "X", "x", "embedding")


@dataclass(frozen=True)
class Features:
    """A row of X for every node, and what else the file says of nodes."""

    path: Path
    X: np.ndarray | sp.csr_array
    ids: Ids
    names: np.ndarray | None = None  # of the columns of X
    labels: Labels | None = None
    split: np.ndarray | None = None
    adjacency: sp.csr_array | None = None
    label_left_out: str | None = None  # a column called like the label of another file
    table: Table | None = None  # whose columns are X

    @property
    def has_header(self) -> bool:
        return self.table is None or self.table.has_header

    @property
    def has_numbered_header(self) -> bool:
        """Whether a first row 0, 1, 2, ... counts as the header."""
        return self.table is not None and self.has_header and self.table.starts_with_numbers


def read_features(path: Path, columns: Columns, *, labels: Labels | None = None) -> Features:
    """Features, and the labels beside them unless there are labels already."""
    suffix = suffix_of(path)
    if suffix in TABLE_SUFFIXES:
        table = read_table(path, as_text=columns.is_kept_as_text, numbers_may_be_names=True)
        nodes = _from_table(table, columns, labels)
    elif suffix in MATRIX_SUFFIXES:
        nodes = _from_arrays(path, columns, labels)
    elif suffix == ".h5ad":
        nodes = _from_anndata(path, columns, labels)
    else:
        raise DataError(
            f"{path}: features come as {', '.join((*TABLE_SUFFIXES, *MATRIX_SUFFIXES, '.h5ad'))}, "
            f"not {suffix or 'without a suffix'}"
        )
    if 0 in nodes.X.shape:
        missing = "row" if nodes.X.shape[0] == 0 else "column of features"
        raise DataError(f"{path} has no {missing}; at least one is needed")
    return nodes


def _from_table(table: Table, columns: Columns, labels: Labels | None) -> Features:
    elsewhere = None
    # Numbers are what pandas calls columns without names: 0 here is not 0 there.
    if labels is not None and labels.ids.table.has_header and not labels.name.isdigit():
        elsewhere = labels.name
    names = columns.features_of(table, label_elsewhere=elsewhere)
    ids = ids_of(table, columns)
    told, split = _told_beside(table, ids, columns, labels)
    X = _matrix(table, names)
    # Lists of numbers in a column have no names of their own.
    named = np.array(names, object) if X.shape[1] == len(names) else None
    shared = [name for name in table.names if name == elsewhere and name != columns.label]
    left_out = next((name for name in shared if name.lower() not in LABEL_NAMES), None)
    return Features(table.path, X, ids, named, told, split, table=table, label_left_out=left_out)


def _told_beside(
    table: Table, ids: Ids, columns: Columns, elsewhere: Labels | None
) -> tuple[Labels | None, np.ndarray | None]:
    """Labels and the split that stand beside the features."""
    name = columns.find_split(table)
    split = None if name is None else split_values(table, name)
    if elsewhere is not None:
        where = elsewhere.ids.table.path
        if split is not None and elsewhere.split is not None:
            raise DataError(
                f"there is a split in {table.path} and one in {where}; ignore column {name!r} of "
                f"the first"
            )
        if columns.split is not None and split is None and elsewhere.split is None:
            raise DataError(f"{where} has no column {columns.split!r}, nor has {table.path}")
        return elsewhere, split
    if columns.split is not None:
        table.column(columns.split)
    label = columns.find_label(table, needed=columns.label is not None)
    return None if label is None else take_labels(table, ids, label, None), split


def _matrix(table: Table, names: Sequence[str]) -> np.ndarray:
    columns = [table.numbers(name) for name in names]
    widths = [1 if column.ndim == 1 else column.shape[1] for column in columns]
    dtype = np.result_type(np.float32, *(column.dtype for column in columns))
    X = np.empty((table.n_rows, sum(widths)), dtype)
    begin = 0
    for name, column, width in zip(names, columns, widths, strict=True):
        finite = np.isfinite(column)
        if not finite.all():
            row = int(np.argwhere(~finite)[0][0])
            raise DataError(
                f"{table.place(row)}: {column[row]} in column {name!r} is not finite; mend it"
            )
        X[:, begin : begin + width] = column.reshape(table.n_rows, width)
        begin += width
    return X


def _from_arrays(path: Path, columns: Columns, labels: Labels | None) -> Features:
    arrays = read_arrays(path)
    blocks = [name for name, array in arrays.items() if array.ndim == 2]
    named = next((name for name in FEATURE_ARRAYS if name in blocks), None)
    if named is None and len(blocks) != 1:
        raise DataError(
            f"{path} must hold one matrix, or one called {FEATURE_ARRAYS[0]!r}; it has "
            f"{', '.join(map(repr, arrays))}"
        )
    X = _real(path, arrays.pop(named or blocks[0]))
    beside = _beside(path, arrays, columns, X.shape[0])
    if beside is None:
        return Features(path, X, row_numbers(path, X.shape[0]), labels=labels)
    ids = ids_of(beside, columns)
    told, split = _told_beside(beside, ids, columns, labels)
    return Features(path, X, ids, labels=told, split=split)


def _real(path: Path, X: Any) -> Any:
    """The matrix as float32 or float64."""
    if X.dtype.kind not in "fiub":
        raise DataError(f"{path}: features of dtype {X.dtype} must be real numbers")
    single = np.result_type(X.dtype, np.float32) == np.float32
    return X.astype(np.float32 if single else np.float64, copy=False)


def _beside(path: Path, arrays: Mapping[str, Any], columns: Columns, n_rows: int) -> Table | None:
    """Ids, labels and split of an npz: arrays with one value per row of the features."""
    found = {name: a for name, a in arrays.items() if columns.is_kept_as_text(name) and name}
    if "y" in arrays and "label" not in found:
        found["label"] = arrays["y"]
    for name, array in found.items():
        if np.shape(array) != (n_rows,):
            raise DataError(
                f"{path}: array {name!r} of shape {np.shape(array)} must have one value for each "
                f"of {n_rows} rows of features"
            )
    return table_of_arrays(path, found) if found else None


def _from_anndata(path: Path, columns: Columns, labels: Labels | None) -> Features:
    data = _read_anndata(path)
    if data.X is None:
        raise DataError(f"{path} has no features; fill in X")
    X = _real(path, data.X if sp.issparse(data.X) else np.asarray(data.X))
    obs = pa.Table.from_pandas(data.obs, preserve_index=False)
    table = Table(path, obs)
    names = Table(path, pa.table({"id": np.asarray(data.obs_names, dtype=object)}))
    ids = read_ids(names, "id") if columns.id is None else read_ids(table, columns.id)
    graph = data.obsp.get("connectivities")
    return Features(
        path,
        sp.csr_array(X) if sp.issparse(X) else X,
        ids,
        np.asarray(data.var_names, dtype=object),
        *_told_beside(table, ids, columns, labels),
        None if graph is None else sp.csr_array(graph),
    )


def _read_anndata(path: Path) -> Any:
    try:
        import anndata
    except ImportError:
        raise DataError(f"{path}: h5ad files need anndata; pip install 'gpcanet[h5ad]'") from None
    check_file(path)
    try:
        return anndata.read_h5ad(path)
    except Exception as error:  # h5py and anndata raise many kinds
        raise DataError(f"{path} is no readable h5ad file: {first_line(error)}") from None
