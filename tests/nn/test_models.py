"""GPCANet: pre-training equals GPCA, layer by layer."""

import numpy as np
import pytest
import torch
import torch_geometric.nn as pyg

from gpcanet import GPCA
from gpcanet.nn import GPCANet


@pytest.mark.parametrize("normalization", ["sym", "rw"])
@pytest.mark.parametrize(("beta", "ghost"), [(0.0, "balanced"), (0.2, "balanced"), (0.2, "paper")])
def test_first_layer_equals_gpca(blocks, x, edge_index, visible, normalization, beta, ghost):
    model = GPCANet(
        10, 4, 1, 3, act=None, alpha=5.0, beta=beta, normalization=normalization, ghost=ghost
    ).double()
    model.pretrain_(x, edge_index, visible)
    gpca = GPCA(
        4, alpha=5.0, beta=beta, normalization=normalization, ghost=ghost,
        solver="fixed-point", n_iter=5,
    )  # fmt: skip
    Z = gpca.fit_transform(x.numpy(), visible.numpy(), graph=blocks.graph)
    weight = model.convs[0].weight.detach().numpy()
    np.testing.assert_allclose(weight, gpca.components_.T, atol=1e-6)
    found = model.convs[0](x, edge_index, y=visible).detach().numpy()
    np.testing.assert_allclose(found, Z, atol=1e-6)


@pytest.mark.parametrize("options", [{"n_iter": "taylor"}, {"center": False}])
def test_weights_of_taylor_and_uncentred_layers_are_eigenvectors(x, edge_index, options):
    model = GPCANet(10, 3, 1, 3, act=None, alpha=1.0, **options).double()
    model.pretrain_(x, edge_index)
    H = x - x.mean(0) if options.get("center", True) else x
    identity = GPCANet(10, 10, 1, 3, act=None, alpha=1.0, **options).double().convs[0]
    with torch.no_grad():
        identity.weight.copy_(torch.eye(10))
        M = H.T @ identity(x, edge_index)
    M = (M + M.T) / 2
    V = model.convs[0].weight.detach()
    rayleigh = torch.diag(V.T @ M @ V)
    torch.testing.assert_close(rayleigh, torch.linalg.eigvalsh(M).flip(0)[:3])


@pytest.mark.parametrize("width", [1, 5, 8, 33])
def test_weights_are_pairs_for_any_width(x, edge_index, width):
    model = GPCANet(10, width, 3, 3, alpha=[1.0, 2.0, 3.0]).double()
    report = model.pretrain_(x, edge_index)
    assert [layer.is_set for layer in report] == [True, True, True, False]
    half = (width + 1) // 2
    for conv in model.convs:
        weight = conv.weight.detach()
        torch.testing.assert_close(weight[:, half:], -weight[:, : width - half])
        torch.testing.assert_close(weight.norm(dim=0), torch.ones(width, dtype=torch.float64))
    assert torch.isfinite(model(x, edge_index)).all()


def test_each_layer_equals_gpca_of_previous_output(blocks, x, edge_index):
    model = GPCANet(10, 6, 2, 3, alpha=3.0).double()
    model.pretrain_(x, edge_index)
    H = torch.relu(model.convs[0](x, edge_index)).detach().numpy()
    gpca = GPCA(3, alpha=3.0, solver="fixed-point", n_iter=5).fit(H, graph=blocks.graph)
    weight = model.convs[1].weight.detach().numpy()
    np.testing.assert_allclose(weight[:, :3], gpca.components_.T, atol=1e-6)


@pytest.mark.parametrize("act", [torch.relu, torch.nn.functional.relu, torch.nn.ReLU(), "relu"])
def test_relu_is_recognised_in_any_form(x, edge_index, act):
    model = GPCANet(10, 6, 1, 3, act=act).double()
    model.pretrain_(x, edge_index)
    weight = model.convs[0].weight.detach()
    torch.testing.assert_close(weight[:, 3:], -weight[:, :3])


def test_pretrain_keeps_the_head_and_freeze_disables_gradients(x, edge_index):
    model = GPCANet(10, 6, 2, 3, head_layers=2)
    head = [parameter.clone() for parameter in model.head.parameters()]
    model.pretrain_(x.float(), edge_index)
    for before, after in zip(head, model.head.parameters(), strict=True):
        assert torch.equal(before, after)
    model.freeze()
    model(x.float(), edge_index).sum().backward()
    assert all(parameter.grad is None for parameter in model.convs.parameters())
    assert all(parameter.grad is not None for parameter in model.head.parameters())
    assert len(model.head) == 2


def test_model_has_the_interface_of_pyg_models(x, edge_index):
    arguments = {"in_channels": 10, "hidden_channels": 8, "num_layers": 2, "out_channels": 3}
    ours, theirs = GPCANet(**arguments, dropout=0.5), pyg.GCN(**arguments, dropout=0.5)
    assert ours(x.float(), edge_index).shape == theirs(x.float(), edge_index).shape
    before = ours.convs[0].weight.clone()
    ours.reset_parameters()
    assert not torch.equal(before, ours.convs[0].weight)
    ours.eval()
    assert torch.equal(ours(x.float(), edge_index), ours(x.float(), edge_index))


def test_pretraining_on_sparse_and_dense_features_is_equal(x, edge_index):
    sparse = torch.where(x > 1, x, 0)
    models = [GPCANet(10, 6, 2, 3).double() for _ in range(2)]
    models[0].pretrain_(sparse, edge_index)
    models[1].pretrain_(sparse.to_sparse_csr(), edge_index)
    for mine, other in zip(models[0].convs, models[1].convs, strict=True):
        torch.testing.assert_close(mine.weight, other.weight, atol=1e-6, rtol=0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"alpha": [1.0, 2.0]}, "alpha has 2 values for 3 layers"),
        ({"head_layers": 3}, "head_layers=3 must be 1 or 2"),
        ({"alpha": -2.0}, "alpha=-2.0 must be in"),
    ],
)
def test_bad_settings(arguments, message):
    with pytest.raises(ValueError, match=message):
        GPCANet(10, 4, 3, 2, **arguments)


def test_ghost_edges_require_labels(x, edge_index):
    with pytest.raises(ValueError, match=r"beta=0\.1 adds ghost edges"):
        GPCANet(10, 4, 1, 2, beta=0.1).pretrain_(x.float(), edge_index)
