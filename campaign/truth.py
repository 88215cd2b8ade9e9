"""Random fits against the dense formulas of the paper."""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from gpcanet import (
    GPCA,
    GPCAClassifier,
    GPCAPath,
    GPCARegressor,
    Graph,
    GraphImputer,
    load_model,
    save_model,
)

from .dense import column_norms, dense_harmonic, dense_P, dense_solve, objective, row_weights
from .inputs import (
    Rng,
    choose,
    random_features,
    random_graph,
    random_labels,
    random_size,
    to_dense,
)

#: Rounding errors of sums, in units of the machine precision, relative to the largest terms.
ROUNDING = 200.0

#: Relative error of F in half precision is at most this times 2 + alpha, as documented.
HALF_ERROR = 6e-4


class Problem(NamedTuple):
    """The input of a fit, and what the dense formulas need."""

    X: Any
    graph: Graph
    labels: np.ndarray
    options: dict[str, Any]

    @property
    def centered(self) -> np.ndarray:
        X = to_dense(self.X)
        return X - X.mean(axis=0)

    @property
    def alpha(self) -> float:
        return float(self.options["alpha"])

    @property
    def normalization(self) -> str:
        return str(self.options["normalization"])

    @property
    def eps(self) -> float:
        half = self.options.get("precision") == "half"
        single = half or getattr(self.X, "dtype", None) == np.float32
        return float(np.finfo(np.float32 if single else np.float64).eps)

    def propagation(self, graph: Graph | None = None, labels: np.ndarray | None = None) -> Any:
        names = ("normalization", "beta", "ghost")
        ghosts: Any = {name: self.options[name] for name in names}
        labels = self.labels if graph is None else labels
        return dense_P(graph or self.graph, labels=labels, **ghosts)


def random_problem(rng: Rng) -> Problem:
    n = random_size(rng)
    X, graph = random_features(rng, n), random_graph(rng, n)
    options: dict[str, Any] = {
        "alpha": float(choose(rng, 0.0, 0.1, 1.0, 10.0, 50.0, rng.uniform(0, 200))),
        "beta": float(choose(rng, 0.0, 0.0, 0.1, 0.5, 1.0, rng.random())),
        "normalization": choose(rng, "sym", "sym", "rw"),
        "ghost": choose(rng, "balanced", "paper"),
    }
    return Problem(X, graph, random_labels(rng, n), options)


def random_solver(rng: Rng, problem: Problem) -> dict[str, Any]:
    """Parameters of GPCA that change how a result is computed, not the result."""
    d, n = problem.X.shape[1], problem.X.shape[0]
    k = int(rng.integers(1, min(n, d) + 1))
    options: dict[str, Any] = {"n_components": k}
    options["solver"] = choose(rng, "auto", "auto", "direct", "chebyshev", "cg", "fixed-point")
    symmetric = problem.normalization == "sym" or problem.options["ghost"] == "balanced"
    can_iterate = symmetric and k < min(n, d)
    options["eigen_solver"] = choose(rng, "auto", "formed", "lanczos" if can_iterate else "auto")
    options["max_iter"] = 20_000  # the fixed point needs thousands of steps at a large alpha
    if rng.random() < 0.2:
        options["memory_limit"] = "1GiB"
    if rng.random() < 0.2 and symmetric and options["solver"] in ("auto", "chebyshev"):
        options |= {"precision": "half", "eigen_solver": "formed"}
    elif rng.random() < 0.3 and problem.eps < 1e-10:
        options["tol"] = float(choose(rng, 1e-3, 1e-9))
    return options


def relative_error(problem: Problem, model: GPCA) -> float:
    """Largest relative error of a column of (I + alpha L)^-1 X that is promised."""
    tol = model.tol or (1e-5 if problem.eps > 1e-10 else 1e-6)
    if model.precision == "half" and problem.alpha <= 50:
        tol = max(tol, HALF_ERROR * (2 + problem.alpha))
    return float(tol)


