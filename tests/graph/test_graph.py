"""Graph: node ids, immutability, copies, equality, and its use in scikit-learn."""

import copy
import pickle

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import sklearn
from graph_sources import (
    N_NODES,
    assert_is_the_graph,
    dense,
    edge_table,
)
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline

from gpcanet import GPCA, Graph
from gpcanet.graph import as_graph

# -- node ids -------------------------------------------------------------------------------

IDS = {
    "text": list("fbacde"),
    "integers": [5, 3, 9, 1, 0, 7],
    "several types": [1, "a", 2.5, "b", -3, "1"],
    "tuples": [(i, -i) for i in range(6)],
    "tuples of several lengths": ["a", (1,), (1, 2), 3, (4, 5, 6), "b"],
}


@pytest.mark.parametrize("ids", IDS.values(), ids=IDS)
def test_node_ids_keep_their_order_and_positions_are_found(ids):
    graph = Graph(dense(), node_ids=ids)
    assert graph.node_ids.tolist() == ids
    assert graph.positions(ids).tolist() == [0, 1, 2, 3, 4, 5]
    assert graph.positions([ids[4], ids[1], ids[4]]).tolist() == [4, 1, 4]
    assert graph.subgraph([4, 1]).node_ids.tolist() == [ids[4], ids[1]]


@pytest.mark.parametrize("ids", IDS.values(), ids=IDS)
@pytest.mark.parametrize("as_table", [dict, pd.DataFrame])
def test_tables_accept_ids_of_any_type(as_table, ids):
    table = as_table(edge_table(ids))
    assert_is_the_graph(Graph.from_edges(table, nodes=ids), node_ids=ids)
    assert set(Graph.from_edges(table).node_ids.tolist()) == set(ids[:5])


# -- immutability, copies and scikit-learn --------------------------------------------------


def test_attributes_can_be_neither_set_nor_deleted():
    graph = Graph(dense())
    with pytest.raises(AttributeError, match=r"Graph is immutable; build a new one.*'weights'"):
        graph.weights = None
    with pytest.raises(AttributeError, match="Graph is immutable"):
        del graph.indptr


@pytest.mark.parametrize("through", [lambda g: g, lambda g: pickle.loads(pickle.dumps(g))])
def test_arrays_are_read_only_even_after_pickling(through):
    graph = through(Graph(dense(), node_ids=list("abcdef")))
    for array in (graph.indptr, graph.indices, graph.weights, graph.node_ids):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = array[1]


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda graph: pickle.loads(pickle.dumps(graph))]
)
@pytest.mark.parametrize("node_ids", [None, *IDS.values()], ids=["none", *IDS])
def test_copies_and_pickles_are_equal(copied, node_ids):
    graph = Graph(dense() + np.eye(6), node_ids=node_ids)
    again = copied(graph)
    assert again == graph
    assert hash(again) == hash(graph)
    assert again.summary() == graph.summary()


def test_equality_compares_structure_weights_and_ids():
    graph = Graph(dense())
    assert graph == Graph(sp.coo_array(dense()))
    assert len({graph, Graph(dense())}) == 1
    assert graph != Graph(dense() != 0)
    assert graph != Graph(dense() * 2)
    assert graph != Graph(dense(), node_ids=range(6))
    assert Graph(dense(), node_ids=range(6)) != Graph(dense(), node_ids=list("abcdef"))
    assert graph != Graph.without_edges(6)
    assert graph != "a graph"


class Recorder(ClassifierMixin, BaseEstimator):
    """Records what scikit-learn passes to fit; its parameter may be a graph, which clone keeps."""

    def __init__(self, template=None):
        self.template = template

    def fit(self, X, y, *, graph, nodes):
        self.classes_, self.graph_, self.nodes_, self.rows_ = np.unique(y), graph, nodes, X[:, 0]
        return self

    def predict(self, X):
        return np.full(len(X), self.classes_[0])


def test_scikit_learn_does_not_split_a_graph():
    graph = Graph(dense(), node_ids=list("abcdef"))
    assert not any(hasattr(graph, name) for name in ("__len__", "shape", "__array__", "__iter__"))
    assert clone(Recorder(graph)).template is graph
    X, y = np.arange(6.0).reshape(-1, 1), np.array([0, 1] * 3)
    with sklearn.config_context(enable_metadata_routing=True):
        recorder = Recorder().set_fit_request(graph=True, nodes=True)
        params = {"graph": graph, "nodes": np.arange(6)}
        result = cross_validate(recorder, X, y, cv=3, params=params, return_estimator=True)
    for fitted in result["estimator"]:
        assert fitted.graph_ is graph
        assert len(fitted.nodes_) == 4
        np.testing.assert_array_equal(fitted.nodes_, fitted.rows_)


def test_grid_search_of_a_pipeline_equals_separate_fits_of_each_fold():
    rng = np.random.default_rng(0)
    graph = Graph.from_networkx(nx.planted_partition_graph(2, 10, 0.5, 0.2, seed=0))
    y = np.repeat([0, 1], 10)
    X, nodes = rng.normal(size=(20, 3)) + 0.3 * y[:, None], np.arange(20)
    folds = [(np.delete(nodes, np.s_[i::4]), nodes[i::4]) for i in range(4)]
    with sklearn.config_context(enable_metadata_routing=True):
        pipeline = make_pipeline(GPCA(2), LogisticRegression())
        search = GridSearchCV(pipeline, {"gpca__alpha": [5.0]}, cv=folds, error_score="raise")
        search.fit(X, y, graph=graph, nodes=nodes)
    for i, (train, test) in enumerate(folds):
        gpca = GPCA(2, alpha=5.0)
        Z = gpca.fit_transform(X[train], graph=graph, nodes=train)
        held_out = gpca.transform(X[test], graph=graph, nodes=test)
        score = LogisticRegression().fit(Z, y[train]).score(held_out, y[test])
        assert search.cv_results_[f"split{i}_test_score"][0] == score


