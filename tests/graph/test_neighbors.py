"""Graphs of nearest neighbours."""

import numpy as np
from sklearn.datasets import load_digits

from gpcanet.datasets import neighbor_graph


def test_edges_join_every_row_with_its_nearest_rows():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 3))
    distances = np.linalg.norm(X[:, None] - X, axis=2)
    np.fill_diagonal(distances, np.inf)
    expected = np.zeros((40, 40))
    np.put_along_axis(expected, np.argsort(distances, axis=1)[:, :4], 1, axis=1)
    graph = neighbor_graph(X, 4, node_ids=[f"row {i}" for i in range(40)])
    np.testing.assert_array_equal(graph.adjacency.toarray(), np.maximum(expected, expected.T))
    assert graph.node_ids[7] == "row 7"


def test_neighbours_of_a_digit_are_mostly_the_same_digit():
    X, y = load_digits(return_X_y=True)
    rows, columns = neighbor_graph(X, 5).adjacency.nonzero()
    assert np.mean(y[rows] == y[columns]) > 0.95
