"""Results on disk: Parquet, CSV or npz, each written whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from ..atomic import check_target, whole_file
from ..datasets.errors import DataError
from ..graph import Graph

OUTPUT_SUFFIXES = (".parquet", ".csv", ".npz")


def check_output(path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
    """Raise before any work is done if results cannot be written there."""
    path = Path(path)
    if path.suffix.lower() not in OUTPUT_SUFFIXES:
        raise DataError(f"{path}: results are written as {', '.join(OUTPUT_SUFFIXES)}")
    return check_target(path, overwrite=overwrite)


def write_table(
    path: str | os.PathLike[str],
    columns: Mapping[str, np.ndarray],
    *,
    arrays: Mapping[str, np.ndarray] | None = None,
    overwrite: bool = False,
) -> None:
    """Write columns of one length; an npz takes ``arrays`` instead, if given.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = Path(folder.name) / "z.csv"
    >>> write_table(path, {"id": np.array(["a", "b"]), "z0": np.array([1.5, 2.0])})
    >>> print(path.read_text())
    "id","z0"
    "a",1.5
    "b",2
    <BLANKLINE>
    >>> folder.cleanup()
    """
    path = check_output(path, overwrite=overwrite)
    if path.suffix.lower() == ".npz":
        plain = {name: _without_objects(a) for name, a in (arrays or columns).items()}
        with whole_file(path, overwrite=overwrite) as file:
            np.savez(file, allow_pickle=False, **plain)
        return
    table = pa.table({name: pa.array(np.ascontiguousarray(a)) for name, a in columns.items()})
    write = pa.csv.write_csv if path.suffix.lower() == ".csv" else pa.parquet.write_table
    with whole_file(path, overwrite=overwrite) as file:
        write(table, file)


def write_embedding(
    path: str | os.PathLike[str],
    graph: Graph,
    Z: np.ndarray,
    *,
    id_name: str = "id",
    overwrite: bool = False,
) -> None:
    """A row per node: its id, and a column per dimension."""
    ids = node_ids_of(graph)
    columns = {id_name: ids} | {f"gpca{i}": Z[:, i] for i in range(Z.shape[1])}
    arrays = {"node_ids": ids, "embedding": Z}
    write_table(path, columns, arrays=arrays, overwrite=overwrite)


def write_predictions(
    path: str | os.PathLike[str],
    graph: Graph,
    classes: np.ndarray,
    probabilities: np.ndarray,
    *,
    id_name: str = "id",
    overwrite: bool = False,
) -> None:
    """A row per node: its id, its most probable class, and the probability of every class."""
    ids, best = node_ids_of(graph), probabilities.argmax(axis=1)
    columns = {
        id_name: ids,
        "predicted": classes[best],
        "probability": probabilities.max(axis=1),
    } | {f"p({name})": probabilities[:, i] for i, name in enumerate(classes.tolist())}
    arrays = {
        "node_ids": ids,
        "predicted": classes[best],
        "classes": classes,
        "probabilities": probabilities,
    }
    write_table(path, columns, arrays=arrays, overwrite=overwrite)


def node_ids_of(graph: Graph) -> np.ndarray:
    return np.arange(graph.n_nodes) if graph.node_ids is None else graph.node_ids


def _without_objects(array: np.ndarray) -> np.ndarray:
    """Text in an array that needs no pickle."""
    return array.astype(str) if array.dtype == object else array
