"""Suffixes of files, and what is wrong with a file that cannot be read."""

from __future__ import annotations

from pathlib import Path

from ..errors import DataError


def suffix_of(path: Path) -> str:
    """The suffix of the format: ``.csv`` for ``edges.csv.gz``."""
    name = path.name.lower()
    for packed in (".gz", ".bz2", ".zst"):
        name = name.removesuffix(packed)
    return Path(name).suffix


def first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0]


def check_file(path: Path) -> None:
    try:
        if path.is_dir():
            raise DataError(f"{path} is a folder; give a file")
        if not path.exists():
            raise DataError(f"{path} does not exist; check the name")
    except OSError as error:  # a folder without permission, a name that is too long
        raise DataError(f"{path} is not readable: {error.strerror}") from None
