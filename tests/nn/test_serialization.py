"""save_model and load_model of networks: the same probabilities, one sentence for bad files."""

import json
import os
import pickle
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import torch
import torch_geometric.nn as pyg
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from properties import examples
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors

import gpcanet
from gpcanet import GPCA, Graph
from gpcanet.datasets import block_model
from gpcanet.nn import (
    GCN,
    GPCANet,
    NodeData,
    Settings,
    TrainedNetwork,
    load_model,
    save_model,
    train,
)
from gpcanet.nn.serialization import MAX_STEPS
from gpcanet.nn.training.registry import MODEL_NAMES, build_model
from gpcanet.utils.tensor_file import FORMAT_VERSION, digest

DATA = block_model(60, 240, n_features=6, n_classes=3, homophily=0.9, seed=0)
NAMED = replace(
    DATA,
    class_names=np.array(["red", "green", "blue"]),
    feature_names=np.array([f"feature {i}" for i in range(6)], object),
)
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


def trained(model, data, epochs=2):
    train(model, data, Settings(epochs=epochs, lr=0.05))
    return TrainedNetwork.of(model, data, {"epochs": epochs})


def saved_and_loaded(network, folder):
    save_model(network, folder / "network.safetensors", overwrite=True)
    return load_model(folder / "network.safetensors")


def assert_same(network, again, *datasets):
    """Equal types, settings and weights, and bit-identical probabilities."""
    assert repr(again.model) == repr(network.model)
    before, after = network.model.state_dict(), again.model.state_dict()
    assert list(before) == list(after)
    for name, tensor in before.items():
        assert tensor.dtype == after[name].dtype
        assert torch.equal(tensor, after[name])
    assert not any(tensor.is_meta for tensor in [*again.model.parameters(), *again.model.buffers()])
    assert again.notes == network.notes
    for part in ("classes", "feature_names"):
        one, other = getattr(network, part), getattr(again, part)
        assert (one is None) == (other is None)
        assert one is None or (one.tolist() == other.tolist() and one.dtype == other.dtype)
    for data in datasets:
        expected = network.predict_proba(data)
        found = again.predict_proba(data)
        assert found.dtype == expected.dtype
        assert found.tobytes() == expected.tobytes()
        assert again.predict(data).tolist() == network.predict(data).tolist()


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
    # The probabilities are those of the module called by itself.
    x = torch.from_numpy(data.X.toarray() if sp.issparse(data.X) else data.X).float()
    coo = data.graph.adjacency.tocoo()
    edges = [torch.from_numpy(np.stack(coo.coords).astype(np.int64))]
    if kind == "weighted" and name in ("gcn", "sgc", "appnp", "gpcanet"):
        edges.append(torch.from_numpy(coo.data).float())
    with torch.no_grad():
        expected = torch.softmax(again.model(x, *edges), 1).numpy()
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
    sources = [DATA, unlabelled, NodeData.of(DATA)]
    probabilities = [network.predict_proba(source) for source in sources]
    assert all(np.array_equal(probabilities[0], other) for other in probabilities[1:])
    assert model.training
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, before[name])


def test_loaded_network_predicts_on_another_graph(tmp_path):
    network = trained(GCN(6, 16, 2, 3), NAMED, epochs=60)
    again = saved_and_loaded(network, tmp_path)
    # PyG's own layers give the truth on the new graph.
    truth = pyg.GCN(6, 16, 2, 3)
    truth.load_state_dict(again.model.state_dict())
    edges = torch.from_numpy(np.stack(OTHER.graph.adjacency.tocoo().coords).astype(np.int64))
    with torch.no_grad():
        expected = torch.softmax(truth.eval()(torch.from_numpy(OTHER.X).float(), edges), 1)
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
        expected = torch.softmax(again.model(x, data.graph, y=y), 1).numpy()
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


# -- damaged and forged files -------------------------------------------------------------------


