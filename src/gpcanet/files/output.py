"""Results as Parquet, CSV, npz or h5ad files, written completely or not at all."""

from __future__ import annotations

import gzip
import itertools
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import nullcontext
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from ..errors import DataError
from ..graph import Graph
from ..utils.atomic import atomic_file, check_target
from .h5ad_output import EMBEDDING_KEY, write_h5ad
from .paths import contains_file

OUTPUT_SUFFIXES = (".parquet", ".csv", ".csv.gz", ".npz", ".h5ad")

#: Names of columns of results.
RESULT_NAME = re.compile(r"gpca[0-9]+|predicted|probability|p\(.*\)")

#: Size of the blocks in which results are written.
BYTES_PER_TABLE = 2**26


def check_output(path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
    """Raise if results cannot be written there; called before long computations."""
    path = Path(path)
    if not path.name.lower().endswith(OUTPUT_SUFFIXES):
        raise DataError(f"{path}: results must be a {', '.join(OUTPUT_SUFFIXES)} file")
    if is_h5ad(path) and find_spec("anndata") is None:
        raise DataError(f"{path}: writing h5ad files needs anndata; pip install 'gpcanet[anndata]'")
    return check_target(path, overwrite=overwrite)


def check_id_name(name: str, path: Path) -> None:
    """Raise if the column of node ids may have the name of a column of results.

    It is called before the fit, when the names of the classes are not known yet.
    """
    if _has_columns(path) and RESULT_NAME.fullmatch(name):
        raise _name_clash(name)


def _has_columns(path: Path) -> bool:
    """Whether the format has ids and results as columns of one table."""
    return not path.name.lower().endswith((".npz", ".h5ad"))


def _name_clash(name: str) -> DataError:
    return DataError(
        f"the id column cannot be called {name!r}, which is a column of results; rename it"
    )


def check_outside_of_inputs(outputs: Iterable[Path | None], inputs: Iterable[Path | None]) -> None:
    """Raise if an output would be one of the files of an input folder or pattern."""
    for output, path in itertools.product(outputs, list(inputs)):
        if output is not None and path is not None and contains_file(path, output):
            raise DataError(
                f"{output} would be one of the input files {path}; choose another folder"
            )


def is_h5ad(path: Path) -> bool:
    return path.suffix.lower() == ".h5ad"


def write_table(
    path: str | os.PathLike[str],
    columns: Mapping[str, np.ndarray],
    *,
    arrays: Mapping[str, np.ndarray] | None = None,
    overwrite: bool = False,
) -> None:
    """Write columns of equal length; an npz file gets ``arrays`` instead, if given.

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
        plain = {name: _without_objects(path, name, a) for name, a in (arrays or columns).items()}
        with atomic_file(path, overwrite=overwrite) as file:
            np.savez(file, allow_pickle=False, **plain)
        return
    plain = {name: _to_one_type(path, name, a) for name, a in columns.items()}
    tables = _tables(path, plain)
    first = next(tables)
    with (
        atomic_file(path, overwrite=overwrite) as file,
        _compressed(path, file) as stream,
        _writer(path, stream, first.schema) as writer,
    ):
        writer.write_table(first)
        for table in tables:
            writer.write_table(table)


def _tables(path: Path, columns: Mapping[str, np.ndarray]) -> Iterator[pa.Table]:
    """Blocks of rows; the arrays may be memory-mapped and larger than the memory."""
    n_rows = len(next(iter(columns.values())))
    row_bytes = sum(values.dtype.itemsize for values in columns.values())
    height = max(1, BYTES_PER_TABLE // row_bytes)
    for begin in range(0, max(n_rows, 1), height):
        part = {name: values[begin : begin + height] for name, values in columns.items()}
        yield pa.table({name: _column(path, name, values) for name, values in part.items()})


def _compressed(path: Path, file: Any) -> Any:
    """The file itself, or a stream that compresses; equal results give equal bytes."""
    if path.suffix.lower() != ".gz":
        return nullcontext(file)
    return gzip.GzipFile("", "wb", compresslevel=6, fileobj=file, mtime=0)


def _writer(path: Path, file: Any, schema: pa.Schema) -> Any:
    if path.suffix.lower() in (".csv", ".gz"):
        return pa.csv.CSVWriter(file, schema)
    # Dictionaries of numbers that hardly repeat take five times as long.
    with_dictionary = [field.name for field in schema if not pa.types.is_floating(field.type)]
    return pa.parquet.ParquetWriter(
        file, schema, use_dictionary=with_dictionary, compression="zstd"
    )


def write_embedding(
    path: str | os.PathLike[str],
    graph: Graph,
    Z: np.ndarray,
    *,
    id_name: str = "id",
    overwrite: bool = False,
    source: Path | None = None,
) -> None:
    """Write one row per node: its id and its embedding.

    An h5ad file is a copy of ``source``, if that is one, with the embedding in obsm. Loadings and
    parameters of an earlier embedding in varm and uns are left out.
    """
    columns = {f"gpca{i}": Z[:, i] for i in range(Z.shape[1])}
    slots = {"obsm": {EMBEDDING_KEY: Z}}
    _write_results(path, graph, columns, {"embedding": Z}, slots, id_name, overwrite, source)


def write_predictions(
    path: str | os.PathLike[str],
    graph: Graph,
    classes: np.ndarray,
    probabilities: np.ndarray,
    *,
    id_name: str = "id",
    overwrite: bool = False,
    source: Path | None = None,
) -> None:
    """Write one row per node: its id, its most probable class, the probability of every class.

    An h5ad file has the classes in obs, their probabilities in obsm, and their names in uns.
    """
    predicted = classes[probabilities.argmax(axis=1)]
    best = {"predicted": predicted, "probability": probabilities.max(axis=1)}
    others = {f"p({name})": probabilities[:, i] for i, name in enumerate(classes.tolist())}
    arrays = {"predicted": predicted, "classes": classes, "probabilities": probabilities}
    slots = {"obs": best, "obsm": {"probabilities": probabilities}, "uns": {"classes": classes}}
    _write_results(path, graph, best | others, arrays, slots, id_name, overwrite, source)


def write_values(
    path: str | os.PathLike[str],
    graph: Graph,
    predicted: np.ndarray,
    *,
    id_name: str = "id",
    overwrite: bool = False,
    source: Path | None = None,
) -> None:
    """Write one row per node: its id and its predicted value, in obs of an h5ad file."""
    columns = {"predicted": predicted}
    _write_results(path, graph, columns, columns, {"obs": columns}, id_name, overwrite, source)


def _write_results(
    path: str | os.PathLike[str],
    graph: Graph,
    columns: dict[str, np.ndarray],
    arrays: dict[str, np.ndarray],
    slots: dict[str, dict[str, np.ndarray]],
    id_name: str,
    overwrite: bool,
    source: Path | None,
) -> None:
    """Write the ids of the nodes and columns of a table, arrays of an npz, or slots of an h5ad."""
    ids = np.arange(graph.n_nodes) if graph.node_ids is None else graph.node_ids
    if is_h5ad(Path(path)):
        write_h5ad(path, ids, source=source, overwrite=overwrite, **slots)
        return
    if _has_columns(Path(path)) and id_name in columns:
        raise _name_clash(id_name)
    arrays = {"node_ids": ids, **arrays}
    write_table(path, {id_name: ids, **columns}, arrays=arrays, overwrite=overwrite)


def _column(path: Path, name: str, values: np.ndarray) -> Any:
    try:
        return pa.array(np.ascontiguousarray(values))
    except (pa.ArrowException, ValueError):  # a lone surrogate
        raise DataError(
            f"{path}: {name!r} contains text that is not valid Unicode; correct it"
        ) from None


def _without_objects(path: Path, name: str, values: np.ndarray) -> np.ndarray:
    """Convert objects to text, which npz files store without pickle."""
    values = _to_one_type(path, name, values)
    if values.dtype != object:
        return values
    plain = values.astype(str)
    if plain.tolist() != values.tolist():
        raise DataError(f"{path}: {name!r} contains text that ends in NUL, which npz cannot store")
    return plain


def _to_one_type(path: Path, name: str, values: np.ndarray) -> np.ndarray:
    """Convert objects to int64 if all are integers; raise unless all are text or all integers."""
    if values.dtype != object:
        return values
    items = values.tolist()
    if all(isinstance(item, str) for item in items):
        return values
    other = next(item for item in items if not isinstance(item, str))
    if all(isinstance(item, int | np.integer) and not isinstance(item, bool) for item in items):
        try:
            return values.astype(np.int64)
        except OverflowError:
            other = max(items, key=abs)
    raise DataError(
        f"{path}: {name!r} contains {other!r}; use only text, or only integers of 64 bits"
    )
