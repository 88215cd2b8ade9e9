"""What all initialisers other than gpca_init_ have in common."""

import pytest
import torch
import torch_geometric.nn as pyg
from deep_models import MODELS, make_model
from torch_geometric.data import Data, HeteroData

from gpcanet.errors import UserError
from gpcanet.nn import (
    g_init_,
    gpca_init_,
    he_init_,
    lsuv_init_,
    orthogonal_init_,
    spog_init_,
    virgo_init_,
    xavier_init_,
)

WITH_A_PASS = (lsuv_init_, virgo_init_, spog_init_)
INITS = (xavier_init_, he_init_, orthogonal_init_, g_init_, *WITH_A_PASS)


def state_of(model):
    return {name: value.clone() for name, value in model.state_dict().items()}


def changed(model, before):
    state = model.state_dict()
    return {name for name, value in before.items() if not torch.equal(value, state[name])}


@pytest.fixture(scope="module")
def set_by_gpca(x, edge_index):
    """Names of the weights that gpca_init_ sets, by model."""
    names = {}
    for name in MODELS:
        model = make_model(name)
        if name == "lazy":
            model(x.float(), edge_index)
        before = state_of(model)
        gpca_init_(model, x.float(), edge_index, last=True, spectrum="paper")
        names[name] = changed(model, before)
    return names


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("init", INITS)
def test_exactly_the_weights_of_gpca_init_are_set(name, init, x, edge_index, set_by_gpca):
    model = make_model(name)
    if name == "lazy":
        model(x.float(), edge_index)
    model.train()
    before, random = state_of(model), torch.get_rng_state()
    report = init(model, x.float(), edge_index, seed=3)
    assert changed(model, before) == set_by_gpca[name]
    assert torch.equal(torch.get_rng_state(), random)
    assert all(module.training for module in model.modules())
    assert all(torch.isfinite(value).all() for value in model.state_dict().values())
    assert report.n_set == sum(layer.in_channels is not None for layer in report)


@pytest.mark.parametrize("name", ["PyG GCN", "PyG GraphSAGE", "lazy"])
@pytest.mark.parametrize("init", WITH_A_PASS)
def test_weights_depend_on_seed_only(name, init, x, edge_index):
    model, again, other = (make_model(name) for _ in range(3))
    init(model, x.float(), edge_index, seed=1)
    torch.randn(5)
    init(again, x.float(), edge_index, seed=1)
    init(other, x.float(), edge_index, seed=2)
    weights = [m.convs[0].state_dict() for m in (model, again, other)]
    matrices = [name for name, value in weights[0].items() if value.dim() == 2]
    assert matrices
    for key in matrices:
        assert torch.equal(weights[0][key], weights[1][key])
        assert not torch.equal(weights[0][key], weights[2][key])


BAD = {
    "list of features": ({"x": [[1.0]]}, "x is a list; give the features of all nodes"),
    "NaN": ({"x": torch.full((120, 10), torch.nan)}, "x contains NaN or infinite values; impute"),
    "list of edges": ({"edge_index": [[0], [1]]}, "edge_index is a list; give a tensor"),
    "no edges": ({"edge_index": None}, "the model has graph convolutions; give edge_index"),
    "edges beyond": ({"edge_index": torch.tensor([[0], [120]])}, r"node 120\b.* 0 to 119"),
    "few weights": ({"edge_weight": torch.ones(3)}, r"edge_weight of shape \(3,\) for"),
    "seed": ({"seed": -1}, "seed=-1 must be"),
    "no seed": ({"seed": None}, "seed=None must be an integer"),
}
BAD_IN_PASS = {
    "double": ({"x": torch.zeros(120, 10).double()}, "weights of dtype float32 but its features"),
    "width": ({"x": torch.zeros(120, 9)}, "layer convs.0 has 10 input features but gets 9"),
}


@pytest.mark.parametrize(
    ("init", "kind"),
    [
        *((init, kind) for init in INITS for kind in BAD),
        *((init, kind) for init in WITH_A_PASS for kind in BAD_IN_PASS),
    ],
)
def test_bad_input_leaves_the_model_unchanged(init, kind, x, edge_index):
    parts, message = (BAD | BAD_IN_PASS)[kind]
    model = make_model("PyG GCN")
    before = state_of(model)
    with pytest.raises(UserError, match=message) as caught:
        init(model, **{"x": x.float(), "edge_index": edge_index} | parts)
    assert "\n" not in str(caught.value)
    assert not changed(model, before)


@pytest.mark.parametrize("init", INITS)
def test_model_must_be_a_module_with_weights(init, x):
    with pytest.raises(TypeError, match=r"model is a str; give a torch\.nn\.Module"):
        init("gcn", x.float())
    with pytest.raises(ValueError, match="no layer of the model was set: it has no weights"):
        init(torch.nn.Identity(), x.float())


