"""The output layer in closed form, against scikit-learn on the layer's input."""

import copy

import numpy as np
import pytest
import torch
import torch_geometric.nn as pyg
from deep_models import WIDTH, Stack
from hypothesis import given
from hypothesis import strategies as st
from properties import examples
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import log_loss

from gpcanet.errors import InputError
from gpcanet.nn import GCN, gpca_init_
from gpcanet.nn.init.head import PENALTIES, OutputHead
from gpcanet.nn.init.linear_part import LinearPart
from gpcanet.nn.init.rules import find_layers
from gpcanet.nn.training.registry import MLP


@pytest.fixture(scope="module")
def y(blocks):
    return torch.from_numpy(np.asarray(blocks.y))


@pytest.fixture(scope="module")
def mask(y):
    chosen = torch.zeros(len(y), dtype=torch.bool)
    chosen[::3] = True
    return chosen


def linear_part(F, n_out):
    """The linear part of a layer without edges, so that its input is F."""
    [layer] = find_layers(torch.nn.Linear(F.shape[1], n_out).double())[0].values()
    return LinearPart(layer, torch.from_numpy(F))


def hidden_features(model, x, edge_index):
    """Input of the last convolution, propagated by hand with PyG."""
    model.eval()
    with torch.no_grad():
        for conv in model.convs[:-1]:
            x = conv(x, edge_index).relu()
        propagate = pyg.GCNConv(x.shape[1], x.shape[1], bias=False).to(x)
        propagate.lin.weight.copy_(torch.eye(x.shape[1]))
        return propagate(x, edge_index)


def test_logistic_head_of_a_convolution_is_the_regression_of_sklearn(x, edge_index, y, mask):
    model = pyg.GCN(10, WIDTH, 3, 3).double()
    report = gpca_init_(model, x, edge_index, head="logistic", y=y, train_mask=mask)
    assert report.n_set == len(report) == 3
    assert "logistic regression" in str(report)
    F = hidden_features(model, x, edge_index).numpy()
    train = mask.numpy()
    scale = np.sqrt(np.mean(F[train] ** 2))
    with torch.no_grad():
        output = model(x, edge_index).numpy()
    candidates = [
        LogisticRegression(C=C, max_iter=1000).fit(F[train] / scale, y[mask])
        for C in PENALTIES["logistic"]
    ]
    differences = [
        np.abs(candidate.decision_function(F / scale) - output).max() for candidate in candidates
    ]
    assert min(differences) < 1e-6
    accuracy = (output.argmax(1) == y.numpy())[~train].mean()
    assert accuracy > 0.6  # a random output layer predicts a third


@pytest.mark.parametrize("jk", [None, "cat", "max"])
@pytest.mark.parametrize("kind", [pyg.GCN, pyg.GraphSAGE, pyg.GAT, pyg.GIN])
def test_head_predicts_the_training_nodes_of_every_model(kind, jk, x, edge_index, y, mask):
    torch.manual_seed(0)
    model = kind(10, 16, 3, 3, jk=jk)
    gpca_init_(model, x.float(), edge_index, head="logistic", y=y, train_mask=mask)
    model.eval()
    with torch.no_grad():
        accuracy = (model(x.float(), edge_index).argmax(1) == y)[mask].double().mean()
    assert accuracy > 0.6


