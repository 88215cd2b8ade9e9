"""Seconds of the first ``gpcanet embed`` after installation, when no kernel is compiled.

Each repeat starts with an empty folder for compiled kernels and runs the command twice, in two new
processes.
"""

from __future__ import annotations

import tempfile
import time
from typing import Any

from .command import embed_commands, run_python
from .config import Config
from .timing import Outcome, reason_of

#: Maximum number of repeats.
MAX_REPEATS = 3


def run(config: Config) -> dict[str, Any]:
    repeats = min(config.repeats, MAX_REPEATS)
    with embed_commands(config) as (commands, results):
        for name, command in commands.items():
            config.log(f"first use of gpcanet embed, {name}")
            results[name] = _measure(command, repeats)
    return {"graphs": results}


def _measure(command: list[str], repeats: int) -> Outcome:
    try:
        pairs = [_first_and_second(command) for _ in range(repeats)]
    except RuntimeError as error:
        return {"failed": reason_of(error)}
    first, second = (min(times) for times in zip(*pairs, strict=True))
    return {"first": first, "second": second, "repeats": repeats}


def _first_and_second(command: list[str]) -> tuple[float, float]:
    """Seconds of a command with an empty cache of kernels, and again with the filled cache."""
    with tempfile.TemporaryDirectory() as kernel_cache:
        start = time.perf_counter()
        run_python(command, kernel_cache)
        middle = time.perf_counter()
        run_python(command, kernel_cache)
        return middle - start, time.perf_counter() - middle
