"""Products with (I + alpha L)^-1 for all alphas at once, against dense formulas."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.polynomial import chebyshev
from properties import examples
from truth import (
    GHOSTS,
    KINDS,
    dense_P,
    dense_solve,
    propagation,
    random_features,
    random_graph,
    random_labels,
    row_weights,
)

import gpcanet.linalg.propagation
from gpcanet.linalg import Grid, Moments, Resolvents, Samples, Sharing, plan_sharing
from gpcanet.linalg import samples as samples_module
from gpcanet.linalg.moments import ghost_columns, moments_needed, series
from gpcanet.linalg.samples import sample_points, solve_series, steps_needed

PLANS = [Sharing(way, by_node, 0.0) for way in ("moments", "samples") for by_node in (False, True)]


def dense_chebyshev(P, t) -> np.ndarray:
    """T_t(P) by its action on the eigenvalues; P must be symmetric."""
    values, vectors = np.linalg.eigh(P)
    return (vectors * np.cos(t * np.arccos(np.clip(values, -1, 1)))) @ vectors.T


# -- moments -------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", list(KINDS))
def test_moments_are_products_with_chebyshev_polynomials(X, kind):
    graph = random_graph(**KINDS[kind])
    moments = Moments(propagation(graph), X, 20.0, 1e-8).moments
    P = dense_P(graph)
    assert len(moments) > 40
    for t, moment in enumerate(moments):
        np.testing.assert_allclose(moment, X.T @ dense_chebyshev(P, t) @ X, atol=1e-11)


@pytest.mark.usefixtures("either_path")
@pytest.mark.parametrize("reorder", [False, True])
def test_moments_of_the_walk_weigh_rows_by_degree(graph, X, reorder):
    moments = Moments(propagation(graph, normalization="rw", reorder=reorder), X, 5.0, 1e-8)
    D = row_weights(graph, "rw")
    symmetric, rooted = dense_P(graph), np.sqrt(D)[:, None] * X
    for t, moment in enumerate(moments.moments):
        expected = rooted.T @ dense_chebyshev(symmetric, t) @ rooted
        np.testing.assert_allclose(moment, expected, atol=1e-10)


def test_two_moments_a_step(graph, X, monkeypatch):
    P, steps = propagation(graph), []
    step = type(P).step
    monkeypatch.setattr(type(P), "step", lambda *given: steps.append(1) or step(*given))
    moments = Moments(P, X, 50.0, 1e-6)
    assert len(moments.moments) == 2 * len(steps) + 1


def test_series_is_that_of_the_inverse():
    mu = np.linspace(-1, 1, 101)
    for alpha in (0.0, 0.3, 5.0, 80.0):
        for tol in (1e-3, 1e-9):
            terms = series(alpha, moments_needed(alpha, tol) + 1)
            miss = chebyshev.chebval(mu, terms) - 1 / (1 + alpha * (1 - mu))
            assert np.abs(miss).max() <= tol + 1e-15
            if len(terms) > 1:  # not one too many: at mu = 1 the bound is met
                shorter = chebyshev.chebval(1.0, terms[:-1])
                assert abs(shorter - 1) > tol


def test_the_given_block_is_left_alone(graph, X):
    for normalization in ("sym", "rw"):
        kept = X.copy()
        P = propagation(graph, normalization=normalization)
        Moments(P, X, 5.0, 1e-6)
        Samples(P, X, 1.0, 5.0, 1e-6)
        np.testing.assert_array_equal(X, kept)


# -- samples -------------------------------------------------------------------------------


@pytest.mark.usefixtures("either_path")
@pytest.mark.parametrize(("columns", "n_bytes"), [(2, 2**30), (256, 2**30), (256, 1)])
@pytest.mark.parametrize("normalization", ["sym", "rw"])
def test_samples_equal_the_dense_inverse_between_the_points(
    graph, X, normalization, columns, n_bytes, monkeypatch
):
    monkeypatch.setattr(samples_module, "COLUMNS", columns)
    monkeypatch.setattr(samples_module, "BLOCK_BYTES", n_bytes)
    samples = Samples(propagation(graph, normalization=normalization), X, 0.5, 50.0, 1e-9)
    P, D = dense_P(graph, normalization), row_weights(graph, normalization)[:, None]
    for alpha in (0.0, 0.5, 0.77, 3.0, 50.0):
        expected = X.T @ (D * dense_solve(P, alpha, X))
        # 1e-9 for the series and as much for the polynomial, of the squares of X.
        np.testing.assert_allclose(samples.product(alpha), expected, atol=2e-9 * (D * X**2).sum())


@examples(25)
@given(st.floats(1e-3, 100), st.floats(1, 1000), st.sampled_from([1e-4, 1e-6, 1e-9]))
def test_sample_points_are_enough(low, ratio, tol):
    points = sample_points(low, low * ratio, tol)
    lam = np.random.default_rng(0).uniform(0, 2, 50)
    where = np.exp(np.random.default_rng(1).uniform(np.log(low), np.log(low * ratio), 50))
    values = 1 / (1 + np.multiply.outer(points, lam))
    shares = samples_module._lagrange(np.log(points), np.log(where))
    miss = shares @ values - 1 / (1 + np.multiply.outer(where, lam))
    assert np.abs(miss).max() <= 1.5 * tol


@pytest.mark.parametrize("alpha", [0.01, 1.0, 10.0, 50.0, 1000.0])
@pytest.mark.parametrize("tol", [1e-2, 1e-5, 1e-9])
def test_half_the_steps_are_enough_for_products(alpha, tol):
    """As functions of an eigenvalue mu of P: F, its residual R, and F (1 + R) for the inverse."""
    mu = np.linspace(-1, 1, 2001)
    n_steps = steps_needed(alpha, tol)
    terms, share = solve_series(alpha, n_steps, tol)
    assert len(terms) == n_steps
    F, S = chebyshev.chebval(mu, terms), 1 + alpha * (1 - mu)
    R = share * np.cos(n_steps * np.arccos(mu))
    # What is cut off from the series counts once more.
    np.testing.assert_allclose(F, (1 - R) / S, atol=tol / 4 + 1e-14)
    assert np.abs(F * (1 + R) - 1 / S).max() <= 1.5 * tol
    if n_steps > 1:
        fewer = 1 / np.cosh((n_steps - 1) * np.arccosh(1 + 1 / alpha))
        assert fewer**2 > tol
    assert n_steps <= 0.7 * moments_needed(alpha, tol) + 1


def test_samples_take_the_steps_they_need(graph, X, monkeypatch):
    P, steps = propagation(graph), []
    step = type(P).step
    monkeypatch.setattr(gpcanet.linalg.propagation, "FUSED_WORK", 0)
    monkeypatch.setattr(type(P), "step", lambda *given: steps.append(1) or step(*given))
    Samples(P, X, 1.0, 50.0, 1e-6)
    assert len(steps) == steps_needed(50.0, 1e-6)


def test_a_single_alpha_is_a_single_sample():
    assert sample_points(7.0, 7.0, 1e-9) == pytest.approx([7.0])


# -- ghost edges ---------------------------------------------------------------------------


@pytest.mark.parametrize("normalization", ["sym", "rw"])
@pytest.mark.parametrize("balanced", [False, True])
def test_ghost_columns_make_up_the_ghost_edges(graph, labels, normalization, balanced):
    D = row_weights(graph, normalization)
    ghost = "balanced" if balanced else "paper"
    given = dense_P(graph, normalization, labels, 1.0, ghost)
    weights = None if normalization == "sym" else D
    U, V = ghost_columns(labels, weights, balanced=balanced, by_node=False)
    unlabelled = np.diag((labels < 0).astype(float)) if balanced else 0
    np.testing.assert_allclose(U @ V.T @ np.diag(D), given - unlabelled, atol=1e-12)
    if balanced:
        U, V = ghost_columns(labels, weights, balanced=True, by_node=True)
        np.testing.assert_allclose(np.eye(len(D)) - U @ V.T @ np.diag(D), given, atol=1e-12)


@pytest.mark.parametrize("plan", PLANS, ids=str)
@pytest.mark.parametrize("normalization", ["sym", "rw"])
@pytest.mark.parametrize("kind", ["plain", "isolated"])
def test_every_pair_equals_the_dense_inverse(X, labels, kind, normalization, plan):
    graph = random_graph(**KINDS[kind])
    D = row_weights(graph, normalization)[:, None]
    betas = (0.0, 0.1, 0.5, 1.0)
    for form in {ghost for _, ghost in GHOSTS}:
        if plan.by_node and form == "paper":
            continue

        def P(beta, form=form):
            options = {"labels": labels, "beta": beta, "ghost": form}
            return propagation(graph, normalization=normalization, **options)

        resolvents = Resolvents(P, X, labels, Grid((0.5, 30.0), betas, form, 1e-9), plan)
        for alpha in (0.5, 4.0, 30.0):
            for beta in betas:
                dense = dense_P(graph, normalization, labels, beta, form)
                expected = X.T @ (D * dense_solve(dense, alpha, X))
                given = resolvents.matrix(alpha, beta)
                # 1e-9 of the squares of X, which add up to some hundreds (times D for rw).
                np.testing.assert_allclose(given, expected, atol=1e-9 * (D * X**2).sum())


def test_single_precision_adds_up_in_double(graph, X):
    P = propagation(graph, dtype=np.float32)
    for done in (
        Moments(P, X.astype(np.float32), 10.0, 1e-6),
        Samples(P, X.astype(np.float32), 1.0, 10.0, 1e-6),
    ):
        expected = X.T @ dense_solve(dense_P(graph), 4.0, X)
        assert done.product(4.0).dtype == np.float64
        np.testing.assert_allclose(done.product(4.0), expected, rtol=1e-4, atol=1e-3)


# -- the choice ----------------------------------------------------------------------------


class Size:
    """What plan_sharing asks of P."""

    def __init__(self, n_nodes, n_entries, dtype=np.float32):
        self.n_nodes, self.indices, self.dtype = n_nodes, range(n_entries), np.dtype(dtype)


GRID = (1.0, 5.0, 10.0, 20.0, 50.0)


@pytest.mark.parametrize(
    ("P", "d", "alphas", "direct", "way"),
    [
        (Size(169_343, 2_332_486), 16, GRID, False, "moments"),  # narrow: products are cheap
        (Size(169_343, 2_332_486), 128, GRID, False, "samples"),  # wide: they are what costs
        (Size(19_717, 88_648), 500, GRID, False, "samples"),
        (Size(300, 1_200), 90, (1.0, 9.0), True, "separate"),  # two factorisations are quicker
    ],
)
def test_the_cheapest_way_is_taken(P, d, alphas, direct, way):
    grid = Grid(alphas, (0.0,), "balanced", 1e-5)
    assert plan_sharing(P, d, None, grid, direct=direct).way == way


def test_balanced_ghost_edges_by_node_where_labels_are_few():
    P = Size(169_343, 2_332_486)
    for n_labelled, by_node in ((60, True), (90_000, False)):
        labels = np.full(P.n_nodes, -1)
        labels[:n_labelled] = np.arange(n_labelled) % 3
        plan = plan_sharing(
            P, 128, labels, Grid(GRID, (0.0, 0.1, 0.2), "balanced", 1e-5), direct=False
        )
        assert (plan.way, plan.by_node) == ("samples", by_node)


def test_single_precision_does_not_put_back_what_rounding_would_spoil():
    P, labels = Size(1000, 10**7), np.zeros(1000, int)
    given = (20, labels, Grid(GRID, (0.0, 1.0), "balanced", 1e-5))
    assert plan_sharing(P, *given, direct=False).by_node or (
        plan_sharing(P, *given, direct=False).way == "separate"
    )


def test_truth_of_chebyshev_polynomials():
    graph, X = random_graph(), random_features()
    P = dense_P(graph)
    assert set(random_labels()) == {-1, 0, 1, 2}
    np.testing.assert_allclose(dense_chebyshev(P, 1) @ X, P @ X, atol=1e-12)
    np.testing.assert_allclose(dense_chebyshev(P, 2) @ X, 2 * P @ P @ X - X, atol=1e-12)