def test_linear_head_after_pooling_is_fitted_on_graphs(x, edge_index):
    class GraphModel(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = pyg.GCNConv(10, 16)
            self.head = torch.nn.Linear(16, 2)

        def forward(self, x, edge_index, batch):
            return self.head(pyg.global_mean_pool(self.conv(x, edge_index).relu(), batch))

    batch = torch.arange(len(x)) // 4
    labels = (x[:, 0].reshape(-1, 4).mean(1) > x[:, 0].mean()).long()
    model = GraphModel().double()
    train = torch.arange(0, len(labels), 2)
    gpca_init_(
        model, x, edge_index, head="logistic", y=labels, train_mask=train,
        forward=lambda model: model(x, edge_index, batch),
    )  # fmt: skip
    model.eval()
    with torch.no_grad():
        predicted = model(x, edge_index, batch).argmax(1)
    assert (predicted == labels)[train].double().mean() > 0.7


def test_ridge_head_for_several_continuous_targets(x, edge_index, mask):
    targets = torch.stack([x[:, 0] + 2, x[:, 1:3].sum(1)], 1)
    model = pyg.GCN(10, WIDTH, 2, 2).double()
    gpca_init_(model, x, edge_index, head="ridge", y=targets, train_mask=mask, val_mask=~mask)
    F = hidden_features(model, x, edge_index).numpy()
    scale = np.sqrt(np.mean(F[mask.numpy()] ** 2))
    fits = [
        Ridge(1 / C).fit(F[mask] / scale, targets[mask]).predict(F / scale)
        for C in PENALTIES["ridge"]
    ]
    errors = [np.mean((fit - targets.numpy())[~mask.numpy()] ** 2) for fit in fits]
    with torch.no_grad():
        output = model(x, edge_index).numpy()
    np.testing.assert_allclose(output, fits[int(np.argmin(errors))], rtol=1e-6, atol=1e-8)


def test_multi_label_head_has_one_regression_per_column(x, edge_index, y, mask):
    labels = torch.stack([y == 0, y != 1, torch.ones(len(y), dtype=torch.bool)], 1)
    model = GCN(10, WIDTH, 2, 3)
    gpca_init_(model, x.float(), edge_index, head="logistic", y=labels, train_mask=mask)
    model.eval()
    with torch.no_grad():
        scores = model(x.float(), edge_index)
    assert ((scores > 0) == labels)[mask].double().mean() > 0.8
    assert bool((scores[:, 2] > 2).all())  # a label that all training nodes have


def test_two_classes_and_ridge_on_classes(x, edge_index, y, mask):
    for head in ("logistic", "ridge"):
        model = GCN(10, WIDTH, 2, 2)
        gpca_init_(model, x.float(), edge_index, head=head, y=(y > 0).long(), train_mask=mask)
        model.eval()
        with torch.no_grad():
            predicted = model(x.float(), edge_index).argmax(1)
        assert (predicted == (y > 0))[mask].double().mean() > 0.8


@given(data=st.data())
@examples(30)
def test_property_penalty_of_ridge_has_the_best_calibrated_likelihood(data):
    """Sklearn's ridge regressions, with a logistic regression on their scores as calibration."""
    k = data.draw(st.integers(2, 4))
    random = np.random.default_rng(data.draw(st.integers(0, 10_000)))
    y = np.arange(80) % k
    F = random.normal(size=(80, 30)) + data.draw(st.floats(0.2, 1)) * np.eye(30)[y]
    train, held_out = np.arange(40), np.arange(40, 80)
    head = OutputHead.of("ridge", y, train, held_out)
    weight, intercept = head.fit(linear_part(F, k), k, has_bias=True)
    scale, losses, differences = np.sqrt(np.mean(F[train] ** 2)), [], []
    for penalty in PENALTIES["ridge"]:
        ridge = Ridge(1 / penalty).fit(F[train] / scale, np.eye(k)[y[train]])
        scores = ridge.predict(F / scale)
        factors = 2.0 ** np.arange(0, 6.1, 0.1)
        losses.append(min(log_loss(y[held_out], softmax(f * scores[held_out], 1)) for f in factors))
        differences.append(np.abs(scores - F @ weight - intercept).max())
    chosen = int(np.argmin(differences))
    assert differences[chosen] < 1e-8
    assert losses[chosen] <= min(losses) + 0.02  # the factors tried have steps of 2


@pytest.mark.parametrize("head", ["logistic", "ridge"])
@pytest.mark.parametrize("width", [5, 7, 9, 10])
def test_narrow_hidden_layer_keeps_all_classes(head, width):
    """Five classes pass a hidden layer that is too narrow for them as pairs of eigenvectors."""
    random = np.random.default_rng(0)
    y = torch.arange(200) % 5
    noise = random.normal(size=(200, 20)) * np.linspace(6, 0.3, 20)  # hides the classes
    x = torch.from_numpy(noise + np.pad(np.eye(5), ((0, 0), (15, 0)))[y] * 5).float()
    layers = torch.nn.Linear(20, width), torch.nn.ReLU(), torch.nn.Linear(width, 5)
    model = torch.nn.Sequential(*layers)
    report = gpca_init_(model, x, head=head, y=y, train_mask=torch.arange(100))
    with torch.no_grad():
        hidden = layers[0](x)
        accuracy = (model(x).argmax(1) == y)[100:].double().mean()
    if width >= 9:  # five pairs of eigenvectors
        assert report["0"].reason == ""
    else:
        assert "too narrow" in report["0"].reason
        assert accuracy > 0.9
        assert hidden[:, :5].square().mean().sqrt() == pytest.approx(0.1, rel=1e-4)
        torch.testing.assert_close(hidden[:, 5:], -hidden[:, : width - 5])


def test_layer_without_bias_and_labels_outside_of_the_mask_are_not_used(x, edge_index, y, mask):
    hidden = torch.where(mask, y, -1)
    wrong = torch.where(mask, y, (y + 1) % 3)
    weights = []
    for labels in (y, hidden, wrong):
        torch.manual_seed(1)
        model = Stack(lambda i, o: pyg.GCNConv(i, o, bias=False))
        model.head = torch.nn.Linear(WIDTH, 3, bias=False)
        gpca_init_(model, x.float(), edge_index, head="logistic", y=labels, train_mask=mask)
        weights.append(model.head.weight.detach().clone())
    assert torch.equal(weights[0], weights[1])
    assert torch.equal(weights[0], weights[2])


@given(data=st.data())
@examples(30)
def test_property_permuting_rows_and_classes_permutes_the_head(data):
    n, d, k = (
        data.draw(st.integers(20, 60)),
        data.draw(st.integers(1, 8)),
        data.draw(st.integers(2, 5)),
    )
    random = np.random.default_rng(data.draw(st.integers(0, 10_000)))
    y = random.permutation(np.arange(n) % k)
    F = random.normal(size=(n, d)) + y[:, None]
    train = np.arange(n) < n - 5
    validation = ~train
    head = OutputHead.of("logistic", y, train, validation)
    first = head.fit(linear_part(F, k), k, has_bias=True)
    rows, classes = random.permutation(n), random.permutation(k)
    head = OutputHead.of("logistic", classes[y][rows], train[rows], validation[rows])
    second = head.fit(linear_part(F[rows], k), k, has_bias=True)
    before, after = (softmax(F @ one.weight + one.intercept, axis=1) for one in (first, second))
    # L-BFGS stops at a gradient of 1e-4; weights of almost no effect may differ more.
    np.testing.assert_allclose(after[:, classes], before, atol=5e-3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "give y"),
        ({"y": torch.zeros(120)}, "give train_mask"),
        ({"y": torch.zeros(120).long(), "train_mask": torch.ones(120).bool()}, "class 1 has no"),
        ({"y": torch.full((120,), -1), "train_mask": torch.ones(120).bool()}, "unlabelled"),
        ({"y": torch.arange(120) % 4, "train_mask": torch.ones(120).bool()}, "has class 3"),
        ({"y": torch.arange(120) % 3, "train_mask": torch.zeros(120).bool()}, "no row"),
        ({"y": torch.arange(120) % 3, "train_mask": torch.ones(7).bool()}, "one bool per row"),
        ({"y": torch.arange(120) % 3, "train_mask": torch.tensor([500])}, "outside"),
        ({"y": torch.arange(60) % 3, "train_mask": torch.arange(60)}, "60 rows"),
        ({"y": torch.rand(120), "train_mask": torch.arange(60)}, "head='ridge'"),
        ({"y": torch.full((120, 3), torch.nan), "head": "ridge", "train_mask": torch.arange(9)},
         "NaN"),
        ({"y": torch.rand(120, 2), "head": "ridge", "train_mask": torch.arange(60)}, "2 columns"),
        ({"y": torch.arange(120) % 3, "train_mask": [0, 1, 2], "val_mask": [2]}, "use it in one"),
        ({"head": "svm", "y": torch.arange(120) % 3, "train_mask": [0]}, "head="),
    ],
)  # fmt: skip
def test_bad_labels_are_refused_and_the_model_is_unchanged(arguments, message, x, edge_index):
    model = GCN(10, WIDTH, 2, 3)
    before = copy.deepcopy(model.state_dict())
    with pytest.raises((InputError, TypeError), match=message):
        gpca_init_(model, x.float(), edge_index, **{"head": "logistic", **arguments})
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name])


