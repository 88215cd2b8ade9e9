"""Saved networks: the same probabilities after loading, one sentence for what does not fit."""

import copy
import os
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import torch
import torch_geometric.nn as pyg
from torch_geometric.data import Data
from trained_networks import DATA, NAMED, assert_same, trained

import gpcanet
from gpcanet import GPCA, Graph
from gpcanet.datasets import block_model
from gpcanet.nn import (
    GCN,
    GPCANet,
    NodeData,
    TrainedNetwork,
    load_model,
    save_model,
)
from gpcanet.nn.training.registry import MODEL_NAMES, build_model

OTHER = block_model(90, 300, n_features=6, n_classes=3, homophily=0.9, seed=1)


def weighted(data):
    weights = np.random.default_rng(0).uniform(0.5, 2, data.graph.n_edges)
    rows, columns = sp.triu(data.graph.adjacency).tocoo().coords
    graph = Graph.from_edge_index([rows, columns], weights, n_nodes=60, each_once=True)
    return replace(data, graph=graph)


def sparse(data):
    rng = np.random.default_rng(1)
    X = np.where(rng.random((60, 200)) < 0.02, 1.0, 0.0).astype(np.float32)
    return replace(data, X=sp.csr_array(X), feature_names=None)


KINDS = {
    "plain": lambda: NAMED,
    "weighted": lambda: weighted(NAMED),
    "sparse": lambda: sparse(DATA),
}


def saved_and_loaded(network, folder):
    save_model(network, folder / "network.safetensors", overwrite=True)
    return load_model(folder / "network.safetensors")


# -- the same network ---------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:.* does not support edge weights:UserWarning")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", MODEL_NAMES)
def test_every_named_model_predicts_the_same_after_loading(tmp_path, name, kind):
    data = KINDS[kind]()
    torch.manual_seed(1)
    model = build_model(name, data.X.shape[1], 3, layers=3, hidden=8, dropout=0.3)
    network = trained(model, data)
    again = saved_and_loaded(network, tmp_path)
    assert not again.model.training
    assert all(parameter.requires_grad for parameter in again.model.parameters())
    assert_same(network, again, data)
    assert again.temperature == network.temperature != 1
    # The probabilities are those of the module called by itself, at the temperature.
    x = torch.from_numpy(data.X.toarray() if sp.issparse(data.X) else data.X).float()
    coo = data.graph.adjacency.tocoo()
    edges = [torch.from_numpy(np.stack(coo.coords).astype(np.int64))]
    if kind == "weighted" and name in ("gcn", "sgc", "appnp", "gpcanet"):
        edges.append(torch.from_numpy(coo.data).float())
    with torch.no_grad():
        expected = torch.softmax(again.model(x, *edges) / network.temperature, 1).numpy()
    # Sums of float32 in another order.
    np.testing.assert_allclose(network.predict_proba(data), expected, rtol=0, atol=1e-5)
    if kind != "sparse":
        assert again.predict(data).tolist() == data.class_names[expected.argmax(1)].tolist()


VARIANTS = {
    "alpha of each layer": lambda: GPCANet(6, 8, 2, 3, alpha=[1.0, 0.1]),
    "learnt alpha": lambda: GPCANet(6, 8, 2, 3, alpha=2.0, learn_alpha=True),
    "taylor": lambda: GPCANet(6, 8, 2, 3, n_iter="taylor", center=False),
    "random walk": lambda: GPCANet(6, 8, 2, 3, 0.5, normalization="rw", n_iter=3),
    "two linear layers": lambda: GPCANet(6, 8, 1, 3, head_layers=2),
    "no activation": lambda: GPCANet(6, 8, 2, 3, act=None),
    "frozen": lambda: GPCANet(6, 8, 2, 3).freeze(),
    "gcn, random walk": lambda: GCN(6, 8, 2, 3, normalization="rw"),
    "gcn, one layer": lambda: GCN(6, 300, 1, 3),
    "numpy widths": lambda: GCN(np.int64(6), 8, 2, np.int64(3)),
    "attention": lambda: pyg.GAT(6, 8, 2, 3, v2=True),
}


@pytest.mark.parametrize("kind", VARIANTS)
def test_settings_of_a_network_are_saved(tmp_path, kind):
    torch.manual_seed(2)
    network = trained(VARIANTS[kind](), NAMED)
    assert_same(network, saved_and_loaded(network, tmp_path), NAMED, OTHER)


