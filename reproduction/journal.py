"""The journal: a line of JSON for every finished cell, only ever added to.

A line is written by one call and synced to the disk before the next cell counts as done. It ends
with a checksum of itself, so that whatever a kill or a power loss leaves behind is known for what
it is: such lines are skipped and told of, never repaired. Journals of several machines are merged
by reading them together.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from filelock import FileLock, Timeout

from gpcanet.errors import InputError

from .cells import Cell, loading

Record = dict[str, Any]


@dataclass
class Contents:
    """What was read from journals."""

    records: dict[Cell, Record] = field(default_factory=dict)
    damaged: int = 0  # lines that are no record of ours, or not a whole one
    repeated: int = 0

    def add(self, cell: Cell, record: Record) -> None:
        """A success replaces a failure; of two successes the first stays."""
        known = self.records.get(cell)
        if known is not None:
            self.repeated += 1
            if known["status"] == "done" or record["status"] != "done":
                return
        self.records[cell] = record

    def notes(self) -> list[str]:
        told = []
        if self.damaged:
            told.append(f"{self.damaged} damaged or foreign lines of the journal are left out")
        if self.repeated:
            told.append(f"{self.repeated} lines of the journal repeat a cell")
        return told


def read_journals(paths: Iterable[str | os.PathLike[str]]) -> Contents:
    """The records of some journals together."""
    contents = Contents()
    for path in paths:
        with open(path, "rb") as file:
            for line in file:
                if not line.strip():
                    continue
                parsed = _parsed(line)
                if parsed is None:
                    contents.damaged += 1
                else:
                    contents.add(*parsed)
    return contents


def to_line(cell: Cell, outcome: Record) -> bytes:
    body = json.dumps({"cell": cell.to_json(), **outcome}, sort_keys=True, allow_nan=False)
    return f"{body[:-1]}, {_check(body)}}}\n".encode()


def _check(body: str) -> str:
    return f'"zcrc": "{zlib.crc32(body.encode()):08x}"'


def _parsed(line: bytes) -> tuple[Cell, Record] | None:
    """The cell and the record of a line, if it is whole and ours."""
    try:
        body, _, check = line.decode().rstrip("\r\n").rpartition(", ")
        if check != f"{_check(body + '}')}}}":  # a line that lacks but its end has been sealed
            return None
        record = json.loads(body + "}")
        if record["status"] not in ("done", "failed"):
            return None
        return Cell.from_json(record.pop("cell")), record
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


class Journal:
    """A journal to add to. One process at a time may hold it open.

    Examples
    --------
    >>> import tempfile
    >>> from reproduction.cells import Setup
    >>> folder = tempfile.TemporaryDirectory()
    >>> cell = Setup.of("gcn", "cora", layers=2).cell("public", 0)
    >>> with Journal(Path(folder.name) / "runs.jsonl") as journal:
    ...     journal.append(cell, {"status": "done"})
    >>> read_journals([journal.path]).records[cell]
    {'status': 'done'}
    >>> folder.cleanup()
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.contents = Contents()
        self._lock = FileLock(f"{self.path}.lock")

    def __enter__(self) -> Self:
        if not self.path.parent.is_dir():
            raise FileNotFoundError(f"folder {self.path.parent} does not exist; make it first")
        try:
            self._lock.acquire(timeout=0)
        except Timeout:
            raise InputError(
                f"{self.path} is being written to by another process; wait for it, or use a "
                f"journal of its own and merge them afterwards"
            ) from None
        try:
            self._open()
        except BaseException:
            self._lock.release()
            raise
        return self

    def _open(self) -> None:
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0)
        self._file = os.open(self.path, flags, 0o644)
        self.contents = read_journals([self.path])
        if os.fstat(self._file).st_size == 0:
            _sync_folder(self.path.parent)
            return
        if not self.contents.records and not _may_be_ours(self.path):
            os.close(self._file)
            raise InputError(f"{self.path} is no journal of the reproduction; name another file")
        os.lseek(self._file, -1, os.SEEK_END)
        if os.read(self._file, 1) != b"\n":  # a line was cut short: the next stands alone
            os.write(self._file, b"\n")

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.close(self._file)
        self._lock.release()

    def append(self, cell: Cell, outcome: Record) -> None:
        """Add a record; it is on the disk when this returns."""
        line = to_line(cell, outcome)
        try:
            whole = os.write(self._file, line) == len(line)
            os.fsync(self._file)
        except OSError as error:
            raise OSError(f"{self.path} cannot be added to: {error.strerror}") from error
        if not whole:
            os.write(self._file, b"\n")  # whoever goes on begins a line of their own
            raise OSError(f"{self.path} cannot be added to: is the disk full?")
        self.contents.add(cell, outcome)

    def forget_failures(self) -> None:
        """Let cells that have failed count as not run; their lines stay.

        Not those of loading data, which is tried anew anyhow.
        """
        records = self.contents.records
        for cell in list(records):
            if records[cell]["status"] == "failed" and cell != loading(cell.setup.dataset):
                del records[cell]

    def merge(self, others: Iterable[str | os.PathLike[str]]) -> int:
        """Take over what other journals have and this one has not; how many records."""
        taken = 0
        for cell, record in read_journals(others).records.items():
            known = self.contents.records.get(cell)
            if known is None or (known["status"] != "done" and record["status"] == "done"):
                self.append(cell, record)
                taken += 1
        return taken


def _may_be_ours(path: Path) -> bool:
    """Whether a file without a whole record is what a kill or a power loss leaves of the first."""
    lines = [line for line in path.read_bytes().splitlines() if line.strip(b"\0 ")]
    if len(lines) > 1:
        return False
    return all(line[:8] in (b'{"accura'[: len(line)], b'{"cell":'[: len(line)]) for line in lines)


def _sync_folder(folder: Path) -> None:
    """A new file is safe only when its folder is on the disk, too."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
