"""The choice between factorisation and iteration."""

import os

import networkx as nx
import numpy as np
import pytest
from sklearn.neighbors import kneighbors_graph
from truth import dense_P, dense_solve, propagation, random_features

from gpcanet import Graph
from gpcanet.datasets import load
from gpcanet.datasets.environment import DATA_DIR_VARIABLE
from gpcanet.linalg import Solver
from gpcanet.linalg.solvers.direct import SMALL_ENTRIES, SMALL_NODES, factorizes_well


def neighbor_graph(n_dimensions, n_neighbors):
    points = np.random.default_rng(0).random((3000, n_dimensions))
    directed = kneighbors_graph(points, n_neighbors)
    return Graph(directed.maximum(directed.T))


def random_edges(n_nodes, n_edges, seed=0):
    edges = np.random.default_rng(seed).integers(0, n_nodes, (2, n_edges))
    return Graph.from_edge_index(edges, n_nodes=n_nodes, each_once=True)


def alternating_bipartite_graph(n_nodes, n_edges):
    """Edges between even and odd nodes only: every second node alone has no edges, thus no fill."""
    edges = 2 * np.random.default_rng(1).integers(0, n_nodes // 2, (2, n_edges))
    edges[1] += 1
    return Graph.from_edge_index(edges, n_nodes=n_nodes, each_once=True)


def preferential_attachment(n_edges_per_node):
    return Graph.from_networkx(nx.barabasi_albert_graph(3000, n_edges_per_node, seed=1))


LITTLE_FILL_IN = {
    "two-dimensional neighbours": lambda: neighbor_graph(2, 6),
    "three-dimensional neighbours": lambda: neighbor_graph(3, 6),
    "hubs of a citation graph": lambda: preferential_attachment(2),
    "tree": lambda: Graph.from_networkx(nx.random_labeled_tree(3000, seed=1)),
    "grid": lambda: Graph(nx.to_scipy_sparse_array(nx.grid_2d_graph(60, 60))),
    "no edges": lambda: Graph.without_edges(100),
    "one node": lambda: Graph.without_edges(1),
}

MUCH_FILL_IN = {
    "random": lambda: random_edges(3000, 19_900),
    "sparse random": lambda: random_edges(3000, 9000),
    "bipartite in alternating order": lambda: alternating_bipartite_graph(3000, 15_000),
    "dense hubs": lambda: preferential_attachment(6),
}


@pytest.mark.parametrize("make", LITTLE_FILL_IN.values(), ids=LITTLE_FILL_IN)
def test_graphs_with_little_fill_in_are_factorized(make):
    P = propagation(make())
    assert factorizes_well(P)
    assert Solver(P, 1.0).method == "direct"


@pytest.mark.parametrize("make", MUCH_FILL_IN.values(), ids=MUCH_FILL_IN)
def test_small_graphs_with_much_fill_in_are_not_factorized(make):
    P = propagation(make())
    assert P.n_nodes <= SMALL_NODES
    assert len(P.indices) <= SMALL_ENTRIES
    assert not factorizes_well(P)
    assert Solver(P, 1.0).method == "chebyshev"


@pytest.mark.real_data
@pytest.mark.skipif(DATA_DIR_VARIABLE not in os.environ, reason=f"{DATA_DIR_VARIABLE} is not set")
@pytest.mark.parametrize("name", ["cora", "citeseer"])
def test_citation_graphs_are_factorized(name):
    assert factorizes_well(propagation(load(name).graph))


@pytest.mark.parametrize(("n_nodes", "n_edges"), [(6_001, 6_000), (6_000, 20_001)])
def test_large_graphs_are_not_factorized(n_nodes, n_edges):
    """A path, which has no fill-in at all, and edges from each node to the following ones."""
    begin = np.arange(n_edges) % (n_nodes - 4)
    edges = np.stack([begin, begin + 1 + np.arange(n_edges) // (n_nodes - 4)])
    graph = Graph.from_edge_index(edges, n_nodes=n_nodes, each_once=True)
    assert not factorizes_well(propagation(graph))


def test_labels_and_normalization_do_not_change_the_choice():
    graph = neighbor_graph(2, 6)
    labels = np.arange(graph.n_nodes) % 3
    for options in ({"normalization": "rw"}, {"labels": labels, "beta": 0.3}):
        assert factorizes_well(propagation(graph, **options))
        assert factorizes_well(propagation(graph, **options, dtype=np.float32))


def test_factorization_of_a_graph_with_much_fill_in_is_exact():
    graph, X = random_edges(400, 3000), random_features(400)
    solution = Solver(propagation(graph), 50.0, method="direct").solve(X)
    np.testing.assert_allclose(solution.F, dense_solve(dense_P(graph), 50.0, X), atol=1e-11)
