"""A graph larger than the memory of a worker: generated, stored, embedded by two workers."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gpcanet.utils.atomic import atomic_folder

from . import child
from .config import Config
from .timing import Outcome, time_interleaved

WORKERS, MEMORY_LIMIT = 2, "6GiB"
COMPONENTS, STEPS, ALPHA = 16, 5, 10.0

#: The run takes several minutes.
REPEATS = 1

#: Columns per block of the store, and so per solve: what a worker has memory for.
COLUMNS = 16

#: Seconds after which a process is stopped.
TIMEOUT = 3 * 3600.0

#: Bytes that are written and read to measure the disk.
DISK_BYTES = 2**31


def run(config: Config) -> dict[str, Any]:
    from .triad import triad_task

    shape = config.size.distributed_size
    config.work_dir.mkdir(parents=True, exist_ok=True)
    triad, triad_bytes = triad_task(config.size.triad_numbers)
    bandwidth = triad_bytes / time_interleaved({"triad": triad}, 5)["triad"]["seconds"]
    disk = disk_rates(config.work_dir, min(DISK_BYTES, 100 * config.size.triad_numbers))
    results: dict[str, Any] = {"triad_rate": bandwidth, **disk}
    folder = Path(tempfile.mkdtemp(dir=config.work_dir))
    try:
        config.log(f"generating {shape.n_nodes:,} nodes and {shape.n_edges:,} edges")
        results["generation"] = child.run_in_process(
            "distributed.generate", timeout=TIMEOUT, folder=str(folder / "store"),
            n_nodes=shape.n_nodes, degree=2 * shape.n_edges // shape.n_nodes,
            n_features=shape.n_features,
        )  # fmt: skip
        config.log(f"embedding by {WORKERS} workers with {MEMORY_LIMIT} each")
        results["embedding"] = child.run_in_process(
            "distributed.embed", timeout=TIMEOUT, folder=str(folder)
        )
    finally:
        shutil.rmtree(folder)
    return results


def disk_rates(folder: Path, n_bytes: int) -> dict[str, float]:
    """Bytes per second that are written to the disk, and read from it and not from the cache."""
    block, path = os.urandom(2**22), folder / "disk-test"
    try:
        start = time.perf_counter()
        with path.open("wb") as file:
            for _ in range(max(1, n_bytes // len(block))):
                file.write(block)
            file.flush()
            os.fsync(file.fileno())
        written, n_bytes = time.perf_counter() - start, path.stat().st_size
        start = time.perf_counter()
        with path.open("rb", buffering=0) as file:
            if hasattr(os, "posix_fadvise"):
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            while file.read(len(block)):
                pass
        read = time.perf_counter() - start
    finally:
        path.unlink(missing_ok=True)
    return {"disk_write_rate": n_bytes / written, "disk_read_rate": n_bytes / read}


def generate(folder: str, n_nodes: int, degree: int, n_features: int) -> Outcome:
    from .shuffled_circulant import write_store

    start, cpu = time.perf_counter(), time.process_time()
    with child.Memory() as memory, atomic_folder(Path(folder)) as part:
        write_store(part, n_nodes, degree, n_features, COLUMNS)
    size = sum(path.stat().st_size for path in Path(folder).iterdir())
    return {
        "seconds": time.perf_counter() - start,
        "cpu_seconds": time.process_time() - cpu,
        "bytes": size,
        "peak_bytes": memory.peak,
    }


def embed(folder: str) -> Outcome:
    """Fit on the store in a folder, and measure stages, memory and bytes."""
    from gpcanet.distributed import GPCA, Store, local_cluster
    from gpcanet.distributed.plan import make_plan
    from gpcanet.estimators.problem import Parameters
    from gpcanet.utils.progress import progress_to

    scratch, store = Path(folder) / "scratch", Store.open(f"{folder}/store")
    stages = Stages(scratch)
    model = GPCA(
        COMPONENTS, alpha=ALPHA, solver="fixed-point", n_iter=STEPS, precision="half",
        memory_limit=MEMORY_LIMIT,
    )  # fmt: skip
    plan = make_plan(store, Parameters.of(model), n_components=COMPONENTS)
    with (
        local_cluster(WORKERS, memory_limit=MEMORY_LIMIT) as client,
        child.Memory() as memory,
        worker_memory(list(client.run(os.getpid).values())) as peaks,
        progress_to(stages),
    ):
        start = time.perf_counter()
        parts = model.fit_transform(
            store, client=client, scratch=scratch, output=f"{folder}/embedding"
        )
        seconds = time.perf_counter() - start
        moved = client.run(moved_bytes)
        cpu = client.run(time.process_time)
    size = sum(path.stat().st_size for path in parts.files)
    return {
        "nodes": store.n_nodes,
        "edges": store.n_entries // 2,
        "columns": store.n_features,
        "columns_per_solve": plan.blocks[0][1],
        "workers": WORKERS,
        "memory_limit": MEMORY_LIMIT,
        "steps": STEPS,
        "components": COMPONENTS,
        "seconds": seconds,
        "stages": stages.seconds(),
        "solves": stages.solves,
        "cpu_seconds": sum(cpu.values()),
        "planned_bytes": plan.worker_bytes,
        "planned_seconds": plan.seconds(),
        "step_bytes": plan.step_bytes * len(plan.blocks),
        "solution_bytes": store.n_nodes * store.n_features * 4,
        "result_bytes": size,
        "worker_peaks": peaks,
        "client_peak": memory.peak,
        "moved_bytes": sum(moved.values()),
        "explained": float(model.explained_variance_ratio_.sum()),
    }


class Stages:
    """A listener to progress that notes when each stage began and ended."""

    def __init__(self, scratch: Path) -> None:
        self._scratch, self._times = scratch, dict[str, list[float]]()
        self.solves: list[list[float]] = []  # seconds of each solve, and of writing its result

    def __call__(self, what: str, done: int, total: int | None) -> None:
        import json

        now = time.perf_counter()
        self._times.setdefault(what, [now, now])[1] = now
        if what.startswith("solving") and done == total:
            records = sorted(self._scratch.rglob("F*.done.json"))
            self.solves = [json.loads(path.read_bytes())["seconds"] for path in records]

    def seconds(self) -> dict[str, float]:
        return {what.partition(" (")[0]: end - begin for what, (begin, end) in self._times.items()}


def moved_bytes(dask_worker: Any) -> int:
    """Bytes that a worker has sent to other workers."""
    return int(dask_worker.transfer_outgoing_bytes_total)


@contextmanager
def worker_memory(pids: list[int]) -> Iterator[list[int]]:
    """Largest anonymous memory of processes during a block, sampled; mapped files do not count."""
    peaks, done = [0] * len(pids), threading.Event()

    def watch() -> None:
        while not done.wait(0.05):
            for i, pid in enumerate(pids):
                peaks[i] = max(peaks[i], child.anonymous_bytes(pid))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield peaks
    finally:
        done.set()
        watcher.join()
