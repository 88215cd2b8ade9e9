"""GPCAClassifier: model selection, held-out labels and predictions."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from properties import examples
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression
from truth import dense_P, dense_solve, propagation, random_graph

from gpcanet import GPCA, GPCAClassifier, Graph
from gpcanet.datasets import block_model
from gpcanet.estimators import _model_selection
from gpcanet.estimators._embeddings import degree_columns
from gpcanet.estimators._ensemble import is_clearly_better, prior_ratios, with_priors
from gpcanet.estimators._label_propagation import SMOOTHING_ALPHA, LabelPropagation
from gpcanet.estimators._model_selection import HeadFitter, make_candidates, stratified_folds
from gpcanet.linalg.solvers import refinement

# One candidate without temperature: held-out labels do not change the predictions.
FIXED = {
    "alpha": 10.0,
    "feature_scaling": "none",
    "normalize_embedding": False,
    "C": 1.0,
    "degree": False,
    "correct": False,
    "smooth": False,
    "priors": False,
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
    head = LogisticRegression(C=1.0, max_iter=1000, tol=1e-8).fit(Z[known], y[known])
    # The temperature of the member and that of the mean multiply.
    temperature = model.temperature_ * model.members_[0].temperature
    expected = softmax(head.decision_function(Z) / temperature, axis=1)
    np.testing.assert_allclose(model.label_distributions_, expected, atol=0.01)  # tol of the head
    assert np.mean(model.transduction_ == head.predict(Z)) > 0.98


def test_accuracy_is_high_and_the_graph_improves_it(data, y):
    hidden = y < 0
    with_graph = GPCAClassifier().fit(data.X, y, graph=data.graph).transduction_
    without = GPCAClassifier().fit(data.X, y).transduction_
    accuracy = [np.mean(p[hidden] == data.y[hidden]) for p in (with_graph, without)]
    assert accuracy[0] > 0.8
    assert accuracy[0] > accuracy[1] + 0.1


@pytest.mark.parametrize("used", [False, True, "auto"])
def test_predict_uses_the_chosen_settings(data, y, used):
    counts = np.maximum(data.X, 0)  # with zeros, tf-idf differs from unit norm
    names = ("features", "degree", "statistics", "boosting", "correct", "smooth", "priors")
    model = GPCAClassifier(8, **dict.fromkeys(names, used)).fit(counts, y, graph=data.graph)
    if used != "auto":
        assert model.used_ == (names if used else ())
    np.testing.assert_allclose(
        model.predict_proba(counts, graph=data.graph), model.label_distributions_, atol=1e-5
    )


def test_correct_and_smooth_on_a_subset_of_the_nodes(data, y):
    nodes = np.random.default_rng(0).permutation(len(y))[:300]
    model = GPCAClassifier(8, **{**FIXED, "correct": True, "smooth": True})
    model.fit(data.X[nodes], y[nodes], graph=data.graph, nodes=nodes)
    again = model.predict_proba(data.X[nodes], graph=data.graph, nodes=nodes)
    np.testing.assert_allclose(again, model.label_distributions_, atol=1e-5)


def test_without_a_graph_training_labels_do_not_change_predictions(data, y):
    # Without edges, propagated labels stay where they are.
    model = GPCAClassifier(8, **{**FIXED, "correct": True}).fit(data.X, y)
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
    model = GPCAClassifier(8, **{**FIXED, "correct": smooth, "smooth": smooth}, beta=beta)
    model.fit(data.X, y, graph=data.graph)
    np.testing.assert_allclose(
        model.predict_proba(data.X, graph=data.graph), model.label_distributions_, atol=1e-5
    )
    np.testing.assert_array_equal(
        model.predict(data.X, graph=data.graph),
        model.classes_[model.label_distributions_.argmax(1)],
    )
    np.testing.assert_allclose(model.label_distributions_.sum(axis=1), 1, atol=1e-6)


def test_predict_equals_transduction_if_embeddings_are_solved_in_half_precision(
    data, y, compiled, monkeypatch
):
    monkeypatch.setattr(refinement, "MIXED_BYTES", 0)
    X = data.X.astype(np.float32)
    model = GPCAClassifier(8).fit(X, y, graph=data.graph)
    assert {gpca.precision for gpca in model.gpca_ if gpca.alpha > 0} == {"half"}
    np.testing.assert_allclose(
        model.predict_proba(X, graph=data.graph), model.label_distributions_, atol=1e-5
    )


def test_the_mean_of_the_best_members_is_predicted(data, y):
    settings = {**FIXED, "alpha": [8.0, 10.0], "tol": 1e-6}
    average = GPCAClassifier(8, **settings).fit(data.X, y, graph=data.graph)
    chosen = GPCAClassifier(8, **settings, n_members=1).fit(data.X, y, graph=data.graph)
    assert len(chosen.members_) == 1
    assert chosen.selected_[0] == average.selected_[0]
    assert {member["alpha"] for member in average.selected_} == {8.0, 10.0}
    parts = []
    for member, gpca in zip(average.members_, average.gpca_, strict=True):
        p = member.head.predict_proba(gpca.transform(data.X, graph=data.graph))
        p = p ** (1 / member.temperature)
        parts.append(p / p.sum(axis=1, keepdims=True))
    mean = np.mean(parts, axis=0) ** (1 / average.temperature_)
    mean /= mean.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(average.label_distributions_, mean, atol=1e-4)  # tol of float32


def test_validation_nodes_are_not_used_for_training(data, y):
    known = np.flatnonzero(y >= 0)
    validation = known[::2]
    model = GPCAClassifier(8, **FIXED).fit(data.X, y, graph=data.graph, validation=validation)
    only_train = y.copy()
    only_train[validation] = -1
    reference = GPCAClassifier(8, **FIXED).fit(data.X, only_train, graph=data.graph)
    heads = [one.members_[0].head.coefficients for one in (model, reference)]
    np.testing.assert_allclose(*heads, atol=0.05)  # they start from different coefficients
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
    for fold in stratified_folds(y, 3, np.random.default_rng(seed)):
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
    forced = GPCAClassifier(8, alpha=10.0, feature_scaling="tfidf").fit(counts, y, graph=data.graph)
    assert {member["feature_scaling"] for member in forced.selected_} == {"tfidf"}
    np.testing.assert_allclose(
        forced.predict_proba(counts, graph=data.graph), forced.label_distributions_, atol=1e-5
    )


def test_units_of_dense_columns_do_not_matter(data, y):
    units = 10.0 ** np.linspace(-3, 3, 16)
    fits = {}
    for name, X in {"own": data.X, "other": data.X * units, "sparse": sp.csr_array(data.X)}.items():
        model = GPCAClassifier().fit(X, y, graph=data.graph)
        scalings = {member["feature_scaling"] for member in model.selected_}
        fits[name] = np.mean(model.transduction_ == data.y), scalings
    assert fits["own"][0] > 0.9
    assert fits["other"][0] > 0.9  # 0.82 without "standard"
    assert "standard" in fits["other"][1]
    assert "standard" not in fits["own"][1] | fits["sparse"][1]
    forced = GPCAClassifier(8, **{**FIXED, "feature_scaling": "standard"})
    by_units = [
        forced.fit(X, y, graph=data.graph).label_distributions_ for X in (data.X, data.X * units)
    ]
    np.testing.assert_allclose(*by_units, atol=1e-4)  # products in float32 and float64


def test_predict_on_a_new_graph(data, y):
    other = block_model(150, 700, n_features=16, n_classes=4, seed=8)
    model = GPCAClassifier(8, **FIXED).fit(data.X, y, graph=data.graph)
    assert model.predict_proba(other.X, graph=other.graph).shape == (150, 4)


def test_correct_and_smooth_equal_the_dense_formula(graph):
    rng = np.random.default_rng(0)
    P0 = rng.dirichlet(np.ones(3), graph.n_nodes)
    codes = np.where(rng.random(graph.n_nodes) < 0.3, rng.integers(0, 3, graph.n_nodes), -1)
    known = codes >= 0
    P = dense_P(graph)
    errors = np.where(known[:, None], np.eye(3)[codes] - P0, 0)
    corrected = np.maximum(P0 + dense_solve(P, SMOOTHING_ALPHA, errors), 0)
    corrected /= corrected.sum(axis=1, keepdims=True)
    replaced = np.where(known[:, None], np.eye(3)[codes], corrected)
    smoothed = dense_solve(P, SMOOTHING_ALPHA, replaced)
    smoothed /= smoothed.sum(axis=1, keepdims=True)
    labels = LabelPropagation(propagation(graph), codes)
    np.testing.assert_allclose(labels.correct(P0), corrected, atol=1e-8)
    np.testing.assert_allclose(labels.smooth(corrected), smoothed, atol=1e-8)
    both = labels.apply(P0, True, True)
    np.testing.assert_allclose(both, smoothed, atol=1e-8)
    rows, variants = np.arange(0, graph.n_nodes, 3), [(False, False), (True, False), (True, True)]
    found = labels.held_out(P0, rows, variants)
    for values, part in zip((P0, corrected, smoothed), found, strict=True):
        np.testing.assert_allclose(part, values[rows], atol=1e-8)


def test_propagated_labels_are_used_if_they_clearly_help():
    # The features are noise and the graph is homophilous, so propagated labels are better.
    data = block_model(600, 6000, n_features=4, n_classes=3, homophily=0.97, feature_noise=50.0)
    y = np.where(np.arange(600) % 4 == 0, data.y, -1)
    model = GPCAClassifier(alpha=0.1).fit(data.X, y, graph=data.graph)
    assert set(model.used_) & {"correct", "smooth"}
    assert np.mean(model.transduction_ == data.y) > 0.9
    without = GPCAClassifier(alpha=0.1, correct=False, smooth=False)
    assert not set(without.fit(data.X, y, graph=data.graph).used_) & {"correct", "smooth"}


def test_degree_is_used_where_classes_differ_in_it():
    rng = np.random.default_rng(0)
    y = np.arange(300) % 2
    links = rng.random((300, 300)) < 0.02 * np.outer(1 + y, 1 + y)
    graph = Graph(np.triu(links, 1) | np.triu(links, 1).T)
    X = rng.standard_normal((300, 4))
    known = np.where(np.arange(300) < 80, y, -1)
    model = GPCAClassifier().fit(X, known, graph=graph)
    assert "degree" in model.used_
    without = GPCAClassifier(degree=False).fit(X, known, graph=graph)
    accuracy = [np.mean(one.transduction_[80:] == y[80:]) for one in (model, without)]
    assert accuracy[0] > accuracy[1] + 0.1


@examples(20)
@given(seed=st.integers(0, 10**6), alphas=st.sets(st.sampled_from([0.0, 0.5, 5.0, 50.0])))
def test_degree_columns_equal_a_dense_solve(seed, alphas):
    graph = random_graph(30, seed=seed)
    columns = degree_columns(propagation(graph), sorted(alphas))
    for alpha, found in zip(sorted(alphas), columns, strict=True):
        expected = dense_solve(dense_P(graph), alpha, np.ones((30, 1)))
        np.testing.assert_allclose(found, expected, atol=0.02 * np.abs(expected).max())


@examples(20)
@given(seed=st.integers(0, 10**6), weighted=st.booleans())
def test_class_frequencies_of_unlabelled_nodes_are_estimated(seed, weighted):
    # Two classes of 10 training nodes each; their frequencies elsewhere are 80 and 20 per cent.
    rng = np.random.default_rng(seed)
    y = (rng.random(4000) < 0.2).astype(int)
    x = y + 0.5 * rng.standard_normal(4000)
    log_odds = (x - 0.5) / 0.25  # those of equal frequencies
    P = np.stack([1 / (1 + np.exp(log_odds)), 1 / (1 + np.exp(-log_odds))], axis=1)
    codes = np.where(np.arange(4000) < 20, np.arange(4000) % 2, -1)
    weights = np.full(4000, 2.0) if weighted else None
    ratios = prior_ratios(P, codes, weights, 1.0)
    np.testing.assert_allclose(ratios / 2, [0.8, 0.2], atol=0.04)
    adjusted = with_priors(P, ratios)
    np.testing.assert_allclose(adjusted.sum(axis=1), 1)
    right = [np.mean(one.argmax(axis=1)[20:] == y[20:]) for one in (P, adjusted)]
    assert right[1] > right[0]
    half = prior_ratios(P, codes, weights, 0.5)
    assert np.all(np.abs(half - 1) < np.abs(ratios - 1))
    np.testing.assert_array_equal(prior_ratios(P, codes, weights, 0.0), 1)
    np.testing.assert_allclose(prior_ratios(P[:, ::-1], np.where(codes < 0, -1, 1 - codes),
                                            weights, 1.0), ratios[::-1])  # fmt: skip


def test_class_frequencies_are_not_estimated_with_class_weights(data, y):
    options = {**FIXED, "priors": "auto"}
    weighted = GPCAClassifier(8, **options, class_weight="balanced")
    assert weighted.fit(data.X, y, graph=data.graph).used_ == ()
    plain = GPCAClassifier(8, **options).fit(data.X, y, graph=data.graph)
    assert plain.used_ == ("priors",)
    assert 0 <= plain.calibration_error_ < 0.3


def test_every_fold_has_training_nodes_of_every_class():
    codes = np.array([0, 0, 1, -1, 2, 2, 2, -1, 0])  # class 1 has a single node
    folds = stratified_folds(codes, 5, np.random.default_rng(0))
    held = np.concatenate([fold.held_out for fold in folds])
    assert sorted(held) == [0, 1, 4, 5, 6, 8]
    for fold in folds:
        assert set(codes[fold.train]) == {0, 1, 2}
        assert not set(fold.train) & set(fold.held_out)


def test_a_difference_must_exceed_two_standard_errors():
    right, wrong = np.array([0.9, 0.1]), np.array([0.1, 0.9])
    codes = np.zeros(100, int)

    def predictions(n_right):
        return np.array([right] * n_right + [wrong] * (100 - n_right))

    # The standard error of a difference in 3 of 100 nodes is 0.017, and in 6 of 100 0.024.
    assert not is_clearly_better(predictions(53), predictions(50), codes)
    assert is_clearly_better(predictions(56), predictions(50), codes)
    assert not is_clearly_better(predictions(50), predictions(50), codes)


def test_clearly_worse_candidates_are_no_members(data):
    # Without the graph the noisy features predict much worse, so alpha = 0 is dropped.
    model = GPCAClassifier(8, **{**FIXED, "alpha": [0.0, 10.0]})
    model.fit(data.X, np.where(np.arange(400) < 200, data.y, -1), graph=data.graph)
    assert [member["alpha"] for member in model.selected_] == [10.0]


def test_with_many_labels_candidates_are_ranked_on_a_part_of_them(data, monkeypatch):
    monkeypatch.setattr(_model_selection, "RANKING_LABELS", (40, 80))
    sizes = []
    fit = HeadFitter.fit

    def watched(self, candidate, train, n_labels, *args, **kwargs):
        sizes.append(min(n_labels, len(train)))
        return fit(self, candidate, train, n_labels, *args, **kwargs)

    monkeypatch.setattr(HeadFitter, "fit", watched)
    model = GPCAClassifier(8).fit(data.X, data.y, graph=data.graph, validation=np.arange(100))
    n_candidates = 2 * 2 * 4 * 7  # scalings, norms, values of C, alphas
    assert sizes[:n_candidates] == [40] * n_candidates
    # The second ranking has at most 20 candidates, and the 10 members are fitted further.
    assert 5 <= sizes.count(80) <= 30
    assert sizes.count(300) == len(model.members_)
    assert np.mean(model.transduction_ == data.y) > 0.9


def test_class_weights_and_sample_weights(data, y):
    weighted = GPCAClassifier(8, **FIXED, class_weight={0: 50.0, 1: 1.0, 2: 1.0, 3: 1.0})
    weighted.fit(data.X, y, graph=data.graph)
    plain = GPCAClassifier(8, **FIXED).fit(data.X, y, graph=data.graph)
    assert np.sum(weighted.transduction_ == 0) > np.sum(plain.transduction_ == 0)
    same = GPCAClassifier(8, **FIXED).fit(data.X, y, np.where(y == 0, 50.0, 1.0), graph=data.graph)
    np.testing.assert_allclose(same.label_distributions_, weighted.label_distributions_)
    balanced = GPCAClassifier(8, **FIXED, class_weight="balanced")
    balanced.fit(data.X, y, graph=data.graph)  # all classes have ten labels
    np.testing.assert_allclose(balanced.label_distributions_, plain.label_distributions_)


@pytest.mark.parametrize("weigh", ["samples", "classes"])
def test_labels_of_weight_zero_are_not_propagated(data, y, weigh):
    known = np.flatnonzero(y >= 0)
    held_out, ignored = known[::4], known[1::4]
    labels = np.where(np.isin(np.arange(400), ignored), 4, y)  # a class of its own
    settings = {**FIXED, "correct": True, "smooth": True}
    weights = np.where(labels == 4, 0.0, 1.0) if weigh == "samples" else None
    if weigh == "classes":
        settings["class_weight"] = {0: 1.0, 1: 1.0, 2: 1.0, 3: 1.0, 4: 0.0}
    model = GPCAClassifier(8, **settings)
    model.fit(data.X, labels, weights, graph=data.graph, validation=held_out)
    assert model.label_distributions_[:, 4].max() < 0.1
    assert np.mean(model.transduction_[ignored] == y[ignored]) > 0.8
    again = model.predict_proba(data.X, graph=data.graph)
    np.testing.assert_allclose(again, model.label_distributions_, atol=1e-4)


def test_held_out_labels_of_weight_zero_do_not_choose_the_steps():
    codes, right = np.zeros(100, int), np.eye(2)[np.zeros(100, int)]
    other = np.eye(2)[(np.arange(100) % 2)]
    assert is_clearly_better(right, other, codes, np.ones(100))
    assert not is_clearly_better(right, other, codes, 1.0 * (np.arange(100) % 2 == 0))


def test_held_out_labels_of_weight_zero(data, y):
    held_out = (y >= 0) & (np.arange(len(y)) % 3 == 0)
    equal = GPCAClassifier(8, **FIXED).fit(data.X, y, graph=data.graph, validation=held_out)
    model = GPCAClassifier(8, **FIXED)
    model.fit(data.X, y, np.where(held_out, 0.0, 1.0), graph=data.graph, validation=held_out)
    assert model.validation_score_ == equal.validation_score_
    # Only one fold has held-out labels of positive weight, and its training labels have none.
    one = np.zeros(len(y))
    one[np.flatnonzero(y >= 0)[0]] = 1
    model = GPCAClassifier(8, alpha=(1.0, 5.0)).fit(data.X, y, one, graph=data.graph)
    assert np.isnan(model.validation_score_)
    np.testing.assert_allclose(model.label_distributions_.sum(axis=1), 1, rtol=1e-6)
    few = np.where(y >= 0, np.random.default_rng(0).random(len(y)) < 0.3, 0).astype(float)
    model = GPCAClassifier(8, alpha=(1.0, 5.0)).fit(data.X, y, few, graph=data.graph)
    assert np.isfinite(model.label_distributions_).all()


def test_subsamples_have_a_label_of_every_class_and_begin_with_positive_weights(data, monkeypatch):
    monkeypatch.setattr(_model_selection, "RANKING_LABELS", (3, 5))
    monkeypatch.setattr(_model_selection, "HELD_OUT_LABELS", 2)
    classes = np.arange(400) % 30
    weights = np.where(np.arange(400) < 60, 1.0, 0.0)
    model = GPCAClassifier(4, alpha=1.0, C=1.0, feature_scaling="none", cv=2)
    model.fit(data.X, classes, weights)
    assert model.label_distributions_.shape == (400, 30)
    assert np.isfinite(model.label_distributions_).all()


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_scale_of_the_features_does_not_matter(data, y, make, dtype):
    settings = {"alpha": (1.0, 10.0), "C": 1.0}
    X = data.X.astype(dtype)
    expected = GPCAClassifier(8, **settings).fit(make(X), y, graph=data.graph)
    for exponent in (-80, 60) if dtype == np.float32 else (-600, 500):
        scaled = make(np.ldexp(X, exponent))
        model = GPCAClassifier(8, **settings).fit(scaled, y, graph=data.graph)
        found = model.predict_proba(scaled, graph=data.graph)
        np.testing.assert_allclose(found, expected.label_distributions_, atol=1e-4)


def test_a_share_of_the_trace_may_be_a_numpy_scalar(data, y):
    models = [
        GPCAClassifier(share, alpha=(1.0, 5.0)).fit(data.X, y, graph=data.graph)
        for share in (0.75, np.float32(0.75))
    ]
    np.testing.assert_array_equal(*(model.label_distributions_ for model in models))


def test_probabilities_are_calibrated(data):
    y = np.where(np.arange(400) < 200, data.y, -1)
    model = GPCAClassifier().fit(data.X, y, graph=data.graph)
    hidden = y < 0
    confidence = model.label_distributions_[hidden].max(axis=1).mean()
    accuracy = np.mean(model.transduction_[hidden] == data.y[hidden])
    assert abs(confidence - accuracy) < 0.06  # two standard errors of 200 nodes are 0.05


def test_a_graph_without_edges_equals_no_graph(data, y):
    model = GPCAClassifier(8, **FIXED).fit(data.X, y, graph=Graph.without_edges(len(y)))
    plain = GPCAClassifier(8, **FIXED).fit(data.X, y)
    np.testing.assert_array_equal(model.label_distributions_, plain.label_distributions_)


def test_with_many_features_the_shared_subspace_is_close_to_separate_fits():
    data = block_model(300, 1500, n_features=80, n_classes=3, feature_noise=2.0, seed=1)
    y = np.where(np.arange(300) < 90, data.y, -1)
    settings = {**FIXED, "alpha": [2.0, 10.0]}
    shared = GPCAClassifier(8, **settings).fit(data.X, y, graph=data.graph)
    exact = GPCAClassifier(8, **settings, tol=1e-6).fit(data.X, y, graph=data.graph)
    assert np.mean(shared.transduction_ == exact.transduction_) > 0.95
    for gpca in shared.gpca_:
        reference = GPCA(8, alpha=gpca.alpha).fit(data.X, graph=data.graph)
        np.testing.assert_allclose(gpca.components_ @ gpca.components_.T, np.eye(8), atol=1e-6)
        # The leading eigenvalues are reached to a few per cent.
        np.testing.assert_allclose(gpca.eigenvalues_.sum(), reference.eigenvalues_.sum(), rtol=0.05)


@examples(6)
@given(st.integers(0, 1000), st.booleans())
def test_permuted_nodes_and_classes_give_permuted_probabilities(seed, tries_all):
    rng = np.random.default_rng(seed)
    data = block_model(150, 700, n_features=30, n_classes=3, feature_noise=3.0, seed=seed)
    y = np.where(rng.random(150) < 0.5, data.y, -1)
    settings = {"alpha": [2.0, 10.0], "feature_scaling": "l2", "n_components": 4}
    settings |= {} if tries_all else {"statistics": True, "boosting": False, "C": 1.0}
    model = GPCAClassifier(**settings).fit(data.X, y, graph=data.graph, nodes=np.arange(150))
    order, names = rng.permutation(150), rng.permutation(3)
    renamed = np.where(y >= 0, names[y], -1)
    other = GPCAClassifier(**settings).fit(
        data.X[order], renamed[order], graph=data.graph, nodes=order
    )
    np.testing.assert_allclose(
        other.label_distributions_[:, names], model.label_distributions_[order], atol=0.02
    )
    assert np.mean(names[model.transduction_][order] == other.transduction_) > 0.98


@pytest.mark.parametrize(
    ("n_classes", "n_features", "tried"), [(2, 64, True), (4, 32, True), (4, 33, False)]
)
def test_boosting_is_tried_for_few_trees_and_columns(n_classes, n_features, tried):
    X = np.random.default_rng(0).normal(size=(50, n_features))
    found = make_candidates(GPCAClassifier(), X, 1000, n_classes, has_edges=True)
    assert any(candidate.head == "boosting" for candidate in found) == tried
