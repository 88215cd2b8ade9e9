"""Partition of a graph by METIS, and batches of parts."""

import numpy as np
import pytest

from gpcanet.datasets import block_model
from gpcanet.nn import GCN, NodeData, partition
from gpcanet.nn.training.partition import Batches


@pytest.fixture(scope="module")
def data():
    return block_model(400, 2000, n_features=16, n_classes=4, homophily=0.9, seed=0)


def test_partition_contains_every_node_once_and_is_reproducible(data):
    parts, again = (partition(data.graph, 5, seed=1) for _ in range(2))
    assert len(parts) == 5
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.arange(400))
    for part, same in zip(parts, again, strict=True):
        np.testing.assert_array_equal(part, same)
    assert max(map(len, parts)) < 1.2 * 80
    inside = sum(data.graph.subgraph(part).n_edges for part in parts)
    assert inside > 1.5 * data.graph.n_edges / 5  # more than random parts have
    with pytest.raises(ValueError, match=r"n_parts=0 must be in \[1, 400\]"):
        partition(data.graph, 0)


@pytest.mark.parametrize("parts_per_batch", [1, 2])
def test_batches_of_an_epoch_contain_every_training_node_once(data, parts_per_batch):
    nodes = NodeData.of(data)
    batches = Batches(GCN(16, 4, 2, 4), nodes, 5, parts_per_batch, seed=0)
    for epoch in (1, 2):
        found = [batch.x[batch.rows] for batch in batches.epoch(epoch)]
        rows = np.concatenate([x.numpy() for x in found])
        expected = nodes.x[nodes.train].numpy()
        np.testing.assert_array_equal(np.unique(rows, axis=0), np.unique(expected, axis=0))
        assert len(rows) == len(expected)
