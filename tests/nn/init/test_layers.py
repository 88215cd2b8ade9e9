"""gpca_init_ on every kind of layer: the layer computes F W, with F from dense formulas."""

import copy

import pytest
import torch
import torch_geometric.nn as pyg
from torch.nn import Linear

from gpcanet.nn import gpca_init_, register_layer, xavier_init_
from gpcanet.nn.init.rules import RULES

N_IN, N_OUT, N_RELATIONS = 10, 6, 3


class Model(torch.nn.Module):
    """One convolution with a ReLU, and a linear head."""

    def __init__(self, conv, width, **arguments):
        super().__init__()
        self.conv, self.head, self.arguments = conv, Linear(width, 3), arguments

    def forward(self, x, edge_index):
        return self.head(self.conv(x, edge_index, **self.arguments).relu())


def edge_types(edge_index):
    return (edge_index[0] * 7 + edge_index[1] * 5) % N_RELATIONS


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
        return [self.mean(self.matrix(types == relation)) for relation in range(N_RELATIONS)]

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
    conv.act = lambda gate: torch.full_like(gate, 0.5)


def without_activation(conv):
    conv.act = None


def nothing(conv):
    pass


def transposed(*names):
    return lambda conv: [getattr(conv, name).weight.T for name in names]


def of_list(conv):
    return [lin.weight.T for lin in conv.lins]


RELATIONS = {"num_relations": N_RELATIONS}

#: Layer, its linear form, F as a function of Dense and x, and the weights, all equal.
LINEAR_LAYERS = {
    "RGCNConv": (
        lambda: pyg.RGCNConv(N_IN, N_OUT, N_RELATIONS), nothing,
        lambda D, x, _: sum(D.relations()) @ x + x, lambda c: [*c.weight, c.root]),
    "RGCNConv, bases": (
        lambda: pyg.RGCNConv(N_IN, N_OUT, N_RELATIONS, num_bases=2), nothing,
        lambda D, x, c: sum(w * A @ x for w, A in zip(c.comp.sum(1), D.relations())) + x,
        lambda c: [*c.weight, c.root]),
    "RGCNConv, no root": (
        lambda: pyg.RGCNConv(N_IN, N_OUT, N_RELATIONS, root_weight=False), nothing,
        lambda D, x, _: sum(D.relations()) @ x, lambda c: [*c.weight]),
    "FastRGCNConv": (
        lambda: pyg.FastRGCNConv(N_IN, N_OUT, N_RELATIONS), nothing,
        lambda D, x, _: sum(D.relations()) @ x + x, lambda c: [*c.weight, c.root]),
    "FiLMConv": (
        lambda: pyg.FiLMConv(N_IN, N_OUT), without_films,
        lambda D, x, _: D.mean() @ x + x, lambda c: [*of_list(c), c.lin_skip.weight.T]),
    "FiLMConv, relations": (
        lambda: pyg.FiLMConv(N_IN, N_OUT, N_RELATIONS), without_films,
        lambda D, x, _: sum(D.relations()) @ x + x, lambda c: [*of_list(c), c.lin_skip.weight.T]),
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


def arguments_of(name, edge_index):
    has_types = "RGCN" in name or "relations" in name
    return {"edge_type": edge_types(edge_index)} if has_types else {}


def zero_biases(conv):
    for name, parameter in conv.named_parameters():
        if name.endswith("bias"):
            parameter.data.zero_()


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
    model = Model(conv, N_OUT, **arguments).double()
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
    gpca_init_(Model(conv, 2 * N_OUT).double(), x, edge_index, pairs=False)
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
    gpca_init_(Model(conv, width).double(), x, edge_index)
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
    gpca_init_(Model(conv, 2).double(), x, edge_index, pairs=False)
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


def pair_parts(*functions):
    return lambda D, x, conv: [function(D, x) for function in functions]


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
        lambda D, x, c: [torch.where(D.A > 0, 1.0, 0.0) @ x * 0 + softmax_mean(D, x), x]),
}  # fmt: skip


def sorted_messages(D, x):
    order = D.edge_index[1].argsort(stable=True)
    source, destination = D.edge_index[:, order]
    return x[source], destination, None, len(x)


