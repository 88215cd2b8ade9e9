"""save_model and load_model: identical models after loading, one clear error for damaged files."""

import hashlib
import json
import os
import pickle
import pickletools
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from truth import KINDS, random_features, random_graph, random_labels

from gpcanet import GPCA, GPCAClassifier, Graph, GraphImputer
from gpcanet.estimators.serialization import load_model, save_model
from gpcanet.utils.tensor_file import FORMAT_VERSION, digest

GRAPH = random_graph(**KINDS["isolated"])
X = random_features()
Y = random_labels()
COUNTS = np.abs(X).round()
NAMED = Graph(GRAPH.adjacency, node_ids=[f"node {i}" for i in range(40)])
TEXT = np.where(Y >= 0, np.array(["red", "green", "blue"], object)[Y], None)
PART = {"nodes": np.arange(5, 35)}
FRAME = pd.DataFrame(X, NAMED.node_ids, [f"feature {i}" for i in range(6)])

EMBEDDINGS = {
    "dense": lambda: GPCA(3).fit(X, graph=GRAPH),
    "sparse": lambda: GPCA(3).fit(sp.csr_array(X), graph=GRAPH),
    "single": lambda: GPCA(3).fit(X.astype(np.float32), graph=GRAPH),
    "random walk": lambda: GPCA(3, normalization="rw", solver="cg").fit(X, graph=GRAPH),
    "paper's steps": lambda: GPCA(solver="fixed-point", n_iter=5).fit(X, graph=GRAPH),
    "labels": lambda: GPCA(3, beta=0.5).fit(X, Y, graph=GRAPH),
    "labels and names": lambda: GPCA(3, beta=0.2, ghost="paper").fit(X, Y, graph=NAMED),
    "labels, no edges": lambda: GPCA(3, beta=0.2).fit(X, Y),
    "nodes": lambda: GPCA(3).fit(X[5:35], graph=GRAPH, **PART),
    "sparse nodes and labels": lambda: GPCA(3, beta=0.1).fit(
        sp.csr_array(X[5:35]), Y[5:35], graph=GRAPH, **PART
    ),
    "feature names": lambda: GPCA(3).fit(FRAME, graph=GRAPH),
    "lanczos": lambda: GPCA(3, eigen_solver="lanczos").fit(sp.csr_array(X), graph=GRAPH),
    "numpy parameters": lambda: GPCA(np.int64(3), alpha=np.float32(0.1)).fit(X, graph=GRAPH),
    "no graph": lambda: GPCA().fit(X),
}


def classifier(y=Y, rows=X, graph=GRAPH, **parameters):
    """A classifier with few candidates, so that fit is fast."""
    parameters = {"C": 0.3, "feature_scaling": "l2", "cv": 2} | parameters
    return lambda: GPCAClassifier(3, **parameters).fit(rows, y, graph=graph)


CLASSIFIERS = {
    "all parameters chosen": classifier(C="auto", feature_scaling="auto"),
    "many classes": classifier(),
    "two classes": classifier(np.minimum(Y, 1)),
    "text": classifier(TEXT),
    "fixed text": classifier(np.array(["b", "a", "c"])[Y % 3]),
    "large integers": classifier(np.where(Y >= 0, 10**12 * Y, -1)),
    "tfidf": classifier(rows=COUNTS, feature_scaling="tfidf"),
    "sparse tfidf": classifier(rows=sp.csr_array(COUNTS), feature_scaling="tfidf"),
    "l2": classifier(feature_scaling="l2", normalize_embedding=True),
    "no scaling": classifier(feature_scaling="none", normalize_embedding=False, C=0.5),
    "corrected": classifier(correct=True, smooth=True),
    "corrected, with names": classifier(TEXT, graph=NAMED, correct=True, smooth=True),
    "statistics": classifier(features=True, statistics=True, class_weight={0: 2.0, 1: 1}),
    "boosting": classifier(boosting=True, statistics=True),
    "labels": classifier(beta=0.3, normalization="rw"),
    "one alpha": classifier(alpha=4),
    "selected": classifier(alpha=[1, 5.0], n_members=1),
    "single": classifier(rows=X.astype(np.float32)),
    "nodes": lambda: GPCAClassifier(3, C=1.0, cv=2, correct=True).fit(
        X[5:35], Y[5:35], graph=GRAPH, **PART
    ),
}


