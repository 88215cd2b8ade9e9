"""Runs numbered cases in worker processes for some minutes and collects their failures."""

from __future__ import annotations

import multiprocessing
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

#: From a random generator to the name under which the case is counted. Raises if it fails.
Check = Callable[[np.random.Generator], str]

#: Seconds without an answer after which a worker counts as hanging.
HANGING = 600.0

# A spawned process starts like a new command: without kernels, threads and caches.
_context = multiprocessing.get_context("spawn")


@dataclass
class Tally:
    """Numbers of cases by name, and the failures."""

    counts: Counter[str] = field(default_factory=Counter)
    failures: list[dict[str, Any]] = field(default_factory=list)

    def fail(self, check: Check, seed: int, number: int, error: str, details: str = "") -> None:
        self.counts["failed"] += 1
        self.failures.append(
            {
                "seed": seed, "case": number, "error": error[:2000], "details": details[-4000:],
                "script": script(check, seed, number),
            }
        )  # fmt: skip

    @property
    def n_cases(self) -> int:
        return sum(self.counts.values())


class Worker:
    """A process that runs every ``step``-th case from ``number`` on.

    A process that dies or hangs fails its case and is replaced.
    """

    def __init__(self, check: Check, seed: int, number: int, step: int) -> None:
        self._check, self._seed, self._step = check, seed, step
        self.number = number
        self._start()

    def _start(self) -> None:
        self.connection, theirs = _context.Pipe()
        arguments = (self._check, self._seed, self.number, self._step, theirs)
        self._process = _context.Process(target=_work, args=arguments, daemon=True)
        self._process.start()
        theirs.close()
        self._heard = time.monotonic()

    def collect(self, tally: Tally) -> None:
        """Add finished cases; called repeatedly."""
        try:
            while self.connection.poll():
                name, error, details = self.connection.recv()
                if error is None:
                    tally.counts[name] += 1
                else:
                    tally.fail(self._check, self._seed, self.number, error, details)
                self.number += self._step
                self._heard = time.monotonic()
        except EOFError:
            self._process.join()
            self._replace(tally, f"the process ended with code {self._process.exitcode}")
        if time.monotonic() - self._heard > HANGING:
            self.stop()
            self._replace(tally, f"no answer after {HANGING:.0f} s")

    def _replace(self, tally: Tally, error: str) -> None:
        tally.fail(self._check, self._seed, self.number, error)
        self.number += self._step
        self._start()

    def stop(self) -> None:
        self._process.kill()
        self._process.join()
        self.connection.close()


def run_cases(
    check: Check, seed: int, seconds: float, *, jobs: int = 1, limit: int | None = None
) -> Tally:
    """Run cases 0, 1, 2, ... for some seconds, or until ``limit`` of them are done."""
    tally, deadline = Tally(), time.monotonic() + seconds
    workers = [Worker(check, seed, first, jobs) for first in range(jobs)]
    try:
        while time.monotonic() < deadline and (limit is None or tally.n_cases < limit):
            multiprocessing.connection.wait([worker.connection for worker in workers], timeout=0.2)
            for worker in workers:
                worker.collect(tally)
    finally:
        for worker in workers:
            worker.stop()
    return tally


def _work(check: Check, seed: int, number: int, step: int, connection: Connection) -> None:
    while True:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                connection.send((check(generator(seed, number)), None, ""))
        except Exception as error:
            connection.send(("", f"{type(error).__name__}: {error}", traceback.format_exc()))
        number += step


def generator(seed: int, number: int) -> np.random.Generator:
    """The random numbers of one case."""
    return np.random.default_rng([seed, number])


def script(check: Check, seed: int, number: int) -> str:
    """A script that repeats one case, to be run from the checkout."""
    return (
        f"from campaign.cases import generator\n"
        f"from {check.__module__} import {check.__name__}\n\n"
        f"{check.__name__}(generator({seed}, {number}))\n"
    )
