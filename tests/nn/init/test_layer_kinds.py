"""gpca_init_ on every kind of layer: it is set, or the report has the reason."""

import copy

import pytest
import torch
import torch_geometric.nn as pyg
from one_layer import N_IN, N_OUT, N_RELATIONS, OneLayer, arguments_of, edge_types, zero_biases
from torch.nn import Linear

from gpcanet.nn import gpca_init_, register_layer, xavier_init_
from gpcanet.nn.init.rules import RULES

# -- every kind of layer ----------------------------------------------------------------------


def mlp(i, o):
    return torch.nn.Sequential(Linear(i, o), torch.nn.ReLU(), Linear(o, o))


DEGREES = torch.tensor([0, 5, 20, 40])

#: Layers from i to o features, and the reason why they are not set; None if they are, and empty
#: for a layer without weights, which is not in the report.
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
        assert [reason in layer.reason for layer in inside] == [True] * (reason != "")
        assert changed == {"encoder.weight", "encoder.bias"}
    for layer in inside:
        assert layer.is_set == any(key.startswith(f"{layer.name}.") for key in changed)
        assert layer.is_set or layer.reason
        assert f"{layer.name:<24} {layer.kind}" in str(report)
    for key in changed:
        assert any(key.startswith(f"{layer.name}.") for layer in report if layer.is_set)
        assert not any(part in key for part in ("att", "norm", "comp", "rnn", "film"))
        assert "bias" not in key or not model.state_dict()[key].any()
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
    before = encoded(name, edge_index).eval()
    before(x.float(), edge_index)
    states = [model.state_dict() for model in models]
    changed = [
        {
            k
            for k, v in before.state_dict().items()
            if not torch.equal(v, state[k]) and "bias" not in k
        }
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
    model = OneLayer(conv, width)
    monkeypatch.setitem(RULES, type(conv), RULES[type(conv)])
    register_layer(type(conv), weight)
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(ValueError, match=rf"conv \({name}\): it.*") as error:
        gpca_init_(model, x.float(), edge_index)
    text = str(error.value)
    assert "register_layer" in text
    assert "aggregate=" in text or "rnn is a GRUCell and not a linear layer" in text
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
            gpca_init_(OneLayer(pyg.GCNConv(N_IN, N_OUT), N_OUT), x.float(), edge_index)
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
    register_layer(PairConv, "mix", "own")
    model = OneLayer(PairConv())
    with pytest.raises(ValueError, match=r"conv \(PairConv\): its weights have different shapes"):
        gpca_init_(model, forward=lambda model: model(pair, edge_index))
    register_layer(PairConv, "mix", root=["own"])
    report = gpca_init_(model, forward=lambda model: model(pair, edge_index))
    assert report["conv"].is_set
    with torch.no_grad():
        zero_biases(model.conv)
        F = torch.cat([pyg.SimpleConv("mean")(pair, edge_index), pair[1]], 1)
        W = torch.cat([model.conv.mix.weight.T, model.conv.own.weight.T])
        torch.testing.assert_close(model.conv(pair, edge_index), F @ W)


def test_embeddings_of_nodes_are_not_set(edge_index):
    class Embedding(torch.nn.Module):
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
        model = Embedding()
        run = lambda model, x=x: model(x, edge_index)  # noqa: E731
        report = gpca_init_(model, forward=run)
        assert report["first"].reason == reason
        assert report["second"].is_set


@pytest.mark.parametrize("n_iter", ["gcn", 2])
def test_linear_layer_with_one_weight_per_node_type(n_iter, x, edge_index):
    conv = pyg.HeteroLinear(N_IN, N_OUT, num_types=3).double()
    types = torch.arange(120) % 3
    model = OneLayer(conv).double()

    def run(model):
        return model.head(model.conv(x, types).relu())

    gpca_init_(model, x, edge_index, forward=run, pairs=False, n_iter=n_iter)
    centered = x if n_iter == "gcn" else x - x.mean(0)
    leading = torch.linalg.eigh(centered.T @ centered)[1].flip(1)[:, :N_OUT]
    for weight in conv.weight:
        weight = weight / weight.norm(dim=0)
        torch.testing.assert_close(weight @ weight.T, leading @ leading.T)


def test_edge_features_in_the_value_weight_are_a_reason(x, edge_index):
    features = torch.rand(edge_index.shape[1], 4)
    conv = pyg.ResGatedGraphConv(N_IN, N_OUT, edge_dim=4)
    with pytest.raises(ValueError, match=r"its weights also multiply edge features \(edge_dim\)"):
        gpca_init_(OneLayer(conv, N_OUT, edge_attr=features), x.float(), edge_index)


def test_sums_inside_a_container_are_divided_by_the_gain(x, edge_index):
    """The first linear layer of GENConv runs before the aggregation."""
    torch.manual_seed(0)
    norms = []
    for aggr in ("add", "mean"):
        conv = pyg.GENConv(N_IN, N_OUT, aggr=aggr, norm=None)
        gpca_init_(OneLayer(conv, N_OUT), x.float(), edge_index, spectrum="paper")
        norms.append(conv.mlp[0].weight.norm(dim=1).mean().item())
        assert conv.lin_src.weight.norm(dim=1).mean().item() == pytest.approx(1, abs=1e-5)
    assert norms[0] < 0.5 * norms[1]


class LastLayer(torch.nn.Module):
    def __init__(self, conv, **arguments):
        super().__init__()
        self.first, self.conv, self.arguments = Linear(N_IN, N_IN), conv, arguments

    def forward(self, x, edge_index):
        return self.conv(self.first(x).relu(), edge_index, **self.arguments)


@pytest.mark.parametrize(
    "make",
    [
        lambda: pyg.LEConv(N_IN, 3),
        lambda: pyg.RGCNConv(N_IN, 3, N_RELATIONS),
        lambda: pyg.SAGEConv(N_IN, 3, aggr=["mean", "max"]),
        lambda: pyg.SAGEConv(N_IN, 3),
    ],
)
def test_output_layer_by_regression(make, x, edge_index, blocks):
    conv, y = make().double(), torch.from_numpy(blocks.y).long()
    arguments = {"edge_type": edge_types(edge_index)} if isinstance(conv, pyg.RGCNConv) else {}
    model, train = LastLayer(conv, **arguments).double(), torch.arange(0, 120, 2)
    report = gpca_init_(model, x, edge_index, head="ridge", y=y, train_mask=train)
    assert report["conv"].reason == "ridge regression"
    with torch.no_grad():
        scores = model.eval()(x, edge_index)[train]
        # The intercept of a ridge regression is not penalised, so the residuals have mean zero.
        residual = scores - torch.nn.functional.one_hot(y[train], 3)
    assert residual.mean(0).abs().max() < 1e-8
    assert (scores.argmax(1) == y[train]).double().mean() > 0.4  # a guess: one third


def test_output_layer_with_further_steps_has_no_regression(x, edge_index, blocks):
    model = LastLayer(pyg.MixHopConv(N_IN, 1))
    y = torch.from_numpy(blocks.y).long()
    before = copy.deepcopy(model.state_dict())
    message = "sets a linear output layer, but layer conv is a MixHopConv; add a linear layer"
    with pytest.raises(ValueError, match=message):
        gpca_init_(model, x.float(), edge_index, head="ridge", y=y, train_mask=torch.arange(60))
    for key, value in model.state_dict().items():
        assert torch.equal(value, before[key])
