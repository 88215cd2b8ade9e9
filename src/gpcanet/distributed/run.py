"""A run: its scratch folder, its lock, and the tasks that are not finished yet."""

from __future__ import annotations

import json
import os
import shutil
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from distributed import Client, as_completed
from distributed.scheduler import KilledWorker
from filelock import FileLock, Timeout
from sklearn.exceptions import ConvergenceWarning

from ..errors import DataError, DataWarning, InputError
from ..utils.array_files import digest, write_json
from ..utils.progress import report_progress
from . import tasks
from .store import Store

#: File with the parameters, the store and the plan of the run in a scratch folder.
RUN_FILE = "run.json"

#: File that a running process locks in its scratch folder.
LOCK = "lock"

#: Number of shards of a store that one task verifies.
SHARDS_PER_TASK = 4

#: Seconds in which a folder has to be removed.
REMOVAL_TIMEOUT = 5


class WorkerError(InputError):
    """A worker died or ran out of memory; the run can be resumed with other workers."""


class Run:
    """The state of a run in a scratch folder.

    Parameters
    ----------
    client : Client
    scratch : path-like
        Folder that the client and all workers see. Only one run uses it at a time.
    identity : mapping
        Everything that the files of the run depend on. A run is resumed only if it is equal.
    resume : bool
        Whether to use the finished tasks of an earlier run.
    replace : bool
        Whether a run with another identity is removed; otherwise it is an error.

    Attributes
    ----------
    folder : Path
        Folder of the files of this run, inside the scratch folder.
    """

    def __init__(
        self,
        client: Client,
        scratch: str | os.PathLike[str],
        identity: Mapping[str, Any],
        *,
        resume: bool,
        replace: bool = False,
    ) -> None:
        self.client, self.scratch = client, Path(scratch).absolute()
        self.resume, self.replace = resume, replace
        self.identity = json.loads(json.dumps(identity))
        self.name = digest(self.identity)[:12]  # equal for equal runs
        self.folder = self.scratch / f"run-{self.name}"
        self._lock = FileLock(self.scratch / LOCK)

    def __enter__(self) -> Self:
        if not self.scratch.parent.is_dir():
            raise FileNotFoundError(f"folder {self.scratch.parent} does not exist; create it first")
        self.scratch.mkdir(exist_ok=True)
        try:
            self._lock.acquire(timeout=0)
        except Timeout:
            raise InputError(
                f"another run uses the scratch folder {self.scratch}; wait for it or use another"
            ) from None
        try:
            self._begin()
        except BaseException:
            self._lock.release()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def _begin(self) -> None:
        path = self.scratch / RUN_FILE
        if path.exists():
            try:
                earlier = json.loads(path.read_bytes())
            except ValueError:
                earlier = {}
            if not self.resume:
                raise InputError(
                    f"the scratch folder {self.scratch} contains an unfinished run; pass "
                    f"resume=True to finish it, or choose another folder"
                )
            if not isinstance(earlier, dict):
                earlier = {}
            names = [n for n in self.identity if earlier.get(n) != self.identity[n]]
            if names and self.replace:
                for folder in self.scratch.glob("run-*"):
                    remove_folder(folder)
            elif names:
                raise InputError(
                    f"the run in {self.scratch} differs in {', '.join(names)} and cannot be "
                    f"resumed; use its settings, or choose another folder"
                )
        else:
            remove_folder(self.folder)
        self.folder.mkdir(exist_ok=True)
        for part in self.folder.glob(".*.part"):
            part.unlink(missing_ok=True)
        write_json(path, self.identity)

    def finish(self) -> None:
        """Remove the files of the run."""
        remove_folder(self.folder)
        (self.scratch / RUN_FILE).unlink()

    # -- tasks ----------------------------------------------------------------------------

    def verify(self, store: Store) -> None:
        """Verify the checksums of the store, and of the solutions of an earlier run."""
        shards = list(store.shards())
        starts = range(0, len(shards), SHARDS_PER_TASK)
        groups = [(store.folder, shards[i : i + SHARDS_PER_TASK]) for i in starts]
        compute(self.client, "verifying", tasks.verify_store, groups)
        self.verify_earlier()

    def verify_earlier(self) -> None:
        """Verify the files of finished tasks; a task with a damaged file runs again."""
        names = [path.name.partition(".")[0] for path in self.folder.glob("*.done.json")]
        written = [
            (name, entry)
            for name in names
            for entry in tasks.entries_of(tasks.read_record(self.folder, name))
        ]
        found = compute(
            self.client, "verifying earlier tasks", tasks.damage_of,
            [(self.folder, entry) for _, entry in written],
        )  # fmt: skip
        for (name, _), problem in zip(written, found, strict=True):
            if problem is not None:
                warnings.warn(f"{problem}; it is computed again", DataWarning, stacklevel=3)
                tasks.record_path(self.folder, name).unlink(missing_ok=True)

    def complete(
        self,
        what: str,
        function: Callable[..., None],
        arguments: Mapping[str, tuple[Any, ...]],
        amounts: Sequence[int] | None = None,
    ) -> list[dict[str, Any]]:
        """Run the tasks that have no record yet, and return the records of all.

        ``arguments`` has the arguments of the function for each record; ``amounts`` are the
        sizes of the tasks for the progress report.
        """
        sizes = dict(zip(arguments, amounts or [1] * len(arguments), strict=True))
        pending = [name for name in arguments if tasks.read_record(self.folder, name) is None]
        done = sum(size for name, size in sizes.items() if name not in pending)
        compute(
            self.client, what, function, [arguments[name] for name in pending],
            amounts=[sizes[name] for name in pending], done=done, total=sum(sizes.values()),
        )  # fmt: skip
        records = [tasks.read_record(self.folder, name) for name in arguments]
        return [record for record in records if record is not None]


