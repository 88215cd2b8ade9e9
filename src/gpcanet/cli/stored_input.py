"""The store of a dataset or of files in a scratch folder, and the record of its input.

The record is a file beside the store. It has all that determines the store: the options of the
input, and path, size and modification time of every file. A store is used again only if the input
is still the same.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock, Timeout

from .. import __version__
from ..errors import InputError
from ..files.paths import PARQUET_SUFFIXES, check_file, files_in, is_several_files
from ..utils.array_files import write_json
from .console import Console
from .option_groups import option_names
from .options import Input
from .standard_input import STANDARD_INPUT, NamedPath

if TYPE_CHECKING:
    from ..distributed import Store

#: Names in a scratch folder.
STORE, RECORD, LOCK = "store", "store.json", "store.lock"

#: Fields of Input that do not change the data.
PLACES = ("data_dir", "offline")


def stored_input(console: Console, data: Input, scratch: Path, client: Any) -> Store:
    """The store of the input in a scratch folder; it is built if it does not exist.

    Raises
    ------
    InputError
        If the store in the folder has another input, or no record of its input.
    """
    from ..distributed import Store

    folder = scratch / STORE
    with _locked(scratch):
        record = record_of(data)
        if folder.exists():
            _check_record(folder, scratch / RECORD, record)
            return Store.open(folder)
        # Before the store: files that change while it is built differ from the record.
        write_json(scratch / RECORD, record)
        return _build(console, data, folder, client)


def is_read_by_workers(data: Input) -> bool:
    """Whether the input is Parquet files or folders of them; other data is read in memory."""
    given = [path for path in data.files.values() if path is not None]
    in_memory = (data.impute, data.one_hot, data.layer, data.obsm, data.obsp)
    if data.dataset is not None or data.neighbors is not None or any(in_memory):
        return False
    if any(isinstance(path, NamedPath) for path in given):  # on this machine only
        return False
    return bool(given) and all(
        path.is_dir() or (path.is_file() and path.suffix in PARQUET_SUFFIXES) for path in given
    )


def write_input(console: Console, data: Input, folder: Path) -> Store:
    """Read the input in memory and write its store."""
    from ..distributed import write_dataset

    dataset = data.load(console)
    with console.phase("storing"):
        return write_dataset(dataset, folder)


def _build(console: Console, data: Input, folder: Path, client: Any) -> Store:
    from ..distributed import build_store

    if not is_read_by_workers(data):
        return write_input(console, data, folder)
    if data.features is None or data.edges is None:
        raise InputError("give the name of a dataset, or --features and --edges")
    with console.phase("storing"):
        return build_store(
            folder, data.features, data.edges, data.labels, client=client,
            id_column=data.id_column, source=data.source, target=data.target,
            weight=data.weight, label_column=data.label_column,
            split_column=data.split_column, ignore=data.ignore or (),
            drop_unknown=data.drop_unknown,
        )  # fmt: skip


@contextmanager
def _locked(scratch: Path) -> Iterator[None]:
    """Only one command at a time builds a store in the folder and writes its record."""
    lock = FileLock(scratch / LOCK)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise InputError(
            f"another command builds the store in {scratch}; wait for it or choose another "
            f"scratch folder"
        ) from None
    try:
        yield
    finally:
        lock.release()


# -- record -------------------------------------------------------------------------------


def record_of(data: Input) -> dict[str, Any]:
    """Everything that the store of the input depends on, as JSON values."""
    names = {name: option for name, option in option_names(Input).items() if name not in PLACES}
    states: dict[str, Any] = {}
    for path in data.files.values():
        if isinstance(path, NamedPath):
            states[str(path)] = hashlib.sha256(path.read_bytes()).hexdigest()
        elif path is not None:
            states |= {str(file.absolute()): _state(file) for file in _files_of(path, data)}
    return {
        "gpcanet": __version__,
        "dataset": data.dataset,
        "options": {option: _as_json(getattr(data, name)) for name, option in names.items()},
        "files": states,
    }


def _files_of(path: Path, data: Input) -> list[Path]:
    if is_read_by_workers(data):
        from ..distributed.build import parquet_parts

        return parquet_parts(path)
    if is_several_files(path):
        return files_in(path)
    check_file(path)
    return [path]


def _state(file: Path) -> list[int]:
    """Size and modification time, which change with the content of a file."""
    found = file.stat()
    return [found.st_size, found.st_mtime_ns]


def _as_json(value: Any) -> Any:
    if isinstance(value, Path):
        return str(value if value == STANDARD_INPUT else value.absolute())
    return None if value == [] else value


def _check_record(folder: Path, path: Path, record: dict[str, Any]) -> None:
    """Raise unless the store was built from this input."""
    try:
        difference = _difference(folder, json.loads(path.read_bytes()), record)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        difference = f"{folder} has no valid record of its input ({path})"
    if difference is not None:
        raise InputError(
            f"{difference}; choose another scratch folder, or embed {folder} as it is by --store"
        )


def _difference(folder: Path, earlier: dict[str, Any], now: dict[str, Any]) -> str | None:
    """The first difference between two records as a clause."""
    if earlier["gpcanet"] != now["gpcanet"]:
        return f"{folder} was built by another version of GPCANet ({earlier['gpcanet']})"
    if earlier["dataset"] != now["dataset"]:
        name = earlier["dataset"]
        return f"{folder} was built from {'files' if name is None else f'the dataset {name}'}"
    if (option := _first_difference(earlier["options"], now["options"])) is not None:
        return f"{folder} was built with a different {option}"
    if (file := _first_difference(earlier["files"], now["files"])) is None:
        return None
    if file not in now["files"]:
        return f"{file} was removed after {folder} was built"
    if file not in earlier["files"]:
        return f"{file} was added after {folder} was built"
    return f"{file} has changed since {folder} was built"


def _first_difference(earlier: dict[str, Any], now: dict[str, Any]) -> str | None:
    names = [*now, *(name for name in earlier if name not in now)]
    return next((name for name in names if earlier.get(name) != now.get(name)), None)
