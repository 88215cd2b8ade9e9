"""gpca_init_ on every kind of layer in deep models, and the random initialisers."""

import copy

import numpy as np
import pytest
import torch
import torch_geometric.nn as pyg
from deep_models import CONVOLUTIONS, DEPTH, MODELS, WIDTH, Stack, make_model
from truth import dense_P

from gpcanet.nn import (
    GCN,
    InitReport,
    g_init_,
    gpca_init_,
    he_init_,
    orthogonal_init_,
    register_layer,
    xavier_init_,
)
from gpcanet.nn.init.rules import RULES


@pytest.mark.parametrize("name", MODELS)
def test_all_layers_but_the_last_are_set_and_nothing_else_changes(name, x, edge_index):
    x = x.float()
    model = make_model(name)
    if name == "lazy":
        model(x, edge_index)
    before = copy.deepcopy(model.state_dict())
    random = torch.get_rng_state()
    report = gpca_init_(model, x, edge_index)
    assert torch.equal(random, torch.get_rng_state())
    assert model.training
    assert all(not module._forward_pre_hooks for module in model.modules())

    assert isinstance(report, InitReport)
    reached = [layer for layer in report if layer.in_channels]
    assert report.n_set == len(reached) - 1 >= (1 if name == "APPNP" else DEPTH - 1)
    assert not reached[-1].is_set
    assert "output layer" in reached[-1].reason
    assert all(0 < layer.kept <= 1 for layer in reached[:-1])
    assert all(layer.reason for layer in report if not layer.is_set)

    changed = {
        key for key, value in model.state_dict().items() if not torch.equal(value, before[key])
    }
    expected = {f"{layer.name}." for layer in report if layer.is_set}
    assert changed
    assert all(any(key.startswith(prefix) for prefix in expected) for key in changed)
    assert not any("att" in key or "norm" in key for key in changed)
    assert not any(model.state_dict()[key].any() for key in changed if "bias" in key)
    for prefix in expected:
        assert any(key.startswith(prefix) for key in changed), prefix

    again = make_model(name)
    if name == "lazy":
        again(x, edge_index)
    assert gpca_init_(again, x, edge_index) == report
    for key, value in again.state_dict().items():
        assert torch.equal(value, model.state_dict()[key])
    model.eval()
    with torch.no_grad():
        assert torch.isfinite(model(x, edge_index)).all()


@pytest.mark.parametrize("name", ["GCNConv", "our GCN", "PyG GCN"])
def test_gcn_weights_are_eigenvectors_of_the_paper(name, blocks, x, edge_index):
    model = make_model(name).double()
    gpca_init_(model, x, edge_index, spectrum="paper")
    weight = next(value for key, value in model.state_dict().items() if "convs.0" in key
                  and value.dim() == 2).T  # fmt: skip
    M = x.T @ torch.from_numpy(dense_P(blocks.graph)) @ x
    _, vectors = torch.linalg.eigh((M + M.T) / 2)
    leading = vectors.flip(1)[:, :4]
    torch.testing.assert_close((weight[:, :4].T @ leading).abs(), torch.eye(4, dtype=torch.float64),
                               atol=1e-9, rtol=0)  # fmt: skip
    torch.testing.assert_close(weight[:, 4:], -weight[:, :4])


def test_random_walk_gcn_weights_are_eigenvectors_of_its_aggregation(blocks, x, edge_index):
    """H^T P H is symmetrised, as for every layer that averages neighbours."""
    model = GCN(10, 4, 2, 3, normalization="rw").double()
    gpca_init_(model, x, edge_index, pairs=False, spectrum="paper")
    M = x.T @ torch.from_numpy(dense_P(blocks.graph, "rw")) @ x
    _, vectors = torch.linalg.eigh((M + M.T) / 2)
    along = model.convs[0].lin.weight @ vectors.flip(1)[:, :4]
    torch.testing.assert_close(along.abs(), torch.eye(4).double(), atol=1e-9, rtol=0)