def softmax_mean(D, x):
    rows = [
        (x[row > 0] * x[row > 0].softmax(0)).sum(0) if row.any() else 0 * x[0] for row in D.A
    ]
    return torch.stack(rows)


@pytest.mark.parametrize("name", STACKED_LAYERS)
def test_parts_of_f_with_different_columns_have_their_own_weights(name, x, edge_index):
    make, parts = STACKED_LAYERS[name]
    torch.manual_seed(0)
    conv = make().double()
    edge_index = edge_index[:, edge_index[1].argsort(stable=True)]  # for the recurrent aggregation
    before = copy.deepcopy(conv.state_dict())
    report = gpca_init_(Model(conv, N_OUT).double(), x, edge_index, pairs=False)
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


class Bipartite(torch.nn.Module):
    def __init__(self, conv, **arguments):
        super().__init__()
        self.conv, self.head, self.arguments = conv, Linear(N_OUT, 3), arguments

    def forward(self, x, edge_index):
        return self.head(self.conv(x, edge_index, **self.arguments).relu())


@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize("n_features", [(5, 7), (6, 6)])
@pytest.mark.parametrize("name", BIPARTITE_LAYERS)
def test_weights_of_source_and_destination_nodes(name, n_features, lazy):
    make, names, aggregation = BIPARTITE_LAYERS[name]
    if lazy and name == "RGCNConv":
        pytest.skip("PyG has no lazy RGCNConv")
    torch.manual_seed(1)
    source, destination = torch.randn(30, n_features[0]), torch.randn(20, n_features[1])
    source, destination = source.double(), destination.double()
    edge_index = torch.stack([torch.randint(30, (80,)), torch.randint(20, (80,))]).unique(dim=1)
    conv = make(*((-1, -1) if lazy else n_features))
    types = torch.zeros(edge_index.shape[1], dtype=torch.int64)
    model = Bipartite(conv, **({"edge_type": types} if name == "RGCNConv" else {})).double()
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
    model = Bipartite(conv, size=(30, 12))
    report = gpca_init_(model, forward=lambda model: model((x, None), edge_index))
    assert report["conv"].is_set
    assert torch.equal(conv.lin_r.weight, before)
    W = conv.lin_l.weight.T
    assert W.norm(dim=0).min() > 0.1


def test_pair_of_the_same_features_is_one_set_of_nodes(x, edge_index):
    models = []
    for _ in range(2):
        torch.manual_seed(0)
        models.append(Bipartite(pyg.SAGEConv(N_IN, N_OUT)).double())
    gpca_init_(models[0], x, edge_index)
    gpca_init_(models[1], forward=lambda model: model((x, x), edge_index))
    assert torch.equal(models[0].conv.lin_l.weight, models[1].conv.lin_l.weight)


# -- every kind of layer ----------------------------------------------------------------------


def mlp(i, o):
    return torch.nn.Sequential(Linear(i, o), torch.nn.ReLU(), Linear(o, o))


DEGREES = torch.tensor([0, 5, 20, 40])

