"""Runs cells in worker processes and writes each outcome to the journal.

The workers are managed by hand. ``ProcessPoolExecutor`` and loky fail all running tasks when one
worker is killed, do not report which task killed it, and cannot stop a running task.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from multiprocessing.connection import Connection, wait
from typing import Any

from benchmarks.machine import machine, versions
from gpcanet.linalg.parallel import available_cores

from .cells import Cell
from .experiments import RowSpec
from .journal import Journal
from .loading import DatasetLoader
from .schedule import Progress, next_group, progress_of
from .work import Outcome, outcomes

#: Seconds between two progress reports.
PROGRESS_SECONDS = 2.0

#: Number of workers in a row that fail to start, after which the reproduction is given up.
MAX_FAILED_STARTS = 3

#: Message of a worker that is ready for cells.
READY = "ready"

#: Environment variables that set the number of threads of a library.
THREAD_VARIABLES = (
    "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS",
)  # fmt: skip

Listener = Callable[[Progress], None]


def reproduce(
    specs: list[RowSpec],
    journal: Journal,
    loader: DatasetLoader,
    *,
    jobs: int | None = None,
    listener: Listener | None = None,
) -> None:
    """Run all cells that the rows need and the journal does not have.

    Rows are completed in their order as long as there is work for all workers, because the
    selection of a row decides what it runs next. It may be interrupted at any time; the next call
    continues from the journal.
    """
    cores = available_cores()
    jobs = jobs or cores
    with _threads_per_worker(max(1, cores // jobs)):
        WorkerPool(specs, journal, loader, jobs, listener).run()


class WorkerPool:
    """Gives groups of cells to workers, and replaces workers that end."""

    def __init__(
        self,
        specs: list[RowSpec],
        journal: Journal,
        loader: DatasetLoader,
        jobs: int,
        listener: Listener | None = None,
    ) -> None:
        self.specs, self.journal, self.loader = specs, journal, loader
        self.jobs, self.listener = jobs, listener
        self.records = journal.contents.records
        host = machine()
        self.environment = {
            "versions": {name: v for name, v in versions().items() if v is not None},
            "machine": f"{host['cores']} cores of {host['cpu']}, {host['memory_gib']} GiB",
            "jobs": jobs,
        }
        self.workers: list[Worker] = []
        self.reported = -PROGRESS_SECONDS
        self.deaths: Counter[Cell] = Counter()  # by the cell that the worker was running
        self.failed_starts = 0  # in a row

    def run(self) -> None:
        try:
            self._report()
            while self._assign():
                busy: dict[Any, Worker] = {
                    worker.connection: worker for worker in self.workers if worker.cells
                }
                for connection in wait(list(busy), PROGRESS_SECONDS):
                    self._receive(busy[connection])
                self._report()
            self._report(final=True)
        finally:
            for worker in self.workers:
                worker.terminate()

    def _assign(self) -> bool:
        """Give cells to idle workers; returns whether any worker is busy."""
        for number in range(self.jobs):
            idle = next((worker for worker in self.workers if not worker.cells), None)
            if idle is None and len(self.workers) == self.jobs:
                break
            running = {cell for worker in self.workers for cell in worker.cells}
            cells = next_group(self.specs, self.records, running)
            if not cells:
                break
            if idle is None or not idle.start(cells):
                self._remove(idle)
                new = Worker(self.loader, number)
                self.workers.append(new)
                new.cells = cells  # if it ended already, the next wait reports it
                new.start(cells)
        return any(worker.cells for worker in self.workers)

    def _remove(self, worker: Worker | None) -> None:
        if worker is not None:
            worker.terminate()
            self.workers.remove(worker)

    def _receive(self, worker: Worker) -> None:
        try:
            message = worker.connection.recv()
        except (EOFError, OSError):
            self.handle_death(worker)
            return
        if message == READY:
            worker.is_ready, self.failed_starts = True, 0
            return
        cell, outcome = message
        worker.cells.remove(cell)
        worker.has_outcome, worker.last_message = True, time.monotonic()
        self._record(cell, outcome)

    def handle_death(self, worker: Worker) -> None:
        """Remove a worker that ended. A cell that has ended two workers is recorded as failed."""
        reason = worker.exit_reason()
        if worker.is_ready:
            current = worker.cells[0]
            self.deaths[current] += 1
            if self.deaths[current] > 1:
                seconds = round(time.monotonic() - worker.last_message, 3)
                failed = {"status": "failed", "reason": reason, "seconds": seconds}
                # Without an outcome yet, it was computing the embedding that all cells share.
                for cell in worker.cells[:1] if worker.has_outcome else worker.cells:
                    self._record(cell, failed)
                    failed = failed | {"seconds": 0.0}
        else:
            self.failed_starts += 1
            if self.failed_starts == MAX_FAILED_STARTS:
                raise ChildProcessError(f"worker processes cannot be started: {reason}")
        self._remove(worker)

    def _record(self, cell: Cell, outcome: Outcome) -> None:
        when = datetime.now(UTC).isoformat(timespec="seconds")
        self.journal.append(cell, {**outcome, **self.environment, "when": when})

    def _report(self, *, final: bool = False) -> None:
        """Report progress at intervals: counting thousands of cells takes time."""
        is_due = final or time.monotonic() - self.reported > PROGRESS_SECONDS
        if self.listener is not None and is_due:
            self.listener(progress_of(self.specs, self.records, self.jobs))
            self.reported = time.monotonic()


class Worker:
    """A process that runs cells. It ends when its parent ends."""

    def __init__(self, loader: DatasetLoader, number: int) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, other_end = context.Pipe()
        self.cells: list[Cell] = []
        self.is_ready = self.has_outcome = False
        self.last_message = time.monotonic()
        self._process = context.Process(
            target=_run_worker, args=(other_end, loader), name=f"gpcanet-{number}", daemon=True
        )
        self._process.start()
        other_end.close()  # so that reading from it fails when the process has ended

    def start(self, cells: list[Cell]) -> bool:
        """Send cells to the process; returns False if it has ended."""
        try:
            self.connection.send(cells)
        except OSError:
            return False
        self.cells, self.has_outcome, self.last_message = list(cells), False, time.monotonic()
        return True

    def exit_reason(self) -> str:
        self._process.join()
        code = self._process.exitcode
        if code is not None and code < 0:
            return f"the worker was ended by {signal.Signals(-code).name}"
        return f"the worker ended with exit code {code}"

    def terminate(self) -> None:
        self._process.terminate()
        self._process.join()
        self.connection.close()


def _run_worker(connection: Connection, loader: DatasetLoader) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent terminates its workers
    threading.Thread(target=_exit_with_parent, daemon=True).start()
    _limit_torch_threads()
    connection.send(READY)
    while True:
        try:
            cells = connection.recv()
        except EOFError:
            return
        for cell, outcome in outcomes(cells, loader):
            connection.send((cell, outcome))


def _exit_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)


def _limit_torch_threads() -> None:
    """torch does not follow the environment variables in every build."""
    try:
        import torch
    except ModuleNotFoundError:  # logistic heads do not need it
        return
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))


@contextmanager
def _threads_per_worker(count: int) -> Iterator[None]:
    """Set the number of threads of processes that are started inside the block."""
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