def own_aggregation(A, name, x):
    """F of some layers, computed from the adjacency matrix."""
    n = len(A)
    eye, degree = torch.eye(n, dtype=torch.float64), A.sum(1)
    mean = A / degree.clamp(min=1)[:, None]
    scale = torch.where(degree > 0, degree.clamp(min=1) ** -0.5, 0)
    normalised = scale[:, None] * A * scale[None, :]
    if name == "GraphConv":
        return (A + eye) @ x
    if name == "SAGEConv":
        return (mean + eye) @ x
    if name == "GATConv":
        return (A + eye) / (degree + 1)[:, None] @ x
    if name == "TAGConv":
        return (eye + normalised + normalised @ normalised) @ x
    if name == "ChebConv":  # PyG scales by twice the largest entry of L, which is 1
        L = eye - normalised - eye
        return (eye + L + 2 * L @ L - eye) @ x
    raise KeyError(name)


@pytest.mark.parametrize("name", ["GraphConv", "SAGEConv", "GATConv", "TAGConv", "ChebConv"])
def test_weights_are_eigenvectors_of_the_layers_own_aggregation(name, blocks, x, edge_index):
    model = make_model(name).double()
    gpca_init_(model, x, edge_index, pairs=False, spectrum="paper")
    A = torch.from_numpy(blocks.graph.adjacency.toarray())
    F = own_aggregation(A, name, x)
    M = x.T @ F
    _, vectors = torch.linalg.eigh((M + M.T) / 2)
    leading = vectors.flip(1)[:, :WIDTH]
    weights = [v.T for k, v in model.state_dict().items()
               if k.startswith("convs.0.lin") and v.dim() == 2]  # fmt: skip
    gain = max(1.0, float(F.norm() / x.norm()))
    for weight in weights:
        torch.testing.assert_close(weight * gain @ weight.T * gain, leading @ leading.T)
    bias = model.convs[0].state_dict().get("lin_rel.bias")
    bias = model.convs[0].state_dict().get("lin_l.bias") if bias is None else bias
    if name != "GATConv":  # its attention coefficients are not equal
        expected = F @ weights[0] + (0 if bias is None else bias)
        torch.testing.assert_close(model.convs[0](x, edge_index), expected)


@pytest.mark.parametrize("name", ["GraphConv", "GINConv", "PyG GIN"])
def test_norm_does_not_grow_with_depth_for_sums_over_neighbours(name, x, edge_index):
    model = make_model(name).double().eval()
    gpca_init_(model, x, edge_index, spectrum="paper")
    norms = []
    for conv in model.convs:
        conv.register_forward_hook(lambda *a: norms.append(a[2].norm().item()))
    with torch.no_grad():
        model(x, edge_index)
    assert 0.05 < norms[-2] / norms[0] < 2  # without the division by the gain, about 6^3


def test_f_with_fixed_point_alpha_or_ghost_edges(blocks, x, edge_index, visible):
    P = torch.from_numpy(dense_P(blocks.graph))
    ghost = torch.from_numpy(dense_P(blocks.graph, labels=visible.numpy(), beta=1.0))
    H = x - x.mean(0)
    steps = H
    for _ in range(3):
        steps = 0.8 * (P @ steps) + 0.2 * H
    cases = [
        ({"n_iter": 3, "alpha": 4.0}, H, steps),
        ({"alpha": 0.3}, x, 0.7 * x + 0.3 * P @ x),
        ({"beta": 0.4, "y": visible}, x, 0.6 * P @ x + 0.4 * ghost @ x),
    ]
    for settings, left, F in cases:
        model = make_model("PyG GCN").double()
        gpca_init_(model, x, edge_index, pairs=False, **settings, spectrum="paper")
        M = left.T @ F
        _, vectors = torch.linalg.eigh((M + M.T) / 2)
        leading = vectors.flip(1)[:, :WIDTH]
        weight = model.convs[0].lin.weight.T
        torch.testing.assert_close(weight @ weight.T, leading @ leading.T)


