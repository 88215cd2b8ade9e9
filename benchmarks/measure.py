"""Timing side by side: tasks take turns, and of several times the least counts."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpcanet.datasets import Dataset

#: What became of a task: its seconds, or why there are none ("skipped" or "failed").
Outcome = dict[str, Any]

#: Once a task has run for this many seconds in all, it is not repeated any more.
PATIENCE = 30.0

#: The longest reason that a table has room for.
REASON_LETTERS = 160


@dataclass(frozen=True)
class Way:
    """One way to get something done, ours or a peer's.

    ``prepare`` brings a graph into the form the peer works on, which is not timed, and returns
    the work itself. It imports what it ``needs``, by the names of the modules.
    """

    name: str
    prepare: Callable[[Dataset], Callable[[], Any]]
    needs: tuple[str, ...] = ()
    most_nodes: int | None = None  # on a larger graph it would take minutes, or never end


def interleaved(
    tasks: Mapping[str, Callable[[], Any]], repeats: int, *, patience: float = PATIENCE
) -> dict[str, Outcome]:
    """Seconds of the first call of each task and the least of ``repeats`` further ones.

    The tasks take turns, so that noise meets all of them. A task that raises is reported as
    failed. One that has taken longer than ``patience`` is left at the calls made so far.

    Examples
    --------
    >>> interleaved({"sum": lambda: sum(range(10)), "wrong": lambda: 1 / 0}, 3)["wrong"]
    {'failed': 'ZeroDivisionError: division by zero'}
    """
    times: dict[str, list[float]] = {name: [] for name in tasks}
    failed: dict[str, Outcome] = {}
    for _ in range(repeats + 1):
        for name, task in tasks.items():
            if name in failed or sum(times[name]) > patience:
                continue
            start = time.perf_counter()
            try:
                task()
            except Exception as error:
                failed[name] = {"failed": reason_of(error)}
            times[name].append(time.perf_counter() - start)
    return {name: failed.get(name) or summary(times[name]) for name in tasks}


def summary(seconds: list[float]) -> Outcome:
    """The first call apart: it may compile, or fill caches. It counts if it is the only one."""
    first, *later = seconds
    return {"seconds": min(later or seconds), "first": first, "repeats": len(later) or 1}


def prepare(
    ways: Iterable[Way], data: Dataset
) -> tuple[dict[str, Callable[[], Any]], dict[str, Outcome]]:
    """Tasks that can run here, and why the others cannot."""
    tasks: dict[str, Callable[[], Any]] = {}
    left_out: dict[str, Outcome] = {}
    for way in ways:
        if way.most_nodes is not None and data.graph.n_nodes > way.most_nodes:
            left_out[way.name] = {"skipped": f"takes minutes on more than {way.most_nodes:,} nodes"}
            continue
        try:
            task = _quietly(way.prepare)(data) if way.needs else way.prepare(data)
        except ModuleNotFoundError as error:
            missing = (error.name or "").split(".")[0]
            left_out[way.name] = {"skipped": f"{missing} is not installed"}
        except Exception as error:
            left_out[way.name] = {"failed": reason_of(error)}
        else:
            tasks[way.name] = _quietly(task) if way.needs else task
    return tasks, left_out


def in_order(ways: Iterable[Way], *outcomes: dict[str, Outcome]) -> dict[str, Outcome]:
    """Outcomes of all ways together, in the order of the ways."""
    merged = {name: outcome for part in outcomes for name, outcome in part.items()}
    return {way.name: merged[way.name] for way in ways}


def reason_of(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    reason = f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
    return reason if len(reason) <= REASON_LETTERS else reason[: REASON_LETTERS - 3] + "..."


def smallest_cosine(V: np.ndarray, W: np.ndarray) -> float:
    """The cosine of the largest angle between the spaces of two sets of orthonormal rows.

    Examples
    --------
    >>> smallest_cosine(np.eye(2, 3), np.eye(3)[[1, 0]])
    1.0
    """
    return float(np.linalg.svd(V @ W.T, compute_uv=False).min())


def _quietly(run: Callable[..., Any]) -> Callable[..., Any]:
    """A peer's warnings are its own affair."""

    def call(*args: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return run(*args)

    return call
