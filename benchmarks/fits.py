"""Fits on large graphs, each in a new process, from arrays in memory to Z."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from gpcanet.estimators.gpca import GPCA
from gpcanet.graph import Graph

from . import child
from .baselines import ALPHA, N_STEPS, scipy_embedding, torch_embedding
from .config import Config
from .graphs import read
from .timing import Outcome, summarize_times

Fit = Callable[[Graph, np.ndarray, int], np.ndarray]

EXACT_TOL = 1e-4

#: Fits are repeated within a process until they have taken this many seconds.
ENOUGH_SECONDS = 1.0

#: A fit that takes longer than this is run only once.
LONG_SECONDS = 60.0


def _gpca(graph: Graph, X: np.ndarray, k: int, **settings: Any) -> np.ndarray:
    return GPCA(k, alpha=ALPHA, **settings).fit_transform(X, graph=graph)


def _baseline(
    embedding: Callable[..., np.ndarray], graph: Graph, X: np.ndarray, k: int
) -> np.ndarray:
    return embedding(graph.indptr, graph.indices, X, k)


_STEPS: dict[str, Any] = {"solver": "fixed-point", "n_iter": N_STEPS}

FITS: dict[str, Fit] = {
    "GPCA, 5 steps, half": partial(_gpca, **_STEPS, precision="half"),
    "GPCA, 5 steps": partial(_gpca, **_STEPS),
    "GPCA, 5 steps, half, in 1.5 GiB": partial(
        _gpca, **_STEPS, precision="half", memory_limit="1.5GiB"
    ),
    "GPCA, exact, half": partial(_gpca, tol=EXACT_TOL, precision="half"),
    "GPCA, exact": partial(_gpca, tol=EXACT_TOL),
    "torch CSR, 5 steps": partial(_baseline, torch_embedding),
    "scipy CSR, 5 steps": partial(_baseline, scipy_embedding),
}


def measure(method: str, folder: str, columns: int, components: int, repeats: int) -> Outcome:
    """Seconds and memory of a fit in this process.

    The first call may compile kernels. It counts only if it took longer than ``LONG_SECONDS``;
    otherwise time and memory are those of further calls.
    """
    fit = FITS[method]
    data = read(Path(folder), columns)

    def timed() -> float:
        start = time.perf_counter()
        fit(data.graph, data.X, components)
        return time.perf_counter() - start

    with child.Memory() as memory:
        times = [timed()]
    if times[0] < LONG_SECONDS:
        with child.Memory() as memory:
            while len(times) == 1 or (len(times) <= repeats and sum(times[1:]) < ENOUGH_SECONDS):
                times.append(timed())
    return {
        **summarize_times(times),
        "peak_bytes": memory.peak,
        "before_bytes": memory.before,
        "nodes": data.graph.n_nodes,
        "edges": data.graph.n_edges,
        "columns": columns,
    }


def fit_interleaved(
    methods: Iterable[str], folder: Path, *, columns: int, components: int, config: Config
) -> dict[str, Outcome]:
    """Seconds and memory of each method over interleaved processes."""
    outcomes: dict[str, list[Outcome]] = {method: [] for method in methods}
    for _ in range(config.size.rounds):
        for method, found in outcomes.items():
            if found and found[-1].get("seconds", LONG_SECONDS) >= LONG_SECONDS:
                continue
            found.append(
                child.run_in_process(
                    "fits.measure", method=method, folder=str(folder), columns=columns,
                    components=components, repeats=config.repeats,
                )
            )  # fmt: skip
    return {method: merge_outcomes(found) for method, found in outcomes.items()}


def merge_outcomes(outcomes: list[Outcome]) -> Outcome:
    """Minimum time and maximum memory over processes; a failure of one is a failure."""
    for outcome in outcomes:
        if "seconds" not in outcome:
            return outcome
    return outcomes[0] | {
        "seconds": min(outcome["seconds"] for outcome in outcomes),
        "repeats": sum(outcome["repeats"] for outcome in outcomes),
        "peak_bytes": max(outcome["peak_bytes"] for outcome in outcomes),
        "before_bytes": min(outcome["before_bytes"] for outcome in outcomes),
    }
