"""Blocks in half precision: conversions exact, sums in single, errors as stated."""

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
from gpcanet.errors import InputError
from gpcanet.linalg import HALF_ALPHA, HALF_ERROR, HalfPropagation, Propagation, Solver
from gpcanet.linalg.operators.half_precision import rescale


def converted(block, dtype):
    out = np.empty(block.shape, dtype)
    rescale(block, np.ones(block.shape[1], np.float32), out)
    return out


def test_every_half_widens_as_numpy_widens_it():
    every = np.arange(2**16, dtype=np.uint16).view(np.float16).reshape(256, 256)
    np.testing.assert_array_equal(converted(every, np.float32), every.astype(np.float32))


def test_numbers_are_rounded_to_half_as_numpy_rounds_them():
    halves = np.arange(2**16, dtype=np.uint16).view(np.float16).astype(np.float32)
    halves = np.sort(halves[np.isfinite(halves)])
    between = (halves[1:] + halves[:-1]) / 2  # ties, and numbers just off them
    numbers = np.concatenate([halves, between, np.nextafter(between, np.float32(np.inf))])
    numbers = numbers[: len(numbers) // 256 * 256].reshape(-1, 256)
    np.testing.assert_array_equal(converted(numbers, np.float16), numbers.astype(np.float16))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("beta", [0.0, 0.3])
@pytest.mark.parametrize("ghost", ["balanced", "paper"])
def test_a_step_is_that_of_single_precision_rounded(kind, beta, ghost, compiled):
    graph = random_graph(**KINDS[kind])
    P = Propagation(
        graph.indptr, graph.indices, graph.weights, labels=random_labels(), beta=beta,
        ghost=ghost, dtype=np.float32,
    )  # fmt: skip
    F, X, out = (np.float16(random_features(seed=seed)) for seed in (1, 2, 3))
    expected = P.step(*(block.astype(np.float32) for block in (F, X, out)), 0.9, 0.1, -0.5)
    found = HalfPropagation(P).step(F, X, out, 0.9, 0.1, -0.5)
    assert found.dtype == np.float16
    np.testing.assert_allclose(found, expected, rtol=2**-10, atol=2**-12)


@pytest.mark.parametrize("alpha", [0.5, 1.0, 5.0, 10.0])
@pytest.mark.parametrize("method", ["chebyshev", "fixed-point"])
def test_a_solve_is_off_by_no_more_than_is_said(any_graph, alpha, method):
    # Columns over twelve orders of magnitude, and one of zeros: each has a scale of its own.
    X = random_features() * np.geomspace(1e-6, 1e6, random_features().shape[1])
    X[:, 0] = 0
    P = Propagation(any_graph.indptr, any_graph.indices, any_graph.weights, dtype=np.float32)
    F = Solver(P, alpha, method=method, half=True).solve(X.astype(np.float32)).F
    expected = dense_solve(dense_P(any_graph), alpha, X)
    size = np.linalg.norm(expected, axis=0)
    error = np.linalg.norm(F - expected, axis=0) / np.where(size > 0, size, 1)
    assert error.max() < 5e-4
    assert np.all(F[:, 0] == 0)


@pytest.mark.parametrize("beta", [0.0, 0.2])
@pytest.mark.parametrize("settings", [{}, {"solver": "fixed-point", "n_iter": 5}])
def test_components_are_those_of_full_precision(settings, beta):
    data = block_model(3000, 12_000, n_features=40, n_classes=5)
    y = data.visible_labels()
    full, half = (
        GPCA(8, beta=beta, precision=precision, **settings) for precision in ("full", "half")
    )
    expected = full.fit_transform(data.X, y, graph=data.graph)
    found = half.fit_transform(data.X, y, graph=data.graph)
    cosines = np.linalg.svd(half.components_ @ full.components_.T, compute_uv=False)
    assert cosines.min() > 0.9999
    # The subspace is the same; compare what is in it, not how its axes are turned.
    gap = np.linalg.norm(found @ half.components_ - expected @ full.components_)
    assert gap < 2e-3 * np.linalg.norm(expected)
    np.testing.assert_allclose(
        half.transform(data.X, graph=data.graph), found, rtol=0, atol=2e-3 * np.abs(found).max()
    )


def test_float64_features_come_back_as_float64():
    data = block_model(300, 900, n_features=6)
    Z = GPCA(3, precision="half").fit_transform(data.X.astype(np.float64), graph=data.graph)
    assert Z.dtype == np.float64


def test_huge_and_tiny_numbers_neither_overflow_nor_vanish(any_graph):
    X = random_features(d=2) * np.array([1e33, 1e-33])
    P = Propagation(any_graph.indptr, any_graph.indices, any_graph.weights, dtype=np.float32)
    F = Solver(P, 5.0, method="chebyshev", half=True).apply(X.astype(np.float32))
    expected = dense_solve(dense_P(any_graph), 5.0, X)
    assert np.all(np.linalg.norm(F - expected, axis=0) < 5e-4 * np.linalg.norm(expected, axis=0))


def test_at_a_large_alpha_rounding_adds_up_to_what_is_said():
    data = block_model(5000, 25_000, n_features=16, n_classes=5)
    X = data.X - data.X.mean(axis=0)
    exact, half = (
        Solver(
            Propagation(data.graph.indptr, data.graph.indices, dtype=dtype),
            50.0,
            method="chebyshev",
            half=dtype == np.float32,
            tol=1e-10,
        ).apply(X.astype(dtype))
        for dtype in (np.float64, np.float32)
    )
    error = np.linalg.norm(half - exact, axis=0) / np.linalg.norm(exact, axis=0)
    assert error.max() < 5e-3


def test_ghost_edges_from_a_hub_to_a_leaf_stay_in_range():
    """A ghost row of the walk is no mean: here it multiplies by 150."""
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
            Propagation(graph.indptr, graph.indices, **options), 50.0,
            method="fixed-point", n_iter=5, half=is_half,
        ).solve(X).F
        for is_half in (True, False)
    )  # fmt: skip
    assert np.all(np.isfinite(half))
    np.testing.assert_allclose(half, full, atol=2e-3 * np.abs(full).max())


