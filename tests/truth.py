"""Random test data, and the dense formulas of the campaign."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from campaign.dense import (  # noqa: F401
    column_norms,
    degrees,
    dense_components,
    dense_ghost,
    dense_P,
    dense_solve,
    dense_system,
    dense_target_ghost,
    objective,
    row_weights,
    same_subspace,
)
from gpcanet import Graph
from gpcanet.linalg import Propagation

#: Options of ``random_graph`` for the kinds of graphs that every method must handle.
KINDS = {
    "plain": {},
    "weighted": {"weighted": True},
    "disconnected": {"parts": 3},
    "isolated": {"parts": 2, "isolated": 4, "weighted": True},
}

#: Pairs of beta and ghost form. The form does not matter without ghost edges.
GHOSTS = [(0.0, "balanced"), (0.1, "balanced"), (0.1, "paper"), (0.5, "balanced"), (0.5, "paper")]


def random_graph(n=40, *, weighted=False, parts=1, isolated=0, seed=0) -> Graph:
    """Connected parts with random edges, and isolated nodes, in random order."""
    rng = np.random.default_rng(seed)
    A = np.zeros((n, n))
    for members in np.array_split(rng.permutation(n)[isolated:], parts):
        m = len(members)
        path = np.column_stack([members[:-1], members[1:]])
        chords = members[rng.integers(0, m, (2 * m, 2))]
        for i, j in np.vstack([path, chords]):
            if i != j:
                A[i, j] = A[j, i] = rng.uniform(0.1, 3.0) if weighted else 1.0
    return Graph(A)


def random_features(n=40, d=6, seed=1) -> np.ndarray:
    """Columns of different variance, so that eigenvalues are distinct, with nonzero means."""
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, d)) * np.linspace(3, 1, d) + rng.uniform(-2, 2, d)


def word_counts(n, width=1100, seed=5) -> sp.csr_array:
    """Sparse features with many columns and some structure."""
    rng = np.random.default_rng(seed)
    topics = rng.gamma(0.2, size=(8, width))
    shares = rng.dirichlet(np.full(8, 0.3), n) @ (topics / topics.sum(axis=1, keepdims=True))
    return sp.csr_array((rng.random((n, width)) < 20 * shares).astype(float))


def random_labels(n=40, classes=3, seed=2) -> np.ndarray:
    """Labels of about half of the nodes, every class at least once; -1 for unlabelled nodes."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, n)
    labels[rng.random(n) < 0.5] = -1
    labels[rng.choice(n, classes, replace=False)] = np.arange(classes)
    return labels


def random_targets(n=40, t=2, *, kind="signed", seed=2) -> np.ndarray:
    """Targets of about half of the nodes, some only in part; NaN where unknown."""
    rng = np.random.default_rng(seed)
    Y = rng.standard_normal((n, t)) * np.linspace(1, 30, t) + 5
    if kind == "indicators":
        Y = (rng.random((n, t)) < 0.4).astype(float)
    Y[rng.random((n, t)) < 0.1] = np.nan
    Y[rng.random(n) < 0.5] = np.nan
    Y[:3] = rng.integers(0, 2, (3, t))
    return Y


def align_signs(Z, Z0) -> np.ndarray:
    """Z with the sign of each column chosen to match the same column of Z0."""
    return Z * np.where((Z * Z0).sum(axis=0) < 0, -1.0, 1.0)


def propagation(graph: Graph, **options) -> Propagation:
    return Propagation(graph.indptr, graph.indices, graph.weights, **options)
