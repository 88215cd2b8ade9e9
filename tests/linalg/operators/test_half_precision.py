"""Half precision: exact conversions, sums in float32, and errors within the documented bound."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
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
)

from gpcanet import GPCA, Graph
from gpcanet.datasets import block_model
from gpcanet.linalg import HALF_ALPHA, HALF_ERROR, HalfPropagation, Solver, parallel_rows
from gpcanet.linalg.operators import kernels


def converted(block, dtype):
    """The block in another precision, by the compiled kernel."""
    out = np.empty(block.shape, dtype)
    bits = [b.view(np.uint16) if b.dtype == np.float16 else b for b in (block, out)]
    parallel_rows(kernels.rescale, len(out), bits[0], np.ones(out.shape[1], np.float32), bits[1])
    return out


def test_all_float16_numbers_convert_to_float32_as_in_numpy():
    numbers = np.arange(2**16, dtype=np.uint16).view(np.float16).reshape(256, 256)
    np.testing.assert_array_equal(converted(numbers, np.float32), numbers.astype(np.float32))


def test_float32_numbers_are_rounded_to_float16_as_in_numpy():
    halves = np.arange(2**16, dtype=np.uint16).view(np.float16).astype(np.float32)
    halves = np.sort(halves[np.isfinite(halves)])
    ties = (halves[1:] + halves[:-1]) / 2
    numbers = np.concatenate([halves, ties, np.nextafter(ties, np.float32(np.inf))])
    numbers = numbers[: len(numbers) // 256 * 256].reshape(-1, 256)
    np.testing.assert_array_equal(converted(numbers, np.float16), numbers.astype(np.float16))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("beta", "ghost"), [(0.0, "paper"), (0.3, "balanced"), (0.3, "paper")])
@pytest.mark.usefixtures("compiled")
def test_step_equals_the_float32_step_up_to_rounding(kind, beta, ghost):
    graph = random_graph(**KINDS[kind])
    P = propagation(graph, labels=random_labels(), beta=beta, ghost=ghost, dtype=np.float32)
    F, X, out = (np.float16(random_features(seed=seed)) for seed in (1, 2, 3))
    expected = P.step(*(block.astype(np.float32) for block in (F, X, out)), 0.9, 0.1, -0.5)
    found = HalfPropagation(P).step(F, X, out, 0.9, 0.1, -0.5)
    assert found.dtype == np.float16
    np.testing.assert_allclose(found, expected, rtol=2**-10, atol=2**-12)


@pytest.mark.parametrize("alpha", [0.5, 10.0])
@pytest.mark.parametrize("method", ["chebyshev", "fixed-point"])
def test_columns_of_any_scale_are_solved_with_the_same_relative_error(any_graph, alpha, method):
    """Columns over twelve orders of magnitude, and a column of zeros."""
    X = random_features() * np.geomspace(1e-6, 1e6, random_features().shape[1])
    X[:, 0] = 0
    P = propagation(any_graph, dtype=np.float32)
    F = Solver(P, alpha, method=method, half=True).solve(X.astype(np.float32)).F
    expected = dense_solve(dense_P(any_graph), alpha, X)
    size = np.linalg.norm(expected, axis=0)
    error = np.linalg.norm(F - expected, axis=0) / np.where(size > 0, size, 1)
    assert error.max() < 5e-4
    assert np.all(F[:, 0] == 0)


@pytest.mark.parametrize("beta", [0.0, 0.2])
@pytest.mark.parametrize("settings", [{}, {"solver": "fixed-point", "n_iter": 5}])
def test_components_and_embedding_equal_those_of_full_precision(settings, beta):
    data = block_model(3000, 12_000, n_features=40, n_classes=5)
    y = data.visible_labels()
    full, half = (
        GPCA(8, beta=beta, precision=precision, **settings) for precision in ("full", "half")
    )
    expected = full.fit_transform(data.X, y, graph=data.graph)
    found = half.fit_transform(data.X, y, graph=data.graph)
    cosines = np.linalg.svd(half.components_ @ full.components_.T, compute_uv=False)
    assert cosines.min() > 0.9999
    # Reconstructions do not depend on rotations within the subspace.
    difference = np.linalg.norm(found @ half.components_ - expected @ full.components_)
    assert difference < 2e-3 * np.linalg.norm(expected)
    np.testing.assert_allclose(
        half.transform(data.X, graph=data.graph), found, rtol=0, atol=2e-3 * np.abs(found).max()
    )


def test_embedding_of_float64_features_is_float64():
    data = block_model(300, 900, n_features=6)
    Z = GPCA(3, precision="half").fit_transform(data.X.astype(np.float64), graph=data.graph)
    assert Z.dtype == np.float64


def test_large_and_small_numbers_neither_overflow_nor_underflow(any_graph):
    X = random_features(d=2) * np.array([1e33, 1e-33])
    P = propagation(any_graph, dtype=np.float32)
    F = Solver(P, 5.0, method="chebyshev", half=True).apply(X.astype(np.float32))
    expected = dense_solve(dense_P(any_graph), 5.0, X)
    assert np.all(np.linalg.norm(F - expected, axis=0) < 5e-4 * np.linalg.norm(expected, axis=0))


def test_error_at_the_largest_alpha():
    data = block_model(5000, 25_000, n_features=16, n_classes=5)
    X = data.X - data.X.mean(axis=0)
    exact, half = (
        Solver(
            propagation(data.graph, dtype=dtype),
            50.0,
            method="chebyshev",
            half=dtype == np.float32,
            tol=1e-10,
        ).apply(X.astype(dtype))
        for dtype in (np.float64, np.float32)
    )
    error = np.linalg.norm(half - exact, axis=0) / np.linalg.norm(exact, axis=0)
    assert error.max() < 5e-3


def test_ghost_edges_between_a_hub_and_a_leaf_do_not_overflow():
    """Sums over ghost edges may exceed the values: here by a factor of 150."""
    hub = np.zeros((2, 90_000), np.int64)
    hub[1] = np.arange(1, 90_001)
    graph = Graph.from_edge_index(hub, each_once=True)
    labels = np.full(90_001, -1)
    labels[:2] = 0  # the hub and a leaf
    X = np.zeros((90_001, 1), np.float32)
    X[0] = 1000
    options = {"labels": labels, "beta": 0.9, "dtype": np.float32}
    half, full = (
        Solver(
            propagation(graph, **options), 50.0, method="fixed-point", n_iter=5, half=is_half
        ).apply(X)
        for is_half in (True, False)
    )
    assert np.all(np.isfinite(half))
    np.testing.assert_allclose(half, full, atol=2e-3 * np.abs(full).max())


@pytest.mark.parametrize("exponent", [-200, 200])
def test_features_beyond_the_range_of_float32_are_rescaled(exponent):
    X = random_features()
    expected = GPCA(2, precision="half").fit_transform(X)
    Z = GPCA(2, precision="half").fit_transform(np.ldexp(X, exponent))
    np.testing.assert_allclose(np.ldexp(Z, -exponent), expected, atol=1e-4)  # float32 inside


@examples(30)  # up to 700 steps each
@given(
    st.integers(2, 60),
    st.floats(0.01, HALF_ALPHA),
    st.sampled_from(["chebyshev", "fixed-point"]),
    st.sampled_from([("sym", *pair) for pair in GHOSTS] + [("rw", 0.3, "balanced")]),
    st.booleans(),
    st.integers(0, 1000),
)
@example(10, 50.0, "fixed-point", ("sym", 0.5, "balanced"), False, 0)
@example(48, 0.125, "chebyshev", ("rw", 0.3, "balanced"), False, 0)
def test_error_of_every_column_is_within_the_bound(n, alpha, method, kind, weighted, seed):
    """On small graphs, where rounding errors do not average out; for smooth and rough columns."""
    rng = np.random.default_rng(seed)
    options = dict(zip(("normalization", "beta", "ghost"), kind, strict=True))
    options["labels"] = rng.integers(-1, 3, n)
    options["labels"][0] = 0
    graph = random_graph(n, weighted=weighted, seed=seed)
    P = dense_P(graph, **options)
    modes = np.linalg.eig(P)[1].real[:, [0, -1]]
    X = np.column_stack([rng.standard_normal((n, 2)), np.eye(n)[0], np.ones(n), modes])
    solver = Solver(
        propagation(graph, **options, dtype=np.float32), alpha, method=method, half=True
    )
    expected = dense_solve(P, alpha, X)
    order = 2 if options["normalization"] == "sym" else np.inf
    error = np.linalg.norm(solver.solve(X.astype(np.float32)).F - expected, axis=0, ord=order)
    size = np.linalg.norm(expected, axis=0, ord=order)
    assert np.all(error <= HALF_ERROR * (2 + alpha) * size)


@examples(20)
@given(st.floats(HALF_ALPHA, 1e6, exclude_min=True), st.integers(0, 1000))
def test_full_precision_is_used_above_the_largest_alpha(alpha, seed):
    graph, X = random_graph(30, seed=seed), random_features(30, 5, seed)
    full, half = (
        GPCA(3, alpha=alpha, precision=precision).fit_transform(X, graph=graph)
        for precision in ("full", "half")
    )
    np.testing.assert_array_equal(half, full)
