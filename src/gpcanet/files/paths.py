"""Suffixes of files, and what is wrong with a file that cannot be read."""

from __future__ import annotations

from pathlib import Path

from ..errors import DataError

#: Characters of another library's message that are shown.
LONGEST_REASON = 200


def suffix_of(path: Path) -> str:
    """The suffix of the format: ``.csv`` for ``edges.csv.gz``."""
    name = path.name.lower()
    for packed in (".gz", ".bz2", ".zst"):
        name = name.removesuffix(packed)
    return Path(name).suffix


def first_line(error: BaseException) -> str:
    """The first line of a message, shortened: some contain the bytes of a damaged file."""
    line = str(error).strip().partition("\n")[0]
    return line if len(line) <= LONGEST_REASON else f"{line[:LONGEST_REASON]}..."


def check_file(path: Path) -> None:
    try:
        if path.is_dir():
            raise DataError(f"{path} is a folder; give a file")
        if not path.exists():
            raise DataError(f"{path} does not exist; check the name")
    except OSError as error:  # a folder without permission, a name that is too long
        raise DataError(f"{path} is not readable: {error.strerror}") from None
