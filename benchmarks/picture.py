"""Growth as a picture: seconds and memory over edges, both axes logarithmic."""

from __future__ import annotations

from typing import IO, Any

#: Colours that stay apart for most readers, ours the strong ones (after Okabe and Ito).
COLOURS = ("#D55E00", "#0072B2", "#999999", "#56B4E9")


def draw_growth(found: dict[str, Any], file: IO[bytes]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(12, 4.8), layout="constrained")
    ways = list(dict.fromkeys(point["way"] for point in found["over_edges"]))
    for way, colour in zip(ways, COLOURS, strict=False):
        points = [p for p in found["over_edges"] if p["way"] == way and "seconds" in p]
        edges = [point["edges"] for point in points]
        extra = [max(p["peak_bytes"] - p["before_bytes"], 1) / 2**30 for p in points]
        power = found["exponents"].get(way)
        label = f"{way} (edges^{power['seconds']:.2f})" if power else way
        style = {"marker": "o", "markersize": 4, "color": colour}
        axes[0].plot(edges, [point["seconds"] for point in points], label=label, **style)
        axes[1].plot(edges, extra, label=way, **style)
    for axis, title in zip(axes, ("seconds of a fit", "GiB beyond the input"), strict=True):
        axis.set(xscale="log", yscale="log", xlabel="edges", title=title)
        axis.grid(alpha=0.3)
        axis.legend(frameon=False, fontsize=9)
    figure.savefig(file, dpi=110, format="png")
    plt.close(figure)
