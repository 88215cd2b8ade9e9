"""What all benchmarks share: interleaved timing, the machine, a file of results."""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import scipy
import sklearn

from gpcanet.datasets import Dataset, DataUnavailableError, load

RESULTS = Path(__file__).parent / "results"


def interleaved(tasks: Mapping[str, Callable[[], Any]], repeats: int) -> dict[str, float]:
    """Least seconds of each task; the tasks take turns, so that noise meets all of them."""
    for task in tasks.values():
        task()  # compiles, and fills caches
    seconds: dict[str, list[float]] = {name: [] for name in tasks}
    for _ in range(repeats):
        for name, task in tasks.items():
            start = time.perf_counter()
            task()
            seconds[name].append(time.perf_counter() - start)
    return {name: min(values) for name, values in seconds.items()}


def real_graphs() -> list[Dataset]:
    """The citation graphs; ends the benchmark with a sentence where their files are not."""
    try:
        return [load(name) for name in ("cora", "citeseer", "pubmed")]
    except DataUnavailableError as reason:
        print(f"skipped: {reason}")
        raise SystemExit(0) from None


def machine() -> dict[str, Any]:
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [line for line in cpuinfo.read_text().splitlines() if line.startswith("model name")]
        model = names[0].split(":", 1)[1].strip() if names else model
    return {
        "cpu": model,
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "scikit-learn": sklearn.__version__,
    }


def arguments(description: str | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--save", action="store_true", help="write the numbers to results/")
    return parser.parse_args()


def save(name: str, numbers: Any) -> None:
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps({"machine": machine(), "results": numbers}, indent=2) + "\n")
    print(f"saved {path.name}")
