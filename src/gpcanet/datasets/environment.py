"""Environment variables of the datasets: cache folder, data folder, offline mode."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock
from platformdirs import user_cache_path

from ..errors import DataUnavailableError

#: Folder with dataset files of the user, used after the cache and before the network.
DATA_DIR_VARIABLE = "GPCANET_DATA_DIR"

#: Folder of downloads; by default the cache folder of the user.
CACHE_DIR_VARIABLE = "GPCANET_CACHE_DIR"

#: If set to 1, the network is not used.
OFFLINE_VARIABLE = "GPCANET_OFFLINE"


def cache_dir() -> Path:
    """The folder of downloads; it is created when first needed."""
    given = os.environ.get(CACHE_DIR_VARIABLE)
    return Path(given).expanduser() if given else user_cache_path("gpcanet", appauthor=False)


@contextmanager
def locked_folder(folder: Path, lock_file: Path) -> Iterator[None]:
    """Create a folder of the cache if necessary, and lock it against other processes.

    A full disk raises its own OSError. If the folder is not writable for another reason, the
    dataset counts as unavailable.
    """
    lock = FileLock(lock_file)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        lock.acquire()
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise DataUnavailableError(
            f"folder {folder} is not writable ({error.strerror or error}); set "
            f"{CACHE_DIR_VARIABLE} to another folder"
        ) from None
    try:
        yield
    finally:
        lock.release()


def user_data_dir(given: str | os.PathLike[str] | None = None) -> Path | None:
    """The data folder of the user, given here or by the environment; None if there is none."""
    named = given or os.environ.get(DATA_DIR_VARIABLE)
    if not named:
        return None
    folder = Path(named).expanduser()
    if not folder.is_dir():
        origin = "data_dir" if given else DATA_DIR_VARIABLE
        raise NotADirectoryError(
            f"{origin}={folder} is not a folder; create it or correct the name"
        )
    return folder


def is_offline(given: bool | None = None) -> bool:
    """Whether the network must not be used, by argument or by the environment."""
    if given is not None:
        return given
    return os.environ.get(OFFLINE_VARIABLE, "").strip().lower() not in ("", "0", "false", "no")
