"""Positions of node ids, found in sorted keys that are mapped from a file.

Integer ids are their own keys; the key of a text is a hash of 64 bits. So workers find positions
without a shuffle, and without holding the ids of all nodes.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..errors import DataError
from ..files.id_columns import NodeIds
from ..utils.array_files import Entry, open_array, write_array


def keys_of(ids: Any) -> np.ndarray:
    """Keys of a pyarrow array of int64 or text."""
    if not pa.types.is_string(ids.type):
        return np.asarray(ids.to_numpy()).astype(np.int64, copy=False)
    codes = pc.dictionary_encode(ids.combine_chunks())
    if isinstance(codes, pa.ChunkedArray):
        codes = codes.combine_chunks()
    hashed = [
        hashlib.blake2b(text.encode(), digest_size=8).digest()
        for text in codes.dictionary.to_pylist()
    ]
    keys = np.frombuffer(b"".join(hashed), np.int64)
    return keys[codes.indices.to_numpy()] if len(keys) else np.empty(0, np.int64)


def write_index(folder: Path, parts: list[Entry]) -> tuple[dict[str, Entry], list[int] | None]:
    """Write the sorted keys of all nodes and their positions; two positions if a key is repeated.

    This takes 24 bytes of memory per node.
    """
    keys = np.concatenate([open_array(folder, part) for part in parts])
    places = np.argsort(keys, kind="stable")
    keys = keys[places]
    repeated = np.flatnonzero(keys[1:] == keys[:-1])
    if len(repeated):
        return {}, places[repeated[0] : repeated[0] + 2].tolist()
    return {
        "keys": write_array(folder / "keys.npy", [keys], keys.shape, np.int64),
        "places": write_array(folder / "places.npy", [places], places.shape, np.int32),
    }, None


def find_positions(
    folder: Path, index: dict[str, Any] | None, ids: NodeIds, n_nodes: int
) -> np.ndarray:
    """Position of every id; -1 if it is unknown. Without an index, ids are positions."""
    if index is None:
        if ids.is_text:
            raise DataError(
                f"{ids.table.path} has text for node ids (column {ids.name!r}), but the features "
                f"have no node ids (rows count as 0, 1, ...); use one type"
            )
        values = ids.values.to_numpy()
        return np.where((values >= 0) & (values < n_nodes), values, -1)
    if ids.is_text != index["is_text"]:
        own, other = ("text", "integers") if ids.is_text else ("integers", "text")
        raise DataError(
            f"{ids.table.path}: column {ids.name!r} has {own}, but the features have {other} for "
            f"node ids; use one type"
        )
    wanted = keys_of(ids.values)
    keys, places = (open_array(folder, index[name]) for name in ("keys", "places"))
    # Sorted first, so that pages of the mapped keys are read once.
    distinct, inverse = np.unique(wanted, return_inverse=True)
    slots = np.minimum(np.searchsorted(keys, distinct), len(keys) - 1)
    found = np.where(keys[slots] == distinct, places[slots].astype(np.int64), -1)
    return found[inverse]
