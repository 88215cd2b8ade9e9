"""Suffixes of files, folders and patterns of files, and what is wrong with an unreadable file."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ..errors import DataError

TEXT_SUFFIXES = (".csv", ".tsv")
PARQUET_SUFFIXES = (".parquet", ".pq")
TABLE_SUFFIXES = (*TEXT_SUFFIXES, *PARQUET_SUFFIXES)

_WILDCARD = re.compile(r"[*?\[]")


def suffix_of(path: Path) -> str:
    """The suffix of a file or of the files in a folder; ``.csv`` for ``edges.csv.gz``."""
    if is_several_files(path):
        path = files_in(path)[0]
    name = path.name.lower()
    for packed in (".gz", ".bz2", ".zst"):
        name = name.removesuffix(packed)
    return Path(name).suffix


def wrong_format(path: Path, content: str, suffixes: Iterable[str]) -> DataError:
    """An error that names the formats for some content, such as edges."""
    suffix = suffix_of(path)
    hint = "" if suffix else "; add its suffix, or use - for standard input"
    return DataError(
        f"{path}: {content} must be a {', '.join(suffixes)} file, not "
        f"{suffix or 'one without a suffix'}{hint}"
    )


def check_file(path: Path) -> None:
    try:
        if path.is_dir():
            raise DataError(f"{path} is a folder; give a file")
        if not path.exists():
            raise DataError(f"{path} does not exist; check the name")
    except OSError as error:  # a folder without permission, a name that is too long
        raise DataError(f"{path} is not readable: {error.strerror}") from None


# -- folders and patterns -----------------------------------------------------------------


def is_several_files(path: Path) -> bool:
    """Whether the path is a folder, or a pattern such as ``part-*.csv``."""
    try:
        return path.is_dir() or (is_pattern(path) and not path.exists())
    except OSError:  # reported when the file is read
        return False


def is_pattern(path: Path) -> bool:
    return _WILDCARD.search(os.fspath(path)) is not None


def natural_order(path: Path) -> tuple[Any, ...]:
    """Sort key by which numbers in names count as numbers: part-2 is before part-10."""
    parts = [re.split(r"([0-9]+)", part) for part in path.parts]
    key = [[int(text) if i % 2 else text for i, text in enumerate(part)] for part in parts]
    return key, path


def files_in(path: Path) -> list[Path]:
    """The tables in a folder and its subfolders, or of a pattern, in natural order of their names.

    Names that begin with a dot or an underscore are skipped, as Spark writes them.
    """
    try:
        found = [path] if path.is_dir() else map(Path, glob.glob(os.fspath(path), recursive=True))
        files = sorted({f for match in found for f in _files_below(match)}, key=natural_order)
    except OSError as error:
        raise DataError(f"{path} is not readable: {error.strerror}") from None
    if not files:
        problem = "contains no file" if path.is_dir() else "matches no file; check the pattern"
        raise DataError(f"{path} {problem}")
    suffixes = sorted({suffix_of(file) for file in files})
    if len(suffixes) > 1:
        listed = ", ".join(suffix or f"{files[0].name!r}" for suffix in suffixes)
        table = next((s for s in reversed(suffixes) if s in TABLE_SUFFIXES), ".csv")
        raise DataError(
            f"{path} has files of several formats ({listed}); give a pattern such as "
            f"'{(path if path.is_dir() else path.parent) / '*'}{table}'"
        )
    if suffixes[0] not in TABLE_SUFFIXES and files != [path]:
        raise DataError(
            f"{path}: only {', '.join(TABLE_SUFFIXES)} files are read from a folder or a pattern, "
            f"not {files[0].name}; give this file"
        )
    return files


def _files_below(match: Path) -> list[Path]:
    if not match.is_dir():
        return [match]
    below = (file for file in match.rglob("*") if file.is_file())
    return [
        file
        for file in below
        if not any(part.startswith((".", "_")) for part in file.relative_to(match).parts)
    ]


def partition_values(path: Path, file: Path) -> dict[str, str]:
    """Values in the names of folders, such as ``{"year": "2020"}`` for ``year=2020/a.parquet``.

    Folders of the path itself do not count, unless they are part of a pattern.
    """
    fixed = 0
    for part in path.parts:
        if not path.is_dir() and _WILDCARD.search(part):
            break
        fixed += 1
    folders = file.parts[fixed:-1]
    return dict(folder.split("=", 1) for folder in folders if "=" in folder)


def contains_file(path: Path, file: Path) -> bool:
    """Whether a file, which need not exist, would be one of the files of a folder or pattern."""
    if path.is_dir():
        return file.resolve().is_relative_to(path.resolve())
    if not is_pattern(path):
        return False
    pattern, name = os.path.abspath(path), Path(os.path.abspath(file))
    return name.match(pattern) or ("**" in pattern and name.match(Path(pattern).name))
