"""One GPCAPath against one GPCA and against a fit for every pair, on the paper's grid.

Five alphas and three betas with the paper's ghost edges, on Cora, CiteSeer and PubMed, and on a
generated graph of the size of ogbn-arxiv. The path's time includes the components of all pairs.
The agreement is the smallest cosine of an angle between a subspace of the path and that of a
fit by itself, over all pairs.

Needs the Planetoid files (see gpcanet.datasets.load). Run with ``make bench``, or
alone: ``python benchmarks/path.py --save``.
"""

from __future__ import annotations

import itertools
from functools import partial
from typing import Any

import numpy as np
from measure import arguments, interleaved, real_graphs, save

from gpcanet import GPCA, GPCAPath
from gpcanet.datasets import Dataset, block_model

ALPHAS, BETAS = (1.0, 5.0, 10.0, 20.0, 50.0), (0.0, 0.1, 0.2)
PAIRS = list(itertools.product(ALPHAS, BETAS))

Components = dict[tuple[float, float], np.ndarray]


def training_labels(data: Dataset) -> np.ndarray:
    y = np.full(len(data.y), -1)
    y[data.train] = data.y[data.train]
    return y


def one_fit(data: Dataset, y: np.ndarray, k: int) -> GPCA:
    return GPCA(k).fit(data.X, graph=data.graph)


def all_fits(data: Dataset, y: np.ndarray, k: int) -> Components:
    found = {}
    for alpha, beta in PAIRS:
        model = GPCA(k, alpha=alpha, beta=beta, ghost="paper").fit(data.X, y, graph=data.graph)
        found[alpha, beta] = model.components_
    return found


def path(data: Dataset, y: np.ndarray, k: int) -> Components:
    fitted = GPCAPath(k, alphas=ALPHAS, betas=BETAS, ghost="paper").fit(data.X, y, graph=data.graph)
    return {pair: fitted.components(*pair) for pair in PAIRS}


def smallest_cosine(together: Components, alone: Components) -> float:
    return min(
        float(np.linalg.svd(together[p].astype(float) @ alone[p].T, compute_uv=False).min())
        for p in PAIRS
    )


def compare(data: Dataset, k: int, repeats: int) -> dict[str, Any]:
    y, found = training_labels(data), {}

    def task(name: str, run: Any) -> None:
        found[name] = run(data, y, k)

    runs = {"one fit": one_fit, "path": path, "all fits": all_fits}
    seconds = interleaved({name: partial(task, name, run) for name, run in runs.items()}, repeats)
    return {
        "seconds": seconds,
        "path over one fit": seconds["path"] / seconds["one fit"],
        "all fits over path": seconds["all fits"] / seconds["path"],
        "smallest cosine": smallest_cosine(found["path"], found["all fits"]),
    }


def main() -> None:
    options = arguments(__doc__)
    cases = [(data, k) for data in real_graphs() for k in (128, 64, 32)]
    cases.append((block_model(169_343, 1_166_243, n_features=128, n_classes=40, seed=0), 64))
    results = {}
    for data, k in cases:
        result = results[f"{data.name}, k={k}"] = compare(data, k, min(options.repeats, 3))
        times = "  ".join(f"{name} {value:.2f} s" for name, value in result["seconds"].items())
        print(
            f"{data.name:16s} k={k:<4d} {times}   path / one fit "
            f"{result['path over one fit']:.1f}   all fits / path "
            f"{result['all fits over path']:.1f}   cosine {result['smallest cosine']:.6f}",
            flush=True,
        )
    if options.save:
        save("path", results)


if __name__ == "__main__":
    main()
