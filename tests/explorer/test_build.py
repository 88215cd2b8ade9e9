"""What the page contains, compared with GPCA and with dense formulas."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.spatial.distance import pdist
from sklearn.linear_model import LogisticRegression
from stored_page import read_page
from truth import dense_P, random_graph, word_counts

from gpcanet import GPCA, GPCAPath, Graph, explore
from gpcanet.datasets import block_model
from gpcanet.explorer.build import MAX_CLASSES
from gpcanet.explorer.feature_columns import FEATURE_BYTES, feature_columns
from gpcanet.explorer.measures import smoothness
from gpcanet.linalg import Propagation

PATH = GPCAPath(4, alphas=(10.0, 0.0, 1.0), betas=(0.0, 0.3))
PAIRS = [(alpha, beta) for beta in (0.0, 0.3) for alpha in (0.0, 1.0, 10.0)]


@pytest.fixture(scope="module")
def data():
    return block_model(150, 600, n_features=9, n_classes=4, feature_noise=1.0)


@pytest.fixture(scope="module")
def page(data):
    return explore(data, path=PATH, layout="pca")


def test_every_pair_has_the_embedding_of_gpca(data, page):
    header, arrays = read_page(page.html)
    assert header["alphas"] == [0, 1, 10]
    assert header["betas"] == [0, 0.3]
    y = data.visible_labels(validation=False)
    for (alpha, beta), levels, score in zip(
        PAIRS, arrays["positions"], header["scores"], strict=True
    ):
        model = GPCA(4, alpha=alpha, beta=beta)
        Z = model.fit_transform(data.X, y, graph=data.graph)
        shown, exact = pdist(levels.reshape(-1, 2) * header["step"]), pdist(Z[:, :2])
        # Two points of a distance are rounded by half a step in each coordinate.
        error = np.abs(shown / np.linalg.norm(shown) - exact / np.linalg.norm(exact))
        assert error.max() <= 2 * 2**0.5 * header["step"] / np.linalg.norm(shown) + 1e-6
        assert (score["alpha"], score["beta"]) == (alpha, beta)
        np.testing.assert_allclose(score["eigenvalues"], model.eigenvalues_, rtol=1e-4)


def test_predictions_are_those_of_a_logistic_regression(data, page):
    header, arrays = read_page(page.html)
    for i, (alpha, beta) in enumerate(PAIRS):
        y = data.visible_labels(validation=False)
        Z = GPCA(4, alpha=alpha, beta=beta).fit_transform(data.X, y, graph=data.graph)
        Z = Z / np.sqrt(np.mean(np.sum(Z[data.train] ** 2, axis=1)))
        head = LogisticRegression(max_iter=1000).fit(Z[data.train], data.y[data.train])
        truth = head.predict_proba(Z)
        # The optimisers stop at slightly different points.
        assert np.mean(arrays["predicted"][i] == truth.argmax(axis=1)) > 0.98
        assert np.abs(arrays["probability"][i] / 255 - truth.max(axis=1)).max() < 0.02
        correct = arrays["predicted"][i] == data.y
        for part in ("validation", "test"):
            expected = correct[getattr(data, part)].mean()
            assert header["scores"][i]["accuracy"][part] == expected


def test_labels_of_held_out_nodes_are_not_used(data, page):
    y = data.y.copy()
    held_out = np.concatenate([data.validation, data.test])
    y[held_out] = (y[held_out] + 1) % 4
    _, arrays = read_page(page.html)
    _, others = read_page(explore(replace(data, y=y), path=PATH, layout="pca").html)
    for name in ("positions", "predicted", "probability"):
        np.testing.assert_array_equal(arrays[name], others[name])


@pytest.mark.parametrize("kind", [{}, {"weighted": True, "isolated": 3}])
def test_smoothness_is_that_of_the_dense_laplacian(kind):
    graph, Z = random_graph(**kind), np.random.default_rng(0).normal(size=(40, 3))
    L = np.eye(40) - dense_P(graph)
    P = Propagation(graph.indptr, graph.indices, graph.weights)
    assert smoothness(Z, P) == pytest.approx(np.trace(Z.T @ L @ Z) / np.trace(Z.T @ Z))
    assert smoothness(np.zeros((40, 3)), P) == 0


def test_eigenvalues_that_are_rounding_errors_are_zero():
    X = np.random.default_rng(0).normal(size=(60, 3)) @ np.ones((3, 5))  # of rank 1
    page = explore(X, graph=random_graph(60), layout="pca")
    for score in page.facts["scores"]:
        assert score["eigenvalues"][0] > 1
        assert score["eigenvalues"][1:] == [0.0] * 4


def test_largest_weights_of_components_are_listed(data, page):
    header, arrays = read_page(page.html)
    n_pairs, n_components, n_listed = shape = header["weighted"]["shape"]
    assert (n_pairs, n_components, n_listed) == (6, 4, 9)
    W = GPCA(4, alpha=10).fit(data.X, graph=data.graph).components_
    weights = arrays["weights"].reshape(shape)[2]
    order = np.argsort(-np.abs(W), axis=1)
    # Components of a path are those of GPCA to the tolerance of the solver.
    np.testing.assert_allclose(weights, np.take_along_axis(W, order, axis=1), atol=1e-3)
    names = np.array(header["weighted"]["names"])[arrays["weighted"]].reshape(shape)[2]
    assert names[0, 0] == f"feature {order[0, 0]}"


def colored(page):
    """Names and values of the features of a page, one per row."""
    header, arrays = read_page(page.html)
    n_columns, n_nodes = len(header["colored"]), header["shown"]
    if not len(arrays["value_starts"]):
        return header["colored"], arrays["values"].reshape(n_columns, n_nodes)
    parts = arrays["values"], arrays["value_nodes"], arrays["value_starts"]
    return header["colored"], sp.csr_array(parts, shape=(n_columns, n_nodes)).toarray()


def test_features_to_colour_by_have_their_values(data, page):
    names, values = colored(page)
    columns = [int(name.removeprefix("feature ")) for name in names]
    assert sorted(columns) == list(range(9))
    np.testing.assert_array_equal(values, data.X[:, columns].T)


def test_weights_refer_to_the_features_to_colour_by(page):
    header, arrays = read_page(page.html)
    positions = arrays["weighted_column"]
    assert [header["colored"][i] for i in positions] == header["weighted"]["names"]


@pytest.mark.parametrize("max_nodes", [60, 50])
def test_all_sparse_features_can_be_coloured_by_their_names(max_nodes):
    X = word_counts(60, 200)
    options = {"graph": random_graph(60), "layout": "pca", "max_nodes": max_nodes}
    sparse = explore(X, **options)
    table = pd.DataFrame(X.toarray(), columns=[f"word {i}" for i in range(200)])
    dense = explore(table, **options)
    names, values = colored(sparse)
    shown = np.array(read_page(sparse.html)[0]["ids"], int)
    assert len(names) == 200
    columns = [int(name.removeprefix("feature ")) for name in names]
    np.testing.assert_array_equal(values, X.toarray()[np.ix_(shown, columns)].T)
    of_words = dict(zip(*colored(dense), strict=True))
    for name, row in zip(names, values, strict=True):  # equal variances may be in another order
        np.testing.assert_array_equal(of_words[name.replace("feature", "word")], row)
    header, arrays = read_page(sparse.html)
    assert len(arrays["values"]) == np.count_nonzero(values)
    variances = X.toarray()[np.ix_(shown, columns)].var(axis=0)[header["n_suggested"] :]
    assert np.all(np.diff(variances) < 1e-12)
    assert header["betas"] == [0]
    assert not header["predicts"]


@pytest.mark.parametrize("density", [0.5, 1.0])
def test_features_beyond_the_budget_are_those_that_vary_least(density):
    rng = np.random.default_rng(0)
    X = rng.random((20_000, 320), dtype=np.float32) * rng.random(320, dtype=np.float32)
    X[rng.random((20_000, 320), dtype=np.float32) >= density] = 0
    found = feature_columns(
        sp.csr_array(X) if density < 1 else X, np.arange(20_000), np.array([5, 3])
    )
    variances = X.var(axis=0, dtype=np.float64)
    kept, dropped = found.features[2:], np.setdiff1d(np.arange(320), found.features)
    assert found.features[:2].tolist() == [5, 3]
    assert variances[kept].min() > variances[dropped].max()
    size = found.values.nbytes + found.nodes.nbytes
    assert 0.99 * FEATURE_BYTES < size <= FEATURE_BYTES
    assert (len(found.nodes) == 0) == (density == 1)


def test_values_beyond_float32_are_its_largest():
    X = np.array([[1e300, 1.0], [-1e300, 2.0]])
    found = feature_columns(X, np.arange(2), np.array([0]))
    largest = np.finfo(np.float32).max
    np.testing.assert_array_equal(found.values.reshape(2, 2), [[largest, -largest], [1, 2]])


def test_edges_and_degrees_of_all_nodes(data, page):
    header, arrays = read_page(page.html)
    A = sp.coo_array((np.ones(len(arrays["edges"])), arrays["edges"].T), shape=(150, 150)).toarray()
    np.testing.assert_array_equal(A + A.T, data.graph.adjacency.toarray())
    np.testing.assert_array_equal(arrays["degree"], data.graph.adjacency.sum(axis=0))
    assert header["n_shown_edges"] == data.graph.n_edges


def test_a_sample_has_its_edges_and_the_scores_of_the_whole_graph(data, page):
    header, arrays = read_page(explore(data, path=PATH, layout="pca", max_nodes=40).html)
    assert header["shown"] == len(set(header["ids"])) == 40
    nodes = np.array(header["ids"], int)
    A = np.zeros((40, 40))
    A[tuple(arrays["edges"].T)] = 1
    np.testing.assert_array_equal(A + A.T, data.graph.adjacency.toarray()[np.ix_(nodes, nodes)])
    np.testing.assert_array_equal(arrays["degree"], data.graph.adjacency.sum(axis=0)[nodes])
    assert header["scores"] == page.facts["scores"]


def test_many_edges_are_sampled(data, monkeypatch):
    monkeypatch.setattr("gpcanet.explorer.build.MAX_EDGES", 50)
    header, arrays = read_page(explore(data, path=PATH, layout="pca").html)
    assert header["n_shown_edges"] == len(np.unique(arrays["edges"], axis=0)) == 50
    assert header["edges"] == data.graph.n_edges


@pytest.mark.parametrize("as_mask", [False, True])
def test_rows_of_tables_are_matched_by_id_and_labels_may_be_text(data, as_mask):
    ids = [f"n{i}" for i in range(150)]
    order = np.random.default_rng(1).permutation(150)
    graph = Graph(data.graph.adjacency, node_ids=ids)
    X = pd.DataFrame(data.X, index=ids).iloc[order]
    y = pd.Series(np.array(list("abcd"), object)[data.y], index=ids).iloc[order]
    test = np.flatnonzero(np.isin(order, data.test))
    if as_mask:  # in another order than X
        test = pd.Series(np.isin(np.arange(150), data.test), index=ids)
    header, arrays = read_page(explore(X, y, graph=graph, test=test, path=PATH, layout="pca").html)
    assert header["ids"] == [ids[i] for i in order]
    assert header["classes"] == list("abcd")
    np.testing.assert_array_equal(arrays["label"], data.y[order])
    np.testing.assert_array_equal(arrays["part"], np.where(np.isin(order, data.test), 3, 1))
    np.testing.assert_array_equal(arrays["degree"], data.graph.adjacency.sum(axis=0)[order])


def test_a_fifth_of_the_labels_is_held_out_without_a_split(data):
    y = np.where(np.arange(150) % 3, data.y, -1)
    _, arrays = read_page(explore(data.X, y, graph=data.graph, path=PATH, layout="pca").html)
    np.testing.assert_array_equal(arrays["label"] == 255, y == -1)
    np.testing.assert_array_equal(arrays["part"] == 0, y == -1)
    assert np.mean(arrays["part"][y >= 0] == 3) == pytest.approx(0.2, abs=0.03)


def test_a_single_class_is_predicted():
    data = block_model(30, 60, n_features=3, n_classes=1)
    header, arrays = read_page(explore(data, layout="pca").html)
    assert header["scores"][0]["accuracy"]["test"] == 1
    assert np.all(arrays["probability"] == 255)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"y": [0]}, "a Dataset has its own labels, graph and split"),
        ({"max_nodes": 0}, "max_nodes=0 must be at least 1"),
        ({"layout": "umap"}, "layout='umap' must be one of"),
        ({"path": GPCAPath(alphas=(-1.0,))}, "alphas=-1.0 must be in"),
    ],
)
def test_bad_arguments_are_refused(data, arguments, message):
    with pytest.raises((ValueError, TypeError), match=message):
        explore(data, **arguments)


def test_labels_that_cannot_be_used_are_refused(data):
    with pytest.raises(ValueError, match="test= holds labels out, but y is None; pass y"):
        explore(data.X, graph=data.graph, test=[1])
    with pytest.raises(ValueError, match="test has 2 rows, 2 of them unlabelled"):
        explore(
            data.X, np.where(np.arange(len(data.y)) < 3, -1, data.y), graph=data.graph, test=[1, 2]
        )
    many = np.arange(600) // 2
    X, graph = np.random.default_rng(0).normal(size=(600, 3)), random_graph(600)
    with pytest.raises(ValueError, match=f"300 classes, {MAX_CLASSES} are allowed"):
        explore(X, many, graph=graph)


def test_page_is_written_completely_or_not_at_all(page, tmp_path):
    page.save(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text() == page.html
    with pytest.raises(FileExistsError, match="overwrite=True"):
        page.save(tmp_path / "page.html")
    assert repr(page).startswith("Explorer('block model', 0.")
