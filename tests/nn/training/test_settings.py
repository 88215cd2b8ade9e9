"""Settings of a training."""

import pytest

from gpcanet.nn import Settings


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"epochs": 0}, "epochs=0 must be at least 1"),
        ({"lr": -1.0}, "lr=-1.0 must be finite and at least 0"),
        ({"parts_per_batch": 2}, "parts_per_batch=2 must be at most parts=1"),
        ({"patience": 0}, "patience=0 must be at least 1"),
        ({"seed": -1}, "seed=-1 must be in"),
        ({"device": "gpu"}, "device='gpu' cannot be used here"),
    ],
)
def test_bad_settings(settings, message):
    with pytest.raises(ValueError, match=message):
        Settings(**settings)
