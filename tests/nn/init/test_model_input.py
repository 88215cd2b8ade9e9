"""gpca_init_ on models that take PyG data, several node types, or are wrapped."""

import copy

import pytest
import torch
import torch_geometric.nn as pyg
from one_layer import OneLayer
from torch.nn import Linear
from torch_geometric.data import Batch, Data, HeteroData
from torch_geometric.transforms import ToUndirected

from gpcanet.nn import gpca_init_, xavier_init_
from gpcanet.nn.init.report import InitReport, LayerReport

W = 8


def gcn(seed=0):
    torch.manual_seed(seed)
    return pyg.GCN(10, W, 3, 3)


# -- PyG data ---------------------------------------------------------------------------------


def test_data_gives_the_same_weights_as_tensors(x, edge_index):
    weight = torch.rand(edge_index.shape[1])
    data = Data(x=x.float(), edge_index=edge_index, edge_weight=weight, y=torch.zeros(120))
    models = [gcn(), gcn(), gcn()]
    gpca_init_(models[0], x.float(), edge_index, weight)
    gpca_init_(models[1], data)
    gpca_init_(models[2], data, forward=lambda m: m(data.x, data.edge_index, data.edge_weight))
    for model in models[1:]:
        for key, value in model.state_dict().items():
            assert torch.equal(value, models[0].state_dict()[key])
    del data.edge_weight
    unweighted = gcn()
    gpca_init_(unweighted, data)
    assert not torch.equal(unweighted.convs[0].lin.weight, models[0].convs[0].lin.weight)


