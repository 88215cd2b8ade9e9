"""Timing of methods in interleaved repeats, of which the minimum counts."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpcanet.datasets import Dataset

#: Seconds of a method, or the reason why it was "skipped" or "failed".
Outcome = dict[str, Any]

#: Total seconds after which a method is not repeated any more.
PATIENCE = 30.0

#: Maximum length of the reason of a failure.
REASON_LENGTH = 160


@dataclass(frozen=True)
class Method:
    """A method to be timed, ours or of another library.

    ``prepare`` converts a dataset to the input of the method, which is not timed, and returns the
    function to be timed. It imports the modules that the method ``needs``.
    """

    name: str
    prepare: Callable[[Dataset], Callable[[], Any]]
    needs: tuple[str, ...] = ()
    max_nodes: int | None = None  # skipped on larger graphs, where it takes minutes


def time_interleaved(
    tasks: Mapping[str, Callable[[], Any]], repeats: int, *, patience: float = PATIENCE
) -> dict[str, Outcome]:
    """Seconds of the first call of each task, and the minimum over ``repeats`` further calls.

    The calls of the tasks are interleaved, so that other load affects all of them. A task that
    raises has failed. A task is not repeated after ``patience`` seconds in total.

    Examples
    --------
    >>> time_interleaved({"sum": lambda: sum(range(10)), "wrong": lambda: 1 / 0}, 3)["wrong"]
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
    return {name: failed.get(name) or summarize_times(times[name]) for name in tasks}


def summarize_times(seconds: list[float]) -> Outcome:
    """The minimum without the first call, which may compile, unless it is the only one."""
    first, *later = seconds
    return {"seconds": min(later or seconds), "first": first, "repeats": len(later) or 1}


def prepare(
    methods: Iterable[Method], data: Dataset
) -> tuple[dict[str, Callable[[], Any]], dict[str, Outcome]]:
    """The tasks of all methods that can run, and the reasons why the others cannot."""
    tasks: dict[str, Callable[[], Any]] = {}
    omitted: dict[str, Outcome] = {}
    for method in methods:
        if method.max_nodes is not None and data.graph.n_nodes > method.max_nodes:
            omitted[method.name] = {
                "skipped": f"takes minutes on more than {method.max_nodes:,} nodes"
            }
            continue
        try:
            task = _without_warnings(method.prepare)(data) if method.needs else method.prepare(data)
        except ModuleNotFoundError as error:
            missing = (error.name or "").split(".")[0]
            omitted[method.name] = {"skipped": f"{missing} is not installed"}
        except Exception as error:
            omitted[method.name] = {"failed": reason_of(error)}
        else:
            tasks[method.name] = _without_warnings(task) if method.needs else task
    return tasks, omitted


def in_order(methods: Iterable[Method], *outcomes: dict[str, Outcome]) -> dict[str, Outcome]:
    """The outcomes of all methods, in the order of the methods."""
    merged = {name: outcome for part in outcomes for name, outcome in part.items()}
    return {method.name: merged[method.name] for method in methods}


def reason_of(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    reason = f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
    return reason if len(reason) <= REASON_LENGTH else reason[: REASON_LENGTH - 3] + "..."


def smallest_cosine(V: np.ndarray, W: np.ndarray) -> float:
    """The cosine of the largest angle between two subspaces, given by orthonormal rows.

    Examples
    --------
    >>> smallest_cosine(np.eye(2, 3), np.eye(3)[[1, 0]])
    1.0
    """
    return float(np.linalg.svd(V @ W.T, compute_uv=False).min())


def _without_warnings(run: Callable[..., Any]) -> Callable[..., Any]:
    """Ignore warnings of other libraries."""

    def call(*args: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return run(*args)

    return call
