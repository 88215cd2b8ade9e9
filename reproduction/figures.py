"""The figures of the report as PNGs."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np

from .blocks import FigureKey
from .display_names import INIT_NAMES, layers_label
from .results import Result

#: Colours and line styles of the initialisations (colours after Okabe and Ito).
COLORS = {"xavier": "#0072B2", "gpca": "#D55E00", "he": "#666666", "orthogonal": "#009E73"}
LINES = {"xavier": "--", "gpca": "-", "he": ":", "orthogonal": "-."}

#: The experiment that each kind of figure shows.
EXPERIMENTS = {
    "curves": "table4",
    "figure1": "figure1",
    "histograms": "histograms",
    "fewer": "fewer",
}


def figure_keys(results: list[Result] | tuple[Result, ...]) -> dict[FigureKey, list[Result]]:
    """The figures that there are results for, and the results of each."""
    found: dict[FigureKey, list[Result]] = {}
    for kind, experiment in EXPERIMENTS.items():
        for result in results:
            if result.row.experiment == experiment and (kind != "curves" or result.curves):
                found.setdefault(FigureKey(kind, result.row.dataset), []).append(result)
    return found


def draw_figures(results: list[Result] | tuple[Result, ...]) -> dict[FigureKey, bytes]:
    """The PNG of each figure."""
    import matplotlib

    matplotlib.use("Agg")
    return {key: _png(DRAW[key.kind](own)) for key, own in figure_keys(results).items()}


def _png(figure: Any) -> bytes:
    import matplotlib.pyplot as plt

    buffer = io.BytesIO()
    # Without date and version, so that the same numbers give the same bytes.
    figure.savefig(buffer, dpi=130, format="png", metadata={"Software": None})
    plt.close(figure)
    return buffer.getvalue()


def _figure1(results: list[Result]) -> Any:
    import matplotlib.pyplot as plt

    layers = sorted({r.row.layers for r in results if r.row.layers is not None})
    alphas = sorted({r.row.alpha for r in results if r.row.alpha is not None})
    means = {(r.row.layers, r.row.alpha): r.mean for r in results}
    grid = np.array([[means.get((depth, alpha), np.nan) for alpha in alphas] for depth in layers])
    figure, axis = plt.subplots(figsize=(6.4, 4.6), layout="constrained")
    image = axis.imshow(grid, origin="lower", cmap="viridis", aspect="auto")
    axis.set(
        xticks=range(len(alphas)), xticklabels=[f"{alpha:g}" for alpha in alphas],
        yticks=range(len(layers)), yticklabels=layers, xlabel="alpha", ylabel="layers",
    )  # fmt: skip
    middle = (np.nanmin(grid) + np.nanmax(grid)) / 2
    for (y, x), value in np.ndenumerate(grid):
        if not np.isnan(value):
            color = "black" if value > middle else "white"
            axis.text(x, y, f"{value:.1f}", ha="center", va="center", color=color, fontsize=8)
    figure.colorbar(image, label="test accuracy, %")
    return figure


def _by_depth(
    results: list[Result], draw: Callable[[Any, list[Result]], None], xlabel: str, ylabel: str
) -> Any:
    """One panel per depth, drawn by ``draw(axis, results)``."""
    import matplotlib.pyplot as plt

    depths = sorted({r.row.layers for r in results if r.row.layers is not None})
    figure, axes = plt.subplots(
        1, len(depths), figsize=(4.6 * len(depths), 3.4), layout="constrained", squeeze=False
    )
    for axis, depth in zip(axes[0], depths, strict=True):
        draw(axis, [r for r in results if r.row.layers == depth])
        axis.set(title=layers_label(depth), xlabel=xlabel, ylabel=ylabel)
        axis.legend(frameon=False, fontsize=8)
    return figure


def _histograms(results: list[Result]) -> Any:
    def draw(axis: Any, own: list[Result]) -> None:
        values = np.concatenate([r.values for r in own])
        bins = np.linspace(values.min(), values.max() + 1e-9, 21).tolist()
        for r in own:
            style = _style(r)
            label = f"{style['label']}: {r.mean:.1f} ({r.sd:.1f})"
            axis.hist(r.values, bins, alpha=0.65, color=style["color"], label=label)

    return _by_depth(results, draw, "test accuracy, %", "seeds")


def _curves(results: list[Result]) -> Any:
    def draw(axis: Any, own: list[Result]) -> None:
        for r in own:
            # Runs stop at different epochs; the mean ends where the first one stops.
            last = min(curve[-1][0] for curve in r.curves)
            epochs = np.arange(5, last + 1, 5)
            runs = [np.interp(epochs, *np.transpose(curve)) for curve in r.curves]
            axis.plot(epochs, np.mean(runs, axis=0), **_style(r))
        axis.grid(alpha=0.3)

    return _by_depth(results, draw, "epoch", "validation accuracy, %")


def _fewer(results: list[Result]) -> Any:
    def draw(axis: Any, own: list[Result]) -> None:
        for init in dict.fromkeys(r.row.init for r in own):
            ordered = sorted(
                (r for r in own if r.row.init == init), key=lambda r: r.row.labels_per_class or 0
            )
            labels = [r.row.labels_per_class for r in ordered]
            means, deviations = (np.array([getattr(r, n) for r in ordered]) for n in ("mean", "sd"))
            style = _style(ordered[0])
            axis.plot(labels, means, marker="o", **style)
            axis.fill_between(
                labels, means - deviations, means + deviations, color=style["color"], alpha=0.2
            )
        axis.grid(alpha=0.3)

    return _by_depth(results, draw, "labels per class", "test accuracy, %")


def _style(result: Result) -> dict[str, str]:
    init = result.row.init or ""
    return {"color": COLORS[init], "linestyle": LINES[init], "label": INIT_NAMES[init]}


DRAW: dict[str, Callable[[list[Result]], Any]] = {
    "curves": _curves,
    "figure1": _figure1,
    "histograms": _histograms,
    "fewer": _fewer,
}
