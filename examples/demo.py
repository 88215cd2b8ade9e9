"""Embed and classify a graph in seconds: features alone, the graph alone, and GPCA.

Uses Cora where its files are at hand (the folder that GPCANET_DATA_DIR names), and otherwise
scikit-learn's digits with a nearest-neighbour graph, which need nothing. Prints a table and
draws the embeddings to demo.png.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.manifold import TSNE

from gpcanet import GPCA, GPCAClassifier
from gpcanet.datasets import Dataset, load_planetoid, neighbor_graph
from gpcanet.linalg import Propagation, Solver

PICTURE = Path("demo.png")

# Table 1 of the paper: test accuracy of GPCA on Cora over alpha.
PUBLISHED_ON_CORA = {1.0: 72.57, 5.0: 80.95, 10.0: 82.23, 20.0: 82.05, 50.0: 81.10}


def load() -> Dataset:
    try:
        return load_planetoid("cora")
    except FileNotFoundError as reason:
        print(f"Without Cora ({reason}):\nscikit-learn's digits, each joined to its neighbours.\n")
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    train = np.concatenate([order[y[order] == digit][:5] for digit in range(10)])
    rest = order[~np.isin(order, train)]
    return Dataset("digits", neighbor_graph(X), X, y, train, rest[:300], rest[300:])


def spread_labels(data: Dataset) -> np.ndarray:
    """The graph alone: training labels smoothed over it."""
    one_hot = np.zeros((data.graph.n_nodes, data.y.max() + 1))
    one_hot[data.train, data.y[data.train]] = 1
    P = Propagation(data.graph.indptr, data.graph.indices)
    return np.asarray(Solver(P, alpha=10.0).solve(one_hot).F.argmax(axis=1))


def classify(data: Dataset, model: GPCAClassifier, *, use_graph: bool = True) -> np.ndarray:
    graph = data.graph if use_graph else None
    model.fit(data.X, data.visible_labels(), graph=graph, validation=data.validation)
    return model.transduction_


def show(data: Dataset, title: str, run: Callable[[], np.ndarray], published: str = "") -> None:
    start = time.perf_counter()
    predicted = run()
    seconds = time.perf_counter() - start
    accuracy = 100 * np.mean(predicted[data.test] == data.y[data.test])
    print(f"  {title:31s} {accuracy:7.1f} {published:>9s} {seconds:9.1f} s", flush=True)


def compare(data: Dataset) -> None:
    published = PUBLISHED_ON_CORA if data.name == "cora" else {}
    print(f"  {'test accuracy, %':31s} {'here':>7s} {'paper' if published else '':>9s}")
    show(
        data,
        "features alone (PCA)",
        lambda: classify(
            data, GPCAClassifier(alpha=0.0, correct_and_smooth=False), use_graph=False
        ),
    )
    show(data, "graph alone (label propagation)", lambda: spread_labels(data))
    for alpha in PUBLISHED_ON_CORA:
        model = GPCAClassifier(alpha=alpha, correct_and_smooth=False)
        figure = f"{published[alpha]:.1f}" if published else ""
        show(data, f"GPCA, alpha={alpha:g}", partial(classify, data, model), figure)
    show(data, "GPCAClassifier()", lambda: classify(data, GPCAClassifier()))


def draw(data: Dataset) -> None:
    embeddings = {
        "PCA: features alone": GPCA(32).fit_transform(data.X),
        "GPCA: features and graph": GPCA(32).fit_transform(data.X, graph=data.graph),
    }
    known = data.y >= 0
    figure, axes = plt.subplots(1, 2, figsize=(12, 6), layout="constrained")
    for axis, (title, Z) in zip(axes, embeddings.items(), strict=True):
        places = TSNE(random_state=0, init="pca", max_iter=500, n_jobs=2).fit_transform(Z[known])
        axis.scatter(*places.T, c=data.y[known], cmap="tab10", vmin=0, vmax=9, s=7, linewidths=0)
        axis.set_title(title, fontsize=14)
        axis.set_axis_off()
    figure.suptitle(f"{data.name}: every dot is a node, coloured by class", fontsize=15)
    figure.savefig(PICTURE, dpi=150)
    plt.close(figure)


def main() -> None:
    start = time.perf_counter()
    data = load()
    print(f"{data.name}: {data.graph.summary()}")
    print(f"{data.X.shape[1]} features, {data.y.max() + 1} classes, {len(data.train)} labels\n")
    compare(data)
    draw(data)
    print(f"\nThe embeddings (t-SNE of 32 dimensions) are drawn in {PICTURE}.")
    print(f"All of it took {time.perf_counter() - start:.0f} s.")


if __name__ == "__main__":
    main()
