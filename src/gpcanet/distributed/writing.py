"""Stores written from a Dataset in memory."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..datasets import Dataset
from ..errors import DataError, InputError
from ..estimators.validation import check_finite
from ..graph import Graph
from ..graph.stored import STORE, encoded_text
from ..linalg import row_chunks
from ..utils.array_files import SHARD_BYTES, Entry, write_array, write_manifest
from ..utils.atomic import atomic_folder, check_new_folder
from ..utils.checks import check_number
from ..utils.labels import SPLIT
from .store import Store

#: Columns per block of features. In half precision, 32 columns are one cache line.
COLUMNS_PER_BLOCK = 32

#: Precisions in which features can be stored.
DTYPES = (np.float16, np.float32, np.float64)


def write_dataset(
    dataset: Dataset,
    folder: str | os.PathLike[str],
    *,
    columns_per_block: int = COLUMNS_PER_BLOCK,
    dtype: Any = None,
) -> Store:
    """Write a dataset in memory as a store.

    Parameters
    ----------
    dataset : Dataset
    folder : str or path-like
        The folder to create. It is written completely or not at all.
    columns_per_block : int
        Largest number of columns that a worker solves at a time.
    dtype : {float16, float32, float64}, optional
        Precision of the stored features; by default that of X.

    Returns
    -------
    store : Store

    Examples
    --------
    >>> import tempfile
    >>> from gpcanet.datasets import block_model
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = write_dataset(block_model(100, 300, n_features=8), f"{folder}/store")
    ...     store.n_nodes, store.n_features
    (100, 8)
    """
    target = check_new_folder(folder)
    check_columns_per_block(columns_per_block)
    X: Any = dataset.X
    dtype = check_dtype(X.dtype if dtype is None else dtype)
    check_finite(X)
    with atomic_folder(target) as part:
        arrays = graph_entries(part, dataset.graph, np.result_type(dtype, np.float32))
        if np.any(dataset.y >= 0):
            arrays["labels"] = write_whole(part / "labels.npy", dataset.y.astype(np.int64))
        if dataset.has_split:
            split = np.full(len(dataset.y), -1, np.int8)
            for number, name in enumerate(SPLIT):
                split[getattr(dataset, name)] = number
            arrays["split"] = write_whole(part / "split.npy", split)
        sums, largest = [], 0.0
        for number, begin in enumerate(range(0, X.shape[1], columns_per_block)):
            block = X[:, begin : begin + columns_per_block]
            with np.errstate(over="ignore"):  # noticed below
                whole = np.asarray(block.toarray() if sp.issparse(block) else block)
                stored = whole.astype(dtype, copy=False)
            arrays[f"X{number}"] = write_whole(part / f"X{number}.npy", stored)
            largest = max(largest, checked_size(stored))
            sums.append(column_sums(stored))
        names = dataset.feature_names
        write_store_manifest(
            part,
            arrays,
            sums=np.concatenate(sums),
            largest=largest,
            name=dataset.name,
            feature_names=None if names is None else [str(name) for name in names],
            class_names=None if dataset.class_names is None else dataset.class_names.tolist(),
            notes=dataset.notes,
        )
    return Store.open(target)


def write_store_manifest(
    folder: Path,
    arrays: dict[str, Entry],
    *,
    sums: np.ndarray,
    largest: float,
    name: str,
    feature_names: list[str] | None = None,
    class_names: list[Any] | None = None,
    notes: Iterable[str] = (),
) -> None:
    """Write the manifest of a store; ``sums`` and ``largest`` are those of the features."""
    n_nodes = arrays["indptr"]["shape"][0] - 1
    content = {
        "name": name,
        "arrays": arrays,
        "mean": (sums / n_nodes).tolist(),
        "largest": largest,
        "feature_names": feature_names,
        "class_names": class_names,
        "notes": list(notes),
    }
    write_manifest(folder, STORE, content)


def graph_entries(folder: Path, graph: Graph, weight_dtype: Any) -> dict[str, Entry]:
    """Write the arrays of a graph.

    Weights have the precision of the computation: workers map them without a copy.
    """
    arrays = {
        "indptr": write_whole(folder / "indptr.npy", graph.indptr),
        "indices": write_whole(folder / "indices.npy", graph.indices),
    }
    if graph.weights is not None:
        weights = graph.weights.astype(weight_dtype, copy=False)
        arrays["weights"] = write_whole(folder / "weights.npy", weights)
    return arrays | id_entries(folder, graph.node_ids)


def id_entries(folder: Path, ids: np.ndarray | None) -> dict[str, Entry]:
    """Write node ids: integers as they are, text as UTF-8."""
    if ids is None:
        return {}
    if ids.dtype.kind in "iu" and np.can_cast(ids.dtype, np.int64):
        return {"ids": write_whole(folder / "ids.npy", ids.astype(np.int64))}
    try:
        ends, text = encoded_text(ids)
    except UnicodeEncodeError as error:
        raise DataError(f"node id {error.object!r} is not valid Unicode; rename it") from None
    return {
        "id_ends": write_whole(folder / "id_ends.npy", ends),
        "id_text": write_whole(folder / "id_text.npy", text),
    }


def write_whole(path: Path, array: np.ndarray) -> Entry:
    """Write an array, in chunks, so that a mapped one is not read into memory."""
    row_bytes = max(1, array.nbytes // max(1, len(array)))
    height = max(1, SHARD_BYTES // row_bytes)
    chunks = (array[begin : begin + height] for begin in range(0, len(array), height))
    return write_array(path, chunks, array.shape, array.dtype)


def column_sums(block: np.ndarray) -> np.ndarray:
    """Sums of the columns in float64."""
    total = np.zeros(block.shape[1])
    for rows in row_chunks(len(block), block.shape[1], np.float64):
        total += block[rows].sum(axis=0, dtype=np.float64)
    return total


def checked_size(block: np.ndarray) -> float:
    """Largest absolute value; raise if the precision of the block cannot represent it."""
    largest = max(float(block.max(initial=0)), -float(block.min(initial=0)))
    if not np.isfinite(largest):
        raise InputError(f"features are too large for {block.dtype}; store them in float32")
    return largest


def check_columns_per_block(number: int) -> None:
    advice = f"the default is {COLUMNS_PER_BLOCK}"
    check_number("columns_per_block", number, 1, integer=True, advice=advice)


def check_dtype(dtype: Any) -> np.dtype:
    if np.dtype(dtype) not in [np.dtype(allowed) for allowed in DTYPES]:
        raise InputError(f"dtype {np.dtype(dtype)} must be float16, float32 or float64")
    return np.dtype(dtype)
