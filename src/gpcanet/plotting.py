"""Figures of embeddings, spectra and paths, drawn with matplotlib.

Each function draws into the axes ``ax``, or into a new figure, and returns the axes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .errors import InputError
from .estimators.gpca import GPCA
from .estimators.path import GPCAPath
from .utils.labels import labeled_mask

#: Ten colours that most readers can distinguish (after Okabe and Ito, and Tableau).
PALETTE = (
    "#4E79A7", "#F28E2B", "#59A14F", "#E15759", "#B07AA1",
    "#EDC948", "#76B7B2", "#9C755F", "#FF9DA7", "#5B5B5B",
)  # fmt: skip
BLUE, GREY, LIGHT_GREY = "#1f5fa8", "#666666", "#c8c8c8"

#: t-SNE settings that take a quarter of the default time and suffice for a figure.
TSNE_SETTINGS: dict[str, Any] = {
    "max_iter": 250,
    "early_exaggeration": 2.0,
    "angle": 0.9,
    "init": "pca",
    "random_state": 0,
}
PERPLEXITY = 20

#: Numbers of the eigenvalues that plot_path draws.
SHOWN_EIGENVALUES = (1, 2, 4, 8, 16, 32, 64, 128)

#: More categories than this make a legend unreadable.
LARGEST_LEGEND = 30


def plot_embedding(
    Z: Any,
    y: Any = None,
    *,
    method: str = "components",
    components: tuple[int, int] = (0, 1),
    legend: bool = True,
    ax: Any = None,
    **scatter: Any,
) -> Any:
    """Draw nodes in the plane.

    Parameters
    ----------
    Z : array-like of shape (n_nodes, n_components)
        Embedding.
    y : array-like of shape (n_nodes,), optional
        Colours. Floats with fractions get a colour scale, other values are classes. Nodes without
        a value (NaN, None; also -1 as a class) are grey. If Z and y have an index, y is matched by
        it.
    method : {"components", "tsne"}
        ``components`` draws two components; ``tsne`` a t-SNE map of all of them.
    components : tuple of two int
        The components to draw, counted from 0.
    legend : bool
        Whether to draw a legend of the classes or a colour bar.
    ax : matplotlib axes, optional
    **scatter
        Further arguments of ``Axes.scatter``, such as ``s`` and ``alpha``.

    Returns
    -------
    matplotlib axes

    Examples
    --------
    >>> import numpy as np
    >>> Z = np.random.default_rng(0).normal(size=(20, 3))
    >>> plot_embedding(Z, np.arange(20) % 2, components=(0, 2)).get_ylabel()
    'component 3'
    """
    if hasattr(Z, "iloc") and hasattr(y, "iloc"):
        y = _in_order_of(Z, y)
    Z = np.asarray(Z)
    if Z.ndim != 2 or len(Z) == 0 or Z.dtype.kind not in "fiu":
        raise InputError(f"Z of shape {Z.shape} must be a matrix of numbers, one row per node")
    if {"c", "color"} & set(scatter):
        raise InputError("c and color are set by y; pass the colours as y")
    y = None if y is None else np.asarray(y)
    if y is not None and y.shape != (len(Z),):
        raise InputError(f"y of shape {y.shape} must have one value for each of {len(Z)} nodes")
    positions = _positions(Z, method, components)
    ax = _axes(ax)
    size = float(np.clip(20_000 / len(Z), 1, 20))
    style = {"s": size, "linewidths": 0, "alpha": 0.8, "rasterized": len(Z) > 20_000} | scatter
    if y is None:
        ax.scatter(*positions.T, color=BLUE, **style)
    elif y.dtype.kind == "f" and np.any(np.isfinite(y) & (y % 1 != 0)):
        known = np.isfinite(y)
        if not known.all():
            ax.scatter(*positions[~known].T, color=LIGHT_GREY, **style)
        points = ax.scatter(*positions[known].T, c=y[known], **style)
        if legend:
            ax.figure.colorbar(points, ax=ax)
    else:
        _draw_classes(ax, positions, y, style, legend)
    if method == "tsne":
        ax.set_xticks([])
        ax.set_yticks([])
    else:
        ax.set_xlabel(f"component {components[0] + 1}")
        ax.set_ylabel(f"component {components[1] + 1}")
    ax.set_aspect("equal", adjustable="datalim")
    return ax


def plot_spectrum(model: Any, *, cumulative: bool = False, ax: Any = None) -> Any:
    """Draw the share of each component in the trace of X^T (I + alpha L)^-1 X.

    Parameters
    ----------
    model : GPCA or array-like of shape (n_components,)
        A fitted model, or shares such as ``explained_variance_ratio_``.
    cumulative : bool
        Whether to draw the shares of the first 1, 2, ... components together.
    ax : matplotlib axes, optional

    Returns
    -------
    matplotlib axes

    Examples
    --------
    >>> plot_spectrum([0.5, 0.25], cumulative=True).get_xlabel()
    'number of components'
    """
    shares = model.explained_variance_ratio_ if isinstance(model, GPCA) else model
    shares = np.asarray(shares)
    if shares.ndim != 1 or len(shares) == 0 or shares.dtype.kind not in "fiu":
        raise InputError(
            "model must be a fitted GPCA, or a list of shares such as explained_variance_ratio_"
        )
    ax = _axes(ax)
    values = 100 * (np.cumsum(shares) if cumulative else shares)
    marker = "o" if len(shares) <= 40 else None
    ax.plot(np.arange(1, len(shares) + 1), values, color=BLUE, lw=1.6, marker=marker, ms=3)
    ax.set_xlabel("number of components" if cumulative else "component")
    ax.set_ylabel("explained variance, %")
    ax.xaxis.get_major_locator().set_params(integer=True)
    if cumulative:
        ax.set_ylim(0, 102)
    elif np.all(values > 0):
        ax.set_yscale("log")
        _write_plain_numbers(ax.yaxis)
    _draw_grid(ax)
    return ax


def plot_path(
    path: GPCAPath,
    *,
    beta: float = 0.0,
    n_alphas: int = 25,
    shown: Sequence[int] = SHOWN_EIGENVALUES,
    ax: Any = None,
) -> Any:
    """Draw eigenvalues over alpha.

    Parameters
    ----------
    path : GPCAPath
        A fitted path. Small eigenvalues fall faster than large ones: where a line has dropped, its
        component matters little.
    beta : float
        One of ``path.betas``.
    n_alphas : int
        Number of points between the smallest and the largest alpha of the path.
    shown : sequence of int
        Numbers of the eigenvalues, counted from 1; those that the path does not have are left out.
    ax : matplotlib axes, optional

    Returns
    -------
    matplotlib axes

    Examples
    --------
    >>> import numpy as np
    >>> from gpcanet import GPCAPath, Graph
    >>> X = np.random.default_rng(0).normal(size=(6, 3))
    >>> graph = Graph.from_edge_index([[0, 1, 2, 3, 4], [1, 2, 3, 4, 5]], n_nodes=6, each_once=True)
    >>> plot_path(GPCAPath(2).fit(X, graph=graph)).get_xlabel()
    'alpha'
    """
    given = np.unique(np.asarray(path.alphas, dtype=float))
    positive = given[given > 0]
    if len(positive) < 2:
        raise InputError(f"path has alphas {given.tolist()}; fit it with two positive alphas")
    alphas = np.geomspace(positive[0], positive[-1], n_alphas)
    alphas[[0, -1]] = positive[[0, -1]]  # geomspace may exceed them by rounding
    values = np.array([path.eigenvalues(alpha, beta) for alpha in alphas])
    numbers = [number for number in shown if number <= values.shape[1]]
    ax = _axes(ax)
    shades = _colour_map("Blues")(np.linspace(0.95, 0.4, len(numbers)))
    for number, shade in zip(numbers, shades, strict=True):
        line = values[:, number - 1]
        ax.loglog(alphas, line, color=shade, lw=1.6)
        ax.annotate(
            str(number), (alphas[-1], line[-1]), xytext=(4, 0), textcoords="offset points",
            va="center", fontsize=8, color=GREY,
        )  # fmt: skip
    ax.set_xlabel("alpha")
    ax.set_ylabel("eigenvalue")
    _write_plain_numbers(ax.xaxis, ax.yaxis)
    _draw_grid(ax)
    return ax


def _in_order_of(Z: Any, y: Any) -> Any:
    """y with the index of Z, or as it is if one of them has pandas' default index."""
    is_default = any(type(one.index).__name__ == "RangeIndex" for one in (Z, y))
    if is_default or y.index.equals(Z.index):
        return y
    missing = Z.index.difference(y.index)
    if len(missing) or not y.index.is_unique:
        problem = f"lacks {missing.tolist()[0]!r} of Z" if len(missing) else "has an entry twice"
        raise InputError(
            f"the index of y {problem}; give y the index of Z, or pass y.to_numpy() in the order "
            f"of its rows"
        )
    return y.loc[Z.index]


