"""The journal: an append-only file with one line of JSON per finished cell.

A line is written by one call and synced to disk before the cell counts as done. It ends with a
checksum, so that incomplete lines after a kill or a power loss are recognised: they are skipped
and counted, never repaired. Journals of several machines are merged by reading all of them.
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

from .cells import Cell, loading_cell

Record = dict[str, Any]


@dataclass
class Contents:
    """Records read from journals, and the numbers of invalid and of repeated lines."""

    records: dict[Cell, Record] = field(default_factory=dict)
    damaged: int = 0
    repeated: int = 0

    def add(self, cell: Cell, record: Record) -> None:
        """Add a record. A success replaces a failure; otherwise the first record is kept."""
        known = self.records.get(cell)
        if known is not None:
            self.repeated += 1
            if known["status"] == "done" or record["status"] != "done":
                return
        self.records[cell] = record

    def notes(self) -> list[str]:
        """Sentences about lines that were skipped."""
        notes = []
        if self.damaged:
            notes.append(f"{self.damaged} lines of the journal are not valid records; skipped")
        if self.repeated:
            notes.append(f"{self.repeated} lines of the journal repeat a cell")
        return notes


def read_journals(paths: Iterable[str | os.PathLike[str]]) -> Contents:
    """Read the records of several journals."""
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
    """The cell and the record of a line; None if the line is not a complete record."""
    try:
        body, _, check = line.decode().rstrip("\r\n").rpartition(", ")
        if check != f"{_check(body + '}')}}}":
            return None
        record = json.loads(body + "}")
        if record["status"] not in ("done", "failed"):
            return None
        return Cell.from_json(record.pop("cell")), record
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


class Journal:
    """A journal opened for appending, by one process at a time.

    Examples
    --------
    >>> import tempfile
    >>> from reproduction.cells import Setup, Split
    >>> folder = tempfile.TemporaryDirectory()
    >>> cell = Setup.of("gcn", "cora", layers=2).cell(Split(), 0)
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
            raise FileNotFoundError(f"folder {self.path.parent} does not exist; create it first")
        try:
            self._lock.acquire(timeout=0)
        except Timeout:
            raise InputError(
                f"{self.path} is in use by another process; wait until it ends, or use another "
                f"journal and merge the two afterwards"
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
        if not self.contents.records and not _is_truncated_journal(self.path):
            os.close(self._file)
            raise InputError(
                f"{self.path} is not a journal of the reproduction; choose another file"
            )
        os.lseek(self._file, -1, os.SEEK_END)
        if os.read(self._file, 1) != b"\n":  # an incomplete line: start a new one
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
        """Append a record. It is on disk when this returns."""
        line = to_line(cell, outcome)
        try:
            complete = os.write(self._file, line) == len(line)
            os.fsync(self._file)
        except OSError as error:
            raise OSError(f"{self.path} cannot be written: {error.strerror}") from error
        if not complete:
            os.write(self._file, b"\n")  # the next record starts on its own line
            raise OSError(
                f"{self.path} cannot be written completely; check whether the disk is full"
            )
        self.contents.add(cell, outcome)

    def forget_failures(self) -> None:
        """Treat failed cells as not run; their lines are kept.

        Cells that record the loading of datasets are kept: loading is repeated in any case.
        """
        records = self.contents.records
        for cell in list(records):
            if records[cell]["status"] == "failed" and cell != loading_cell(cell.setup.dataset):
                del records[cell]

    def merge(self, others: Iterable[str | os.PathLike[str]]) -> int:
        """Append records of other journals that are missing here; returns their number."""
        n_added = 0
        for cell, record in read_journals(others).records.items():
            known = self.contents.records.get(cell)
            if known is None or (known["status"] != "done" and record["status"] == "done"):
                self.append(cell, record)
                n_added += 1
        return n_added


def _is_truncated_journal(path: Path) -> bool:
    """Whether a file without a complete record starts like the first line of a journal."""
    lines = [line for line in path.read_bytes().splitlines() if line.strip(b"\0 ")]
    if len(lines) > 1:
        return False
    return all(line[:8] in (b'{"accura'[: len(line)], b'{"cell":'[: len(line)]) for line in lines)


def _sync_folder(folder: Path) -> None:
    """Sync the folder too: without it, a new file may be lost in a power failure."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
