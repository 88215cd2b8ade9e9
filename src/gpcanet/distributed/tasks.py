"""The tasks of a run. Each reads files, writes one file completely, and then a record of it.

A file without a record is not used. A task that runs twice writes the same bytes twice.
"""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..estimators.problem import Parameters
from ..files.output import write_table
from ..graph import Graph
from ..linalg import parallel_map, parallel_sum, row_chunks, times_power_of_two
from ..linalg.operators.propagation import degrees_of
from ..utils.array_files import (
    Entry,
    damaged_shard,
    digest,
    n_shards,
    naming_file,
    open_array,
    write_array,
    write_json,
)
from .store import Store

#: Number of matrices that a task of the reduction adds.
FAN_IN = 8

#: Name of a column of results, by the number of its component.
COLUMN_NAME = "gpca{}"


@dataclass(frozen=True)
class Work:
    """Parameters that all tasks of a run share; small, because every task receives them."""

    store: Path
    scratch: Path
    parameters: Parameters
    exponent: int  # X is divided by 2**exponent
    mean: np.ndarray  # of the columns of X, in float64
    blocks: tuple[tuple[int, int], ...]  # columns of each solve
    chunks: tuple[tuple[int, int], ...]  # rows of each product and of each part of Z
    labels: Entry | None = None
    components: Entry | None = None  # W of a transform, which solves for columns of X W
    output: Path | None = None
    format: str = "parquet"
    id_name: str = "id"

    def compute_dtype(self, store: Store) -> np.dtype:
        return compute_dtype(store, self.parameters)

    def scaled_mean(self, dtype: Any) -> np.ndarray:
        return np.asarray(times_power_of_two(self.mean, -self.exponent)).astype(dtype)

    def rows_of_X(self, store: Store, rows: slice, dtype: Any) -> np.ndarray:
        """Some rows of the centred features."""
        X = np.hstack([store.block(i)[rows] for i in range(len(store.blocks))]).astype(dtype)
        return times_power_of_two(X, -self.exponent) - self.scaled_mean(dtype)

    def rows_of_F(self, rows: slice) -> np.ndarray:
        """Some rows of the solutions of all blocks."""
        return np.hstack([self.solution(i)[rows] for i in range(len(self.blocks))])

    def solution(self, number: int) -> np.ndarray:
        return open_array(self.scratch, self.record(f"F{number}")["array"])

    def record(self, name: str) -> dict[str, Any]:
        record = read_record(self.scratch, name)
        assert record is not None
        return record


def compute_dtype(store: Store, parameters: Parameters) -> np.dtype:
    """Precision of the computation; results have that of the store."""
    return np.dtype(np.float32) if parameters.half else store.dtype


def record_path(scratch: Path, name: str) -> Path:
    return scratch / f"{name}.done.json"


def write_record(scratch: Path, name: str, content: dict[str, Any]) -> None:
    content = json.loads(json.dumps(content))  # equal to what is read
    write_json(record_path(scratch, name), {**content, "sha256": digest(content)})


