"""Arrays and matrices without names of rows: npy, npz and Matrix Market."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..errors import DataError
from .market import read_matrix_market
from .tables import check_file, first_line, suffix_of

MATRIX_SUFFIXES = (".npy", ".npz", ".mtx")

#: An npy file from this size on is read where it lies, when it is needed.
MAPPED_BYTES = 2**26


def read_arrays(path: Path) -> dict[str, Any]:
    """Arrays of a file by name; the one array of a file without names is called "".

    scipy's sparse npz and Matrix Market give one sparse array. Nothing is unpickled.
    """
    check_file(path)
    suffix = suffix_of(path)
    try:
        if suffix == ".npy":
            is_large = path.stat().st_size >= MAPPED_BYTES
            return {"": np.load(path, mmap_mode="r" if is_large else None, allow_pickle=False)}
        if suffix == ".npz":
            return _read_npz(path)
        return {"": read_matrix_market(path)}
    except Exception as error:  # readers of damaged files raise every kind there is
        raise _unreadable(path, error) from None


def _read_npz(path: Path) -> dict[str, Any]:
    if not zipfile.is_zipfile(path):  # np.load would try it as something else
        raise ValueError("it is no zip archive, or was cut short")
    with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
        if {"format", "shape", "data"} <= set(archive.files):
            matrix = sp.load_npz(path)
            if matrix.ndim != 2:
                raise ValueError(f"its sparse array of shape {matrix.shape} is no matrix")
            if matrix.format in ("csr", "csc", "bsr"):
                matrix.check_format(full_check=True)  # positions out of range would read elsewhere
            return {"": sp.csr_array(matrix)}
        return {name: archive[name] for name in archive.files}


def _unreadable(path: Path, error: Exception) -> DataError:
    kind = {".npy": "npy", ".npz": "npz", ".mtx": "Matrix Market"}[suffix_of(path)]
    reason = first_line(error) or type(error).__name__
    if "allow_pickle" in reason:
        objects = reason.startswith("Object arrays")
        reason = "it holds Python objects" if objects else "it holds something else"
    return DataError(f"{path} is no readable {kind} file: {reason}")
