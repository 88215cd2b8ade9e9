"""Standard input as a file: ``--features -``."""

from __future__ import annotations

import atexit
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from ..errors import InputError

#: Name of standard input on the command line.
STANDARD_INPUT = Path("-")

#: First bytes of the formats; everything else is CSV or TSV, in which delimiters are detected.
SIGNATURES = {
    b"PAR1": ".parquet",
    b"PK\x03\x04": ".npz",
    b"\x93NUMPY": ".npy",
    b"\x89HDF": ".h5ad",
    b"%%MatrixMarket": ".mtx",
    b"\x1f\x8b": ".csv.gz",
    b"BZh": ".csv.bz2",
    b"\x28\xb5\x2f\xfd": ".csv.zst",
}

_PathType: Any = type(Path())


class NamedPath(_PathType):  # type: ignore[misc]
    """The path of a temporary file, which messages call by another name."""

    def __fspath__(self) -> str:
        return str(Path(*self.parts))

    def __str__(self) -> str:
        return "standard input"


def spool_standard_input() -> Path:
    """Copy standard input to a temporary file, which is deleted when the process ends."""
    stream = getattr(sys.stdin, "buffer", None)
    if stream is None or sys.stdin.isatty():
        raise InputError("standard input (-) is a terminal; pipe a file into the command")
    begin = stream.read(16)
    if not begin:
        raise InputError("standard input (-) is empty; pipe a file into the command")
    suffix = next((s for signature, s in SIGNATURES.items() if begin.startswith(signature)), ".csv")
    folder = tempfile.TemporaryDirectory(prefix="gpcanet-")
    atexit.register(folder.cleanup)
    path = Path(folder.name) / f"stdin{suffix}"
    with path.open("wb") as file:
        file.write(begin)
        shutil.copyfileobj(stream, file)
    return NamedPath(path)
