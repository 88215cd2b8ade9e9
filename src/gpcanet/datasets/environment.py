"""Where datasets are kept and looked for: three environment variables."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock
from platformdirs import user_cache_path

from ..errors import DataUnavailableError

#: A folder of the user's with dataset files, tried after the cache and before the network.
DATA_DIR_VARIABLE = "GPCANET_DATA_DIR"

#: Where downloads are kept; by default the user's cache folder.
CACHE_DIR_VARIABLE = "GPCANET_CACHE_DIR"

#: Set to 1, nothing is fetched from the network.
OFFLINE_VARIABLE = "GPCANET_OFFLINE"


def cache_dir() -> Path:
    """The folder that downloads are kept in; made when first written to."""
    given = os.environ.get(CACHE_DIR_VARIABLE)
    return Path(given).expanduser() if given else user_cache_path("gpcanet", appauthor=False)


@contextmanager
def locked(folder: Path, lock_file: Path) -> Iterator[None]:
    """A folder of the cache, made if it is not there, to write to while others wait.

    A disk that is full says so itself; any other reason not to write there is one to look
    elsewhere for the data.
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
            f"folder {folder} cannot be written to ({error.strerror or error}); name another by "
            f"{CACHE_DIR_VARIABLE}"
        ) from None
    try:
        yield
    finally:
        lock.release()


def user_data_dir(given: str | os.PathLike[str] | None = None) -> Path | None:
    """The user's own folder of datasets, if one is named here or by the environment."""
    named = given or os.environ.get(DATA_DIR_VARIABLE)
    if not named:
        return None
    folder = Path(named).expanduser()
    if not folder.is_dir():
        origin = "data_dir" if given else DATA_DIR_VARIABLE
        raise NotADirectoryError(f"{origin} names {folder}, which is no folder; make or mend it")
    return folder


def is_offline(given: bool | None = None) -> bool:
    """Whether the network is off limits, by argument or by the environment."""
    if given is not None:
        return given
    return os.environ.get(OFFLINE_VARIABLE, "").strip().lower() not in ("", "0", "false", "no")
