"""NodeData: checks, and the subset of some nodes."""

import numpy as np
import pytest
import torch
import torch_geometric.nn as pyg

from gpcanet.datasets import block_model
from gpcanet.errors import UserError
from gpcanet.nn import GCNConv, GPCAConv, GraphPropagation, NodeData, Settings, train
from gpcanet.nn.training.data import prepare_edges

QUICK = Settings(epochs=2)


@pytest.fixture(scope="module")
def data():
    return block_model(400, 2000, n_features=16, n_classes=4, homophily=0.9, seed=0)


def test_bad_data(data):
    nodes = NodeData.of(data)
    with pytest.raises(ValueError, match="the split has no validation nodes"):
        NodeData(nodes.x, nodes.graph, nodes.y, nodes.train, nodes.test[:0], nodes.test).check()
    with pytest.raises(
        ValueError, match=r"shape \(399, 16\) and labels of shape \(400,\) for 400 nodes"
    ):
        NodeData(nodes.x[1:], nodes.graph, nodes.y, nodes.train, nodes.test, nodes.test).check()
    unknown = nodes.y.clone()
    unknown[nodes.train[0]] = -1
    with pytest.raises(ValueError, match="a train node has no label"):
        NodeData(nodes.x, nodes.graph, unknown, nodes.train, nodes.test, nodes.test).check()


def test_subset_has_the_rows_edges_and_split_of_its_nodes(data):
    whole = NodeData.of(data)
    nodes = np.sort(np.random.default_rng(0).permutation(400)[:150])
    part = whole.subset(nodes)
    assert torch.equal(part.x, whole.x[nodes])
    assert torch.equal(part.y, whole.y[nodes])
    assert part.graph == data.graph.subgraph(nodes)
    for name in ("train", "validation", "test"):
        expected = np.intersect1d(getattr(data, name), nodes)
        np.testing.assert_array_equal(np.sort(nodes[getattr(part, name)]), expected)


class OwnModel(torch.nn.Module):
    def __init__(self, first, last):
        super().__init__()
        self.first, self.last = first, last

    def forward(self, x, edge_index):
        return self.last(self.first(x, edge_index).relu(), edge_index)


@pytest.mark.parametrize("normalization", ["sym", "rw"])
def test_layers_of_a_model_keep_their_own_normalization(data, normalization):
    nodes = NodeData.of(data)
    model = OwnModel(GCNConv(16, 8), GPCAConv(8, 4, normalization=normalization)).eval()
    edges = prepare_edges(model, nodes)
    assert isinstance(edges.edge_index, GraphPropagation) == (normalization == "sym")
    found, expected = edges.run(model, nodes.x), model(nodes.x, nodes.edge_index)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)  # sums in another order


def test_model_that_changes_its_edges(data):
    class DropsEdges(OwnModel):
        def forward(self, x, edge_index):
            return super().forward(x, edge_index[:, ::2])

    assert train(DropsEdges(pyg.GCNConv(16, 8), pyg.GCNConv(8, 4)), data, QUICK).epochs == 2
    with pytest.raises(UserError, match=r"uses its edges outside of its convolutions .*; use GCNC"):
        train(DropsEdges(GCNConv(16, 8), GCNConv(8, 4)), data, QUICK)


def test_node_data_are_equal_only_to_themselves(data):
    nodes = NodeData.of(data)
    assert nodes == nodes
    assert nodes != NodeData.of(data)


def test_model_whose_error_has_no_message(data):
    class Fails(OwnModel):
        def forward(self, x, edge_index):
            raise RuntimeError

    with pytest.raises(UserError, match="the model does not accept 400 nodes with 16 features"):
        train(Fails(GCNConv(16, 8), GCNConv(8, 4)), data, QUICK)
