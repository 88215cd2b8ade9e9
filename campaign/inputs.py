"""Random graphs, features and labels of a case, including degenerate ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from gpcanet import Graph

Rng = np.random.Generator

#: Powers of ten by which features are scaled.
SCALES = (-12, -3, 0, 0, 0, 3, 12)


def choose(rng: Rng, *choices: Any) -> Any:
    return choices[int(rng.integers(len(choices)))]


def random_size(rng: Rng) -> int:
    """Number of nodes: mostly tens, sometimes 2 or 3, sometimes hundreds."""
    return int(choose(rng, 2, 3, *[rng.integers(4, 60)] * 12, rng.integers(60, 400)))


def random_graph(rng: Rng, n: int) -> Graph:
    """A graph of a random kind, half of them weighted."""
    kind = choose(
        rng, "random", "random", "dense", "star", "path", "cycle", "complete", "bipartite",
        "hubs", "parts", "isolated", "empty",
    )  # fmt: skip
    pairs = _pairs(rng, n, kind)
    pairs = pairs[:, pairs[0] != pairs[1]]
    weights = None
    if rng.random() < 0.5:
        weights = rng.uniform(0.1, 3.0, pairs.shape[1]) * 10.0 ** int(choose(rng, -3, 0, 0, 3))
    return Graph.from_edge_index(pairs, weights, n_nodes=n, each_once=True)


def _pairs(rng: Rng, n: int, kind: str) -> np.ndarray:
    nodes = rng.permutation(n)
    if kind in ("random", "dense"):
        return rng.integers(0, n, (2, int(n * rng.uniform(0.5, 3 if kind == "random" else 12))))
    if kind == "star":
        return np.stack([np.full(n, nodes[0]), nodes])
    if kind == "path":
        return np.stack([nodes[:-1], nodes[1:]])
    if kind == "cycle":
        return np.stack([nodes, np.roll(nodes, 1)])
    if kind == "complete":
        some = nodes[: min(n, 40)]
        return np.stack([np.repeat(some, len(some)), np.tile(some, len(some))])
    if kind == "bipartite":
        left, right = np.array_split(nodes, 2)
        if len(right) == 0:
            return np.empty((2, 0), np.int64)
        return np.stack([rng.choice(left, 2 * n), rng.choice(right, 2 * n)])
    if kind == "hubs":
        hubs = nodes[: max(1, n // 20)]
        return np.stack([rng.choice(hubs, 3 * n), rng.integers(0, n, 3 * n)])
    if kind == "parts":
        parts = np.array_split(nodes, min(n, 5))
        return np.hstack([part[rng.integers(0, len(part), (2, 2 * len(part)))] for part in parts])
    if kind == "isolated":
        some = nodes[: max(1, n // 2)]
        return some[rng.integers(0, len(some), (2, n))]
    return np.empty((2, 0), np.int64)


def random_features(rng: Rng, n: int) -> Any:
    """Features of a random kind and dtype, dense or sparse."""
    d = int(choose(rng, 1, 2, *[rng.integers(2, 30)] * 6, rng.integers(30, 200)))
    kind = choose(rng, "normal", "normal", "counts", "boolean", "constant", "deficient", "offset")
    X = rng.standard_normal((n, d)) * rng.uniform(0.2, 3.0, d)
    if kind == "counts":
        X = rng.poisson(0.5, (n, d)).astype(float)
    elif kind == "boolean":
        X = (rng.random((n, d)) < 0.2).astype(float)
    elif kind == "constant":
        X[:, rng.random(d) < 0.5] = choose(rng, 0.0, 7.0)
    elif kind == "deficient":
        rank = max(1, d // 3)
        X = X[:, :rank] @ rng.standard_normal((rank, d))
    elif kind == "offset":
        X += rng.uniform(-100, 100, d)
    X = X * 10.0 ** int(choose(rng, *SCALES))
    X = X.astype(choose(rng, np.float64, np.float64, np.float32))
    form = choose(rng, "dense", "dense", "fortran", "csr", "csc", "integer")
    if form == "fortran":
        return np.asfortranarray(X)
    if form == "integer":
        return np.clip(np.round(X), -1000, 1000).astype(np.int64)
    if form in ("csr", "csc"):
        X[rng.random((n, d)) < 0.6] = 0
        return sp.csr_array(X) if form == "csr" else sp.csc_array(X)
    return X


def random_labels(rng: Rng, n: int) -> np.ndarray:
    """Classes of some nodes, -1 for the others; sometimes one class, or a single label."""
    labels = rng.integers(0, int(choose(rng, 1, 2, 3, 7)), n)
    labels[rng.random(n) < float(choose(rng, 0.0, 0.5, 0.9, 1.0))] = -1
    labels[int(rng.integers(n))] = 0
    return labels


def to_dense(X: Any) -> np.ndarray:
    return np.asarray(X.toarray() if sp.issparse(X) else X, dtype=np.float64)
