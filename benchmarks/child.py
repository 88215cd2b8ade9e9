"""Jobs in new processes, whose memory is measured.

``python -m benchmarks.child`` takes a job as JSON and prints its outcome as JSON.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

from .timing import Outcome

#: The folder of this package, which is not installed.
CHECKOUT = Path(__file__).resolve().parents[1]

#: Exit code of a process that misses a package.
MISSING_PACKAGE = 3

#: Seconds after which a process is stopped.
TIMEOUT = 1_200.0


def run_in_process(job: str, *, timeout: float = TIMEOUT, **arguments: Any) -> Outcome:
    """The outcome of ``run_job(job, **arguments)`` in a new process, or why it failed."""
    command = [sys.executable, "-m", "benchmarks.child", json.dumps([job, arguments])]
    search_path = os.pathsep.join([str(CHECKOUT), *filter(None, [os.environ.get("PYTHONPATH")])])
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=timeout, check=False,
            env=os.environ | {"PYTHONPATH": search_path},
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return {"failed": f"took longer than {timeout:,.0f} s"}
    message = (done.stderr.strip().splitlines() or ["no message"])[-1]
    if done.returncode == MISSING_PACKAGE:
        return {"skipped": message}
    if done.returncode < 0:
        return {"failed": f"was killed by signal {-done.returncode}, perhaps for lack of memory"}
    if done.returncode > 0:
        return {"failed": message}
    return dict(json.loads(done.stdout.splitlines()[-1]))


def run_job(job: str, **arguments: Any) -> Outcome:
    """Call a function of this package, named ``module.function``."""
    module, function = job.split(".")
    return getattr(importlib.import_module(f".{module}", __package__), function)(**arguments)


class Memory:
    """Memory before a block of code and its maximum inside, sampled every 5 ms.

    Only anonymous memory counts, not mapped files. Both are 0 on systems without /proc.
    """

    def __enter__(self) -> Memory:
        self.before = self.peak = anonymous_bytes()
        self._done = threading.Event()
        self._watcher = threading.Thread(target=self._watch)
        self._watcher.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._watcher.join()

    def _watch(self) -> None:
        while not self._done.wait(0.005):
            self.peak = max(self.peak, anonymous_bytes())


def anonymous_bytes(pid: int | str = "self") -> int:
    """Memory of a process that is not mapped from files; 0 if it is unknown."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    sizes = dict(line.split(":", 1) for line in lines)
    return int(sizes.get("RssAnon", "0").split()[0]) * 1024


def _prefer_for_oom_kill() -> None:
    """If memory runs out, the system ends this process before others."""
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")


def main() -> None:
    _prefer_for_oom_kill()
    job, arguments = json.loads(sys.argv[1])
    try:
        print(json.dumps(run_job(job, **arguments)))
    except ModuleNotFoundError as error:
        print(f"{error.name} is not installed", file=sys.stderr)
        sys.exit(MISSING_PACKAGE)


if __name__ == "__main__":
    main()
