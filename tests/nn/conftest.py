"""A small graph with features and labels as tensors."""

import numpy as np
import pytest
import torch

from gpcanet.datasets import block_model


@pytest.fixture(scope="session")
def blocks():
    return block_model(120, 400, n_features=10, n_classes=3, homophily=0.9, seed=3)


@pytest.fixture(scope="session")
def edge_index(blocks):
    rows, columns = blocks.graph.adjacency.tocoo().coords
    return torch.from_numpy(np.stack([rows, columns]).astype(np.int64))


@pytest.fixture(scope="session")
def x(blocks):
    return torch.from_numpy(np.asarray(blocks.X)).double()


@pytest.fixture(scope="session")
def visible(blocks):
    return torch.from_numpy(blocks.visible_labels(validation=False))
