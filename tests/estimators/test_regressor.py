"""GPCARegressor and its parts against scikit-learn and dense formulas."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import sklearn
from hypothesis import given
from hypothesis import strategies as st
from properties import examples
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import RidgeCV
from sklearn.metrics import r2_score
from sklearn.model_selection import cross_validate
from threadpoolctl import threadpool_info, threadpool_limits
from truth import KINDS, dense_P, dense_solve, random_features, random_graph

from gpcanet import GPCA, GPCARegressor, Graph, load_model, save_model
from gpcanet.estimators._boosting import BoostedTrees
from gpcanet.estimators._node_statistics import node_table
from gpcanet.estimators._stacking import (
    MAX_TOTAL,
    N_FOLDS,
    PENALTIES,
    Ridge,
    propagate,
    residual_gains,
    sorted_folds,
    stacking_weights,
)
from gpcanet.linalg import one_blas_thread


def smooth_data(n=300, d=4, noise=0.1, seed=0):
    """A target that is smooth over a graph, and features that are noisy copies of it."""
    graph = random_graph(n, seed=seed)
    rng = np.random.default_rng(seed)
    signal = dense_solve(dense_P(graph), 20.0, rng.standard_normal((n, 1)))
    signal /= signal.std()
    X = signal + 2 * rng.standard_normal((n, d))
    y = signal[:, 0] + noise * rng.standard_normal(n)
    return X, y, graph


def hide(y, share=0.5, seed=1):
    """y with NaN for some nodes, and their mask."""
    hidden = np.random.default_rng(seed).random(len(y)) < share
    return np.where(hidden if y.ndim == 1 else hidden[:, None], np.nan, y), hidden


# -- ridge regression --------------------------------------------------------------------------


@examples(25)
@given(st.integers(14, 20), st.integers(1, 8), st.booleans(), st.integers(0, 1000))
def test_left_out_predictions_equal_refits(m, p, weighted, seed):
    """Every penalty is tried by normal equations without each row; the intercept has none."""
    rng = np.random.default_rng(seed)
    B, Y = rng.standard_normal((m, p)) + 3, rng.standard_normal((m, 2)) * [1, 50]
    Y += B[:, :1]
    weights = rng.uniform(0.2, 3, m) if weighted else np.ones(m)
    total = (weights[:, None] * (B - np.average(B, axis=0, weights=weights)) ** 2).sum()
    C = np.column_stack([B, np.ones(m)])

    def solve(rows, penalty):
        W = weights[rows, None] * C[rows]
        return np.linalg.solve(W.T @ C[rows] + np.diag([penalty] * p + [0.0]), W.T @ Y[rows])

    left_out = np.array([
        [C[i] @ solve(np.arange(m) != i, penalty) for i in range(m)]
        for penalty in PENALTIES * total
    ])  # fmt: skip
    best = np.einsum("i,pit->pt", weights, (Y - left_out) ** 2).argmin(axis=0)
    ridge = Ridge.fit(B, Y, weights)
    for t in range(2):
        np.testing.assert_allclose(ridge.left_out[:, t], left_out[best[t], :, t], atol=1e-6)
        solution = solve(np.arange(m), PENALTIES[best[t]] * total)[:, t]
        found = [*ridge.coefficients[:, t], ridge.intercepts[t]]
        np.testing.assert_allclose(found, solution, atol=1e-6)


def test_more_columns_than_rows_equal_scikit_learn():
    rng = np.random.default_rng(0)
    B, y = rng.standard_normal((20, 90)), rng.standard_normal(20)
    total = ((B - B.mean(axis=0)) ** 2).sum()
    peer = RidgeCV(PENALTIES * total).fit(B, y)
    ridge = Ridge.fit(B, y[:, None], np.ones(20))
    np.testing.assert_allclose(ridge.coefficients[:, 0], peer.coef_, atol=1e-8)
    np.testing.assert_allclose(ridge.intercepts[0], peer.intercept_, atol=1e-8)


def test_targets_with_other_unknown_rows_equal_separate_regressions():
    rng = np.random.default_rng(0)
    B, Y = rng.standard_normal((30, 5)), rng.standard_normal((30, 3))
    Y[:10, 1] = np.nan
    weights = rng.uniform(0.5, 2, 30)
    together = Ridge.fit(B, Y, weights)
    for t in range(3):
        known = ~np.isnan(Y[:, t])
        alone = Ridge.fit(B[known], Y[known][:, [t]], weights[known])
        np.testing.assert_allclose(together.coefficients[:, [t]], alone.coefficients, atol=1e-12)
        np.testing.assert_allclose(together.left_out[known, t], alone.left_out[:, 0], atol=1e-12)
        assert np.isnan(together.left_out[~known, t]).all()


def test_stacking_weights_are_a_minimum():
    rng = np.random.default_rng(0)
    y, weights = rng.standard_normal(50) + 4, rng.uniform(0.5, 2, 50)
    predictions = y[:, None] + rng.standard_normal((50, 4)) * [0.5, 1, 2, 9]
    found = stacking_weights(predictions, y, weights)
    mean = np.average(y, weights=weights)

    def error(w):
        return weights @ (y - mean - (predictions - mean) @ w) ** 2

    assert np.all(found >= 0)
    assert found.sum() <= MAX_TOTAL + 1e-6
    for _ in range(200):
        other = np.maximum(found + 0.05 * rng.standard_normal(4), 0)
        if other.sum() <= MAX_TOTAL:
            assert error(other) >= error(found) - 1e-6
    np.testing.assert_array_equal(stacking_weights(predictions, np.full(50, 7.0), weights), 0)
    tiny = stacking_weights(mean + 1e-6 * (predictions - mean), y, weights)
    assert tiny.sum() == pytest.approx(MAX_TOTAL, rel=1e-6)


# -- boosting ----------------------------------------------------------------------------------


@examples(10)
@given(st.integers(25, 200), st.integers(1, 6), st.integers(0, 1000))
def test_trees_equal_those_of_scikit_learn(n, d, seed):
    rng = np.random.default_rng(seed)
    table = rng.standard_normal((n, d)).round(1)
    y = np.sin(3 * table[:, 0]) + rng.standard_normal(n)
    model = HistGradientBoostingRegressor(max_iter=20, early_stopping=False).fit(table, y)
    other = rng.standard_normal((100, d)).round(1)
    np.testing.assert_allclose(BoostedTrees.of(model).predict(other), model.predict(other))


def test_node_table_equals_dense_formulas(any_graph, X):
    A = any_graph.adjacency.toarray() + np.eye(40)
    shares = A / A.sum(axis=1, keepdims=True)
    means = shares @ X
    variances = np.array([row @ (X - mean) ** 2 for row, mean in zip(shares, means, strict=True)])
    expected = [X, means, np.sqrt(variances), shares @ means, np.log(A.sum(axis=1))[:, None]]
    np.testing.assert_allclose(node_table(X, any_graph), np.hstack(expected), atol=1e-6)


def test_boosting_takes_part_where_the_target_is_not_linear():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (500, 3))
    y, hidden = hide(np.sign(X[:, 0]) * X[:, 1] ** 2)
    model = GPCARegressor().fit(X, y, graph=Graph.without_edges(500))
    plain = GPCARegressor(boosting=False).fit(X, y, graph=Graph.without_edges(500))
    assert model.boosting_
    assert not plain.boosting_
    truth = (np.sign(X[:, 0]) * X[:, 1] ** 2)[hidden]
    assert r2_score(truth, model.fitted_values_[hidden]) > 0.9
    assert r2_score(truth, plain.fitted_values_[hidden]) < 0.5


# -- propagated residuals ----------------------------------------------------------------------


def test_propagated_residuals_equal_a_dense_solve(any_graph):
    residuals = np.random.default_rng(0).standard_normal((40, 2))
    residuals[10:30] = np.nan
    sums = dense_solve(dense_P(any_graph, "rw"), 5.0, np.nan_to_num(residuals))
    shares = dense_solve(dense_P(any_graph, "rw"), 5.0, 1.0 - np.isnan(residuals))
    expected = np.divide(sums, shares, out=np.zeros_like(sums), where=shares > 1e-4)
    np.testing.assert_allclose(propagate(any_graph, residuals, 5.0), expected, atol=1e-4)


def test_left_out_residuals_do_not_see_their_own_fold(any_graph):
    rng = np.random.default_rng(0)
    labeled = rng.permutation(40)[:30]
    residuals = np.full((40, 1), np.nan)
    residuals[labeled] = 1 + rng.standard_normal((30, 1))  # a common error, so that it helps
    folds, weights = np.arange(30) % N_FOLDS, rng.uniform(0.5, 2, 30)
    alpha, gains, smoothed = residual_gains(
        any_graph, residuals, labeled, weights, folds, required=True
    )
    S = np.linalg.inv(np.eye(40) + alpha * (np.eye(40) - dense_P(any_graph, "rw")))
    expected = np.empty(30)
    for i, node in enumerate(labeled):
        others = labeled[folds != folds[i]]
        share = S[node, others].sum()
        expected[i] = S[node, others] @ residuals[others, 0] / share if share > 1e-4 else 0
    np.testing.assert_allclose(smoothed[:, 0], expected, atol=1e-4)
    r = residuals[labeled, 0]
    gain = (weights * r) @ expected / ((weights * expected) @ expected)
    assert gains[0] == pytest.approx(min(gain, 1), abs=1e-4)


def test_residuals_are_propagated_only_if_that_helps():
    X, y, graph = smooth_data()
    noise = np.random.default_rng(5).standard_normal((300, 2))
    known, hidden = hide(y)
    model = GPCARegressor(alpha=0.0).fit(noise, known, graph=graph)
    assert model.propagate_residuals_
    assert r2_score(y[hidden], model.fitted_values_[hidden]) > 0.2
    random, _ = hide(np.random.default_rng(6).standard_normal(300))
    assert not GPCARegressor().fit(X, random, graph=graph).propagate_residuals_
    off = GPCARegressor(alpha=0.0, propagate_residuals=False).fit(noise, known, graph=graph)
    assert not off.propagate_residuals_


def test_folds_do_not_depend_on_the_order_of_the_nodes():
    rng = np.random.default_rng(0)
    Y, X, order = rng.integers(0, 3, (50, 1)), rng.standard_normal((50, 2)), rng.permutation(50)
    np.testing.assert_array_equal(sorted_folds(Y, X)[order], sorted_folds(Y[order], X[order]))
    assert np.bincount(sorted_folds(Y, X)).tolist() == [10] * N_FOLDS


# -- the estimator -----------------------------------------------------------------------------


def test_predictions_are_the_weighted_sum_of_ridge_regressions():
    X, y, graph = smooth_data()
    known, _ = hide(y)
    labeled = ~np.isnan(known)
    model = GPCARegressor(boosting=False, propagate_residuals=False).fit(X, known, graph=graph)
    mean = known[labeled].mean()
    expected = np.full(300, mean)
    for scaling, alpha, weight in zip(
        model.feature_scalings_, model.alphas_, model.weights_[:, 0], strict=True
    ):
        scaled = X / X.std(axis=0)
        if scaling.kind == "l2":
            scaled = X / np.linalg.norm(X, axis=1, keepdims=True)
        Z = scaled
        if alpha is not None:
            Z = GPCA(alpha=alpha).fit_transform(scaled, graph=graph)
        ridge = Ridge.fit(Z[labeled], known[labeled, None], np.ones(labeled.sum()))
        predicted = Z @ ridge.coefficients[:, 0] + ridge.intercepts[0]
        expected += weight * (predicted - mean)
    np.testing.assert_allclose(model.fitted_values_, expected, atol=1e-6)


def test_the_graph_helps_where_the_target_is_smooth():
    X, y, graph = smooth_data()
    known, hidden = hide(y)
    alone = GPCARegressor().fit(X, known).fitted_values_
    with_graph = GPCARegressor().fit(X, known, graph=graph).fitted_values_
    scores = [r2_score(y[hidden], predicted[hidden]) for predicted in (alone, with_graph)]
    assert scores[1] > scores[0] + 0.05


def test_left_out_score_is_close_to_that_of_unknown_values():
    X, y, graph = smooth_data(n=400)
    known, hidden = hide(y)
    model = GPCARegressor().fit(X, known, graph=graph)
    assert model.left_out_r2_ == pytest.approx(
        r2_score(y[hidden], model.fitted_values_[hidden]), abs=0.07
    )


@pytest.mark.parametrize("kind", KINDS)
def test_permuting_nodes_permutes_the_predictions(kind):
    graph, X = random_graph(60, **KINDS[kind]), random_features(60)
    y, _ = hide(X[:, 0] + np.random.default_rng(0).standard_normal(60))
    order = np.random.default_rng(5).permutation(60)
    expected = GPCARegressor().fit(X, y, graph=graph).fitted_values_[order]
    permuted = GPCARegressor().fit(X[order], y[order], graph=graph.subgraph(order))
    np.testing.assert_allclose(permuted.fitted_values_, expected, atol=1e-4)


def test_units_of_the_target_do_not_matter():
    X, y, graph = smooth_data()
    known, _ = hide(y)
    expected = GPCARegressor().fit(X, known, graph=graph).fitted_values_
    for factor, shift in ((1e9, 1e10), (-1e-6, 3.0)):
        found = GPCARegressor().fit(X, factor * known + shift, graph=graph).fitted_values_
        np.testing.assert_allclose((found - shift) / factor, expected, atol=1e-4)


def test_several_targets_equal_separate_fits():
    X, y, graph = smooth_data()
    Y = np.column_stack([hide(y, seed=1)[0], hide(X[:, 0], seed=2)[0], hide(y**2, seed=1)[0]])
    options = {"boosting": False, "propagate_residuals": False}
    together = GPCARegressor(**options).fit(X, Y, graph=graph)
    assert together.fitted_values_.shape == (300, 3)
    for t in range(3):
        alone = GPCARegressor(**options).fit(X, Y[:, t], graph=graph)
        np.testing.assert_allclose(together.fitted_values_[:, t], alone.fitted_values_, atol=1e-8)
    one_column = GPCARegressor(**options).fit(X, Y[:, :1], graph=graph)
    assert one_column.fitted_values_.shape == one_column.predict(X, graph=graph).shape == (300, 1)


def test_weight_zero_means_unknown():
    X, y, graph = smooth_data()
    known, hidden = hide(y)
    expected = GPCARegressor().fit(X, known, graph=graph)
    model = GPCARegressor().fit(X, y, (~hidden).astype(float), graph=graph)
    np.testing.assert_array_equal(model.fitted_values_, expected.fitted_values_)
    doubled = GPCARegressor().fit(X, known, np.full(300, 2.0), graph=graph)
    np.testing.assert_allclose(doubled.fitted_values_, expected.fitted_values_, atol=1e-8)


def test_weights_change_the_regression():
    X = np.column_stack([np.arange(40.0), np.ones(40)])
    y = np.where(np.arange(40) % 2, X[:, 0], -X[:, 0])
    weights = np.where(np.arange(40) % 2, 1.0, 1e-6)
    model = GPCARegressor(boosting=False).fit(X, y, weights)
    np.testing.assert_allclose(model.fitted_values_, X[:, 0], atol=0.1)


@pytest.mark.parametrize("is_sparse", [False, True])
def test_predict_on_the_graph_of_fit_gives_the_fitted_values(tmp_path, is_sparse):
    X, y, graph = smooth_data(n=450)
    known, _ = hide(np.column_stack([np.abs(y), X[:, 0] ** 2]))
    X = sp.csr_array(X) if is_sparse else X
    model = GPCARegressor(propagate_residuals=True).fit(X, known, graph=graph)
    assert model.boosting_
    assert model.propagate_residuals_
    predicted = model.predict(X, graph=graph)
    np.testing.assert_allclose(predicted, model.fitted_values_, atol=1e-4)
    save_model(model, tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert not hasattr(loaded, "fitted_values_")
    np.testing.assert_array_equal(loaded.predict(X, graph=graph), predicted)


def test_fit_and_predict_on_some_nodes_of_a_graph():
    X, y, graph = smooth_data()
    nodes = np.random.default_rng(0).permutation(300)
    first, others = nodes[:200], nodes[200:]
    model = GPCARegressor().fit(X[first], y[first], graph=graph, nodes=first)
    np.testing.assert_allclose(
        model.predict(X[first], graph=graph, nodes=first), model.fitted_values_, atol=1e-5
    )
    predicted = model.predict(X[others], graph=graph, nodes=others)
    assert r2_score(y[others], predicted) > 0.3
    assert model.score(X[others], y[others], graph=graph, nodes=others) == pytest.approx(
        r2_score(y[others], predicted)
    )


def test_new_nodes_are_predicted_from_their_own_rows(tmp_path):
    X, y, graph = smooth_data()
    old = np.arange(290)
    known = hide(y[old])[0]
    model = GPCARegressor(propagate_residuals=True, keep_training_nodes=True)
    model.fit(X[old], known, graph=graph.subgraph(old))
    expected = model.predict(X, graph=graph)[290:]  # all rows are given
    alone = model.predict(X[290:], graph=graph, nodes=np.arange(290, 300))
    np.testing.assert_allclose(alone, expected, atol=1e-5)
    save_model(model, tmp_path / "model")
    again = load_model(tmp_path / "model").predict(X[290:], graph=graph, nodes=np.arange(290, 300))
    np.testing.assert_array_equal(again, alone)


def test_rows_are_matched_by_id():
    X, y, graph = smooth_data()
    ids = [f"node {i}" for i in range(300)]
    named, known = Graph(graph.adjacency, node_ids=ids), hide(y)[0]
    expected = GPCARegressor().fit(X, known, graph=graph).fitted_values_
    order = np.random.default_rng(0).permutation(300)
    frame, series = pd.DataFrame(X, ids), pd.Series(known, ids)
    model = GPCARegressor().fit(frame.iloc[order], series, graph=named)
    np.testing.assert_allclose(model.fitted_values_, expected[order], atol=1e-4)


def test_score_ignores_unknown_values():
    X, y, graph = smooth_data()
    known, hidden = hide(y)
    model = GPCARegressor().fit(X, known, graph=graph)
    truth, weights = np.where(hidden, y, np.nan), np.linspace(1, 2, 300)
    expected = r2_score(
        y[hidden], model.predict(X, graph=graph)[hidden], sample_weight=weights[hidden]
    )
    assert model.score(X, truth, weights, graph=graph) == pytest.approx(expected)


def test_cross_validation():
    X, y, graph = smooth_data()
    with sklearn.config_context(enable_metadata_routing=True):
        params = {"graph": graph, "nodes": np.arange(300)}
        scores = cross_validate(GPCARegressor(), X, y, cv=3, params=params, error_score="raise")
    assert scores["test_score"].min() > 0.3


@pytest.mark.parametrize("n_known", [1, 2, 3, 5, 8, 12])
def test_few_known_values_do_not_give_extreme_predictions(n_known):
    X, y, graph = smooth_data(n=300, d=40)
    known = np.where(np.arange(300) < n_known, y, np.nan)
    fitted = GPCARegressor().fit(X, known, graph=graph).fitted_values_
    assert np.abs(fitted - y[:n_known].mean()).max() <= 4 * np.abs(y).max()
    if n_known == 1:
        np.testing.assert_allclose(fitted, y[0])


def test_a_constant_target_is_predicted_everywhere():
    X, _, graph = smooth_data(n=30)
    model = GPCARegressor().fit(X, np.full(30, 3.5), graph=graph)
    np.testing.assert_array_equal(model.fitted_values_, 3.5)
    assert np.isnan(model.left_out_r2_)


def test_small_types_of_weights_are_weights_in_double_precision():
    X, y, graph = smooth_data(n=100)
    weights = np.random.default_rng(0).integers(1, 100, 100)
    expected, *others = (
        GPCARegressor(alpha=5.0, boosting=False).fit(X, y, weights.astype(dtype), graph=graph)
        for dtype in (float, np.int8, np.uint8, np.float16, object)
    )
    for model in others:
        np.testing.assert_array_equal(model.fitted_values_, expected.fitted_values_)


@pytest.mark.parametrize("boosting", [False, True])
@pytest.mark.parametrize("exponent", [-700, 520, 1000])
def test_the_scale_of_targets_does_not_matter(boosting, exponent):
    X, y, graph = smooth_data(n=100)
    known, _ = hide(np.column_stack([y, y**2]))
    plain, scaled = (
        GPCARegressor(boosting=boosting).fit(X, np.ldexp(known, [0, e]), graph=graph)
        for e in (0, exponent)
    )
    predicted = scaled.predict(X, graph=graph)
    expected = np.ldexp(plain.fitted_values_, [0, exponent])
    np.testing.assert_allclose(predicted, expected, rtol=1e-6)
    np.testing.assert_array_equal(scaled.fitted_values_[:, 0], plain.fitted_values_[:, 0])
    assert scaled.left_out_r2_ == pytest.approx(plain.left_out_r2_)
    score = scaled.score(X, np.ldexp(np.column_stack([y, y**2]), [0, exponent]), graph=graph)
    expected = plain.score(X, np.column_stack([y, y**2]), graph=graph)
    assert score == pytest.approx(expected)


@pytest.mark.parametrize("boosting", [False, True])
@pytest.mark.parametrize(("dtype", "exponent"), [(float, 520), (float, -700), (np.float32, -80)])
def test_the_scale_of_features_does_not_matter(dtype, exponent, boosting):
    X, y, graph = smooth_data(n=100)
    known, _ = hide(y)
    plain, scaled = (
        GPCARegressor(boosting=boosting).fit(np.ldexp(X.astype(dtype), e), known, graph=graph)
        for e in (0, exponent)
    )
    np.testing.assert_allclose(scaled.fitted_values_, plain.fitted_values_, atol=1e-3)


def test_boosting_uses_no_global_random_numbers():
    # scikit-learn bins a random sample of more than 200,000 rows.
    table = np.arange(200_010.0)[:, None]
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    first, second = (
        BoostedTrees.fit_values(table, table[:, 0] % 7, np.ones(len(table))) for _ in range(2)
    )
    np.testing.assert_array_equal(first.thresholds, second.thresholds)
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002


def test_boosting_leaves_the_number_of_blas_threads_alone():
    def blas_threads():
        return {one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"}

    limit = one_blas_thread()

    class Model(HistGradientBoostingRegressor):
        def fit(self, *args):
            limit.__exit__(None, None, None)  # as another thread may do meanwhile
            return super().fit(*args)

    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        limit.__enter__()
        BoostedTrees._fit(Model(max_iter=2), np.eye(60), np.arange(60.0), np.ones(60))
        assert blas_threads() == before


BAD_CALLS = [
    ("no known value", lambda X, y, g: GPCARegressor().fit(X, np.full(30, np.nan), graph=g),
     r"y has no known value: all are NaN"),
    ("infinity", lambda X, y, g: GPCARegressor().fit(X, np.r_[np.inf, y[1:]], graph=g),
     r"y contains infinity at row 0, column 0"),
    ("no y", lambda X, y, g: GPCARegressor().fit(X, None, graph=g), r"requires y to be passed"),
    ("wrong length", lambda X, y, g: GPCARegressor().fit(X, y[:7], graph=g),
     r"y has 7 values for 30 rows of X; give one per row, NaN where unknown"),
    ("text", lambda X, y, g: GPCARegressor().fit(X, ["a"] * 30, graph=g),
     r"y has the text 'a'; give numbers, NaN where unknown, or use GPCAClassifier"),
    ("only zero weights", lambda X, y, g: GPCARegressor().fit(
        X, np.r_[1.0, np.full(29, np.nan)], np.r_[0.0, np.ones(29)], graph=g),
     r"sample_weight is 0 for all known values of a target"),
    ("score with zero weights", lambda X, y, g: GPCARegressor().fit(X, y).score(
        X, np.r_[1.0, np.full(29, np.nan)], np.r_[0.0, np.ones(29)]),
     r"no row of y is known and has a positive weight"),
    ("ragged targets", lambda X, y, g: GPCARegressor().fit(X, [[1, 2], [3]]),
     r"y has rows of different lengths"),
    ("boosting", lambda X, y, g: GPCARegressor(boosting="yes").fit(X, y),
     r"boosting='yes' must be True, False or 'auto'"),
    ("scaling", lambda X, y, g: GPCARegressor(feature_scaling="tfidf").fit(X, y),
     r"feature_scaling='tfidf' must be"),
    ("alpha", lambda X, y, g: GPCARegressor(alpha=[]).fit(X, y), r"alpha=\[\] must be a number or"),
    ("other number of targets", lambda X, y, g: GPCARegressor().fit(X, y).score(
        X, np.zeros((30, 2))), r"y has 2 targets, but the model was fitted with 1"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("call", "message"), [row[1:] for row in BAD_CALLS], ids=[row[0] for row in BAD_CALLS]
)
def test_bad_input_raises_with_advice(call, message):
    X, y, graph = smooth_data(n=30)
    with pytest.raises(ValueError, match=message):
        call(X, y, graph)


def test_damaged_trees_are_refused():
    trees = BoostedTrees.fit_values(np.arange(60.0)[:, None], np.arange(60.0), np.ones(60))
    fields = vars(trees) | {"children": np.zeros_like(trees.children)}
    with pytest.raises(ValueError, match="child that is not after it"):
        BoostedTrees(**fields)
