"""Output layers are found and left alone, in models of any structure."""

import copy
from dataclasses import dataclass
from itertools import combinations

import pytest
import torch
import torch_geometric.nn as pyg
from hypothesis import given
from hypothesis import strategies as st
from properties import examples
from torch.nn import Linear, Parameter
from torch.utils.checkpoint import checkpoint
from torch_geometric.data import Data

from gpcanet.nn import GCN, GPCANet, gpca_init_
from gpcanet.nn.init.outputs import find_output_layers

W = 8


class Model(torch.nn.Module):
    """Layers by name, and a function of the model, x and edge_index."""

    def __init__(self, forward, **layers):
        super().__init__()
        for name, layer in layers.items():
            setattr(self, name, layer)
        self.function = forward

    def forward(self, x, edge_index):
        return self.function(self, x, edge_index)


def gcn(i=W, o=W):
    return pyg.GCNConv(i, o)


@dataclass
class Result:
    """Result object as some libraries return it."""

    logits: torch.Tensor
    hidden: torch.Tensor


def hidden(m, x, e):
    return m.b(m.a(x, e).relu(), e).relu()


def two(**last):
    """Two hidden convolutions a and b, and the layers after them."""
    return {"a": gcn(10), "b": gcn()} | last


class GPRGNN(torch.nn.Module):
    """Perceptron followed by a propagation with learnt coefficients."""

    def __init__(self):
        super().__init__()
        self.a, self.out = Linear(10, W), Linear(W, 3)
        self.coefficients = Parameter(torch.ones(4))

    def forward(self, x, edge_index):
        x = self.out(self.a(x).relu())
        terms = [self.coefficients[0] * x]
        for c in self.coefficients[1:]:
            terms.append(c * pyg.SimpleConv("mean")(terms[-1], edge_index))
        return sum(terms).log_softmax(1)


class OwnWeight(torch.nn.Module):
    """A parameter of the model itself, used before or after its layers."""

    def __init__(self, where):
        super().__init__()
        self.a, self.b = gcn(10 + 2 * (where == "first")), gcn(W, 3)
        shape = {"first": (120, 2), "last": (3, 3), "scale": (1, 3), "shift": (120, 3)}[where]
        self.weight, self.where = Parameter(torch.rand(shape)), where

    def forward(self, x, e):
        x = torch.cat([x, self.weight], 1) if self.where == "first" else x
        x = self.b(self.a(x, e).relu(), e)
        if self.where == "last":
            return torch.einsum("nk,kc->nc", x, 2 * self.weight.T)
        if self.where == "scale":
            return x * self.weight
        return x + self.weight if self.where == "shift" else x


