"""Damaged and forged files of networks: one sentence, or the same network."""

import json
import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from properties import examples
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors
from trained_networks import DATA, NAMED, assert_same, trained

from gpcanet import Graph
from gpcanet.nn import GCN, GPCANet, load_model, save_model
from gpcanet.nn.serialization import MAX_STEPS
from gpcanet.nn.training.registry import build_model
from gpcanet.utils.tensor_file import FORMAT_VERSION, digest


@pytest.fixture(scope="module")
def contents(tmp_path_factory):
    folder = tmp_path_factory.mktemp("network")
    data = replace(NAMED, graph=Graph(DATA.graph.adjacency, node_ids=np.arange(60) * 10))
    networks = {
        "gcn": trained(GCN(6, 8, 2, 3), NAMED),
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
    "additional weight": ("gcn", lambda h, a: a.update({"state.w": np.ones(2)}), r"not belong to"),
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
    "NaN in notes": ("gcn", lambda h, a: h.update(notes={"a": float("nan")}), r"notes cannot be"),
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


def places(value, place=()):
    """Keys that lead to every value of the header."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in items:
        yield (*place, key)
        if isinstance(item, dict | list):
            yield from places(item, (*place, key))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
    | st.sampled_from(["gcn", "gpcanet", "taylor", "relu", 10**9, 2**29, 2**70, 1e300, -1, 0]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["$type", "name", "items", "object"]), inner, max_size=3),
    max_leaves=4,
)  # fmt: skip


@examples(150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=st.sampled_from(["gcn", "gpcanet", "sgc"]), value=JSON, data=st.data())
def test_any_value_in_the_header_is_refused_or_loads(tmp_path, contents, name, value, data):
    def change(header, arrays):
        *path, last = data.draw(st.sampled_from(list(places(header))))
        for key in path:
            header = header[key]
        header[last] = value

    path = tmp_path / "network.safetensors"
    path.write_bytes(forged(contents[name], change))
    try:
        network = load_model(path)
    except ValueError as error:
        assert str(path) in str(error)  # noqa: PT017
        assert "\n" not in str(error)  # noqa: PT017
    else:
        assert network.model.state_dict().keys()
        assert len(network.classes if network.classes is not None else "abc") == 3


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