@pytest.mark.parametrize("exponent", [-200, 200])
def test_numbers_that_single_precision_does_not_hold_are_rescaled(exponent):
    X = random_features()
    expected = GPCA(2, precision="half").fit_transform(X)
    Z = GPCA(2, precision="half").fit_transform(np.ldexp(X, exponent))
    np.testing.assert_allclose(np.ldexp(Z, -exponent), expected, atol=1e-4)  # float32 inside


@examples(30)  # of up to 700 parallel steps each
@given(
    st.integers(2, 60),
    st.floats(0.01, HALF_ALPHA),
    st.sampled_from(["chebyshev", "fixed-point"]),
    st.sampled_from([("sym", *pair) for pair in GHOSTS] + [("rw", 0.3, "balanced")]),
    st.booleans(),
    st.integers(0, 1000),
)
@example(10, 50.0, "fixed-point", ("sym", 0.5, "balanced"), False, 0)
def test_every_column_is_within_the_bound(n, alpha, method, kind, weighted, seed):
    """Graphs of few nodes, where rounding does not average out, and columns smooth and rough."""
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
def test_beyond_the_largest_alpha_half_precision_means_full(alpha, seed):
    graph, X = random_graph(30, seed=seed), random_features(30, 5, seed)
    P = propagation(graph, dtype=np.float32)
    with pytest.raises(InputError, match=r"goes with alpha up to 50, not .*; use full"):
        Solver(P, alpha, method="chebyshev", half=True)
    full, half = (
        GPCA(3, alpha=alpha, precision=precision).fit_transform(X, graph=graph)
        for precision in ("full", "half")
    )
    np.testing.assert_array_equal(half, full)
