"""GPCAConv against a dense reference, and GCNConv against PyG's."""

import copy

import pytest
import torch
import torch_geometric.nn as pyg
from hypothesis import given
from hypothesis import strategies as st
from properties import examples
from truth import dense_P

import gpcanet.nn.propagation
from gpcanet.nn import GCN, GCNConv, GPCAConv, GraphPropagation, NodeData
from gpcanet.nn.conv import storing_means
from gpcanet.nn.training.data import prepare_edges

DOUBLE = torch.float64


def dense_forward(conv, P, x):
    """Algorithm 1, lines 6 to 10 and 13 without its activation."""
    H = x - x.mean(0) if conv.center else x
    if conv.n_iter == "taylor":
        return ((1 - conv.alpha) * H + conv.alpha * (P @ H)) @ conv.weight + conv.bias
    F, share = H, conv.alpha / (1 + conv.alpha)
    for _ in range(conv.n_iter):
        F = share * (P @ F) + (1 - share) * H
    return F @ conv.weight + conv.bias


@pytest.mark.usefixtures("either_path")
@pytest.mark.parametrize("out_channels", [3, 17])  # narrower and wider than the input
@pytest.mark.parametrize("beta", [0.0, 0.3])
@pytest.mark.parametrize("normalization", ["sym", "rw"])
@pytest.mark.parametrize("options", [{}, {"learn_alpha": True}, {"n_iter": "taylor"},
                                     {"center": False, "n_iter": 1}])  # fmt: skip
def test_output_and_gradients_equal_dense_layer(
    blocks, x, edge_index, visible, out_channels, beta, normalization, options
):
    torch.manual_seed(0)
    conv = GPCAConv(10, out_channels, 2.5, beta, normalization=normalization, **options).double()
    torch.nn.init.normal_(conv.bias)
    P = torch.from_numpy(dense_P(blocks.graph, normalization, visible.numpy(), beta, "balanced"))
    inputs = x.clone().requires_grad_()
    found, wanted = conv(inputs, edge_index, y=visible), dense_forward(conv, P, inputs)
    torch.testing.assert_close(found, wanted)
    parameters = [inputs, *conv.parameters()]
    gradients = [torch.autograd.grad(out.square().sum(), parameters) for out in (found, wanted)]
    for ours, theirs in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("learn_alpha", [False, True])
def test_gradients_pass_gradcheck(x, edge_index, learn_alpha):
    conv = GPCAConv(10, 2, 3.0, learn_alpha=learn_alpha).double()
    inputs = x.clone().requires_grad_()
    names = [name for name, _ in conv.named_parameters()]

    def run(inputs, *values):
        return torch.func.functional_call(
            conv, dict(zip(names, values, strict=True)), (inputs, edge_index)
        )

    assert torch.autograd.gradcheck(run, (inputs, *conv.parameters()), fast_mode=True)


def test_taylor_series_with_alpha_1_equals_gcn_layer(x, edge_index):
    torch.manual_seed(0)
    theirs = pyg.GCNConv(10, 6).double()
    torch.nn.init.normal_(theirs.bias)
    ours = GPCAConv(10, 6, alpha=1.0, n_iter="taylor", center=False).double()
    with torch.no_grad():
        ours.weight.copy_(theirs.lin.weight.T)
        ours.bias.copy_(theirs.bias)
    torch.testing.assert_close(ours(x, edge_index), theirs(x, edge_index))


@pytest.mark.parametrize("out_channels", [4, 10, 30])
def test_gcn_layer_equals_pyg(x, edge_index, out_channels):
    torch.manual_seed(0)
    ours, theirs = GCNConv(10, out_channels).double(), pyg.GCNConv(10, out_channels).double()
    theirs.load_state_dict(ours.state_dict())
    weights = torch.rand(edge_index.shape[1], dtype=DOUBLE) + 0.5
    first, second = edge_index
    weights = torch.zeros(120, 120, dtype=DOUBLE).index_put((first, second), weights)
    weights = (weights + weights.T)[first, second]
    for edge_weight in (None, weights):
        results = [conv(x, edge_index, edge_weight) for conv in (ours, theirs)]
        torch.testing.assert_close(*results)
        gradients = [torch.autograd.grad(r.square().sum(), [c.lin.weight, c.bias])
                     for r, c in zip(results, (ours, theirs), strict=True)]  # fmt: skip
        for mine, other in zip(*gradients, strict=True):
            torch.testing.assert_close(mine, other)


@pytest.mark.parametrize("out_channels", [4, 30])
def test_random_walk_gcn_layer_averages_neighbours(blocks, x, edge_index, out_channels):
    torch.manual_seed(0)
    conv = GCNConv(10, out_channels, normalization="rw").double()
    P = torch.from_numpy(dense_P(blocks.graph, "rw"))
    torch.testing.assert_close(P.sum(1), torch.ones(120, dtype=DOUBLE))
    found, wanted = conv(x, edge_index), P @ x @ conv.lin.weight.T + conv.bias
    torch.testing.assert_close(found, wanted)
    gradients = [
        torch.autograd.grad(out.square().sum(), conv.lin.weight) for out in (found, wanted)
    ]
    torch.testing.assert_close(*gradients)


