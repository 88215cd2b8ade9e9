"""Graph: the same graph from every source, and the rules of assembly."""

import warnings

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from graph_sources import (
    N_NODES,
    SPARSE_FORMATS,
    assert_is_the_graph,
    dense,
    edge_index,
    edge_table,
    networkx_graph,
    torch_csr,
)
from hypothesis import given
from hypothesis import strategies as st
from properties import examples

from gpcanet import Graph, GraphWarning
from gpcanet.graph import as_graph

# -- every source gives the same graph ------------------------------------------------------


@pytest.mark.parametrize("kind", ["array", "matrix"])
@pytest.mark.parametrize("fmt", SPARSE_FORMATS)
def test_scipy_sources_give_the_same_graph(fmt, kind):
    matrix = getattr(sp, f"{fmt}_{kind}")(dense())
    assert_is_the_graph(Graph(matrix))
    assert_is_the_graph(as_graph(matrix, N_NODES))
    booleans = getattr(sp, f"{fmt}_{kind}")(dense() != 0)
    assert_is_the_graph(Graph(booleans), weighted=False)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_dense_sources_give_the_same_graph(dtype):
    assert_is_the_graph(Graph(dense().astype(dtype)))
    assert_is_the_graph(Graph(dense().astype(dtype).tolist()))
    assert_is_the_graph(as_graph(dense().astype(dtype), N_NODES))


@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint64, np.float64])
def test_dense_ones_give_the_unweighted_graph(dtype):
    assert_is_the_graph(Graph((dense() != 0).astype(dtype)), weighted=False)


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.uint8])
def test_edge_index_gives_the_same_graph(dtype):
    pairs, weights = edge_index()
    pairs = pairs.astype(dtype)
    assert_is_the_graph(Graph.from_edge_index(pairs, weights, n_nodes=N_NODES))
    assert_is_the_graph(Graph.from_edge_index(pairs, n_nodes=N_NODES), weighted=False)
    assert_is_the_graph(as_graph(pairs, N_NODES), weighted=False)
    assert_is_the_graph(as_graph(pairs.tolist(), N_NODES), weighted=False)


def test_torch_sources_give_the_same_graph():
    torch = pytest.importorskip("torch")
    pairs, weights = (torch.from_numpy(array) for array in edge_index())
    tensor = torch.from_numpy(dense())
    assert_is_the_graph(Graph.from_edge_index(pairs, weights, n_nodes=N_NODES))
    assert_is_the_graph(as_graph(pairs, N_NODES), weighted=False)
    with_gradient = tensor.clone().requires_grad_()
    for adjacency in (tensor, with_gradient, tensor.to_sparse(), torch_csr(torch)):
        assert_is_the_graph(Graph(adjacency))
        assert_is_the_graph(as_graph(adjacency, N_NODES))
    assert_is_the_graph(Graph((tensor != 0).to_sparse()), weighted=False)


def test_pyg_data_gives_the_same_graph():
    torch = pytest.importorskip("torch")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it uses torch.jit on import
        pyg = pytest.importorskip("torch_geometric.data")
    pairs, weights = (torch.from_numpy(array) for array in edge_index())
    data = pyg.Data(edge_index=pairs, edge_weight=weights, num_nodes=N_NODES)
    assert_is_the_graph(Graph.from_pyg(data))
    assert_is_the_graph(as_graph(data, N_NODES))
    unweighted = pyg.Data(edge_index=pairs, x=torch.zeros(N_NODES, 1))
    assert_is_the_graph(Graph.from_pyg(unweighted), weighted=False)


@pytest.mark.parametrize("kind", [nx.Graph, nx.DiGraph, nx.MultiGraph, nx.MultiDiGraph])
@pytest.mark.parametrize(
    "names", [list(range(6)), list("fbacde"), [(i, -i) for i in range(6)]], ids=type
)
def test_networkx_graphs_give_the_same_graph_with_node_ids(kind, names):
    graph = networkx_graph(kind, names)
    assert_is_the_graph(Graph.from_networkx(graph), node_ids=names)
    assert_is_the_graph(as_graph(graph, N_NODES), node_ids=names)
    assert_is_the_graph(Graph.from_networkx(graph, weight=None), weighted=False, node_ids=names)
    assert_is_the_graph(Graph.from_networkx(graph, weight="x"), weighted=False, node_ids=names)


