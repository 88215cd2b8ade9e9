"""The generated graphs are simple, symmetric and regular, whatever the size of a chunk."""

import numpy as np
import pytest

from benchmarks import shuffled_circulant
from benchmarks.shuffled_circulant import adjacency_rows, write_store
from gpcanet import Graph
from gpcanet.distributed import Store


@pytest.mark.parametrize(("n_nodes", "degree"), [(40, 6), (1_000, 20), (1_023, 4)])
def test_graphs_are_simple_and_symmetric(n_nodes, degree, monkeypatch):
    monkeypatch.setattr(shuffled_circulant, "NODES_PER_CHUNK", 300)
    indices = np.concatenate([rows.copy() for rows in adjacency_rows(n_nodes, degree)])
    indptr = np.arange(n_nodes + 1) * degree
    graph = Graph.from_csr(indptr, indices)  # warns if it is not symmetric
    np.testing.assert_array_equal(graph.indices, indices)  # sorted, without self-loops or repeats
    # Neighbours are spread over all nodes.
    distances = np.abs(indices - np.repeat(np.arange(n_nodes), degree))
    assert np.mean(distances) > n_nodes / 5


def test_the_store_is_valid(tmp_path, monkeypatch):
    monkeypatch.setattr(shuffled_circulant, "NODES_PER_CHUNK", 300)
    write_store(tmp_path, 1_000, 20, 10, 4)
    store = Store.open(tmp_path)
    store.verify()
    data = store.dataset()
    assert (data.graph.n_nodes, data.graph.n_edges, data.X.shape) == (1_000, 10_000, (1_000, 10))
    np.testing.assert_allclose(store.mean, data.X.mean(axis=0, dtype=float), atol=1e-12)
    assert store.manifest["largest"] == np.abs(data.X).max()