def check_embedding(problem: Problem, model: GPCA, Z: np.ndarray) -> None:
    """W, eigenvalues, Z and objective of a fit against the dense formulas."""
    X, W, alpha = problem.centered, model.components_.T.astype(np.float64), problem.alpha
    P, weights = problem.propagation(), row_weights(problem.graph, problem.normalization)
    tol, rounding = relative_error(problem, model), ROUNDING * problem.eps
    # Rounding of X - mean is relative to X, not to the difference.
    size = np.abs(to_dense(problem.X)).max(initial=0.0)
    assert np.abs(W.T @ W - np.eye(W.shape[1])).max() < rounding, "W is not orthonormal"

    expected = dense_solve(P, alpha, X @ W)
    norms = column_norms(X, problem.normalization)
    growth = np.linalg.norm(np.linalg.inv(np.eye(len(P)) * (1 + alpha) - alpha * P), 2)
    allowed = growth * (tol * (norms @ np.abs(W)) + rounding * size * np.sqrt(X.size))
    error = column_norms(Z - expected, problem.normalization)
    assert (error <= allowed + 1e-300).all(), f"Z: {np.max(error / (allowed + 1e-300)):.2f}"

    M = X.T @ (weights[:, None] * dense_solve(P, alpha, X))
    M = (M + M.T) / 2
    scale = np.linalg.norm(np.sqrt(weights)[:, None] * X) ** 2 * growth
    spread = np.sqrt(weights.max() / weights.min())
    bound = spread * tol * scale + rounding * (scale + weights.sum() * size**2 * X.shape[1])
    values = np.linalg.eigvalsh(M)[::-1][: W.shape[1]]
    error = np.abs(model.eigenvalues_ - values).max()
    assert error <= bound + 1e-300, f"eigenvalues: {error / (bound + 1e-300):.2f} of the bound"
    residual = np.abs(M @ W - W * model.eigenvalues_).max()
    assert residual <= 4 * bound + 1e-300, f"eigenvectors: {residual / (bound + 1e-300):.2f}"

    if problem.options["beta"] == 0 or problem.options["ghost"] == "balanced":
        value = objective(X, Z.astype(np.float64), W, P, alpha, weights)
        error = abs(model.objective_ - value)
        assert error <= 4 * bound + 1e-300, f"objective: {error / (bound + 1e-300):.2f}"


