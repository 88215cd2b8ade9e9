"""Ghost edges of continuous and multi-label targets against dense formulas."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from properties import examples
from truth import (
    KINDS,
    align_signs,
    degrees,
    dense_components,
    dense_ghost,
    dense_P,
    dense_solve,
    objective,
    propagation,
    random_features,
    random_graph,
    random_labels,
    random_targets,
    row_weights,
    same_subspace,
)

from gpcanet import GPCA, GPCAPath, load_model, save_model
from gpcanet.linalg import Solver

METHODS = ["direct", "chebyshev", "cg", "fixed-point"]
FORMS = ["balanced", "paper"]
NORMALIZATIONS = ["sym", "rw"]

cases = {
    "kind": st.sampled_from(sorted(KINDS)),
    "n": st.integers(12, 50),
    "t": st.integers(1, 4),
    "targets": st.sampled_from(["signed", "indicators"]),
    "beta": st.sampled_from([0.05, 0.5, 1.0]),
    "alpha": st.floats(0.1, 60),
    "ghost": st.sampled_from(FORMS),
    "normalization": st.sampled_from(NORMALIZATIONS),
    "seed": st.integers(0, 1000),
}


@examples(60)
@given(**cases, method=st.sampled_from(METHODS))
def test_every_solver_equals_the_dense_inverse(
    kind, n, t, targets, beta, alpha, ghost, normalization, seed, method
):
    graph, X = random_graph(n, **KINDS[kind], seed=seed), random_features(n, 3, seed)
    Y = random_targets(n, t, kind=targets, seed=seed)
    options = {"normalization": normalization, "labels": Y, "beta": beta, "ghost": ghost}
    dense = dense_P(graph, **options)
    F = (
        Solver(propagation(graph, **options), alpha, method=method, tol=1e-11, max_iter=4000)
        .solve(X)
        .F
    )
    # For rw the residual is relative to the largest value of a column, and the inverse is bounded
    # in the norm weighted by degree: the ratio of the norms is at most 50.
    np.testing.assert_allclose(F, dense_solve(dense, alpha, X), atol=1e-11 * 50 * np.abs(X).max())


@examples(60)
@given(**cases)
def test_the_system_is_positive_definite(
    kind, n, t, targets, beta, alpha, ghost, normalization, seed
):
    """The spectrum of P is in [-1, 1], so the inverse exists for every alpha and beta."""
    graph, Y = random_graph(n, **KINDS[kind], seed=seed), random_targets(n, t, kind=targets)
    options = {"normalization": normalization, "labels": Y, "beta": beta, "ghost": ghost}
    values = np.linalg.eigvals(propagation(graph, **options) @ np.eye(n))
    assert np.abs(values).max() < 1 + 1e-10
    if ghost == "balanced" or normalization == "sym":
        assert np.abs(values.imag).max() < 1e-6


@examples(30)
@given(**cases, solver=st.sampled_from(["auto", *METHODS]))
def test_theorem_of_supervised_gpca(
    kind, n, t, targets, beta, alpha, ghost, normalization, seed, solver
):
    """W, Z and the objective equal those of a dense eigenproblem, also in a path."""
    graph, X = random_graph(n, **KINDS[kind], seed=seed), random_features(n, 5, seed)
    Y = random_targets(n, t, kind=targets, seed=seed)
    options = {"normalization": normalization, "ghost": ghost, "tol": 1e-11}
    model = GPCA(2, alpha=alpha, beta=beta, solver=solver, **options)
    y = Y if t > 1 else Y[:, 0] + 0.5  # fractions, so that it is not classes
    Z = model.fit_transform(X, y, graph=graph)
    P = dense_P(graph, normalization, y.reshape(n, t), beta, ghost)
    weights, centered = row_weights(graph, normalization), X - X.mean(axis=0)
    values, W = dense_components(centered, P, alpha, 2, weights)
    np.testing.assert_allclose(model.eigenvalues_, values, rtol=1e-7)
    path = GPCAPath(2, alphas=(alpha, 2 * alpha), betas=(0.0, beta), **options)
    path.fit(X, y, graph=graph)
    np.testing.assert_allclose(path.eigenvalues(alpha, beta), values, rtol=1e-7)
    all_values = dense_components(centered, P, alpha, 5, weights)[0]
    if np.all(np.diff(all_values[:3]) < -0.05 * all_values[0]):  # else W is badly conditioned
        assert same_subspace(model.components_.T, W) < 1e-6
        expected = dense_solve(P, alpha, centered @ W)
        np.testing.assert_allclose(align_signs(Z, expected), expected, atol=1e-5)
        np.testing.assert_allclose(path.embedding(alpha, beta), Z, atol=1e-5)
    if ghost == "balanced" or normalization == "sym":
        value = objective(centered, Z, model.components_.T, P, alpha, weights)
        assert model.objective_ == pytest.approx(value, rel=1e-6)
        assert value == pytest.approx((weights[:, None] * centered**2).sum() - values.sum())


# -- what the ghost edges are ----------------------------------------------------------------


def test_indicators_have_the_row_sums_of_the_paper(graph):
    """Without negative entries, D has the row sums of Y Y^T (eq. 17)."""
    Y = (np.random.default_rng(0).random((40, 3)) < 0.4).astype(float)
    G = Y @ Y.T
    sums = G.sum(axis=1)
    scale = np.divide(1, np.sqrt(sums), out=np.zeros(40), where=sums > 0)
    P = propagation(graph, labels=Y, beta=1.0, ghost="paper") @ np.eye(40)
    np.testing.assert_allclose(P, scale[:, None] * G * scale, atol=1e-13)


@pytest.mark.parametrize("ghost", FORMS)
@pytest.mark.parametrize("normalization", NORMALIZATIONS)
def test_indicators_of_classes_equal_class_codes(graph, labels, normalization, ghost):
    Y = np.where(labels[:, None] < 0, np.nan, labels[:, None] == np.arange(3))
    D = degrees(graph)
    np.testing.assert_allclose(
        dense_ghost(Y, D, normalization, ghost), dense_ghost(labels, D, normalization, ghost),
        atol=1e-12,
    )  # fmt: skip
    options = {"normalization": normalization, "beta": 0.4, "ghost": ghost}
    of_codes, of_indicators = (
        propagation(graph, labels=given, **options) @ np.eye(40) for given in (labels, Y)
    )
    np.testing.assert_allclose(of_indicators, of_codes, atol=1e-13)


@pytest.mark.parametrize("normalization", NORMALIZATIONS)
def test_units_of_the_targets_do_not_matter_for_balanced_ghost_edges(graph, X, normalization):
    Y = random_targets(t=3)
    model = GPCA(3, beta=0.5, normalization=normalization, solver="direct")
    expected = model.fit_transform(X, Y, graph=graph)
    other = Y * [1e-9, -3.0, 1e12] + [0.0, 5.0, 1e13]
    np.testing.assert_allclose(model.fit_transform(X, other, graph=graph), expected, atol=1e-6)


def test_dependent_targets_do_not_matter_for_balanced_ghost_edges(graph, X):
    Y = np.random.default_rng(1).standard_normal((40, 2))
    dependent = np.column_stack([Y, Y[:, 0] - 2 * Y[:, 1], np.full(40, 7.0)])
    model = GPCA(3, beta=0.5, solver="direct")
    expected = model.fit_transform(X, Y, graph=graph)
    np.testing.assert_allclose(model.fit_transform(X, dependent, graph=graph), expected, atol=1e-9)


def test_embedding_of_labelled_nodes_is_linear_in_y_for_a_strong_penalty(graph, X):
    """beta = 1 and a large alpha leave only functions of y at the labelled nodes."""
    y = np.random.default_rng(3).standard_normal(40)
    y[20:] = np.nan
    Z = GPCA(2, alpha=1e5, beta=1.0, solver="direct").fit_transform(X, y, graph=graph)
    B = np.column_stack([np.ones(20), y[:20]])
    residual = Z[:20] - B @ np.linalg.lstsq(B, Z[:20], rcond=None)[0]
    assert np.abs(residual).max() < 1e-3 * np.abs(Z[:20]).max()


# -- which y is what -------------------------------------------------------------------------


def embed(X, y, graph):
    return GPCA(2, beta=0.5, solver="direct").fit_transform(X, y, graph=graph)


def test_floats_without_fractions_are_classes(graph, X, labels):
    missing = np.where(labels < 0, np.nan, labels)
    np.testing.assert_array_equal(embed(X, missing, graph), embed(X, labels, graph))


def test_unknown_targets_may_be_nan_masked_or_missing(graph, X):
    y = np.random.default_rng(3).standard_normal(40)
    y[7:25] = np.nan
    expected = embed(X, y, graph)
    for same in (
        np.ma.masked_invalid(y),
        pd.Series(y),
        pd.Series(y).astype("Float64"),
        [None if np.isnan(value) else value for value in y],
    ):
        np.testing.assert_array_equal(embed(X, same, graph), expected)


def test_unknown_indicators_may_be_nan_or_minus_one(graph, X):
    Y = (np.random.default_rng(3).random((40, 3)) < 0.4).astype(float)
    Y[5:20] = np.nan
    expected = embed(X, Y, graph)
    codes = np.where(np.isnan(Y), -1, Y).astype(int)
    np.testing.assert_array_equal(embed(X, codes, graph), expected)
    np.testing.assert_array_equal(embed(X, pd.DataFrame(Y), graph), expected)
    known = np.where(np.isnan(Y), 0, Y)
    np.testing.assert_array_equal(embed(X, sp.csr_array(known), graph), embed(X, known, graph))


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.full((40, 2), np.nan), "column 0 of y has no known value: all are NaN"),
        (np.full((40, 2), -1), "column 0 of y has no known value"),
        (np.linspace(0, 1, 39), "y has 39 values for 40 rows of X; give one per row, NaN where"),
        (np.r_[np.inf, np.linspace(0.1, 1, 39)], "y contains infinity at row 0, column 0"),
        (np.zeros((40, 2, 2)), "Found array with dim 3, while dim <= 2 is required"),
        (np.zeros((40, 0)), r"Found array with 0 feature\(s\)"),
        (np.full((40, 2), "a"), "y has the text .a.; give numbers"),
    ],
)
def test_bad_targets_raise(graph, X, y, message):
    with pytest.raises(ValueError, match=message):
        embed(X, y, graph)


# -- a fitted model --------------------------------------------------------------------------


def test_transform_uses_the_targets_of_fit_also_from_a_file(graph, X, tmp_path):
    Y = random_targets()
    model = GPCA(2, beta=0.5, tol=1e-11)
    Z = model.fit_transform(X, Y, graph=graph)
    np.testing.assert_allclose(model.transform(X, graph=graph), Z, atol=1e-8)
    save_model(model, tmp_path / "model")
    np.testing.assert_allclose(
        load_model(tmp_path / "model").transform(X, graph=graph), Z, atol=1e-8
    )
    nodes = np.random.default_rng(0).permutation(40)
    Z = model.fit_transform(X[nodes[:30]], Y[nodes[:30]], graph=graph, nodes=nodes[:30])
    again = model.transform(X[nodes[10:30]], graph=graph, nodes=nodes[10:30])
    np.testing.assert_allclose(again, Z[10:], atol=1e-8)


def test_permuting_nodes_permutes_the_embedding(graph, X):
    Y = random_targets()
    order = np.random.default_rng(5).permutation(40)
    Z = embed(X, Y, graph)
    permuted = embed(X[order], Y[order], graph.subgraph(order))
    np.testing.assert_allclose(align_signs(permuted, Z[order]), Z[order], atol=1e-9)


def test_half_precision(X):
    graph, Y, X = random_graph(200), random_targets(200), random_features(200).astype(np.float32)
    options = {"alpha": 5.0, "beta": 0.3}
    half = GPCA(3, precision="half", **options).fit_transform(X, Y, graph=graph)
    full = GPCA(3, solver="direct", **options).fit_transform(X, Y, graph=graph)
    np.testing.assert_allclose(half, full, atol=0.03 * np.abs(full).max())


def test_class_codes_are_still_class_means(graph, X):
    """An independent formula: the classes of ghost edges are averaged."""
    labels = random_labels()
    G = propagation(graph, labels=labels, beta=1.0) @ X
    for label in range(3):
        members = labels == label
        np.testing.assert_allclose(
            G[members], np.tile(X[members].mean(axis=0), (members.sum(), 1)), atol=1e-12
        )
    np.testing.assert_allclose(G[labels < 0], X[labels < 0], atol=1e-12)