def compute(
    client: Client,
    what: str,
    function: Callable[..., Any],
    arguments: list[tuple[Any, ...]],
    *,
    amounts: list[int] | None = None,
    done: int = 0,
    total: int | None = None,
) -> list[Any]:
    """Results of a function on workers, in the order of its arguments; the first error is raised.

    ``amounts`` are the sizes of the tasks for the progress report.
    """
    if not arguments:
        return []
    amounts = amounts or [1] * len(arguments)
    total = total or len(arguments)
    futures = [
        client.submit(function, *args, pure=False, priority=-i) for i, args in enumerate(arguments)
    ]
    numbers = {future.key: i for i, future in enumerate(futures)}
    advice = (
        "give workers more, or make tasks smaller (a lower memory limit, smaller Parquet files)"
    )
    report_progress(what, done, total)
    results: list[Any] = [None] * len(futures)
    try:
        for future in as_completed(futures):
            number = numbers[future.key]
            results[number] = future.result()
            done += amounts[number]
            report_progress(what, done, total)
    except KilledWorker as error:
        raise WorkerError(
            f"{what}: the worker {error.last_worker.address} died, like others before it on the "
            f"same task, probably for lack of memory; {advice}"
        ) from None
    except MemoryError:
        raise WorkerError(f"{what}: a worker has not enough memory; {advice}") from None
    finally:
        client.cancel(futures)
    return results


def issue_warnings(records: list[dict[str, Any]]) -> None:
    """Issue the warnings of the workers, each once."""
    for kind, message in {tuple(found) for record in records for found in record["warnings"]}:
        category = ConvergenceWarning if kind == "ConvergenceWarning" else UserWarning
        warnings.warn(message, category, stacklevel=4)


def remove_folder(folder: Path) -> None:
    """Remove a folder. Tasks of a stopped run that still write to it fail."""
    deadline = time.monotonic() + REMOVAL_TIMEOUT
    while folder.exists():
        try:
            shutil.rmtree(folder)
        except OSError:  # a task added or removed a file meanwhile
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def remove_scratch(scratch: Path) -> None:
    """Remove a scratch folder whose lock this process holds."""
    (scratch / RUN_FILE).unlink(missing_ok=True)  # first: after a kill, the rest is not resumed
    for path in scratch.iterdir():
        if path.is_dir():
            remove_folder(path)
        elif path.name != LOCK:
            path.unlink(missing_ok=True)
    with suppress(OSError):  # another run may create the lock again
        (scratch / LOCK).unlink()
        scratch.rmdir()


def move_folder(part: Path, output: Path) -> None:
    """Give a complete folder its name."""
    try:
        os.rename(part, output)
    except OSError:
        if output.exists():
            raise DataError(f"{output} was created meanwhile; the result is in {part}") from None
        shutil.move(part, output)
