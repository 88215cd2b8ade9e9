"""Edge tables: repeated rows, names of weight columns, pandas, polars and Arrow."""

import warnings

import networkx as nx
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from properties import examples

from gpcanet import Graph, GraphWarning

ROWS = {"source": ["a", "b", "c"], "target": ["b", "c", "a"], "weight": [1.0, 2.5, 3.0]}


@st.composite
def tables(draw):
    """Edges between few nodes: self-loops, repeats, both orders of the ends, weight 0."""
    name = st.sampled_from("abcde")
    rows = draw(st.lists(st.tuples(name, name, st.sampled_from([0, 1, 2.5, 7])), min_size=1))
    return pd.DataFrame(rows, columns=["source", "target", "weight"])


@examples(100)
@given(tables(), st.randoms(use_true_random=False))
def test_the_order_of_rows_and_of_their_ends_does_not_matter(table, random):
    swapped = table.copy()
    for row in range(len(table)):
        if random.random() < 0.5:
            ends = ["source", "target"]
            swapped.loc[row, ends] = table.loc[row, ends[::-1]].to_numpy()
    order = list(range(len(table)))
    random.shuffle(order)
    graph, other = Graph.from_edges(table), Graph.from_edges(swapped.iloc[order])
    assert graph == other
    assert graph.summary() == other.summary()
    unweighted = Graph.from_edges(table[["source", "target"]])
    other = Graph.from_edges(swapped[["source", "target"]])
    assert unweighted == other
    assert unweighted.summary() == other.summary()


@pytest.mark.parametrize("target", [["b", "b"], ["b", "a"]], ids=["same order", "other order"])
def test_the_largest_weight_of_repeated_rows_is_kept_and_reported(target):
    source = ["a", "a"] if target == ["b", "b"] else ["a", "b"]
    graph = Graph.from_edges({"source": source, "target": target, "weight": [1, 5]})
    assert graph.weights.tolist() == [5, 5]
    assert graph.summary().endswith(", 1 repeated edge merged (largest weight kept)")


def test_from_edge_index_with_each_once_keeps_the_largest_weight():
    pairs = [[0, 1, 0], [1, 0, 1]]
    graph = Graph.from_edge_index(pairs, [1, 5, 3], each_once=True)
    assert graph.weights.tolist() == [5, 5]


@pytest.mark.parametrize("name", ["weight", "Weight", "weights", "WEIGHTS", "edge_weight"])
def test_weight_columns_are_found_by_name(name):
    table = {"source": ["a"], "target": ["b"], name: [3]}
    assert Graph.from_edges(table).weights.tolist() == [3, 3]


def test_several_weight_columns_are_ambiguous():
    table = {"source": ["a"], "target": ["b"], "weight": [3], "Weights": [4]}
    with pytest.raises(ValueError, match="columns 'weight', 'Weights' could each hold the weights"):
        Graph.from_edges(table)
    assert Graph.from_edges(table, weight="Weights").weights.tolist() == [4, 4]


def test_an_unused_numeric_column_warns_and_text_does_not():
    table = {"source": ["a"], "target": ["b"], "kind": ["x"], "strength": [3.0]}
    with pytest.warns(GraphWarning, match="column 'strength' of the edge table was ignored"):
        Graph.from_edges(table)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Graph.from_edges({"source": [1], "target": [2], "kind": ["x"]})


@pytest.mark.parametrize("as_table", [pd.DataFrame, pl.DataFrame, pa.table, dict])
def test_tables_of_all_libraries_give_the_same_graph(as_table):
    graph = Graph.from_edges(as_table(ROWS))
    assert graph == Graph.from_edges(ROWS)
    assert graph.node_ids.tolist() == ["a", "b", "c"]
    with pytest.raises(
        ValueError, match=r"column 'from' is not in the edge table; it has \['source"
    ):
        Graph.from_edges(as_table(ROWS), source="from")


