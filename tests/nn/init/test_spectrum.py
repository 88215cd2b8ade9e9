"""Scaled directions, differences of pairs, and effective rank."""

import numpy as np
import pytest
import torch
import torch_geometric.nn as pyg
from hypothesis import given
from hypothesis import strategies as st
from properties import examples
from truth import dense_P

from gpcanet.errors import InputError
from gpcanet.nn import GCN, effective_rank, gpca_init_
from gpcanet.nn.init.eigenvectors import are_pairs, mixing_matrix, pair_differences


def outputs_of_layers(model, x, edge_index):
    """Outputs of the convolutions, before their activations."""
    found = []
    handles = [
        conv.register_forward_hook(lambda *hooked: found.append(hooked[2])) for conv in model.convs
    ]
    model.eval()
    with torch.no_grad():
        model(x, edge_index)
    for handle in handles:
        handle.remove()
    return found


@pytest.mark.parametrize("act", ["relu", "leaky_relu", "gelu", "silu"])
@pytest.mark.parametrize("spectrum", ["auto", 0.0, 0.5, 1.0])
def test_network_is_linear_before_training(act, spectrum, blocks, x, edge_index):
    """Layer l is a linear function of P^l X, which a dense least-squares fit confirms."""
    model = pyg.GCN(10, 16, 8, 3, act=act).double()
    gpca_init_(model, x, edge_index, spectrum=spectrum)
    P = torch.from_numpy(dense_P(blocks.graph))
    F = x
    for Z in outputs_of_layers(model, x, edge_index)[:-1]:
        F = P @ F
        fitted = F @ torch.linalg.lstsq(F, Z, driver="gelsd").solution
        torch.testing.assert_close(fitted, Z, atol=1e-7, rtol=0)


def test_paper_network_is_not_linear(blocks, x, edge_index):
    model = pyg.GCN(10, 16, 8, 3).double()
    gpca_init_(model, x, edge_index, spectrum="paper")
    P = torch.from_numpy(dense_P(blocks.graph))
    Z = outputs_of_layers(model, x, edge_index)[1]
    F = P @ P @ x
    assert (F @ torch.linalg.lstsq(F, Z).solution - Z).abs().max() > 0.001


@pytest.mark.parametrize("kind", [pyg.GCN, pyg.GraphSAGE])
@pytest.mark.parametrize("spectrum", ["auto", 0, 0.5, 1])
def test_outputs_of_layers_have_the_same_size(kind, spectrum, x, edge_index):
    model = kind(10, 16, 6, 3).double()
    gpca_init_(model, x, edge_index, spectrum=spectrum)
    for Z in outputs_of_layers(model, x, edge_index)[:-1]:
        assert float(Z.square().mean().sqrt()) == pytest.approx(0.1)


def test_power_scales_directions_by_their_standard_deviation(blocks, x, edge_index):
    F = torch.from_numpy(dense_P(blocks.graph)) @ x
    M = (x.T @ F + F.T @ x) / 2
    V = torch.linalg.eigh(M).eigenvectors.flip(1)[:, :4]
    for power in (0.0, 0.3, 1.0):
        model = GCN(10, 8, 2, 3).double()
        gpca_init_(model, x, edge_index, spectrum=power)
        W = model.convs[0].lin.weight.T[:, :4]
        expected = V * (F @ V).std(0, correction=0) ** -power
        ratio = W.norm(dim=0) / expected.norm(dim=0)
        torch.testing.assert_close(ratio, ratio[:1].expand(4))
        cosines = (W * expected).sum(0) / W.norm(dim=0) / expected.norm(dim=0)
        torch.testing.assert_close(cosines.abs(), torch.ones(4).double())
        if power == 1:
            Z = (F @ W).detach()
            torch.testing.assert_close(Z.std(0), Z.std(0)[:1].expand(4))