@pytest.fixture(scope="module")
def contents(tmp_path_factory, network):
    folder = tmp_path_factory.mktemp("network")
    data = replace(NAMED, graph=Graph(DATA.graph.adjacency, node_ids=np.arange(60) * 10))
    networks = {
        "gcn": network,
        "gpcanet": trained(GPCANet(6, 8, 2, 3, beta=0.3), data),
        "sgc": trained(build_model("sgc", 6, 3), NAMED),
    }
    found = {}
    for name, one in networks.items():
        save_model(one, folder / name)
        found[name] = (folder / name).read_bytes()
    return found


def forged(content, change):
    """The file with changed header and arrays and a valid checksum."""
    size = int.from_bytes(content[:8], "little")
    header = json.loads(json.loads(content[8 : 8 + size])["__metadata__"]["gpcanet"])
    arrays = load_tensors(content)
    header.pop("sha256")
    change(header, arrays)
    header["sha256"] = digest(header, arrays)
    return save_tensors(arrays, metadata={"gpcanet": json.dumps(header)})


def argument(**values):
    return lambda header, arrays: header["arguments"].update(values)


def array(name, function):
    def change(header, arrays):
        arrays[name] = np.ascontiguousarray(function(arrays[name]))

    return change


WEIGHT = "state.convs.0.lin.weight"
FORGED = {
    "newer": ("gcn", lambda h, a: h.update(format=FORMAT_VERSION + 1), r"in a format newer than"),
    "unknown model": ("gcn", lambda h, a: h.update(name="vgg"), r"model='vgg' must be one of"),
    "model of a list": ("gcn", lambda h, a: h.update(name=["gcn"]), r"must be one of"),
    "another model": ("gcn", lambda h, a: h.update(name="mlp"), r"normalization applies to the"),
    "no arguments": ("gcn", lambda h, a: h.pop("arguments"), r"not a complete model"),
    "text as arguments": ("gcn", lambda h, a: h.update(arguments="x"), r"not a complete model"),
    "a billion layers": ("gcn", argument(layers=10**9), r"layers=1000000000 must be in \[1, 4\]"),
    "a billion steps": ("sgc", argument(layers=10**9), rf"must be in \[1, {MAX_STEPS}\]"),
    "a billion iterations": ("gpcanet", argument(n_iter=10**9), rf"in \[0, {MAX_STEPS}\]"),
    "wide layers": ("gcn", argument(hidden=2**29), r"has shape \(8,\) instead of \(536870912,\)"),
    "too wide layers": ("gcn", argument(hidden=10**15), r"hidden=1000000000000000 must be in"),
    "half a layer": ("gcn", argument(layers=1.5), r"layers=1.5 must be an integer"),
    "true layers": ("gcn", argument(layers=True), r"layers=True must be an integer"),
    "NaN dropout": ("gcn", argument(dropout=float("nan")), r"dropout=nan must be in"),
    "unknown argument": ("gcn", argument(color="red"), r"color applies to"),
    "unknown argument of gpcanet": ("gpcanet", argument(color="red"), r"not a complete model"),
    "missing argument": ("gcn", lambda h, a: h["arguments"].pop("dropout"), r"are not valid"),
    "name twice": ("gcn", argument(name="gcn"), r"not a complete model"),
    "activation": ("gpcanet", argument(act="MultiheadAttention"), r"must be one of 'relu', 'none'"),
    "activation in capitals": ("gpcanet", argument(act="RELU"), r"arguments .* are not valid"),
    "text as a flag": ("gpcanet", argument(center="no"), r"arguments .* are not valid"),
    "alphas": ("gpcanet", argument(alpha=[1.0]), r"alpha has 1 values for 2 layers"),
    "alpha of text": ("gpcanet", argument(alpha=["1", "2"]), r"must be a number"),
    "no labels used": ("gpcanet", argument(beta=0.0), r"training_nodes are for a GPCANet"),
    "no labels": ("gpcanet", lambda h, a: h.update(training_nodes=None), r"needs its training lab"),
    "labels of fewer nodes": ("gpcanet", array("training_nodes.labels", lambda v: v[:-1]),
                              r"one label for each node"),
    "fractions as labels": ("gpcanet", array("training_nodes.labels", lambda v: v / 2),
                            r"one label for each node"),
    "edges out of range": ("gpcanet", array("training_nodes.graph.indices", lambda v: v + 60),
                           r"not a model"),
    "missing weight": ("gcn", lambda h, a: a.pop(WEIGHT), r"lin\.weight is missing"),
    "additional weight": ("gcn", lambda h, a: a.update({"state.w": np.ones(2)}), r"does not belong"),
    "shape": ("gcn", array(WEIGHT, lambda v: v.T), r"lin\.weight has shape \(6, 8\) instead of"),
    "NaN": ("gcn", array(WEIGHT, lambda v: v * np.nan), r"contains NaN or infinite values"),
    "mixed dtypes": ("gcn", array(WEIGHT, lambda v: v.astype(float)), r"dtype float32 and float64"),
    "integers": ("gcn", array(WEIGHT, lambda v: v.astype(int)), r"dtype float32 and int64"),
    "fractions in a counter": ("gpcanet", array("state.convs.0.mean_n_nodes",
                               lambda v: v.astype(float).reshape(())), r"has dtype|has shape"),
    "two classes": ("gcn", lambda h, a: h["classes"]["items"].pop(), r"array of 3 names"),
    "an estimator as classes": ("gcn", lambda h, a: h.update(
        classes={"$type": "GPCA", "parameters": {}, "learned": {}}), r"not a complete model"),
    "text as classes": ("gcn", lambda h, a: h.update(classes="abc"), r"array of 3 names"),
    "feature names": ("gcn", lambda h, a: h.update(feature_names=[1]), r"array of 6 names"),
    "notes": ("gcn", lambda h, a: h.update(notes=[1]), r"notes is a list"),
}  # fmt: skip


