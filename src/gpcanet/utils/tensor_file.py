"""Arrays and a JSON header in one safetensors file, with a checksum of both.

The format of saved models and training checkpoints. It contains no pickle and no code, so that
files from untrusted sources are safe to read.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from .. import __version__
from ..errors import DataError
from .atomic import atomic_file
from .messages import first_line, quoted

#: Incremented when older versions of the package cannot read new files.
FORMAT_VERSION = 1

_HEADER = "gpcanet"


def write_tensor_file(
    path: Path, header: Mapping[str, Any], arrays: Mapping[str, np.ndarray], *, overwrite: bool
) -> None:
    """Write the file completely or not at all. Keys of the header must be strings."""
    header = {**header, "format": FORMAT_VERSION, "gpcanet": __version__}
    header["sha256"] = digest(header, arrays)
    content = tensor_bytes(header, arrays)
    with atomic_file(path, overwrite=overwrite) as file:
        file.write(content)


def tensor_bytes(header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> bytes:
    """Arrays and a JSON header in the format of safetensors."""
    from safetensors.numpy import save

    # safetensors writes the memory of an array in Fortran order as if it were in C order.
    contiguous = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    return bytes(save(contiguous, metadata={_HEADER: json.dumps(header)}))


def read_tensor_file(path: Path, kind: str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return the header and the arrays of a file; error messages call it a ``kind``."""
    from safetensors import safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            header = json.loads((file.metadata() or {})[_HEADER])
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        stated = header.pop("sha256")
    except Exception as error:  # a damaged file can raise any error
        reason = first_line(error)
        raise DataError(f"{path} is not a {kind} of GPCANet, or is damaged: {reason}") from None
    if not isinstance(header.get("format"), int) or header["format"] > FORMAT_VERSION:
        raise DataError(
            f"{path} was written by GPCANet {quoted(header.get('gpcanet'))} in a format newer than "
            f"this version can read; update gpcanet"
        )
    if digest(header, arrays) != stated:
        raise DataError(f"{path} is damaged: its content does not match its checksum")
    return header, arrays


def stated_kind(path: Path) -> Any:
    """Return the kind in the header of a file without reading its arrays; None if it has none.

    The checksum is not verified.
    """
    from safetensors import safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            return json.loads((file.metadata() or {})[_HEADER])["kind"]
    except Exception:  # a damaged file can raise any error
        return None


def digest(header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> str:
    """SHA-256 of the header and of the name, dtype, shape and content of every array."""
    checksum = hashlib.sha256(json.dumps(header, sort_keys=True).encode())
    for name in sorted(arrays):
        checksum.update(f"{name} {arrays[name].dtype} {arrays[name].shape}".encode())
        checksum.update(np.asarray(arrays[name], order="C").data)
    return checksum.hexdigest()