@pytest.mark.parametrize("as_table", [pl.DataFrame, pa.table])
def test_a_missing_id_in_polars_or_arrow_raises(as_table):
    table = as_table({"source": ["a", None], "target": ["b", "c"]})
    with pytest.raises(ValueError, match="node id None at position 1 is missing"):
        Graph.from_edges(table)


def test_a_list_is_not_a_table():
    with pytest.raises(TypeError, match="of type list must be a pandas, polars or Arrow table or"):
        Graph.from_edges([[0, 1], [1, 0]])


@pytest.mark.parametrize("weight", [-1.0, np.nan, np.inf])
def test_an_invalid_weight_is_reported_with_the_ids_of_its_edge(weight):
    table = {"source": ["x", "y"], "target": ["y", "z"], "weight": [1.0, weight]}
    with pytest.raises(ValueError, match=r"of edge \(y, z\) must be finite and at least 0"):
        Graph.from_edges(table)


def test_source_and_target_must_be_different_columns():
    with pytest.raises(ValueError, match="source and target are both column 'source'"):
        Graph.from_edges(ROWS, target="source")


# -- PyG --------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(4,), (4, 1)])
def test_edge_attr_with_one_column_is_used_as_weights(shape):
    torch = pytest.importorskip("torch")
    data = pytest.importorskip("torch_geometric.data").Data
    pairs = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    attributes = torch.tensor([2.0, 2.0, 3.0, 3.0]).reshape(shape)
    graph = Graph.from_pyg(data(edge_index=pairs, edge_attr=attributes, num_nodes=3))
    assert graph.weights.tolist() == [2, 2, 3, 3]
    own = data(edge_index=pairs, edge_attr=attributes, edge_weight=torch.ones(4), num_nodes=3)
    assert not Graph.from_pyg(own).is_weighted


def test_networkx_weights_are_found_by_name():
    graph = nx.Graph([("a", "b", {"Weight": 3})])
    assert Graph.from_networkx(graph).weights.tolist() == [3, 3]
    assert not Graph.from_networkx(graph, weight=None).is_weighted


def test_ignored_columns_repeated_columns_and_zero_weights_are_reported():
    table = {"source": ["a"], "target": ["b"], "year": [2000], "strength": [3.0]}
    with pytest.warns(GraphWarning, match="column 'year', 'strength' of the edge table was ign"):
        Graph.from_edges(table)
    twice = pd.concat([pd.DataFrame(ROWS)] * 2, axis=1)
    with pytest.raises(ValueError, match="column 'source' occurs twice in the edge table"):
        Graph.from_edges(twice)
    zero = Graph.from_edges({"source": ["a", "b"], "target": ["b", "c"], "weight": [1.0, 0.0]})
    assert zero.summary().endswith(", 1 edge of weight 0 dropped")
    with pytest.raises(TypeError, match="lazy; collect"):
        Graph.from_edges(pl.LazyFrame(ROWS))


@pytest.mark.parametrize(
    "attributes", [[[1]] * 4, [[1.0, 2.0]] * 4, [[-1.0]] * 4, [[float("nan")]] * 4]
)
def test_edge_attr_that_cannot_be_weights_is_ignored_with_a_warning(attributes):
    torch = pytest.importorskip("torch")
    data = pytest.importorskip("torch_geometric.data").Data
    pairs = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    with pytest.warns(GraphWarning, match="edge_attr of shape .* was ignored"):
        graph = Graph.from_pyg(
            data(edge_index=pairs, edge_attr=torch.tensor(attributes), num_nodes=3)
        )
    assert not graph.is_weighted


@pytest.mark.parametrize("big", [2**53 + 1, 2**63 - 1, -(2**63)])
def test_large_integers_next_to_floats_stay_distinct(big):
    ids = np.array([big, big + 1 if big < 0 else big - 1])
    for source in (ids, ids.tolist()):
        graph = Graph.from_edges({"source": source, "target": np.array([1.0, 2.0])})
        assert set(graph.node_ids.tolist()) == {*ids.tolist(), 1, 2}
    mixed = Graph.from_edges({"source": [big, 0.5], "target": [ids[1], 1.0]})
    assert mixed.n_nodes == 4
