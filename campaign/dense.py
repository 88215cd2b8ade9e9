"""The formulas of the paper with dense numpy arrays: the truth of the campaign and the tests."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpcanet import Graph


def degrees(graph: Graph) -> np.ndarray:
    return graph.adjacency.toarray().sum(axis=1) + 1.0


def dense_target_ghost(Y: np.ndarray, D: np.ndarray, normalization: str, ghost: str) -> np.ndarray:
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


def dense_ghost(labels: np.ndarray, D: np.ndarray, normalization: str, ghost: str) -> np.ndarray:
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


def dense_P(
    graph: Graph,
    normalization: str = "sym",
    labels: np.ndarray | None = None,
    beta: float = 0.0,
    ghost: str = "balanced",
) -> np.ndarray:
    A = graph.adjacency.toarray() + np.eye(graph.n_nodes)
    D = A.sum(axis=1)
    P = A / np.sqrt(np.outer(D, D)) if normalization == "sym" else A / D[:, None]
    if beta == 0:
        return P
    labels = np.full(len(D), -1) if labels is None else labels
    return (1 - beta) * P + beta * dense_ghost(labels, D, normalization, ghost)


def dense_system(P: np.ndarray, alpha: float) -> np.ndarray:
    identity = np.eye(len(P))
    return identity + alpha * (identity - P)


def dense_solve(P: np.ndarray, alpha: float, X: np.ndarray) -> np.ndarray:
    return np.linalg.inv(dense_system(P, alpha)) @ X


def row_weights(graph: Graph, normalization: str) -> np.ndarray:
    """Row weights of the objective: ones for sym, degrees for rw."""
    return np.ones(graph.n_nodes) if normalization == "sym" else degrees(graph)


def dense_components(
    X: np.ndarray, P: np.ndarray, alpha: float, k: int, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The k largest eigenvalues and eigenvectors of the symmetrised X^T D (I + alpha L)^-1 X."""
    M = X.T @ (weights[:, None] * dense_solve(P, alpha, X))
    values, vectors = np.linalg.eigh((M + M.T) / 2)
    return values[::-1][:k], vectors[:, ::-1][:, :k]


def objective(
    X: np.ndarray, Z: np.ndarray, W: np.ndarray, P: np.ndarray, alpha: float, weights: np.ndarray
) -> float:
    """||X - Z W^T||^2 + alpha tr(Z^T L Z), rows weighted."""
    LZ = Z - P @ Z
    error = (weights[:, None] * (X - Z @ W.T) ** 2).sum()
    return float(error + alpha * (weights[:, None] * Z * LZ).sum())


def same_subspace(W: np.ndarray, W0: np.ndarray) -> float:
    """Largest sine of an angle between the subspaces spanned by two orthonormal bases."""
    return float(np.linalg.norm(W @ W.T - W0 @ W0.T, 2))


def column_norms(block: np.ndarray, normalization: str) -> np.ndarray:
    """The norm of each column in which errors are bounded: 2-norm for sym, maximum for rw."""
    return np.linalg.norm(block, axis=0, ord=2 if normalization == "sym" else np.inf)


def dense_harmonic(graph: Graph, X: np.ndarray, fallback: Any = np.mean) -> np.ndarray:
    """Solve L_uu f_u = -L_uk f_k for each column and component; columns have a known value."""
    A = graph.adjacency.toarray()
    L = np.diag(A.sum(axis=1)) - A
    reach = np.linalg.matrix_power((A > 0) + np.eye(len(A)), len(A)) > 0
    filled = X.copy()
    for j in range(X.shape[1]):
        known = ~np.isnan(X[:, j])
        connected = reach[:, known].any(axis=1)
        u = ~known & connected
        filled[~known, j] = fallback(X[known, j])
        filled[u, j] = np.linalg.solve(L[np.ix_(u, u)], -L[np.ix_(u, known)] @ X[known, j])
    return filled
