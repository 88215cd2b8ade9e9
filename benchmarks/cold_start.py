"""Seconds from starting Python to 64 dimensions of a citation graph, imports and files included.

Cold: an empty kernel cache, as at the first use on a machine. Warm: kernels compiled before.
Needs the Planetoid files. Run with ``make bench``, or alone: ``python benchmarks/cold_start.py``.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time

from measure import arguments, real_graphs, save

SCRIPT = """
from gpcanet import GPCA
from gpcanet.datasets import load
data = load({name!r})
GPCA(64).fit_transform(data.X, graph=data.graph)
"""


def seconds(script: str, cache: str) -> float:
    start = time.perf_counter()
    environment = {**os.environ, "NUMBA_CACHE_DIR": cache}
    subprocess.run([sys.executable, "-c", script], check=True, env=environment)
    return time.perf_counter() - start


def main() -> None:
    options = arguments(__doc__)
    results = {}
    for name in [data.name for data in real_graphs()]:
        script = SCRIPT.format(name=name)
        with tempfile.TemporaryDirectory() as cache:
            cold = seconds(script, cache)
            warm = min(seconds(script, cache) for _ in range(3))
        print(f"{name:10s} cold {cold:5.1f} s   warm {warm:5.1f} s")
        results[name] = {"cold": cold, "warm": warm}
    if options.save:
        save("cold_start", results)


if __name__ == "__main__":
    main()
