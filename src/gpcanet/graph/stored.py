"""The graph of a store: CSR arrays and node ids that are mapped from files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputTypeError
from ..utils.array_files import open_array, read_manifest

#: Kind of the folders; see ``gpcanet.distributed.Store``.
STORE = "store"


def stored_state(folder: Path) -> dict[str, Any]:
    """The attributes of a Graph, mapped from a store."""
    arrays = read_manifest(folder, STORE)["arrays"]
    names = ("indptr", "indices", "weights")
    mapped = {name: open_array(folder, arrays[name]) if name in arrays else None for name in names}
    ids = stored_ids(folder, arrays, slice(None))
    return {**mapped, "node_ids": ids, "_changes": []}


def stored_ids(folder: Path, arrays: dict[str, Any], rows: slice) -> np.ndarray | None:
    """Node ids of some rows: integers, or text as an array of objects; None without ids."""
    if "ids" in arrays:
        return open_array(folder, arrays["ids"])[rows]
    if "id_ends" not in arrays:
        return None
    ends = open_array(folder, arrays["id_ends"])
    begin, end, _ = rows.indices(len(ends))
    first = int(ends[begin - 1]) if begin else 0
    last = int(ends[end - 1]) if end > begin else first
    text = open_array(folder, arrays["id_text"])[first:last].tobytes()
    edges = [0, *(ends[begin:end] - first).tolist()]
    ids = np.empty(end - begin, object)
    ids[:] = [text[edges[i] : edges[i + 1]].decode() for i in range(end - begin)]
    return ids


def encoded_text(ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Text ids as the end of each in bytes, and all of them as UTF-8."""
    encoded = []
    for name in ids.tolist():
        if not isinstance(name, str):
            raise InputTypeError(f"node id {name!r} cannot be stored; use integers or text")
        encoded.append(name.encode())
    ends = np.cumsum([len(name) for name in encoded], dtype=np.int64)
    return ends, np.frombuffer(b"".join(encoded), np.uint8)