class TakesData(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = pyg.GCN(10, W, 3, 3)

    def forward(self, data):
        return self.inner(data.x, data.edge_index)


class TakesBatch(TakesData):
    def forward(self, batch):
        return super().forward(batch)


class Required(TakesData):
    def forward(self, x, edge_index, time):
        return self.inner(x, edge_index)


class EdgeFeatures(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.head = pyg.TransformerConv(10, W, edge_dim=4), Linear(W, 3)

    def forward(self, x, edge_index, edge_attr):
        return self.head(self.conv(x, edge_index, edge_attr).relu())


def test_data_is_passed_by_the_names_of_parameters(x, edge_index):
    data = Data(x=x.float(), edge_index=edge_index, edge_attr=torch.rand(edge_index.shape[1], 4))
    assert gpca_init_(TakesData(), data).n_set == 2
    assert gpca_init_(TakesBatch(), Batch.from_data_list([data])).n_set == 2
    assert gpca_init_(EdgeFeatures(), data).n_set == 1
    sequential = pyg.Sequential("x, edge_index", [
        (pyg.GCNConv(10, W), "x, edge_index -> x"), torch.nn.ReLU(), Linear(W, 3)
    ])  # fmt: skip
    assert gpca_init_(sequential, data).n_set == 1
    linear = torch.nn.Sequential(Linear(10, W), torch.nn.ReLU(), Linear(W, 3))
    message = r"forward of the model takes input, but the Data has .*; give forward=lambda model"
    with pytest.raises(TypeError, match=message):
        gpca_init_(linear, data)
    with pytest.raises(TypeError, match=r"takes time, but the Data has edge_attr, edge_index, x"):
        gpca_init_(Required(), data)
    with pytest.raises(TypeError, match="give either the Data or x and edge_index, not both"):
        gpca_init_(gcn(), data, edge_index)


def test_lazy_models_take_data(x, edge_index):
    data = Data(x=x.float(), edge_index=edge_index)
    for init in (gpca_init_, xavier_init_):
        assert init(pyg.GCN(-1, W, 3, 3), data).n_set >= 2


def test_wrong_call_names_forward(x, edge_index):
    message = r"cannot be called as model\(x, edge_index\): .*'time'; give forward=lambda model"
    with pytest.raises(TypeError, match=message):
        gpca_init_(Required(), x.float(), edge_index)
    message = r"model\(x, edge_index, edge_weight=\): got an unexpected keyword argument"
    with pytest.raises(TypeError, match=message):
        gpca_init_(GraphClassifier(), x.float(), edge_index, torch.ones(edge_index.shape[1]))


def test_models_that_do_not_run_on_sparse_features(x, edge_index):
    model = OneLayer(pyg.ARMAConv(10, 6))
    with pytest.raises(ValueError, match=r"does not run on sparse features .*; give x\.to_dense"):
        gpca_init_(model, x.float().to_sparse_csr(), edge_index)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch.jit
def test_scripted_model_is_refused(x):
    model = torch.jit.script(torch.nn.Sequential(Linear(10, 3), torch.nn.ReLU(), Linear(3, 3)))
    with pytest.raises(TypeError, match="compiled by TorchScript; initialise it before"):
        gpca_init_(model, x.float())


def test_sampled_mini_batches_are_refused(x, edge_index):
    data = Data(x=x.float(), edge_index=edge_index, input_id=torch.arange(4))
    with pytest.raises(ValueError, match="is a mini-batch that was sampled from a graph"):
        gpca_init_(gcn(), data)


class GraphClassifier(torch.nn.Module):
    """Convolutions, mean pooling per graph, and two linear layers."""

    def __init__(self):
        super().__init__()
        self.a, self.b = pyg.GCNConv(10, W), pyg.GINConv(pyg.MLP([W, W, W]))
        self.norm = pyg.GraphNorm(W)
        self.lin, self.out = Linear(W, W), Linear(W, 2)

    def forward(self, x, edge_index, batch=None):
        x = self.norm(self.a(x, edge_index).relu(), batch)
        x = pyg.global_mean_pool(self.b(x, edge_index), batch)
        return self.out(self.lin(x).relu())


def test_graph_level_model_with_a_batch():
    torch.manual_seed(0)
    graphs = []
    for n in range(5, 25):
        x, edge_index = torch.randn(n, 10), torch.randint(n, (2, 4 * n))
        graphs.append(Data(x=x, edge_index=torch.cat([edge_index, edge_index.flip(0)], 1)))
    batch = Batch.from_data_list(graphs)
    model, pooled = GraphClassifier(), []
    report = gpca_init_(model, batch)
    assert {layer.name for layer in report if not layer.is_set} == {"out"}
    model.lin.register_forward_pre_hook(lambda _, args: pooled.append(args[0]))
    model.eval()(batch.x, batch.edge_index, batch.batch)
    assert pooled[0].shape == (20, W)
    M = pooled[0].T.double() @ pooled[0].double()
    leading = torch.linalg.eigh(M)[1].flip(1)[:, : W // 2].float()
    weight = model.lin.weight[: W // 2]
    weight = weight / weight.norm(dim=1, keepdim=True)
    torch.testing.assert_close((weight @ leading).abs(), torch.eye(W // 2), atol=1e-3, rtol=0)
    again = GraphClassifier()
    assert gpca_init_(again, forward=lambda m: m(batch.x, batch.edge_index, batch.batch)).n_set == 4


# -- several node types -----------------------------------------------------------------------


def hetero_data():
    torch.manual_seed(0)
    data = HeteroData()
    data["paper"].x, data["author"].x = torch.randn(40, 6), torch.randn(30, 9)
    data["paper", "cites", "paper"].edge_index = torch.randint(40, (2, 120))
    writes = torch.stack([torch.randint(30, (100,)), torch.randint(40, (100,))])
    data["author", "writes", "paper"].edge_index = writes
    return ToUndirected(merge=False)(data)


class Hetero(torch.nn.Module):
    def __init__(self, conv, lazy=True):
        super().__init__()
        first, second = (-1, -1), (-1, -1)
        self.first = pyg.HeteroConv({
            ("paper", "cites", "paper"): pyg.GCNConv(-1 if lazy else 6, W),
            ("author", "writes", "paper"): conv(first if lazy else (9, 6)),
            ("paper", "rev_writes", "author"): conv(first if lazy else (6, 9)),
        })  # fmt: skip
        self.second = pyg.HeteroConv({
            ("author", "writes", "paper"): conv(second if lazy else (W, W)),
            ("paper", "rev_writes", "author"): pyg.GINConv(pyg.MLP([W, W, W])),
        })  # fmt: skip
        self.out = Linear(W, 3)

    def forward(self, x_dict, edge_index_dict):
        x_dict = {key: x.relu() for key, x in self.first(x_dict, edge_index_dict).items()}
        x_dict = {key: x.relu() for key, x in self.second(x_dict, edge_index_dict).items()}
        return self.out(x_dict["paper"]) + self.out(x_dict["author"]).mean()


HETERO_LAYERS = {
    "SAGEConv": lambda channels: pyg.SAGEConv(channels, W),
    "GraphConv": lambda channels: pyg.GraphConv(channels, W),
    "GATConv": lambda channels: pyg.GATConv(channels, W, add_self_loops=False),
    "TransformerConv": lambda channels: pyg.TransformerConv(channels, W, heads=2, concat=False),
}


@pytest.mark.parametrize("lazy", [True, False])
@pytest.mark.parametrize("name", HETERO_LAYERS)
def test_hetero_conv(name, lazy):
    data = hetero_data()
    states = []
    for call in (
        lambda model: gpca_init_(model, data),
        lambda model: gpca_init_(model, data.x_dict, data.edge_index_dict),
        lambda model: gpca_init_(
            model, forward=lambda model: model(data.x_dict, data.edge_index_dict)
        ),
    ):
        torch.manual_seed(0)
        model = Hetero(HETERO_LAYERS[name], lazy)
        report = call(model)
        assert {layer.name for layer in report if not layer.is_set} == {"out"}
        assert len(report) == 7
        assert all(0 < layer.kept <= 1 for layer in report if layer.is_set)
        states.append(model.state_dict())
    for state in states[1:]:
        for key, value in state.items():
            assert torch.equal(value, states[0][key])


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch.fx
def test_model_of_to_hetero():
    class Homogeneous(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = pyg.SAGEConv((-1, -1), W), pyg.SAGEConv((-1, -1), W)
            self.lin = Linear(W, 3)

        def forward(self, x, edge_index):
            return self.lin(self.b(self.a(x, edge_index).relu(), edge_index).relu())

    data = hetero_data()
    model = pyg.to_hetero(Homogeneous(), data.metadata())
    report = gpca_init_(model, data)
    hidden = [layer for layer in report if layer.kind == "SAGEConv"]
    assert len(hidden) == 2 * len(data.edge_types)
    assert all(layer.is_set for layer in hidden)
    assert [layer.is_set for layer in report if layer.kind == "Linear"] == [False, False]


def test_layer_without_a_rule_is_reported_in_a_hetero_model():
    data = hetero_data()
    model = Hetero(HETERO_LAYERS["SAGEConv"])
    key = ("paper", "cites", "paper")
    model.first.convs[key] = pyg.FeaStConv(6, W)
    report = gpca_init_(model, data)
    reasons = [layer.reason for layer in report if layer.kind == "FeaStConv"]
    assert reasons == ["there is no rule for FeaStConv; add one by register_layer"]
    assert report.n_set == 5


def test_errors_of_hetero_input():
    data = hetero_data()
    model = Hetero(HETERO_LAYERS["SAGEConv"], lazy=False)
    wrong = {**data.x_dict, "author": torch.randn(30, 5)}
    with pytest.raises(ValueError, match="has 9 input features but gets 5"):
        gpca_init_(model, wrong, data.edge_index_dict)
    few = {**data.x_dict, "author": torch.randn(10, 9)}
    edges = {("author", "writes", "paper"): torch.tensor([[3, 29], [0, 39]])}
    with pytest.raises(ValueError, match="edge_index has node 29, but x has 10 rows"):
        gpca_init_(model, few, edges)
    with pytest.raises(ValueError, match="n_iter and beta need the features of one set of nodes"):
        gpca_init_(model, data, n_iter=2)
    with pytest.raises(TypeError, match="x is a int; give the features of all nodes"):
        gpca_init_(model, {"paper": 3}, data.edge_index_dict)


# -- wrapped models ---------------------------------------------------------------------------


def compiled_parallel(model):
    return torch.compile(torch.nn.DataParallel(model))


def test_distributed_model_is_unwrapped(x, edge_index):
    distributed = torch.distributed
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    try:
        model = torch.nn.parallel.DistributedDataParallel(gcn())
        assert gpca_init_(model, x.float(), edge_index)["convs.0"].is_set
    finally:
        distributed.destroy_process_group()


def test_parallel_and_compiled_models_are_unwrapped(x, edge_index):
    x = x.float()
    plain = gcn()
    expected = gpca_init_(plain, x, edge_index)
    for wrap in (torch.nn.DataParallel, torch.compile, compiled_parallel):
        inner = gcn()
        assert gpca_init_(wrap(inner), x, edge_index) == expected
        for key, value in inner.state_dict().items():
            assert torch.equal(value, plain.state_dict()[key])
        names = [layer.name for layer in xavier_init_(wrap(gcn()))]
        assert names == ["convs.0", "convs.1", "convs.2"]


def test_compiled_parts_of_a_model_run_without_compilation(x, edge_index):
    model, compiled = gcn(), []

    def backend(graph, inputs):
        compiled.append(graph)
        return graph.forward

    model.convs[1] = torch.compile(model.convs[1], backend=backend)
    report = gpca_init_(model, x.float(), edge_index)
    assert report.n_set == 2
    assert not compiled
    other = gcn()
    other.compile(backend=backend)
    assert gpca_init_(other, x.float(), edge_index).n_set == 2
    assert not compiled


# -- values that are not finite, and reports --------------------------------------------------


class Broken(torch.nn.Module):
    def __init__(self, where):
        super().__init__()
        self.a, self.b, self.out = pyg.GCNConv(10, W), pyg.FeaStConv(W, W), Linear(W, 3)
        if where != "between":
            getattr(self, where).bias.data[0] = torch.inf
        self.where = where

    def forward(self, x, edge_index):
        x = self.b(self.a(x, edge_index).relu(), edge_index)
        return self.out(x / 0 if self.where == "between" else x)


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("a", r"layer a \(GCNConv\) returns NaN or infinite values"),
        ("b", r"layer b \(FeaStConv\) returns NaN or infinite values"),
        ("out", r"layer out \(Linear\) returns NaN or infinite values"),
        ("between", r"layer out \(Linear\) gets NaN or infinite values"),
    ],
)
def test_values_that_are_not_finite_name_the_layer(where, message, x, edge_index):
    model = Broken(where)
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(ValueError, match=message):
        gpca_init_(model, x.float(), edge_index)
    for key, value in model.state_dict().items():
        assert torch.equal(value, before[key])
    assert not any(module._forward_hooks for module in model.modules())


def test_report_warns_if_few_layers_were_set():
    set_layer = LayerReport("first", "Linear", 3, 3, is_set=True)
    others = [LayerReport(f"conv{i}", "MyConv", reason="no rule") for i in range(9)]
    report = InitReport("gpca", (set_layer, *others))
    assert report.warning.startswith("warning: only 1 of 10 layers set")
    assert str(report).splitlines()[1] == report.warning
    half = InitReport("gpca", (set_layer, others[0]))
    assert half.warning == ""
    assert "warning" not in str(half)
