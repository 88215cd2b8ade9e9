"""Classification with several labels per node."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, roc_auc_score
from truth import dense_P, dense_solve, random_graph

from gpcanet import GPCAClassifier, load_model, save_model


def labelled_data(n=300, n_labels=3, seed=0):
    """Labels that are smooth over a graph, and features that are noisy copies of their scores."""
    graph = random_graph(n, seed=seed)
    rng = np.random.default_rng(seed)
    scores = dense_solve(dense_P(graph), 20.0, rng.standard_normal((n, n_labels)))
    scores /= scores.std(axis=0)
    X = np.repeat(scores, 2, axis=1) + 1.5 * rng.standard_normal((n, 2 * n_labels))
    return X, (scores > [0.0, 0.5, -0.5]).astype(float), graph


def hide(Y, seed=1):
    hidden = np.random.default_rng(seed).random(len(Y)) < 0.5
    return np.where(hidden[:, None], np.nan, Y), hidden


@pytest.fixture(scope="module")
def data():
    return labelled_data()


def fit(X, Y, graph, **options):
    return GPCAClassifier(**options).fit(X, Y, graph=graph)


def test_probabilities_are_calibrated_and_better_than_those_of_features_alone(data):
    X, Y, graph = data
    known, hidden = hide(Y)
    model = fit(X, known, graph)
    P = model.label_distributions_
    assert P.shape == (300, 3)
    for label in range(3):
        truth = Y[hidden, label]
        alone = LogisticRegression().fit(X[~hidden], Y[~hidden, label]).predict_proba(X[hidden])
        assert roc_auc_score(truth, P[hidden, label]) > roc_auc_score(truth, alone[:, 1]) - 0.01
        assert log_loss(truth, P[hidden, label]) < log_loss(truth, alone[:, 1]) + 0.02
        assert abs(P[hidden, label].mean() - truth.mean()) < 0.1
    np.testing.assert_array_equal(model.transduction_, P > 0.5)


def test_unknown_labels_may_be_nan_or_minus_one_or_in_a_sparse_matrix(data):
    X, Y, graph = data
    known, _ = hide(Y)
    options = {"alpha": 5.0, "boosting": False}
    expected = fit(X, known, graph, **options).label_distributions_
    codes = np.where(np.isnan(known), -1, known).astype(int)
    np.testing.assert_array_equal(fit(X, codes, graph, **options).label_distributions_, expected)
    frame = pd.DataFrame(known, columns=["a", "b", "c"])
    model = fit(X, frame, graph, **options)
    np.testing.assert_array_equal(model.label_distributions_, expected)
    assert model.classes_.tolist() == ["a", "b", "c"]
    full = fit(X, Y, graph, **options).label_distributions_
    sparse = fit(X, sp.csr_array(Y), graph, **options)
    np.testing.assert_array_equal(sparse.label_distributions_, full)


def test_permuting_nodes_and_labels_permutes_the_probabilities(data):
    X, Y, graph = data
    known, _ = hide(Y)
    expected = fit(X, known, graph, correct=False).label_distributions_
    order = np.random.default_rng(3).permutation(300)
    permuted = fit(X[order], known[order][:, ::-1], graph.subgraph(order), correct=False)
    np.testing.assert_allclose(permuted.label_distributions_[:, ::-1], expected[order], atol=1e-4)


def test_predict_and_score_also_from_a_file(data, tmp_path):
    X, Y, graph = data
    known, hidden = hide(Y)
    model = fit(X, known, graph)
    P = model.predict_proba(X, graph=graph)
    np.testing.assert_allclose(P, model.label_distributions_, atol=1e-4)
    save_model(model, tmp_path / "model")
    np.testing.assert_array_equal(load_model(tmp_path / "model").predict_proba(X, graph=graph), P)
    truth = np.where(hidden[:, None], Y, np.nan)
    predicted = model.predict(X, graph=graph)
    expected = np.mean(np.all(predicted[hidden] == Y[hidden], axis=1))
    assert model.score(X, truth, graph=graph) == pytest.approx(expected)
    assert predicted.dtype.kind == "i"


def test_a_label_that_no_known_node_has_is_improbable(data):
    X, Y, graph = data
    known, _ = hide(Y)
    known[:, 1] *= 0
    P = fit(X, known, graph).label_distributions_
    n_known = np.sum(~np.isnan(known[:, 1]))
    np.testing.assert_allclose(P[:, 1], 0.5 / (n_known + 1), rtol=1e-9)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.full((300, 3), 2.0), "y contains 2 at row 0, column 0; label indicators must be 0, 1"),
        (np.full((300, 3), -1), "column 0 of y has no known value"),
        (np.zeros((30, 3)), "y has 30 values for 300 rows"),
    ],
)
def test_bad_indicators_raise(data, y, message):
    X, _, graph = data
    with pytest.raises(ValueError, match=message):
        fit(X, y, graph)


@pytest.mark.parametrize("convert", [np.asarray, sp.csr_array, np.ndarray.tolist])
def test_one_estimator_takes_indicators_and_classes(convert):
    X = np.arange(20.0).reshape(10, 2) % 7
    Y = (X > 3).astype(int)
    model = GPCAClassifier().fit(X, convert(Y))
    assert model.predict(X).shape == (10, 2)
    with pytest.raises(ValueError, match="y has"):
        model.score(X, Y[:, 0])
    model.fit(X, Y[:, 0])
    assert model.predict(X).shape == (10,)
    with pytest.raises(ValueError, match="one label per node in fit"):
        model.score(X, Y)


@pytest.mark.parametrize("options", [{"beta": 0.1}, {"feature_scaling": "tfidf"}])
def test_options_for_one_label_per_node_are_refused(data, options):
    X, Y, graph = data
    with pytest.raises(
        ValueError, match=r"with validation, beta > 0 .*; leave these arguments out"
    ):
        fit(np.abs(X), Y, graph, **options)


def test_class_weights_make_rare_labels_more_probable(data):
    X, Y, graph = data
    known, _ = hide(Y)
    options = {"alpha": 5.0, "boosting": False, "correct": False}
    plain = fit(X, known, graph, **options).label_distributions_
    weighted = fit(X, known, graph, class_weight={0: 1, 1: 5}, **options).label_distributions_
    assert np.all(weighted > plain)
    balanced = fit(X, known, graph, class_weight="balanced", **options).label_distributions_
    rare = np.nanmean(known, axis=0) < 0.45
    assert rare.any()
    assert np.all(balanced[:, rare].mean(axis=0) > plain[:, rare].mean(axis=0))


def test_weights_in_a_column(data):
    X, Y, graph = data
    weights = np.random.default_rng(0).random(len(Y))
    expected, found = (
        GPCAClassifier(alpha=5.0, boosting=False).fit(X, Y, given, graph=graph)
        for given in (weights, weights[:, None])
    )
    np.testing.assert_array_equal(found.label_distributions_, expected.label_distributions_)


def test_a_score_needs_a_completely_known_row_of_positive_weight(data):
    X, Y, graph = data
    model = fit(X, Y, graph, alpha=5.0, boosting=False)
    partly = Y.copy()
    partly[np.arange(len(Y)), np.arange(len(Y)) % 3] = np.nan
    with pytest.raises(ValueError, match="no row of y is known and has a positive weight"):
        model.score(X, partly, graph=graph)


def test_class_weights_of_zero(data):
    X, Y, graph = data
    model = fit(X, Y, graph, alpha=5.0, boosting=False, class_weight={0: 1, 1: 0})
    assert model.label_distributions_.max() < 0.5


def test_a_fit_with_one_label_per_node_keeps_nothing_of_several_labels(data):
    X, Y, graph = data
    model = GPCAClassifier(alpha=5.0, boosting=False)
    expected = set(vars(model.fit(X, Y, graph=graph)))
    model.fit(X, Y[:, 0].astype(int), graph=graph)
    assert set(vars(model.fit(X, Y, graph=graph))) == expected
