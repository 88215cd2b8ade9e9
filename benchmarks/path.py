"""A grid of alphas and betas: one GPCAPath, one fit per pair, and a single fit.

The first calls are measured in new processes, because they may compile or load kernels.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

from gpcanet.datasets import Dataset, load
from gpcanet.estimators.gpca import GPCA
from gpcanet.estimators.path import GPCAPath

from . import child
from .config import Config
from .graphs import published
from .timing import Outcome, smallest_cosine, time_interleaved

ALPHAS, BETAS = (1.0, 5.0, 10.0, 20.0, 50.0), (0.0, 0.1, 0.2)
GRID = tuple(product(ALPHAS, BETAS))
COMPONENTS = 64

#: Alpha of the single fit.
SINGLE_ALPHA = 10.0

PATH, SEPARATE, SINGLE = "GPCAPath, all pairs", "GPCA for every pair", "GPCA once"

#: Maximum number of processes for each first call.
MAX_FIRST_CALLS = 5


def run(config: Config) -> dict[str, Any]:
    results: dict[str, Any] = {"alphas": ALPHAS, "betas": BETAS, "components": COMPONENTS}
    graphs, skipped = published(config)
    results["graphs"] = dict(skipped)
    for data in graphs:
        config.log(f"{data.name}: a grid of {len(GRID)} settings")
        results["graphs"][data.name] = {
            **_compare(data, config.repeats),
            "first_call": _first_calls(data.name, config),
        }
    return results


def _compare(data: Dataset, repeats: int) -> dict[str, Any]:
    tasks: dict[str, Callable[[], Any]] = {
        PATH: partial(_path, data),
        SEPARATE: partial(_separate, data),
        SINGLE: partial(_fit, data, SINGLE_ALPHA, 0.0),
    }
    outcomes = time_interleaved(tasks, repeats)
    result: dict[str, Any] = {"methods": outcomes}
    if not any("failed" in outcome for outcome in outcomes.values()):
        of_path, separate = _path(data), _separate(data)
        result["cosines"] = [
            {
                "alpha": alpha,
                "beta": beta,
                "smallest_cosine": smallest_cosine(of_path[alpha, beta], separate[alpha, beta]),
            }
            for alpha, beta in GRID
        ]
    return result


def _first_calls(dataset: str, config: Config) -> dict[str, Outcome]:
    """Minimum over interleaved new processes of the first call of the path and of all fits."""
    found: dict[str, list[Outcome]] = {PATH: [], SEPARATE: []}
    n_processes = min(config.repeats, MAX_FIRST_CALLS)
    for _ in range(n_processes):
        for method, outcomes in found.items():
            outcomes.append(
                child.run_in_process(
                    "path.time_first_call", method=method, dataset=dataset,
                    data_dir=None if config.data_dir is None else str(config.data_dir),
                    offline=config.offline,
                )
            )  # fmt: skip
    return {method: _minimum(outcomes) for method, outcomes in found.items()}


def _minimum(outcomes: list[Outcome]) -> Outcome:
    failed = [outcome for outcome in outcomes if "seconds" not in outcome]
    if failed:
        return failed[0]
    return {"seconds": min(o["seconds"] for o in outcomes), "repeats": len(outcomes)}


def time_first_call(
    method: str, dataset: str, data_dir: str | None, offline: bool | None
) -> Outcome:
    """Seconds of the first call in this process; data and imports are loaded before."""
    data = load(dataset, data_dir, offline=offline)
    task = {PATH: _path, SEPARATE: _separate}[method]
    start = time.perf_counter()
    task(data)
    return {"seconds": time.perf_counter() - start}


def _path(data: Dataset) -> dict[tuple[float, float], Any]:
    path = GPCAPath(n_components=COMPONENTS, alphas=ALPHAS, betas=BETAS, ghost="paper")
    path.fit(data.X, data.visible_labels(validation=False), graph=data.graph)
    return {(alpha, beta): path.components(alpha, beta) for alpha, beta in GRID}


def _separate(data: Dataset) -> dict[tuple[float, float], Any]:
    return {(alpha, beta): _fit(data, alpha, beta).components_ for alpha, beta in GRID}


def _fit(data: Dataset, alpha: float, beta: float) -> GPCA:
    model = GPCA(COMPONENTS, alpha=alpha, beta=beta, ghost="paper")
    return model.fit(data.X, data.visible_labels(validation=False), graph=data.graph)
