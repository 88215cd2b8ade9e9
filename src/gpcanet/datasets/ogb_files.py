"""Reader of OGB datasets: zip archives of gzipped CSV files, or extracted ones.

An archive is read as a stream and never extracted: names of its members do not become paths on
disk.
"""

from __future__ import annotations

import csv
import errno
import gzip
import io
import lzma
import os
import struct
import zipfile
import zlib
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..errors import DataError
from ..graph import Graph
from ..utils.messages import first_line
from ..utils.progress import report_progress
from .dataset import About

PARTS = {"train": "train", "validation": "valid", "test": "test"}
_BLOCK_BYTES = 4 << 20
_CLASS_NAMES_BYTES = 1 << 16

#: Largest relative difference of the number of edges from the expected one.
EDGE_TOLERANCE = 0.01

#: A file or folder, on disk or in an archive.
Place = Path | zipfile.Path

#: Errors of zipfile, gzip, csv and pyarrow for damaged data.
_DAMAGE = (
    zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, csv.Error,
    EOFError, OSError, RuntimeError, ValueError,
)  # fmt: skip


class Layout(NamedTuple):
    """Files of an archive, which has the name of its folder."""

    folder: str
    split: str
    class_names: str
    n_listed_edges: int  # including both directions of citations, and self-loops


@contextmanager
def opened(place: Path, layout: Layout) -> Iterator[Place]:
    """The folder with raw, split and mapping, on disk or in an archive."""
    if place.is_dir():
        yield place
        return
    with _damage_as_data_error(place):
        archive = zipfile.ZipFile(place)
    with archive:
        yield zipfile.Path(archive, f"{layout.folder}/")


def convert(published: Place, folder: Path, about: About, layout: Layout) -> list[str]:
    """Convert the published files to the arrays of the cache; return the class names."""
    n_nodes, n_edges = about.n_nodes, layout.n_listed_edges
    for what, count in (("node", n_nodes), ("edge", n_edges)):
        single = np.empty((1, 1), np.int64)
        _fill(single, published / f"raw/num-{what}-list.csv.gz", _exactly(count))
    class_names = _read_class_names(published / layout.class_names, about.n_classes)

    labels = np.empty((n_nodes, 1))
    _fill(labels, published / "raw/node-label.csv.gz", _class_or_none(about.n_classes))
    np.save(folder / "y.npy", np.where(np.isnan(labels), -1, labels)[:, 0].astype(np.int64))

    taken = np.zeros(n_nodes, np.int64)
    for part, published_as in PARTS.items():
        nodes = np.empty((n_nodes, 1), np.int64)
        member = published / f"{layout.split}/{published_as}.csv.gz"
        nodes = nodes[: _fill(nodes, member, _position(n_nodes), at_most=True), 0]
        taken += np.bincount(nodes, minlength=n_nodes)
        if taken.max() > 1:
            raise _wrong(member, f"contains node {taken.argmax()}, which is already in the split")
        np.save(folder / f"{part}.npy", nodes)

    edges = np.empty((2, n_edges), np.int32)
    _fill(edges.T, published / "raw/edge.csv.gz", _position(n_nodes))
    graph = Graph.from_edge_index(edges, n_nodes=n_nodes, each_once=True)
    if abs(graph.n_edges - about.n_edges) > EDGE_TOLERANCE * about.n_edges:
        raise _wrong(
            published / "raw/edge.csv.gz",
            f"has {graph.n_edges:,} different edges, not {about.n_edges:,}",
        )
    np.save(folder / "indptr.npy", graph.indptr)
    np.save(folder / "indices.npy", graph.indices)
    del edges, graph  # a gigabyte for ogbn-products

    X = np.lib.format.open_memmap(
        folder / "X.npy", mode="w+", dtype=np.float32, shape=(n_nodes, about.n_features)
    )
    if hasattr(os, "posix_fallocate"):  # otherwise a full disk crashes the process
        with (folder / "X.npy").open("r+b") as file:
            os.posix_fallocate(file.fileno(), 0, os.fstat(file.fileno()).st_size)
    _fill(X, published / "raw/node-feat.csv.gz", _FINITE)
    X.flush()  # missing writes would be zeros, because the file has its full size
    return class_names


