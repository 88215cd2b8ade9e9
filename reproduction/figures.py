"""The figures of the report, from the numbers of a summary to PNGs."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np

from .blocks import Number, alpha_of, init_of, labels_of, layers_of

#: Of each initialisation (after Okabe and Ito).
COLOURS = {"Xavier": "#0072B2", "GPCA": "#D55E00", "He": "#666666", "orthogonal": "#009E73"}
LINES = {"Xavier": "--", "GPCA": "-", "He": ":", "orthogonal": "-."}


def draw_all(numbers: list[Number]) -> dict[str, bytes]:
    """Name and PNG of each figure that there are numbers for."""
    import matplotlib

    matplotlib.use("Agg")
    drawn = {}
    for kind, (experiment, draw) in KINDS.items():
        own = [number for number in numbers if number["experiment"] == experiment]
        for dataset in dict.fromkeys(number["dataset"] for number in own):
            figure = draw({n["row"]: n for n in own if n["dataset"] == dataset})
            if figure is not None:
                drawn[f"{kind}-{dataset}"] = _png(figure)
    return drawn


def _png(figure: Any) -> bytes:
    import matplotlib.pyplot as plt

    buffer = io.BytesIO()
    # No date and no version inside: the same numbers give the same bytes.
    figure.savefig(buffer, dpi=130, format="png", metadata={"Software": None})
    plt.close(figure)
    return buffer.getvalue()


def _figure1(found: dict[str, Number]) -> Any:
    import matplotlib.pyplot as plt

    layers = sorted({layers_of(row) for row in found})
    alphas = sorted({alpha_of(row) for row in found})
    grid = np.full((len(layers), len(alphas)), np.nan)
    for row, number in found.items():
        grid[layers.index(layers_of(row)), alphas.index(alpha_of(row))] = number["mean"]
    figure, axis = plt.subplots(figsize=(6.4, 4.6), layout="constrained")
    image = axis.imshow(grid, origin="lower", cmap="viridis", aspect="auto")
    axis.set(
        xticks=range(len(alphas)), xticklabels=[f"{alpha:g}" for alpha in alphas],
        yticks=range(len(layers)), yticklabels=layers, xlabel="alpha", ylabel="layers",
    )  # fmt: skip
    middle = (np.nanmin(grid) + np.nanmax(grid)) / 2
    for (y, x), value in np.ndenumerate(grid):
        if not np.isnan(value):
            ink = "black" if value > middle else "white"
            axis.text(x, y, f"{value:.1f}", ha="center", va="center", color=ink, fontsize=8)
    figure.colorbar(image, label="test accuracy, %")
    return figure


def _by_depth(
    found: dict[str, Number],
    draw: Callable[[Any, dict[str, Number]], None],
    xlabel: str,
    ylabel: str,
) -> Any:
    """A panel for each depth; ``draw`` gets its axis and its numbers."""
    import matplotlib.pyplot as plt

    depths = sorted({layers_of(row) for row in found})
    figure, axes = plt.subplots(
        1, len(depths), figsize=(4.6 * len(depths), 3.4), layout="constrained", squeeze=False
    )
    for axis, depth in zip(axes[0], depths, strict=True):
        draw(axis, {row: n for row, n in found.items() if layers_of(row) == depth})
        axis.set(title=f"{depth} layers", xlabel=xlabel, ylabel=ylabel)
        axis.legend(frameon=False, fontsize=8)
    return figure


def _histograms(found: dict[str, Number]) -> Any:
    def draw(axis: Any, own: dict[str, Number]) -> None:
        everything = np.concatenate([number["values"] for number in own.values()])
        bins = np.linspace(everything.min(), everything.max() + 1e-9, 21).tolist()
        for row, number in own.items():
            label = f"{init_of(row)}: {number['mean']:.1f} ({number['sd']:.1f})"
            axis.hist(number["values"], bins, alpha=0.65, color=COLOURS[init_of(row)], label=label)

    return _by_depth(found, draw, "test accuracy, %", "seeds")


def _curves(found: dict[str, Number]) -> Any:
    def draw(axis: Any, own: dict[str, Number]) -> None:
        for row, number in own.items():
            # Runs end early at epochs of their own; a mean is taken as far as all have got.
            last = min(curve[-1][0] for curve in number["curves"])
            epochs = np.arange(5, last + 1, 5)
            runs = [np.interp(epochs, *np.transpose(curve)) for curve in number["curves"]]
            axis.plot(epochs, np.mean(runs, axis=0), **_line(row))
        axis.grid(alpha=0.3)

    drawn = {row: number for row, number in found.items() if "curves" in number}
    return _by_depth(drawn, draw, "epoch", "validation accuracy, %") if drawn else None


def _fewer(found: dict[str, Number]) -> Any:
    def draw(axis: Any, own: dict[str, Number]) -> None:
        for init in dict.fromkeys(init_of(row) for row in own):
            rows = sorted((row for row in own if init_of(row) == init), key=labels_of)
            labels = [labels_of(row) for row in rows]
            means, spreads = (np.array([own[row][name] for row in rows]) for name in ("mean", "sd"))
            style = _line(rows[0])
            axis.plot(labels, means, marker="o", **style)
            axis.fill_between(
                labels, means - spreads, means + spreads, color=style["color"], alpha=0.2
            )
        axis.grid(alpha=0.3)

    return _by_depth(found, draw, "labels a class", "test accuracy, %")


def _line(row: str) -> dict[str, Any]:
    init = init_of(row)
    return {"color": COLOURS[init], "linestyle": LINES[init], "label": init}


KINDS: dict[str, tuple[str, Callable[[dict[str, Number]], Any]]] = {
    "curves": ("table4", _curves),
    "figure1": ("figure1", _figure1),
    "histograms": ("histograms", _histograms),
    "fewer": ("fewer", _fewer),
}
