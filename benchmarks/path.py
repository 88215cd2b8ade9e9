"""A grid of alphas and betas: one GPCAPath, a fit for every pair, and a single fit."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

from gpcanet.datasets import Dataset
from gpcanet.estimators.gpca import GPCA
from gpcanet.estimators.path import GPCAPath

from .graphs import published
from .measure import interleaved, smallest_cosine
from .setting import Setting

ALPHAS, BETAS = (1.0, 5.0, 10.0, 20.0, 50.0), (0.0, 0.1, 0.2)
GRID = tuple(product(ALPHAS, BETAS))
WIDTH, SINGLE_ALPHA = 64, 10.0

WHOLE, SEPARATE, SINGLE = "GPCAPath, all pairs", "GPCA for every pair", "GPCA once"


def run(setting: Setting) -> dict[str, Any]:
    results: dict[str, Any] = {"alphas": ALPHAS, "betas": BETAS, "width": WIDTH}
    graphs, skipped = published(setting)
    results["graphs"] = dict(skipped)
    for data in graphs:
        setting.tell(f"{data.name}: a grid of {len(GRID)} settings")
        results["graphs"][data.name] = _compare(data, setting.repeats)
    return results


def _compare(data: Dataset, repeats: int) -> dict[str, Any]:
    tasks: dict[str, Callable[[], Any]] = {
        WHOLE: partial(_whole, data),
        SEPARATE: partial(_separate, data),
        SINGLE: partial(_fit, data, SINGLE_ALPHA, 0.0),
    }
    outcomes = interleaved(tasks, repeats)
    result: dict[str, Any] = {"ways": outcomes}
    if not any("failed" in outcome for outcome in outcomes.values()):
        at_once, one_by_one = _whole(data), _separate(data)
        result["cosines"] = [
            {
                "alpha": alpha,
                "beta": beta,
                "smallest_cosine": smallest_cosine(at_once[alpha, beta], one_by_one[alpha, beta]),
            }
            for alpha, beta in GRID
        ]
    return result


def _whole(data: Dataset) -> dict[tuple[float, float], Any]:
    path = GPCAPath(n_components=WIDTH, alphas=ALPHAS, betas=BETAS, ghost="paper")
    path.fit(data.X, data.visible_labels(validation=False), graph=data.graph)
    return {(alpha, beta): path.components(alpha, beta) for alpha, beta in GRID}


def _separate(data: Dataset) -> dict[tuple[float, float], Any]:
    return {(alpha, beta): _fit(data, alpha, beta).components_ for alpha, beta in GRID}


def _fit(data: Dataset, alpha: float, beta: float) -> GPCA:
    model = GPCA(WIDTH, alpha=alpha, beta=beta, ghost="paper")
    return model.fit(data.X, data.visible_labels(validation=False), graph=data.graph)
