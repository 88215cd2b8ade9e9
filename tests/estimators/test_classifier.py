"""GPCAClassifier: model selection, held-out labels and predictions."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression
from truth import dense_P, dense_solve

import gpcanet.estimators.classifier
from gpcanet import GPCA, GPCAClassifier, Graph
from gpcanet.datasets import block_model
from gpcanet.estimators._model_selection import (
    Candidate,
    is_clearly_better,
    make_folds,
    select_candidate,
)
from gpcanet.estimators.heads import SMOOTHING_ALPHA, correct_and_smooth

FIXED = {
    "alpha": 10.0,
    "feature_scaling": "none",
    "normalize_embedding": False,
    "C": 1.0,
    "correct_and_smooth": False,
}


@pytest.fixture(scope="module")
def data():
    return block_model(400, 2000, n_features=16, n_classes=4, feature_noise=3.0, seed=3)


@pytest.fixture(scope="module")
def y(data):
    """Ten labels per class, -1 elsewhere."""
    labels = np.full(len(data.y), -1)
    for code in range(4):
        members = np.flatnonzero(data.y == code)[:10]
        labels[members] = code
    return labels


def test_with_all_parameters_set_equals_gpca_and_logistic_regression(data, y):
    model = GPCAClassifier(8, **FIXED).fit(data.X, y, graph=data.graph)
    Z = GPCA(8).fit_transform(data.X, graph=data.graph)
    known = y >= 0
    Z = Z / np.sqrt((Z[known] ** 2).sum(axis=1).mean())
    head = LogisticRegression(C=1.0, max_iter=1000).fit(Z[known], y[known])
    np.testing.assert_allclose(model.label_distributions_, head.predict_proba(Z), atol=1e-4)
    np.testing.assert_array_equal(model.transduction_, head.predict(Z))


def test_accuracy_is_high_and_the_graph_improves_it(data, y):
    hidden = y < 0
    with_graph = GPCAClassifier().fit(data.X, y, graph=data.graph).transduction_
    without = GPCAClassifier().fit(data.X, y).transduction_
    accuracy = [np.mean(p[hidden] == data.y[hidden]) for p in (with_graph, without)]
    assert accuracy[0] > 0.8
    assert accuracy[0] > accuracy[1] + 0.1


@pytest.mark.parametrize("smooth", [False, True, "auto"])
def test_predict_uses_the_chosen_feature_scaling(data, y, smooth):
    counts = np.maximum(data.X, 0)  # with zeros, tf-idf differs from unit norm
    model = GPCAClassifier(8, correct_and_smooth=smooth).fit(counts, y, graph=data.graph)
    np.testing.assert_allclose(
        model.predict_proba(counts, graph=data.graph), model.label_distributions_, atol=1e-5
    )


def test_correct_and_smooth_on_a_subset_of_the_nodes(data, y):
    nodes = np.random.default_rng(0).permutation(len(y))[:300]
    model = GPCAClassifier(8, **{**FIXED, "correct_and_smooth": True})
    model.fit(data.X[nodes], y[nodes], graph=data.graph, nodes=nodes)
    again = model.predict_proba(data.X[nodes], graph=data.graph, nodes=nodes)
    np.testing.assert_allclose(again, model.label_distributions_, atol=1e-5)


def test_without_a_graph_training_labels_do_not_change_predictions(data, y):
    model = GPCAClassifier(8, **{**FIXED, "correct_and_smooth": True}).fit(data.X, y)
    plain = GPCAClassifier(8, **FIXED).fit(data.X, y)
    reversed_rows = data.X[::-1]
    np.testing.assert_allclose(
        model.predict_proba(reversed_rows), plain.predict_proba(reversed_rows), atol=1e-6
    )


def test_minus_one_in_a_list_of_text_means_unlabelled(data):
    labels = ["a", "b", -1, "a", "b", -1, "a", "b"]
    assert GPCAClassifier(cv=2).fit(data.X[:8], labels).classes_.tolist() == ["a", "b"]


@pytest.mark.parametrize("smooth", [False, True])
@pytest.mark.parametrize("beta", [0.0, 0.2])
def test_predict_on_the_training_graph_equals_transduction(data, y, beta, smooth):
    model = GPCAClassifier(8, **{**FIXED, "correct_and_smooth": smooth}, beta=beta)
    model.fit(data.X, y, graph=data.graph)
    np.testing.assert_allclose(
        model.predict_proba(data.X, graph=data.graph), model.label_distributions_, atol=1e-5
    )
    np.testing.assert_array_equal(
        model.predict(data.X, graph=data.graph),
        model.classes_[model.label_distributions_.argmax(1)],
    )
    np.testing.assert_allclose(model.label_distributions_.sum(axis=1), 1, atol=1e-6)


def test_several_alphas_are_averaged_or_one_is_selected(data, y):
    settings = {**FIXED, "alpha": [1.0, 10.0]}
    average = GPCAClassifier(8, **settings).fit(data.X, y, graph=data.graph)
    alone = [
        GPCAClassifier(8, **{**FIXED, "alpha": a}).fit(data.X, y, graph=data.graph)
        for a in (1.0, 10.0)
    ]
    mean = np.mean([model.label_distributions_ for model in alone], axis=0)
    np.testing.assert_allclose(average.label_distributions_, mean, atol=1e-6)
    chosen = GPCAClassifier(8, **settings, combine="select").fit(data.X, y, graph=data.graph)
    assert len(chosen.alphas_) == 1
    match = alone[[1.0, 10.0].index(chosen.alphas_[0])]
    np.testing.assert_allclose(chosen.label_distributions_, match.label_distributions_, atol=1e-6)


def test_validation_nodes_are_not_used_for_training(data, y):
    known = np.flatnonzero(y >= 0)
    validation = known[::2]
    model = GPCAClassifier(8, **FIXED).fit(data.X, y, graph=data.graph, validation=validation)
    only_train = y.copy()
    only_train[validation] = -1
    reference = GPCAClassifier(8, **FIXED).fit(data.X, only_train, graph=data.graph)
    np.testing.assert_array_equal(model.label_distributions_, reference.label_distributions_)
    correct = model.transduction_[validation] == y[validation]
    assert model.validation_score_ == pytest.approx(correct.mean())
    mask = np.isin(np.arange(len(y)), validation)
    by_mask = GPCAClassifier(8, **FIXED).fit(data.X, y, graph=data.graph, validation=mask)
    np.testing.assert_array_equal(by_mask.label_distributions_, model.label_distributions_)


@pytest.mark.parametrize("beta", [0.0, 0.3])
def test_validation_score_equals_separate_fits_without_the_held_out_labels(data, y, beta):
    # With beta > 0 this also shows that held-out labels add no ghost edges.
    model = GPCAClassifier(8, **FIXED, beta=beta, cv=3).fit(data.X, y, graph=data.graph)
    seed = np.random.RandomState(0).randint(2**31)
    correct = []
    for fold in make_folds(y, 3, np.random.default_rng(seed)):
        labels = np.full_like(y, -1)
        labels[fold.train] = y[fold.train]
        part = GPCAClassifier(8, **FIXED, beta=beta).fit(data.X, labels, graph=data.graph)
        correct.append(part.transduction_[fold.held_out] == y[fold.held_out])
    assert model.validation_score_ == pytest.approx(np.concatenate(correct).mean())


def test_text_labels_with_missing_values(data, y):
    names = np.array([None if label < 0 else f"class {label}" for label in y], dtype=object)
    model = GPCAClassifier(8, **FIXED).fit(data.X, names, graph=data.graph)
    numbers = GPCAClassifier(8, **FIXED).fit(data.X, y, graph=data.graph)
    assert model.classes_.tolist() == [f"class {i}" for i in range(4)]
    assert model.transduction_.tolist() == [f"class {i}" for i in numbers.transduction_]


def test_score_ignores_unlabelled_nodes(data, y):
    model = GPCAClassifier(8, **FIXED).fit(data.X, y, graph=data.graph)
    half = np.where(np.arange(len(y)) % 2, data.y, -1)
    predicted = model.predict(data.X, graph=data.graph)
    expected = np.mean(predicted[1::2] == data.y[1::2])
    assert model.score(data.X, half, graph=data.graph) == pytest.approx(expected)


def test_one_label_per_class_is_enough(data):
    y = np.full(len(data.y), -1)
    for code in range(4):
        y[np.flatnonzero(data.y == code)[0]] = code
    model = GPCAClassifier().fit(data.X, y, graph=data.graph)
    assert np.isnan(model.validation_score_)
    assert set(model.transduction_) <= set(range(4))


def test_tfidf_of_sparse_counts(y, data):
    counts = sp.csr_array(np.maximum(data.X, 0))
    model = GPCAClassifier(8, alpha=10.0).fit(counts, y, graph=data.graph)
    assert model.feature_scaling_ in ("l2", "none", "tfidf")
    forced = GPCAClassifier(8, alpha=10.0, feature_scaling="tfidf").fit(counts, y, graph=data.graph)
    assert forced.feature_scaling_ == "tfidf"
    np.testing.assert_allclose(
        forced.predict_proba(counts, graph=data.graph), forced.label_distributions_, atol=1e-5
    )


def test_predict_on_a_new_graph(data, y):
    other = block_model(150, 700, n_features=16, n_classes=4, seed=8)
    model = GPCAClassifier(8, **FIXED).fit(data.X, y, graph=data.graph)
    assert model.predict_proba(other.X, graph=other.graph).shape == (150, 4)


def test_correct_and_smooth_equals_the_dense_formula(graph):
    rng = np.random.default_rng(0)
    P0 = rng.dirichlet(np.ones(3), graph.n_nodes)
    codes = np.where(rng.random(graph.n_nodes) < 0.3, rng.integers(0, 3, graph.n_nodes), -1)
    known = codes >= 0
    P = dense_P(graph)
    errors = np.where(known[:, None], np.eye(3)[codes] - P0, 0)
    smoothed = P0 + dense_solve(P, SMOOTHING_ALPHA, errors)
    smoothed[known] = np.eye(3)[codes[known]]
    smoothed = np.maximum(dense_solve(P, SMOOTHING_ALPHA, smoothed), 0)
    expected = smoothed / smoothed.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(correct_and_smooth(graph, P0, codes), expected, atol=1e-8)


def test_correct_and_smooth_is_chosen_if_it_clearly_helps():
    # The features are noise and the graph is homophilous, so propagated labels are better.
    data = block_model(600, 6000, n_features=4, n_classes=3, homophily=0.97, feature_noise=50.0)
    y = np.where(np.arange(600) % 4 == 0, data.y, -1)
    model = GPCAClassifier(alpha=0.1).fit(data.X, y, graph=data.graph)
    assert model.correct_and_smooth_
    assert np.mean(model.transduction_ == data.y) > 0.9


def test_every_fold_has_training_nodes_of_every_class():
    codes = np.array([0, 0, 1, -1, 2, 2, 2, -1, 0])  # class 1 has a single node
    folds = make_folds(codes, 5, np.random.default_rng(0))
    held = np.concatenate([fold.held_out for fold in folds])
    assert sorted(held) == [0, 1, 4, 5, 6, 8]
    for fold in folds:
        assert set(codes[fold.train]) == {0, 1, 2}
        assert not set(fold.train) & set(fold.held_out)


def test_the_default_is_kept_unless_another_candidate_is_clearly_better():
    default, other = (Candidate((1.0,), "l2", False, C) for C in (0.3, 1.0))
    scores = {default: 0.80, other: 0.82}
    candidates, accuracy = [default, other], scores.__getitem__
    # The standard error is 0.038 with 100 nodes.
    assert select_candidate(candidates, accuracy, n_held_out=100)[0] is default
    assert select_candidate(candidates, accuracy, n_held_out=10_000)[0] is other
    assert is_clearly_better(0.9, 0.5, 20)
    assert not is_clearly_better(0.5, 0.5, 10**9)


def test_a_graph_without_edges_equals_no_graph(data, y):
    model = GPCAClassifier(8, **FIXED).fit(data.X, y, graph=Graph.without_edges(len(y)))
    plain = GPCAClassifier(8, **FIXED).fit(data.X, y)
    np.testing.assert_array_equal(model.label_distributions_, plain.label_distributions_)


def test_with_many_features_all_alphas_are_fitted_by_one_path(graph, labels, monkeypatch):
    paths = []

    class Path(gpcanet.estimators.classifier.GPCAPath):
        def fit(self, *args, **kwargs):
            paths.append(self.alphas)
            return super().fit(*args, **kwargs)

    X = np.random.default_rng(0).random((len(labels), 1100))
    separate = GPCAClassifier(4, alpha=(5.0, 2.0), feature_scaling="none", max_iter=999)
    expected = separate.set_params(memory_limit="9GiB").fit(X, labels, graph=graph)
    monkeypatch.setattr(gpcanet.estimators.classifier, "GPCAPath", Path)
    found = GPCAClassifier(4, alpha=(5.0, 2.0), feature_scaling="none").fit(X, labels, graph=graph)
    assert paths == [[2.0, 5.0]]
    assert found.alphas_ == expected.alphas_ == (5.0, 2.0)
    for one, other in zip(found.gpca_, expected.gpca_, strict=True):
        assert one.alpha == other.alpha
        np.testing.assert_allclose(one.components_, other.components_, atol=1e-5)
    np.testing.assert_allclose(found.label_distributions_, expected.label_distributions_, atol=1e-5)
