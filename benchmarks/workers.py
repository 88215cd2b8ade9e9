"""The same fit by the local estimator, and by 1, 2 and 4 worker processes on one machine."""

from __future__ import annotations

import shutil
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from . import child
from .config import Config, GraphShape
from .distributed import moved_bytes
from .graphs import generate
from .timing import Outcome

WORKERS = (1, 2, 4)
PARAMETERS: dict[str, Any] = {"n_components": 16, "alpha": 10.0, "solver": "chebyshev"}


def run(config: Config) -> dict[str, Any]:
    shape = config.size.workers_size
    config.log(
        f"{shape.n_nodes:,} nodes and {shape.n_edges:,} edges: local, then {WORKERS} workers"
    )
    config.work_dir.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(dir=config.work_dir))
    try:
        found = child.run_in_process(
            "workers.measure", shape=asdict(shape), folder=str(folder), repeats=config.repeats
        )
    finally:
        shutil.rmtree(folder)
    return {"nodes": shape.n_nodes, "columns": shape.n_features, **found}


def measure(shape: dict[str, int], folder: str, repeats: int) -> Outcome:
    """Wall time and CPU time of every method, the minimum over interleaved repeats."""
    from gpcanet import GPCA
    from gpcanet.distributed import local_cluster, write_dataset

    data = generate(GraphShape(**shape))
    store = write_dataset(data, f"{folder}/store", columns_per_block=16)
    methods: dict[str, Outcome] = {}
    clusters = {}
    Z = None
    try:
        for n_workers in WORKERS:
            start = time.perf_counter()
            context = local_cluster(n_workers)
            clusters[n_workers] = context, context.__enter__()
            methods[f"{n_workers} workers"] = {"start_seconds": time.perf_counter() - start}
        for repeat in range(repeats + 1):  # the first may compile
            start, cpu = time.perf_counter(), time.process_time()
            Z = GPCA(**PARAMETERS).fit_transform(data.X, graph=data.graph)
            outcome = {
                "seconds": time.perf_counter() - start,
                "cpu_seconds": time.process_time() - cpu,
                "moved_bytes": 0,
            }
            methods["local"] = _least(methods.get("local", {}), outcome, repeat)
            for n_workers, (_, client) in clusters.items():
                name = f"{n_workers} workers"
                outcome = _fit(client, store, Path(folder) / f"{n_workers}-{repeat}", Z)
                methods[name] = _least(methods[name], outcome, repeat)
    finally:
        for context, _ in clusters.values():
            context.__exit__(None, None, None)
    return {"edges": data.graph.n_edges, "methods": {"local": methods.pop("local"), **methods}}


def _least(known: Outcome, found: Outcome, repeat: int) -> Outcome:
    """Outcomes with the shorter times; the first repeat is only kept if there is no other."""
    if repeat <= 1 or "seconds" not in known:
        return {**known, **found}
    times = {key: min(known[key], found[key]) for key in ("seconds", "cpu_seconds")}
    return {**known, **found, **times}


def _fit(client: Any, store: Any, folder: Path, Z: np.ndarray) -> Outcome:
    from gpcanet.distributed import GPCA

    def used() -> tuple[float, int]:
        own = time.process_time() + sum(client.run(time.process_time).values())
        return own, sum(client.run(moved_bytes).values())

    folder.mkdir()
    (cpu, moved), start = used(), time.perf_counter()
    parts = GPCA(**PARAMETERS).fit_transform(
        store, client=client, scratch=folder / "scratch", output=folder / "out", format="npy"
    )
    seconds = time.perf_counter() - start
    cpu_after, moved_after = used()
    difference = float(np.abs(parts.read() - Z).max() / np.abs(Z).max())
    shutil.rmtree(folder)
    return {
        "seconds": seconds,
        "cpu_seconds": cpu_after - cpu,
        "moved_bytes": moved_after - moved,
        "difference": difference,
    }
