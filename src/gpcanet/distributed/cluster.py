"""Clusters: worker processes on this machine, or a scheduler that is running already."""

from __future__ import annotations

import multiprocessing
import platform
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import dask
import joblib
import numba
import numpy as np
import pyarrow
import scipy
from distributed import Client, LocalCluster, Nanny, WorkerPlugin

from .. import __version__
from ..errors import InputError
from ..estimators.memory_plan import parse_bytes
from .store import Store

#: Seconds to wait for a scheduler, and for its first worker.
TIMEOUT = 30

#: Address of local clusters; other machines cannot connect to it.
LOCALHOST = "127.0.0.1"


class MemoryLimit(WorkerPlugin):  # type: ignore[misc]
    """Limits the private memory of workers, also of restarted ones; mapped files do not count.

    Dask's own limit counts mapped files and kills workers that use the file cache.
    """

    name = "gpcanet-memory-limit"

    def __init__(self, n_bytes: int) -> None:
        self.n_bytes = n_bytes

    def setup(self, worker: Any) -> None:
        with suppress(ImportError):  # not on Windows
            import resource

            resource.setrlimit(resource.RLIMIT_DATA, (self.n_bytes, self.n_bytes))


@contextmanager
def reaped_workers() -> Iterator[type[Nanny]]:
    """A Nanny class for a block; all processes of its nannies have ended when the block ends.

    On a busy machine, Dask gives up on workers that do not end in a few seconds.
    """
    pids: set[int | None] = set()

    class PatientNanny(Nanny):  # type: ignore[misc]
        async def instantiate(self) -> Any:
            try:
                return await super().instantiate()
            finally:
                pids.add(self.pid)

        async def kill(self, timeout: float = 5, reason: str = "nanny-kill") -> None:
            pids.add(self.pid)  # close() forgets the process, also after a start that failed
            with suppress(TimeoutError):  # it would keep the cluster from closing
                await super().kill(timeout, reason)

    try:
        yield PatientNanny
    finally:
        left = [child for child in multiprocessing.active_children() if child.pid in pids]
        for child in left:
            child.kill()
        while any(child.is_alive() for child in left):  # Dask joins them in a thread of its own
            time.sleep(0.01)


@contextmanager
def local_cluster(n_workers: int, *, memory_limit: int | str | None = None) -> Iterator[Client]:
    """Worker processes on this machine, which share its cores.

    Parameters
    ----------
    n_workers : int
    memory_limit : int or str, optional
        Largest private memory of a worker, without mapped files. Beyond it, a task fails with a
        MemoryError.

    Examples
    --------
    >>> with local_cluster(2, memory_limit="4GiB") as client:  # doctest: +SKIP
    ...     GPCA(16).fit("store", client=client, scratch="scratch")
    """
    threads = str(max(1, int(joblib.cpu_count()) // n_workers))
    environment = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), threads)
    environment["OPENBLAS_NUM_THREADS"] = threads
    # Tasks take minutes and hold the GIL in some of their steps.
    settings = {"distributed.comm.timeouts.connect": "60s", "distributed.worker.profile.enabled": 0}
    with (
        dask.config.set(settings),
        reaped_workers() as worker_class,
        LocalCluster(
            n_workers=n_workers,
            threads_per_worker=1,
            worker_class=worker_class,
            memory_limit=0,
            dashboard_address=f"{LOCALHOST}:0",  # any free port
            host=LOCALHOST,
            env=environment,
        ) as cluster,
        Client(cluster) as client,
    ):
        if memory_limit is not None:
            client.register_plugin(MemoryLimit(parse_bytes(memory_limit)))
        yield client


@contextmanager
def connect(address: str) -> Iterator[Client]:
    """A client of a running scheduler, or an error that says what to do.

    Examples
    --------
    >>> with connect("tcp://10.0.0.1:8786") as client:  # doctest: +SKIP
    ...     GPCA(16).fit("store", client=client, scratch="scratch")
    """
    try:
        client = Client(address, timeout=TIMEOUT)
    except (OSError, ValueError) as error:
        raise InputError(
            f"no Dask scheduler answers at {address} ({type(error).__name__}); start one with "
            f"`dask scheduler`, and check address and firewall"
        ) from None
    with client:
        yield client


def versions() -> dict[str, str]:
    """Versions that must be the same everywhere for results to be the same."""
    return {
        "gpcanet": __version__,
        "Python": ".".join(platform.python_version_tuple()[:2]),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "numba": numba.__version__,
        "pyarrow": pyarrow.__version__,
    }


def worker_report(marker: str, store: str, dask_worker: Any) -> dict[str, Any]:
    """What a worker sees of the folders, and its versions."""
    digest = None
    with suppress(Exception):
        digest = Store.open(store).digest
    return {
        "sees_scratch": Path(marker).is_file(),
        "store": digest,
        "versions": versions(),
        "threads": dask_worker.state.nthreads,
    }


def wait_for_workers(client: Client, n_workers: int) -> None:
    """Wait until the scheduler has at least ``n_workers`` workers.

    ``client.wait_for_workers`` of Dask replaces the list that a local cluster keeps of its workers.
    A late message that one of them left then raises a KeyError when the cluster is closed.
    """
    end = time.monotonic() + TIMEOUT
    while len(client.nthreads()) < n_workers:
        if time.monotonic() > end:
            raise TimeoutError(f"fewer than {n_workers} workers after {TIMEOUT} s")
        time.sleep(0.05)


def check_workers(client: Client, scratch: Path, store: Store) -> None:
    """Raise unless all workers see the folders, have the same versions and run one task each."""
    try:
        wait_for_workers(client, 1)
    except (TimeoutError, OSError):
        raise InputError(
            f"the scheduler {client.scheduler.address} has no workers; start one with "
            f"`dask worker {client.scheduler.address} --nthreads 1`"
        ) from None
    marker = scratch / f".{secrets.token_hex(8)}.part"
    marker.touch()
    try:
        reports = client.run(worker_report, str(marker), str(store.folder), on_error="return")
    finally:
        marker.unlink()
    own = versions()
    for worker, report in reports.items():
        if isinstance(report, Exception):
            raise InputError(
                f"worker {worker} cannot run gpcanet ({type(report).__name__}: {report}); install "
                f"gpcanet[distributed] {__version__} there"
            )
        if not report["sees_scratch"]:
            raise InputError(
                f"worker {worker} does not see the folder {scratch}; use one on storage that all "
                f"workers and the client share"
            )
        if report["store"] != store.digest:
            raise InputError(
                f"worker {worker} does not see the store {store.folder} as it is here; put it on "
                f"storage that all workers and the client share"
            )
        for name, version in own.items():
            if report["versions"][name] != version:
                raise InputError(
                    f"worker {worker} has {name} {report['versions'][name]}, but the client has "
                    f"{version}; install the same version"
                )
        if report["threads"] > 1:
            raise InputError(
                f"worker {worker} runs {report['threads']} tasks at a time, but its memory is "
                f"planned for one; start workers with --nthreads 1 and set OMP_NUM_THREADS "
                f"to their number of cores"
            )
