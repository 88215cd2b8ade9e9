"""NodeData: checks, and the subset of some nodes."""

import numpy as np
import pytest
import torch

from gpcanet.datasets import block_model
from gpcanet.nn import NodeData


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
