"""Arrays and matrices without names of rows: npy, npz and Matrix Market."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import scipy.io
import scipy.sparse as sp

from ..datasets.errors import DataError
from .tables import suffix_of

MATRIX_SUFFIXES = (".npy", ".npz", ".mtx")


def read_arrays(path: Path) -> dict[str, Any]:
    """Arrays of a file by name; the one array of a file without names is called "".

    scipy's sparse npz and Matrix Market give one sparse array. Nothing is unpickled.
    """
    if path.is_dir() or not path.exists():
        raise DataError(f"{path} is {'a folder' if path.is_dir() else 'not there'}; give a file")
    suffix = suffix_of(path)
    try:
        if suffix == ".npy":
            return {"": np.load(path, allow_pickle=False)}
        if suffix == ".npz":
            return _read_npz(path)
        return {"": sp.csr_array(scipy.io.mmread(path, spmatrix=False))}
    except (ValueError, OSError, EOFError, KeyError, IndexError, OverflowError, TypeError) as error:
        reason = "it holds Python objects" if "allow_pickle" in str(error) else error
        raise _unreadable(path, reason) from None
    except (zipfile.BadZipFile, zlib.error, RuntimeError) as error:
        raise _unreadable(path, error) from None


def _read_npz(path: Path) -> dict[str, Any]:
    with np.load(path, allow_pickle=False) as archive:
        if not isinstance(archive, np.lib.npyio.NpzFile):
            raise ValueError("it is an npy file under another name")
        if {"format", "shape", "data"} <= set(archive.files):
            matrix = sp.csr_array(sp.load_npz(path))
            matrix.check_format(full_check=True)  # positions out of range would read elsewhere
            return {"": matrix}
        return {name: archive[name] for name in archive.files}


def _unreadable(path: Path, reason: object) -> DataError:
    kind = {".npy": "npy", ".npz": "npz", ".mtx": "Matrix Market"}[suffix_of(path)]
    text = str(reason).strip().partition("\n")[0]
    return DataError(f"{path} is no readable {kind} file: {text}")