#: Layers from i to o features, and the reason why they are not set, or None.
KINDS = {
    "GCNConv": (lambda i, o: pyg.GCNConv(i, o), None),
    "GraphConv": (lambda i, o: pyg.GraphConv(i, o), None),
    "SAGEConv": (lambda i, o: pyg.SAGEConv(i, o, aggr=["mean", "std"]), None),
    "GATConv": (lambda i, o: pyg.GATConv(i, o), None),
    "GATv2Conv": (lambda i, o: pyg.GATv2Conv(i, o), None),
    "SuperGATConv": (lambda i, o: pyg.SuperGATConv(i, o), None),
    "TransformerConv": (lambda i, o: pyg.TransformerConv(i, o, beta=True), None),
    "GINConv": (lambda i, o: pyg.GINConv(mlp(i, o)), None),
    "GENConv": (lambda i, o: pyg.GENConv(i, o), None),
    "EdgeConv": (lambda i, o: pyg.EdgeConv(mlp(2 * i, o)), None),
    "PNAConv": (lambda i, o: pyg.PNAConv(i, o, ["mean"], ["identity"], DEGREES), None),
    "ChebConv": (lambda i, o: pyg.ChebConv(i, o, K=2), None),
    "TAGConv": (lambda i, o: pyg.TAGConv(i, o), None),
    "SGConv": (lambda i, o: pyg.SGConv(i, o), None),
    "SSGConv": (lambda i, o: pyg.SSGConv(i, o, alpha=0.1), None),
    "ClusterGCNConv": (lambda i, o: pyg.ClusterGCNConv(i, o), None),
    "LEConv": (lambda i, o: pyg.LEConv(i, o), None),
    "ARMAConv": (lambda i, o: pyg.ARMAConv(i, o, num_stacks=2, num_layers=3), None),
    "ARMAConv, shared": (
        lambda i, o: pyg.ARMAConv(i, o, num_layers=2, shared_weights=True), None),
    "RGCNConv": (lambda i, o: pyg.RGCNConv(i, o, N_RELATIONS), None),
    "RGCNConv, bases": (lambda i, o: pyg.RGCNConv(i, o, N_RELATIONS, num_bases=2), None),
    "RGCNConv, blocks": (
        lambda i, o: pyg.RGCNConv(i, o, N_RELATIONS, num_blocks=2), "block-diagonal"),
    "FastRGCNConv": (lambda i, o: pyg.FastRGCNConv(i, o, N_RELATIONS), None),
    "FiLMConv": (lambda i, o: pyg.FiLMConv(i, o), None),
    "ResGatedGraphConv": (lambda i, o: pyg.ResGatedGraphConv(i, o), None),
    "GatedGraphConv": (lambda i, o: pyg.GatedGraphConv(max(i, o), 2), None),
    "MixHopConv": (lambda i, o: pyg.MixHopConv(i, o // 3), None),
    "FAConv": (lambda i, o: FirstFeatures(pyg.FAConv(i)), "it has no weight matrix"),
    "GPSConv": (lambda i, o: pyg.GPSConv(i, pyg.GCNConv(i, i), heads=2), None),
    "DeepGCNLayer": (
        lambda i, o: pyg.DeepGCNLayer(pyg.GENConv(i, i), torch.nn.LayerNorm(i), torch.nn.ReLU()),
        None),
    "DirGNNConv": (lambda i, o: pyg.DirGNNConv(pyg.SAGEConv(i, o)), None),
    "AGNNConv": (lambda i, o: pyg.AGNNConv(), ""),
    "FeaStConv": (lambda i, o: pyg.FeaStConv(i, o), "there is no rule for FeaStConv"),
}  # fmt: skip


class FirstFeatures(torch.nn.Module):
    def __init__(self, conv):
        super().__init__()
        self.inner = conv

    def forward(self, x, edge_index):
        return self.inner(x, x, edge_index)


def norms(width):
    return [
        torch.nn.BatchNorm1d(width), torch.nn.LayerNorm(width), pyg.BatchNorm(width),
        pyg.LayerNorm(width), pyg.PairNorm(), pyg.GraphNorm(width), pyg.InstanceNorm(width),
        pyg.MeanSubtractionNorm(), torch.nn.PReLU(),
    ]  # fmt: skip


class Encoded(torch.nn.Module):
    """A linear encoder, norms, a layer with ReLU, and a linear head."""

    def __init__(self, make, n_in, **arguments):
        super().__init__()
        self.encoder, self.conv = Linear(N_IN, n_in), make(n_in, N_OUT)
        self.norms = torch.nn.ModuleList(norms(n_in))
        self.head, self.arguments = pyg.Linear(-1, 3), arguments

    def forward(self, x, edge_index):
        x = self.encoder(x).relu()
        for norm in self.norms:
            x = norm(x)
        return self.head(self.conv(x, edge_index, **self.arguments).relu())


def encoded(name, edge_index):
    torch.manual_seed(0)
    return Encoded(KINDS[name][0], 12, **arguments_of(name, edge_index))


@pytest.mark.parametrize("name", KINDS)
def test_every_kind_of_layer_is_set_or_has_a_reason(name, x, edge_index):
    x, reason = x.float(), KINDS[name][1]
    model = encoded(name, edge_index)
    model.eval()
    model(x, edge_index)  # gives the lazy head its shape
    model.train()
    before, random = copy.deepcopy(model.state_dict()), torch.get_rng_state()
    report = gpca_init_(model, x, edge_index)
    assert torch.equal(random, torch.get_rng_state())
    assert all(module.training for module in model.modules())
    assert not any(m._forward_pre_hooks or m._forward_hooks for m in model.modules())
    assert "norm" not in "".join(layer.name for layer in report if "conv" not in layer.name)
    assert report["encoder"].is_set
    assert "output layer" in report["head"].reason

    inside = [layer for layer in report if layer.name.startswith("conv")]
    changed = {k for k, v in model.state_dict().items() if not torch.equal(v, before[k])}
    if reason is None:
        assert any(layer.is_set for layer in inside)
        assert all(layer.is_set for layer in inside if layer.kind != "MultiheadAttention")
    else:
        assert [layer.reason.startswith(reason) for layer in inside if reason] == [True] * bool(
            reason
        ) or reason in inside[0].reason
        assert changed == {"encoder.weight"}
    for layer in inside:
        assert layer.is_set == any(key.startswith(f"{layer.name}.") for key in changed)
        assert layer.is_set or layer.reason
        assert f"{layer.name:<24} {layer.kind}" in str(report)
    for key in changed:
        assert any(key.startswith(f"{layer.name}.") for layer in report if layer.is_set)
        assert not any(part in key for part in ("bias", "att", "norm", "comp", "rnn", "film"))
    with torch.no_grad():
        assert torch.isfinite(model.eval()(x, edge_index)).all()


@pytest.mark.parametrize("name", KINDS)
def test_random_initialisers_set_the_same_layers(name, x, edge_index):
    models = [encoded(name, edge_index) for _ in range(2)]
    reports = [
        gpca_init_(models[0], x.float(), edge_index, last=True),
        xavier_init_(models[1], x.float(), edge_index),
    ]
    found = [{layer.name for layer in report if layer.is_set} for report in reports]
    assert found[0] == found[1]
    before = encoded(name, edge_index)
    before(x.float(), edge_index)
    states = [model.state_dict() for model in models]
    changed = [
        {k for k, v in before.state_dict().items() if not torch.equal(v, state[k])}
        for state in states
    ]
    assert changed[0] - {"head.weight"} == changed[1] - {"head.weight"}


LAZY = {
    "SAGEConv": lambda i, o: pyg.SAGEConv(-1, o),
    "TransformerConv": lambda i, o: pyg.TransformerConv(-1, o),
    "ARMAConv": lambda i, o: pyg.ARMAConv(-1, o, num_layers=2),
    "GENConv": lambda i, o: pyg.GENConv(-1, o),
    "LEConv": lambda i, o: pyg.LEConv(-1, o),
    "SuperGATConv": lambda i, o: pyg.SuperGATConv(-1, o),
    "MixHopConv": lambda i, o: pyg.MixHopConv(-1, o),
    "FiLMConv": lambda i, o: pyg.FiLMConv(-1, o),
    "ResGatedGraphConv": lambda i, o: pyg.ResGatedGraphConv(-1, o),
    "SSGConv": lambda i, o: pyg.SSGConv(-1, o, alpha=0.1),
}


@pytest.mark.parametrize("name", LAZY)
def test_lazy_layers_are_set(name, x, edge_index):
    model = Encoded(LAZY[name], 12)
    report = gpca_init_(model, x.float(), edge_index)
    inside = [layer for layer in report if layer.name.startswith("conv")]
    assert inside
    assert all(layer.is_set for layer in inside)


# -- reasons ----------------------------------------------------------------------------------


UNFIT = {
    "SuperGATConv": (lambda: pyg.SuperGATConv(N_IN, 3, heads=2), "lin"),
    "GatedGraphConv": (lambda: pyg.GatedGraphConv(N_IN, 1), "rnn"),
    "MixHopConv": (lambda: pyg.MixHopConv(N_IN, 2), "lins"),
    "FiLMConv": (lambda: pyg.FiLMConv(N_IN, N_OUT), "lins"),
    "ResGatedGraphConv": (lambda: pyg.ResGatedGraphConv(N_IN, N_OUT), "lin_value"),
}


@pytest.mark.parametrize("name", UNFIT)
def test_registered_rule_that_does_not_fit_is_explained(name, x, edge_index, monkeypatch):
    make, weight = UNFIT[name]
    conv = make()
    width = {"GatedGraphConv": N_IN}.get(name, N_OUT)
    model = torch.nn.Module.__new__(torch.nn.Module)
    model = Model(conv, width)
    monkeypatch.setitem(RULES, type(conv), RULES[type(conv)])
    register_layer(type(conv), weight)
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(ValueError, match=rf"conv \({name}\): it.*") as error:
        gpca_init_(model, x.float(), edge_index)
    text = str(error.value)
    assert "register_layer" in text
    assert "aggregate=" in text or "not a matrix" in text or "parametrised" in text
    for key, value in model.state_dict().items():
        assert torch.equal(value, before[key])


def test_wrong_aggregate_functions_are_explained(x, edge_index, monkeypatch):
    def fails(layer, x, edge_index):
        raise KeyError("weights")

    functions = {
        r"its aggregation fails; correct the function aggregate= .*KeyError": fails,
        r"its aggregation has shape \(120, 3\) in place of": lambda layer, x, e: x[:, :3],
        r"its aggregation has shape int in place of": lambda layer, x, e: 1,
    }
    for message, function in functions.items():
        monkeypatch.setitem(RULES, pyg.GCNConv, RULES[pyg.GCNConv])
        register_layer(pyg.GCNConv, "lin", aggregate=function)
        with pytest.raises(ValueError, match=message):
            gpca_init_(Model(pyg.GCNConv(N_IN, N_OUT), N_OUT), x.float(), edge_index)
    with pytest.raises(TypeError, match=r"root='lin' is a string; give a list of names"):
        register_layer(pyg.GCNConv, "lin", root="lin")


class PairConv(pyg.MessagePassing):
    def __init__(self):
        super().__init__(aggr="mean")
        self.mix, self.own = Linear(5, N_OUT), Linear(7, N_OUT)

    def forward(self, x, edge_index):
        return self.mix(self.propagate(edge_index, x=x)) + self.own(x[1])


def test_registered_layer_with_a_pair_of_node_sets(monkeypatch):
    torch.manual_seed(0)
    pair = (torch.randn(30, 5), torch.randn(20, 7))
    edge_index = torch.randint(20, (2, 60))
    monkeypatch.setitem(RULES, PairConv, None)
    register_layer(PairConv, "mix", root=["own"])
    model = Bipartite(PairConv())
    report = gpca_init_(model, forward=lambda model: model(pair, edge_index))
    assert report["conv"].is_set


def test_embeddings_of_nodes_are_not_set(edge_index):
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first = pyg.RGCNConv(120, N_OUT, N_RELATIONS)
            self.second = pyg.RGCNConv(N_OUT, N_OUT, N_RELATIONS)
            self.head = Linear(N_OUT, 3)

        def forward(self, x, edge_index):
            x = self.first(x, edge_index, edge_types(edge_index)).relu()
            return self.head(self.second(x, edge_index, edge_types(edge_index)).relu())

    for x, reason in [
        (None, "its first argument is a NoneType and not features"),
        (torch.arange(120), "its input are node indices, so its weight is an embedding"),
    ]:
        model = Model()
        run = lambda model, x=x: model(x, edge_index)  # noqa: E731
        report = gpca_init_(model, forward=run)
        assert report["first"].reason == reason
        assert report["second"].is_set


def test_edge_features_in_the_value_weight_are_a_reason(x, edge_index):
    features = torch.rand(edge_index.shape[1], 4)
    conv = pyg.ResGatedGraphConv(N_IN, N_OUT, edge_dim=4)
    with pytest.raises(ValueError, match=r"its weights also multiply edge features \(edge_dim\)"):
        gpca_init_(Model(conv, N_OUT, edge_attr=features), x.float(), edge_index)


def test_sums_inside_a_container_are_divided_by_the_gain(x, edge_index):
    """The first linear layer of GENConv runs before the aggregation."""
    torch.manual_seed(0)
    norms = []
    for aggr in ("add", "mean"):
        conv = pyg.GENConv(N_IN, N_OUT, aggr=aggr, norm=None)
        gpca_init_(Model(conv, N_OUT), x.float(), edge_index)
        norms.append(conv.mlp[0].weight.norm(dim=1).mean().item())
        assert conv.lin_src.weight.norm(dim=1).mean().item() == pytest.approx(1, abs=1e-5)
    assert norms[0] < 0.5 * norms[1]
