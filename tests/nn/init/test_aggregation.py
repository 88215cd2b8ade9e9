"""Layers compute F W after initialisation, with F from dense formulas."""

import copy

import pytest
import torch
import torch_geometric.nn as pyg
from hypothesis import given
from hypothesis import strategies as st
from one_layer import N_IN, N_OUT, N_RELATIONS, OneLayer, arguments_of, edge_types, zero_biases
from properties import examples

from gpcanet.nn import gpca_init_

# -- dense aggregations -----------------------------------------------------------------------


class Dense:
    """Matrices of a graph, in which entry (i, j) is an edge from j to i."""

    def __init__(self, edge_index, n):
        self.edge_index, self.n, self.eye = edge_index, n, torch.eye(n).double()
        self.A = self.matrix(torch.ones(edge_index.shape[1], dtype=bool))
        self.degree = self.A.sum(1)
        scale = torch.where(self.degree > 0, self.degree.clamp(min=1) ** -0.5, 0)
        self.normalized = scale[:, None] * self.A * scale
        loops = (self.degree + 1) ** -0.5
        self.P = loops[:, None] * (self.A + self.eye) * loops

    def matrix(self, edges):
        A = torch.zeros(self.n, self.n).double()
        source, destination = self.edge_index[:, edges]
        return A.index_put((destination, source), torch.ones(1).double(), accumulate=True)

    def mean(self, A=None):
        A = self.A if A is None else A
        return A / A.sum(1).clamp(min=1)[:, None]

    def relations(self):
        types = edge_types(self.edge_index)
        return torch.stack([self.mean(self.matrix(types == r)) for r in range(N_RELATIONS)])

    def attention(self):
        return (self.A + self.eye) / (self.degree + 1)[:, None]

    def maximum(self, x):
        rows = [x[row > 0].max(0).values if row.any() else 0 * x[0] for row in self.A]
        return torch.stack(rows)


def without_attention(conv):
    """Set the attention coefficients to equal values."""
    for name, parameter in conv.named_parameters():
        if any(part in name for part in ("att", "key", "query")):
            parameter.data.zero_()


def without_films(conv):
    class One(torch.nn.Module):
        def forward(self, x):
            return torch.cat([x.new_zeros(len(x), N_OUT), x.new_ones(len(x), N_OUT)], 1)

    conv.films = torch.nn.ModuleList(One() for _ in conv.films)
    conv.film_skip, conv.act = One(), None


def half_open(conv):
    class Half(torch.nn.Module):
        def forward(self, gate):
            return torch.full_like(gate, 0.5)

    conv.act = Half()


def without_activation(conv):
    conv.act = None


def nothing(conv):
    pass


def transposed(*names):
    return lambda conv: [getattr(conv, name).weight.T for name in names]


def of_list(conv):
    return [lin.weight.T for lin in conv.lins]


