"""Readers of npy, npz and Matrix Market files."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..errors import DataError
from ..utils.messages import first_line
from .matrix_market import read_matrix_market
from .paths import check_file, suffix_of

#: Names of the formats in messages.
ARRAY_FORMATS = {".npy": "npy", ".npz": "npz", ".mtx": "Matrix Market"}
ARRAY_SUFFIXES = tuple(ARRAY_FORMATS)

#: npy files of this size or more are memory-mapped.
MAPPED_BYTES = 2**26


def read_arrays(path: Path) -> dict[str, Any]:
    """Read the arrays of a file by name; the only array of a file without names is called "".

    Sparse npz files of scipy and Matrix Market files contain one sparse array. Nothing is
    unpickled.
    """
    check_file(path)
    suffix = suffix_of(path)
    try:
        if suffix == ".npz":
            return _read_npz(path)
        if suffix == ".mtx":
            return {"": read_matrix_market(path)}
        if path.stat().st_size >= MAPPED_BYTES:
            return {"": np.lib.format.open_memmap(path, mode="r")}
        with path.open("rb") as file:
            return {"": np.lib.format.read_array(file, allow_pickle=False)}
    except Exception as error:  # readers of damaged files raise errors of all types
        reason = first_line(error) or type(error).__name__
        kind = ARRAY_FORMATS[suffix]
        raise DataError(f"{path} is not a readable {kind} file: {reason}") from None


def _read_npz(path: Path) -> dict[str, Any]:
    if not zipfile.is_zipfile(path):  # np.load would try other formats
        raise ValueError("it is not a zip archive, or is truncated")
    with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
        if {"format", "shape", "data"} <= set(archive.files):
            matrix = sp.load_npz(path)
            if matrix.ndim != 2:
                raise ValueError(f"its sparse array of shape {matrix.shape} is not a matrix")
            return {"": to_csr(matrix)}
        arrays = {name: archive[name] for name in archive.files}
    for name, array in arrays.items():
        if not isinstance(array, np.ndarray):  # numpy returns the bytes of other members
            raise ValueError(f"its member {name!r} is not an array")
    return arrays


def to_float(X: Any, place: str) -> Any:
    """A matrix as float32 or float64."""
    if X.dtype.kind not in "fiub":
        raise DataError(f"{place} dtype {X.dtype} must be real numbers")
    is_single = np.result_type(X.dtype, np.float32) == np.float32
    return X.astype(np.float32 if is_single else np.float64, copy=False)


def to_csr(matrix: Any) -> sp.csr_array:
    """A sparse matrix of a file as CSR; raises a ValueError if its structure is wrong."""
    if matrix.format in ("csr", "csc", "bsr"):  # wrong indices would read other memory
        if np.any(np.diff(matrix.indptr) < 0):  # not checked below if the last one is 0
            raise ValueError("index pointers decrease")
        matrix.check_format(full_check=True)
    return sp.csr_array(matrix)