def test_last_layer_is_set_on_request(x, edge_index):
    model = make_model("PyG GCN")
    report = gpca_init_(model, x.float(), edge_index, last=True)
    assert report.n_set == DEPTH
    assert model.convs[-1].lin.weight.shape == (3, WIDTH)


@pytest.mark.parametrize("settings", [{}, {"n_iter": 2}])
def test_sparse_features_give_the_same_weights(x, edge_index, settings):
    sparse = torch.where(x > 1, x, 0)
    found = []
    for features in (sparse, sparse.to_sparse_csr(), sparse.to_sparse_coo()):
        model = make_model("our GCN").double()
        report = gpca_init_(model, features, edge_index, **settings)
        found.append((model.convs[0].lin.weight, report["convs.0"].kept))
    for weight, kept in found[1:]:
        torch.testing.assert_close(weight, found[0][0])
        assert kept == pytest.approx(found[0][1])


def test_sparse_features_are_an_error_if_the_model_does_not_support_them(x, edge_index):
    sparse = x.float().to_sparse_csr()
    assert gpca_init_(make_model("PyG GCN"), sparse, edge_index).n_set == DEPTH - 1
    with pytest.raises(ValueError, match=r"sparse features; give x\.to_dense\(\)"):
        gpca_init_(make_model("PyG GraphSAGE"), sparse, edge_index)


def test_kept_share_equals_dense_formula(blocks, x, edge_index):
    model = make_model("PyG GCN").double()
    report = gpca_init_(model, x, edge_index, pairs=False, spectrum="paper")
    F = torch.from_numpy(dense_P(blocks.graph)) @ x
    weight = model.convs[0].lin.weight.T
    expected = float((F @ weight.detach()).square().sum() / F.square().sum())
    assert report["convs.0"].kept == pytest.approx(expected)
    lines = str(report).splitlines()
    assert lines[0] == f"gpca: {DEPTH - 1} of {len(report)} layers set"
    assert f"keeps {expected:.1%}" in lines[1]
    with pytest.raises(KeyError, match=r"no layer 'convs\.9'; the layers are convs\.0"):
        report["convs.9"]


class CustomConv(pyg.MessagePassing):
    def __init__(self, i, o):
        super().__init__()
        self.mix = torch.nn.Linear(i, o)

    def forward(self, x, edge_index):
        return self.mix(x + self.propagate(edge_index, x=x))


def test_custom_layer_is_set_after_registration(x, edge_index):
    model = Stack(CustomConv)
    report = gpca_init_(model, x.float(), edge_index, last=True)
    reason = "there is no rule for CustomConv; add one by register_layer"
    assert [layer.reason for layer in report if layer.kind == "CustomConv"] == [reason] * DEPTH
    register_layer(CustomConv, "mix")
    try:
        report = gpca_init_(model, x.float(), edge_index)
        assert report.n_set == DEPTH
    finally:
        del RULES[CustomConv]
    with pytest.raises(TypeError, match="is not a subclass of torch"):
        register_layer(CustomConv(1, 1), "mix")


def test_layer_that_runs_twice_is_set_once_and_idle_layer_is_reported(x, edge_index):
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.shared = pyg.GCNConv(10, 10)
            self.idle = pyg.GCNConv(10, 10)
            self.head = torch.nn.Linear(10, 3)

        def forward(self, x, edge_index):
            return self.head(self.shared(self.shared(x, edge_index).relu(), edge_index))

    model = Model()
    report = gpca_init_(model, x.float(), edge_index)
    assert [layer.is_set for layer in report] == [True, False, False]
    assert report["idle"].reason == "the forward pass did not reach it"


