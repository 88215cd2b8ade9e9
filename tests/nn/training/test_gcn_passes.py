"""Passes of plain GCNs against torch's autograd on dense matrices, and trainings by both."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from properties import examples
from torch_geometric.nn.dense.linear import Linear
from truth import dense_P, random_graph

from gpcanet.datasets import block_model
from gpcanet.nn import GCN, GCNConv, GraphPropagation, NodeData, Settings, train, train_many
from gpcanet.nn.dropout import Dropout
from gpcanet.nn.training import gcn_passes
from gpcanet.nn.training.gcn_passes import TILE_ROWS, GCNPasses, is_plain_gcn

N_CLASSES = 3


class LayerByLayer(GCN):
    """A GCN that is not trained by ``GCNPasses``, because a subclass may change anything."""


def make_data(graph, X, n_train, n_validation, seed=0):
    """Random labels and a random split; the remaining nodes are in no part of it."""
    rng = np.random.default_rng(seed)
    order = torch.from_numpy(rng.permutation(graph.n_nodes))
    y = torch.from_numpy(rng.integers(0, N_CLASSES, graph.n_nodes))
    parts = order[:n_train], order[n_train : n_train + n_validation]
    return NodeData(X, graph, y, *parts, order[-2:])


def dense_output(model, x, P):
    """The GCN by dense matrices, differentiable by torch."""
    for conv in model.convs:
        x = P @ (x @ conv.lin.weight.T)
        x = x if conv.bias is None else x + conv.bias
        if conv is not model.convs[-1]:
            x = model.dropout(torch.relu(x))
    return x


@examples(30)
@given(
    n=st.integers(8, 90),
    parts=st.integers(1, 3),
    weighted=st.booleans(),
    n_train=st.integers(1, 4),
    layers=st.integers(1, 5),
    hidden=st.integers(1, 20),
    p=st.sampled_from([0.0, 0.2, 0.5]),
    normalization=st.sampled_from(["sym", "rw"]),
    bias=st.booleans(),
    density=st.sampled_from([0.1, 1.0]),
    is_sparse=st.booleans(),
    seed=st.integers(0, 99),
)
def test_output_and_gradients_equal_autograd_on_dense_matrices(
    n, parts, weighted, n_train, layers, hidden, p, normalization, bias, density, is_sparse, seed
):
    graph = random_graph(n, weighted=weighted, parts=parts, seed=seed)
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 7)) * (rng.random((n, 7)) < density)
    x = torch.from_numpy(X)
    data = make_data(graph, x.to_sparse_csr() if is_sparse else x, n_train, 2, seed)
    torch.manual_seed(seed)
    model = GCN(
        7, hidden, layers, N_CLASSES, dropout=p, bias=bias, normalization=normalization
    ).double()
    assert is_plain_gcn(model, data)
    passes = GCNPasses(model, data, GraphPropagation(graph, normalization=normalization))
    dense = torch.from_numpy(dense_P(graph, normalization))
    split = torch.cat([data.train, data.validation, data.test])
    # The second round uses the buffers again.
    for mode in (True, False, True):
        model.train(mode)
        passes.training = mode
        torch.manual_seed(seed)
        expected = dense_output(model, x, dense)
        torch.manual_seed(seed)
        found = passes.run()
        torch.testing.assert_close(found[split], expected[split])
        assert found.requires_grad == (mode or p == 0)
        if not found.requires_grad:
            passes.forget()
            continue
        gradients = [
            torch.autograd.grad(
                torch.nn.functional.cross_entropy(output[data.train], data.y[data.train]),
                list(model.parameters()),
            )
            for output in (found, expected)
        ]
        torch.testing.assert_close(*gradients)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(1.1)
        passes.forget()


@pytest.mark.parametrize("is_sparse", [False, True])
def test_several_tiles_and_threads_give_the_gradients_of_the_layers(is_sparse):
    n = 2 * TILE_ROWS + 100
    dataset = block_model(n, 3 * n, n_features=10, n_classes=N_CLASSES, seed=2)
    X = np.where(np.asarray(dataset.X) > 1, dataset.X, 0) if is_sparse else dataset.X
    data = NodeData.of(dataset)
    data = make_data(data.graph, torch.from_numpy(np.asarray(X)), 50, 10)
    P, model = GraphPropagation(data.graph), GCN(10, 12, 4, N_CLASSES)
    found = []
    for n_threads in (1, 2):
        passes = GCNPasses(model, data, P)
        passes.n_threads = n_threads
        found.append(
            (passes.run(), torch.autograd.grad(loss_of(passes.run(), data), passes.parameters()))
        )
    torch.testing.assert_close(found[0], found[1], rtol=0, atol=0)
    expected = model(data.x, P)
    split = torch.cat([data.train, data.validation, data.test])
    torch.testing.assert_close(found[0][0][split], expected[split])
    gradients = torch.autograd.grad(loss_of(expected, data), passes.parameters())
    torch.testing.assert_close(found[0][1], gradients, rtol=1e-4, atol=1e-6)


def loss_of(output, data):
    return torch.nn.functional.cross_entropy(output[data.train], data.y[data.train])


def test_threads_of_torch_are_restored():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        data = block_model(100, 300, n_features=8, n_classes=N_CLASSES)
        train(GCN(8, 8, 3, N_CLASSES), data, Settings(epochs=2))
        assert torch.get_num_threads() == 2
        train_many([GCN(8, 8, 3, N_CLASSES) for _ in range(2)], data, Settings(epochs=2))
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_random_numbers_are_those_of_dropout():
    """The global ones of torch, or those of a generator with the same seed."""
    data = make_data(random_graph(60), torch.rand(60, 5), 60 - 4, 2)
    model = GCN(5, 16, 3, N_CLASSES, dropout=0.5)
    P = GraphPropagation(data.graph)
    torch.manual_seed(4)
    expected = model(data.x, P)
    for generator in (None, torch.Generator().manual_seed(4)):
        torch.manual_seed(4)
        torch.testing.assert_close(GCNPasses(model, data, P, generator).run(), expected)


def test_evaluation_without_dropout_is_the_forward_pass_of_the_next_epoch(monkeypatch):
    data = block_model(100, 300, n_features=8, n_classes=N_CLASSES)
    calls = []
    forward = GCNPasses.forward
    monkeypatch.setattr(GCNPasses, "forward", lambda self: calls.append(1) or forward(self))
    for p, per_epoch in ((0.0, 1), (0.5, 2)):
        calls.clear()
        train(GCN(8, 8, 3, N_CLASSES, dropout=p), data, Settings(epochs=7))
        assert len(calls) == 1 + 7 * per_epoch


@pytest.mark.parametrize("p", [0.0, 0.5])
@pytest.mark.parametrize("is_sparse", [False, True])
def test_training_equals_that_of_the_layers(p, is_sparse):
    data = block_model(300, 900, n_features=20, n_classes=4, homophily=0.9, seed=1)
    X = np.where(np.asarray(data.X) > 1.5, data.X, 0)
    x = torch.from_numpy(X)
    nodes = NodeData.of(data)
    split = nodes.train[:10], nodes.validation[:20], nodes.test[:30]
    nodes = NodeData(x.to_sparse_csr() if is_sparse else x, nodes.graph, nodes.y, *split)
    results, models = [], []
    for kind in (GCN, LayerByLayer):
        torch.manual_seed(0)
        models.append(kind(20, 24, 5, 4, dropout=p))
        assert is_plain_gcn(models[-1], nodes) == (kind is GCN)
        results.append(train(models[-1], nodes, Settings(epochs=20, lr=0.01, seed=3)))
    losses = [[entry["loss"] for entry in result.curve[1:]] for result in results]
    # Rounding in float32 grows over the epochs.
    np.testing.assert_allclose(*losses, rtol=1e-3, atol=1e-4)
    assert results[0].curve[0] == results[1].curve[0]
    assert abs(results[0].accuracy["test"] - results[1].accuracy["test"]) <= 0.1


def with_hook(model):
    model.convs[1].register_forward_hook(lambda *_: None)
    return model


@pytest.mark.parametrize(
    "make",
    [
        lambda: LayerByLayer(8, 8, 3, N_CLASSES),
        lambda: GCN(8, 8, 3, N_CLASSES, act="elu"),
        lambda: GCN(8, 8, 3, N_CLASSES, norm="batch_norm"),
        lambda: GCN(8, 8, 3, N_CLASSES, jk="cat"),
        lambda: GCN(8, 8, 3, N_CLASSES, dropout=1.0),
        lambda: GCN(9, 8, 3, N_CLASSES),
        lambda: GCN(-1, 8, 3, N_CLASSES),
        lambda: GCN(8, 8, 3, N_CLASSES).double(),
        lambda: with_hook(GCN(8, 8, 3, N_CLASSES)),
        lambda: torch.nn.Linear(8, N_CLASSES),
    ],
)
def test_other_models_are_left_to_torch(make):
    nodes = NodeData.of(block_model(30, 60, n_features=8, n_classes=N_CLASSES))
    assert is_plain_gcn(GCN(8, 8, 3, N_CLASSES, dropout=0.5), nodes)
    assert not is_plain_gcn(make(), nodes)


def test_replaced_dropout_is_left_to_torch():
    nodes = NodeData.of(block_model(30, 60, n_features=8, n_classes=N_CLASSES))
    model = GCN(8, 8, 3, N_CLASSES)
    model.dropout = torch.nn.Dropout(0.5)
    assert not is_plain_gcn(model, nodes)
    model.dropout = Dropout(0.5)
    assert is_plain_gcn(model, nodes)


def test_frozen_layers_keep_their_weights():
    data = block_model(100, 300, n_features=8, n_classes=N_CLASSES)
    model = GCN(8, 8, 3, N_CLASSES)
    model.convs[0].requires_grad_(False)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    train(model, data, Settings(epochs=3, later_of_ties=True))
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name]) == name.startswith("convs.0"), name


def test_products_without_the_operator_of_onednn_are_those_of_numpy(monkeypatch):
    rng = np.random.default_rng(0)
    x, W = rng.normal(size=(50, 8)).astype(np.float32), rng.normal(size=(6, 8)).astype(np.float32)
    fast = gcn_passes.linear(x, W)
    monkeypatch.setattr(gcn_passes, "_scripted_linear", lambda: None)
    np.testing.assert_allclose(gcn_passes.linear(x, W), fast, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(fast, x @ W.T, rtol=1e-5, atol=1e-5)


def test_models_that_are_changed_are_called_by_torch():
    data = NodeData.of(block_model(60, 240, n_features=6, n_classes=N_CLASSES, seed=0))
    model = GCN(6, 8, 2, N_CLASSES)
    assert is_plain_gcn(model, data)
    model.forward = lambda *args: GCN.forward(model, *args)
    assert not is_plain_gcn(model, data)
    model = GCN(6, 8, 2, N_CLASSES)
    model.convs[0].lin = Linear(6, 8, bias=True)
    assert not is_plain_gcn(model, data)
    model = GCN(6, 8, 2, N_CLASSES)
    model.convs[0] = GCNConv(6, 8, normalization="rw")
    assert not is_plain_gcn(model, data)
