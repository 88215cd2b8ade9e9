"""Heads in numpy equal those of torch and scikit-learn."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import normalize

from gpcanet.datasets import block_model
from gpcanet.utils.training_result import TrainingResult
from reproduction.cells import Setup
from reproduction.heads import Adam, NumpyDraws, fit_head, loss_and_gradients
from reproduction.torch_draws import TorchDraws

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


def torch_loss_and_gradients(weights, x, truth, masks):
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
def test_loss_and_gradients_equal_autograd(head, dropout, dtype, tolerance):
    rng = generator(1)
    weights = [weight.astype(dtype) for weight in NumpyDraws(1).weights(WIDTHS[head])]
    x = rng.standard_normal((25, 6)).astype(dtype)
    truth = np.eye(4, dtype=dtype)[rng.integers(0, 4, 25)]
    loss, gradients = loss_and_gradients(weights, x, truth, NumpyDraws(2, dropout))
    again, masks = NumpyDraws(2, dropout), None
    if dropout:
        masks = [again.dropout_mask((25, 6)).astype(dtype) for _ in WIDTHS[head][1:]]
    expected, slopes = torch_loss_and_gradients(weights, x, truth, masks)
    assert loss == pytest.approx(expected, rel=tolerance)
    assert len(gradients) == len(slopes)
    for found, slope in zip(gradients, slopes, strict=True):
        np.testing.assert_allclose(found, slope, rtol=tolerance, atol=tolerance / 10)


def test_loss_is_finite_for_probability_zero():
    weights = [np.array([[200.0, -200.0]], np.float32), np.zeros(2, np.float32)]
    x, truth = np.ones((1, 1), np.float32), np.array([[0, 1]], np.float32)
    loss, gradients = loss_and_gradients(weights, x, truth, NumpyDraws(0))
    assert 80 < loss < 410
    np.testing.assert_allclose(gradients[0], [[1, -1]])


@pytest.mark.parametrize("weight_decay", [0, 0.05])
def test_adam_equals_torch(weight_decay):
    rng = generator(3)
    weights = NumpyDraws(3).weights([6, 6, 4])
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


def test_initial_weights_have_the_range_of_torch():
    first, bias, second, last = NumpyDraws(0).weights([100, 400, 7])
    assert [w.shape for w in (first, bias, second, last)] == [(100, 400), (400,), (400, 7), (7,)]
    theirs = torch.nn.Linear(100, 400)
    for ours, parameter in ((first, theirs.weight), (bias, theirs.bias)):
        assert ours.dtype == np.float32
        assert 0.09 < np.abs(ours).max() <= 0.1
        assert ours.std() == pytest.approx(float(parameter.detach().std()), rel=0.1)
    assert np.abs(second).max() <= 0.05


@pytest.mark.parametrize("p", [0.1, 0.5, 0.75])
def test_dropout_has_the_right_rate_and_scale(p):
    mask = NumpyDraws(0, p).dropout_mask((500, 400))
    assert mask.dtype == np.float32
    assert abs(np.mean(mask == 0) - p) < 4 * (p * (1 - p) / mask.size) ** 0.5
    assert np.unique(mask) == pytest.approx([0, 1 / (1 - p)])


# -- torch's random numbers, in the order of the authors' program ---------------------------------


class TheirNet(torch.nn.Module):
    """Draws as the authors' network does: for a GPCA layer, a head, and dropout of all nodes."""

    def __init__(self, n_features, widths, dropout):
        super().__init__()
        self.overwritten = torch.nn.init.xavier_uniform_(torch.empty(n_features, widths[0]))
        self.layers = torch.nn.ModuleList(torch.nn.Linear(*pair) for pair in pairwise(widths))
        self.dropout = torch.nn.Dropout(dropout)

    def forward(self, Z):
        for i, layer in enumerate(self.layers):
            Z = layer(self.dropout(Z.relu() if i else Z))
        return Z


@pytest.mark.parametrize("dropout", [0, 0.5])
@pytest.mark.parametrize("head", WIDTHS)
def test_training_with_torch_draws_equals_the_authors_program(data, head, dropout):
    """Their eigenvectors come in the other order, and so do the columns of Z."""
    Z = np.random.default_rng(0).standard_normal((300, 6)).astype(np.float32)
    how = setup(head, draws="torch", dropout=dropout, epochs=20, weight_decay=5e-3)
    torch.manual_seed(105)
    net = TheirNet(data.X.shape[1], WIDTHS[head], dropout)
    adam = torch.optim.Adam(net.parameters(), lr=0.1, weight_decay=5e-3)
    all_rows, y = torch.from_numpy(Z[:, ::-1].copy()), torch.from_numpy(data.y).long()
    losses = []
    for _ in range(20):
        loss = torch.nn.functional.cross_entropy(net(all_rows)[data.train], y[data.train])
        adam.zero_grad()
        loss.backward()
        adam.step()
        losses.append(loss.item())
    for _ in range(2):  # drawn, then from memory
        curve = fit_head(Z, data, how, seed=105).curve
        np.testing.assert_allclose([evaluation["loss"] for evaluation in curve], losses, rtol=2e-3)
    other = fit_head(Z, data, how, seed=106).curve
    assert abs(other[0]["loss"] - losses[0]) > 1e-3


