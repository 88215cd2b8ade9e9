"""Models by name: arguments, and reproducible initial weights."""

import pytest
import torch

from gpcanet.datasets import block_model
from gpcanet.nn import NodeData
from gpcanet.nn.training.registry import INITS, MODEL_NAMES, build_initialized_model, build_model


@pytest.fixture(scope="module")
def data():
    return NodeData.of(block_model(60, 200, n_features=6, n_classes=3, seed=0))


@pytest.mark.parametrize("name", MODEL_NAMES)
def test_models_have_one_output_per_class(data, name):
    model = build_model(name, 6, 3, layers=3, hidden=8, dropout=0.3).eval()
    assert model(data.x, data.edge_index).shape == (60, 3)
    probabilities = [m.p for m in model.modules() if isinstance(m, torch.nn.Dropout)]
    assert all(p in (0.0, 0.3) for p in probabilities)
    assert 0.3 in probabilities or name == "sgc"


@pytest.mark.parametrize("init", INITS)
@pytest.mark.parametrize("name", MODEL_NAMES)
def test_seed_determines_all_weights(data, name, init):
    torch.manual_seed(7)
    state = torch.get_rng_state()
    models = [
        build_initialized_model(name, data, init=init, seed=seed, hidden=8)[0] for seed in (1, 1, 2)
    ]
    assert torch.equal(torch.get_rng_state(), state)
    first, again, other = (list(model.state_dict().values()) for model in models)
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    if name != "sgc" or init != "gpca":  # its only layer does not depend on random numbers
        assert any(not torch.equal(a, b) for a, b in zip(first, other, strict=True))


def test_gpca_also_sets_the_only_layer_of_a_model(data):
    _, report = build_initialized_model("gcn", data, init="gpca", layers=1)
    assert [layer.is_set for layer in report] == [True]


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("transformer", {}, "model='transformer' must be one of 'gcn', 'sage'"),
        ("gcn", {"layers": 0}, "layers=0 must be at least 1"),
        ("gcn", {"hidden": 0}, "hidden=0 must be at least 1"),
        ("gcn", {"dropout": 1.0}, r"dropout=1.0 must be in \[0, 0.99\]"),
        ("gcn", {"alpha": 5.0}, "alpha applies to the model gpcanet only; leave it out for gcn"),
        (
            "sage",
            {"normalization": "rw"},
            "normalization applies to the models gpcanet and gcn only; leave it out for sage",
        ),
    ],
)
def test_wrong_arguments_are_errors(name, arguments, message):
    with pytest.raises(ValueError, match=message):
        build_model(name, 6, 3, **arguments)
