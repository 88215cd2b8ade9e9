"""Figures of the page."""

from __future__ import annotations

from typing import IO, Any

import numpy as np

from .deep_gcn import CURVE_STEP

#: Colours for growth, that most readers can distinguish (after Okabe and Ito).
COLORS = ("#D55E00", "#0072B2", "#999999", "#56B4E9")

#: Colour and name of each initialisation.
INITS = {
    "gpca": ("#c0392b", "gpca_init_"),
    "xavier": ("#2c3e50", "Xavier"),
    "he": ("#2980b9", "He"),
    "orthogonal": ("#27ae60", "orthogonal"),
}


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
    """Learning curves by depth: the mean over seeds, and the range as a band."""
    plt = _pyplot()
    runs = [run for run in results["runs"] if "curve" in run]
    depths = sorted({run["layers"] for run in runs})
    depths = [layers for layers in depths if layers > 2] or depths
    figure, axes = plt.subplots(
        1, len(depths), figsize=(4.6 * len(depths), 3.4), sharey=True, squeeze=False
    )
    for axis, layers in zip(axes[0], depths, strict=True):
        for init, (color, name) in INITS.items():
            own = [r["curve"] for r in runs if (r["layers"], r["method"]) == (layers, init)]
            if not own:
                continue
            values = 100 * np.array(own)
            epochs = CURVE_STEP * np.arange(values.shape[1])
            axis.plot(epochs, values.mean(axis=0), color=color, label=name, lw=1.6)
            low, high = values.min(axis=0), values.max(axis=0)
            axis.fill_between(epochs, low, high, color=color, alpha=0.12, lw=0)
        title = f"GCN of {layers} layers on {results['dataset'].capitalize()}"
        axis.set(title=title, xlabel="epoch", ylim=(0, 100))
        axis.spines[["top", "right"]].set_visible(False)
    axes[0][0].set_ylabel("test accuracy, %")
    axes[0][-1].legend(frameon=False, loc="lower right")
    figure.tight_layout()
    figure.savefig(file, dpi=150, format="png", metadata={"Software": None})
    plt.close(figure)


def _pyplot() -> Any:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    return plt