class NoGrad(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.out = gcn(10), gcn(), pyg.TransformerConv(W, 3)

    @torch.no_grad()
    def forward(self, x, e):
        return self.out(hidden(self, x, e), e)


class Residual(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = Linear(10, W)
        self.convs = torch.nn.ModuleList(gcn() for _ in range(4))

    def forward(self, x, e):
        x = self.first(x)
        for conv in self.convs:
            x = x + conv(x, e).relu()
        return x


def deeper_gcn():
    """PyG's DeepGCNLayer, from its own example."""
    layers = [
        pyg.DeepGCNLayer(gcn(), torch.nn.LayerNorm(W), torch.nn.ReLU(), block="res+")
        for _ in range(3)
    ]

    def forward(m, x, e):
        x = m.encoder(x)
        x = m.layers[0].conv(x, e)
        for layer in m.layers[1:]:
            x = layer(x, e)
        return m.out(m.layers[0].act(m.layers[0].norm(x)))

    return Model(
        forward, encoder=Linear(10, W), layers=torch.nn.ModuleList(layers), out=Linear(W, 3)
    )


def vgae():
    encoder = Model(
        lambda m, x, e: (m.mu((h := m.a(x, e).relu()), e), m.logstd(h, e)),
        a=gcn(10), mu=gcn(W, 2), logstd=gcn(W, 2),
    )  # fmt: skip
    return pyg.VGAE(encoder)


#: Models and their output layers.
CASES = {
    "PyG GCN": (lambda: pyg.GCN(10, W, 3, 3), {"convs.2"}),
    "our GCN": (lambda: GCN(10, W, 3, 3), {"convs.2"}),
    "GPCANet": (lambda: GPCANet(10, W, 2, 3), {"head.0"}),
    "PyG GIN": (lambda: pyg.GIN(10, W, 2, 3), {"convs.1.nn.lins.1"}),
    "jumping": (lambda: pyg.GCN(10, W, 3, 3, jk="cat"), {"lin"}),
    "jumping LSTM": (lambda: pyg.GCN(10, W, 3, 3, jk="lstm"), {"lin"}),
    "jumping, maximum": (lambda: pyg.GCN(10, W, 3, jk="max"), {"lin"}),
    "GraphUNet": (lambda: pyg.GraphUNet(10, W, 3, depth=1), {"up_convs.0"}),
    "norm after it": (lambda: pyg.MLP([10, W, 3], plain_last=False), {"lins.1"}),
    "residual": (Residual, {"convs.3"}),
    "DeepGCNLayer": (deeper_gcn, {"out"}),
    "VGAE": (vgae, {"encoder.mu", "encoder.logstd"}),
    "GPRGNN": (GPRGNN, {"out"}),
    "no rule": (
        lambda: Model(lambda m, x, e: m.out(hidden(m, x, e), e),
                      **two(out=pyg.TransformerConv(W, 3))), {"out"}),
    "no rule, GRU": (
        lambda: Model(lambda m, x, e: m.out(hidden(m, x, e))[0], **two(out=torch.nn.GRU(W, 3))),
        {"out"}),
    "no rule, bilinear": (
        lambda: Model(lambda m, x, e: m.out(h := hidden(m, x, e), h),
                      **two(out=torch.nn.Bilinear(W, W, 3))), {"out"}),
    "no rule, two heads": (
        lambda: Model(lambda m, x, e: (m.p(h := hidden(m, x, e), e), m.q(h, e)),
                      **two(p=pyg.TransformerConv(W, 3), q=gcn(W, 2))), {"p", "q"}),
    "frozen": (
        lambda: Model(lambda m, x, e: m.out(hidden(m, x, e)),
                      **two(out=Linear(W, 3).requires_grad_(False))), {"out"}),
    "dict of heads": (
        lambda: Model(lambda m, x, e: {"kind": m.p(h := hidden(m, x, e)), "age": [m.q(h)]},
                      **two(p=Linear(W, 3), q=Linear(W, 1))), {"p", "q"}),
    "object with hidden features": (
        lambda: Model(lambda m, x, e: Result(m.out(h := hidden(m, x, e)), h),
                      **two(out=Linear(W, 3))), {"out"}),
    "PyG Data": (
        lambda: Model(lambda m, x, e: Data(x=m.out(hidden(m, x, e)), edge_index=e),
                      **two(out=Linear(W, 3))), {"out"}),
    "joined heads": (
        lambda: Model(lambda m, x, e: torch.cat([m.p(h := hidden(m, x, e)), m.q(h)], 1).tanh(),
                      **two(p=Linear(W, 3), q=Linear(W, 1))), {"p", "q"}),
    "deep supervision": (
        lambda: Model(lambda m, x, e: [m.p(h := m.a(x, e).relu()), m.q(m.b(h, e).relu())],
                      **two(p=Linear(W, 3), q=Linear(W, 3))), {"p", "q"}),
    "attention returned": (
        lambda: Model(lambda m, x, e: m.out(hidden(m, x, e), e, return_attention_weights=True),
                      **two(out=pyg.GATConv(W, 3))), {"out"}),
    "unused branch": (
        lambda: Model(lambda m, x, e: (m.p(h := hidden(m, x, e)), m.q(h))[0],
                      **two(p=Linear(W, 3), q=Linear(W, 3))), {"p"}),
    "shared head": (
        lambda: Model(lambda m, x, e: m.b(m.a(m.b(m.a(x, e), e), e), e), a=gcn(10, 10),
                      b=gcn(10, 10)), {"b"}),
    "own weight last": (lambda: OwnWeight("last"), set()),
    "own weight first": (lambda: OwnWeight("first"), {"b"}),
    "own scale": (lambda: OwnWeight("scale"), {"b"}),
    "own shift": (lambda: OwnWeight("shift"), {"b"}),
    "attention of torch": (
        lambda: Model(lambda m, x, e: m.out(h := hidden(m, x, e), h, h)[0],
                      **two(out=torch.nn.MultiheadAttention(W, 2))), set()),
    "no autograd": (NoGrad, {"out"}),
    "detached": (
        lambda: Model(lambda m, x, e: m.out(hidden(m, x, e)).argmax(1), **two(out=Linear(W, 3))),
        {"out"}),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:Sparse invariant checks")  # of PyG's GraphUNet
@pytest.mark.parametrize("name", CASES)
def test_all_layers_but_output_layers_are_set(name, x, edge_index):
    make, expected = CASES[name]
    x = x.float()
    torch.manual_seed(0)
    model = make()
    before = copy.deepcopy(model.state_dict())
    trained = {key: parameter.requires_grad for key, parameter in model.named_parameters()}
    report = gpca_init_(model, x, edge_index)
    outputs = {layer.name for layer in report if "output layer" in layer.reason}
    known = {layer.name for layer in report if layer.in_channels}
    assert outputs == expected & known
    changed = {key for key, value in model.state_dict().items() if not value.equal(before[key])}
    assert not [key for key in changed for output in expected if key.startswith(f"{output}.")]
    hidden = {layer.name for layer in report if layer.in_channels} - expected
    assert hidden
    for layer in hidden:
        assert report[layer].is_set, report[layer]
        assert any(key.startswith(f"{layer}.") for key in changed)
    assert trained == {key: parameter.requires_grad for key, parameter in model.named_parameters()}
    assert not any(module._forward_hooks for module in model.modules())


@pytest.mark.parametrize("name", ["PyG GCN", "VGAE", "dict of heads", "no rule, two heads"])
def test_output_layers_are_set_on_request(name, x, edge_index):
    make, expected = CASES[name]
    report = gpca_init_(make(), x.float(), edge_index, last=True)
    known = {layer.name for layer in report if layer.in_channels}
    assert all(report[layer].is_set for layer in known)
    assert expected & known


def test_output_layers_of_a_model_that_is_called_by_another_method(x, edge_index):
    model = CASES["VGAE"][0]()

    def encode(model):
        return model.encoder(x.float(), edge_index)

    def encode_without_result(model):
        encode(model)

    for forward in (encode, encode_without_result):
        report = gpca_init_(model, x.float(), edge_index, forward=forward)
        assert [layer.is_set for layer in report] == [True, False, False]


def test_pass_saves_no_tensors_for_backward(x, edge_index):
    model, returned = pyg.GCN(10, W, 3, 3), []

    def run():
        returned.append(model(x.float(), edge_index))
        return returned[0]

    assert find_output_layers(model, run) == {"convs.2"}
    with pytest.raises(TypeError, match=r"unpack_hook expected to be a Tensor but got .*NoneType"):
        returned[0].sum().backward()


# -- random models --------------------------------------------------------------------------------


class Wired(torch.nn.Module):
    """Linear layers whose input is a sum of earlier results, or x."""

    def __init__(self, inputs, returned, form):
        super().__init__()
        self.layers = torch.nn.ModuleList(Linear(4, 4) for _ in inputs)
        self.inputs, self.returned, self.form = inputs, returned, form

    def forward(self, x):
        results = []
        for layer, sources in zip(self.layers, self.inputs, strict=True):
            results.append(layer(sum((results[i] for i in sources), start=x * 0 if sources else x)))
            results[-1] = results[-1].relu()
        found = [results[i].tanh() for i in self.returned]
        return {"tuple": tuple(found), "dict": dict(enumerate(found)), "sum": sum(found)}[self.form]


@st.composite
def wirings(draw):
    n = draw(st.integers(1, 7))
    inputs = [draw(st.sets(st.integers(0, i - 1))) if i else set() for i in range(n)]
    returned = draw(st.sets(st.integers(0, n - 1), min_size=1))
    return inputs, returned, draw(st.sampled_from(["tuple", "dict", "sum"]))


@examples(40)
@given(wirings())
def test_output_layers_of_random_models(wiring):
    inputs, returned, _ = wiring
    needed = set(returned)  # layers that the result depends on
    for layer in reversed(range(len(inputs))):
        if layer in needed:
            needed |= inputs[layer]
    used = set().union(*(inputs[layer] for layer in needed))
    model, x = Wired(*wiring), torch.randn(6, 4)
    assert find_output_layers(model, lambda: model(x)) == {f"layers.{i}" for i in returned - used}


# -- towers -----------------------------------------------------------------------------------


@examples(25)
@given(
    towers=st.integers(2, 4),
    width=st.integers(1, 4),
    pairs=st.booleans(),
    depth=st.integers(1, 2),
    divided=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_every_tower_gets_its_own_eigenvectors(towers, width, pairs, depth, divided, seed):
    torch.manual_seed(seed)
    n_in = towers * 3
    conv = pyg.PNAConv(
        n_in, towers * width, ["mean", "max"], ["identity"], torch.tensor([0, 5, 20]),
        towers=towers, pre_layers=depth, post_layers=depth, divide_input=divided,
    )  # fmt: skip
    x, ends = torch.randn(30, n_in), torch.randint(30, (100,))
    edge_index = torch.stack([ends, ends.roll(1)])
    gpca_init_(conv, x, edge_index, pairs=pairs)
    for networks in (conv.pre_nns, conv.post_nns):
        first = [network[0].weight for network in networks]
        for one, other in combinations(first, 2):
            assert not torch.allclose(one, other, atol=1e-3)
            assert not torch.allclose(one, -other, atol=1e-3)
    first = torch.cat([network[0].weight for network in conv.pre_nns])
    if not divided and len(first) <= first.shape[1] * (1 + pairs):
        # Together the towers have the eigenvectors of one layer of their total width.
        rank = torch.linalg.matrix_rank(first, rtol=1e-3)
        per_tower = (conv.F_in + 1) // 2 if pairs else conv.F_in
        assert rank == min(towers * per_tower, first.shape[1])


def test_all_towers_are_divided_by_the_gain(x, edge_index):
    torch.manual_seed(0)
    conv = pyg.PNAConv(10, 8, ["sum"], ["identity"], torch.tensor([0, 5, 20]), towers=4)
    gpca_init_(conv, x.float(), edge_index)
    norms = [network[0].weight.norm(dim=1).mean().item() for network in conv.post_nns]
    assert max(norms) < 0.5  # a sum over neighbours increases the norm


class Linked:
    """A result that refers to itself."""

    def __init__(self, scores):
        self.scores, self.own = scores, self


def test_result_that_refers_to_itself(x, edge_index):
    model = Model(lambda m, x, e: Linked(m.out(hidden(m, x, e))), **two(out=Linear(W, 3)))
    report = gpca_init_(model, x.float(), edge_index)
    assert [layer.name for layer in report if not layer.is_set] == ["out"]


def test_output_layers_are_found_in_inference_mode(x, edge_index):
    def forward(m, x, e):
        last = hidden(m, x, e)
        return m.first(last), m.second(last)

    model = Model(forward, **two(first=Linear(W, 3), second=Linear(W, 2)))
    features = x.float()
    with torch.inference_mode():
        report = gpca_init_(model, features, edge_index)
    assert {layer.name for layer in report if not layer.is_set} == {"first", "second"}


def test_output_layer_in_a_reentrant_checkpoint():
    def forward(m, x, e):
        tail = lambda h: m.out(m.b(h, e).relu())  # noqa: E731
        return checkpoint(tail, m.a(x, e).relu(), use_reentrant=True)

    model = Model(forward, a=gcn(), b=gcn(), out=Linear(W, 3))
    edges = torch.stack([torch.arange(10), torch.arange(10).roll(1)])
    found = find_output_layers(model, lambda: model(torch.randn(10, W), edges))
    assert found == {"out"}


def test_layers_that_also_return_edges():
    """Positions of edges have no gradient, unlike the features beside them."""

    def forward(m, x, e):
        h = m.a(x, e).relu()
        mean = m.mean(h, e)
        deviation, attention = m.deviation(h, e, return_attention_weights=True)
        return mean, deviation, attention

    model = Model(forward, a=gcn(), mean=gcn(), deviation=pyg.GATConv(W, W))
    edges = torch.stack([torch.arange(10), torch.arange(10).roll(1)])
    found = find_output_layers(model, lambda: model(torch.randn(10, W), edges))
    assert found == {"mean", "deviation"}