def differences(one, other, name="model"):
    """Names of attributes that are not bit-identical."""
    if isinstance(one, np.generic):
        one = one.item()
    if type(one) is not type(other):
        return [name]
    if isinstance(one, np.ndarray):
        if one.dtype == object:
            return [] if one.tolist() == other.tolist() and other.dtype == object else [name]
        alike = (one.dtype, one.shape, one.tobytes()) == (other.dtype, other.shape, other.tobytes())
        return [] if alike else [name]
    if isinstance(one, dict):
        keys = [name] if one.keys() != other.keys() else []
        pairs = [(key, one[key], other.get(key)) for key in one]
    elif isinstance(one, list | tuple):
        keys = [name] if len(one) != len(other) else []
        pairs = [(i, *both) for i, both in enumerate(zip(one, other, strict=False))]
    elif isinstance(one, Graph):
        parts = ("indptr", "indices", "weights", "node_ids")
        keys, pairs = [], [(part, getattr(one, part), getattr(other, part)) for part in parts]
    elif sp.issparse(one):
        return differences(one.toarray(), other.toarray(), name)
    elif hasattr(one, "__dict__"):
        return differences(vars(one), vars(other), name)
    else:
        return [] if one == other or one != one else [name]
    return keys + [d for key, a, b in pairs for d in differences(a, b, f"{name}.{key}")]


def saved_and_loaded(model, folder):
    save_model(model, folder / "model.safetensors", overwrite=True)
    return load_model(folder / "model.safetensors")


@pytest.mark.parametrize("kind", EMBEDDINGS)
def test_gpca_is_identical_after_loading(tmp_path, kind):
    model = EMBEDDINGS[kind]()
    again = saved_and_loaded(model, tmp_path)
    assert type(again) is GPCA
    assert differences(model, again) == []
    assert again.get_params() == model.get_params()
    assert again.get_feature_names_out().tolist() == model.get_feature_names_out().tolist()
    rows = FRAME if kind == "feature names" else X
    graph = NAMED if "names" in kind else GRAPH
    for features in (rows, rows.astype(np.float32)):
        expected = model.transform(features, graph=graph)
        assert again.transform(features, graph=graph).tobytes() == expected.tobytes()
    order = np.arange(len(X))[::-1]
    permuted = {"graph": graph, "nodes": order}
    rows = rows.iloc[order] if kind == "feature names" else X[order]
    expected = model.transform(rows, **permuted)
    assert again.transform(rows, **permuted).tobytes() == expected.tobytes()


@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_classifier_is_identical_after_loading(tmp_path, kind):
    model = CLASSIFIERS[kind]()
    again = saved_and_loaded(model, tmp_path)
    assert type(again) is GPCAClassifier
    for result in ("transduction_", "label_distributions_"):  # of the training nodes
        assert not hasattr(again, result)
        delattr(model, result)
    assert differences(model, again) == []
    assert again.get_params() == model.get_params()
    rows, more = (X[5:35], PART) if kind == "nodes" else (X, {})
    rows = COUNTS if "tfidf" in kind else rows
    graph = NAMED if "names" in kind else GRAPH
    for features in (rows, rows.astype(np.float32), sp.csr_array(rows)):
        expected = model.predict_proba(features, graph=graph, **more)
        found = again.predict_proba(features, graph=graph, **more)
        assert found.tobytes() == expected.tobytes()
        assert found.dtype == expected.dtype
    assert (
        again.predict(rows, graph=graph, **more).tolist()
        == model.predict(rows, graph=graph, **more).tolist()
    )