@pytest.mark.parametrize("node_ids", [None, list("abcdef")])
def test_from_csr_equals_the_graph_of_its_matrix(node_ids):
    matrix = sp.csr_array(dense())
    graph = Graph.from_csr(matrix.indptr, matrix.indices, matrix.data, node_ids=node_ids)
    assert_is_the_graph(graph, node_ids=node_ids)
    unweighted = Graph.from_csr(matrix.indptr, matrix.indices)
    assert_is_the_graph(unweighted, weighted=False)
    assert not np.shares_memory(graph.indices, matrix.indices)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_adjacency_is_a_new_matrix_in_float64(dtype):
    """The weights of a store have the precision of its features."""
    weights = np.array([0.1, 0.1], dtype)
    graph = Graph.from_csr(np.array([0, 1, 2]), np.array([1, 0]), weights, validate=False)
    adjacency = graph.adjacency
    assert adjacency.dtype == np.float64
    for mine, own in ((adjacency.data, graph.weights), (adjacency.indices, graph.indices)):
        assert mine.flags.writeable
        assert not np.shares_memory(mine, own)


def test_subgraph_of_all_nodes_in_order_is_the_graph():
    graph = Graph(dense())
    assert graph.subgraph(range(N_NODES)) is graph


def test_as_graph_of_a_graph_none_and_a_two_by_two_matrix():
    graph, two = Graph(dense()), np.array([[0, 3], [3, 0]])
    assert as_graph(graph, N_NODES) is graph
    assert as_graph(None, 4) == Graph.without_edges(4)
    assert as_graph(two, 2) == Graph(two)
    assert as_graph(two, 4) == Graph.from_edge_index(two, n_nodes=4)


def test_large_integer_ids_of_two_dtypes_stay_distinct():
    source, target = np.array([2**60, 2**60 + 2]), np.array([2**60 + 1, 2**60 + 1024], np.uint64)
    graph = Graph.from_edges({"source": source, "target": target})
    assert graph.node_ids.tolist() == [2**60, 2**60 + 1, 2**60 + 2, 2**60 + 1024]
    assert Graph.from_edges({"source": [2**63 + 1, 5], "target": [5, -1]}).node_ids.tolist() == [
        -1,
        5,
        2**63 + 1,
    ]


def test_graphs_without_edges_are_equal_but_not_the_same():
    one, other = Graph.without_edges(3), Graph.without_edges(3)
    assert one == other
    assert one.is_same(one)
    assert not one.is_same(other)
    path = [[0, 1], [1, 0]]
    assert Graph.from_edge_index(path).is_same(Graph.from_edge_index(path))


def test_weights_are_the_same_in_the_lower_of_two_precisions():
    path = [[0, 1], [1, 0]]
    exact = Graph.from_edge_index(path, [0.1, 0.1])
    weights = exact.weights.astype(np.float32)
    rounded = Graph.from_csr(exact.indptr, exact.indices, weights, validate=False)
    assert rounded.weights.dtype == np.float32
    assert exact.is_same(rounded)
    assert rounded.is_same(exact)
    assert exact != rounded
    assert not exact.is_same(Graph.from_edge_index(path, [0.1 + 1e-9] * 2))
    assert not exact.is_same(Graph.from_edge_index(path))


# -- union ------------------------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("has_ids", [True, False])
def test_union_has_the_larger_weight_of_every_edge(weighted, has_ids):
    rng = np.random.default_rng(1)
    names = np.array([f"n{i}" for i in range(14)])
    members = [rng.permutation(10), rng.permutation(np.arange(5, 14))]
    if not has_ids:
        members = [np.arange(10), np.arange(14)]
    expected, graphs = np.zeros((14, 14)), []
    for nodes, is_weighted in zip(members, weighted, strict=True):
        A = np.triu(rng.random((len(nodes),) * 2) < 0.3, 1) * 1.0
        A *= rng.uniform(0.2, 3, A.shape) if is_weighted else 1
        A += A.T
        expected[np.ix_(nodes, nodes)] = np.maximum(expected[np.ix_(nodes, nodes)], A)
        graphs.append(Graph(A, node_ids=names[nodes] if has_ids else None))
    union = graphs[0].union(graphs[1])
    assert union.is_weighted == any(weighted)
    order = np.arange(14)
    if has_ids:
        new = [i for i in members[1] if i not in members[0]]
        order = np.array([*members[0], *new])
        assert union.node_ids.tolist() == names[order].tolist()
    np.testing.assert_array_equal(union.adjacency.toarray(), expected[np.ix_(order, order)])
    assert "merged" not in union.summary()


def test_union_of_a_graph_with_ids_and_one_without_is_refused():
    with pytest.raises(ValueError, match="one of the graphs has node ids and the other has none"):
        Graph(np.eye(2), node_ids=["a", "b"]).union(Graph(np.eye(2)))
