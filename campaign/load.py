"""Many fits, threads and processes at once, a fork, an event loop, a busy core, little memory."""

from __future__ import annotations

import asyncio
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from gpcanet import GPCA, GPCAClassifier
from gpcanet.datasets import Dataset, block_model

#: Memory by which a process may grow while it repeats the same fits.
GROWTH_BYTES = 32 << 20

#: Largest ratio of the time of a fit next to a busy process to its time alone.
BUSY_RATIO = 2.5

#: A process that keeps one core busy until it is killed.
BUSY = "while True: pass"

#: A fit in a process of its own; prints the embedding's digest.
FIT = (
    "import hashlib; from gpcanet import GPCA; from gpcanet.datasets import block_model;"
    "d = block_model(3000, 15000, n_features=40, n_classes=5);"
    "print(hashlib.sha256(GPCA(16).fit_transform(d.X, graph=d.graph).tobytes()).hexdigest())"
)

#: Memory limit of a fit, and the memory of compiled code beyond it, as documented.
MEMORY_LIMIT, COMPILED_BYTES = 64 << 20, 60 << 20

#: Prints by how much the peak of a process grows in a fit with this limit.
LIMITED = f"""
import resource
from gpcanet import GPCA
from gpcanet.datasets import block_model
data = block_model(200_000, 1_000_000, n_features=64, n_classes=5)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
GPCA(16, memory_limit={MEMORY_LIMIT}).fit(data.X, graph=data.graph)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024)
"""


def graph() -> Dataset:
    return block_model(3000, 15_000, n_features=40, n_classes=5)


def embed(data: Dataset) -> np.ndarray:
    return GPCA(16).fit_transform(data.X.astype(np.float64), graph=data.graph)


def same(found: np.ndarray, expected: np.ndarray) -> bool:
    """Equal up to rounding: memory of other threads is aligned differently, which changes sums."""
    return np.allclose(found, expected, rtol=0, atol=1e-10 * float(np.abs(expected).max()))


def check_many_fits(seconds: float) -> dict[str, Any]:
    """Repeated fits do not use more and more memory."""
    data, n_fits, start = graph(), 0, time.monotonic()
    expected = embed(data)
    for _ in range(20):  # caches and threads
        embed(data)
    before = _resident()
    while n_fits < 1000 and time.monotonic() - start < seconds:
        assert np.array_equal(embed(data), expected), "two fits differ"
        n_fits += 1
    growth = _resident() - before
    assert growth < GROWTH_BYTES, f"{n_fits} fits use {growth / 2**20:.0f} MiB more"
    return {"fits": n_fits, "growth_mib": round(growth / 2**20, 1)}


def check_threads(seconds: float) -> dict[str, Any]:
    """Eight threads that fit at once get the same results as one."""
    data = graph()
    expected, n_fits, start = embed(data), 0, time.monotonic()
    with ThreadPoolExecutor(8) as pool:
        while n_fits == 0 or time.monotonic() - start < seconds:
            for found in pool.map(lambda _: embed(data), range(8)):
                assert same(found, expected), "a fit in another thread differs"
                n_fits += 1
    return {"fits": n_fits}


def check_processes(seconds: float) -> dict[str, Any]:
    """Four processes that start and compile at once get the same results."""
    running = [
        subprocess.Popen([sys.executable, "-c", FIT], stdout=subprocess.PIPE) for _ in range(4)
    ]
    digests = {process.communicate(timeout=600)[0] for process in running}
    assert len(digests) == 1, "processes differ"
    assert digests != {b""}, "a process failed"
    return {"processes": 4}


def check_fork(seconds: float) -> dict[str, Any]:
    """A forked child can fit after the parent has."""
    data = graph()
    expected = embed(data)
    child = os.fork()
    if child == 0:
        os._exit(0 if same(embed(data), expected) else 1)
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            assert status == 0, f"the child ended with {status}"
            assert same(embed(data), expected), "the parent differs afterwards"
            return {"children": 1}
        time.sleep(0.05)
    os.kill(child, 9)
    os.waitpid(child, 0)
    raise TimeoutError("the forked child hangs")


def check_event_loop(seconds: float) -> dict[str, Any]:
    """An event loop runs on while a thread fits."""
    data = graph()
    expected = embed(data)

    async def fit() -> None:
        for _ in range(5):
            assert same(await asyncio.to_thread(embed, data), expected), "a fit differs"

    async def main() -> float:
        longest, last = 0.0, time.monotonic()
        task = asyncio.create_task(fit())
        while not task.done():
            await asyncio.sleep(0.005)
            longest, last = max(longest, time.monotonic() - last), time.monotonic()
        await task
        return longest

    longest = asyncio.run(main())
    assert longest < 2.0, f"the loop stood still for {longest:.1f} s"
    return {"longest_pause_ms": round(1000 * longest)}


def check_busy_core(seconds: float) -> dict[str, Any]:
    """A process on one core slows a fit down by no more than its share of the machine."""
    data = graph()
    y = np.where(np.arange(3000) % 10 == 0, data.y, -1)
    found: dict[str, Any] = {}
    fits: dict[str, Callable[[], Any]] = {
        "GPCA": lambda: embed(data),
        "GPCAClassifier": lambda: GPCAClassifier().fit(data.X, y, graph=data.graph),
    }
    for name, fit in fits.items():
        fit()
        quiet = min(_seconds(fit) for _ in range(3))
        other = subprocess.Popen([sys.executable, "-c", BUSY])
        try:
            busy = min(_seconds(fit) for _ in range(3))
        finally:
            other.kill()
            other.wait()
        assert busy <= BUSY_RATIO * quiet, f"{name}: {busy:.2f} s next to {quiet:.2f} s alone"
        found[name] = round(busy / quiet, 2)
    return found


def check_memory_limit(seconds: float) -> dict[str, Any]:
    """A fit stays within its ``memory_limit``, apart from compiled code."""
    ended = subprocess.run(
        [sys.executable, "-c", LIMITED], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    growth = int(ended.stdout)
    allowed = MEMORY_LIMIT + COMPILED_BYTES
    assert growth <= allowed, f"{growth / 2**20:.0f} MiB with a limit of {MEMORY_LIMIT >> 20} MiB"
    return {"limit_mib": MEMORY_LIMIT >> 20, "used_mib": round(growth / 2**20)}


CHECKS: dict[str, Callable[[float], dict[str, Any]]] = {
    "many fits": check_many_fits,
    "threads": check_threads,
    "processes": check_processes,
    "fork": check_fork,
    "event loop": check_event_loop,
    "busy core": check_busy_core,
    "memory limit": check_memory_limit,
}


def _seconds(function: Callable[[], Any]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def _resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()