def test_plain_module_in_double_precision_is_saved(tmp_path):
    model = GCN(6, 8, 2, 3).double()
    again = saved_and_loaded(model, tmp_path)
    assert again.classes is None
    assert_same(TrainedNetwork.of(model), again, DATA)
    assert again.predict_proba(DATA).dtype == np.float64
    assert set(again.predict(DATA).tolist()) <= {0, 1, 2}


def test_prediction_needs_no_labels_and_changes_nothing():
    model = GPCANet(6, 8, 2, 3)  # its layers would store a mean in their first pass
    network = TrainedNetwork.of(model, NAMED)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    unlabelled = replace(DATA, y=np.full(60, -1), train=[], validation=[], test=[])
    nodes = NodeData.of(DATA)
    sources = [DATA, unlabelled, nodes, Data(nodes.x, nodes.edge_index)]
    probabilities = [network.predict_proba(source) for source in sources]
    assert all(np.array_equal(probabilities[0], other) for other in probabilities[1:])
    assert model.training
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, before[name])


def test_temperature_has_the_largest_likelihood_of_the_validation_labels():
    network = trained(GCN(6, 16, 2, 3), NAMED, epochs=100)
    with torch.no_grad():
        nodes = NodeData.of(NAMED)
        logits = network.model(nodes.x, nodes.edge_index)[nodes.validation]
    # With an additional node whose class is uniformly distributed, as documented.
    likelihoods = {}
    for temperature in np.geomspace(0.1, 10, 400):
        logs = torch.log_softmax(logits / temperature, 1)
        of_true = logs[torch.arange(len(logs)), nodes.y[nodes.validation]]
        likelihoods[temperature] = float(of_true.sum() + logs.mean())
    best = max(likelihoods, key=likelihoods.get)
    assert network.temperature == pytest.approx(best, rel=0.02)  # steps of 1.2 %
    assert TrainedNetwork.of(network.model, NAMED).temperature == 1
    assert network.calibrated(nodes).temperature == network.temperature
    with pytest.raises(ValueError, match="the split has no validation nodes; add at least one"):
        network.calibrated(replace(NAMED, validation=[]))
    fewer = TrainedNetwork(GCN(6, 4, 1, 1)).calibrated(nodes)  # no output for most classes
    assert 0.1 <= fewer.temperature <= 10


@pytest.mark.parametrize("name", MODEL_NAMES)
def test_classes_without_labelled_nodes_have_no_output(name):
    more = replace(NAMED, class_names=np.array(["red", "green", "blue", "white"]))
    network = TrainedNetwork.of(build_model(name, 6, 3, hidden=8), more)
    assert network.classes.tolist() == ["red", "green", "blue"]
    assert set(network.predict(more).tolist()) <= {"red", "green", "blue"}


def test_loaded_network_predicts_on_another_graph(tmp_path):
    network = trained(GCN(6, 16, 2, 3), NAMED, epochs=60)
    again = saved_and_loaded(network, tmp_path)
    # PyG's own layers give the truth on the new graph.
    truth = pyg.GCN(6, 16, 2, 3)
    truth.load_state_dict(again.model.state_dict())
    edges = torch.from_numpy(np.stack(OTHER.graph.adjacency.tocoo().coords).astype(np.int64))
    with torch.no_grad():
        output = truth.eval()(torch.from_numpy(OTHER.X).float(), edges)
        expected = torch.softmax(output / again.temperature, 1)
    found = again.predict_proba(OTHER)
    np.testing.assert_allclose(found, expected.numpy(), rtol=0, atol=1e-5)
    assert found.shape == (90, 3)


# -- labels at prediction time ------------------------------------------------------------------


