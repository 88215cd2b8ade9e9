"""Features and solutions that are several times larger than the memory limit of a worker."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from . import child
from .config import Config
from .distributed import worker_memory
from .timing import Outcome

WORKERS, MEMORY_LIMIT = 2, "512MiB"
COMPONENTS, STEPS, ALPHA = 16, 5, 10.0

#: Columns per block of the store, and so per solve: what a worker has memory for.
COLUMNS = 8

#: The limit holds or not.
REPEATS = 1


def run(config: Config) -> dict[str, Any]:
    shape = config.size.worker_memory_size
    config.log(f"{shape.n_nodes:,} nodes, {shape.n_features} columns, {MEMORY_LIMIT} per worker")
    config.work_dir.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(dir=config.work_dir))
    try:
        return child.run_in_process(
            "worker_memory.measure", folder=str(folder), shape=asdict(shape), limit=MEMORY_LIMIT
        )
    finally:
        shutil.rmtree(folder)


def measure(folder: str, shape: dict[str, int], limit: str) -> Outcome:
    """A run within the limit, and the memory that its processes take."""
    from gpcanet.distributed import GPCA, Store, local_cluster
    from gpcanet.estimators.memory_plan import parse_bytes

    from .shuffled_circulant import write_store

    n_nodes, d = shape["n_nodes"], shape["n_features"]
    path = Path(folder) / "store"
    path.mkdir()
    write_store(path, n_nodes, 2 * shape["n_edges"] // n_nodes, d, COLUMNS)
    store = Store.open(path)
    model = GPCA(COMPONENTS, alpha=ALPHA, solver="fixed-point", n_iter=STEPS, memory_limit=limit)
    with (
        local_cluster(WORKERS, memory_limit=limit) as client,
        child.Memory() as memory,
        worker_memory(list(client.run(os.getpid).values())) as peaks,
    ):
        start = time.perf_counter()
        model.fit_transform(
            store, client=client, scratch=f"{folder}/scratch", output=f"{folder}/embedding"
        )
        seconds = time.perf_counter() - start
        cpu = client.run(time.process_time)
    return {
        "nodes": n_nodes,
        "edges": store.n_entries // 2,
        "columns": d,
        "workers": WORKERS,
        "columns_per_solve": COLUMNS,
        "steps": STEPS,
        "components": COMPONENTS,
        "limit_bytes": parse_bytes(limit),
        "X_bytes": n_nodes * d * store.stored_dtype.itemsize,
        "F_bytes": n_nodes * d * store.dtype.itemsize,
        "planned_bytes": model.plan(store).worker_bytes,
        "worker_peaks": peaks,
        "client_peak": memory.peak,
        "seconds": seconds,
        "cpu_seconds": sum(cpu.values()),
    }
