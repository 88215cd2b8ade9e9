"""X^T (I + alpha L)^-1 X from a factorisation, against the dense formula."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from properties import examples
from truth import (
    GHOSTS,
    KINDS,
    dense_P,
    dense_solve,
    propagation,
    random_graph,
    random_labels,
    row_weights,
)

from gpcanet import Graph
from gpcanet.linalg import CenteredFeatures, FactoredProducts
from gpcanet.linalg.factored import COLUMNS

#: The paper's ghost edges on the random walk are not, and never asked for.
SYMMETRIC = [
    (normalization, beta, ghost)
    for normalization in ("sym", "rw")
    for beta, ghost in [*GHOSTS, (1.0, "balanced"), (1.0, "paper")]
    if (normalization, ghost) != ("rw", "paper")
]


def sparse_features(n, d=25, seed=3):
    """A fifth of the entries, some rows and columns empty, means not zero."""
    X = sp.random_array((n, d), density=0.2, rng=np.random.default_rng(seed), format="lil")
    X[0], X[:, d - 1] = 0, 0
    return X.tocsr()


def dense_matrix(graph, X, alpha, normalization="sym", **ghosts):
    X = X.toarray() - X.toarray().mean(axis=0)
    P = dense_P(graph, normalization, **ghosts)
    return X.T @ (row_weights(graph, normalization)[:, None] * dense_solve(P, alpha, X))


def factored(graph, X, alpha, normalization="sym", **ghosts):
    """The products of a P with ghost edges, shared with those of one without."""
    products = FactoredProducts(
        CenteredFeatures(X), propagation(graph, normalization=normalization)
    )
    return products.matrix(propagation(graph, normalization=normalization, **ghosts), alpha)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("normalization", "beta", "ghost"), SYMMETRIC)
@pytest.mark.parametrize("alpha", [0.0, 0.4, 10.0, 1e4])
def test_products_equal_the_dense_ones(kind, normalization, beta, ghost, alpha):
    graph, V = random_graph(**KINDS[kind]), np.random.default_rng(0).standard_normal((25, COLUMNS))
    X, labels = sparse_features(40), random_labels(classes=3)
    ghosts = {"labels": labels, "beta": beta, "ghost": ghost} if beta else {}
    M = factored(graph, X, alpha, normalization, **ghosts)
    expected = dense_matrix(graph, X, alpha, normalization, **ghosts)
    size = np.abs(expected).max()
    np.testing.assert_allclose(M(V), expected @ V, rtol=0, atol=1e-10 * size)
    shifted = expected - 0.7 * np.eye(25)
    atol = 1e-9 * np.abs(shifted @ shifted).max()
    np.testing.assert_allclose(M.squared(V, 0.7), shifted @ (shifted @ V), rtol=0, atol=atol)


@pytest.mark.parametrize("width", [1, 3, COLUMNS])
@pytest.mark.parametrize("order", ["C", "F"])
def test_blocks_may_be_narrower_and_in_any_layout(width, order):
    graph, X = random_graph(), sparse_features(40)
    M, V = factored(graph, X, 5.0), np.random.default_rng(0).standard_normal((25, COLUMNS))
    M(V)  # what it leaves in memory must not be seen afterwards
    block = np.array(V[:, :width], order=order)
    expected = dense_matrix(graph, X, 5.0) @ block
    np.testing.assert_allclose(M(block), expected, rtol=0, atol=1e-11)
    assert M(block).shape == (25, width)


def test_more_columns_than_a_row_holds_are_refused():
    M = factored(random_graph(), sparse_features(40), 5.0)
    with pytest.raises(ValueError, match="V has 9 columns; give at most 8 at a time"):
        M(np.eye(25, 9))


@pytest.mark.parametrize("n_classes", [1, 4, 9, 21])
def test_any_number_of_classes(n_classes):
    graph, X = random_graph(60), sparse_features(60)
    ghosts = {"labels": random_labels(60, n_classes), "beta": 0.3, "ghost": "paper"}
    M = factored(graph, X, 8.0, **ghosts)
    np.testing.assert_allclose(M(np.eye(25, 8)), dense_matrix(graph, X, 8.0, **ghosts)[:, :8])


@examples(60)
@given(st.integers(1, 60), st.floats(0.0, 0.4), st.floats(0.01, 1e5), st.integers(0, 10_000))
def test_any_graph_is_solved_exactly(n, density, alpha, seed):
    """Every entry that elimination fills in is found, whatever the edges are."""
    rng = np.random.default_rng(seed)
    A = np.triu(rng.random((n, n)) < density, 1) * rng.uniform(0.1, 4, (n, n))
    graph, X = Graph(A + A.T), sp.csr_array(rng.standard_normal((n, 4)))
    M = factored(graph, X, alpha)
    np.testing.assert_allclose(
        M(np.eye(4)), dense_matrix(graph, X, alpha), rtol=1e-7, atol=1e-9 * n
    )


def test_a_long_path_fills_in_between_nodes_far_apart():
    """Couplings that vanish at alpha = 1 do not at 1e6: the pattern must not depend on sizes."""
    n = 1500
    nodes = np.random.default_rng(0).permutation(n)
    graph = Graph.from_edge_index(np.stack([nodes[:-1], nodes[1:]]), n_nodes=n, each_once=True)
    X = sp.csr_array(np.random.default_rng(1).standard_normal((n, 3)))
    M = factored(graph, X, 1e6)
    np.testing.assert_allclose(M(np.eye(3)), dense_matrix(graph, X, 1e6), rtol=1e-6)


def test_two_threads_do_not_disturb_each_other():
    graph, X = random_graph(300), sparse_features(300)
    P = propagation(graph)
    products = FactoredProducts(CenteredFeatures(X), P)
    alphas = [0.5, 2.0, 10.0, 50.0] * 5

    def repeated(alpha):
        M, V = products.matrix(P, alpha), np.eye(25, COLUMNS)
        for _ in range(10):
            V = M.squared(V, 1.0)
            V = V / np.linalg.norm(V)
        return V.tobytes()

    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(repeated, alphas))
    assert together == [repeated(alpha) for alpha in alphas]