def test_network_with_beta_keeps_its_training_labels(tmp_path):
    ids = [f"node {i}" for i in range(60)]
    data = replace(NAMED, graph=Graph(DATA.graph.adjacency, node_ids=ids))
    network = trained(GPCANet(6, 8, 2, 3, alpha=2.0, beta=0.3), data)
    again = saved_and_loaded(network, tmp_path)
    # The labels at hand are not used: they may be those of test nodes.
    assert_same(network, again, data, replace(data, y=np.full(60, -1)))
    x, y = torch.from_numpy(DATA.X).float(), torch.from_numpy(data.visible_labels(validation=False))
    with torch.no_grad():
        output = again.model(x, data.graph, y=y)
        expected = torch.softmax(output / again.temperature, 1).numpy()
    np.testing.assert_allclose(again.predict_proba(data), expected, rtol=0, atol=1e-6)
    order = np.random.default_rng(0).permutation(60)
    shuffled = replace(data, graph=data.graph.subgraph(order), X=data.X[order])
    np.testing.assert_allclose(again.predict_proba(shuffled), expected[order], rtol=0, atol=1e-5)
    with pytest.raises(ValueError, match="cannot predict on another graph; give that graph, or"):
        again.predict_proba(OTHER)


def test_network_with_beta_needs_the_data():
    model = GPCANet(6, 8, 2, 3, beta=0.3)
    with pytest.raises(ValueError, match="needs its training labels to predict; give the data"):
        TrainedNetwork.of(model).predict_proba(DATA)
    with pytest.raises(ValueError, match="needs its training labels to predict; give the data"):
        save_model(model, "network.safetensors")


# -- wrong input --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def network():
    torch.manual_seed(0)
    return trained(GCN(6, 8, 2, 3), NAMED)


BAD_DATA = {
    "other features": (lambda: replace(OTHER, X=OTHER.X[:, :5]), ValueError,
                       r"the data have 5 features, but the network was trained on 6; give"),
    "other order": (lambda: replace(NAMED, feature_names=NAMED.feature_names[::-1]), ValueError,
                    r"are not those of the network in the same order; give the columns feature 0"),
    "NaN": (lambda: replace(DATA, X=np.full((60, 6), np.nan)), ValueError,
            r"x contains NaN or infinite values"),
    "too few rows": (lambda: replace(DATA, X=DATA.X[:50]), ValueError,
                     r"features of shape \(50, 6\) for 60 nodes; give one row per node"),
    "an array": (lambda: DATA.X, TypeError, r"data is a ndarray without a tensor x"),
}  # fmt: skip


@pytest.mark.parametrize("kind", BAD_DATA)
def test_data_that_do_not_fit_are_refused(network, kind):
    make, error, pattern = BAD_DATA[kind]
    with pytest.raises(error, match=pattern):
        network.predict_proba(make())


def test_number_of_classes_must_fit(network, tmp_path):
    two = replace(network, classes=np.array(["a", "b"]))
    with pytest.raises(ValueError, match="the model has 3 outputs for 2 classes"):
        two.predict(DATA)
    with pytest.raises(ValueError, match="classes must be an array of 3 names"):
        save_model(two, tmp_path / "network.safetensors")
    assert os.listdir(tmp_path) == []


class Different(GCN):
    pass


def infinite():
    model = GCN(6, 8, 2, 3)
    with torch.no_grad():
        model.convs[0].bias[0] = torch.inf
    return model


WEIGHTS_ONLY = r"save its weights by torch\.save\(model\.state_dict\(\), path\)"
UNSAVEABLE = {
    "own model": (lambda: torch.nn.Sequential(torch.nn.Linear(6, 3)), TypeError,
                  rf"a Sequential is not a network that save_model supports; {WEIGHTS_ONLY}"),
    "subclass": (lambda: Different(6, 8, 2, 3), TypeError, rf"a Different is not .*{WEIGHTS_ONLY}"),
    "PyG's GCN": (lambda: pyg.GCN(6, 8, 2, 3), TypeError, rf"a GCN is not .*{WEIGHTS_ONLY}"),
    "other aggregation": (lambda: pyg.GraphSAGE(6, 8, 2, 3, aggr="max"), TypeError,
                          rf"this GraphSAGE has settings .* 'max' instead of .*{WEIGHTS_ONLY}"),
    "other activation": (lambda: GPCANet(6, 8, 2, 3, act="tanh"), TypeError,
                         r"act is 'Tanh' instead of 'ReLU'"),
    "norm": (lambda: GCN(6, 8, 2, 3, norm="batch_norm"), TypeError, r"instead of"),
    "several heads": (lambda: pyg.GAT(6, 8, 2, 3, heads=2), TypeError, r"this GAT has settings"),
    "lazy": (lambda: GCN(-1, 8, 2, 3), TypeError, r"in_channels=-1 must be in"),
    "pair": (lambda: pyg.GraphSAGE((6, 6), 8, 2, 3), TypeError, rf"settings .*{WEIGHTS_ONLY}"),
    "half precision": (lambda: GCN(6, 8, 2, 3).bfloat16(), ValueError,
                       r"the weights have dtype bfloat16; convert them by model\.float\(\)"),
    "infinite": (infinite, ValueError, r"convs\.0\.bias contains NaN or infinite values"),
    "estimator": (lambda: GPCA(2), TypeError, r"model is a GPCA; give a torch\.nn\.Module"),
    "notes": (lambda: TrainedNetwork.of(GCN(6, 8, 2, 3), notes={"a": {1}}), TypeError,
              r"notes cannot be written as JSON"),
    "temperature": (lambda: TrainedNetwork(GCN(6, 8, 2, 3), temperature=0.0), ValueError,
                    r"temperature=0\.0 must be in \[0\.1, 10\]"),
}  # fmt: skip


