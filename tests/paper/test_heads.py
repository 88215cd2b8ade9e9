"""Heads written out in numpy are what torch and scikit-learn make of the same numbers."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import normalize

from gpcanet.datasets import block_model
from gpcanet.outcome import Training
from gpcanet.paper.cells import Setup
from gpcanet.paper.heads import Adam, fit_head, initial_weights, kept, loss_and_gradients

WIDTHS = {"linear": [6, 4], "two-layer": [6, 6, 4]}


@pytest.fixture(scope="module")
def data():
    return block_model(300, 900, n_features=6, n_classes=4, feature_noise=1.0, seed=0)


def generator(seed=0):
    return np.random.Generator(np.random.SFC64(seed))


def setup(head="linear", **options):
    how = {
        "lr": 0.1, "weight_decay": 5e-4, "dropout": 0, "dropouts": 1, "epochs": 30,
        "eval_every": 1, "later_of_ties": False,
    }  # fmt: skip
    return Setup.of("gpca", "blocks", head=head, **{**how, **options})


def by_torch(weights, x, truth, masks):
    """Loss and gradients of the same layers, by autograd."""
    parameters = [torch.from_numpy(weight.copy()).requires_grad_() for weight in weights]
    out = torch.from_numpy(x)
    for layer in range(0, len(weights), 2):
        if masks is not None:
            out = out * torch.from_numpy(masks[layer // 2])
        out = out @ parameters[layer] + parameters[layer + 1]
        if layer + 2 < len(weights):
            out = out.relu()
    loss = torch.nn.functional.cross_entropy(out, torch.from_numpy(truth.argmax(1)))
    loss.backward()
    return loss.item(), [parameter.grad.numpy() for parameter in parameters]


# -- gradients and steps -------------------------------------------------------------------------


@pytest.mark.parametrize("dropout", [0, 0.3, 0.5])
@pytest.mark.parametrize("head", WIDTHS)
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-11), (np.float32, 2e-5)])
def test_loss_and_gradients_are_those_of_autograd(head, dropout, dtype, tolerance):
    rng = generator(1)
    weights = [weight.astype(dtype) for weight in initial_weights(WIDTHS[head], rng)]
    x = rng.standard_normal((25, 6)).astype(dtype)
    truth = np.eye(4, dtype=dtype)[rng.integers(0, 4, 25)]
    loss, gradients = loss_and_gradients(weights, x, truth, dropout, generator(2))
    again, masks = generator(2), None
    if dropout:
        masks = [kept((25, 6), dropout, again).astype(dtype) for _ in WIDTHS[head][1:]]
    expected, slopes = by_torch(weights, x, truth, masks)
    assert loss == pytest.approx(expected, rel=tolerance)
    assert len(gradients) == len(slopes)
    for found, slope in zip(gradients, slopes, strict=True):
        np.testing.assert_allclose(found, slope, rtol=tolerance, atol=tolerance / 10)


def test_a_hopeless_answer_has_a_finite_loss():
    weights = [np.array([[200.0, -200.0]], np.float32), np.zeros(2, np.float32)]
    x, truth = np.ones((1, 1), np.float32), np.array([[0, 1]], np.float32)
    loss, gradients = loss_and_gradients(weights, x, truth, 0, generator())
    assert 80 < loss < 410
    np.testing.assert_allclose(gradients[0], [[1, -1]])


@pytest.mark.parametrize("weight_decay", [0, 0.05])
def test_adam_is_torchs(weight_decay):
    rng = generator(3)
    weights = initial_weights([6, 6, 4], rng)
    parameters = [torch.nn.Parameter(torch.from_numpy(weight.copy())) for weight in weights]
    ours = Adam(weights, 0.1, weight_decay)
    theirs = torch.optim.Adam(parameters, lr=0.1, weight_decay=weight_decay)
    for _ in range(50):
        gradients = [rng.standard_normal(weight.shape, np.float32) for weight in weights]
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.grad = torch.from_numpy(gradient.copy())
        ours.step_(gradients)
        theirs.step()
        for weight, parameter in zip(weights, parameters, strict=True):
            np.testing.assert_allclose(weight, parameter.detach().numpy(), rtol=1e-4, atol=1e-5)


def test_weights_begin_as_those_of_torchs_linear_layers():
    first, bias, second, last = initial_weights([100, 400, 7], generator())
    assert [w.shape for w in (first, bias, second, last)] == [(100, 400), (400,), (400, 7), (7,)]
    theirs = torch.nn.Linear(100, 400)
    for ours, parameter in ((first, theirs.weight), (bias, theirs.bias)):
        assert ours.dtype == np.float32
        assert 0.09 < np.abs(ours).max() <= 0.1
        assert ours.std() == pytest.approx(float(parameter.detach().std()), rel=0.1)
    assert np.abs(second).max() <= 0.05


@pytest.mark.parametrize("p", [0.1, 0.5, 0.75])
def test_dropout_keeps_the_right_share_at_the_right_scale(p):
    mask = kept((500, 400), p, generator())
    assert mask.dtype == np.float32
    assert abs(np.mean(mask == 0) - p) < 4 * (p * (1 - p) / mask.size) ** 0.5
    assert np.unique(mask) == pytest.approx([0, 1 / (1 - p)])


# -- training ------------------------------------------------------------------------------------


def test_a_training_is_that_of_torch(data):
    Z = data.X
    result = fit_head(Z, data, setup("two-layer", weight_decay=5e-3), seed=7)
    weights = initial_weights([6, 6, 4], generator(7))
    first, second = torch.nn.Linear(6, 6), torch.nn.Linear(6, 4)
    net = torch.nn.Sequential(first, torch.nn.ReLU(), second)
    with torch.no_grad():
        for layer, weight, bias in ((first, *weights[:2]), (second, *weights[2:])):
            layer.weight.copy_(torch.from_numpy(weight.T))
            layer.bias.copy_(torch.from_numpy(bias))
    adam = torch.optim.Adam(net.parameters(), lr=0.1, weight_decay=5e-3)
    x, y = torch.from_numpy(Z), torch.from_numpy(data.y)
    for look in result.curve:
        loss = torch.nn.functional.cross_entropy(net(x[data.train]), y[data.train])
        adam.zero_grad()
        loss.backward()
        adam.step()
        assert look["loss"] == pytest.approx(loss.item(), rel=1e-3)
        predicted = net(x).argmax(1)
        assert "validation" in look  # the others are wanted of the best alone
        for part in look.keys() - {"epoch", "loss"}:
            rows = getattr(data, part)
            share = float((predicted[rows] == y[rows]).double().mean())
            assert look[part] == pytest.approx(share, abs=0.01)


@pytest.mark.parametrize("head", WIDTHS)
@pytest.mark.parametrize("dropout", [0, 0.5])
def test_heads_learn_and_the_best_epoch_is_that_of_the_validation(data, head, dropout):
    result = fit_head(data.X, data, setup(head, dropout=dropout), seed=0)
    assert isinstance(result, Training)
    assert result.seconds > 0
    assert result.accuracy["test"] > 0.6
    assert [look["epoch"] for look in result.curve] == list(range(1, 31))
    best = max(look["validation"] for look in result.curve)
    first = next(look for look in result.curve if look["validation"] == best)
    assert result.best_epoch == first["epoch"]
    assert result.accuracy == {part: first[part] for part in ("train", "validation", "test")}


def test_the_seed_decides(data):
    curves = [fit_head(data.X, data, setup(dropout=0.5), seed).curve for seed in (0, 0, 1)]
    assert curves[0] == curves[1] != curves[2]


def test_only_train_nodes_are_learned_from(data):
    """Labels and rows of the others may be anything."""
    Z, y = data.X.copy(), data.y.copy()
    others = np.setdiff1d(np.arange(len(y)), data.train)
    Z[others], y[others] = 1e3, 0
    pairs = (data.X, data), (Z, replace(data, y=y))
    losses = [
        [look["loss"] for look in fit_head(rows, nodes, setup(dropout=0.5), 0).curve]
        for rows, nodes in pairs
    ]
    assert losses[0] == losses[1]


def test_dropout_twice_is_one_dropout_of_more(data):
    once = fit_head(data.X, data, setup(dropout=0.75, dropouts=1), 0)
    twice = fit_head(data.X, data, setup(dropout=0.5, dropouts=2), 0)
    assert once.curve == twice.curve
    rng = generator()
    both = kept((500, 400), 0.5, rng) * kept((500, 400), 0.5, rng)
    assert np.mean(both == 0) == pytest.approx(0.75, abs=0.005)
    assert set(np.unique(both)) == {0, 4}


def test_the_last_epoch_is_always_looked_at(data):
    result = fit_head(data.X, data, setup(epochs=12, eval_every=5), 0)
    assert [look["epoch"] for look in result.curve] == [5, 10, 12]
    assert result.epochs == 12
    every = fit_head(data.X, data, setup(epochs=12), 0)
    assert result.curve == [every.curve[epoch - 1] for epoch in (5, 10, 12)]


def test_of_ties_the_first_or_the_last_is_kept(data):
    Z = np.eye(4, dtype=np.float32)[data.y]  # nothing could be easier
    first, last = (fit_head(Z, data, setup(later_of_ties=later), seed=0) for later in (False, True))
    assert first.curve == last.curve
    assert first.accuracy == last.accuracy == {"train": 1, "validation": 1, "test": 1}
    assert first.best_epoch < last.best_epoch == 30


@pytest.mark.parametrize("unit_rows", [False, True])
@pytest.mark.parametrize("C", [0.1, 10])
def test_a_logistic_head_is_scikit_learns(data, C, unit_rows):
    Z = 37 * data.X.astype(np.float64)
    result = fit_head(Z, data, setup("logistic", C=C, unit_rows=unit_rows), seed=0)
    scale = np.sqrt((Z[data.train] ** 2).sum(1).mean())
    rows = normalize(Z) if unit_rows else Z / scale
    theirs = LogisticRegression(C=C, max_iter=1000).fit(rows[data.train], data.y[data.train])
    for part in ("train", "validation", "test"):
        nodes = getattr(data, part)
        assert result.accuracy[part] == theirs.score(rows[nodes], data.y[nodes])
    assert (result.best_epoch, result.epochs, result.curve) == (0, 0, [])
    assert fit_head(Z, data, setup("logistic", C=C, unit_rows=unit_rows), 1).accuracy == (
        result.accuracy
    )


def test_a_class_nobody_trains_on_does_not_shift_the_others(data):
    few = replace(data, train=data.train[data.y[data.train] != 1])
    result = fit_head(data.X, few, setup("logistic", C=10, unit_rows=False), seed=0)
    theirs = LogisticRegression(C=10).fit(data.X[few.train], data.y[few.train])
    assert result.accuracy["test"] == pytest.approx(
        theirs.score(data.X[few.test], data.y[few.test]), abs=0.05
    )