@pytest.mark.parametrize("init", WITH_A_PASS)
def test_error_in_the_pass_restores_the_model(init, x, edge_index):
    class Fails(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first = pyg.GCNConv(10, 4)

        def forward(self, x, edge_index):
            self.first(x, edge_index)
            raise KeyError("later")

    model = Fails()
    before = state_of(model)
    with pytest.raises(KeyError, match="later"):
        init(model, x.float(), edge_index)
    assert not changed(model, before)
    assert not model.first._forward_pre_hooks


@pytest.mark.parametrize("init", INITS)
def test_layers_that_cannot_be_set_are_reported(init, x, edge_index):
    class Various(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.frozen, self.tied = (torch.nn.Linear(10, 10) for _ in range(3))
            self.frozen.requires_grad_(False)
            self.tied.weight = self.first.weight

        def forward(self, x):
            return self.tied(self.frozen(self.first(x)))

    model = Various()
    frozen = model.frozen.weight.clone()
    report = init(model, x.float())
    assert [layer.name for layer in report if layer.is_set] == ["first"]
    assert report["frozen"].reason == "its weights are frozen"
    assert report["tied"].reason == "shares its weights with a layer that was set before"
    assert torch.equal(model.frozen.weight, frozen)


@pytest.mark.parametrize("init", WITH_A_PASS)
def test_layer_that_does_not_run_is_left_alone(init, x, edge_index):
    class Idle(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.used, self.idle = pyg.GCNConv(10, 4), pyg.GCNConv(10, 4)

        def forward(self, x, edge_index):
            return self.used(x, edge_index)

    model = Idle()
    before = state_of(model)
    report = init(model, x.float(), edge_index)
    assert report["idle"].reason == "the forward pass did not reach it"
    assert changed(model, before) == {"used.lin.weight"}


@pytest.mark.parametrize("init", WITH_A_PASS)
def test_sparse_features_give_the_same_weights(init, x, edge_index):
    sparse = torch.where(x > 1, x, 0).float()
    models = [make_model("our GCN") for _ in range(2)]
    for model, features in zip(models, (sparse, sparse.to_sparse_csr()), strict=True):
        init(model, features, edge_index)
    for dense, other in zip(*(m.parameters() for m in models), strict=True):
        torch.testing.assert_close(dense, other, rtol=1e-4, atol=1e-6)  # sums in another order


class NamedArguments(torch.nn.Module):
    """Gives the edges to its layers before the features."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.convs = torch.nn.ModuleList(pyg.GCNConv(10, 10) for _ in range(5))

    def forward(self, x, edge_index, edge_weight=None):
        for conv in self.convs:
            x = conv(edge_index=edge_index, edge_weight=edge_weight, x=x).relu()
        return x


class InOrder(NamedArguments):
    def forward(self, x, edge_index, edge_weight=None):
        for conv in self.convs:
            x = conv(x, edge_index, edge_weight).relu()
        return x


@pytest.mark.parametrize("init", [*INITS, gpca_init_])
def test_data_and_named_arguments_give_the_same_weights(init, x, edge_index):
    weight = 1.0 + edge_index.sum(0) % 3
    data = Data(x=x.float(), edge_index=edge_index, edge_weight=weight)
    expected, named, of_data = InOrder(), NamedArguments(), InOrder()
    assert init(expected, x.float(), edge_index, weight).n_set >= 4
    init(named, x.float(), edge_index, weight)
    init(of_data, data)
    for model in (named, of_data):
        for found, of_expected in zip(model.parameters(), expected.parameters(), strict=True):
            assert torch.equal(found, of_expected)


@pytest.mark.parametrize("init", [virgo_init_, spog_init_])
def test_several_node_types_are_refused(init, x, edge_index):
    data = HeteroData({"a": {"x": x.float()}, ("a", "to", "a"): {"edge_index": edge_index}})
    model = pyg.HeteroConv({("a", "to", "a"): pyg.GCNConv(10, 4)})
    with pytest.raises(UserError, match="needs the features of one set of nodes; give x, or use"):
        init(model, data)


@pytest.mark.parametrize("init", INITS)
def test_spectral_norms_are_left_alone(init, x, edge_index):
    class Normed(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first = torch.nn.utils.parametrizations.spectral_norm(torch.nn.Linear(10, 8))
            self.conv = pyg.GCNConv(8, 3)

        def forward(self, x, edge_index):
            return self.conv(self.first(x).relu(), edge_index)

    model = Normed().train()
    before = [tensor.clone() for tensor in (*model.first.parameters(), *model.first.buffers())]
    report = init(model, x.float(), edge_index)
    assert "computed from others" in report["first"].reason
    after = *model.first.parameters(), *model.first.buffers()
    assert all(map(torch.equal, before, after))
