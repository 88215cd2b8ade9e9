"""Small trained networks, and the comparison of two of them."""

from dataclasses import replace

import numpy as np
import torch

from gpcanet.datasets import block_model
from gpcanet.nn import Settings, TrainedNetwork, train

DATA = block_model(60, 240, n_features=6, n_classes=3, homophily=0.9, seed=0)
NAMED = replace(
    DATA,
    class_names=np.array(["red", "green", "blue"]),
    feature_names=np.array([f"feature {i}" for i in range(6)], object),
)


def trained(model, data, epochs=2):
    train(model, data, Settings(epochs=epochs, lr=0.05))
    return TrainedNetwork.of(model, data, {"epochs": epochs}).calibrated(data)


def assert_same(network, again, *datasets):
    """Equal types, settings and weights, and bit-identical probabilities."""
    assert repr(again.model) == repr(network.model)
    before, after = network.model.state_dict(), again.model.state_dict()
    assert list(before) == list(after)
    for name, tensor in before.items():
        assert tensor.dtype == after[name].dtype
        assert torch.equal(tensor, after[name])
    assert not any(tensor.is_meta for tensor in [*again.model.parameters(), *again.model.buffers()])
    assert again.notes == network.notes
    for part in ("classes", "feature_names"):
        one, other = getattr(network, part), getattr(again, part)
        assert (one is None) == (other is None)
        assert one is None or (one.tolist() == other.tolist() and one.dtype == other.dtype)
    for data in datasets:
        expected = network.predict_proba(data)
        found = again.predict_proba(data)
        assert found.dtype == expected.dtype
        assert found.tobytes() == expected.tobytes()
        assert again.predict(data).tolist() == network.predict(data).tolist()
