"""Features of nodes: a matrix, the ids of its rows, and labels that stand beside them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from ..datasets.errors import DataError
from .ids import Ids, find_id_column, id_candidates, read_ids, row_numbers
from .labels import LABEL_NAME, SPLIT_NAME, Labels, take_labels
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

#: Names under which an npz may hold node ids and features.
ID_ARRAYS = ("node_ids", "ids", "id")
FEATURE_ARRAYS = ("features", "X", "x", "embedding")


@dataclass(frozen=True)
class Features:
    """A row of X for every node."""

    path: Path
    X: np.ndarray | sp.csr_array
    ids: Ids
    labels: Labels | None = None
    adjacency: sp.csr_array | None = None  # where the file also holds the graph


def read_features(
    path: Path,
    *,
    id_column: str | None,
    label_column: str | None,
    split_column: str | None,
    ignore: Sequence[str],
    take_labels_along: bool = True,
) -> Features:
    """Features, and labels beside them unless these are to come from a file of their own."""
    suffix = suffix_of(path)
    if suffix in TABLE_SUFFIXES:
        table = read_table(path, as_text=id_candidates(id_column))
        nodes = _from_table(table, id_column, label_column, split_column, ignore, take_labels_along)
    elif suffix in MATRIX_SUFFIXES:
        nodes = _from_arrays(path)
    elif suffix == ".h5ad":
        nodes = _from_anndata(path, label_column if take_labels_along else None)
    else:
        raise DataError(
            f"{path}: features come as {', '.join((*TABLE_SUFFIXES, *MATRIX_SUFFIXES, '.h5ad'))}, "
            f"not {suffix or 'without a suffix'}"
        )
    if 0 in nodes.X.shape:
        missing = "row" if nodes.X.shape[0] == 0 else "column of features"
        raise DataError(f"{path} has no {missing}; at least one is needed")
    return nodes


def _from_table(
    table: Table,
    id_column: str | None,
    label_column: str | None,
    split_column: str | None,
    ignore: Sequence[str],
    take_labels_along: bool,
) -> Features:
    id_name = find_id_column(table, id_column)
    for name in ignore:
        table.column(name)  # raises where there is none
    # A column called label is never a feature by accident: it would give the answer away.
    label_column = label_column or _if_there(table, LABEL_NAME, ignore)
    split_column = split_column or _if_there(table, SPLIT_NAME, ignore)
    apart = {id_name, label_column, split_column, *ignore, *table.index_columns()}
    names = [name for name in table.names if name not in apart]
    ids = row_numbers(table.path, table.n_rows) if id_name is None else read_ids(table, id_name)
    labels = None
    if label_column is not None and take_labels_along:
        labels = take_labels(table, ids, label_column, split_column)
    return Features(table.path, _matrix(table, names), ids, labels)


def _matrix(table: Table, names: Sequence[str]) -> np.ndarray:
    columns = [table.numbers(name) for name in names]
    widths = [1 if column.ndim == 1 else column.shape[1] for column in columns]
    dtype = np.result_type(np.float32, *(column.dtype for column in columns))
    X = np.empty((table.n_rows, sum(widths)), dtype)
    begin = 0
    for column, width in zip(columns, widths, strict=True):
        X[:, begin : begin + width] = column.reshape(table.n_rows, width)
        begin += width
    return X


def _from_arrays(path: Path) -> Features:
    arrays = read_arrays(path)
    blocks = [name for name, array in arrays.items() if array.ndim == 2]
    named = next((name for name in FEATURE_ARRAYS if name in blocks), None)
    if named is None and len(blocks) != 1:
        raise DataError(
            f"{path} must hold one matrix, or one called {FEATURE_ARRAYS[0]!r}; it has "
            f"{', '.join(map(repr, arrays))}"
        )
    X = arrays[named or blocks[0]]
    if X.dtype.kind not in "fiub":
        raise DataError(f"{path}: features of dtype {X.dtype} must be real numbers")
    single = np.result_type(X.dtype, np.float32) == np.float32
    X = X.astype(np.float32 if single else np.float64, copy=False)
    id_name = next((name for name in ID_ARRAYS if name in arrays), None)
    if id_name is None:
        return Features(path, X, row_numbers(path, X.shape[0]))
    ids = read_ids(table_of_arrays(path, {id_name: arrays[id_name]}), id_name)
    if len(ids.values) != X.shape[0]:
        raise DataError(f"{path}: {len(ids.values)} node ids for {X.shape[0]} rows of features")
    return Features(path, X, ids)


def _from_anndata(path: Path, label_column: str | None) -> Features:
    data = _read_anndata(path)
    X = data.X if sp.issparse(data.X) else np.asarray(data.X)
    table = Table(path, pa.table({"id": np.asarray(data.obs_names, dtype=object)}))
    ids = read_ids(table, "id")
    labels = None
    if label_column is not None:
        columns = pa.Table.from_pandas(data.obs, preserve_index=False)
        labels = take_labels(Table(path, columns), ids, label_column, None)
    graph = data.obsp.get("connectivities")
    return Features(
        path,
        sp.csr_array(X) if sp.issparse(X) else X,
        ids,
        labels,
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


def _if_there(table: Table, name: str, ignore: Sequence[str]) -> str | None:
    return name if name in table.names and name not in ignore else None