def test_reasons_why_layers_are_not_set(x, edge_index):
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first = pyg.GCNConv(10, 10)
            self.tied = pyg.GCNConv(10, 10)
            self.tied.lin.weight = self.first.lin.weight
            self.normed = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(10, 10))
            self.frozen = torch.nn.Linear(10, 10).requires_grad_(False)
            self.several_aggregators = pyg.SAGEConv(10, 10, aggr=["mean", "max"])
            self.skipped = pyg.GCNConv(10, 10)
            self.normalizing = pyg.SAGEConv(10, 10, normalize=True)
            self.head = torch.nn.Linear(10, 3)

        def forward(self, x, edge_index):
            x = self.tied(self.first(x=x, edge_index=edge_index), edge_index)
            x = self.several_aggregators(self.frozen(self.normed(x)), edge_index)
            return self.head(self.normalizing(self.skipped(x, edge_index), edge_index))

    model = Model()
    before = copy.deepcopy(model.state_dict())
    report = gpca_init_(model, x.float(), edge_index, skip=["skipped"])
    reasons = {layer.name: layer.reason for layer in report}
    assert reasons == {
        "first": "",
        "tied": "shares its weights with a layer that was set before",
        "normed": "its weight is computed from others (parametrised or pruned)",
        "frozen": "its weights are frozen",
        "several_aggregators": "",
        "skipped": "skipped on request",
        "normalizing": "",
        "head": "an output layer; head='ridge' sets it from labels",
    }
    changed = {
        k.split(".")[0] for k, v in model.state_dict().items() if not torch.equal(v, before[k])
    }
    assert changed == {"first", "tied", "several_aggregators", "normalizing"}
    assert model.normalizing.normalize
    with pytest.raises(ValueError, match="skip has 'other', but the layers are first, tied"):
        gpca_init_(model, x.float(), edge_index, skip=["other"])


def test_layer_that_runs_again_can_be_the_output_layer(x, edge_index):
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = pyg.GCNConv(10, 10), pyg.GCNConv(10, 10)

        def forward(self, x, edge_index):
            return self.a(self.b(self.a(x, edge_index).relu(), edge_index).relu(), edge_index)

    report = gpca_init_(Model(), x.float(), edge_index)
    assert {layer.name: layer.is_set for layer in report} == {"a": False, "b": True}


def test_ghost_edges_are_not_used_for_rows_that_are_edges(x, edge_index, visible):
    report = gpca_init_(make_model("PyG EdgeCNN"), x.float(), edge_index, beta=0.2, y=visible)
    assert report.n_set > 0


def test_gain_of_gine_uses_node_features_not_edge_features(x, edge_index):
    mlp = torch.nn.Sequential(torch.nn.Linear(10, 8), torch.nn.ReLU(), torch.nn.Linear(8, 8))
    conv = pyg.GINEConv(mlp, edge_dim=4)
    features = torch.rand(edge_index.shape[1], 4)
    gpca_init_(conv, x.float(), edge_index, forward=lambda m: m(x.float(), edge_index, features))
    assert mlp[0].weight.norm(dim=1).max() < 0.7  # divided by the gain of a sum over neighbours


def test_wrong_name_of_a_weight_is_an_error(x, edge_index):
    class Typo(torch.nn.Linear):
        pass

    register_layer(Typo, "wieght")
    try:
        with pytest.raises(ValueError, match="Typo has no attribute 'wieght'"):
            gpca_init_(torch.nn.Sequential(Typo(10, 3)), x.float())
    finally:
        del RULES[Typo]


