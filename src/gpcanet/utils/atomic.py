"""Files and folders that appear whole or not at all.

What is written goes to a hidden name beside the target and takes its place by one rename, so
that an error, a full disk, an interrupt or a kill leaves the old file, or none, and never half
of one.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


@contextmanager
def whole_file(path: str | os.PathLike[str], *, overwrite: bool = False) -> Iterator[IO[bytes]]:
    """A file to write to; it gets its name when the block ends without an error.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = Path(folder.name) / "answer.txt"
    >>> with whole_file(path) as file:
    ...     _ = file.write(b"42")
    >>> path.read_text()
    '42'
    >>> folder.cleanup()
    """
    path = check_target(path, overwrite=overwrite)
    part = _hidden_beside(path)
    try:
        with part.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        check_target(path, overwrite=overwrite)
        if overwrite:
            os.replace(part, path)
        else:
            _give_free_name(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


@contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """A folder to fill; it gets its name when the block ends without an error.

    If another process has made the folder meanwhile, that one stays.
    """
    part = _hidden_beside(path)
    part.mkdir(parents=True)
    try:
        yield part
        try:
            os.rename(part, path)
        except OSError:
            if not path.is_dir():
                raise
    finally:
        shutil.rmtree(part, ignore_errors=True)


def check_target(path: str | os.PathLike[str], *, overwrite: bool) -> Path:
    """Raise now rather than after the work if a file cannot be written there."""
    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; give the name of a file")
    if path.exists() and not overwrite:
        raise _exists(path)
    if not path.parent.is_dir():
        raise FileNotFoundError(f"folder {path.parent} does not exist; make it first")
    if not os.access(path.parent, os.W_OK):
        raise PermissionError(f"folder {path.parent} may not be written to; choose another")
    return path


def _exists(path: Path) -> FileExistsError:
    return FileExistsError(f"{path} exists; choose another name or allow it to be replaced")


def _give_free_name(part: Path, path: Path) -> None:
    """Rename, unless a file has that name by now: a rename would replace it, a link does not."""
    try:
        os.link(part, path)
    except FileExistsError:
        raise _exists(path) from None
    except OSError:  # the file system has no links
        check_target(path, overwrite=False)
        os.replace(part, path)
    else:
        part.unlink()


def _hidden_beside(path: Path) -> Path:
    """A name of its own in the same folder, so that a rename moves no bytes."""
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
