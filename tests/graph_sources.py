"""One small graph in every format that Graph accepts."""

import warnings

import networkx as nx
import numpy as np

# Six nodes: a path 0 - 1 - 2, an edge 3 - 4, and 5 alone.
EDGES = [(0, 1, 2.0), (1, 2, 0.5), (3, 4, 1.0)]
N_NODES = 6
INDPTR = [0, 1, 3, 4, 5, 6, 6]
INDICES = [1, 0, 2, 1, 4, 3]
WEIGHTS = [2.0, 2.0, 0.5, 0.5, 1.0, 1.0]

SPARSE_FORMATS = ["csr", "csc", "coo", "lil", "dok", "bsr", "dia"]


def dense():
    matrix = np.zeros((N_NODES, N_NODES))
    for a, b, weight in EDGES:
        matrix[a, b] = matrix[b, a] = weight
    return matrix


def edge_index():
    """Both directions of every edge, and their weights."""
    a, b, weights = (np.array(column) for column in zip(*EDGES, strict=True))
    pairs = np.vstack([np.r_[a, b], np.r_[b, a]])
    return pairs, np.r_[weights, weights]


def networkx_graph(kind=nx.Graph, names=range(N_NODES)):
    names = list(names)
    graph = kind()
    graph.add_nodes_from(names)
    for a, b, weight in EDGES:
        graph.add_edge(names[a], names[b], weight=weight)
        if graph.is_directed():
            graph.add_edge(names[b], names[a], weight=weight)
    return graph


def edge_table(names=range(N_NODES)):
    a, b, weights = zip(*EDGES, strict=True)
    names = list(names)
    ends = {"source": [names[i] for i in a], "target": [names[i] for i in b]}
    return {**ends, "weight": list(weights)}


def torch_csr(torch):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta")
        return torch.from_numpy(dense()).to_sparse_csr()


def assert_is_the_graph(graph, *, weighted=True, node_ids=None):
    np.testing.assert_array_equal(graph.indptr, INDPTR)
    np.testing.assert_array_equal(graph.indices, INDICES)
    if weighted:
        np.testing.assert_array_equal(graph.weights, WEIGHTS)
    else:
        assert graph.weights is None
    if node_ids is None:
        assert graph.node_ids is None
    else:
        assert graph.node_ids.tolist() == list(node_ids)