def test_model_with_another_signature(x, edge_index):
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = pyg.GCN(10, 8, 3, 2)

        def forward(self, data):
            return self.inner(data["x"], edge_index=data["edges"])

    model = Model()
    data = {"x": x.float(), "edges": edge_index}
    report = gpca_init_(model, x.float(), edge_index, forward=lambda model: model(data))
    assert report.n_set == 2
    linear = torch.nn.Sequential(torch.nn.Linear(10, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
    assert gpca_init_(linear, x.float()).n_set == 1


def test_error_in_the_pass_restores_the_model(x, edge_index):
    class Broken(Stack):
        def forward(self, x, edge_index):
            super().forward(x, edge_index)
            raise RuntimeError("on purpose")

    model = Broken(CONVOLUTIONS["GCNConv, improved"])
    model.norms.eval()
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(RuntimeError, match="on purpose"):
        gpca_init_(model, x.float(), edge_index)
    assert model.training
    assert not any(norm.training for norm in model.norms)
    assert all(not module._forward_pre_hooks for module in model.modules())
    assert all(conv._cached_edge_index is None for conv in model.convs)
    for key, value in model.state_dict().items():
        assert torch.equal(value, before[key])
    assert all(isinstance(conv.lin, pyg.Linear) for conv in model.convs)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"x": torch.ones(120, 7)}, "layer convs.0 has 10 input features but gets 7"),
        ({"x": torch.full((120, 10), torch.nan)}, "x contains NaN or infinite values"),
        ({"x": torch.ones(50, 10)}, "not those of a mini-batch"),
        ({"edge_index": torch.empty(2, 0, dtype=torch.int64)}, "edge_index has no edges"),
        ({"edge_index": None}, "the model has graph convolutions; give edge_index"),
        ({"beta": 0.1}, "beta=0.1 adds ghost edges between nodes of equal label; give y"),
        ({"n_iter": 0}, "n_iter=0 must be at least 1; or use n_iter='gcn'"),
        ({"alpha": -1.0}, "alpha=-1.0 must be in"),
    ],
)
def test_bad_input(x, edge_index, arguments, message):
    given = {"x": x.float(), "edge_index": edge_index, **arguments}
    with pytest.raises(ValueError, match=message):
        gpca_init_(make_model("PyG GCN"), **given)


def test_lists_of_batches_are_errors(x, edge_index):
    with pytest.raises(TypeError, match="x is a list; give the features of all nodes as one"):
        gpca_init_(make_model("PyG GCN"), [x], edge_index)
    with pytest.raises(TypeError, match="model is a int"):
        gpca_init_(3, x, edge_index)


def test_model_without_a_layer_to_set_is_an_error(x, edge_index):
    with pytest.raises(ValueError, match=r"no layer of the model was set: .*an output layer"):
        gpca_init_(torch.nn.Linear(10, 3), x.float())
    with pytest.raises(
        ValueError, match="no layer of the model was set: it has no weights that are matrices"
    ):
        gpca_init_(torch.nn.Identity(), x.float())
    with pytest.raises(ValueError, match="was set: it has no weights that are matrices"):
        xavier_init_(torch.nn.Sequential(torch.nn.BatchNorm1d(10)))


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("init", [xavier_init_, he_init_, orthogonal_init_, g_init_])
def test_random_weights_depend_on_seed(name, init, x, edge_index):
    model, again, other = (make_model(name) for _ in range(3))
    report = init(model, x.float(), edge_index, seed=1)
    assert report.n_set >= 2
    init(again, x.float(), edge_index, seed=1)
    init(other, x.float(), edge_index, seed=2)
    first = next(iter(report)).name
    states = [{k: v for k, v in m.state_dict().items() if k.startswith(f"{first}.") and
               v.dim() == 2} for m in (model, again, other)]  # fmt: skip
    for key, value in states[0].items():
        assert torch.equal(value, states[1][key])
    assert any(not torch.equal(value, states[2][key]) for key, value in states[0].items())


def test_random_weights_have_the_expected_scale():
    torch.manual_seed(0)
    model = pyg.GCN(400, 100, 2, 100)
    xavier_init_(model)
    assert model.convs[0].lin.weight.std().item() == pytest.approx(np.sqrt(2 / 500), rel=0.02)
    he_init_(model)
    assert model.convs[0].lin.weight.std().item() == pytest.approx(np.sqrt(2 / 400), rel=0.02)
    g_init_(model)
    assert model.convs[0].lin.weight.std().item() == pytest.approx(np.sqrt(4 / 400), rel=0.02)
    orthogonal_init_(model)
    weight = model.convs[0].lin.weight
    torch.testing.assert_close(weight @ weight.T, 2 * torch.eye(100), atol=1e-4, rtol=0)


