"""The fits that are compared on large graphs, from arrays in memory to Z."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from gpcanet.datasets import block_model
from gpcanet.estimators import _memory as budget
from gpcanet.estimators import gpca
from gpcanet.graph import Graph
from gpcanet.linalg.operators import propagation
from gpcanet.linalg.solvers import base as solve

from .plain import ALPHA, N_STEPS, scipy_embedding, torch_embedding

Fit = Callable[[Graph, np.ndarray, int], np.ndarray]

EXACT_TOL = 1e-4


def _gpca(graph: Graph, X: np.ndarray, k: int, **settings: Any) -> np.ndarray:
    return gpca.GPCA(k, alpha=ALPHA, **settings).fit_transform(X, graph=graph)


def _plain(embedding: Callable[..., np.ndarray], graph: Graph, X: np.ndarray, k: int) -> np.ndarray:
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
    "torch CSR, 5 steps": partial(_plain, torch_embedding),
    "scipy CSR, 5 steps": partial(_plain, scipy_embedding),
}


def warm_up(fit: Fit, n_features: int) -> None:
    """Have everything compiled or loaded that the fit may use, whatever the size of its graph."""
    data = block_model(400, 1_000, n_features=n_features)
    X = np.asarray(data.X)
    for is_large in (False, True):
        with _as_if(is_large):
            fit(data.graph, X, 2)


@contextmanager
def _as_if(is_large: bool) -> Iterator[None]:
    """Treat a small graph as a medium or large one: compiled steps, and nodes laid out anew.

    On a large one, full precision is made of half as well.
    """
    before = propagation.FUSED_WORK, budget.reordering_pays, solve.DIRECT_NODES
    refined_bytes = solve.REFINED_BYTES
    propagation.FUSED_WORK, solve.DIRECT_NODES = 0, 0
    budget.reordering_pays = lambda *_: is_large
    solve.REFINED_BYTES = 0 if is_large else refined_bytes
    try:
        yield
    finally:
        propagation.FUSED_WORK, budget.reordering_pays, solve.DIRECT_NODES = before
        solve.REFINED_BYTES = refined_bytes
