"""Deep networks on Cora with GPCA weights and with random weights."""

import os

import pytest

from gpcanet.datasets import load
from gpcanet.datasets.environment import DATA_DIR_VARIABLE
from gpcanet.nn import NodeData, Settings, train
from gpcanet.nn.training.registry import build_initialized_model

pytestmark = [
    pytest.mark.real_data,
    pytest.mark.skipif(
        DATA_DIR_VARIABLE not in os.environ, reason=f"{DATA_DIR_VARIABLE} names no folder"
    ),
]


@pytest.fixture(scope="module")
def cora():
    return NodeData.of(load("cora"))


def accuracy(data, init, *, epochs, **shape):
    model, _ = build_initialized_model("gcn", data, init=init, **shape)
    decay = 5e-3 if shape["layers"] == 2 else 5e-4
    result = train(model, data, Settings(epochs=epochs, weight_decay=decay, eval_every=5))
    return result.accuracy["test"]


@pytest.mark.slow
def test_gcn_with_15_layers_trains_from_gpca_weights_but_hardly_from_xavier_weights(cora):
    shape = {"layers": 15, "hidden": 64, "dropout": 0.0}
    gpca, xavier = (accuracy(cora, init, epochs=80, **shape) for init in ("gpca", "xavier"))
    assert gpca > 0.7
    assert gpca > xavier + 0.2


def test_gcn_with_two_layers_reaches_the_published_accuracy(cora):
    shape = {"layers": 2, "hidden": 64, "dropout": 0.5}
    assert accuracy(cora, "gpca", epochs=150, **shape) > 0.81 - 0.012