def quietly(function: Any, *args: Any, **options: Any) -> Any:
    """Call a function that may warn that it has not converged."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return function(*args, **options)


def check_gpca(rng: Rng) -> str:
    """A fit of GPCA with random parameters."""
    problem = random_problem(rng)
    problem.options.update(random_solver(rng, problem))
    model = GPCA(**problem.options)
    labels = problem.labels if problem.options["beta"] > 0 else None
    Z = quietly(model.fit_transform, problem.X, labels, graph=problem.graph)
    if model.residual_ > relative_error(problem, model):
        return "gpca, warned"
    check_embedding(problem, model, Z)
    return "gpca"


def check_truncation(rng: Rng) -> str:
    """A fixed number of steps, as in the paper."""
    problem, n_iter = random_problem(rng), int(rng.integers(1, 12))
    k = int(rng.integers(1, min(problem.X.shape) + 1))
    model = GPCA(k, **problem.options, solver="fixed-point", n_iter=n_iter)
    Z = model.fit_transform(problem.X, problem.labels, graph=problem.graph)
    X, alpha, P = problem.centered, problem.alpha, problem.propagation()
    F = X
    for _ in range(n_iter):
        F = alpha / (1 + alpha) * P @ F + X / (1 + alpha)
    weights = row_weights(problem.graph, problem.normalization)
    W = model.components_.T.astype(np.float64)
    size = np.abs(to_dense(problem.X)).max(initial=0.0)
    rounding = ROUNDING * problem.eps * max(1, n_iter) * np.linalg.norm(P, 2) ** n_iter
    allowed = rounding * size * np.sqrt(X.size) + 1e-300
    error = np.abs(Z - F @ W).max()
    assert error <= allowed, f"Z: {error / allowed:.2f}"
    M = X.T @ (weights[:, None] * F)
    values = np.linalg.eigvalsh((M + M.T) / 2)[::-1][:k]
    allowed = rounding * weights.sum() * size**2 * X.shape[1] + 1e-300
    error = np.abs(model.eigenvalues_ - values).max()
    assert error <= allowed, f"eigenvalues: {error / allowed:.2f}"
    return "truncation"


def check_transform(rng: Rng) -> str:
    """Transform of some training nodes, and of another graph."""
    problem = random_problem(rng)
    n, d = problem.X.shape
    model = GPCA(int(rng.integers(1, min(n, d) + 1)), **problem.options, keep_training_nodes=True)
    nodes = np.arange(n)
    Z = quietly(model.fit_transform, problem.X, problem.labels, graph=problem.graph, nodes=nodes)
    if model.residual_ > relative_error(problem, model):
        return "transform, warned"
    some = rng.permutation(n)[: int(rng.integers(1, n + 1))]
    X = problem.X.tocsr() if hasattr(problem.X, "tocsr") else problem.X
    again = quietly(model.transform, X[some], graph=problem.graph, nodes=some)
    size = np.abs(to_dense(X)).max(initial=0.0)
    tol = 2 * relative_error(problem, model) + ROUNDING * problem.eps
    growth = np.linalg.norm(dense_solve(problem.propagation(), problem.alpha, np.eye(n)), 2)
    allowed = growth * tol * size * np.sqrt(2 * n * d) + 1e-300
    error = np.abs(again - Z[some]).max()
    assert error <= allowed, f"some nodes: {error / allowed:.2f}"

    other = random_graph(rng, n)
    if other == problem.graph:
        return "transform"
    fresh = GPCA(model.n_components, **problem.options)
    quietly(fresh.fit, problem.X, problem.labels, graph=problem.graph)
    # The labels of fit are used again on a graph that contains the graph of fit.
    edges = problem.graph.adjacency.toarray()
    there = np.where(edges > 0, other.adjacency.toarray(), 0)
    contained = problem.graph.n_edges > 0 and np.array_equal(there, edges)
    P = problem.propagation(other, problem.labels if contained else np.full(n, -1))
    expected = dense_solve(P, problem.alpha, problem.centered) @ fresh.components_.T
    error = np.abs(quietly(fresh.transform, problem.X, graph=other) - expected).max()
    growth = np.linalg.norm(dense_solve(P, problem.alpha, np.eye(n)), 2)
    allowed = growth * tol * size * np.sqrt(2 * n * d) + 1e-300
    assert error <= allowed, f"another graph: {error / allowed:.2f}"
    return "transform"


def check_path(rng: Rng) -> str:
    """Every pair of a GPCAPath against the dense formulas."""
    problem = random_problem(rng)
    n, d = problem.X.shape
    alphas = sorted({problem.alpha, *(float(a) for a in rng.uniform(0.1, 60, 2))})
    betas = sorted({0.0, problem.options["beta"]})
    options = {name: problem.options[name] for name in ("normalization", "ghost")}
    k = int(rng.integers(1, min(n, d) + 1))
    path = GPCAPath(k, alphas=alphas, betas=betas, **options)
    quietly(path.fit, problem.X, problem.labels, graph=problem.graph)
    alpha = float(choose(rng, *alphas, rng.uniform(alphas[0], alphas[-1])))
    beta = float(choose(rng, *betas))
    model, Z = quietly(path.fitted, alpha, beta)
    one = problem._replace(options={**options, "alpha": alpha, "beta": beta})
    if model.residual_ > relative_error(one, model):
        return "path, warned"
    check_embedding(one, model, Z)
    return f"path, {path.strategy_}"


def check_permutation(rng: Rng) -> str:
    """The order of nodes and columns does not matter to GPCA."""
    problem = random_problem(rng)
    n, d = problem.X.shape
    X = problem.X.tocsr() if hasattr(problem.X, "tocsr") else problem.X
    rows, columns = rng.permutation(n), rng.permutation(d)
    k = int(rng.integers(1, min(n, d) + 1))
    moved = problem._replace(
        X=X[rows][:, columns],
        graph=problem.graph.subgraph(rows),
        labels=problem.labels[rows],
    )
    for one in (problem, moved):
        model = GPCA(k, **problem.options)
        Z = quietly(model.fit_transform, one.X, one.labels, graph=one.graph)
        if model.residual_ > relative_error(one, model):
            return "permutation, warned"
        check_embedding(one, model, Z)
        if one is problem:
            first = model
    size = np.abs(to_dense(X)).max(initial=0.0)
    weights = row_weights(problem.graph, problem.normalization)
    tol = relative_error(problem, model) + ROUNDING * problem.eps
    allowed = 4 * tol * weights.sum() * size**2 * d * (1 + problem.alpha) + 1e-300
    error = np.abs(first.eigenvalues_ - model.eigenvalues_).max()
    assert error <= allowed, f"eigenvalues: {error / allowed:.2f}"
    return "permutation"


def check_imputer(rng: Rng) -> str:
    """GraphImputer against a dense solve."""
    n = int(rng.integers(2, 60))
    graph, X = random_graph(rng, n), rng.standard_normal((n, int(rng.integers(1, 8))))
    X *= 10.0 ** int(choose(rng, -12, 0, 0, 12))
    X[rng.random(X.shape) < rng.uniform(0, 0.95)] = np.nan
    X[int(rng.integers(n))] = rng.standard_normal(X.shape[1])
    fallback = choose(rng, "mean", "median")
    filled = GraphImputer(fallback=fallback, tol=1e-12).fit_transform(X, graph=graph)
    expected = dense_harmonic(graph, X, getattr(np, fallback))
    known = ~np.isnan(X)
    assert np.array_equal(filled[known], X[known]), "known values changed"
    # The inverse of L_uu amplifies residuals by up to n^2 times the range of weights.
    allowed = 1e-5 * np.nanmax(np.abs(X))
    error = np.abs(filled - expected).max()
    assert error <= allowed, f"filled values: {error / allowed:.2f}"
    return "imputer"


def check_graph(rng: Rng) -> str:
    """The same edges from many sources make the same graph."""
    import networkx
    import scipy.sparse as sp

    n = int(rng.integers(1, 40))
    graph = random_graph(rng, n)
    A = graph.adjacency
    coo = sp.coo_array(A)
    upper = coo.row < coo.col
    order = rng.permutation(int(upper.sum()))
    once = np.stack([coo.row, coo.col])[:, upper][:, order]
    weights = None if graph.weights is None else coo.data[upper][order]
    once = np.where(rng.random(once.shape[1]) < 0.5, once, once[::-1])
    table = {"source": once[0], "target": once[1]}
    table |= {} if weights is None else {"weight": weights}
    found = {
        "dense": Graph(A.toarray()),
        "csr": Graph(A),
        "csc": Graph(A.tocsc()),
        "coo": Graph(coo),
        "csr arrays": Graph.from_csr(A.indptr, A.indices, None if weights is None else A.data),
        "edge_index": Graph.from_edge_index(
            np.stack([coo.row, coo.col]), None if weights is None else coo.data, n_nodes=n
        ),
        "each once": Graph.from_edge_index(once, weights, n_nodes=n, each_once=True),
        "networkx": Graph.from_networkx(networkx.from_scipy_sparse_array(A)),
        "subgraph": graph.subgraph(np.arange(n)),
    }
    named = Graph.from_edges(table, nodes=np.arange(n))
    found["table"] = Graph.from_csr(named.indptr, named.indices, named.weights)
    for source, other in found.items():
        same = np.allclose(other.adjacency.toarray(), A.toarray(), rtol=1e-15, atol=0)
        assert same, f"{source} differs"
    return "graph"


def check_saved_model(rng: Rng) -> str:
    """A saved and loaded model gives the same bytes."""
    problem = random_problem(rng)
    if problem.graph.n_edges == 0:  # is not recognised as the graph of fit (decision record 11)
        problem.options["beta"] = 0.0
    k = int(rng.integers(1, min(problem.X.shape) + 1))
    model = GPCA(k, **problem.options, keep_training_nodes=bool(rng.random() < 0.5))
    quietly(model.fit, problem.X, problem.labels, graph=problem.graph)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.safetensors"
        save_model(model, path)
        loaded = load_model(path)
    first = quietly(model.transform, problem.X, graph=problem.graph)
    again = quietly(loaded.transform, problem.X, graph=problem.graph)
    assert first.tobytes() == again.tobytes(), "the loaded model differs"
    return "saved model"


def check_predictors(rng: Rng) -> str:
    """The order of nodes and the names of classes do not matter to classifier and regressor."""
    n = int(rng.integers(40, 120))
    graph, X = random_graph(rng, n), rng.standard_normal((n, 6))
    order = rng.permutation(n)
    moved = graph.subgraph(order)
    settings: dict[str, Any] = {"n_components": 4, "alpha": [2.0, 10.0]}
    if rng.random() < 0.5:
        y = np.where(rng.random(n) < 0.5, X[:, 0] + 0.1 * rng.standard_normal(n), np.nan)
        y[:10] = X[:10, 0]
        made = [
            GPCARegressor(**settings).fit(X[rows], y[rows], graph=one).fitted_values_
            for rows, one in ((np.arange(n), graph), (order, moved))
        ]
        np.testing.assert_allclose(made[1], made[0][order], atol=0.02 * float(np.nanstd(y)))
        return "regressor, permuted"
    y = (X[:, 0] > 0).astype(int) + (X[:, 1] > 0.5)
    y[rng.random(n) < 0.4] = -1
    y[:9] = np.arange(9) % 3
    names = rng.permutation(3)
    settings |= {"feature_scaling": "l2", "boosting": False, "statistics": False, "C": 1.0}
    nodes = np.arange(n)
    first = GPCAClassifier(**settings).fit(X, y, graph=graph, nodes=nodes)
    renamed = np.where(y >= 0, names[y], -1)
    other = GPCAClassifier(**settings).fit(X[order], renamed[order], graph=graph, nodes=order)
    np.testing.assert_allclose(
        other.label_distributions_[:, names], first.label_distributions_[order], atol=0.02
    )
    return "classifier, permuted"
