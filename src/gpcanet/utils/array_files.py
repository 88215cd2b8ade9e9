"""Arrays in npy files that are mapped, not read, with checksums in a manifest.

An array is one npy file, so that it is mapped as one piece. Its checksums are those of shards of
``SHARD_BYTES``: they are computed while the file is written, verified in parallel, and name the
part of a file that is damaged.
"""

from __future__ import annotations

import hashlib
import io
import itertools
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from .. import __version__
from ..errors import DataError
from .atomic import atomic_file

#: Bytes of an array that share a checksum.
SHARD_BYTES = 2**28

#: Bytes of a shard that are read at a time when it is verified.
READ_BYTES = 2**24

#: Incremented when older versions of the package cannot read new folders.
FORMAT_VERSION = 1

MANIFEST = "manifest.json"

#: File, dtype, shape, bytes and checksums of an array, as JSON.
Entry = dict[str, Any]


def write_array(
    path: Path, chunks: Iterable[np.ndarray], shape: tuple[int, ...], dtype: Any
) -> Entry:
    """Write chunks of rows as one npy file, completely or not at all, and return its entry."""
    dtype = np.dtype(dtype)
    checksums, checksum, n_bytes = [], 0, 0
    contiguous = (np.ascontiguousarray(chunk, dtype=dtype) for chunk in chunks)
    parts = (chunk.reshape(-1).view(np.uint8).data for chunk in contiguous)
    with naming_file(path), atomic_file(path, overwrite=True) as file:
        for data in itertools.chain([_header(shape, dtype)], parts):
            begin = 0
            while begin < len(data):
                part = data[begin : begin + SHARD_BYTES - n_bytes % SHARD_BYTES]
                file.write(part)
                checksum = zlib.crc32(part, checksum)
                begin, n_bytes = begin + len(part), n_bytes + len(part)
                if n_bytes % SHARD_BYTES == 0:
                    checksums.append(checksum)
                    checksum = 0
    if n_bytes % SHARD_BYTES:
        checksums.append(checksum)
    return {
        "file": path.name,
        "dtype": dtype.str,
        "shape": list(shape),
        "bytes": n_bytes,
        "crc32": checksums,
    }


@contextmanager
def naming_file(path: Path) -> Iterator[None]:
    """Name the file in errors of the operating system, such as those of a full disk."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), str(path)) from None


def _header(shape: tuple[int, ...], dtype: np.dtype) -> memoryview:
    file = io.BytesIO()
    descr = np.lib.format.dtype_to_descr(dtype)
    header = {"descr": descr, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_2_0(file, header)
    return memoryview(file.getvalue())


def open_array(folder: Path, entry: Entry) -> np.ndarray:
    """Map an array; raise if its file is missing or does not match its entry."""
    path = _check_size(folder / entry["file"], entry["bytes"])
    if 0 in entry["shape"]:  # an empty file cannot be mapped
        return np.empty(entry["shape"], entry["dtype"])
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except Exception as error:  # a damaged header can raise any error
        reason = type(error).__name__
        raise DataError(f"{path} is damaged ({reason}); build the folder again") from None
    if [*array.shape] != entry["shape"] or array.dtype.str != entry["dtype"]:
        raise DataError(f"{path} does not match the manifest; build the folder again")
    return np.asarray(array)  # numba and pickle know ndarray, not its subclass


def _check_size(path: Path, n_bytes: int) -> Path:
    if not path.is_file():
        raise DataError(f"{path} is missing; build the folder again")
    if path.stat().st_size != n_bytes:
        raise DataError(
            f"{path} has {path.stat().st_size:,} bytes instead of {n_bytes:,}; it is damaged, "
            f"build the folder again"
        )
    return path


def n_shards(entry: Entry) -> int:
    return len(entry["crc32"])


def damaged_shard(folder: Path, entry: Entry, number: int) -> str | None:
    """A sentence that names the shard if its content does not match its checksum."""
    path = _check_size(folder / entry["file"], entry["bytes"])
    begin, end = number * SHARD_BYTES, min(entry["bytes"], (number + 1) * SHARD_BYTES)
    checksum = 0
    with path.open("rb") as file:
        file.seek(begin)
        for start in range(begin, end, READ_BYTES):
            checksum = zlib.crc32(file.read(min(READ_BYTES, end - start)), checksum)
    if checksum == entry["crc32"][number]:
        return None
    return (
        f"{path} is damaged in its bytes {begin:,} to {end - 1:,}: they do not match their checksum"
    )


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write a small JSON file completely or not at all."""
    with naming_file(path), atomic_file(path, overwrite=True) as file:
        file.write(json.dumps(content, indent=1).encode())


def write_manifest(folder: Path, kind: str, content: Mapping[str, Any]) -> None:
    """Write the manifest, which makes a folder valid; the last file to be written."""
    content = {**content, "kind": kind, "format": FORMAT_VERSION, "gpcanet": __version__}
    write_json(folder / MANIFEST, {**content, "sha256": digest(content)})


def read_manifest(folder: Path, kind: str) -> dict[str, Any]:
    """Read the manifest of a folder; error messages call the folder a ``kind``."""
    path = folder / MANIFEST
    if not path.is_file():
        raise DataError(f"{folder} is not a {kind} of GPCANet: it has no {MANIFEST}")
    try:
        content: dict[str, Any] = json.loads(path.read_bytes())
        stated = content["sha256"]
        newer = int(content["format"]) > FORMAT_VERSION
        other = content["kind"] != kind
        others = {name: value for name, value in content.items() if name != "sha256"}
    except (ValueError, KeyError, TypeError, AttributeError):
        raise DataError(f"{path} is damaged; build the folder again") from None
    if newer:
        raise DataError(
            f"{folder} was written by GPCANet {content.get('gpcanet')} in a format newer than this "
            f"version can read; update gpcanet"
        )
    if other:
        raise DataError(f"{folder} is a {content['kind']} of GPCANet, not a {kind}")
    if digest(others) != stated:
        raise DataError(f"{path} is damaged: its content does not match its checksum")
    return content


def digest(content: Mapping[str, Any]) -> str:
    """SHA-256 of JSON values."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
