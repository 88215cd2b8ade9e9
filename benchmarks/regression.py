"""R^2 of GPCARegressor next to a GCN, ridge regression, nearest neighbours and label propagation.

``python -m benchmarks.regression FOLDER`` prints the table of docs/guide-regress.md. The folder
has graphs as NAME.npz: ``indptr`` and ``indices`` of a symmetric CSR matrix, and the features as
``x_data``, ``x_indices``, ``x_indptr`` and ``x_shape`` of another one.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.linear_model import RidgeCV
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsRegressor, kneighbors_graph
from sklearn.preprocessing import StandardScaler, normalize
from sklearn.utils.extmath import randomized_svd

from gpcanet import GPCARegressor, Graph
from gpcanet.linalg import Propagation, Solver

GRAPHS = "acm,citeseer_full,twitch_ptbr,geometric"

#: Settings of the GCN; dropout is chosen on a fifth of the known values.
HIDDEN, LEARNING_RATE, WEIGHT_DECAY, EPOCHS, PATIENCE = 64, 0.01, 5e-4, 150, 25
DROPOUTS = (0.0, 0.5)


class Task(NamedTuple):
    """Features, target and graph."""

    X: Any
    y: np.ndarray
    graph: Graph


def geometric(n: int = 3000) -> Task:
    """A smooth function on a graph of neighbours in the plane; the features are noisy."""
    rng = np.random.default_rng(0)
    place = rng.random((n, 2))
    links = kneighbors_graph(place, 8)
    y = np.sin(5 * place[:, 0]) * np.cos(4 * place[:, 1]) + place[:, 0]
    y = y / y.std() + 0.3 * rng.standard_normal(n)
    X = np.hstack([0.3 * y[:, None] + rng.standard_normal((n, 5)), rng.standard_normal((n, 5))])
    return Task(X, y, Graph(links.maximum(links.T)))


def half_of_the_words(path: Path) -> Task:
    """The second singular vector of half of the features, to be predicted from the others."""
    with np.load(path) as file:
        n = len(file["indptr"]) - 1
        links = np.ones(len(file["indices"])), file["indices"], file["indptr"]
        words = file["x_data"].astype(float), file["x_indices"], file["x_indptr"]
        X = sp.csr_array(words, shape=tuple(file["x_shape"]))
        graph = Graph(sp.csr_array(links, shape=(n, n)))
    order = np.random.default_rng(0).permutation(X.shape[1])
    hidden, others = np.sort(order[: len(order) // 2]), np.sort(order[len(order) // 2 :])
    U, values, _ = randomized_svd(normalize(X[:, hidden]), 3, n_iter=5, random_state=0)
    y = U[:, 1] * values[1]
    return Task(sp.csr_array(X[:, others]), y / y.std(), graph)


def gpca(task: Task, known: np.ndarray) -> np.ndarray:
    y = np.full(len(task.y), np.nan)
    y[known] = task.y[known]
    return GPCARegressor().fit(task.X, y, graph=task.graph).fitted_values_


def gcn(task: Task, known: np.ndarray) -> np.ndarray:
    import torch
    from torch_geometric.nn import GCN
    from torch_geometric.utils import from_scipy_sparse_matrix

    x = torch.tensor(_scaled(task.X, dense=True), dtype=torch.float32)
    edges = from_scipy_sparse_matrix(task.graph.adjacency)[0]
    mean, scale = task.y[known].mean(), task.y[known].std()
    y = torch.tensor((task.y - mean) / scale, dtype=torch.float32)
    validation, train = known[: len(known) // 5], known[len(known) // 5 :]
    best, chosen = np.inf, np.zeros(len(task.y))
    for dropout in DROPOUTS:
        torch.manual_seed(0)
        net = GCN(x.shape[1], HIDDEN, 2, 1, dropout=dropout)
        adam = torch.optim.Adam(net.parameters(), lr=LEARNING_RATE, weight_decay=WEIGHT_DECAY)
        lowest, waited = np.inf, 0
        for _ in range(EPOCHS):
            net.train()
            adam.zero_grad()
            torch.mean((net(x, edges)[train, 0] - y[train]) ** 2).backward()
            adam.step()
            net.eval()
            with torch.no_grad():
                output = net(x, edges)[:, 0]
            error = float(torch.mean((output[validation] - y[validation]) ** 2))
            waited = 0 if error < lowest else waited + 1
            lowest = min(error, lowest)
            if error < best:
                best, chosen = error, output.numpy() * scale + mean
            if waited > PATIENCE:
                break
    return chosen


def ridge(task: Task, known: np.ndarray) -> np.ndarray:
    X = _scaled(task.X)
    rows = X[known].toarray() if sp.issparse(X) else X[known]
    model = RidgeCV(10.0 ** np.arange(-4, 5)).fit(rows, task.y[known])
    return np.asarray(X @ model.coef_ + model.intercept_)


def neighbors(task: Task, known: np.ndarray) -> np.ndarray:
    X = _scaled(task.X)
    search = GridSearchCV(KNeighborsRegressor(), {"n_neighbors": [3, 10, 30]}, cv=5)
    return np.asarray(search.fit(X[known], task.y[known]).predict(X))


def label_propagation(task: Task, known: np.ndarray) -> np.ndarray:
    """Smoothed values divided by smoothed indicators; alpha by cross-validation."""
    graph, y = task.graph, task.y[known] - task.y[known].mean()
    P = Propagation(graph.indptr, graph.indices, graph.weights, normalization="rw")
    folds = np.arange(len(known)) % 5

    def propagate(alpha: float, weights: np.ndarray) -> np.ndarray:
        block = np.zeros((graph.n_nodes, 2 * weights.shape[1]))
        block[known] = np.hstack([weights * y[:, None], weights])
        values, totals = np.hsplit(Solver(P, alpha).apply(block), 2)
        return np.asarray(values / np.maximum(totals, 1e-9))

    def error(alpha: float) -> float:
        left_out = propagate(alpha, (folds[:, None] != np.arange(5)).astype(float))
        return float(np.mean((y - left_out[known, folds]) ** 2))

    best = min((1.0, 5.0, 20.0, 100.0), key=error)
    return propagate(best, np.ones((len(known), 1)))[:, 0] + task.y[known].mean()


def _scaled(X: Any, *, dense: bool = False) -> Any:
    """Rows of unit norm if X is sparse, else columns of unit variance."""
    if not sp.issparse(X):
        return StandardScaler().fit_transform(X)
    return normalize(X).toarray() if dense else sp.csr_array(normalize(X))


METHODS: dict[str, Callable[[Task, np.ndarray], np.ndarray]] = {
    "`GPCARegressor()`": gpca,
    "GCN": gcn,
    "ridge": ridge,
    "neighbours": neighbors,
    "label propagation": label_propagation,
}


def table_row(name: str, task: Task, n_known: int, n_splits: int) -> str:
    """One line of the table: the mean R^2 of each method on the other nodes."""
    means = []
    for method in METHODS.values():
        found = []
        for seed in range(n_splits):
            order = np.random.default_rng(seed).permutation(len(task.y))
            known, others = order[:n_known], order[n_known:]
            found.append(r2_score(task.y[others], method(task, known)[others]))
        means.append(f"{100 * np.mean(found):.1f}")
    return f"| {name}, {n_known:,} | {' | '.join(means)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--graphs", default=GRAPHS)
    parser.add_argument("--known", default="200,1000")
    parser.add_argument("--splits", type=int, default=3)
    options = parser.parse_args()
    print(f"| graph, known values | {' | '.join(METHODS)} |\n|---|{'---:|' * len(METHODS)}")
    for name in options.graphs.split(","):
        path = options.folder / f"{name}.npz"
        task = geometric() if name == "geometric" else half_of_the_words(path)
        for n_known in map(int, options.known.split(",")):
            print(table_row(name, task, n_known, options.splits), flush=True)


if __name__ == "__main__":
    main()