def _positions(Z: np.ndarray, method: str, components: tuple[int, int]) -> np.ndarray:
    if method == "tsne":
        if min(Z.shape) < 2:
            raise InputError(f"t-SNE needs two nodes and two columns, but Z has shape {Z.shape}")
        return _tsne(Z)
    if method != "components":
        raise InputError(f"method={method!r} must be 'components' or 'tsne'")
    if len(components) != 2 or not all(0 <= i < Z.shape[1] for i in components):
        raise InputError(
            f"components={components} must be two numbers from 0 to {Z.shape[1] - 1}: Z has "
            f"{Z.shape[1]} columns"
        )
    return Z[:, list(components)]


def _tsne(Z: np.ndarray) -> np.ndarray:
    from sklearn.manifold import TSNE
    from threadpoolctl import threadpool_limits

    if not np.ptp(Z, axis=0).any():  # scikit-learn divides by the standard deviation
        return np.zeros((len(Z), 2))
    perplexity = min(PERPLEXITY, max(1, (len(Z) - 1) // 3))
    # The spinning threads of t-SNE are slower than one thread on a busy machine.
    with threadpool_limits(1, user_api="openmp"):
        return np.asarray(TSNE(perplexity=perplexity, **TSNE_SETTINGS).fit_transform(Z))


def _draw_classes(
    ax: Any, positions: np.ndarray, y: np.ndarray, style: dict[str, Any], legend: bool
) -> None:
    known = labeled_mask(y)
    if not known.all():
        ax.scatter(*positions[~known].T, color=LIGHT_GREY, label="unlabelled", **style)
    names, codes = np.unique(y[known].astype(str) if y.dtype == object else y[known],
                             return_inverse=True)  # fmt: skip
    for code, name in enumerate(names):
        colour = PALETTE[code] if len(names) <= len(PALETTE) else _colour_map("turbo")(
            code / (len(names) - 1)
        )  # fmt: skip
        members = positions[known][codes == code]
        # A label that begins with an underscore would not be in the legend.
        ax.scatter(*members.T, color=colour, label=_plain_text(str(name)), **style)
    if legend and len(names) <= LARGEST_LEGEND:
        ax.legend(
            frameon=False, markerscale=max(1, 3 - style["s"] / 10),
            loc="center left", bbox_to_anchor=(1, 0.5),
        )  # fmt: skip


def _plain_text(name: str) -> str:
    """A name that matplotlib draws as it is: no formulas, and a visible first character."""
    name = name.replace("$", r"\$")
    return f"\u200b{name}" if name.startswith("_") else name


def _colour_map(name: str) -> Any:
    import matplotlib as mpl

    return mpl.colormaps[name]


def _axes(ax: Any) -> Any:
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise InputError(
            "figures need matplotlib, which is missing; pip install 'gpcanet[plot]'"
        ) from None
    if ax is not None:
        return ax
    return plt.subplots(layout="constrained")[1]


def _write_plain_numbers(*axes: Any) -> None:
    """20 instead of 2 x 10^1 on logarithmic axes."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    for axis in axes:
        low, high = sorted(axis.get_view_interval())
        axis.set_major_locator(LogLocator(subs=(1.0,) if high > 100 * low else (1.0, 2.0, 5.0)))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.set_minor_formatter(NullFormatter())


def _draw_grid(ax: Any) -> None:
    ax.grid(axis="y", color="#dddddd", lw=0.6)
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)
