"""One measurement in a process of its own, so that its memory is its own, too.

``python -m benchmarks.child`` takes a job as JSON and prints what it found as JSON.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from .measure import Outcome, summary
from .setting import Shape

#: Small fits are repeated within a process until they have taken this long together.
ENOUGH_SECONDS = 1.0

#: Exit code by which a process tells that a package is missing.
MISSING = 3


def in_child(job: dict[str, Any], *, timeout: float) -> Outcome:
    """What ``do(job)`` returns in a new process; or that it failed, and why."""
    command = [sys.executable, "-m", "benchmarks.child", json.dumps(job)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
    except subprocess.TimeoutExpired:
        return {"failed": f"took longer than {timeout:,.0f} s"}
    complaint = (done.stderr.strip().splitlines() or ["no message"])[-1]
    if done.returncode == MISSING:
        return {"skipped": complaint}
    if done.returncode < 0:
        return {"failed": f"was killed by signal {-done.returncode}, perhaps for lack of memory"}
    if done.returncode > 0:
        return {"failed": complaint}
    return dict(json.loads(done.stdout.splitlines()[-1]))


def do(job: dict[str, Any]) -> Outcome:
    """Run a job in this process."""
    jobs: dict[str, Callable[..., Outcome]] = {"fit": fit, "generate": generate, "write": write}
    return jobs[job["job"]](**{name: value for name, value in job.items() if name != "job"})


def fit(way: str, folder: str, columns: int, components: int, repeats: int) -> Outcome:
    from .fits import FITS, warm_up
    from .graphs import read

    run = FITS[way]
    warm_up(run, columns)
    data = read(Path(folder), columns)
    times: list[float] = []
    with Memory() as memory:
        while not times or (len(times) < repeats and sum(times) < ENOUGH_SECONDS):
            start = time.perf_counter()
            run(data.graph, data.X, components)
            times.append(time.perf_counter() - start)
    return {
        **summary(times),
        "seconds": min(times),  # the first call is no other than the rest: all was warm
        "repeats": len(times),
        "peak_bytes": memory.peak,
        "before_bytes": memory.before,
        "nodes": data.graph.n_nodes,
        "edges": data.graph.n_edges,
        "columns": columns,
    }


def generate(shape: dict[str, int]) -> Outcome:
    from . import graphs

    with Memory() as memory:
        start = time.perf_counter()
        data = graphs.generate(Shape(**shape))
        elapsed = time.perf_counter() - start
    return {
        "seconds": elapsed,
        "peak_bytes": memory.peak,
        "nodes": data.graph.n_nodes,
        "edges": data.graph.n_edges,
    }


def write(shape: dict[str, int], folder: str) -> Outcome:
    from . import graphs

    graphs.write(Shape(**shape), Path(folder))
    return {}


class Memory:
    """Memory before a block of code and the most during it, looked at every few milliseconds.

    What cannot be dropped, that is: without files that are mapped. 0 where /proc is not.
    """

    def __enter__(self) -> Memory:
        self.before = self.peak = _anonymous()
        self._done = threading.Event()
        self._watcher = threading.Thread(target=self._watch)
        self._watcher.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._watcher.join()

    def _watch(self) -> None:
        while not self._done.wait(0.005):
            self.peak = max(self.peak, _anonymous())


def _anonymous() -> int:
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return 0
    sizes = dict(line.split(":", 1) for line in lines)
    return int(sizes["RssAnon"].split()[0]) * 1024


def _die_first() -> None:
    """If memory runs out, let the system end this process before those of others."""
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")


def main() -> None:
    _die_first()
    try:
        print(json.dumps(do(json.loads(sys.argv[1]))))
    except ModuleNotFoundError as error:
        print(f"{error.name} is not installed", file=sys.stderr)
        sys.exit(MISSING)


if __name__ == "__main__":
    main()