def test_model_with_two_output_layers_has_no_single_head(x, edge_index, y, mask):
    class TwoHeads(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = pyg.GCNConv(10, WIDTH)
            self.first, self.second = torch.nn.Linear(WIDTH, 3), torch.nn.Linear(WIDTH, 3)

        def forward(self, x, edge_index):
            x = self.conv(x, edge_index).relu()
            return self.first(x), self.second(x)

    with pytest.raises(InputError, match="output layers first and second"):
        gpca_init_(TwoHeads(), x.float(), edge_index, head="logistic", y=y, train_mask=mask)


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("width", [5, 12])
@pytest.mark.parametrize("kind", [GCN, pyg.GCN, MLP])
def test_sparse_features_give_the_weights_of_dense_ones(kind, width, layers):
    """An output layer or a bottleneck may be the first layer; F has several blocks of columns."""
    random = np.random.default_rng(0)
    y = torch.arange(60) % 4
    codes = np.eye(4, 300)[y] + (random.random((60, 300)) < 0.02)
    x = torch.from_numpy(codes).float()
    ends = torch.arange(60), torch.arange(60).roll(4)
    edge_index = torch.stack([torch.cat(ends), torch.cat(ends[::-1])])
    outputs = []
    for features in (x, x.to_sparse_csr()):
        model = kind(300, width, layers, 4, dropout=0.0)
        train = torch.arange(30)
        gpca_init_(
            model, features, edge_index, head="ridge", y=y, train_mask=train
        ).raise_if_empty()
        with torch.no_grad():
            outputs.append(model.eval()(x, edge_index))
    torch.testing.assert_close(*outputs)
    assert (outputs[0].argmax(1) == y).double().mean() > 0.9


def test_frozen_biases_are_left_alone(x, edge_index, y, mask):
    model = pyg.GCN(10, WIDTH, 2, 3).double()
    for conv in model.convs:
        torch.nn.init.constant_(conv.bias, 0.5).requires_grad_(False)
    gpca_init_(model, x, edge_index, head="ridge", y=y, train_mask=mask)
    assert all(bool((conv.bias == 0.5).all()) for conv in model.convs)


def test_size_of_a_bottleneck_whose_aggregation_is_not_linear(x, edge_index, y, mask):
    model = pyg.GraphSAGE(10, 5, 2, 3, aggr="max").double()
    gpca_init_(model, x, edge_index, head="ridge", y=y, train_mask=mask)
    with torch.no_grad():
        hidden = model.convs[0](x, edge_index)
    assert hidden.square().mean().sqrt() == pytest.approx(0.1, rel=0.2)