@pytest.mark.parametrize("shrinkage", [0.0, "auto"])
@pytest.mark.parametrize("keep", [None, True])
def test_imputer_is_identical_after_loading(tmp_path, shrinkage, keep):
    holes = np.where(np.arange(X.size).reshape(X.shape) % 5 == 0, np.nan, X)
    model = GraphImputer(shrinkage=shrinkage, keep_training_nodes=keep).fit(holes, graph=GRAPH)
    save_model(model, tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert type(loaded) is GraphImputer
    assert loaded.get_params() == model.get_params()
    expected = model.transform(holes, graph=GRAPH)
    np.testing.assert_array_equal(loaded.transform(holes, graph=GRAPH), expected)


def test_classifier_without_correct_and_smooth_stores_no_training_nodes(tmp_path):
    sizes = []
    for times in (1, 50):
        model = classifier(
            np.tile(Y, times),
            np.tile(X, (times, 1)),
            graph=None,
            n_members=1,
            features=False,
            statistics=False,
            boosting=False,
            correct=False,
            smooth=False,
        )()
        save_model(model, tmp_path / f"{times}.safetensors")
        sizes.append((tmp_path / f"{times}.safetensors").stat().st_size)
    assert sizes[1] < sizes[0] + 100  # numbers in the header may have one more digit


# -- no pickle ----------------------------------------------------------------------------------


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "model.safetensors"
    save_model(CLASSIFIERS["corrected"](), path)
    return path


def test_the_file_contains_no_pickle(saved, monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("a pickle was loaded")

    for name in ("load", "loads", "Unpickler"):
        monkeypatch.setattr(pickle, name, refuse)
    load_model(saved)
    content = saved.read_bytes()
    for start in (i for i in range(len(content) - 1) if content[i] == 0x80 and content[i + 1] < 6):
        with pytest.raises((ValueError, IndexError, UnicodeDecodeError)):
            list(pickletools.genops(content[start:]))


def test_a_model_loads_in_a_new_process(saved, tmp_path):
    np.save(tmp_path / "x.npy", X)
    sp.save_npz(tmp_path / "a.npz", sp.csr_matrix(GRAPH.adjacency))
    code = (
        "import sys, numpy as np, scipy.sparse as sp\n"
        "from gpcanet.estimators.serialization import load_model\n"
        "model = load_model(sys.argv[1])\n"
        "graph = sp.csr_array(sp.load_npz(sys.argv[2] + '/a.npz'))\n"
        "P = model.predict_proba(np.load(sys.argv[2] + '/x.npy'), graph=graph)\n"
        "np.save(sys.argv[2] + '/p.npy', P)\n"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code, saved, tmp_path], check=True)
    expected = load_model(saved).predict_proba(X, graph=GRAPH)
    np.testing.assert_array_equal(np.load(tmp_path / "p.npy"), expected)


# -- damaged files ------------------------------------------------------------------------------


def forged(path, change):
    """Rewrite a model with changed header and arrays and a valid checksum."""
    content = path.read_bytes()
    size = int.from_bytes(content[:8], "little")
    header = json.loads(json.loads(content[8 : 8 + size])["__metadata__"]["gpcanet"])
    arrays = load_tensors(content)
    header.pop("sha256")
    change(header, arrays)
    header["sha256"] = digest(header, arrays)
    path.write_bytes(save_tensors(arrays, metadata={"gpcanet": json.dumps(header)}))


def swap(one, other):
    def change(header, arrays):
        arrays[one], arrays[other] = arrays[other], arrays[one]

    return change


def fill(name, value):
    def change(header, arrays):
        arrays[name] = np.full_like(arrays[name], value)

    return change


FORGED = {
    "newer": (lambda h, a: h.update(format=FORMAT_VERSION + 1), r"in a format newer than this"),
    "no version": (lambda h, a: h.pop("format"), r"in a format newer than this version can read"),
    "another kind": (lambda h, a: h.update(kind="GPCA"), r"is not a (complete )?model of GPCANet"),
    "unknown kind": (lambda h, a: h.update(kind="PCA"), r"is not a (complete )?model of GPCANet"),
    "no model": (lambda h, a: h.pop("model"), r"is not a complete model of GPCANet"),
    "a missing array": (lambda h, a: a.pop("GPCAClassifier.gpca_.0.mean_"), r"not a complete"),
    "bad parameter": (lambda h, a: h["model"]["parameters"].update(beta=-1), r"beta=-1 must be in"),
    "unknown parameter": (lambda h, a: h["model"]["parameters"].update(q=1), r"not a complete"),
    "not a learned attribute": (lambda h, a: h["model"]["learned"].update(predict="1"),
                                r"attributes that are not learned"),
    "swapped arrays": (swap("GPCAClassifier.gpca_.0.mean_",
                            "GPCAClassifier.gpca_.0.eigenvalues_"), r"arrays do not match"),
    "edges out of range": (fill("GPCAClassifier.training_nodes_.graph.indices", 10**6),
                           r"not a model"),
    "edges below range": (fill("GPCAClassifier.training_nodes_.graph.indices", -7),
                          r"not a model of"),
}  # fmt: skip


@pytest.mark.parametrize("kind", FORGED)
def test_an_invalid_model_raises_one_line(saved, kind):
    change, pattern = FORGED[kind]
    forged(saved, lambda header, arrays: None)
    load_model(saved)
    forged(saved, change)
    with pytest.raises(ValueError, match=rf"model\.safetensors .*{pattern}") as caught:
        load_model(saved)
    assert "\n" not in str(caught.value)


FOREIGN = {
    "empty": b"",
    "text": b"not a model",
    "pickle": pickle.dumps({"a": 1}),
    "other tensors": save_tensors({"a": np.ones(3)}),
    "other metadata": save_tensors({"a": np.ones(3)}, metadata={"format": "pt"}),
    "no JSON": save_tensors({"a": np.ones(3)}, metadata={"gpcanet": "{"}),
    "a list": save_tensors({"a": np.ones(3)}, metadata={"gpcanet": "[1]"}),
    "deep JSON": save_tensors({"a": np.ones(3)}, metadata={"gpcanet": "[" * 10**5}),
    "no checksum": save_tensors({"a": np.ones(3)}, metadata={"gpcanet": '{"format": 1}'}),
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_a_file_of_another_kind_raises(tmp_path, kind):
    path = tmp_path / "foreign.safetensors"
    path.write_bytes(FOREIGN[kind])
    with pytest.raises(ValueError, match=r"foreign\.safetensors is not a model of GPCANet, or"):
        load_model(path)


def test_a_truncated_model_is_refused(saved):
    content = saved.read_bytes()
    for size in np.linspace(0, len(content) - 1, 40).astype(int):
        saved.write_bytes(content[:size])
        with pytest.raises(ValueError, match=r"is not a model of GPCANet, or is damaged"):
            load_model(saved)


@pytest.fixture(scope="module")
def content(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "model.safetensors"
    save_model(EMBEDDINGS["labels and names"](), path)
    return path.read_bytes()


@settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(share=st.integers(0, 10**6), bit=st.integers(0, 7))
def test_a_flipped_bit_is_detected_or_harmless(tmp_path, content, share, bit):
    damaged = bytearray(content)
    damaged[share * len(damaged) // (10**6 + 1)] ^= 1 << bit
    path = tmp_path / "model.safetensors"
    path.write_bytes(content)
    whole = load_model(path)
    path.write_bytes(damaged)
    try:
        again = load_model(path)
    except ValueError as error:
        assert str(path) in str(error)  # noqa: PT017
    else:
        assert differences(whole, again) == []


def test_the_checksum_covers_every_array(saved):
    content = saved.read_bytes()
    begin = 8 + int.from_bytes(content[:8], "little")
    for at in np.linspace(begin, len(content) - 1, 50).astype(int):
        damaged = bytearray(content)
        damaged[at] ^= 1
        saved.write_bytes(damaged)
        with pytest.raises(ValueError, match="is damaged: its content does not match its checksum"):
            load_model(saved)


# -- models that cannot be saved ----------------------------------------------------------------


class Different(GPCA):
    pass


def failed_fit():
    """X was checked, so the number of features is known."""
    model = GPCA(X.shape[1] + 1)
    with pytest.raises(ValueError, match="n_components"):
        model.fit(X, graph=GRAPH)
    with pytest.raises(NotFittedError):
        model.transform(X, graph=GRAPH)
    return model


UNSAVEABLE = {
    "unfitted": (lambda: GPCA(), ValueError, r"this GPCA is not fitted; fit it before saving it"),
    "unfitted classifier": (lambda: GPCAClassifier(), ValueError, r"GPCAClassifier is not fitted"),
    "fit that failed": (failed_fit, ValueError, r"this GPCA is not fitted; fit it before"),
    "foreign": (lambda: PCA(2).fit(X), TypeError, r"a PCA cannot be saved; give a GPCA, GPC"),
    "subclass": (lambda: Different(2).fit(X), TypeError, r"a Different cannot be saved"),
    "random state": (classifier(random_state=np.random.RandomState(0)), TypeError,
                     r"random_state=RandomState.* cannot be saved; use a number, text or None"),
    "ids of tuples": (lambda: GPCA(2, beta=0.2).fit(X, Y, graph=Graph(
        GRAPH.adjacency, node_ids=[(i, 0) for i in range(40)])), TypeError,
        r"node_ids holds values that are neither numbers nor text; such a model cannot be saved"),
}  # fmt: skip


@pytest.mark.parametrize("kind", UNSAVEABLE)
def test_models_that_cannot_be_saved_raise(tmp_path, kind):
    make, error, pattern = UNSAVEABLE[kind]
    with pytest.raises(error, match=pattern):
        save_model(make(), tmp_path / "model.safetensors")
    assert os.listdir(tmp_path) == []


def test_a_file_is_replaced_only_with_overwrite(saved):
    before = hashlib.sha256(saved.read_bytes()).digest()
    model = EMBEDDINGS["dense"]()
    with pytest.raises(FileExistsError, match=r"model\.safetensors exists; choose another name"):
        save_model(model, saved)
    assert hashlib.sha256(saved.read_bytes()).digest() == before
    save_model(model, saved, overwrite=True)
    assert type(load_model(saved)) is GPCA
    assert os.listdir(saved.parent) == [saved.name]


@pytest.mark.parametrize("name", ["missing.safetensors", "."])
def test_loading_a_missing_file_raises(tmp_path, name):
    with pytest.raises(FileNotFoundError, match="is not a file; give the file of a saved model"):
        load_model(tmp_path / name)


def test_arrays_shared_by_the_embeddings_of_a_classifier_are_written_once(tmp_path):
    rows = np.random.default_rng(0).normal(size=(40, 500))
    one = GPCAClassifier(2, alpha=5.0, feature_scaling="none", C=1.0)
    three = GPCAClassifier(2, alpha=[5.0, 10.0, 20.0], feature_scaling="none", C=1.0)
    sizes = []
    for model in (one, three):
        path = tmp_path / f"{len(sizes)}.safetensors"
        save_model(model.fit(rows, Y, graph=GRAPH, nodes=np.arange(40)), path)
        sizes.append(path.stat().st_size)
        again = load_model(path).predict_proba(rows[:5], graph=GRAPH, nodes=np.arange(5))
        np.testing.assert_array_equal(
            again, model.predict_proba(rows[:5], graph=GRAPH, nodes=np.arange(5))
        )
    assert sizes[1] < sizes[0] + rows.nbytes / 2
