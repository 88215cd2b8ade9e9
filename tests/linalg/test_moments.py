"""X^T F and rows of F = (I + alpha L)^-1 X from moments, against dense solves."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from properties import examples
from truth import KINDS, dense_P, dense_solve, propagation, random_features, random_graph

from gpcanet import Graph
from gpcanet.linalg import features as features_module
from gpcanet.linalg import products_and_rows

ALPHAS = [0.0, 0.5, 5.0, 50.0]

#: Half precision ends at 50.
LARGE_ALPHAS = [5.0, 50.0, 1e4]

#: Largest error relative to ||X||: that of the series, and rounding of the terms to float16.
ERRORS = {np.float64: 1e-9, np.float32: 4e-3}


def check(graph, X, shift, rows, dtype, alphas=ALPHAS, **options):
    P = propagation(graph, dtype=dtype, **options)
    given_shift = None if shift is None else shift.astype(dtype)
    tol = 1e-9 if dtype == np.float64 else 1e-3
    products, found = products_and_rows(P, X.astype(dtype), given_shift, alphas, tol, rows)
    B, dense = X if shift is None else X - shift, dense_P(graph)
    norms = np.linalg.norm(B, axis=0)
    for alpha, product, F in zip(alphas, products, found, strict=True):
        expected = dense_solve(dense, alpha, B)
        error = np.linalg.norm(F - expected[rows], axis=0)
        assert np.all(error <= ERRORS[dtype] * norms + 1e-12)
        bound = ERRORS[dtype] * np.outer(norms, norms) + 1e-12
        assert np.all(np.abs(product - B.T @ expected) <= bound)


@examples(40)
@given(
    st.sampled_from(sorted(KINDS)),
    st.integers(9, 60),
    st.integers(1, 20),
    st.booleans(),
    st.booleans(),
    st.sampled_from([np.float32, np.float64]),
    st.integers(0, 1000),
)
def test_products_and_rows_equal_dense_solves(kind, n, d, shifted, reorder, dtype, seed):
    rng = np.random.default_rng(seed)
    graph, X = random_graph(n, **KINDS[kind], seed=seed), random_features(n, d, seed)
    rows = np.flatnonzero(rng.random(n) < 0.4)
    check(graph, X, X.mean(axis=0) if shifted else None, rows, dtype, reorder=reorder)


def test_large_alphas_are_computed_in_single_precision():
    """On smooth features and a long ring, float16 has an error of 1 % at alpha = 10,000."""
    n = 600
    ring = np.arange(n)
    edges = np.stack([ring, np.roll(ring, 1)])
    graph = Graph.from_edge_index(np.hstack([edges, edges[::-1]]), n_nodes=n)
    X = np.stack([np.sin(2 * np.pi * (k + 1) * ring / n + 0.3 * k) for k in range(6)], axis=1)
    check(graph, X, None, ring[::7], np.float32, LARGE_ALPHAS)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_products_are_summed_over_chunks_of_rows(dtype, monkeypatch):
    monkeypatch.setattr(features_module, "CHUNK_BYTES", 256)
    graph, X = random_graph(90, seed=1), random_features(90, 5)
    check(graph, X, X.mean(axis=0), np.arange(1, 90, 7), dtype)


def test_terms_beyond_float16_are_computed_in_single_precision():
    # A wave that runs towards smaller weights grows by a factor of 2 in every step.
    n = 24
    weights = 4.0 ** np.arange(n - 1)
    A = np.zeros((n, n))
    A[np.arange(n - 1), np.arange(1, n)] = A[np.arange(1, n), np.arange(n - 1)] = weights
    X = np.zeros((n, 1))
    X[-1] = 1.0
    check(Graph(A), X, None, np.arange(n), np.float32)