def test_edges_are_prepared_with_the_normalization_of_the_model(blocks):
    data = NodeData.of(blocks)
    for kind in ("sym", "rw"):
        assert prepare_edges(GCN(10, 8, 2, 3, normalization=kind), data)[0].normalization == kind
    mixed = torch.nn.ModuleList([GCNConv(10, 8), GCNConv(8, 3, normalization="rw")])
    assert prepare_edges(mixed, data)[0] is data.edge_index
    with pytest.raises(ValueError, match="normalization='l' must be one of"):
        GCNConv(3, 2, normalization="l")


def test_propagation_of_another_normalization_is_an_error(x, edge_index):
    layer, P = GCNConv(10, 4, normalization="rw").double(), GraphPropagation(edge_index)
    with pytest.raises(
        ValueError, match="has normalization='sym' and the layer normalization='rw'; use"
    ):
        layer(x, P)
    same = GraphPropagation(edge_index, normalization="rw")
    torch.testing.assert_close(layer(x, same), layer(x, edge_index))
    assert repr(layer) == "GCNConv(10, 4, normalization='rw')"


def test_gcn_equals_pyg(x, edge_index):
    torch.manual_seed(0)
    ours, theirs = (kind(10, 8, 4, 3).double() for kind in (GCN, pyg.GCN))
    theirs.load_state_dict(ours.state_dict())
    torch.testing.assert_close(ours(x, edge_index), theirs(x, edge_index))


def test_sparse_and_dense_features_give_equal_outputs(x, edge_index):
    sparse = torch.where(x > 1, x, 0)
    for conv in (GPCAConv(10, 16, 2.0).double(), GCNConv(10, 16).double()):
        expected = conv(sparse, edge_index)
        for form in (sparse.to_sparse_coo(), sparse.to_sparse_csr()):
            torch.testing.assert_close(conv(form, edge_index), expected)


def test_mini_batch_is_centred_by_the_stored_mean_of_the_whole_graph(blocks, x, edge_index):
    conv = GPCAConv(10, 4, 2.0).double()
    conv(x, edge_index)
    torch.testing.assert_close(conv.mean, x.mean(0))
    part = torch.arange(30)
    graph = blocks.graph.subgraph(part.numpy())
    out = conv(x[part], graph)
    torch.testing.assert_close(conv.mean, x.mean(0))
    P = GraphPropagation(graph)
    expected = P.fixed_point(x[part] - x.mean(0), 2.0, 5) @ conv.weight + conv.bias
    torch.testing.assert_close(out, expected)
    conv.eval()
    conv(x + 5, edge_index)  # evaluation does not store the mean
    torch.testing.assert_close(conv.mean, x.mean(0))
    with storing_means(conv):
        conv(x + 2, edge_index)
    torch.testing.assert_close(conv.mean, x.mean(0) + 2)
    conv.train()
    conv(x + 1, edge_index)  # the whole graph again with other features
    torch.testing.assert_close(conv.mean, x.mean(0) + 1)
    conv.reset_parameters()
    assert not conv.mean.any()
    assert conv.mean_n_nodes == 0


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_other_dtypes(x, edge_index, dtype):
    conv = GPCAConv(10, 4, 2.0).to(dtype)
    with torch.no_grad():
        out = conv(x.to(dtype), edge_index)
    assert out.dtype == dtype
    assert not out.requires_grad
    assert torch.isfinite(out).all()


def test_learnt_alpha_changes_and_stays_positive(x, edge_index):
    conv = GPCAConv(10, 4, 0.1, learn_alpha=True).double()
    optimizer = torch.optim.SGD(conv.parameters(), lr=0.1)
    for _ in range(5):
        conv(x, edge_index).square().mean().backward()
        optimizer.step()
    alpha = conv.alpha.detach().item()
    assert alpha > 0
    assert alpha != pytest.approx(0.1)
    assert "alpha=0.1" in repr(conv)  # the initial value


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"alpha": -1.0}, r"alpha=-1.0 must be in \[0, 1e\+06\]"),
        ({"beta": 2.0}, r"beta=2.0 must be in \[0, 1\]"),
        ({"n_iter": -1}, "n_iter=-1 must be at least 0"),
        ({"normalization": "l"}, "normalization='l' must be one of"),
        ({"alpha": 0.0, "learn_alpha": True}, "alpha=0.0 must be positive to be learnt"),
    ],
)
def test_bad_settings(arguments, message):
    with pytest.raises(ValueError, match=message):
        GPCAConv(3, 2, **arguments)