def read_record(scratch: Path, name: str) -> dict[str, Any] | None:
    """The record of a finished task; None if it is not finished or its record is damaged."""
    try:
        record: dict[str, Any] = json.loads(record_path(scratch, name).read_bytes())
        is_whole = record.pop("sha256") == digest(record)
    except (FileNotFoundError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return record if is_whole else None


def entries_of(record: Any) -> Iterator[Entry]:
    """All files of arrays in a record."""
    if isinstance(record, dict) and "crc32" in record:
        yield record
    elif isinstance(record, dict | list):
        for value in record.values() if isinstance(record, dict) else record:
            yield from entries_of(value)


# -- verification -----------------------------------------------------------------------------


def verify_store(folder: Path, shards: list[tuple[str, int]]) -> None:
    """Raise a DataError that names a damaged part of the store."""
    Store.open(folder).verify(shards)


def damage_of(folder: Path, entry: Entry) -> str | None:
    """What is wrong with a file of an earlier run; None if nothing is."""
    if not (folder / entry["file"]).is_file():
        return f"{folder / entry['file']} is missing"
    if (folder / entry["file"]).stat().st_size != entry["bytes"]:
        return f"{folder / entry['file']} has another size"
    found = (damaged_shard(folder, entry, number) for number in range(n_shards(entry)))
    return next(filter(None, found), None)


# -- solve ------------------------------------------------------------------------------------


def solve(work: Work, number: int) -> None:
    """F of a block of columns of X; for a transform, Z of a block of columns of X W."""
    start = time.perf_counter()
    store, parameters = Store.open(work.store), work.parameters
    dtype, graph = work.compute_dtype(store), store.graph()
    labels = None if work.labels is None else open_array(work.scratch, work.labels)
    P = parameters.propagation(graph, labels, dtype, reorder=False)
    solver = parameters.make_solver(P, parameters.solver, store.dtype)
    X, shift = _right_hand_side(work, store, number, dtype)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        solution = solver.solve(X, shift, with_residual=True)
        solution.drop_residual()
    shape = (store.n_nodes, X.shape[1])
    solved = time.perf_counter()
    chunks = (solution.rows(rows) for rows in row_chunks(*shape, dtype))
    entry = write_array(work.scratch / f"F{number}.npy", chunks, shape, dtype)
    _finish(
        work, f"F{number}", array=entry, n_iter=solution.n_iter, residual=solution.residual,
        seconds=[solved - start, time.perf_counter() - solved],
        warnings=[[type(w.message).__name__, str(w.message)] for w in caught],
    )  # fmt: skip


def _right_hand_side(
    work: Work, store: Store, number: int, dtype: np.dtype
) -> tuple[np.ndarray, np.ndarray | None]:
    """A block of columns, and the means that the solver subtracts from them.

    A whole block of the store stays mapped. The solver reads it in place.
    """
    begin, end = work.blocks[number]
    if work.components is None:
        block = next(i for i, columns in enumerate(store.blocks) if columns.stop >= end)
        first = store.blocks[block].start
        X = store.block(block)[:, begin - first : end - first]
        if work.exponent:
            X = times_power_of_two(X.astype(dtype), -work.exponent)
        return X, work.scaled_mean(dtype)[begin:end]
    W = open_array(work.scratch, work.components)[:, begin:end].astype(dtype)
    product = np.empty((store.n_nodes, end - begin), dtype)

    def multiply(rows: slice) -> None:
        np.matmul(work.rows_of_X(store, rows, dtype), W, out=product[rows])

    parallel_map(multiply, row_chunks(store.n_nodes, store.n_features, dtype))
    return product, None


# -- X^T F ------------------------------------------------------------------------------------


def multiply_chunk(work: Work, number: int) -> None:
    """X^T D F over a chunk of rows, and in a last row the squares of the columns of X."""
    store = Store.open(work.store)
    dtype, graph = work.compute_dtype(store), store.graph()

    def products(rows: slice) -> np.ndarray:
        X, F = work.rows_of_X(store, rows, dtype), work.rows_of_F(rows)
        if work.parameters.normalization == "rw":
            weights = _degrees(graph, rows).astype(dtype)
            F, weighted = weights[:, None] * F, weights[:, None] * X
        else:
            weighted = X
        result = np.empty((X.shape[1] + 1, X.shape[1]))
        result[:-1] = X.T @ F
        result[-1] = np.einsum("ij,ij->j", weighted, X, dtype=np.float64)
        return result

    d = store.n_features
    total = parallel_sum(products, _parts(work.chunks[number], 2 * d, dtype), np.zeros((d + 1, d)))
    _write_matrix(work, f"M0-{number}", total)


def add_matrices(work: Work, name: str, names: list[str]) -> None:
    """The sum of some matrices."""
    _write_matrix(work, name, sum(read_matrix(work, term) for term in names))


def read_matrix(work: Work, name: str) -> np.ndarray:
    return open_array(work.scratch, work.record(name)["array"])


def _write_matrix(work: Work, name: str, matrix: Any) -> None:
    entry = write_array(work.scratch / f"{name}.npy", [matrix], matrix.shape, matrix.dtype)
    _finish(work, name, array=entry)


def _degrees(graph: Graph, rows: slice) -> np.ndarray:
    indptr = graph.indptr[rows.start : rows.stop + 1]
    weights = None if graph.weights is None else graph.weights[indptr[0] : indptr[-1]]
    return degrees_of(indptr, weights)


# -- Z = F W ----------------------------------------------------------------------------------


def project_chunk(work: Work, number: int, W: Entry | None) -> None:
    """A chunk of rows of Z as one file of results; without W, F is Z."""
    store = Store.open(work.store)
    dtype = work.compute_dtype(store)
    begin, end = work.chunks[number]
    vectors = None if W is None else open_array(work.scratch, W).astype(dtype)
    k = work.blocks[-1][1] if vectors is None else vectors.shape[1]
    Z = np.empty((end - begin, k), store.dtype)

    def project(rows: slice) -> None:
        F = work.rows_of_F(rows)
        found = F if vectors is None else F @ vectors
        found = times_power_of_two(found.astype(store.dtype, copy=False), work.exponent)
        Z[rows.start - begin : rows.stop - begin] = found

    parallel_map(project, _parts((begin, end), work.blocks[-1][1], dtype))
    assert work.output is not None
    path = work.output / f"part-{number:05}.{work.format}"
    if work.format == "npy":
        size = write_array(path, [Z], Z.shape, Z.dtype)["bytes"]
    else:
        columns = {COLUMN_NAME.format(i): Z[:, i] for i in range(k)}
        ids = store.ids(slice(begin, end))
        with naming_file(path):
            write_table(path, {work.id_name: ids, **columns}, overwrite=True)
        size = path.stat().st_size
    _finish(work, f"Z{number}", file=path.name, bytes=size)


def _parts(chunk: tuple[int, int], width: int, dtype: Any) -> Iterator[slice]:
    """Smaller chunks, which depend on the chunk alone, so that sums always have the same order."""
    begin, end = chunk
    for rows in row_chunks(end - begin, width, dtype):
        yield slice(begin + rows.start, begin + rows.stop)


def _finish(work: Work, name: str, **content: Any) -> None:
    write_record(work.scratch, name, content)
