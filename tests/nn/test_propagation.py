"""GraphPropagation and its gradients against the dense matrix."""

import numpy as np
import pytest
import torch
from truth import GHOSTS, dense_P

import gpcanet.nn.propagation
from gpcanet import Graph, GraphWarning
from gpcanet.nn import GraphPropagation

OPERATORS = [(n, b, g) for n in ("sym", "rw") for b, g in GHOSTS]


@pytest.fixture(params=["compiled", "scipy", "sparse tensor"])
def every_implementation(request, monkeypatch):
    work = 0 if request.param == "compiled" else float("inf")
    monkeypatch.setattr(gpcanet.linalg.operators.propagation, "FUSED_WORK", work)
    if request.param == "sparse tensor":  # stands for a GPU
        monkeypatch.setattr(gpcanet.nn.propagation, "NUMPY_DEVICES", ())


def sparse_and_dense(graph, labels, normalization, beta, ghost):
    settings = {"normalization": normalization, "beta": beta, "ghost": ghost}
    P = GraphPropagation(graph, y=torch.from_numpy(labels), **settings)
    return P, torch.from_numpy(dense_P(graph, labels=labels, **settings))


@pytest.mark.usefixtures("every_implementation")
@pytest.mark.parametrize(("normalization", "beta", "ghost"), OPERATORS)
def test_product_and_gradient_equal_dense_matrix(any_graph, X, labels, normalization, beta, ghost):
    P, dense = sparse_and_dense(any_graph, labels, normalization, beta, ghost)
    F = torch.from_numpy(X).requires_grad_()
    weights = torch.randn(X.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(P @ F, dense @ F)
    ((P @ F) * weights).sum().backward()
    torch.testing.assert_close(F.grad, dense.T @ weights)


@pytest.mark.usefixtures("every_implementation")
@pytest.mark.parametrize(("normalization", "beta", "ghost"), OPERATORS)
def test_fixed_point_and_gradient_equal_dense_matrix(
    any_graph, X, labels, normalization, beta, ghost
):
    P, dense = sparse_and_dense(any_graph, labels, normalization, beta, ghost)
    H = torch.from_numpy(X).requires_grad_()
    F, share = H, 3.0 / 4.0
    for _ in range(4):
        F = share * (dense @ F) + (1 - share) * H
    torch.testing.assert_close(P.fixed_point(H, 3.0, 4), F)
    (wanted,) = torch.autograd.grad(F.square().sum(), H)
    (found,) = torch.autograd.grad(P.fixed_point(H, 3.0, 4).square().sum(), H)
    torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize("normalization", ["sym", "rw"])
def test_gradients_pass_gradcheck_and_gradgradcheck(graph, X, labels, normalization):
    P, _ = sparse_and_dense(graph, labels, normalization, 0.3, "paper")
    H = torch.from_numpy(X[:, :2].copy()).requires_grad_()
    alpha = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda H: P.fixed_point(H, 2.0, 3), (H,))
    assert torch.autograd.gradcheck(lambda H, alpha: P.fixed_point(H, alpha, 3), (H, alpha))
    assert torch.autograd.gradgradcheck(lambda H: (P @ H).square(), (H,))


def test_zero_steps_return_a_copy(graph, X):
    H = torch.from_numpy(X)
    F = GraphPropagation(graph).fixed_point(H, 1.0, 0)
    torch.testing.assert_close(F, H)
    assert F.data_ptr() != H.data_ptr()


@pytest.mark.usefixtures("every_implementation")
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_other_dtypes(graph, X, dtype):
    P = GraphPropagation(graph)
    product = P @ torch.from_numpy(X).to(dtype)
    assert product.dtype == dtype
    eps = torch.finfo(dtype).eps
    torch.testing.assert_close(
        product.double(), P @ torch.from_numpy(X), atol=20 * eps, rtol=20 * eps
    )


@pytest.mark.usefixtures("every_implementation")
def test_features_need_not_be_contiguous(graph, X):
    P, H = GraphPropagation(graph), torch.from_numpy(X)
    torch.testing.assert_close(P @ H.T.contiguous().T, P @ H)
    torch.testing.assert_close(P @ H[:, ::2], (P @ H)[:, ::2])
    assert (P @ H[:, :0]).shape == (40, 0)


def test_all_forms_of_edges_give_the_same_graph(blocks, edge_index):
    weights = torch.rand(edge_index.shape[1] // 2, generator=torch.Generator().manual_seed(0))
    forward = edge_index[:, edge_index[0] < edge_index[1]]
    pair = torch.cat([forward, forward.flip(0)], 1)
    doubled = torch.cat([weights, weights])
    coo = torch.sparse_coo_tensor(pair, doubled, (120, 120), check_invariants=True)
    expected = GraphPropagation(pair, doubled, n_nodes=120).graph
    assert expected.is_weighted
    for form in (coo, coo.to_sparse_csr(), expected):
        assert GraphPropagation(form).graph == expected
    assert GraphPropagation(edge_index, n_nodes=120).graph == blocks.graph


def test_directed_edges_issue_a_warning_and_are_symmetrised():
    with pytest.warns(GraphWarning, match="directed"):
        P = GraphPropagation(torch.tensor([[0], [1]]))
    torch.testing.assert_close(P @ torch.tensor([[1.0], [3.0]]), torch.tensor([[2.0], [2.0]]))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"beta": 0.5}, "beta=0.5 adds ghost edges between nodes of equal label; give y"),
        ({"beta": 1.5}, r"beta=1.5 must be in \[0, 1\]"),
        ({"normalization": "left"}, "normalization='left' must be one of 'sym', 'rw'"),
        ({"ghost": "none"}, "ghost='none' must be one of"),
        ({"beta": 0.5, "y": torch.zeros(3)}, "y has 3 labels for 2 rows"),
    ],
)
def test_bad_settings(settings, message):
    with pytest.raises(ValueError, match=message):
        GraphPropagation(torch.tensor([[0, 1], [1, 0]]), **settings)


def test_bad_features():
    P = GraphPropagation(Graph(np.array([[0, 1], [1, 0]])))
    with pytest.raises(ValueError, match=r"shape \(3, 1\) do not fit a graph of 2 nodes"):
        P @ torch.ones(3, 1)
    with pytest.raises(ValueError, match="edge_index is missing"):
        GraphPropagation(None)