def test_deep_features_do_not_collapse(x, edge_index):
    deep = {}
    for spectrum in ("auto", "paper"):
        model = pyg.GCN(10, 16, 24, 3)
        report = gpca_init_(model, x.float(), edge_index, spectrum=spectrum)
        deep[spectrum] = report["convs.22"].rank_after
        Z = outputs_of_layers(model, x.float(), edge_index)
        for index in (0, 11, 22):
            measured = effective_rank(Z[index])
            assert report[f"convs.{index}"].rank_after == pytest.approx(measured, rel=1e-3)
    assert deep["auto"] > 2 * deep["paper"]
    assert "rank" in str(report)


def test_layer_that_collapses_without_pairs_is_whitened(x, edge_index):
    """A tower of square activations has no pairs of opposite signs."""

    class Squares(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.convs = torch.nn.ModuleList(
                pyg.GCNConv(10 if i == 0 else 32, 32) for i in range(6)
            )

        def forward(self, x, edge_index):
            for conv in self.convs[:-1]:
                x = conv(x, edge_index).abs()
            return self.convs[-1](x, edge_index)

    ranks = {}
    for spectrum in ("auto", 0.0):
        model = Squares()
        report = gpca_init_(model, x.float(), edge_index, spectrum=spectrum)
        ranks[spectrum] = report["convs.4"].rank_after
    assert ranks["auto"] > ranks[0.0]


@given(
    width=st.integers(1, 12), heads=st.integers(1, 3), seed=st.integers(0, 999),
    function=st.sampled_from(["relu", "leaky_relu", "gelu", "silu"]),
)  # fmt: skip
@examples(50)
def test_property_differences_of_pairs_give_the_input_of_the_activation(
    width, heads, seed, function
):
    rng = np.random.default_rng(seed)
    C = mixing_matrix(40, width * heads, pairs=True, n_blocks=heads, seed=seed)
    Z = torch.from_numpy(rng.normal(size=(30, len(C))) @ C)
    H = getattr(torch.nn.functional, function)(Z)
    D = pair_differences(width * heads, heads)
    np.testing.assert_allclose(D.T @ D, np.eye(D.shape[1]), atol=1e-12)
    if width == 1:
        return
    assert are_pairs(H, heads)
    paired = (np.abs(D) > 0).sum(axis=0) == 2
    difference = H.numpy() @ D[:, paired]
    linear = Z.numpy() @ D[:, paired]
    factor = 1.01 if function == "leaky_relu" else 1.0
    np.testing.assert_allclose(2 * difference, factor * linear, atol=1e-9)


def test_random_features_are_not_pairs():
    H = torch.randn(50, 6, generator=torch.Generator().manual_seed(0))
    assert not are_pairs(H)
    assert not are_pairs(H.relu())
    assert not are_pairs(torch.zeros(50, 6))


def test_identity_features_are_not_taken_for_pairs(edge_index):
    """Columns of one-hot features have no common entries, but no layer has computed them."""
    x = torch.eye(120)
    model = pyg.GCN(120, 120, 2, 3)
    gpca_init_(model, x, edge_index)
    assert torch.linalg.matrix_rank(model.convs[0].lin.weight, atol=1e-4) == 60


@pytest.mark.parametrize("spectrum", [-0.1, 1.5, "white", None])
def test_bad_spectrum(spectrum, x, edge_index):
    with pytest.raises((InputError, TypeError), match="spectrum"):
        gpca_init_(GCN(10, 8, 2, 3), x.float(), edge_index, spectrum=spectrum)


@given(n=st.integers(2, 30), d=st.integers(1, 30), seed=st.integers(0, 999))
@examples(50)
def test_property_effective_rank_equals_the_entropy_of_singular_values(n, d, seed):
    H = np.random.default_rng(seed).normal(size=(n, d)) * np.arange(1, d + 1)
    shares = np.linalg.svd(H - H.mean(axis=0), compute_uv=False) ** 2
    shares = shares[shares > 1e-12 * shares.max()] / shares.sum()
    expected = np.exp(-np.sum(shares * np.log(shares)))
    assert effective_rank(torch.from_numpy(H)) == pytest.approx(expected, rel=1e-6)


def test_effective_rank_of_constant_features_is_zero():
    assert effective_rank(torch.ones(5, 3)) == 0
    assert effective_rank(torch.zeros(0, 3)) == 0