#: Layer, its linear form, F as a function of Dense and x, and the weights, all equal.
LINEAR_LAYERS = {
    "RGCNConv": (
        lambda: pyg.RGCNConv(N_IN, N_OUT, N_RELATIONS), nothing,
        lambda D, x, _: D.relations().sum(0) @ x + x, lambda c: [*c.weight, c.root]),
    "RGCNConv, bases": (
        lambda: pyg.RGCNConv(N_IN, N_OUT, N_RELATIONS, num_bases=2), nothing,
        lambda D, x, c: torch.einsum("r,rij->ij", c.comp.sum(1), D.relations()) @ x + x,
        lambda c: [*c.weight, c.root]),
    "RGCNConv, no root": (
        lambda: pyg.RGCNConv(N_IN, N_OUT, N_RELATIONS, root_weight=False), nothing,
        lambda D, x, _: D.relations().sum(0) @ x, lambda c: [*c.weight]),
    "FastRGCNConv": (
        lambda: pyg.FastRGCNConv(N_IN, N_OUT, N_RELATIONS), nothing,
        lambda D, x, _: D.relations().sum(0) @ x + x, lambda c: [*c.weight, c.root]),
    "FiLMConv": (
        lambda: pyg.FiLMConv(N_IN, N_OUT), without_films,
        lambda D, x, _: D.mean() @ x + x, lambda c: [*of_list(c), c.lin_skip.weight.T]),
    "FiLMConv, relations": (
        lambda: pyg.FiLMConv(N_IN, N_OUT, N_RELATIONS), without_films,
        lambda D, x, _: D.relations().sum(0) @ x + x, lambda c: [*of_list(c), c.lin_skip.weight.T]),
    "TransformerConv": (
        lambda: pyg.TransformerConv(N_IN, N_OUT // 2, heads=2), without_attention,
        lambda D, x, _: D.mean() @ x + x, transposed("lin_value", "lin_skip")),
    "TransformerConv, no root": (
        lambda: pyg.TransformerConv(N_IN, N_OUT, root_weight=False), without_attention,
        lambda D, x, _: D.mean() @ x, transposed("lin_value")),
    "TransformerConv, heads averaged": (
        lambda: pyg.TransformerConv(N_IN, N_OUT, heads=3, concat=False), without_attention,
        lambda D, x, _: D.mean() @ x + x,
        lambda c: [*c.lin_value.weight.T.chunk(3, 1), c.lin_skip.weight.T]),
    "SuperGATConv": (
        lambda: pyg.SuperGATConv(N_IN, N_OUT // 2, heads=2), without_attention,
        lambda D, x, _: D.attention() @ x, transposed("lin")),
    "SuperGATConv, heads averaged": (
        lambda: pyg.SuperGATConv(N_IN, N_OUT, heads=2, concat=False), without_attention,
        lambda D, x, _: D.attention() @ x, lambda c: c.lin.weight.T.chunk(2, 1)),
    "GATConv, residual": (
        lambda: pyg.GATConv(N_IN, N_OUT, residual=True), without_attention,
        lambda D, x, _: D.attention() @ x + x, transposed("lin", "res")),
    "GATv2Conv, residual, heads averaged": (
        lambda: pyg.GATv2Conv(N_IN, N_OUT, heads=2, concat=False, residual=True),
        without_attention, lambda D, x, _: D.attention() @ x + x,
        lambda c: [*c.lin_l.weight.T.chunk(2, 1), c.res.weight.T]),
    "LEConv": (
        lambda: pyg.LEConv(N_IN, N_OUT), nothing,
        lambda D, x, _: D.A @ x - D.degree[:, None] * x + x, transposed("lin1", "lin2", "lin3")),
    "ResGatedGraphConv": (
        lambda: pyg.ResGatedGraphConv(N_IN, N_OUT), half_open,
        lambda D, x, _: D.A @ x / 2 + x, transposed("lin_value", "lin_skip")),
    "ARMAConv": (
        lambda: pyg.ARMAConv(N_IN, N_OUT), without_activation,
        lambda D, x, _: D.normalized @ x + x, lambda c: [c.init_weight[0], c.root_weight[0, 0]]),
    "SSGConv": (
        lambda: pyg.SSGConv(N_IN, N_OUT, alpha=0.2, K=2), nothing,
        lambda D, x, _: 0.2 * x + 0.4 * (D.P @ x + D.P @ D.P @ x), transposed("lin")),
    "SAGEConv, maximum": (
        lambda: pyg.SAGEConv(N_IN, N_OUT, aggr="max"), nothing,
        lambda D, x, _: D.maximum(x) + x, transposed("lin_l", "lin_r")),
}  # fmt: skip


def leading_eigenvectors(M, k):
    return torch.linalg.eigh((M + M.T) / 2)[1].flip(1)[:, :k]


def assert_columns_are(W, vectors):
    """Up to sign and scale of every column."""
    W = W / W.norm(dim=0)
    torch.testing.assert_close((W.T @ vectors).abs(), torch.eye(W.shape[1]).double(),
                               atol=1e-7, rtol=0)  # fmt: skip


@pytest.mark.parametrize("name", LINEAR_LAYERS)
def test_layer_computes_f_times_eigenvectors(name, x, edge_index):
    make, make_linear, aggregation, weights_of = LINEAR_LAYERS[name]
    torch.manual_seed(0)
    conv, arguments = make().double(), arguments_of(name, edge_index)
    model = OneLayer(conv, N_OUT, **arguments).double()
    report = gpca_init_(model, x, edge_index, pairs=False)
    assert report["conv"].is_set
    assert report["conv"].in_channels == N_IN
    weights = weights_of(conv)
    for weight in weights:
        torch.testing.assert_close(weight, weights[0], atol=0, rtol=0)
    with torch.no_grad():
        F = aggregation(Dense(edge_index, len(x)), x, conv)
        width = weights[0].shape[1]
        assert_columns_are(weights[0], leading_eigenvectors(x.T @ F, width))
        zero_biases(conv)
        make_linear(conv)
        torch.testing.assert_close(conv(x, edge_index, **arguments), F @ weights[0])


def test_powers_of_mixhop_have_the_same_weight(x, edge_index):
    conv = pyg.MixHopConv(N_IN, N_OUT, powers=[0, 2]).double()
    gpca_init_(OneLayer(conv, 2 * N_OUT).double(), x, edge_index, pairs=False)
    P = Dense(edge_index, len(x)).P
    F = x + P @ P @ x
    W = conv.lins[0].weight.T
    assert_columns_are(W, leading_eigenvectors(x.T @ F, N_OUT))
    expected = torch.cat([x @ W, P @ P @ x @ W], 1)
    torch.testing.assert_close(conv(x, edge_index), expected)
    assert isinstance(conv.lins[1], torch.nn.Identity)


@pytest.mark.parametrize("width", [N_IN, N_IN + 3])
def test_messages_of_gated_graph_conv(width, x, edge_index):
    conv = pyg.GatedGraphConv(width, num_layers=2).double()
    before = copy.deepcopy(conv.rnn.state_dict())
    gpca_init_(OneLayer(conv, width).double(), x, edge_index)
    padded = torch.nn.functional.pad(x, (0, width - N_IN))
    messages = []
    conv.rnn.register_forward_pre_hook(lambda _, args: messages.append(args[0]))
    conv(x, edge_index)
    F = Dense(edge_index, len(x)).A @ padded
    torch.testing.assert_close(messages[0], F @ conv.weight[0])
    assert torch.equal(conv.weight[0], conv.weight[1])
    leading = leading_eigenvectors(padded.T @ F, 4)
    assert_columns_are(conv.weight[0][:, :4], leading)
    assert torch.linalg.matrix_rank(conv.weight[0]) == width  # no pairs before a recurrent unit
    for key, value in conv.rnn.state_dict().items():
        assert torch.equal(value, before[key])


def test_stacks_of_arma_have_different_eigenvectors(x, edge_index):
    conv = pyg.ARMAConv(N_IN, 2, num_stacks=3, num_layers=2).double()
    before = conv.weight.clone()
    gpca_init_(OneLayer(conv, 2).double(), x, edge_index, pairs=False)
    D = Dense(edge_index, len(x))
    W = torch.cat([*conv.init_weight], 1)
    assert_columns_are(W, leading_eigenvectors(x.T @ (D.normalized @ x + x), 6))
    for root in conv.root_weight:
        assert torch.equal(root, conv.init_weight)
    assert torch.equal(conv.weight, before)


# -- what the weights of neighbours and of the node multiply, side by side --------------------


def sage_parts(project):
    def parts(D, x, conv):
        source = conv.lin(x).relu() if project else x
        return [D.mean() @ source, D.maximum(source), x]

    return parts


#: Layer, whether its input is a pair of node sets, and the parts of F.
STACKED_LAYERS = {
    "SAGEConv, two aggregations": (
        lambda: pyg.SAGEConv(N_IN, N_OUT, aggr=["mean", "max"]), sage_parts(False)),
    "SAGEConv, no root": (
        lambda: pyg.SAGEConv(N_IN, N_OUT, aggr=["mean", "max"], root_weight=False),
        lambda D, x, c: sage_parts(False)(D, x, c)[:2]),
    "SAGEConv, projection": (
        lambda: pyg.SAGEConv(N_IN, N_OUT, aggr=["mean", "max"], project=True), sage_parts(True)),
    "SAGEConv, recurrent": (
        lambda: pyg.SAGEConv(N_IN, N_OUT, aggr="lstm"),
        lambda D, x, c: [c.aggr_module(*sorted_messages(D, x)), x]),
    "SAGEConv, softmax": (
        lambda: pyg.SAGEConv(N_IN, N_OUT, aggr=pyg.SoftmaxAggregation(learn=True)),
        lambda D, x, c: [softmax_mean(D, x), x]),
}  # fmt: skip


def sorted_messages(D, x):
    order = D.edge_index[1].argsort(stable=True)
    source, destination = D.edge_index[:, order]
    return x[source], destination, None, len(x)


def softmax_mean(D, x):
    rows = [(x[row > 0] * x[row > 0].softmax(0)).sum(0) if row.any() else 0 * x[0] for row in D.A]
    return torch.stack(rows)


@pytest.mark.parametrize("name", STACKED_LAYERS)
def test_parts_of_f_with_different_columns_have_their_own_weights(name, x, edge_index):
    make, parts = STACKED_LAYERS[name]
    torch.manual_seed(0)
    conv = make().double()
    edge_index = edge_index[:, edge_index[1].argsort(stable=True)]  # for the recurrent aggregation
    before = copy.deepcopy(conv.state_dict())
    report = gpca_init_(OneLayer(conv, N_OUT).double(), x, edge_index, pairs=False)
    assert report["conv"].is_set
    with torch.no_grad():
        F = torch.cat(parts(Dense(edge_index, len(x)), x, conv), 1)
        W = conv.lin_l.weight.T
        W = torch.cat([W, conv.lin_r.weight.T]) if conv.root_weight else W
        assert_columns_are(W, leading_eigenvectors(F.T @ F, N_OUT))
        assert report["conv"].kept == pytest.approx(
            float((F @ leading_eigenvectors(F.T @ F, N_OUT)).square().sum() / F.square().sum())
        )
        zero_biases(conv.lin_l)
        torch.testing.assert_close(conv(x, edge_index), F @ W)
    changed = {k for k, v in conv.state_dict().items() if not torch.equal(v, before[k])}
    assert changed <= {"lin_l.weight", "lin_r.weight", "lin_l.bias"}


BIPARTITE_LAYERS = {
    "SAGEConv": (lambda s, d: pyg.SAGEConv((s, d), N_OUT), ("lin_l", "lin_r"), "mean"),
    "GraphConv": (lambda s, d: pyg.GraphConv((s, d), N_OUT), ("lin_rel", "lin_root"), "sum"),
    "LEConv": (lambda s, d: pyg.LEConv((s, d), N_OUT), ("lin1", "lin3"), "difference"),
    "TransformerConv": (
        lambda s, d: pyg.TransformerConv((s, d), N_OUT), ("lin_value", "lin_skip"), "mean"),
    "ResGatedGraphConv": (
        lambda s, d: pyg.ResGatedGraphConv((s, d), N_OUT), ("lin_value", "lin_skip"), "half"),
    "FiLMConv": (lambda s, d: pyg.FiLMConv((s, d), N_OUT), ("lins", "lin_skip"), "mean"),
    "GATConv": (
        lambda s, d: pyg.GATConv((s, d), N_OUT, add_self_loops=False), ("lin_src",), "mean"),
    "GATv2Conv": (
        lambda s, d: pyg.GATv2Conv((s, d), N_OUT, add_self_loops=False), ("lin_l",), "mean"),
    "RGCNConv": (lambda s, d: pyg.RGCNConv((s, d), N_OUT, 1), ("weight", "root"), "mean"),
}  # fmt: skip


@pytest.mark.parametrize("n_features", [(7, 9), (8, 8), None])  # None: lazy layers
@pytest.mark.parametrize("name", BIPARTITE_LAYERS)
def test_weights_of_source_and_destination_nodes(name, n_features):
    make, names, aggregation = BIPARTITE_LAYERS[name]
    lazy = n_features is None and name != "RGCNConv"  # which PyG does not have as a lazy layer
    n_features = n_features or (9, 7)
    torch.manual_seed(1)
    source, destination = torch.randn(30, n_features[0]), torch.randn(20, n_features[1])
    source, destination = source.double(), destination.double()
    edge_index = torch.stack([torch.randint(30, (80,)), torch.randint(20, (80,))]).unique(dim=1)
    conv = make(*((-1, -1) if lazy else n_features))
    types = torch.zeros(edge_index.shape[1], dtype=torch.int64)
    model = OneLayer(conv, **({"edge_type": types} if name == "RGCNConv" else {})).double()
    pair = (source, destination)
    report = gpca_init_(model, forward=lambda model: model(pair, edge_index), pairs=False)
    assert report["conv"].is_set
    A = torch.zeros(20, 30).double()
    A[edge_index[1], edge_index[0]] = 1
    A = A / A.sum(1).clamp(min=1)[:, None] if aggregation == "mean" else A
    A = A / 2 if aggregation == "half" else A
    own = (1 - A.sum(1)[:, None]) if aggregation == "difference" else 1
    F = torch.cat([A @ source, own * destination], 1) if len(names) == 2 else A @ source
    weights = [getattr(conv, part) for part in names]
    weights = [w[0] if isinstance(w, torch.nn.ModuleList) else w for w in weights]
    weights = [w.weight.T if isinstance(w, torch.nn.Module) else w for w in weights]
    W = torch.cat([w[0] if w.dim() == 3 else w for w in weights])
    assert_columns_are(W.detach(), leading_eigenvectors(F.T @ F, N_OUT))
    with torch.no_grad():
        zero_biases(conv)
        without_attention(conv)
        if name == "FiLMConv":
            without_films(conv)
        if name == "ResGatedGraphConv":
            half_open(conv)
        torch.testing.assert_close(conv(pair, edge_index, **model.arguments), F @ W)


def test_root_weight_is_kept_without_destination_features():
    torch.manual_seed(0)
    conv = pyg.SAGEConv((5, 7), N_OUT)
    x, edge_index = torch.randn(30, 5), torch.randint(12, (2, 60))
    before = conv.lin_r.weight.clone()
    model = OneLayer(conv, size=(30, 12))
    report = gpca_init_(model, forward=lambda model: model((x, None), edge_index))
    assert report["conv"].is_set
    assert torch.equal(conv.lin_r.weight, before)
    W = conv.lin_l.weight.T
    assert W.norm(dim=0).min() > 0.1


def test_pair_of_the_same_features_is_one_set_of_nodes(x, edge_index):
    models = []
    for _ in range(2):
        torch.manual_seed(0)
        models.append(OneLayer(pyg.SAGEConv(N_IN, N_OUT)).double())
    gpca_init_(models[0], x, edge_index)
    gpca_init_(models[1], forward=lambda model: model((x, x), edge_index))
    assert torch.equal(models[0].conv.lin_l.weight, models[1].conv.lin_l.weight)


@examples(25)
@given(
    n_source=st.integers(1, 12),
    n_root=st.integers(2, 12),
    n_features=st.tuples(st.integers(1, 6), st.integers(1, 6)),
    n_out=st.integers(1, 9),
    n_edges=st.integers(0, 30),
    pairs=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_weights_of_random_bipartite_graphs(
    n_source, n_root, n_features, n_out, n_edges, pairs, seed
):
    torch.manual_seed(seed)
    pair = torch.randn(n_source, n_features[0]), torch.randn(n_root, n_features[1])
    pair = tuple(part.double() for part in pair)
    edge_index = torch.stack([torch.randint(n, (n_edges,)) for n in (n_source, n_root)])
    conv = pyg.GraphConv(n_features, n_out).double()
    model = OneLayer(conv, n_out).double()
    gpca_init_(model, forward=lambda model: model(pair, edge_index), pairs=pairs)
    A = torch.zeros(n_root, n_source).double()
    A = A.index_put((edge_index[1], edge_index[0]), torch.ones(1).double(), accumulate=True)
    F = torch.cat([A @ pair[0], pair[1]], 1)
    W = torch.cat([conv.lin_rel.weight.T, conv.lin_root.weight.T]).detach()
    torch.testing.assert_close(conv(pair, edge_index) - conv.lin_rel.bias, F @ W)
    # The subspace is optimal, also if eigenvalues are repeated.
    values = torch.linalg.eigvalsh(F.T @ F).flip(0)
    k = min((n_out + 1) // 2 if pairs else n_out, len(values))
    Q = torch.linalg.svd(W)[0][:, :k]
    torch.testing.assert_close((F @ Q).square().sum(), values[:k].sum())
