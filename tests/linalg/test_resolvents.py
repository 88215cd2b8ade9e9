"""X^T (I + alpha L)^-1 X of a grid of alpha and beta against dense products."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from properties import examples
from truth import (
    KINDS,
    dense_P,
    dense_solve,
    propagation,
    random_features,
    random_graph,
    random_labels,
    row_weights,
)

from gpcanet.linalg import Grid, Resolvents, sharing_pays
from gpcanet.linalg.interpolation import sample_points
from gpcanet.linalg.operators.ghost import GhostFactor, ghost_factors


def check_every_pair(graph, X, labels, normalization, grid, alphas):
    def P(beta):
        options = {"labels": labels, "beta": beta, "ghost": grid.ghost}
        return propagation(graph, normalization=normalization, **options)

    resolvents = Resolvents(P, X, labels, grid)
    D = row_weights(graph, normalization)[:, None]
    scale = (D * X**2).sum()
    if (normalization, grid.ghost) == ("rw", "paper"):
        # There the inverse is bounded in the maximum norm, in that of D by the root of a ratio.
        scale *= np.sqrt(D.max() / D.min())
    for alpha in alphas:
        for beta in grid.betas:
            dense = dense_P(graph, normalization, labels, beta, grid.ghost)
            expected = X.T @ (D * dense_solve(dense, alpha, X))
            found = resolvents.matrix(alpha, beta)
            np.testing.assert_allclose(found, expected, rtol=0, atol=(grid.tol + 1e-12) * scale)


@pytest.mark.usefixtures("either_path")
@pytest.mark.parametrize("ghost", ["balanced", "paper"])
@pytest.mark.parametrize("normalization", ["sym", "rw"])
@pytest.mark.parametrize("kind", ["plain", "isolated"])
def test_every_pair_equals_the_dense_inverse(X, labels, kind, normalization, ghost):
    grid = Grid((0.5, 30.0), (0.0, 0.1, 0.5, 1.0), ghost, 1e-9)
    graph = random_graph(**KINDS[kind])
    check_every_pair(graph, X, labels, normalization, grid, (0.5, 4.0, 30.0))


@examples(40)
@given(
    st.sampled_from(sorted(KINDS)),
    st.integers(12, 50),
    st.integers(1, 30),
    st.lists(st.floats(0.01, 300), min_size=1, max_size=4),
    st.lists(st.just(0.0) | st.floats(0.01, 1.0), min_size=1, max_size=4, unique=True),
    st.sampled_from(["balanced", "paper"]),
    st.sampled_from(["sym", "rw"]),
    st.sampled_from([1e-2, 1e-5, 1e-8]),
    st.integers(0, 1000),
)
def test_any_grid_equals_the_dense_inverse(
    kind, n, d, alphas, betas, ghost, normalization, tol, seed
):
    graph = random_graph(n, **KINDS[kind], seed=seed)
    X, labels = random_features(n, d, seed), random_labels(n, seed=seed)
    grid = Grid(tuple(alphas), tuple(betas), ghost, tol)
    # Other grids are fitted separately.
    assume(all(one.smallest > 0 for one in grid.passes()))
    assume(all(sample_points(p.smallest, p.largest, p.tol) is not None for p in grid.passes()))
    between = float(np.exp(np.mean(np.log(alphas))))
    check_every_pair(graph, X, labels, normalization, grid, (*alphas, between))


@pytest.mark.parametrize("normalization", ["sym", "rw"])
def test_a_grid_without_labels(graph, X, normalization):
    grid = Grid((1.0, 20.0), (0.0,), "balanced", 1e-9)
    check_every_pair(graph, X, None, normalization, grid, (1.0, 3.0, 20.0))


@pytest.mark.parametrize("normalization", ["sym", "rw"])
@pytest.mark.parametrize("ghost", ["balanced", "paper"])
def test_factors_of_the_ghost_edges(graph, labels, normalization, ghost):
    D = row_weights(graph, normalization)
    expected = dense_P(graph, normalization, labels, 1.0, ghost)
    if ghost == "balanced":
        expected = expected - np.diag((labels < 0).astype(float))
    weights = None if normalization == "sym" else D
    U, V = GhostFactor(*ghost_factors(labels, weights, ghost), len(labels), np.float64).dense()
    np.testing.assert_allclose(U @ V.T @ np.diag(D), expected, atol=1e-12)


def test_passes_of_both_forms_of_ghost_edges():
    """The paper's form shares one pass; the balanced form takes one for each beta above 0."""
    alphas, betas = (1.0, 50.0), (0.0, 0.1, 1.0)
    (one,) = Grid(alphas, betas, "paper", 1e-6).passes()
    assert one.betas == betas
    assert one.zero  # beta = 1 leaves nothing of the graph
    assert (one.smallest, one.largest) == pytest.approx((0.9 / 1.1, 50.0))
    passes = Grid(alphas, betas, "balanced", 1e-6).passes()
    assert [p.betas for p in passes] == [(0.0,), (0.1,), (1.0,)]
    assert [p.has_diagonal for p in passes] == [False, True, True]


# -- the choice ----------------------------------------------------------------------------


class Size:
    """The sizes that sharing_pays reads of P."""

    def __init__(self, n_nodes, n_entries, dtype=np.float32):
        self.n_nodes, self.indices, self.dtype = n_nodes, range(n_entries), np.dtype(dtype)


ALPHAS = (1.0, 5.0, 10.0, 20.0, 50.0)


@pytest.mark.parametrize(
    ("P", "d", "alphas", "direct", "pays"),
    [
        (Size(169_343, 2_332_486), 16, ALPHAS, False, True),
        (Size(169_343, 2_332_486), 128, ALPHAS, False, True),
        (Size(19_717, 88_648), 500, ALPHAS, False, True),
        (Size(300, 1_200), 90, (1.0, 9.0), True, False),  # two factorisations are faster
        (Size(169_343, 2_332_486), 128, (10.0,), False, True),  # half of the steps suffice
        (Size(169_343, 2_332_486), 128, (0.0, *ALPHAS), False, False),
    ],
)
def test_sharing_pays_on_large_graphs(P, d, alphas, direct, pays):
    grid = Grid(alphas, (0.0,), "balanced", 1e-5)
    assert sharing_pays(P, d, None, grid, direct=direct) == pays


def test_sharing_does_not_pay_if_it_cannot_reach_the_accuracy():
    P, labels = Size(169_343, 2_332_486), np.arange(169_343) % 3
    # The Woodbury formula multiplies errors by 51^2 for beta = 1, too much for float32.
    grid = Grid(ALPHAS, (0.0, 1.0), "balanced", 1e-5)
    assert not sharing_pays(P, 128, labels, grid, direct=False)
    grid = Grid(ALPHAS, (0.0,), "balanced", 1e-5)
    assert sharing_pays(P, 128, None, grid, direct=False)
    assert not sharing_pays(P, 128, None, grid, direct=False, max_iter=10)
    assert not sharing_pays(P, 128, None, grid._replace(tol=1e-9), direct=False)