@pytest.mark.parametrize("names", [list(range(6)), list("fbacde"), [30, 10, 20, 0, 7, 5]], ids=str)
@pytest.mark.parametrize("as_table", [dict, pd.DataFrame])
def test_tables_give_the_same_graph_in_the_order_of_nodes(as_table, names):
    table = as_table(edge_table(names))
    assert_is_the_graph(Graph.from_edges(table, nodes=names), node_ids=names)
    renamed = as_table(dict(zip(["u", "v", "w"], edge_table(names).values(), strict=True)))
    graph = Graph.from_edges(renamed, source="u", target="v", weight="w", nodes=names)
    assert_is_the_graph(graph, node_ids=names)
    with pytest.warns(GraphWarning, match="column 'w' of the edge table was ignored; use weight="):
        graph = Graph.from_edges(renamed, source="u", target="v", nodes=names)
    assert_is_the_graph(graph, weighted=False, node_ids=names)


def test_tables_without_nodes_sort_their_ids():
    table = pd.DataFrame(edge_table("fbacde"))
    graph = Graph.from_edges(table)
    assert graph.node_ids.tolist() == list("abcdf")
    assert Graph.from_edges(table[::-1]) == graph
    assert graph.adjacency[0, 1] == 0.5  # a - b


# -- the rules of assembly ------------------------------------------------------------------


def test_self_loops_are_dropped_and_counted():
    graph = Graph(dense() + np.diag([1.0, 0, 3, 0, 0, 2]))
    assert_is_the_graph(graph)
    assert graph.summary().endswith(", 3 self-loops dropped")


def test_entries_of_weight_zero_are_not_edges():
    pairs = [[0, 1, 1, 2], [1, 0, 2, 1]]
    assert Graph.from_edge_index(pairs, [1, 1, 0, 0]) == Graph.from_edge_index(
        [[0, 1], [1, 0]], n_nodes=3
    )
    stored_zero = sp.csr_array(dense())
    stored_zero.data[:] = 0
    assert Graph(stored_zero) == Graph.without_edges(N_NODES)


def test_repeated_edges_add_weights_or_are_merged_if_unweighted():
    pairs = [[0, 0, 1, 1], [1, 1, 0, 0]]
    assert Graph.from_edge_index(pairs, [1.5, 2, 1.5, 2]).weights.tolist() == [3.5, 3.5]
    unweighted = Graph.from_edge_index(pairs)
    assert not unweighted.is_weighted
    assert unweighted.n_edges == 1
    assert unweighted.summary().endswith(", 2 repeated edges merged")
    multigraph = nx.MultiGraph([(0, 1, {"weight": 1}), (1, 0, {"weight": 2})])
    assert Graph.from_networkx(multigraph).weights.tolist() == [3, 3]
    assert not Graph.from_networkx(multigraph, weight=None).is_weighted


@pytest.mark.parametrize("values", [[1.5, 2], [1, 1], [200, 100]], ids=str)
def test_duplicates_in_a_sparse_matrix_are_summed_in_every_format(values):
    data = np.array(values * 2, np.uint8 if max(values) == 200 else np.float64)
    coo = sp.coo_array((data, ([0, 0, 1, 1], [1, 1, 0, 0])), shape=(2, 2))
    csr = sp.csr_array((data, [1, 1, 0, 0], [0, 2, 4]), shape=(2, 2))
    assert Graph(coo).weights.tolist() == [sum(values)] * 2
    assert Graph(csr) == Graph(coo) == Graph(csr.T)


def test_networkx_edges_without_the_attribute_have_weight_one():
    graph = nx.path_graph(3)
    graph.edges[0, 1]["weight"] = 4
    assert Graph.from_networkx(graph).weights.tolist() == [4, 4, 1, 1]


def test_an_edge_has_the_larger_weight_of_its_directions():
    with pytest.warns(GraphWarning, match="weights differ by direction"):
        graph = Graph(np.array([[0, 1.0], [5.0, 0]]))
    assert graph.weights.tolist() == [5, 5]
    with pytest.warns(GraphWarning):
        assert_is_the_graph(Graph(np.triu(dense())))


@pytest.mark.parametrize(
    ("build", "named"),
    [
        (lambda: Graph(np.triu(dense())), "adjacency"),
        (lambda: Graph(sp.csr_array(np.triu(dense()))), "adjacency"),
        (lambda: Graph.from_edge_index([[0, 1, 3], [1, 2, 4]], n_nodes=6), "edge_index"),
        (lambda: Graph.from_networkx(nx.DiGraph([(0, 1), (1, 2), (3, 4)])), "networkx graph"),
        (lambda: as_graph(np.triu(dense()), 6), "adjacency"),
    ],
)
def test_directed_sources_warn_with_the_number_of_one_way_edges(build, named):
    with pytest.warns(
        GraphWarning, match=f"the {named} is directed .3 edges in one direction only"
    ):
        graph = build()
    assert graph.summary().endswith(", 3 one-way edges made two-way")


