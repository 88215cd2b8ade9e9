"""The tasks that build a store from Parquet files. A worker holds one file or shard at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import DataError, UnknownNodeError
from ..files.column_roles import ColumnRoles
from ..files.edges import Edges, read_edges
from ..files.features import read_features
from ..files.id_columns import row_positions
from ..files.labels import Labels, read_labels
from ..graph.stored import encoded_text
from ..utils.array_files import Entry, open_array, write_array
from ..utils.labels import SPLIT
from .id_index import find_positions, keys_of, write_index
from .tasks import write_record
from .writing import checked_size, column_sums, write_whole

#: Label codes and split of some nodes, by their positions in all nodes or in the part.
LABEL_TYPE = np.dtype([("position", np.int64), ("code", np.int64), ("split", np.int8)])


@dataclass(frozen=True)
class Build:
    """Parameters that all tasks of a build share."""

    folder: Path  # of all files until the store is complete
    roles: ColumnRoles
    columns_per_block: int
    dtype: Any
    source: str
    target: str
    weight: str | None
    drop_unknown: bool

    @property
    def label_roles(self) -> ColumnRoles:
        """The roles of columns in files of labels."""
        return replace(self.roles, ignore=(), id_is_optional=True)


@dataclass(frozen=True)
class FeaturePart:
    """Summary of a file of features for the client."""

    path: str
    n_rows: int
    blocks: list[Entry]
    dtype: str
    sums: list[float]
    largest: float
    names: list[str] | None
    is_text: bool
    has_ids: bool
    keys: Entry
    ids: dict[str, Entry]
    labels: Entry | None
    class_names: list[Any]
    label_note: str | None


def recorded(name: str, function: Callable[..., Any], build: Build, *arguments: Any) -> None:
    """Run a task, and write a record with its result."""
    result = function(build, *arguments)
    result = asdict(result) if isinstance(result, FeaturePart) else result
    write_record(build.folder, name, {"result": result})


def label_columns(build: Build, path: Path) -> dict[str, Any]:
    """What the readers of the features have to know about files of labels, from one of them."""
    labels = read_labels(path, build.label_roles)
    return {
        "name": labels.name,
        "has_split": labels.split is not None,
        "has_named_id": labels.ids.name == build.roles.id,
    }


def store_features(
    build: Build,
    number: int,
    path: Path,
    labels_path: Path | None,
    label_columns: dict[str, Any] | None,
) -> FeaturePart:
    """Blocks of columns and ids of a file of features, and its split and labels.

    If there are files of labels, ``label_columns`` describes them, and the labels are theirs.
    """
    roles, other = build.roles, None
    if labels_path is not None and label_columns is not None:
        roles = replace(roles, id_is_optional=label_columns["has_named_id"])
        split = np.empty(0, object) if label_columns["has_split"] else None
        nothing = np.empty(0)
        other = Labels(
            row_positions(labels_path, 0), nothing, nothing, split, label_columns["name"]
        )
    part = read_features(path, roles, labels=other)
    own = part.labels if other is None else None
    X = np.asarray(part.X)
    with np.errstate(over="ignore"):  # checked_size notices it
        X = X if build.dtype is None else X.astype(build.dtype)
    width, folder = build.columns_per_block, build.folder
    blocks = [
        write_whole(folder / f"X{begin}-{number}.npy", X[:, begin : begin + width])
        for begin in range(0, X.shape[1], width)
    ]
    ids: dict[str, Entry] = {}
    if part.ids.is_text:
        ends, text = encoded_text(np.asarray(part.ids.values.to_numpy()))
        ids["id_ends"] = write_whole(folder / f"id_ends-{number}.npy", ends)
        ids["id_text"] = write_whole(folder / f"id_text-{number}.npy", text)
    keys = keys_of(part.ids.values)
    labels: Entry | None = None
    class_names: list[Any] = []
    if own is not None or part.split is not None:
        found = np.empty(len(X), LABEL_TYPE)
        found["position"] = np.arange(len(X))
        found["code"] = -1 if own is None else own.codes
        found["split"] = _split_codes(part.split, len(X))
        labels = write_whole(folder / f"labels-{number}.npy", found.view(np.uint8))
        class_names = [] if own is None else own.class_names.tolist()
    return FeaturePart(
        path=str(path),
        n_rows=len(X),
        blocks=blocks,
        dtype=X.dtype.str,
        sums=column_sums(X).tolist(),
        largest=checked_size(X),
        names=None if part.names is None else [str(name) for name in part.names],
        is_text=part.ids.is_text,
        has_ids=not part.ids.are_positions,
        keys=write_whole(folder / f"keys-{number}.npy", keys),
        ids=ids,
        labels=labels,
        class_names=class_names,
        label_note=part.label_note,
    )


def _split_codes(split: np.ndarray | None, n_rows: int) -> np.ndarray:
    codes = np.full(n_rows, -1, np.int8)
    if split is not None:
        for number, name in enumerate(SPLIT):
            codes[split == name] = number
    return codes


def store_index(build: Build, parts: list[Entry]) -> tuple[dict[str, Entry], list[int] | None]:
    """Sorted keys of all nodes; two positions if a key is repeated."""
    return write_index(build.folder, parts)


def store_labels(
    build: Build, number: int, path: Path, index: dict[str, Any] | None, n_nodes: int
) -> tuple[Entry, list[Any]]:
    """Labels of a file of labels, by the positions of their nodes, and its classes."""
    labels = read_labels(path, build.label_roles)
    if labels.ids.are_positions:
        raise DataError(f"{path} has no column of node ids; add one, or name it as the id column")
    positions = find_positions(build.folder, index, labels.ids, n_nodes)
    known = _check_known(build, positions, labels.ids)
    found = np.empty(len(positions), LABEL_TYPE)
    found["position"], found["code"] = positions, labels.codes
    found["split"] = _split_codes(labels.split, len(positions))
    entry = write_whole(build.folder / f"node_labels-{number}.npy", found[known].view(np.uint8))
    return entry, labels.class_names.tolist()


def store_edges(
    build: Build, number: int, path: Path, index: dict[str, Any] | None, n_nodes: int
) -> tuple[Entry, Entry | None, int]:
    """Both directions of the edges of a file as sorted keys, weights, and the number dropped."""
    edges = read_edges(path, build.source, build.target, build.weight)
    assert isinstance(edges, Edges)
    ends = [
        find_positions(build.folder, index, ids, n_nodes) for ids in (edges.source, edges.target)
    ]
    known = _check_known(build, ends[0], edges.source)
    known &= _check_known(build, ends[1], edges.target)
    kept = known & (ends[0] != ends[1])
    rows, columns = (positions[kept] for positions in ends)
    keys = np.concatenate([rows << 32 | columns, columns << 32 | rows])
    weights = None if edges.weights is None else np.tile(edges.weights[kept], 2)
    keys, weights = merged(keys, weights)
    entry = write_whole(build.folder / f"edges-{number}.npy", keys)
    weight_entry = None
    if weights is not None:
        weight_entry = write_whole(build.folder / f"edge_weights-{number}.npy", weights)
    return entry, weight_entry, int(np.count_nonzero(~known))


def _check_known(build: Build, positions: np.ndarray, ids: Any) -> np.ndarray:
    known = positions >= 0
    if not known.all() and not build.drop_unknown:
        first = int(np.argmax(~known))
        n_unknown = int(np.count_nonzero(~known))
        raise UnknownNodeError(
            f"{ids.describe(first)} is not in the features ({n_unknown} unknown in this file)"
        )
    return known


def merged(keys: np.ndarray, weights: np.ndarray | None) -> tuple[np.ndarray, np.ndarray | None]:
    """Distinct keys in order, each with the largest of its weights."""
    if weights is None:
        return np.unique(keys), None
    order = np.lexsort((weights, keys))
    keys, weights = keys[order], weights[order].astype(np.float64)
    last = np.ones(len(keys), bool)
    last[:-1] = keys[1:] != keys[:-1]
    return keys[last], weights[last]


def store_shard(
    build: Build, rows: tuple[int, int], parts: list[tuple[Entry, Entry | None]]
) -> tuple[Entry, Entry, Entry | None, bool]:
    """Neighbours of some rows: counts, indices, weights, and whether all weights are 1."""
    begin, end = rows
    keys, weights = [], []
    weighted = any(entry is not None for _, entry in parts)
    for key_entry, weight_entry in parts:
        found = open_array(build.folder, key_entry)
        first, last = np.searchsorted(found, [begin << 32, end << 32])
        keys.append(found[first:last])
        if weighted:
            assert weight_entry is not None
            weights.append(open_array(build.folder, weight_entry)[first:last])
    all_keys, all_weights = merged(
        np.concatenate(keys), np.concatenate(weights) if weighted else None
    )
    if all_weights is not None:
        kept = all_weights > 0
        all_keys, all_weights = all_keys[kept], all_weights[kept]
    counts = np.bincount((all_keys >> 32) - begin, minlength=end - begin)
    columns = (all_keys & 0x7FFFFFFF).astype(np.int32)
    folder = build.folder
    entry = None
    if all_weights is not None:
        entry = write_whole(folder / f"weights-{begin}.npy", all_weights)
    return (
        write_whole(folder / f"counts-{begin}.npy", counts.astype(np.int64)),
        write_whole(folder / f"indices-{begin}.npy", columns),
        entry,
        all_weights is None or bool(np.all(all_weights == 1)),
    )


def join(build: Build, name: str, parts: list[Entry], dtype: str) -> Entry:
    """One file from consecutive parts of an array."""
    arrays = [open_array(build.folder, part) for part in parts]
    shape = (sum(len(array) for array in arrays), *arrays[0].shape[1:])
    return write_array(build.folder / f"{name}.npy", arrays, shape, dtype)


def join_ends(build: Build, name: str, parts: list[Entry], counts: bool) -> Entry:
    """One file of cumulative ends from parts.

    The parts are ends or ``counts``; for counts, the file starts with a 0.
    """
    sizes = sum(part["shape"][0] for part in parts)

    def chunks() -> Iterator[np.ndarray]:
        total = 0
        if counts:
            yield np.zeros(1, np.int64)
        for part in parts:
            values = open_array(build.folder, part)
            ends = total + (np.cumsum(values) if counts else values)
            if len(ends):
                total = int(ends[-1])
            yield ends

    return write_array(build.folder / f"{name}.npy", chunks(), (sizes + counts,), np.int64)