class _Rule(NamedTuple):
    """A condition on the values of a table."""

    holds: Callable[[np.ndarray], np.ndarray]
    description: str


_FINITE = _Rule(np.isfinite, "a finite number")


def _exactly(count: int) -> _Rule:
    return _Rule(lambda values: values == count, f"{count:,}")


def _position(n_nodes: int) -> _Rule:
    return _Rule(
        lambda values: (values >= 0) & (values < n_nodes), f"a node from 0 to {n_nodes - 1:,}"
    )


def _class_or_none(n_classes: int) -> _Rule:
    def holds(values: np.ndarray) -> np.ndarray:
        known = (values >= 0) & (values < n_classes) & (values == np.floor(values))
        return known | np.isnan(values)

    return _Rule(holds, f"a class from 0 to {n_classes - 1} or nothing")


def _fill(target: np.ndarray, member: Place, rule: _Rule, *, at_most: bool = False) -> int:
    """Read a table into an array of its size, or its largest size; return the number of rows."""
    done = 0
    with closing(_batches(member, target)) as batches:
        for batch in batches:
            rows = target[done : done + batch.num_rows]
            if len(rows) < batch.num_rows:
                raise _wrong(member, f"has more than {len(target):,} rows")
            for j, column in enumerate(batch.columns):
                rows[:, j] = column.to_numpy(zero_copy_only=False)
            valid = rule.holds(rows)
            if not valid.all():
                i, j = np.argwhere(~valid)[0]
                raise _wrong(
                    member, f"has {rows[i, j]} in line {done + i + 1:,}, not {rule.description}"
                )
            done += len(rows)
            report_progress(f"rows of {member.name}", done, len(target))
    if done < len(target) and not at_most:
        raise _wrong(member, f"has {done:,} rows, not {len(target):,}")
    return done


def _batches(member: Place, target: np.ndarray) -> Generator[Any, None, None]:
    """Read a table in blocks of some megabytes; an empty cell is NaN, and invalid for integers."""
    import pyarrow
    import pyarrow.csv as table

    names = [str(j) for j in range(target.shape[1])]
    dtype = pyarrow.from_numpy_dtype(target.dtype)
    with _damage_as_data_error(member), _text(member) as text:
        yield from table.open_csv(
            text,
            table.ReadOptions(column_names=names, block_size=_BLOCK_BYTES, use_threads=False),
            table.ParseOptions(ignore_empty_lines=False),
            table.ConvertOptions(
                column_types=dict.fromkeys(names, dtype),
                null_values=[""] if target.dtype.kind == "f" else [],
            ),
        )


def _read_class_names(member: Place, n_classes: int) -> list[str]:
    """Class names, with "class i" for a class without a name."""
    with _damage_as_data_error(member), _text(member) as text:
        content = text.read(_CLASS_NAMES_BYTES + 1)
        if len(content) > _CLASS_NAMES_BYTES:
            raise _wrong(member, f"has more than {_CLASS_NAMES_BYTES:,} bytes")
        _, *rows = csv.reader(io.StringIO(content.decode("utf-8")))
        by_label = {int(label): name for label, name in rows}
    if not by_label.keys() <= set(range(n_classes)) or len(by_label) < len(rows):
        raise _wrong(member, f"must name each class from 0 to {n_classes - 1} once")
    names = [by_label.get(label) or f"class {label}" for label in range(n_classes)]
    if len(set(names)) < n_classes:
        raise _wrong(member, "has the same name for several classes")
    return names


@contextmanager
def _text(member: Place) -> Iterator[gzip.GzipFile]:
    with member.open("rb") as packed, gzip.open(packed) as text:
        yield text


@contextmanager
def _damage_as_data_error(place: Place) -> Iterator[None]:
    """Convert errors of readers about damaged data to a DataError that contains the file."""
    try:
        yield
    except DataError:
        raise
    except FileNotFoundError:
        raise _wrong(place, "is missing") from None
    except _DAMAGE as error:
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
            raise  # an error of the disk
        reason = first_line(error) or type(error).__name__
        raise _wrong(place, f"is damaged ({reason})") from None


def _wrong(place: Place, problem: str) -> DataError:
    return DataError(f"{place} {problem}; download it again")
