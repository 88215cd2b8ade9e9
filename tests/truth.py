"""Reference implementation of the formulas with dense numpy arrays, and random test data."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from gpcanet import Graph
from gpcanet.linalg import BlockOperator, Propagation

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


def degrees(graph: Graph) -> np.ndarray:
    return graph.adjacency.toarray().sum(axis=1) + 1.0


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


def dense_target_ghost(Y, D, normalization, ghost) -> np.ndarray:
    """The ghost edges of P for targets."""
    labeled = ~np.isnan(Y).all(axis=1)
    if ghost == "paper":
        Y = np.nan_to_num(Y)
        sums = (np.abs(Y) @ np.abs(Y).T).sum(axis=1)
        inverse = np.divide(1, sums, out=np.zeros_like(sums), where=sums > 0)
        if normalization == "rw":
            return np.diag(inverse) @ Y @ Y.T
        return np.diag(np.sqrt(inverse)) @ Y @ Y.T @ np.diag(np.sqrt(inverse))
    M = np.diag(D if normalization == "rw" else np.ones_like(D))
    known, Y = ~np.isnan(Y), np.nan_to_num(Y)
    means = (M @ Y).sum(axis=0) / (M @ known).sum(axis=0)
    B = labeled[:, None] * np.column_stack([np.ones(len(Y)), np.where(known, Y, means)])
    return B @ np.linalg.pinv(B.T @ M @ B) @ B.T @ M + np.diag((~labeled).astype(float))


def dense_ghost(labels, D, normalization, ghost) -> np.ndarray:
    """The ghost edges of P: class means of labelled nodes, in one of three forms."""
    if labels.ndim == 2:
        return dense_target_ghost(labels, D, normalization, ghost)
    labeled = labels >= 0
    Y = (labels[:, None] == np.unique(labels[labeled])[None, :]).astype(float)
    if normalization == "rw" and ghost == "balanced":
        G = Y @ np.linalg.inv(Y.T @ np.diag(D) @ Y) @ Y.T @ np.diag(D)
    else:
        G = Y @ Y.T
        sums = G.sum(axis=1)
        scale = np.divide(1, np.sqrt(sums), out=np.zeros_like(sums), where=sums > 0)
        G = scale[:, None] * G * scale[None, :]
    return G + np.diag((~labeled).astype(float)) if ghost == "balanced" else G


def dense_P(graph, normalization="sym", labels=None, beta=0.0, ghost="balanced") -> np.ndarray:
    A = graph.adjacency.toarray() + np.eye(graph.n_nodes)
    D = A.sum(axis=1)
    P = A / np.sqrt(np.outer(D, D)) if normalization == "sym" else A / D[:, None]
    if beta == 0:
        return P
    labels = np.full(len(D), -1) if labels is None else labels
    return (1 - beta) * P + beta * dense_ghost(labels, D, normalization, ghost)


def dense_system(P, alpha) -> np.ndarray:
    identity = np.eye(len(P))
    return identity + alpha * (identity - P)


def dense_solve(P, alpha, X) -> np.ndarray:
    return np.linalg.inv(dense_system(P, alpha)) @ X


def row_weights(graph, normalization) -> np.ndarray:
    """Row weights of the objective: ones for sym, degrees for rw."""
    return np.ones(graph.n_nodes) if normalization == "sym" else degrees(graph)


def dense_components(X, P, alpha, k, weights) -> tuple[np.ndarray, np.ndarray]:
    """The k largest eigenvalues and eigenvectors of the symmetrised X^T D (I + alpha L)^-1 X."""
    M = X.T @ (weights[:, None] * dense_solve(P, alpha, X))
    values, vectors = np.linalg.eigh((M + M.T) / 2)
    return values[::-1][:k], vectors[:, ::-1][:, :k]


def objective(X, Z, W, P, alpha, weights) -> float:
    """||X - Z W^T||^2 + alpha tr(Z^T L Z), rows weighted."""
    LZ = Z - P @ Z
    error = (weights[:, None] * (X - Z @ W.T) ** 2).sum()
    return float(error + alpha * (weights[:, None] * Z * LZ).sum())


def same_subspace(W, W0) -> float:
    """Largest sine of an angle between the subspaces spanned by two orthonormal bases."""
    return float(np.linalg.norm(W @ W.T - W0 @ W0.T, 2))


def align_signs(Z, Z0) -> np.ndarray:
    """Z with the sign of each column chosen to match the same column of Z0."""
    return Z * np.where((Z * Z0).sum(axis=0) < 0, -1.0, 1.0)


def propagation(graph: Graph, **options) -> Propagation:
    return Propagation(graph.indptr, graph.indices, graph.weights, **options)


def column_norms(block, normalization) -> np.ndarray:
    """The norm of each column in which errors are bounded: 2-norm for sym, maximum for rw."""
    return np.linalg.norm(block, axis=0, ord=2 if normalization == "sym" else np.inf)


class MatrixOperator(BlockOperator):
    """P given as a symmetric matrix of any library that has ``@``."""

    def __init__(self, matrix):
        self.matrix = matrix

    def matmul(self, F):
        return self.matrix @ F
