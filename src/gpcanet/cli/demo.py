"""The command ``gpcanet demo``: accuracies on Cora as a table, embeddings as a figure."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from ..datasets import Dataset, DataUnavailableError, load
from ..errors import InputError
from ..estimators.classifier import GPCAClassifier
from ..estimators.gpca import GPCA
from ..linalg import Propagation, Solver
from ..utils.atomic import atomic_file, check_target
from .console import Console

#: Test accuracy of GPCA on Cora by alpha, from Table 1 of the paper.
PUBLISHED_ON_CORA = {1.0: 72.57, 5.0: 80.95, 10.0: 82.23, 20.0: 82.05, 50.0: 81.10}


def run(
    console: Console, figure: Path, *, force: bool, data_dir: Path | None, offline: bool | None
) -> None:
    start = time.perf_counter()
    check_target(figure, overwrite=force)
    if figure.suffix.lower() not in (".png", ".pdf", ".svg"):
        raise InputError(f"{figure}: the figure must be a .png, .pdf or .svg file")
    data = _load(console, data_dir, offline)
    labels = f"{len(data.train)} training labels, {len(data.test):,} test labels"
    console.note(f"{data.graph.summary()}, {data.X.shape[1]:,} features, {labels}")
    rows = [_timed(console, data, title, predict) for title, predict in _methods(data)]
    published = PUBLISHED_ON_CORA if data.name == "cora" else {}
    for row, alpha in zip(rows[2:], PUBLISHED_ON_CORA, strict=False):
        row["paper"] = published.get(alpha)
    drawn = _draw(console, data, figure, force=force)
    seconds = time.perf_counter() - start
    console.result(
        {"dataset": data.name, "rows": rows, "figure": drawn, "seconds": seconds},
        _table(data, rows),
        f"\nTotal time: {seconds:.0f} s.",
        *([f"{drawn} shows the embeddings."] if drawn else []),
    )


def _load(console: Console, data_dir: Path | None, offline: bool | None) -> Dataset:
    try:
        with console.phase("fetching Cora"):
            return load("cora", data_dir, offline=offline)
    except DataUnavailableError as error:
        console.note(f"Cora is not available: {error}")
        console.note(
            "Using the digits of scikit-learn instead, each connected to its 10 nearest neighbours."
        )
        return load("digits")


def _methods(data: Dataset) -> list[tuple[str, Callable[[], np.ndarray]]]:
    def classify(use_graph: bool, **settings: Any) -> np.ndarray:
        model = GPCAClassifier(**settings)
        graph = data.graph if use_graph else None
        model.fit(data.X, data.visible_labels(), graph=graph, validation=data.validation)
        return model.transduction_

    # Only C is selected, so that the rows differ in alpha alone.
    plain = {
        "feature_scaling": "l2", "normalize_embedding": False, "n_members": 1, "degree": False,
        "correct": False, "smooth": False, "priors": False,
    }  # fmt: skip
    return [
        ("features alone (PCA)", lambda: classify(False, alpha=0.0, **plain)),
        ("graph alone (label propagation)", lambda: _propagate_labels(data)),
        *(
            (f"GPCA, alpha = {alpha:g}", lambda alpha=alpha: classify(True, alpha=alpha, **plain))
            for alpha in PUBLISHED_ON_CORA
        ),
        ("GPCAClassifier() with model selection", lambda: classify(True)),
    ]


def _propagate_labels(data: Dataset) -> np.ndarray:
    one_hot = np.zeros((data.graph.n_nodes, data.n_classes))
    one_hot[data.train, data.y[data.train]] = 1
    P = Propagation(data.graph.indptr, data.graph.indices)
    return np.asarray(Solver(P, alpha=10.0).solve(one_hot).F.argmax(axis=1))


def _timed(
    console: Console, data: Dataset, title: str, predict: Callable[[], np.ndarray]
) -> dict[str, Any]:
    with console.phase(title):
        predicted = predict()
    accuracy = 100 * float(np.mean(predicted[data.test] == data.y[data.test]))
    return {"method": title, "accuracy": accuracy, "seconds": console.seconds[title]}


def _table(data: Dataset, rows: list[dict[str, Any]]) -> Table:
    has_paper = any(row.get("paper") for row in rows)
    table = Table(box=None, pad_edge=False, header_style="bold", title_justify="left")
    table.add_column(f"{data.name}, test accuracy in %")
    for name in ("here", *(["paper"] if has_paper else []), "seconds"):
        table.add_column(name, justify="right")
    for row in rows:
        paper = [f"{row['paper']:.1f}" if row.get("paper") else ""] if has_paper else []
        table.add_row(row["method"], f"{row['accuracy']:.1f}", *paper, f"{row['seconds']:.1f}")
    return table


def _draw(console: Console, data: Dataset, path: Path, *, force: bool) -> str | None:
    """Plot t-SNE maps of the PCA and GPCA embeddings, coloured by class."""
    try:
        import matplotlib
    except ImportError:
        console.note("No figure: matplotlib is not installed; pip install 'gpcanet[plot]'.")
        return None
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(13, 7.2), layout="constrained")
    with console.phase("drawing"):
        _scatter(axes[0], "features alone: PCA", data, GPCA(32).fit_transform(data.X))
        Z = GPCA(32).fit_transform(data.X, graph=data.graph)
        _scatter(axes[1], "features and graph: GPCA", data, Z)
        handles, names = axes[1].get_legend_handles_labels()
        figure.legend(
            handles, names, loc="outside lower center", ncols=min(len(names), 5),
            frameon=False, fontsize=12, markerscale=3,
        )  # fmt: skip
        with atomic_file(path, overwrite=force) as file:
            figure.savefig(file, dpi=130, format=path.suffix[1:])
    plt.close(figure)
    return str(path)


def _scatter(ax: Any, title: str, data: Dataset, Z: np.ndarray) -> None:
    from ..plotting import plot_embedding

    known = data.y >= 0
    assert data.class_names is not None
    names = data.class_names[data.y[known]]
    plot_embedding(Z[known], names, method="tsne", legend=False, ax=ax, s=9)
    ax.set_title(f"{data.name}, {title}", fontsize=15)
    ax.set_axis_off()
