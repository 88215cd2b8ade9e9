"""Files and folders that are written completely or not at all.

Data goes to a hidden name in the same folder and gets its final name by one rename. After an
error, a full disk, an interrupt or a kill, the old file or none is there, never a part of one.
"""

from __future__ import annotations

import glob
import os
import secrets
import shutil
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from ..errors import InputError, OutputExistsError

#: Attempts to remove a folder to which other processes still write.
REMOVALS = 20


@contextmanager
def atomic_file(path: str | os.PathLike[str], *, overwrite: bool = False) -> Iterator[IO[bytes]]:
    """Open a file for writing; it gets its name when the block ends without an error.

    A file that is replaced keeps its permissions.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = Path(folder.name) / "answer.txt"
    >>> with atomic_file(path) as file:
    ...     _ = file.write(b"42")
    >>> path.read_text()
    '42'
    >>> folder.cleanup()
    """
    path = check_target(path, overwrite=overwrite)
    part = _hidden_sibling(path)
    try:
        with part.open("xb") as file:
            if path.exists():  # before the data is written, which others may not be allowed to read
                part.chmod(stat.S_IMODE(path.stat().st_mode))
            yield file
            file.flush()
            os.fsync(file.fileno())
        check_target(path, overwrite=overwrite)
        if overwrite:
            os.replace(part, path)
        else:
            _rename_if_free(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


@contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """Create a folder; it gets its name when the block ends without an error.

    If another process has created the folder meanwhile, that one is kept.
    """
    part = _hidden_sibling(path)
    try:
        part.mkdir(parents=True)
        yield part
        try:
            os.rename(part, path)
        except OSError:
            if not path.is_dir():
                raise
    finally:
        # Workers that have not noticed an error yet may add files meanwhile.
        for _ in range(REMOVALS):
            shutil.rmtree(part, ignore_errors=True)
            if not part.exists():
                break


def remove_abandoned_folders(path: Path) -> None:
    """Remove what killed processes left of ``atomic_folder(path)``; requires a lock on the name."""
    for part in path.parent.glob(f".{glob.escape(path.name)}.*.part"):
        shutil.rmtree(part, ignore_errors=True)


def check_target(path: str | os.PathLike[str], *, overwrite: bool) -> Path:
    """Raise if a file cannot be written there; called before long computations."""
    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; give the name of a file")
    if path.exists() and not overwrite:
        raise OutputExistsError(path)
    _check_parent(path)
    return path


def check_new_folder(path: str | os.PathLike[str]) -> Path:
    """Raise if a new folder cannot be created there."""
    path = Path(path)
    if path.exists():
        raise OutputExistsError(path, is_replaceable=False)
    _check_parent(path)
    return path


def _check_parent(path: Path) -> None:
    if not path.parent.is_dir():
        raise FileNotFoundError(f"folder {path.parent} does not exist; create it first")
    if not os.access(path.parent, os.W_OK):
        raise PermissionError(f"folder {path.parent} is not writable; choose another folder")


def check_distinct_files(outputs: Sequence[Path | None], inputs: Iterable[Path | None]) -> None:
    """Raise if an output is the same file as an input or another output; links are followed."""
    written = [path for path in outputs if path is not None]
    read = [path for path in inputs if path is not None]
    for position, output in enumerate(written):
        for other in read:
            if _is_same_file(output, other):
                raise InputError(
                    f"{output} is the same file as the input {other}, which would be lost; choose "
                    f"another name"
                )
        for other in written[:position]:
            if _is_same_file(output, other):
                raise InputError(
                    f"{output} and {other} are the same file but get different contents; choose "
                    f"another name for one of them"
                )


def _is_same_file(first: Path, second: Path) -> bool:
    try:
        return os.path.samefile(first, second)
    except OSError:  # one of them does not exist yet
        return os.path.realpath(first) == os.path.realpath(second)


def _rename_if_free(part: Path, path: Path) -> None:
    """Rename without replacing: a hard link fails if the name is taken, a rename does not."""
    try:
        os.link(part, path)
    except FileExistsError:
        raise OutputExistsError(path) from None
    except OSError:  # the file system has no hard links
        check_target(path, overwrite=False)
        os.replace(part, path)
    else:
        part.unlink()


def _hidden_sibling(path: Path) -> Path:
    """A new name in the same folder, so that the rename copies nothing."""
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
