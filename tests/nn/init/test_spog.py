"""SPoGInit: the search against one with dense matrices, and what it improves."""

from itertools import pairwise

import numpy as np
import pytest
import torch
import torch_geometric.nn as pyg
from torch_geometric.data import Data
from truth import dense_P, random_features, random_graph

from gpcanet.nn import GCN, spog_init_

#: Width of the input, of hidden layers and of the output.
WIDTHS = (6, 16, 3)


@pytest.fixture(scope="module")
def graph():
    return random_graph(seed=4)


@pytest.fixture(scope="module")
def edges(graph):
    return torch.from_numpy(np.stack(graph.adjacency.tocoo().coords).astype(np.int64))


@pytest.fixture(scope="module")
def x():
    return torch.from_numpy(random_features()).float()


def draw_xavier(layers, generator):
    widths = [WIDTHS[0], *[WIDTHS[1]] * (layers - 1), WIDTHS[2]]
    return [
        torch.nn.init.xavier_uniform_(torch.empty(o, i), generator=generator).double()
        for i, o in pairwise(widths)
    ]


def energy(P, H):
    L = np.eye(len(P)) - P
    ratios = [u @ L @ u / (u @ u) if u.any() else 0.0 for u in H.T]
    return 0.5 * np.mean(ratios)


def objective(P, weights, x, y, target):
    """The three terms for a GCN that is written with dense matrices."""
    P_tensor = torch.from_numpy(P)
    weights = [weight.clone().requires_grad_() for weight in weights]
    hidden, H = [], x
    for weight in weights[:-1]:
        H = (P_tensor @ H @ weight.T).relu()
        hidden.append(H.detach().numpy())
    logits = P_tensor @ H @ weights[-1].T
    loss = -torch.log_softmax(logits, 1)[torch.arange(len(y)), y].mean()
    loss.backward()
    forward = np.linalg.norm(hidden[0]) / np.linalg.norm(hidden[-1]) - 1
    norms = [weight.grad.norm().item() for weight in weights]
    backward = norms[1] / norms[-2] - 1
    return forward**2 + 10 * backward**2 + (target - energy(P, hidden[-1])) ** 2


def draw_problem(n, generator):
    x = torch.randn(n, WIDTHS[0], generator=generator, dtype=torch.float64)
    return x, torch.randint(WIDTHS[-1], (n,), generator=generator)


def search(P, layers, seed, n_steps):
    """Xavier weights, and the scales that a search with dense matrices finds for them."""
    generator = torch.Generator().manual_seed(seed)
    start = draw_xavier(layers, generator)
    target = energy(P, draw_problem(len(P), generator)[0].numpy())
    scales, tried, step_size = np.ones(layers), [], 0.05
    for step in range(n_steps):
        problem = draw_problem(len(P), generator)
        z = torch.randn(layers, generator=generator, dtype=torch.float64).numpy()
        old, new = (
            objective(P, [s * w for s, w in zip(at, start, strict=True)], *problem, target)
            for at in (scales, scales + 1e-5 * z)
        )
        tried.append((old, scales))
        scales = scales - step_size * np.sign((new - old) / (1e-5 * z))
        step_size *= 0.7 if step % 20 == 0 else 1
        if step - min(range(len(tried)), key=lambda i: tried[i][0]) >= 20:
            break
    return start, min(tried, key=lambda pair: pair[0])[1]


@pytest.mark.parametrize("make", [pyg.GCN, GCN])
@pytest.mark.parametrize(
    ("layers", "seed", "n_steps"),
    # With few layers all three terms matter, with many the first one is much larger.
    [*((4, seed, 40) for seed in (0, 1, 6, 10)), (5, 1, 30), (8, 0, 40), (8, 1, 1)],
)
def test_scales_equal_those_of_a_dense_search(make, layers, seed, n_steps, graph, edges, x):
    model = make(*WIDTHS[:2], layers, WIDTHS[2])
    report = spog_init_(model, x, edges, n_steps=n_steps, seed=seed)
    assert [layer.reason for layer in report] == [""] * layers
    start, scales = search(dense_P(graph), layers, seed, n_steps)
    for conv, weight, scale in zip(model.convs, start, scales, strict=True):
        torch.testing.assert_close(
            conv.lin.weight.detach().double(), scale * weight, rtol=1e-5, atol=1e-7
        )


def test_objective_improves_for_other_random_features(graph, edges, x):
    P, generator = dense_P(graph), torch.Generator().manual_seed(99)
    problems = [draw_problem(len(P), generator) for _ in range(5)]
    target = np.mean([energy(P, features.numpy()) for features, _ in problems])
    for seed in range(3):
        model = pyg.GCN(*WIDTHS[:2], 8, WIDTHS[2])
        spog_init_(model, x, edges, seed=seed)
        found = [conv.lin.weight.detach().double() for conv in model.convs]
        start = draw_xavier(8, torch.Generator().manual_seed(seed))
        before, after = (
            np.mean([objective(P, weights, *problem, target) for problem in problems])
            for weights in (start, found)
        )
        assert after < before / 2


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (pyg.GCN(6, 8, 3, 3), "at least 4 layers, all GCNConv"),
        (pyg.GCN(6, 8, 4, 3, jk="cat"), "at least 4 layers, all GCNConv"),
        (pyg.GraphSAGE(6, 8, 5, 3), "at least 4 layers, all GCNConv"),
        (pyg.GCN(6, 8, 4, 1), "outputs for at least two classes at every node"),
    ],
)
def test_other_models_get_xavier_weights(model, reason, edges, x):
    report = spog_init_(model, x, edges)
    assert report.n_set == len(report)
    assert all(f"Xavier weights, as SPoGInit needs {reason}" in layer.reason for layer in report)
    generator = torch.Generator().manual_seed(0)
    weight = next(p for p in model.convs[0].parameters() if p.dim() == 2)
    expected = torch.nn.init.xavier_uniform_(torch.empty(8, 6), generator=generator)
    assert torch.equal(weight, expected)


def test_number_of_steps_must_be_positive(edges, x):
    with pytest.raises(ValueError, match="n_steps=0 must be at least 1"):
        spog_init_(pyg.GCN(6, 8, 4, 3), x, edges, n_steps=0)


def test_data_gives_the_weights_of_its_tensors(edges, x):
    class Plain(torch.nn.Module):
        def __init__(self):
            super().__init__()
            widths = [WIDTHS[0], 16, 16, 16, WIDTHS[2]]
            self.convs = torch.nn.ModuleList(pyg.GCNConv(i, o) for i, o in pairwise(widths))

        def forward(self, x, edge_index):
            for conv in self.convs[:-1]:
                x = conv(x, edge_index).relu()
            return self.convs[-1](x, edge_index)

    by_data, by_tensors = Plain(), Plain()
    data = Data(x=x, edge_index=edges, edge_weight=torch.ones(edges.shape[1]))
    report = spog_init_(by_data, data, n_steps=3)
    spog_init_(by_tensors, x, edges, n_steps=3)
    assert report.n_set == 4
    assert data.x is x
    for one, other in zip(by_data.parameters(), by_tensors.parameters(), strict=True):
        if one.dim() == 2:
            assert torch.equal(one, other)
