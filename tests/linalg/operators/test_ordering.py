"""Node ordering: it changes the memory layout and no results."""

import numpy as np
import pytest
from truth import degrees, dense_P, dense_solve, propagation

from gpcanet import GPCA, Graph
from gpcanet.datasets import block_model
from gpcanet.estimators.problem import Parameters, Problem
from gpcanet.linalg import Solver
from gpcanet.linalg.operators.ordering import (
    LARGEST_GROUP,
    locality_order,
    permute,
    positions_of,
)


@pytest.fixture(scope="module")
def blocks():
    return block_model(3000, 20_000, n_features=6, n_classes=10, homophily=0.95, seed=1)


def distance_between_neighbours(graph, order):
    position = np.argsort(order)
    rows = np.repeat(np.arange(graph.n_nodes), np.diff(graph.indptr))
    return np.mean(np.abs(position[rows] - position[graph.indices]))


def test_order_is_a_permutation_that_reduces_distances(blocks):
    order = locality_order(blocks.graph.indptr, blocks.graph.indices)
    np.testing.assert_array_equal(np.sort(order), np.arange(3000))
    before = distance_between_neighbours(blocks.graph, np.arange(3000))
    assert distance_between_neighbours(blocks.graph, order) < before / 2


def test_order_is_deterministic(blocks):
    first, again = (locality_order(blocks.graph.indptr, blocks.graph.indices) for _ in range(2))
    np.testing.assert_array_equal(first, again)


def test_groups_are_limited_in_size(monkeypatch):
    star = np.zeros((2, LARGEST_GROUP + 999), dtype=np.int64)
    star[1] = np.arange(1, LARGEST_GROUP + 1000)
    graph = Graph.from_edge_index(star, each_once=True)
    sorted_groups = []
    monkeypatch.setattr(np, "argsort", lambda group, **_: sorted_groups.append(group))
    locality_order(graph.indptr, graph.indices)
    assert 2 < np.bincount(sorted_groups[0]).max() <= LARGEST_GROUP


def test_permuted_graph_equals_permuted_matrix(any_graph):
    order = np.random.default_rng(0).permutation(any_graph.n_nodes)
    indptr, indices, weights = permute(
        any_graph.indptr, any_graph.indices, any_graph.weights, order, positions_of(order)
    )
    dense = np.zeros((any_graph.n_nodes, any_graph.n_nodes))
    rows = np.repeat(np.arange(any_graph.n_nodes), np.diff(indptr))
    dense[rows, indices] = 1 if weights is None else weights
    np.testing.assert_array_equal(dense, any_graph.adjacency.toarray()[np.ix_(order, order)])


@pytest.mark.usefixtures("either_path")
@pytest.mark.parametrize(("beta", "ghost"), [(0.0, "balanced"), (0.5, "balanced"), (0.5, "paper")])
@pytest.mark.parametrize("normalization", ["sym", "rw"])
def test_results_are_in_the_order_of_the_caller(any_graph, X, labels, normalization, beta, ghost):
    options = {"normalization": normalization, "labels": labels, "beta": beta, "ghost": ghost}
    P = propagation(any_graph, **options, reorder=True)
    dense = dense_P(any_graph, **options)
    np.testing.assert_allclose(P @ X, dense @ X, atol=1e-12)
    for method in ("chebyshev", "cg", "direct"):
        solution = Solver(P, 10.0, method=method, tol=1e-10).solve(X)
        np.testing.assert_allclose(solution.F, dense_solve(dense, 10.0, X), atol=1e-8)
    if normalization == "rw":
        np.testing.assert_allclose(P.row_weights, degrees(any_graph))


@pytest.mark.parametrize("normalization", ["sym", "rw"])
def test_fit_of_a_large_graph_does_not_depend_on_the_order_of_nodes(normalization):
    """Enough entries and columns for a node ordering; a permuted graph has another one."""
    data = block_model(70_000, 560_000, n_features=60, n_classes=10, homophily=0.95, seed=1)
    X = data.X.astype(np.float64)
    problem = Problem(Parameters(), data.graph, X, n_components=3)
    assert problem.memory_plan.reorder
    options = {"normalization": normalization, "alpha": 2.0, "tol": 1e-9}
    Z = GPCA(3, **options).fit_transform(X, graph=data.graph)
    order = np.random.default_rng(0).permutation(len(X))
    permuted = GPCA(3, **options).fit_transform(X[order], graph=data.graph.subgraph(order))
    np.testing.assert_allclose(permuted, Z[order], atol=1e-6 * np.abs(Z).max())


@pytest.mark.parametrize("options", [{"alpha": 0.0}, {"solver": "fixed-point", "n_iter": 5}])
def test_few_steps_use_no_node_ordering(options):
    n, d = 70_000, 120
    steps = np.arange(1, 9)[:, None]
    edges = np.stack([np.arange(n) + 0 * steps, (np.arange(n) + steps) % n]).reshape(2, -1)
    graph, X = Graph.from_edge_index(edges, each_once=True), np.zeros((n, d), np.float32)
    assert Problem(Parameters(), graph, X, n_components=3).memory_plan.reorder
    assert not Problem(Parameters(**options), graph, X, n_components=3).memory_plan.reorder
