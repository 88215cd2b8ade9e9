"""B^T (I + alpha L)^-1 B for a range of alpha against dense products."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.polynomial import chebyshev
from properties import examples
from truth import (
    KINDS,
    dense_P,
    dense_solve,
    propagation,
    random_features,
    random_graph,
    row_weights,
)

from gpcanet.datasets import block_model
from gpcanet.linalg import Propagation, Solver
from gpcanet.linalg import interpolation as interpolation_module
from gpcanet.linalg.interpolation import (
    InterpolatedProducts,
    sample_points,
    series_length,
    solutions_by_columns,
    solve_series,
    steps_needed,
)


def check_samples(graph, X, normalization, low, high, tol, **options):
    P = propagation(graph, normalization=normalization, **options)
    samples = InterpolatedProducts(P, X, low, high, tol)
    dense, D = dense_P(graph, normalization), row_weights(graph, normalization)[:, None]
    for alpha in (0.0, low, np.sqrt(low * high), high):
        expected = X.T @ (D * dense_solve(dense, alpha, X))
        # One tol for the series and one for the interpolation, relative to X^T D X.
        atol = 2 * tol * (D * X**2).sum() + 1e-12
        np.testing.assert_allclose(samples.product(alpha), expected, rtol=0, atol=atol)


@pytest.mark.usefixtures("either_path")
@pytest.mark.parametrize("reorder", [False, True])
@pytest.mark.parametrize("normalization", ["sym", "rw"])
def test_samples_equal_dense_products(any_graph, X, normalization, reorder):
    for tol in (1e-3, 1e-9):
        check_samples(any_graph, X, normalization, 0.5, 50.0, tol, reorder=reorder)


@pytest.mark.usefixtures("either_path")
@pytest.mark.parametrize("reorder", [False, True])
@pytest.mark.parametrize("tol", [1e-3, 1e-9])
def test_solutions_by_columns_equal_dense_solves(any_graph, X, reorder, tol, monkeypatch):
    monkeypatch.setattr(interpolation_module, "COLUMNS", 4)  # several blocks
    alphas, dense = [0.01, 0.5, 5.0, 50.0], dense_P(any_graph)
    found = np.empty((len(alphas), *X.shape))
    for part, blocks in solutions_by_columns(
        propagation(any_graph, reorder=reorder), X, alphas, tol
    ):
        found[:, :, part] = blocks
    for alpha, F in zip(alphas, found, strict=True):
        error = np.linalg.norm(F - dense_solve(dense, alpha, X), axis=0)
        assert np.all(error <= tol * np.linalg.norm(X, axis=0) + 1e-12)


@examples(40)
@given(
    st.sampled_from(sorted(KINDS)),
    st.integers(4, 60),
    st.integers(1, 150),
    st.floats(1e-3, 100),
    st.floats(1, 1000),
    st.sampled_from(["sym", "rw"]),
    st.sampled_from([1e-2, 1e-4, 1e-6, 1e-9]),
    st.integers(0, 1000),
)
def test_samples_of_any_range_equal_dense_products(
    kind, n, d, low, ratio, normalization, tol, seed
):
    """Also blocks with more columns than are solved at a time."""
    graph = random_graph(max(n, 12), **KINDS[kind], seed=seed)
    X = random_features(graph.n_nodes, d, seed)
    check_samples(graph, X, normalization, low, low * ratio, tol)


@pytest.mark.usefixtures("either_path")
@pytest.mark.parametrize(("columns", "n_bytes"), [(2, 2**30), (256, 1)])
@pytest.mark.parametrize("normalization", ["sym", "rw"])
def test_products_do_not_depend_on_the_block_size(
    graph, X, normalization, columns, n_bytes, monkeypatch
):
    monkeypatch.setattr(interpolation_module, "COLUMNS", columns)
    monkeypatch.setattr(interpolation_module, "BLOCK_BYTES", n_bytes)
    check_samples(graph, X, normalization, 0.5, 50.0, 1e-9)


def test_samples_of_a_large_graph_equal_separate_solves():
    """Enough entries for the compiled kernels, and more columns than one block."""
    data = block_model(10_000, 30_000, n_features=240, n_classes=5)
    P, X = propagation(data.graph), data.X.astype(np.float64)
    assert P.is_fused(240)
    samples = InterpolatedProducts(P, X, 1.0, 5.0, 1e-8)
    for alpha in (1.0, 4.0):
        expected = X.T @ Solver(P, alpha, tol=1e-10).apply(X)
        np.testing.assert_allclose(
            samples.product(alpha), expected, rtol=0, atol=2e-8 * np.linalg.norm(X) ** 2
        )


def test_float32_products_are_summed_in_float64(graph, X):
    samples = InterpolatedProducts(
        propagation(graph, dtype=np.float32), X.astype(np.float32), 1.0, 10.0, 1e-6
    )
    product = samples.product(4.0)
    assert product.dtype == np.float64
    expected = X.T @ dense_solve(dense_P(graph), 4.0, X)
    np.testing.assert_allclose(product, expected, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("normalization", ["sym", "rw"])
def test_the_block_is_not_modified(graph, X, normalization):
    original = X.copy()
    InterpolatedProducts(propagation(graph, normalization=normalization), X, 1.0, 5.0, 1e-6)
    np.testing.assert_array_equal(X, original)


@pytest.mark.usefixtures("compiled")
def test_all_points_share_the_steps_of_the_largest_alpha(graph, X, monkeypatch):
    taken, step = [], Propagation.step
    monkeypatch.setattr(Propagation, "step", lambda *given: taken.append(1) or step(*given))
    InterpolatedProducts(propagation(graph), X, 1.0, 50.0, 1e-6)
    assert len(taken) == steps_needed(50.0, 1e-6)


# -- series and points ---------------------------------------------------------------------


@pytest.mark.parametrize("alpha", [0.01, 1.0, 10.0, 50.0, 1000.0])
@pytest.mark.parametrize("tol", [1e-2, 1e-5, 1e-9])
def test_half_of_the_steps_suffice_for_products(alpha, tol):
    """As functions of an eigenvalue mu of P: F, its residual R, and F (1 + R) for the inverse."""
    mu = np.linspace(-1, 1, 2001)
    n_steps = steps_needed(alpha, tol)
    terms, share = solve_series(alpha, n_steps, tol)
    assert len(terms) == n_steps
    F, S = chebyshev.chebval(mu, terms), 1 + alpha * (1 - mu)
    R = share * np.cos(n_steps * np.arccos(mu))
    # The truncation of the series adds a quarter of tol.
    np.testing.assert_allclose(F, (1 - R) / S, atol=tol / 4 + 1e-14)
    assert np.abs(F * (1 + R) - 1 / S).max() <= 1.5 * tol
    if n_steps > 1:
        residual_of_fewer = 1 / np.cosh((n_steps - 1) * np.arccosh(1 + 1 / alpha))
        assert residual_of_fewer**2 > tol
    assert n_steps <= 0.7 * series_length(alpha, tol) + 1


@pytest.mark.parametrize("alpha", [0.3, 5.0, 80.0])
@pytest.mark.parametrize("tol", [1e-3, 1e-9])
def test_series_length_is_the_smallest_for_the_tolerance(alpha, tol):
    """The error at mu = 1 attains the bound."""
    length = series_length(alpha, tol)
    c = alpha / (1 + alpha)
    root = np.sqrt(1 - c * c)
    terms = 2 * (1 - c) / root * (c / (1 + root)) ** np.arange(length + 1.0)
    terms[0] /= 2
    mu = np.linspace(-1, 1, 101)
    errors = chebyshev.chebval(mu, terms) - 1 / (1 + alpha * (1 - mu))
    assert np.abs(errors).max() <= tol + 1e-15
    assert abs(chebyshev.chebval(1.0, terms[:-1]) - 1) > tol


@examples(25)
@given(st.floats(1e-3, 100), st.floats(1, 1000), st.sampled_from([1e-4, 1e-6, 1e-9]))
def test_interpolation_between_the_points_is_accurate(low, ratio, tol):
    points = sample_points(low, low * ratio, tol)
    rng = np.random.default_rng(0)
    eigenvalues, alphas = rng.uniform(0, 2, 50), low * ratio ** rng.random(50)
    values = 1 / (1 + np.multiply.outer(points, eigenvalues))
    expected = 1 / (1 + np.multiply.outer(alphas, eigenvalues))
    # Barycentric interpolation in log alpha, which is independent of the implementation.
    nodes, x = np.log(points), np.log(alphas)[:, None]
    weights = np.array([1 / np.prod(np.delete(node - nodes, i)) for i, node in enumerate(nodes)])
    terms = weights / np.where(x == nodes, 1e-300, x - nodes)
    found = terms @ values / terms.sum(axis=1, keepdims=True)
    assert np.abs(found - expected).max() <= 1.5 * tol


def test_a_single_alpha_is_a_single_point():
    assert sample_points(7.0, 7.0, 1e-9) == pytest.approx([7.0])


@pytest.mark.parametrize(("low", "high", "tol"), [(1e-9, 1e5, 1e-12), (1.0, 50.0, 1e-17)])
def test_a_range_that_cannot_be_sampled(low, high, tol):
    assert sample_points(low, high, tol) is None
