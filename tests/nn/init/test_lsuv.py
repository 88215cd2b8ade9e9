"""LSUV: unit variance of every output, orthonormal directions."""

import numpy as np
import pytest
import torch
import torch_geometric.nn as pyg
from deep_models import make_model
from hypothesis import given
from hypothesis import strategies as st
from properties import examples
from truth import KINDS, random_features, random_graph

from gpcanet.nn import lsuv_init_
from gpcanet.nn.training.registry import MLP

#: Models by name: called with in_channels, hidden_channels, num_layers, out_channels.
MODELS = {
    "GCN": pyg.GCN,
    "GraphSAGE": pyg.GraphSAGE,
    "GAT": pyg.GAT,
    "GAT, heads": lambda *widths: pyg.GAT(*widths, heads=2),
    "GATv2": lambda *widths: pyg.GAT(*widths, v2=True),
    "GIN": pyg.GIN,
    "MLP": lambda *widths: MLP(*widths, 0.5),
}


def edges_of(graph):
    return torch.from_numpy(np.stack(graph.adjacency.tocoo().coords).astype(np.int64))


def variances_of(model, report, x, edge_index):
    """Variance of the output of each layer in a pass of its own; None if its input is zero."""
    variances = {}

    def record(name):
        def hook(_, args, output):
            variance = np.var(output.detach().double().numpy())
            variances[name] = variance if args[0].any() else None

        return hook

    for layer in report:
        if layer.is_set:
            model.get_submodule(layer.name).register_forward_hook(record(layer.name))
    model.eval()(x, edge_index)
    return variances


@examples(25)
@given(
    name=st.sampled_from(sorted(MODELS)),
    kind=st.sampled_from(sorted(KINDS)),
    layers=st.integers(1, 6),
    width=st.sampled_from([4, 16]),
    scale=st.sampled_from([1e-3, 1.0, 1e3]),
    seed=st.integers(0, 1000),
)
def test_every_output_has_variance_1_and_directions_are_orthonormal(
    name, kind, layers, width, scale, seed
):
    torch.manual_seed(seed)
    x = scale * torch.from_numpy(random_features(seed=seed)).float()
    edge_index = edges_of(random_graph(**KINDS[kind], seed=seed))
    model = MODELS[name](6, width, layers, 4)
    before = {key: weight.clone() for key, weight in model.state_dict().items()}
    report = lsuv_init_(model, x, edge_index, seed=seed)
    assert report.n_set >= layers
    for name, variance in variances_of(model, report, x, edge_index).items():
        if variance is None:  # all nodes are below zero before the last ReLU
            assert "no scale of its weights gives" in report[name].reason
        elif report[name].reason:
            # Attention may prefer nodes with features 0, whose messages have no weights.
            assert report[name].kind.startswith("GAT")
        else:
            assert variance == pytest.approx(1, abs=1e-3)
    for key, weight in model.state_dict().items():
        if not torch.equal(weight, before[key]):
            W = weight if weight.shape[0] <= weight.shape[1] else weight.T
            gram = (W @ W.T).double() / W.square().sum() * len(W)
            torch.testing.assert_close(gram, torch.eye(len(W)).double(), rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", ["PyG GAT", "PyG GAT, v2, heads", "GATConv, heads averaged"])
def test_attention_has_variance_1_on_a_larger_graph(name, x, edge_index):
    model = make_model(name)
    report = lsuv_init_(model, x.float(), edge_index)
    variances = variances_of(model, report, x.float(), edge_index)
    assert len(variances) >= 5
    assert list(variances.values()) == pytest.approx([1.0] * len(variances), abs=1e-3)


def test_layers_whose_variance_cannot_be_1_are_orthonormal(x, edge_index):
    for model, features in (
        (pyg.SAGEConv(10, 4, normalize=True), x.float()),
        (pyg.GCNConv(10, 4), torch.zeros(120, 10)),
    ):
        (layer,) = lsuv_init_(model, features, edge_index)
        assert layer.is_set
        assert "no scale of its weights gives its output variance 1" in layer.reason
        for weight in model.parameters():
            if weight.dim() == 2:
                torch.testing.assert_close(weight @ weight.T, torch.eye(4), rtol=0, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_weights_of_16_bits(dtype, x, edge_index):
    model = pyg.GCNConv(10, 8).to(dtype)
    (layer,) = lsuv_init_(model, x.to(dtype), edge_index)
    assert not layer.reason
    # One unit in the last place of bfloat16 is 0.8 %.
    assert np.var(model(x.to(dtype), edge_index).detach().double().numpy()) == pytest.approx(
        1, abs=0.01
    )


def test_model_with_another_signature(x, edge_index):
    model = make_model("PyG GAT")
    report = lsuv_init_(
        model, x.float(), edge_index, forward=lambda m: m(x.float(), edge_index=edge_index)
    )
    assert report.n_set == 5