def test_bad_input(x, edge_index):
    with pytest.raises(ValueError, match=r"shape \(120, 9\), but the layer has in_channels=10"):
        GPCAConv(10, 2).double()(x[:, :9], edge_index)
    with pytest.raises(ValueError, match=r"beta=0\.5 adds ghost edges"):
        GPCAConv(10, 2, beta=0.5).double()(x, edge_index)


def test_two_forward_passes_before_one_backward_pass(blocks, x, edge_index):
    conv = GPCAConv(10, 4, 2.0).double()
    conv(x, edge_index)
    part = blocks.graph.subgraph(range(50))
    (conv(x[:50], part).sum() + conv(x, edge_index).sum()).backward()
    assert torch.isfinite(conv.weight.grad).all()


def test_inference_mode(x, edge_index):
    conv = GPCAConv(10, 4, 2.0).double()
    expected = conv(x, edge_index).detach()
    with torch.inference_mode():
        torch.testing.assert_close(conv(x.clone(), edge_index.clone()), expected)


def test_edge_weights_that_would_be_ignored_are_errors(blocks, x, edge_index):
    conv = GCNConv(10, 4).double()
    weights = torch.ones(edge_index.shape[1], dtype=DOUBLE)
    with pytest.raises(ValueError, match="edges that are not an edge_index have their own weights"):
        conv(x, blocks.graph, weights)
    with pytest.raises(
        ValueError, match="edge_weight requires a gradient, which this propagation does not"
    ):
        conv(x, edge_index, weights.requires_grad_())


# -- graphs that change between two calls -----------------------------------------------------


def overwrite(tensor, values, how):
    """Write values into a tensor; torch does not notice all of these ways."""
    if how == "in place":
        tensor.copy_(values)
    elif how == "data":
        tensor.data.copy_(values)
    else:
        tensor.numpy()[...] = values.numpy()


def ring(order):
    ends = torch.tensor(order)
    return torch.cat([torch.stack([ends, ends.roll(1)]), torch.stack([ends.roll(1), ends])], 1)


@examples(30)
@given(
    orders=st.tuples(st.permutations(range(8)), st.permutations(range(8))),
    weights=st.lists(st.floats(0.5, 4), min_size=8, max_size=8),
    how=st.sampled_from(["in place", "data", "numpy"]),
)
def test_edges_that_are_overwritten_are_used_with_their_new_values(orders, weights, how):
    torch.manual_seed(0)
    x, (before, after) = torch.randn(8, 3), map(ring, orders)
    second = torch.tensor(weights * 2)
    for kind in (GCNConv, GPCAConv):
        layer = kind(3, 2)
        edges, edge_weight = before.clone(), torch.ones(16)
        layer(x, edges, edge_weight)
        overwrite(edges, after, how)
        torch.testing.assert_close(layer(x, edges, edge_weight), layer(x, after))
        overwrite(edge_weight, second, how)
        torch.testing.assert_close(layer(x, edges, edge_weight), layer(x, after, second))
    ours, theirs = GCN(3, 4, 2, 2), pyg.GCN(3, 4, 2, 2)
    theirs.load_state_dict(ours.state_dict())
    edges = before.clone()
    torch.testing.assert_close(ours(x, edges), theirs(x, edges))
    overwrite(edges, after, how)
    torch.testing.assert_close(ours(x, edges), theirs(x, edges))


@pytest.mark.parametrize(
    "make",
    [
        lambda kind: kind.GCNConv(10, 4, cached=True),
        lambda kind: kind.GCN(10, 4, 3, 3, cached=True),
    ],
)
def test_cached_layer_keeps_its_first_graph_as_in_pyg(x, edge_index, make):
    ours, theirs = make(gpcanet.nn).double(), make(pyg).double()
    theirs.load_state_dict(ours.state_dict())
    other = edge_index[:, :40]
    other = torch.cat([other, other.flip(0)], 1)
    for edges in (edge_index, other):
        torch.testing.assert_close(ours(x, edges), theirs(x, edges))
    first = ours(x, edge_index)
    assert torch.equal(copy.deepcopy(ours)(x, other), first)
    # A GraphPropagation is used in place of the cache, and is not cached.
    assert not torch.allclose(ours(x, GraphPropagation(other, n_nodes=120)), first)
    assert torch.equal(ours(x, other), first)
    weights = copy.deepcopy(ours.state_dict())
    ours.reset_parameters()
    ours.load_state_dict(weights)
    assert not torch.allclose(ours(x, other), first)


def test_edges_are_prepared_once_per_call_or_only_once_if_cached(x, edge_index, monkeypatch):
    prepared = []
    monkeypatch.setattr(
        "gpcanet.nn.propagation.to_graph",
        lambda *args, read=gpcanet.nn.propagation.to_graph: prepared.append(1) or read(*args),
    )
    for cached, calls in ((False, 3), (True, 1)):
        prepared.clear()
        model = GCN(10, 4, 5, 3, cached=cached).double()
        for _ in range(3):
            model(x, edge_index)
        assert len(prepared) == calls
