"""Virgo: the variances of the weights against the formulas with dense matrices."""

import numpy as np
import pytest
import torch
import torch_geometric.nn as pyg
from truth import KINDS, dense_P, random_features, random_graph

from gpcanet import Graph
from gpcanet.nn import GCN, GraphPropagation, virgo_init_


def dense_variances(P, X, widths):
    """Harmonic means of the forward and the backward variance of each layer."""
    n, L = len(P), len(widths) - 1
    power = [np.linalg.matrix_power(P, k) for k in range(L + 1)]
    m, ones = X.mean(axis=1), np.ones(n)
    result = []
    for l in range(1, L + 1):  # noqa: E741
        n_in, n_out = widths[l - 1], widths[l]
        f = 2 / n_in
        if l > 1:
            f *= np.linalg.norm(power[l - 1] @ m) ** 2 / np.linalg.norm(power[l] @ m) ** 2
        k = L - l
        if k == 0:
            b = n / ((n_out - 1) * np.linalg.norm(P @ ones) ** 2)
        else:
            b = (
                2
                / n_out
                * (np.linalg.norm(power[k] @ ones) / np.linalg.norm(power[k + 1] @ ones)) ** 2
            )
        result.append(2 / (1 / f + 1 / b))
    return result


def edges_of(graph):
    rows, columns = graph.adjacency.tocoo().coords
    weights = torch.from_numpy(graph.adjacency.tocoo().data).float()
    return torch.from_numpy(np.stack([rows, columns]).astype(np.int64)), weights


def assert_uniform(weight, variance):
    values = weight.detach().double().numpy()
    assert values.mean() == pytest.approx(0, abs=4 * np.sqrt(variance / values.size))
    assert values.var() == pytest.approx(variance, rel=0.05)
    # The largest of 65,000 uniform values is within 1e-3 of the bound with probability 1 - 1e-28.
    assert np.abs(values).max() == pytest.approx(np.sqrt(3 * variance), rel=1e-3)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("make", [pyg.GCN, GCN])
def test_variances_equal_dense_formula(kind, make):
    graph, X = random_graph(**KINDS[kind]), random_features(d=256)
    edge_index, weights = edges_of(graph)
    widths = [256, 300, 300, 300, 260]
    model = make(256, 300, 4, 260)
    weighted = {"edge_weight": weights} if graph.weights is not None else {}
    report = virgo_init_(model, torch.from_numpy(X).float(), edge_index, **weighted, seed=5)
    assert [layer.reason for layer in report] == [""] * 4
    for conv, variance in zip(model.convs, dense_variances(dense_P(graph), X, widths), strict=True):
        assert_uniform(conv.lin.weight, variance)


def test_a_graph_a_propagation_and_an_edge_index_give_the_same_weights():
    graph, X = random_graph(), torch.from_numpy(random_features()).float()
    edge_index, _ = edges_of(graph)
    models = [GCN(6, 8, 3, 3) for _ in range(3)]
    for model, edges in zip(models, (graph, GraphPropagation(graph), edge_index), strict=True):
        virgo_init_(model, X, edges)
        assert torch.equal(model.convs[1].lin.weight, models[0].convs[1].lin.weight)


def test_sage_and_gat_use_the_same_variances():
    graph, X = random_graph(), random_features(d=256)
    edge_index, _ = edges_of(graph)
    expected = dense_variances(dense_P(graph), X, [256, 256, 256])
    x = torch.from_numpy(X).float()
    sage, gat = pyg.GraphSAGE(256, 256, 2, 256), pyg.GAT(256, 256, 2, 256)
    assert virgo_init_(sage, x, edge_index).n_set == virgo_init_(gat, x, edge_index).n_set == 2
    for layer, variance in enumerate(expected):
        assert_uniform(sage.convs[layer].lin_l.weight, variance)
        assert_uniform(sage.convs[layer].lin_r.weight, variance)
        assert_uniform(gat.convs[layer].lin.weight, variance)


def test_order_of_the_pass_counts_and_other_layers_get_he_weights():
    class Reversed(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.head = torch.nn.Linear(300, 256)
            self.second, self.first = pyg.GCNConv(300, 300), pyg.GCNConv(256, 300)

        def forward(self, x, edge_index):
            return self.head(self.second(self.first(x, edge_index).relu(), edge_index))

    graph, X = random_graph(), random_features(d=256)
    model = Reversed()
    report = virgo_init_(model, torch.from_numpy(X).float(), edges_of(graph)[0])
    assert [layer.name for layer in report] == ["first", "second", "head"]
    assert report["head"].reason == "He's weights, as Virgo has no rule for it"
    expected = dense_variances(dense_P(graph), X, [256, 300, 300])
    assert_uniform(model.first.lin.weight, expected[0])
    assert_uniform(model.second.lin.weight, expected[1])
    assert_uniform(model.head.weight, 2 / 300)


def test_one_output_channel_uses_the_forward_variance():
    graph, X = Graph(np.ones((4, 4)) - np.eye(4)), np.ones((4, 100_000))
    conv = pyg.GCNConv(100_000, 1)
    virgo_init_(conv, torch.from_numpy(X).float(), edges_of(graph)[0])
    assert_uniform(conv.lin.weight, 2 / 100_000)


def test_features_with_mean_0_at_every_node_are_an_error():
    model, x = pyg.GCN(2, 4, 2, 3), torch.tensor([[1.0, -1.0]] * 40)
    before = model.convs[0].lin.weight.clone()
    with pytest.raises(ValueError, match="the features of every node have mean 0"):
        virgo_init_(model, x, edges_of(random_graph())[0])
    assert torch.equal(model.convs[0].lin.weight, before)
