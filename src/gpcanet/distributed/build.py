"""A store from directories of Parquet files, built by workers in bounded memory."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from distributed import Client
from filelock import FileLock, Timeout

from .. import __version__
from ..errors import DataError, UserError
from ..files.column_roles import ColumnRoles
from ..files.paths import natural_order
from ..graph.stored import stored_ids
from ..utils.array_files import Entry, open_array
from ..utils.atomic import check_new_folder
from . import build_tasks
from .build_tasks import LABEL_TYPE, Build, FeaturePart
from .run import (
    LOCK,
    RUN_FILE,
    Run,
    WorkerError,
    move_folder,
    remove_folder,
    remove_scratch,
)
from .store import Store
from .tasks import record_path
from .writing import (
    COLUMNS_PER_BLOCK,
    check_columns_per_block,
    check_dtype,
    write_store_manifest,
    write_whole,
)

#: Entries of the adjacency in a shard, which takes about 40 bytes each while it is sorted.
ENTRIES_PER_SHARD = 2**24


def build_store(
    folder: str | os.PathLike[str],
    features: str | os.PathLike[str],
    edges: str | os.PathLike[str],
    labels: str | os.PathLike[str] | None = None,
    *,
    client: Client,
    id_column: str | None = None,
    source: str = "source",
    target: str = "target",
    weight: str | None = None,
    label_column: str | None = None,
    split_column: str | None = None,
    ignore: Sequence[str] = (),
    drop_unknown: bool = False,
    columns_per_block: int = COLUMNS_PER_BLOCK,
    dtype: Any = None,
) -> Store:
    """Build a store from Parquet files with the meaning of :func:`gpcanet.files.load_files`.

    Nodes have the order of the rows of the features. A worker holds one file, or the edges of
    about 16 million entries, at a time; one of them sorts the node ids, with 24 bytes per node.

    Parameters
    ----------
    folder : path-like
        The store to create, in a folder that the client and all workers see. It is written
        completely or not at all. Until then its files are in a hidden folder beside it, from which
        a build that was stopped is resumed, unless the Parquet files or the arguments have changed.
    features, edges, labels : path-like
        A Parquet file, or a directory of them, which are read in the order of their numbers.
    client : distributed.Client
    columns_per_block, dtype
        As for ``write_dataset``.

    Returns
    -------
    store : Store

    Examples
    --------
    >>> with local_cluster(2) as client:  # doctest: +SKIP
    ...     store = build_store("store", "papers", "citations", client=client)
    """
    path = Path(folder).absolute()
    scratch = path.with_name(f".{path.name}.build")
    if path.exists():
        _remove_leftover(scratch)
    check_new_folder(folder)
    check_columns_per_block(columns_per_block)
    files = {
        "features": parquet_parts(features),
        "edges": parquet_parts(edges),
        "labels": [] if labels is None else parquet_parts(labels),
    }
    roles = ColumnRoles(id_column, label_column, split_column, tuple(ignore))
    stored = None if dtype is None else check_dtype(dtype).str
    options = (roles, columns_per_block, stored, source, target, weight, drop_unknown)
    identity = {
        "gpcanet": __version__,
        "files": {kind: [_state(file) for file in found] for kind, found in files.items()},
        "options": json.loads(json.dumps(options, default=vars)),
        "entries": ENTRIES_PER_SHARD,
    }
    with Run(client, scratch, identity, resume=True, replace=True) as run:
        run.verify_earlier()
        try:
            builder = _Builder(run, Build(run.folder, *options), Path(edges))
            builder.run(scratch / "store", path.name, files)
        except WorkerError:
            raise
        except UserError:  # files or arguments have to change, and with them all tasks
            with suppress(OSError):
                remove_scratch(scratch)
            raise
        (scratch / RUN_FILE).unlink()
        move_folder(scratch / "store", path)
        remove_scratch(scratch)
    return Store.open(path)


def _remove_leftover(scratch: Path) -> None:
    """Remove the scratch folder of a build that was killed after its store had been moved."""
    if scratch.is_dir() and not any((scratch / name).exists() for name in (RUN_FILE, "store")):
        with suppress(Timeout), FileLock(scratch / LOCK, timeout=0):
            remove_scratch(scratch)


def _state(path: Path) -> list[Any]:
    """Path, size and modification time of a file, which change with its content."""
    found = path.stat()
    return [str(path), found.st_size, found.st_mtime_ns]


def parquet_parts(path: str | os.PathLike[str]) -> list[Path]:
    """The files of a directory in the order of their numbers; raise if one is missing."""
    path = Path(path).absolute()
    if not path.is_dir():
        if not path.exists():
            raise DataError(f"{path} does not exist; check the name")
        return [path]
    found = [p for p in path.iterdir() if p.suffix in (".parquet", ".pq") and p.name[0] not in "._"]
    if not found:
        raise DataError(f"{path} contains no Parquet files (.parquet); check the name")
    found.sort(key=natural_order)
    listed = sorted(int(n) for p in found for n in re.findall("[0-9]+", p.name)[:1])
    if len(listed) == len(set(listed)) == len(found) and listed[0] <= 1:
        missing = sorted(set(range(listed[0], listed[-1])) - set(listed))
        if missing:
            raise DataError(
                f"{path} has no part {missing[0]}, but {found[-1].name}; complete the directory"
            )
    return found


class _Builder:
    def __init__(self, tasks: Run, build: Build, edges: Path) -> None:
        self.tasks, self.build, self.edges = tasks, build, edges

    def compute(self, what: str, function: Any, arguments: dict[str, tuple[Any, ...]]) -> list[Any]:
        """Results of a function on workers, or of earlier tasks with the same names."""
        jobs = {name: (name, function, self.build, *args) for name, args in arguments.items()}
        return [r["result"] for r in self.tasks.complete(what, build_tasks.recorded, jobs)]

    def run(self, folder: Path, store_name: str, files: dict[str, list[Path]]) -> None:
        columns = labels_path = None
        if files["labels"]:
            labels_path = files["labels"][0]
            [columns] = self.compute(
                "reading labels", build_tasks.label_columns, {"label-columns": (labels_path,)}
            )
        found = self.compute(
            "reading features",
            build_tasks.store_features,
            _numbered("features", files["features"], labels_path, columns),
        )
        parts = [FeaturePart(**part) for part in found]
        _check_same(parts)
        n_nodes = sum(part.n_rows for part in parts)
        index = self._index(parts)
        dtype = np.result_type(*(np.dtype(part.dtype) for part in parts))
        weight_dtype = np.result_type(dtype, np.float32).str
        arrays, notes = self._graph(files["edges"], index, n_nodes, weight_dtype)
        arrays |= self._features(parts, dtype.str)
        notes += [parts[0].label_note] if parts[0].label_note else []
        labels, class_names = self._labels(files["labels"], parts, index, n_nodes)
        arrays |= labels
        remove_folder(folder)
        folder.mkdir()
        for name, entry in arrays.items():
            # If the build is stopped now, the array is joined again.
            record_path(self.build.folder, name).unlink(missing_ok=True)
            os.rename(self.build.folder / entry["file"], folder / entry["file"])
        write_store_manifest(
            folder,
            arrays,
            sums=np.sum([part.sums for part in parts], axis=0),
            largest=max(part.largest for part in parts),
            name=store_name,
            feature_names=parts[0].names,
            class_names=class_names,
            notes=notes,
        )

    def _index(self, parts: list[FeaturePart]) -> dict[str, Any] | None:
        if not parts[0].has_ids:
            return None
        keys = [part.keys for part in parts]
        [(index, repeated)] = self.compute(
            "sorting ids", build_tasks.store_index, {"index": (keys,)}
        )
        if repeated:
            raise DataError(
                f"{_place(parts, repeated[1])} has the same node id as {_place(parts, repeated[0])}"
                f"; remove one row"
            )
        return {**index, "is_text": parts[0].is_text}

    def _graph(
        self, files: list[Path], index: dict[str, Any] | None, n_nodes: int, weight_dtype: str
    ) -> tuple[dict[str, Entry], list[str]]:
        found = self.compute(
            "reading edges", build_tasks.store_edges, _numbered("edges", files, index, n_nodes)
        )
        if len({weights is None for _, weights, _ in found}) > 1:
            raise DataError(f"{self.edges}: some files have weights and others not; add them")
        dropped = sum(n for *_, n in found)
        n_rows = sum(pq.read_metadata(path).num_rows for path in files)
        if dropped == n_rows > 0:
            raise DataError(f"no edge has two known nodes; check the ids of {self.edges}")
        n_shards = max(1, min(n_nodes, -(-2 * n_rows // ENTRIES_PER_SHARD)))
        edges = [n_nodes * i // n_shards for i in range(n_shards + 1)]
        parts = [(keys, weights) for keys, weights, _ in found]
        shards = self.compute(
            "sorting edges", build_tasks.store_shard,
            {f"shard-{i}": ((edges[i], edges[i + 1]), parts) for i in range(n_shards)},
        )  # fmt: skip
        counts, indices, weights, ones = zip(*shards, strict=True)
        jobs = {"indices": (list(indices), "<i4")}
        if not all(ones):
            jobs["weights"] = list(weights), weight_dtype
        arrays = self._joined("joining edges", jobs)
        [arrays["indptr"]] = self.compute(
            "joining edges", build_tasks.join_ends, {"indptr": ("indptr", list(counts), True)}
        )
        notes = [f"{dropped:,} edges dropped: their nodes are not in the features"]
        return arrays, notes if dropped else []

    def _features(self, parts: list[FeaturePart], dtype: str) -> dict[str, Entry]:
        jobs: dict[str, tuple[list[Entry], str]] = {
            f"X{i}": ([part.blocks[i] for part in parts], dtype)
            for i in range(len(parts[0].blocks))
        }
        if parts[0].is_text:
            jobs["id_text"] = [part.ids["id_text"] for part in parts], "|u1"
        elif parts[0].has_ids:
            jobs["ids"] = [part.keys for part in parts], "<i8"
        arrays = self._joined("joining features", jobs)
        if parts[0].is_text:
            ends = [part.ids["id_ends"] for part in parts]
            [arrays["id_ends"]] = self.compute(
                "joining features", build_tasks.join_ends, {"id_ends": ("id_ends", ends, False)}
            )
        return arrays

    def _joined(self, what: str, jobs: dict[str, tuple[list[Entry], str]]) -> dict[str, Entry]:
        found = self.compute(
            what, build_tasks.join, {name: (name, *job) for name, job in jobs.items()}
        )
        return dict(zip(jobs, found, strict=True))

    def _labels(
        self, files: list[Path], parts: list[FeaturePart], index: Any, n_nodes: int
    ) -> tuple[dict[str, Entry], list[Any] | None]:
        """Labels of all nodes, from their own files or from the features; their split from both."""
        codes, split = np.full(n_nodes, -1), np.full(n_nodes, -1, np.int8)
        found = [(part.labels, part.class_names) for part in parts]
        offsets = np.cumsum([0, *(part.n_rows for part in parts)])[:-1].tolist()
        if files:
            for (entry, _), offset in zip(found, offsets, strict=True):
                if entry is not None:
                    rows = open_array(self.build.folder, entry).view(LABEL_TYPE)
                    split[rows["position"] + offset] = rows["split"]
            found = self.compute(
                "reading labels",
                build_tasks.store_labels,
                _numbered("labels", files, index, n_nodes),
            )
            offsets = [0] * len(found)
        if all(entry is None for entry, _ in found):
            return {}, None
        names = [name for _, own in found for name in own]
        if len({isinstance(name, str) for name in names}) > 1:
            raise DataError("labels mix text and numbers; write all of them as one or the other")
        class_names = np.unique(names)
        labeled = np.zeros(n_nodes, bool)
        sources = files or [Path(part.path) for part in parts]
        for path, (entry, own), offset in zip(sources, found, offsets, strict=True):
            if entry is None:
                continue
            rows = open_array(self.build.folder, entry).view(LABEL_TYPE)
            positions = rows["position"] + offset
            distinct, counts = np.unique(positions, return_counts=True)
            repeated = distinct[labeled[distinct] | (counts > 1)]
            if len(repeated):
                node = self._node_id(parts, int(repeated[0]))
                raise DataError(f"{path}: node {node!r} has two labels; remove one row")
            labeled[positions] = True
            new_codes = np.append(np.searchsorted(class_names, own), -1).astype(np.int64)
            codes[positions] = new_codes[rows["code"]]
            split[positions] = np.maximum(split[positions], rows["split"])  # -1: not in this file
        arrays = {"labels": write_whole(self.build.folder / "labels.npy", codes)}
        split[codes < 0] = -1
        if np.any(split >= 0):
            arrays["split"] = write_whole(self.build.folder / "split.npy", split)
        return arrays, class_names.tolist()

    def _node_id(self, parts: list[FeaturePart], position: int) -> Any:
        part, row = _part_with(parts, position)
        if not part.has_ids:
            return position
        ids = stored_ids(self.build.folder, part.ids or {"ids": part.keys}, slice(row, row + 1))
        assert ids is not None
        return ids.tolist()[0]


def _numbered(kind: str, files: list[Path], *arguments: Any) -> dict[str, tuple[Any, ...]]:
    """Arguments of a task for each file, by the name of its record."""
    return {f"{kind}-{i}": (i, path, *arguments) for i, path in enumerate(files)}


def _check_same(parts: list[FeaturePart]) -> None:
    """Raise unless all files of features have the same columns and kinds of ids."""
    first = parts[0]
    for part in parts[1:]:
        if part.names != first.names or len(part.sums) != len(first.sums):
            raise DataError(
                f"{part.path} has other columns than {first.path}, or has them in another order; "
                f"all files need the same"
            )
        if (part.has_ids, part.is_text) != (first.has_ids, first.is_text):
            raise DataError(
                f"{part.path} has another type of node ids than {first.path}; use one type"
            )


def _place(parts: list[FeaturePart], position: int) -> str:
    part, row = _part_with(parts, position)
    return f"{part.path}, row {row}"


def _part_with(parts: list[FeaturePart], position: int) -> tuple[FeaturePart, int]:
    """The file of features that contains a node, and the row of the node in it."""
    for part in parts:
        if position < part.n_rows:
            return part, position
        position -= part.n_rows
    raise AssertionError