@pytest.mark.parametrize("kind", FORGED)
def test_a_forged_file_is_refused_in_one_sentence(tmp_path, contents, kind):
    name, change, pattern = FORGED[kind]
    path = tmp_path / "network.safetensors"
    path.write_bytes(forged(contents[name], lambda header, arrays: None))
    load_model(path)
    path.write_bytes(forged(contents[name], change))
    with pytest.raises(ValueError, match=rf"network\.safetensors .*{pattern}") as caught:
        load_model(path)
    assert "\n" not in str(caught.value)


FOREIGN = {
    "empty": b"",
    "pickle": pickle.dumps({"a": 1}),
    "weights of torch": save_tensors({"a": np.ones(3)}, metadata={"format": "pt"}),
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_a_file_of_another_kind_is_refused(tmp_path, kind):
    path = tmp_path / "foreign.safetensors"
    path.write_bytes(FOREIGN[kind])
    with pytest.raises(ValueError, match=r"foreign\.safetensors is not a model of GPCANet, or is"):
        load_model(path)


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="is not a file; give the file of a saved model"):
        load_model(tmp_path / "network.safetensors")


@examples(150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    name=st.sampled_from(["gcn", "gpcanet", "sgc"]),
    place=st.floats(0, 1, exclude_max=True),
    bit=st.integers(0, 7),
    cut=st.booleans(),
)
def test_a_damaged_file_is_refused_or_the_same(tmp_path, contents, name, place, bit, cut):
    content = contents[name]
    at = int(place * len(content))
    damaged = bytearray(content[:at] if cut else content)
    if not cut:
        damaged[at] ^= 1 << bit
    path = tmp_path / "network.safetensors"
    path.write_bytes(content)
    whole = load_model(path)
    path.write_bytes(damaged)
    try:
        again = load_model(path)
    except ValueError as error:
        assert str(path) in str(error)  # noqa: PT017
        assert "\n" not in str(error)  # noqa: PT017
    else:
        assert not cut
        assert_same(whole, again)