def test_one_way_edges_in_a_table_do_not_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        graph = Graph.from_edges(edge_table())
    assert "one-way" not in graph.summary()


def test_the_source_is_neither_changed_nor_shared():
    matrix, (pairs, weights) = sp.csr_array(np.eye(6) + dense()), edge_index()
    names, before = np.array(list("abcdef")), matrix.copy()
    graph = Graph(matrix, node_ids=names)
    Graph.from_edge_index(pairs, weights, n_nodes=6)
    assert (matrix != before).nnz == 0
    assert all(array.flags.writeable for array in (matrix.data, pairs, weights, names))
    names[0] = "z"
    assert graph.node_ids[0] == "a"


# -- summary and adjacency ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("graph", "text"),
    [
        (Graph(dense()), "6 nodes, 3 edges, weighted, 3 components, 1 isolated node"),
        (Graph.without_edges(1), "1 node, 0 edges, unweighted, 1 component, 1 isolated node"),
        (
            Graph.without_edges(2345),
            "2,345 nodes, 0 edges, unweighted, 2,345 components, 2,345 isolated nodes",
        ),
        (
            Graph(np.ones((3, 3))),
            "3 nodes, 3 edges, unweighted, 1 component, 0 isolated nodes, 3 self-loops dropped",
        ),
    ],
)
def test_summary_counts_nodes_edges_components_and_changes(graph, text):
    assert graph.summary() == text
    sizes = f"n_nodes={graph.n_nodes}, n_edges={graph.n_edges}, weighted={graph.is_weighted}"
    assert repr(graph) == f"Graph({sizes})"


def test_adjacency_is_a_new_symmetric_float_array():
    graph = Graph(dense())
    graph.adjacency.data[:] = 7
    graph.adjacency.indices[:] = 0
    assert isinstance(graph.adjacency, sp.csr_array)
    assert graph.adjacency.dtype == np.float64
    np.testing.assert_array_equal(graph.adjacency.toarray(), dense())


@st.composite
def edge_lists(draw):
    """Edges among few nodes: self-loops, repeats, one-way, weight 0."""
    n_nodes = draw(st.integers(1, 9))
    node = st.integers(0, n_nodes - 1)
    edges = draw(st.lists(st.tuples(node, node, st.integers(0, 3)), max_size=25))
    return n_nodes, edges


def graph_of(n_nodes, edges):
    table = dict(zip(["source", "target", "weight"], np.array(edges).reshape(-1, 3).T, strict=True))
    return Graph.from_edges(table, nodes=range(n_nodes))


@examples(150)
@given(edge_lists())
def test_any_edge_list_gives_a_symmetric_sorted_graph_without_self_loops(drawn):
    n_nodes, edges = drawn
    graph = graph_of(n_nodes, edges)
    expected = np.zeros((n_nodes, n_nodes))
    for a, b, weight in edges:
        expected[a, b] = expected[b, a] = max(expected[a, b], weight * (a != b))
    np.testing.assert_array_equal(graph.adjacency.toarray(), expected)
    assert len(graph.indices) == np.count_nonzero(expected)
    for begin, end in zip(graph.indptr[:-1], graph.indptr[1:], strict=True):
        assert np.all(np.diff(graph.indices[begin:end]) > 0)
    reference = nx.from_numpy_array(expected)
    assert graph.n_edges == reference.number_of_edges()
    assert graph.n_connected_components == nx.number_connected_components(reference)
    assert graph.n_isolated == nx.number_of_isolates(reference)
    assert graph.is_weighted == bool(np.any(expected > 1))


@examples(100)
@given(edge_lists(), st.randoms(use_true_random=False))
def test_subgraph_takes_nodes_in_any_order(drawn, random):
    graph = graph_of(*drawn)
    order = list(range(graph.n_nodes))
    random.shuffle(order)
    permuted = graph.subgraph(order)
    assert permuted.node_ids.tolist() == order
    assert permuted.subgraph(np.argsort(order)) == graph
    some = order[: max(1, graph.n_nodes // 2)]
    part = graph.subgraph(some)
    np.testing.assert_array_equal(
        part.adjacency.toarray(), graph.adjacency.toarray()[np.ix_(some, some)]
    )


def test_masked_entries_are_no_edges():
    dense = np.array([[0, 2, 3], [2, 0, 0], [3, 0, 0]], float)
    masked = np.ma.masked_equal(dense, 3)
    for graph in (Graph(masked), as_graph(masked, 3)):
        np.testing.assert_array_equal(graph.adjacency.toarray(), masked.filled(0))
