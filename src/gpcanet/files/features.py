"""Features of nodes: a matrix, the ids of its rows, and labels in the same file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from ..errors import DataError, MissingFeatureError
from ..utils.messages import first_line
from .annotated_data import (
    CONNECTIVITIES,
    SPATIAL,
    adjacency_matrix,
    feature_matrix,
    find_graph,
    graph_keys,
)
from .arrays import ARRAY_SUFFIXES, read_arrays, to_float
from .categories import encode_categories, is_categorical
from .column_roles import LABEL_NAMES, ColumnRoles
from .id_columns import NodeIds, read_ids, row_positions
from .joined_tables import read_table
from .labels import Labels, extract_labels, find_ids, per_node_arrays, split_values
from .paths import TABLE_SUFFIXES, check_file, suffix_of, wrong_format
from .tables import Table, table_of_arrays

#: Names of the features in an npz file.
FEATURE_ARRAYS = ("features", "X", "x", "embedding")


@dataclass(frozen=True)
class AnnDataSlots:
    """Parts of an h5ad file to use: a layer or an array of obsm instead of X, a graph of obsp."""

    layer: str | None = None
    obsm: str | None = None
    obsp: str | None = None

    def check(self, path: Path) -> None:
        """Raise if a part is named and the file is not an h5ad file."""
        for slot, name in vars(self).items():
            if name is not None and suffix_of(path) != ".h5ad":
                raise DataError(f"{slot} {name!r} is for h5ad files, not for {path}; leave it out")


@dataclass(frozen=True)
class Features:
    """One row of X per node, and everything else that the file contains about nodes."""

    path: Path
    X: np.ndarray | sp.csr_array
    ids: NodeIds
    names: np.ndarray | None = None  # of the columns of X
    labels: Labels | None = None
    split: np.ndarray | None = None
    adjacency: sp.csr_array | None = None
    excluded_label: str | None = None  # a column with the name of the label of another file
    table: Table | None = None  # the table whose columns are X
    graph_note: str | None = None  # about edges of the same file
    encoded: tuple[str, ...] = ()  # categorical columns that were not named as such
    reserved: tuple[str, ...] = ()  # columns with the name of a label or split that are unused

    @property
    def label_note(self) -> str | None:
        """A sentence about a column that is not a feature, because labels have its name."""
        if self.excluded_label is None:
            return None
        return (
            f"{self.path}: column {self.excluded_label!r} has the name of the label and is not a "
            f"feature; rename it if it is one"
        )

    @property
    def has_header(self) -> bool:
        return self.table is None or self.table.has_header

    @property
    def has_numbered_header(self) -> bool:
        """Whether the header is 0, 1, 2, ..."""
        return self.table is not None and self.has_header and self.table.starts_with_numbers


def read_features(
    path: Path,
    roles: ColumnRoles,
    *,
    labels: Labels | None = None,
    keep_missing: bool = False,
    slots: AnnDataSlots = AnnDataSlots(),
) -> Features:
    """Read features, and the labels of the same file unless labels are given.

    Missing numbers are NaN in X with ``keep_missing``, and an error without.
    """
    slots.check(path)
    suffix = suffix_of(path)
    named = [name for name, known in roles.one_hot.items() if known is None]
    if named and suffix in (*ARRAY_SUFFIXES, ".h5ad"):
        raise DataError(f"{path} has no column {named[0]!r} to encode; it is not a table")
    if suffix in TABLE_SUFFIXES:
        table = read_table(path, as_text=roles.is_text, header_may_be_numbers=True)
        nodes = _from_table(table, roles.for_table(table), labels, keep_missing)
    elif suffix in ARRAY_SUFFIXES:
        nodes = _from_arrays(path, roles, labels)
    elif suffix == ".h5ad":
        nodes = _from_anndata(path, roles, labels, slots)
    else:
        raise wrong_format(path, "features", (*TABLE_SUFFIXES, *ARRAY_SUFFIXES, ".h5ad"))
    if 0 in nodes.X.shape:
        missing = "row" if nodes.X.shape[0] == 0 else "column of features"
        raise DataError(f"{path} has no {missing}; give at least one")
    if nodes.table is None and not keep_missing:
        _check_missing(nodes)
    return nodes


def _from_table(
    table: Table, roles: ColumnRoles, labels: Labels | None, keep_missing: bool
) -> Features:
    label = None  # of the other file
    # pandas writes numbers for columns without names: 0 in one file is not 0 in another.
    if labels is not None and labels.ids.table.has_header and not labels.name.isdigit():
        label = labels.name
    names = roles.find_features(table, label_of_other_file=label)
    ids = find_ids(table, roles)
    found, split = _labels_and_split(table, ids, roles, labels)
    X, own_names = _matrix(table, names, roles, keep_missing)
    feature_names = None if own_names is None else np.array(own_names, object)
    encoded = tuple(n for n in names if n not in roles.one_hot and is_categorical(table, n))
    shared = [name for name in table.names if name == label and name != roles.label]
    excluded = next((name for name in shared if name.lower() not in LABEL_NAMES), None)
    reserved = roles.find_reserved(table, label=None if found is None else found.name)
    return Features(
        table.path, X, ids, feature_names, found, split, table=table, excluded_label=excluded,
        encoded=encoded, reserved=tuple(reserved),
    )  # fmt: skip


def _labels_and_split(
    table: Table, ids: NodeIds, roles: ColumnRoles, labels: Labels | None
) -> tuple[Labels | None, np.ndarray | None]:
    """The given labels or else those of the table, and the split of the table."""
    name = roles.find_split(table)
    split = None if name is None else split_values(table, name)
    if labels is not None:
        other = labels.ids.table.path
        if split is not None and labels.split is not None:
            raise DataError(
                f"{table.path} and {other} both have a split; ignore column {name!r} of the first"
            )
        if roles.split is not None and split is None and labels.split is None:
            raise DataError(f"{other} has no column {roles.split!r}, nor has {table.path}; add it")
        return labels, split
    if roles.split is not None:
        table.column(roles.split)  # raises if it does not exist
    label = roles.find_label(table, required=roles.label is not None)
    found = None if label is None else extract_labels(table, ids, label, roles, None)
    return found, split


def _matrix(
    table: Table, names: Sequence[str], roles: ColumnRoles, keep_missing: bool
) -> tuple[np.ndarray, list[str] | None]:
    """X and the names of its columns; None if some have no names."""
    blocks: list[np.ndarray] = []
    feature_names: list[str] | None = []
    numeric = [name for name in names if name not in roles.one_hot]
    for name in names:
        if name in roles.one_hot or is_categorical(table, name):
            block, own_names = encode_categories(table, name, roles.one_hot.get(name))
            noun = "category"
        else:
            block, own_names = table.numbers(name, are_features=True, others=numeric), [name]
            noun = "number"
        missing, infinite = np.isnan(block), np.isinf(block)
        if missing.any() and not keep_missing:
            row = int(np.argwhere(missing)[0][0])
            raise MissingFeatureError(
                f"{table.place(row)}: the {noun} in column {name!r} is missing"
            )
        if infinite.any():
            row = int(np.argwhere(infinite)[0][0])
            raise DataError(
                f"{table.place(row)}: {block[row]} in column {name!r} is not finite; replace it"
            )
        if block.ndim == 2 and block.shape[1] != len(own_names):
            feature_names = None  # the numbers of a list have no names
        elif feature_names is not None:
            feature_names += own_names
        blocks.append(block)
    widths = [1 if block.ndim == 1 else block.shape[1] for block in blocks]
    dtype = np.result_type(np.float32, *(block.dtype for block in blocks))
    X = np.empty((table.n_rows, sum(widths)), dtype)
    begin = 0
    for block, width in zip(blocks, widths, strict=True):
        X[:, begin : begin + width] = block.reshape(table.n_rows, width)
        begin += width
    return X, feature_names


def _check_missing(nodes: Features) -> None:
    """Raise if a feature of a file without lines is NaN."""
    X: Any = nodes.X
    missing = np.isnan(X.data if sp.issparse(X) else X)
    if not missing.any():
        return
    if sp.issparse(X):
        entry = int(np.argmax(missing))
        row = int(np.searchsorted(X.indptr, entry, side="right")) - 1
        column = int(X.indices[entry])
    else:
        row, column = (int(i) for i in np.argwhere(missing)[0])
    name = column if nodes.names is None else nodes.names[column]
    raise MissingFeatureError(f"{nodes.path}, row {row}: the number in column {name!r} is missing")


def _from_arrays(path: Path, roles: ColumnRoles, labels: Labels | None) -> Features:
    arrays = read_arrays(path)
    for ignored in roles.ignore:
        if arrays.pop(ignored, None) is None:
            raise DataError(f"{path} has no array {ignored!r} to ignore; leave it out")
    matrices = [name for name, array in arrays.items() if array.ndim == 2]
    name = next((name for name in FEATURE_ARRAYS if name in matrices), None)
    if not matrices and list(arrays) == [""]:
        raise DataError(f"{path}: features of shape {arrays[''].shape} must be a matrix")
    if name is None and len(matrices) != 1:
        raise DataError(
            f"{path} must contain one matrix, or one called {FEATURE_ARRAYS[0]!r}; it contains "
            f"{', '.join(map(repr, arrays))}"
        )
    X = to_float(arrays.pop(name or matrices[0]), f"{path}: features of")
    found = per_node_arrays(path, arrays, roles)
    if not found:
        return Features(path, X, row_positions(path, X.shape[0]), labels=labels)
    for array_name, array in found.items():
        if np.shape(array) != (X.shape[0],):
            raise DataError(
                f"{path}: array {array_name!r} of shape {np.shape(array)} must have one value for "
                f"each of {X.shape[0]} rows of features"
            )
    table = table_of_arrays(path, found)
    ids = find_ids(table, roles)
    labels, split = _labels_and_split(table, ids, roles, labels)
    return Features(path, X, ids, labels=labels, split=split)


def _from_anndata(
    path: Path, roles: ColumnRoles, labels: Labels | None, slots: AnnDataSlots
) -> Features:
    data = read_anndata(path)
    X = feature_matrix(data, path, layer=slots.layer, obsm=slots.obsm)
    obs = pa.Table.from_pandas(data.obs, preserve_index=False)
    table = Table(path, obs)
    obs_names = Table(path, pa.table({"id": np.asarray(data.obs_names, dtype=object)}))
    if roles.id is None or (roles.id_is_optional and roles.id not in table.names):
        ids = read_ids(obs_names, "id")
    else:
        ids = read_ids(table, roles.id)
    names = np.asarray(data.var_names, dtype=object) if slots.obsm is None else None
    columns = {*table.names, *(() if names is None else names)}
    for name in roles.ignore:
        if name not in columns:
            raise DataError(f"{path} has no feature {name!r} to ignore, nor obs[{name!r}]")
    if names is not None and roles.ignore:
        kept = ~np.isin(names, roles.ignore)
        X, names = X[:, kept], names[kept]
    key, note = _find_graph(data, path, slots.obsp)
    return Features(
        path,
        X,
        ids,
        names,
        *_labels_and_split(table, ids, roles, labels),
        None if key is None else adjacency_matrix(data, path, key),
        graph_note=note,
    )


def _find_graph(data: Any, path: Path, key: str | None) -> tuple[str | None, str | None]:
    """The key of the graph in obsp, if there is one, and a note about the choice.

    By default it is the graph of scanpy, or else that of squidpy.
    """
    if key is not None:
        return find_graph(data, path, key), None
    keys = graph_keys(data)
    if CONNECTIVITIES in keys:
        others = ", ".join(repr(other) for other in keys if other != CONNECTIVITIES)
        note = f"{path}: edges are obsp[{CONNECTIVITIES!r}]; obsp also has {others}"
        return CONNECTIVITIES, note if others else None
    if SPATIAL in keys:
        return SPATIAL, f"{path}: edges are obsp[{SPATIAL!r}]"
    if keys:
        listed = ", ".join(map(repr, keys))
        return None, f"{path} has no obsp[{CONNECTIVITIES!r}]; name one of {listed} as obsp"
    return None, None


def read_anndata(path: Path) -> Any:
    try:
        import anndata
    except ImportError:
        raise DataError(
            f"{path}: reading h5ad files needs anndata; pip install 'gpcanet[anndata]'"
        ) from None
    check_file(path)
    try:
        return anndata.read_h5ad(path)
    except Exception as error:  # h5py and anndata raise errors of many types
        raise DataError(f"{path} is not a readable h5ad file: {first_line(error)}") from None