def test_torch_draws_are_cached_by_seed_rows_and_widths():
    def first(seed=1, width=8, rows=(3, 5), p=0.5):
        draws = TorchDraws(seed, p, n_features=4, n_nodes=9, rows=np.array(rows))
        draws.weights([width, 2])
        return [draws.dropout_mask((2, width)) for _ in range(2)]

    one, two = first()
    assert one.shape == (2, 8)
    assert set(np.unique([one, two])) == {0, 2}
    assert not np.array_equal(one, two)
    np.testing.assert_array_equal(first(), [one, two])
    assert not np.array_equal(first(seed=2), [one, two])
    np.testing.assert_array_equal(first(rows=(5, 3)), [one[::-1], two[::-1]])
    assert first(width=6)[0].shape == (2, 6)
    assert set(np.unique(first(p=0.75))) <= {0, 4}


# -- training ------------------------------------------------------------------------------------


def test_training_equals_torch(data):
    Z = data.X
    result = fit_head(Z, data, setup("two-layer", weight_decay=5e-3), seed=7)
    weights = NumpyDraws(7).weights([6, 6, 4])
    first, second = torch.nn.Linear(6, 6), torch.nn.Linear(6, 4)
    net = torch.nn.Sequential(first, torch.nn.ReLU(), second)
    with torch.no_grad():
        for layer, weight, bias in ((first, *weights[:2]), (second, *weights[2:])):
            layer.weight.copy_(torch.from_numpy(weight.T))
            layer.bias.copy_(torch.from_numpy(bias))
    adam = torch.optim.Adam(net.parameters(), lr=0.1, weight_decay=5e-3)
    x, y = torch.from_numpy(Z), torch.from_numpy(data.y)
    for evaluation in result.curve:
        loss = torch.nn.functional.cross_entropy(net(x[data.train]), y[data.train])
        adam.zero_grad()
        loss.backward()
        adam.step()
        assert evaluation["loss"] == pytest.approx(loss.item(), rel=1e-3)
        predicted = net(x).argmax(1)
        assert "validation" in evaluation  # the others are wanted of the best alone
        for part in evaluation.keys() - {"epoch", "loss"}:
            rows = getattr(data, part)
            share = float((predicted[rows] == y[rows]).double().mean())
            assert evaluation[part] == pytest.approx(share, abs=0.01)


@pytest.mark.parametrize("head", WIDTHS)
@pytest.mark.parametrize("dropout", [0, 0.5])
def test_heads_learn_and_the_best_epoch_is_selected_by_validation(data, head, dropout):
    result = fit_head(data.X, data, setup(head, dropout=dropout), seed=0)
    assert isinstance(result, TrainingResult)
    assert result.seconds > 0
    assert result.accuracy["test"] > 0.6
    assert [evaluation["epoch"] for evaluation in result.curve] == list(range(1, 31))
    best = max(evaluation["validation"] for evaluation in result.curve)
    first = next(evaluation for evaluation in result.curve if evaluation["validation"] == best)
    assert result.best_epoch == first["epoch"]
    assert result.accuracy == {part: first[part] for part in ("train", "validation", "test")}


def test_result_depends_on_the_seed(data):
    curves = [fit_head(data.X, data, setup(dropout=0.5), seed).curve for seed in (0, 0, 1)]
    assert curves[0] == curves[1] != curves[2]


def test_only_training_nodes_are_used(data):
    """Labels and rows of the others may be anything."""
    Z, y = data.X.copy(), data.y.copy()
    others = np.setdiff1d(np.arange(len(y)), data.train)
    Z[others], y[others] = 1e3, 0
    pairs = (data.X, data), (Z, replace(data, y=y))
    losses = [
        [evaluation["loss"] for evaluation in fit_head(rows, nodes, setup(dropout=0.5), 0).curve]
        for rows, nodes in pairs
    ]
    assert losses[0] == losses[1]


def test_two_dropouts_equal_one_with_a_larger_rate(data):
    once = fit_head(data.X, data, setup(dropout=0.75, dropouts=1), 0)
    twice = fit_head(data.X, data, setup(dropout=0.5, dropouts=2), 0)
    assert once.curve == twice.curve
    draws = NumpyDraws(0, 0.5)
    both = draws.dropout_mask((500, 400)) * draws.dropout_mask((500, 400))
    assert np.mean(both == 0) == pytest.approx(0.75, abs=0.005)
    assert set(np.unique(both)) == {0, 4}


@pytest.mark.parametrize(("options", "epochs"), [({}, (5, 10)), ({"eval_at": 1}, (1, 6, 11))])
def test_epochs_of_evaluation(data, options, epochs):
    result = fit_head(data.X, data, setup(epochs=12, eval_every=5, **options), 0)
    assert tuple(evaluation["epoch"] for evaluation in result.curve) == epochs
    every = fit_head(data.X, data, setup(epochs=12), 0)
    assert result.curve == [every.curve[epoch - 1] for epoch in epochs]


def test_first_or_last_of_equal_epochs_is_kept(data):
    Z = np.eye(4, dtype=np.float32)[data.y]  # nothing could be easier
    first, last = (fit_head(Z, data, setup(later_of_ties=later), seed=0) for later in (False, True))
    assert first.curve == last.curve
    assert first.accuracy == last.accuracy == {"train": 1, "validation": 1, "test": 1}
    assert first.best_epoch < last.best_epoch == 30


@pytest.mark.parametrize("unit_rows", [False, True])
@pytest.mark.parametrize("C", [0.1, 10])
def test_logistic_head_equals_scikit_learn(data, C, unit_rows):
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


def test_class_without_training_nodes_does_not_shift_others(data):
    few = replace(data, train=data.train[data.y[data.train] != 1])
    result = fit_head(data.X, few, setup("logistic", C=10, unit_rows=False), seed=0)
    theirs = LogisticRegression(C=10).fit(data.X[few.train], data.y[few.train])
    assert result.accuracy["test"] == pytest.approx(
        theirs.score(data.X[few.test], data.y[few.test]), abs=0.05
    )
