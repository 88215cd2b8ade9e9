"""Arrays and a JSON header in one safetensors file, with a checksum over both.

Fitted models and training checkpoints share this format. There is no pickle in it, and nothing
in it is run, so that a file from a stranger is harmless.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from . import __version__
from .atomic import whole_file
from .errors import DataError

#: Raised whenever a file of this version could not be read by the code of an older one.
FORMAT_VERSION = 1

_HEADER = "gpcanet"


def write_tensor_file(
    path: Path, header: Mapping[str, Any], arrays: Mapping[str, np.ndarray], *, overwrite: bool
) -> None:
    """Write the file, whole or not at all. Keys of the header must be strings."""
    from safetensors.numpy import save

    header = {**header, "format": FORMAT_VERSION, "gpcanet": __version__}
    header["sha256"] = digest(header, arrays)
    content = save(dict(arrays), metadata={_HEADER: json.dumps(header)})
    with whole_file(path, overwrite=overwrite) as file:
        file.write(content)


def read_tensor_file(path: Path, what: str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Header and arrays of a file; ``what`` names its kind in error messages."""
    from safetensors import safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            header = json.loads((file.metadata() or {})[_HEADER])
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        stated = header.pop("sha256")
    except Exception as error:  # safetensors is Rust, and damage may be anywhere
        reason = str(error).partition("\n")[0]
        raise DataError(f"{path} is no {what} of GPCANet, or damaged: {reason}") from None
    if not isinstance(header.get("format"), int) or header["format"] > FORMAT_VERSION:
        raise DataError(
            f"{path} was written by GPCANet {header.get('gpcanet')}, in a format newer than this "
            f"version reads; update gpcanet"
        )
    if digest(header, arrays) != stated:
        raise DataError(f"{path} is damaged: its content does not match its checksum")
    return header, arrays


def digest(header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> str:
    """SHA-256 of the header and of the name, dtype, shape and content of every array."""
    found = hashlib.sha256(json.dumps(header, sort_keys=True).encode())
    for name in sorted(arrays):
        found.update(f"{name} {arrays[name].dtype} {arrays[name].shape}".encode())
        found.update(arrays[name].data)
    return found.hexdigest()
