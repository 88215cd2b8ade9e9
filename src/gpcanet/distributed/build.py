"""A store from directories of Parquet files, built by workers in bounded memory."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from distributed import Client

from ..errors import DataError
from ..files.column_roles import ColumnRoles
from ..utils.array_files import Entry, open_array
from ..utils.atomic import atomic_folder
from . import building
from .building import LABEL_TYPE, Build, FeaturePart
from .id_index import write_index
from .run import compute
from .store import Store
from .writing import (
    COLUMNS_PER_BLOCK,
    check_dtype,
    check_new_folder,
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
        completely or not at all.
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
    path = check_new_folder(folder).absolute()
    files = {
        "features": parquet_parts(features),
        "edges": parquet_parts(edges),
        "labels": [] if labels is None else parquet_parts(labels),
    }
    roles = ColumnRoles(id_column, label_column, split_column, tuple(ignore))
    with atomic_folder(path) as part:
        temporary = part / "build"
        temporary.mkdir()
        build = Build(
            temporary, roles, columns_per_block, None if dtype is None else check_dtype(dtype),
            source, target, weight, drop_unknown,
        )  # fmt: skip
        _Builder(client, build, part).run(path.name, files)
        shutil.rmtree(temporary)
    return Store.open(path)


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
    numbers = {p: [int(n) for n in re.findall(r"\d+", p.name)[:1]] for p in found}
    found.sort(key=lambda p: (numbers[p], p.name))
    listed = [numbers[p][0] for p in found if numbers[p]]
    if len(listed) == len(set(listed)) == len(found) and listed[0] <= 1:
        missing = sorted(set(range(listed[0], listed[-1])) - set(listed))
        if missing:
            raise DataError(
                f"{path} has no part {missing[0]}, but {found[-1].name}; complete the directory"
            )
    return found


class _Builder:
    def __init__(self, client: Client, build: Build, folder: Path) -> None:
        self.client, self.build, self.folder = client, build, folder

    def compute(self, what: str, function: Any, arguments: list[tuple[Any, ...]]) -> list[Any]:
        return compute(self.client, what, function, [(self.build, *args) for args in arguments])

    def run(self, name: str, files: dict[str, list[Path]]) -> None:
        parts = self.compute(
            "reading features", building.store_features, list(enumerate(files["features"]))
        )
        _check_same(parts)
        n_nodes = sum(part.n_rows for part in parts)
        index = self._index(parts)
        dtype = np.result_type(*(np.dtype(part.dtype) for part in parts))
        weight_dtype = np.result_type(dtype, np.float32).str
        arrays, notes = self._graph(files["edges"], index, n_nodes, weight_dtype)
        arrays |= self._features(parts, dtype.str)
        labels, class_names = self._labels(files["labels"], parts, index, n_nodes)
        write_store_manifest(
            self.folder,
            arrays | labels,
            sums=np.sum([part.sums for part in parts], axis=0),
            largest=max(part.largest for part in parts),
            name=name,
            feature_names=parts[0].names,
            class_names=class_names,
            notes=notes,
        )

    def _index(self, parts: list[FeaturePart]) -> dict[str, Any] | None:
        if not parts[0].has_ids:
            return None
        keys = [part.keys for part in parts]
        folder = self.build.folder
        [(index, repeated)] = compute(self.client, "sorting ids", write_index, [(folder, keys)])
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
            "reading edges", building.store_edges,
            [(i, path, index, n_nodes) for i, path in enumerate(files)],
        )  # fmt: skip
        if len({weights is None for _, weights, _ in found}) > 1:
            raise DataError(f"{files[0].parent}: some files have weights and others not; add them")
        dropped = sum(n for *_, n in found)
        n_rows = sum(pq.read_metadata(path).num_rows for path in files)
        if dropped == n_rows > 0:
            raise DataError(f"no edge has two known nodes; check the ids of {files[0].parent}")
        n_shards = max(1, min(n_nodes, -(-2 * n_rows // ENTRIES_PER_SHARD)))
        edges = [n_nodes * i // n_shards for i in range(n_shards + 1)]
        parts = [(keys, weights) for keys, weights, _ in found]
        shards = self.compute(
            "sorting edges", building.store_shard,
            [((edges[i], edges[i + 1]), parts) for i in range(n_shards)],
        )  # fmt: skip
        counts, indices, weights, ones = zip(*shards, strict=True)
        names = ["indices"]
        jobs: list[tuple[Any, ...]] = [(self.folder / "indices.npy", list(indices), "<i4")]
        if not all(ones):
            names.append("weights")
            jobs.append((self.folder / "weights.npy", list(weights), weight_dtype))
        arrays = dict(zip(names, self.compute("joining edges", building.join, jobs), strict=True))
        arrays["indptr"] = building.join_ends(
            self.build, self.folder / "indptr.npy", list(counts), first=True
        )
        notes = [f"{dropped:,} edges dropped: their nodes are not in the features"]
        return arrays, notes if dropped else []

    def _features(self, parts: list[FeaturePart], dtype: str) -> dict[str, Entry]:
        n_blocks = len(parts[0].blocks)
        jobs: list[tuple[Any, ...]] = [
            (self.folder / f"X{i}.npy", [part.blocks[i] for part in parts], dtype)
            for i in range(n_blocks)
        ]
        names = [f"X{i}" for i in range(n_blocks)]
        if parts[0].is_text:
            names.append("id_text")
            text = [part.ids["id_text"] for part in parts]
            jobs.append((self.folder / "id_text.npy", text, "|u1"))
        elif parts[0].has_ids:
            names.append("ids")
            jobs.append((self.folder / "ids.npy", [part.keys for part in parts], "<i8"))
        found = self.compute("joining features", building.join, jobs)
        arrays = dict(zip(names, found, strict=True))
        if parts[0].is_text:
            ends = [part.ids["id_ends"] for part in parts]
            path = self.folder / "id_ends.npy"
            arrays["id_ends"] = building.join_ends(self.build, path, ends, first=False)
        return arrays

    def _labels(
        self, files: list[Path], parts: list[FeaturePart], index: Any, n_nodes: int
    ) -> tuple[dict[str, Entry], list[Any] | None]:
        """Labels of all nodes, from their own files or from the features."""
        if files:
            found = self.compute(
                "reading labels", building.store_labels,
                [(i, path, index, n_nodes) for i, path in enumerate(files)],
            )  # fmt: skip
            offsets = [0] * len(found)
        else:
            found = [(part.labels, part.class_names) for part in parts]
            offsets = np.cumsum([0, *(part.n_rows for part in parts)])[:-1].tolist()
        if all(entry is None for entry, _ in found):
            return {}, None
        names = [name for _, own in found for name in own]
        if len({isinstance(name, str) for name in names}) > 1:
            raise DataError("labels mix text and numbers; write all of them as one or the other")
        class_names = np.unique(names)
        codes, split = np.full(n_nodes, -1), np.full(n_nodes, -1, np.int8)
        labeled = np.zeros(n_nodes, bool)
        for (entry, own), offset in zip(found, offsets, strict=True):
            if entry is None:
                continue
            rows = open_array(self.build.folder, entry).view(LABEL_TYPE)
            positions = rows["position"] + offset
            if labeled[positions].any() or len(np.unique(positions)) < len(positions):
                raise DataError("the labels name a node twice; remove one row")
            labeled[positions] = True
            new_codes = np.append(np.searchsorted(class_names, own), -1).astype(np.int64)
            codes[positions], split[positions] = new_codes[rows["code"]], rows["split"]
        arrays = {"labels": write_whole(self.folder / "labels.npy", codes)}
        split[codes < 0] = -1
        if np.any(split >= 0):
            arrays["split"] = write_whole(self.folder / "split.npy", split)
        return arrays, class_names.tolist()


def _check_same(parts: list[FeaturePart]) -> None:
    """Raise unless all files of features have the same columns and kinds of ids."""
    first = parts[0]
    for part in parts[1:]:
        if part.names != first.names or len(part.sums) != len(first.sums):
            raise DataError(
                f"{part.path} has other columns than {first.path}; all files need the same"
            )
        if (part.has_ids, part.is_text) != (first.has_ids, first.is_text):
            raise DataError(
                f"{part.path} has another type of node ids than {first.path}; use one type"
            )


def _place(parts: list[FeaturePart], position: int) -> str:
    for part in parts:
        if position < part.n_rows:
            return f"{part.path}, row {position}"
        position -= part.n_rows
    raise AssertionError
