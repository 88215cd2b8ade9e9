"""Laying nodes out anew: seen in memory, not in results."""

import numpy as np
import pytest
from truth import GHOSTS, dense_P, dense_solve, propagation

import gpcanet.estimators._problem
import gpcanet.linalg.operators.ordering
from gpcanet import GPCA, Graph
from gpcanet.datasets import block_model
from gpcanet.estimators._problem import Parameters, Problem
from gpcanet.linalg import Solver
from gpcanet.linalg.operators.ordering import LARGEST_GROUP, locality_order, permute


@pytest.fixture(scope="module")
def blocks():
    return block_model(3000, 20_000, n_features=6, n_classes=10, homophily=0.95, seed=1)


def distance_between_neighbours(graph, order):
    place = np.argsort(order)
    rows = np.repeat(np.arange(graph.n_nodes), np.diff(graph.indptr))
    return np.mean(np.abs(place[rows] - place[graph.indices]))


def test_neighbours_come_near_each_other(blocks):
    order = locality_order(blocks.graph.indptr, blocks.graph.indices)
    np.testing.assert_array_equal(np.sort(order), np.arange(3000))
    before = distance_between_neighbours(blocks.graph, np.arange(3000))
    assert distance_between_neighbours(blocks.graph, order) < before / 2


def test_the_order_is_the_same_each_time(blocks):
    first, again = (locality_order(blocks.graph.indptr, blocks.graph.indices) for _ in range(2))
    np.testing.assert_array_equal(first, again)


def test_groups_stay_small_enough_for_the_cache(monkeypatch):
    star = np.zeros((2, LARGEST_GROUP + 999), dtype=np.int64)
    star[1] = np.arange(1, LARGEST_GROUP + 1000)
    graph = Graph.from_edge_index(star, each_once=True)
    asked = []
    monkeypatch.setattr(
        gpcanet.linalg.operators.ordering.np, "argsort", lambda g, **_: asked.append(g)
    )
    locality_order(graph.indptr, graph.indices)
    assert 2 < np.bincount(asked[0]).max() <= LARGEST_GROUP


def test_permuted_graph_is_the_permuted_matrix(any_graph):
    order = np.random.default_rng(0).permutation(any_graph.n_nodes)
    indptr, indices, weights = permute(
        any_graph.indptr, any_graph.indices, any_graph.weights, order
    )
    dense = np.zeros((any_graph.n_nodes, any_graph.n_nodes))
    rows = np.repeat(np.arange(any_graph.n_nodes), np.diff(indptr))
    dense[rows, indices] = 1 if weights is None else weights
    np.testing.assert_array_equal(dense, any_graph.adjacency.toarray()[np.ix_(order, order)])


@pytest.mark.usefixtures("either_path")
@pytest.mark.parametrize(("beta", "ghost"), GHOSTS)
@pytest.mark.parametrize("normalization", ["sym", "rw"])
@pytest.mark.parametrize("method", ["chebyshev", "cg", "direct"])
def test_results_come_back_in_the_callers_order(
    any_graph, X, labels, normalization, beta, ghost, method
):
    options = {"normalization": normalization, "labels": labels, "beta": beta, "ghost": ghost}
    P = propagation(any_graph, **options, reorder=True)
    dense = dense_P(any_graph, **options)
    np.testing.assert_allclose(P @ X, dense @ X, atol=1e-12)
    solution = Solver(P, 10.0, method=method, tol=1e-10).solve(X)
    np.testing.assert_allclose(solution.F, dense_solve(dense, 10.0, X), atol=1e-8)
    if normalization == "rw":
        degrees = any_graph.adjacency.toarray().sum(axis=1) + 1
        np.testing.assert_allclose(P.row_weights, degrees)


@pytest.mark.parametrize("normalization", ["sym", "rw"])
def test_gpca_on_a_large_graph_gives_what_it_gives_without(blocks, normalization, monkeypatch):
    X = blocks.X.astype(float)
    settings = {"normalization": normalization, "solver": "chebyshev", "tol": 1e-10}
    plain = GPCA(3, **settings).fit(X, graph=blocks.graph)
    monkeypatch.setattr(gpcanet.estimators._problem, "reordering_pays", lambda *_: True)
    reordered = GPCA(3, **settings).fit(X, graph=blocks.graph)
    np.testing.assert_allclose(reordered.components_, plain.components_, atol=1e-8)
    np.testing.assert_allclose(
        reordered.transform(X, graph=blocks.graph),
        plain.transform(X, graph=blocks.graph),
        atol=1e-8,
    )
    assert reordered.objective_ == pytest.approx(plain.objective_, rel=1e-10)


def test_few_steps_are_not_worth_a_new_order(blocks, monkeypatch):
    monkeypatch.setattr(gpcanet.estimators._problem, "reordering_pays", lambda *_: True)
    for settings in ({"alpha": 0.0}, {"solver": "fixed-point", "n_iter": 5}):
        problem = Problem(Parameters(**settings), blocks.graph, blocks.X, n_components=3)
        assert not problem.memory_plan.reorder
