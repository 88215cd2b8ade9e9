"""Figures: what is drawn, into which axes, and bad input."""

import sys

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest

mpl.use("Agg")
import matplotlib.pyplot as plt
from sklearn.manifold import trustworthiness

from gpcanet import GPCA, GPCAPath
from gpcanet.errors import InputError
from gpcanet.plotting import LIGHT_GREY, PALETTE, plot_embedding, plot_path, plot_spectrum


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


@pytest.fixture
def Z():
    return np.random.default_rng(0).normal(size=(30, 4))


def points(ax):
    """Positions by label."""
    return {group.get_label(): group.get_offsets().data for group in ax.collections}


def test_components_are_drawn_by_class(Z):
    y = np.array(["b", "a", None] * 10, object)
    ax = plot_embedding(Z, y, components=(1, 3))
    drawn = points(ax)
    assert list(drawn) == ["unlabelled", "a", "b"]
    np.testing.assert_array_equal(drawn["a"], Z[1::3][:, [1, 3]])
    np.testing.assert_array_equal(drawn["unlabelled"], Z[2::3][:, [1, 3]])
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("component 2", "component 4")
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["unlabelled", "a", "b"]


def test_classes_are_numbers_or_many(Z):
    ax = plot_embedding(Z, np.array([0, 1, -1] * 10))
    assert list(points(ax)) == ["unlabelled", "0", "1"]
    ax = plot_embedding(Z, np.arange(30) % 15, ax=plt.subplots()[1])
    colours = {tuple(group.get_facecolor()[0]) for group in ax.collections}
    assert len(colours) == 15 > len(PALETTE)
    assert (
        plot_embedding(np.tile(Z, (2, 1)), np.arange(60), ax=plt.subplots()[1]).get_legend() is None
    )


def test_numbers_get_a_colour_scale(Z):
    y = np.linspace(0, 1, 30)
    y[0] = np.nan
    ax = plot_embedding(Z, y)
    unknown, known = ax.collections
    np.testing.assert_array_equal(unknown.get_offsets(), Z[:1, :2])
    assert mpl.colors.same_color(unknown.get_facecolor()[0, :3], LIGHT_GREY)
    np.testing.assert_array_equal(known.get_array(), y[1:])
    assert len(ax.figure.axes) == 2
    assert len(plot_embedding(Z, y, legend=False).figure.axes) == 1


def test_labels_are_text_and_never_formulas(Z):
    ax = plot_embedding(Z, np.array(["_hidden", r"$\frac{", "<b>"] * 10))
    ax.figure.canvas.draw()
    shown = [text.get_text() for text in ax.get_legend().get_texts()]
    assert shown == [r"\$\frac{", "<b>", "\u200b_hidden"]


def test_map_keeps_neighbours():
    Z = np.repeat(np.eye(3) * 10, 20, axis=0) + np.random.default_rng(0).normal(size=(60, 3))
    ax = plot_embedding(Z, method="tsne")
    assert trustworthiness(Z, ax.collections[0].get_offsets().data) > 0.85
    assert len(plot_embedding(Z[:3], method="tsne").collections) == 1


def test_given_axes_and_style_are_used(Z):
    figure, axes = plt.subplots(1, 2)
    assert plot_embedding(Z, ax=axes[1], s=7).collections[0].get_sizes() == 7
    assert plot_spectrum([0.5, 0.3], ax=axes[0]) is axes[0]
    assert plt.get_fignums() == [figure.number]


def test_spectrum_is_that_of_the_model(graph, X):
    model = GPCA(4).fit(X, graph=graph)
    ax = plot_spectrum(model)
    shares = 100 * model.explained_variance_ratio_
    np.testing.assert_allclose(ax.lines[0].get_ydata(), shares)
    assert ax.lines[0].get_xdata().tolist() == [1, 2, 3, 4]
    together = plot_spectrum(model.explained_variance_ratio_, cumulative=True)
    np.testing.assert_allclose(together.lines[0].get_ydata(), np.cumsum(shares))


def test_path_has_the_eigenvalues_of_separate_fits(graph, X):
    path = GPCAPath(4, alphas=(0, 0.5, 20)).fit(X, graph=graph)
    ax = plot_path(path, n_alphas=3)
    alphas = ax.lines[0].get_xdata()
    np.testing.assert_allclose(alphas, [0.5, np.sqrt(10), 20])
    assert [text.get_text() for text in ax.texts] == ["1", "2", "4"]
    for column, alpha in enumerate(alphas):
        values = GPCA(4, alpha=alpha).fit(X, graph=graph).eigenvalues_
        drawn = [line.get_ydata()[column] for line in ax.lines]
        np.testing.assert_allclose(drawn, values[[0, 1, 3]], rtol=1e-4)


def test_bad_input_gets_a_sentence(Z, graph, X, monkeypatch):
    for call, message in [
        (lambda: plot_embedding(Z[0]), r"Z of shape \(4,\) must be a matrix"),
        (lambda: plot_embedding(Z, [1, 2]), "one value for each of 30 nodes"),
        (lambda: plot_embedding(Z, method="umap"), "must be 'components' or 'tsne'"),
        (lambda: plot_embedding(Z, components=(0, 4)), "two numbers from 0 to 3"),
        (lambda: plot_spectrum("x"), "GPCA, or a list of shares such as explained_variance_ratio_"),
        (lambda: plot_path(GPCAPath(2, alphas=[1]).fit(X, graph=graph)), "two positive alphas"),
    ]:
        with pytest.raises(InputError, match=message):
            call()
    assert plt.get_fignums() == []
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(InputError, match=r"pip install 'gpcanet\[plot\]'"):
        plot_embedding(Z)


def test_labels_are_matched_with_nodes_by_index(Z):
    Z = pd.DataFrame(Z, index=[f"n{i}" for i in range(30)])
    y = pd.Series(["a"] * 10 + ["b"] * 20, index=Z.index)
    drawn = points(plot_embedding(Z, y[::-1]))
    np.testing.assert_array_equal(drawn["a"], Z.iloc[:10, :2])
    with pytest.raises(InputError, match=r"the index of y lacks 'n3' of Z; give y the index of Z"):
        plot_embedding(Z, y.drop("n3"))
    with pytest.raises(InputError, match="the index of y has an entry twice"):
        plot_embedding(Z, pd.concat([y, y[:1]]))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"Z": np.empty((0, 2))}, r"Z of shape \(0, 2\) must be a matrix of numbers"),
        ({"Z": np.ones((1, 3)), "method": "tsne"}, "t-SNE needs two nodes and two columns"),
        ({"Z": np.ones((3, 1)), "method": "tsne"}, "t-SNE needs two nodes and two columns"),
        ({"Z": np.ones((3, 2)), "c": "red"}, "c and color are set by y; pass the colours as y"),
    ],
)
def test_wrong_embeddings_are_one_sentence(arguments, message):
    with pytest.raises(InputError, match=message):
        plot_embedding(**arguments)


def test_tsne_of_equal_rows_is_one_point():
    ax = plot_embedding(np.ones((30, 3)), method="tsne")
    assert np.ptp(ax.collections[0].get_offsets(), axis=0).max() == 0
