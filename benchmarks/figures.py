"""Figures of the page."""

from __future__ import annotations

from typing import IO, Any

import numpy as np

#: Colours for growth, that most readers can distinguish (after Okabe and Ito).
COLORS = ("#D55E00", "#0072B2", "#999999", "#56B4E9")

#: Colour and line style of each initialisation.
INITS = {
    "gpca": ("#c0392b", "-"),
    "gpca, logistic": ("#c0392b", ":"),
    "gpca, random output layer": ("#c0392b", "--"),
    "gpca, paper": ("#e59866", "-"),
    "orthogonal": ("#27ae60", "-"),
    "lsuv": ("#8e44ad", "-"),
    "virgo": ("#7f8c8d", "-"),
    "he": ("#2980b9", "-"),
    "ginit": ("#16a085", "-"),
    "xavier": ("#2c3e50", "-"),
}


#: Initialisations that differ from gpca in the output layer only.
SAME_RANKS = ("gpca, logistic", "gpca, random output layer")


def draw_growth(results: dict[str, Any], file: IO[bytes]) -> None:
    """Seconds and memory by number of edges, on logarithmic axes."""
    plt = _pyplot()
    figure, axes = plt.subplots(1, 2, figsize=(12, 4.8), layout="constrained")
    methods = list(dict.fromkeys(point["method"] for point in results["over_edges"]))
    for method, color in zip(methods, COLORS, strict=False):
        points = [p for p in results["over_edges"] if p["method"] == method and "seconds" in p]
        edges = [point["edges"] for point in points]
        extra = [max(p["peak_bytes"] - p["before_bytes"], 1) / 2**30 for p in points]
        power = results["exponents"].get(method)
        label = f"{method} (edges^{power['seconds']:.2f})" if power else method
        style = {"marker": "o", "markersize": 4, "color": color}
        axes[0].plot(edges, [point["seconds"] for point in points], label=label, **style)
        axes[1].plot(edges, extra, label=method, **style)
    for axis, title in zip(axes, ("seconds of a fit", "GiB beyond the input"), strict=True):
        axis.set(xscale="log", yscale="log", xlabel="edges", title=title)
        axis.grid(alpha=0.3)
        axis.legend(frameon=False, fontsize=9)
    figure.savefig(file, dpi=110, format="png", metadata={"Software": None})
    plt.close(figure)


def draw_deep_gcn(results: dict[str, Any], file: IO[bytes]) -> None:
    """Effective rank by layer of the deepest network, and accuracy by depth for each dataset."""
    plt = _pyplot()
    cells = [cell for cell in results["cells"] if "runs" in cell]
    datasets = list(dict.fromkeys(cell["dataset"] for cell in cells))
    figure, axes = plt.subplots(
        1, 1 + len(datasets), figsize=(4.2 * (1 + len(datasets)), 3.8), layout="constrained",
        squeeze=False,
    )  # fmt: skip
    own = [cell for cell in cells if cell["dataset"] == datasets[0]]
    deepest = max(cell["layers"] for cell in own)
    for cell in own:
        if cell["layers"] == deepest and cell["method"] not in SAME_RANKS:
            color, style = INITS[cell["method"]]
            layers = np.arange(1, len(cell["ranks"]) + 1)
            axes[0][0].plot(layers, cell["ranks"], style, color=color, label=cell["method"])
    axes[0][0].set(
        title=f"Effective rank before training, {_title(datasets[0])}", xlabel="layer",
        xscale="log", yscale="log",
    )  # fmt: skip
    for axis, dataset in zip(axes[0][1:], datasets, strict=True):
        for method, (color, style) in INITS.items():
            points = sorted(
                (cell["layers"], [100 * run["test"] for run in cell["runs"]])
                for cell in cells
                if (cell["dataset"], cell["method"]) == (dataset, method)
            )
            if points:
                depth = [layers for layers, _ in points]
                mean = [np.mean(values) for _, values in points]
                spread = [np.std(values) for _, values in points]
                axis.errorbar(
                    depth, mean, spread, color=color, ls=style, marker=".", capsize=2, label=method
                )
        axis.set(title=f"Test accuracy, {_title(dataset)}", xlabel="layers", xscale="log")
        depths = sorted({cell["layers"] for cell in cells if cell["dataset"] == dataset})
        axis.set_xticks(depths, [str(depth) for depth in depths], minor=False)
        axis.minorticks_off()
        axis.set_ylim(0, 100)
    for axis in axes[0]:
        axis.grid(alpha=0.3)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0][1].legend(frameon=False, fontsize=8, loc="lower left")
    figure.savefig(file, dpi=130, format="png", metadata={"Software": None})
    plt.close(figure)


def _title(dataset: str) -> str:
    return {"citeseer": "CiteSeer", "pubmed": "PubMed"}.get(dataset, dataset.capitalize())


def _pyplot() -> Any:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    return plt