def test_labels_and_masks_of_ghost_edges_may_be_arrays_or_lists(x, edge_index, visible):
    mask = visible >= 0
    models = [make_model("PyG GCN") for _ in range(4)]
    gpca_init_(models[0], x.float(), edge_index, beta=0.3, y=visible)
    for model, y, train in (
        (models[1], visible, mask),
        (models[2], visible.numpy(), mask.numpy()),
        (models[3], visible.tolist(), mask.nonzero().flatten().tolist()),
    ):
        gpca_init_(model, x.float(), edge_index, beta=0.3, y=y, train_mask=train)
        assert torch.equal(model.convs[0].lin.weight, models[0].convs[0].lin.weight)


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int32])
def test_dtype_of_the_labels_does_not_matter(x, edge_index, dtype):
    y, weights = (torch.arange(120) % 2), []
    for labels in (y, y.to(dtype)):
        model = GCN(10, WIDTH, 2, 2).double()
        gpca_init_(model, x, edge_index, beta=0.5, y=labels, train_mask=torch.arange(40))
        weights.append(model.convs[0].lin.weight)
    assert torch.equal(*weights)


def test_buffers_that_cannot_be_written_are_left_alone(x, edge_index):
    model = GCN(10, WIDTH, 2, 2).double().train()
    model.register_buffer("positions", torch.arange(5.0).expand(3, 5))
    assert gpca_init_(model, x, edge_index).n_set == 1
    assert model.convs[0].training


def test_features_of_inference_mode_and_compiled_parts(x, edge_index):
    with torch.inference_mode():
        features = x + 0
    assert gpca_init_(GCN(10, WIDTH, 2, 2).double(), features, edge_index).n_set == 1
    model = torch.nn.Sequential(torch.nn.Linear(10, 4), torch.jit.script(torch.nn.Linear(4, 2)))
    with pytest.raises(TypeError, match="a part of it, is compiled by TorchScript"):
        gpca_init_(model, x.float())


def test_features_that_look_like_pairs_are_not_taken_for_them():
    """In one-hot codes no two columns are positive at once, as in the output of paired weights."""

    class Skip(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.skip = pyg.GCNConv(8, 8), torch.nn.Linear(8, 8)
            self.out = pyg.GCNConv(16, 2)

        def forward(self, x, edge_index):
            both = self.conv(x, edge_index).relu(), self.skip(x).relu()
            return self.out(torch.cat(both, 1), edge_index)

    model, x = Skip(), torch.eye(8).repeat(5, 1)
    gpca_init_(model, x, torch.stack([torch.arange(40), torch.arange(40).roll(1)]))
    assert (model.skip.weight[:, :4] + model.skip.weight[:, 4:]).abs().max() > 0.01


def test_buffers_and_caches_of_other_models_are_left_alone(x, edge_index):
    """Sparse buffers cannot be compared by torch, and a name may begin as that of a PyG cache."""

    class Own(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("A", torch.eye(120).to_sparse())
            self.convs = torch.nn.ModuleList([pyg.GCNConv(10, 8), pyg.GCNConv(8, 2)])
            self._cached = {"scale": 2.0}

        def forward(self, x, edge_index):
            h = self.convs[0](self.A @ x, edge_index).relu() * self._cached["scale"]
            return self.convs[1](h, edge_index)

    model = Own()
    assert gpca_init_(model, x.float(), edge_index).n_set == 1
    assert model._cached == {"scale": 2.0}
    assert torch.equal(model.A.to_dense(), torch.eye(120))
    scripted = torch.nn.Sequential(torch.nn.Linear(10, 4), torch.jit.script(torch.nn.ReLU()))
    assert gpca_init_(scripted, x.float(), last=True).n_set == 1
