"""Runs cells in processes of their own and writes down each as it ends."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from multiprocessing.connection import Connection, wait
from typing import Any

from benchmarks.machine import machine, versions
from gpcanet.linalg.parallel import given_cores

from .cells import Cell
from .data import Source
from .entries import Entry
from .journal import Journal
from .selection import Records, choose, is_decided, wanted
from .work import Outcome, group_key, outcomes

#: Most cells handed to a worker at once: what it holds is lost if it dies.
MOST_CELLS = 120

#: Seconds between two reports of how far it is.
TELL_SECONDS = 2.0

#: Processes in a row that do not even start, after which it is no use to go on.
MOST_STILLBORN = 3

#: What a process says when it can run cells.
READY = "ready"

#: Variables that say how many threads a library starts.
THREAD_VARIABLES = (
    "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS",
)  # fmt: skip


@dataclass
class State:
    """How far a reproduction is."""

    done: int
    total: int
    failed: int
    seconds_left: float | None


Listener = Callable[[State], None]


def reproduce(
    entries: list[Entry],
    journal: Journal,
    source: Source,
    *,
    jobs: int | None = None,
    listener: Listener | None = None,
) -> None:
    """Run whatever some entries need and the journal does not have.

    Entries are finished in their order, as far as there is work for all processes: what is
    chosen in one decides what it runs next. May be stopped at any time, and goes on from there.
    """
    cores = given_cores()
    jobs = jobs or cores
    with _threads_each(max(1, cores // jobs)):
        _Pool(entries, journal, source, jobs, listener).run()


class _Pool:
    def __init__(
        self,
        entries: list[Entry],
        journal: Journal,
        source: Source,
        jobs: int,
        listener: Listener | None,
    ) -> None:
        self.entries, self.journal, self.source = entries, journal, source
        self.jobs, self.listener = jobs, listener
        self.records = journal.contents.records
        self.versions = {name: v for name, v in versions().items() if v is not None}
        of = machine()
        self.machine = f"{of['cores']} cores of {of['cpu']}, {of['memory_gib']} GiB"
        self.workers: list[_Worker] = []
        self.told = -TELL_SECONDS
        self.deaths: Counter[Cell] = Counter()  # of processes, by what they were at
        self.stillborn = 0  # processes that ended before they could run anything, in a row

    def run(self) -> None:
        try:
            self._tell()
            while self._hand_out():
                busy: dict[Any, _Worker] = {
                    worker.connection: worker for worker in self.workers if worker.cells
                }
                for connection in wait(list(busy), TELL_SECONDS):
                    self._hear(busy[connection])
                self._tell()
            self._tell(at_last=True)
        finally:
            for worker in self.workers:
                worker.end()

    def _hand_out(self) -> bool:
        """Give every idle worker something to do; whether anything is being done."""
        for number in range(self.jobs):
            idle = next((worker for worker in self.workers if not worker.cells), None)
            if idle is None and len(self.workers) == self.jobs:
                break
            running = {cell for worker in self.workers for cell in worker.cells}
            cells = next_group(self.entries, self.records, running)
            if not cells:
                break
            if idle is None or not idle.start(cells):
                self._drop(idle)
                fresh = _Worker(self.source, number)
                self.workers.append(fresh)
                fresh.cells = cells  # if it is gone already, that is heard
                fresh.start(cells)
        return any(worker.cells for worker in self.workers)

    def _drop(self, worker: _Worker | None) -> None:
        if worker is not None:
            worker.end()
            self.workers.remove(worker)

    def _hear(self, worker: _Worker) -> None:
        try:
            heard = worker.connection.recv()
        except (EOFError, OSError):
            self._bury(worker)
            return
        if heard == READY:
            worker.is_ready, self.stillborn = True, 0
            return
        cell, outcome = heard
        worker.cells.remove(cell)
        worker.has_told, worker.heard = True, time.monotonic()
        self._write(cell, outcome)

    def _bury(self, worker: _Worker) -> None:
        """A process is gone. Its cells are handed out again, but for one that killed it twice."""
        reason = worker.how_it_ended()
        if worker.is_ready:
            self.deaths[worker.cells[0]] += 1
            if self.deaths[worker.cells[0]] > 1:
                seconds = round(time.monotonic() - worker.heard, 3)
                failed = {"status": "failed", "reason": reason, "seconds": seconds}
                # Before its first outcome it was at what all its cells share.
                for cell in worker.cells[:1] if worker.has_told else worker.cells:
                    self._write(cell, failed)
                    failed = failed | {"seconds": 0.0}
        else:  # no cell is to blame
            self.stillborn += 1
            if self.stillborn == MOST_STILLBORN:
                raise ChildProcessError(f"no process that runs cells can be started: {reason}")
        self._drop(worker)

    def _write(self, cell: Cell, outcome: Outcome) -> None:
        when = datetime.now(UTC).isoformat(timespec="seconds")
        told = {"versions": self.versions, "machine": self.machine, "jobs": self.jobs}
        self.journal.append(cell, {**outcome, **told, "when": when})

    def _tell(self, *, at_last: bool = False) -> None:
        """Not after every cell: counting thousands takes longer than some of them."""
        is_time = at_last or time.monotonic() - self.told > TELL_SECONDS
        if self.listener is not None and is_time:
            self.listener(state_of(self.entries, self.records, self.jobs))
            self.told = time.monotonic()


class _Worker:
    """A process that runs cells and dies with its parent."""

    def __init__(self, source: Source, number: int) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.cells: list[Cell] = []
        self.is_ready = self.has_told = False
        self.heard = time.monotonic()
        self._process = context.Process(
            target=_work, args=(theirs, source), name=f"gpcanet-{number}", daemon=True
        )
        self._process.start()
        theirs.close()  # so that its end is heard here when the process is gone

    def start(self, cells: list[Cell]) -> bool:
        """Hand it some cells; False if it is gone."""
        try:
            self.connection.send(cells)
        except OSError:
            return False
        self.cells, self.has_told, self.heard = list(cells), False, time.monotonic()
        return True

    def how_it_ended(self) -> str:
        self._process.join()
        code = self._process.exitcode
        if code is not None and code < 0:
            return f"the process was ended by {signal.Signals(-code).name}"
        return f"the process ended with exit code {code}"

    def end(self) -> None:
        self._process.terminate()
        self._process.join()
        self.connection.close()


def _work(connection: Connection, source: Source) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends us
    threading.Thread(target=_die_with_parent, daemon=True).start()
    _limit_threads()
    connection.send(READY)
    while True:
        try:
            cells = connection.recv()
        except EOFError:
            return
        for cell, outcome in outcomes(cells, source):
            connection.send((cell, outcome))


def _die_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)


def _limit_threads() -> None:
    """What the environment says to libraries when they load, torch wants to be told."""
    try:
        import torch
    except ModuleNotFoundError:  # without networks there are still logistic heads
        return
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))


@contextmanager
def _threads_each(count: int) -> Iterator[None]:
    """Processes started inside the block take so many threads each."""
    before = {name: os.environ.get(name) for name in THREAD_VARIABLES}
    os.environ.update(dict.fromkeys(THREAD_VARIABLES, str(count)))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def next_group(entries: Iterable[Entry], records: Records, running: set[Cell]) -> list[Cell]:
    """The next cells for one worker: of the first entry that has any, those that share work."""
    for entry in entries:
        cells = [cell for cell in dict.fromkeys(wanted(entry, records)) if cell not in running]
        if cells:
            key = group_key(cells[0])
            return [cell for cell in cells if group_key(cell) == key][:MOST_CELLS]
    return []


def state_of(entries: Iterable[Entry], records: Records, jobs: int) -> State:
    """How many cells are done, and how long the rest will take by those like them."""
    cells: dict[Cell, None] = {}
    # Which they are is not decided: as many of the first candidate.
    unknown: dict[tuple[Any, ...], Cell] = {}
    for entry in entries:
        cells.update(dict.fromkeys(entry.cells_to_choose()))
        chosen = choose(entry, records)
        if chosen is not None:
            cells.update(dict.fromkeys(entry.cells_to_report(chosen)))
        elif not is_decided(entry, records):
            for run in entry.runs:
                if run not in entry.select:
                    unknown[entry.candidates, run] = entry.candidates[0].cell(*run)
    done = [cell for cell in cells if cell in records]
    left = [cell for cell in cells if cell not in records] + list(unknown.values())
    failed = sum(records[cell]["status"] == "failed" for cell in done)
    expected = _expected(done, left, records)
    return State(
        len(done), len(done) + len(left), failed, None if expected is None else expected / jobs
    )


def _expected(done: list[Cell], left: list[Cell], records: Records) -> float | None:
    """Seconds of processor time, from what cells of the same kind took."""
    taken: dict[Any, list[float]] = {}
    for cell in done:
        if records[cell]["status"] == "done":
            for kind in _kinds(cell):
                taken.setdefault(kind, []).append(records[cell]["seconds"])
    if not taken:
        return None
    means = {kind: sum(times) / len(times) for kind, times in taken.items()}
    return sum(next(means[kind] for kind in _kinds(cell) if kind in means) for cell in left)


def _kinds(cell: Cell) -> Iterator[Any]:
    """What a cell is like, the closest likeness first."""
    setup = cell.setup
    yield setup.method, setup.dataset, setup.get("layers"), setup.get("init")
    yield setup.method, setup.dataset, setup.get("layers")
    yield setup.method, setup.dataset
    yield setup.method
    yield "any"