@pytest.mark.parametrize("kind", UNSAVEABLE)
def test_networks_that_cannot_be_saved_are_refused(tmp_path, kind):
    make, error, pattern = UNSAVEABLE[kind]
    with pytest.raises(error, match=pattern) as caught:
        save_model(make(), tmp_path / "network.safetensors")
    assert "\n" not in str(caught.value)
    assert os.listdir(tmp_path) == []


def test_a_file_is_replaced_only_with_overwrite(network, tmp_path):
    path = tmp_path / "network.safetensors"
    save_model(network, path)
    before = path.read_bytes()
    with pytest.raises(FileExistsError, match=r"network\.safetensors exists; choose another name"):
        save_model(GCN(6, 8, 3, 3), path)
    assert path.read_bytes() == before
    save_model(GCN(6, 8, 3, 3), path, overwrite=True)
    assert load_model(path).model.num_layers == 3
    assert os.listdir(tmp_path) == [path.name]


def test_estimators_and_networks_have_their_own_functions(network, tmp_path):
    path = tmp_path / "model.safetensors"
    save_model(network, path)
    with pytest.raises(ValueError, match=r"holds a network, .* load it by gpcanet\.nn\.load_model"):
        gpcanet.load_model(path)
    with pytest.raises(TypeError, match=r"use gpcanet\.nn\.save_model for a network"):
        gpcanet.save_model(network.model, path, overwrite=True)
    gpcanet.save_model(GPCA(2).fit(DATA.X), path, overwrite=True)
    with pytest.raises(ValueError, match=r"of kind 'GPCA'; load an estimator by gpcanet\.load_mod"):
        load_model(path)


# -- predictions of any model -------------------------------------------------------------------


@pytest.mark.parametrize("kind", [GCN, pyg.GCN])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_networks_of_other_precision(kind, dtype):
    data = NodeData.of(weighted(DATA))
    data = replace(data, x=data.x.to(dtype))
    torch.manual_seed(0)
    network = trained(kind(6, 8, 2, 3).to(dtype), data)
    expected = TrainedNetwork(
        copy.deepcopy(network.model).double(), temperature=network.temperature
    )
    tol = 0.05 if dtype != torch.float64 else 1e-12
    np.testing.assert_allclose(network.predict_proba(data), expected.predict_proba(data), atol=tol)


@pytest.mark.parametrize("make", [lambda cached: pyg.GCN(6, 8, 2, 3, cached=cached),
                                  lambda cached: pyg.SGConv(6, 3, K=2, cached=cached)])  # fmt: skip
def test_caches_of_the_training_graph_are_not_used_for_another(make):
    network = trained(make(True), DATA)
    other = make(False)
    other.load_state_dict(network.model.state_dict())
    expected = replace(network, model=other).predict_proba(OTHER)
    np.testing.assert_array_equal(network.predict_proba(OTHER), expected)
    assert network.predict_proba(DATA).shape == (60, 3)


def test_models_that_return_no_scores_are_refused():
    class Pair(GCN):
        def forward(self, *args, **kwargs):
            return super().forward(*args, **kwargs), None

    with pytest.raises(ValueError, match="the model returns tuple; wrap it in one that returns"):
        TrainedNetwork(Pair(6, 8, 2, 3)).predict(DATA)
    assert TrainedNetwork(pyg.APPNP(2, 0.1)).predict(DATA).shape == (60,)
