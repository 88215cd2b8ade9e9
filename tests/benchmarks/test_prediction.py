"""The part prediction: graphs of a folder, splits, peers, and resuming."""

import json

import numpy as np
import pytest
import scipy.sparse as sp

from benchmarks import prediction
from benchmarks.config import SIZES, Config
from benchmarks.peer_classifiers import PEERS
from gpcanet.datasets import block_model


@pytest.fixture(scope="module")
def data():
    return block_model(300, 1500, n_features=12, n_classes=2, feature_noise=3.0)


@pytest.fixture
def folder(tmp_path, monkeypatch, data):
    folder = tmp_path / "graphs"
    folder.mkdir()
    arrays = {"indptr": data.graph.indptr, "indices": data.graph.indices, "y": data.y + 1}
    masks = {f"{part}_masks": np.arange(300)[None] % 3 == i
             for i, part in enumerate(("train", "val", "test"))}  # fmt: skip
    np.savez(folder / "official.npz", x=data.X, **arrays, **masks)
    X = sp.csr_array(np.maximum(data.X, 0))
    np.savez(
        folder / "sparse.npz", x_data=X.data, x_indices=X.indices, x_indptr=X.indptr,
        x_shape=X.shape, **arrays,
    )  # fmt: skip
    monkeypatch.setenv(prediction.FOLDER_VARIABLE, str(folder))
    return folder


def test_graphs_of_a_folder_are_read(folder, data):
    official, masks = prediction.read(folder / "official.npz")
    np.testing.assert_array_equal(official.X, data.X)
    np.testing.assert_array_equal(official.y, data.y)
    assert masks[0].sum() == 100
    found, masks = prediction.read(folder / "sparse.npz")
    np.testing.assert_array_equal(found.X.toarray(), np.maximum(data.X, 0))
    assert masks is None


def test_splits_have_few_nodes_of_each_class(data):
    split = prediction.few_labels(data, 0)
    assert np.bincount(data.y[split.train]).tolist() == [20, 20]
    assert np.bincount(data.y[split.validation]).tolist() == [30, 30]
    every = np.concatenate([split.train, split.validation, split.test])
    assert sorted(every) == list(range(300))


@pytest.mark.parametrize("name", PEERS)
def test_peers_learn_from_the_graph(data, name, monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.setattr("benchmarks.peer_classifiers.EPOCHS", 40)
    result = PEERS[name](prediction.few_labels(data, 0), "accuracy")
    assert result.test > (0.6 if name == "logistic regression" else 0.8)
    assert result.seconds > 0


@pytest.fixture
def run(folder, tmp_path, monkeypatch):
    """A run with two methods on one graph; returns the results and what was logged."""
    methods = {name: prediction.METHODS[name] for name in ("GPCAClassifier", "SGC")}
    monkeypatch.setattr(prediction, "METHODS", methods)
    monkeypatch.setattr(prediction, "BUSY_GRAPHS", ("official",))

    def run(**options):
        logged, saved = [], []
        options = {"datasets": ("official",), "stages": ("scores",)} | options
        config = Config(SIZES["quick"], 1, tmp_path, logged.append, save=saved.append, **options)
        results = prediction.run(config)
        assert len(saved) >= len(logged)
        return results, logged

    return run


def test_finished_runs_are_not_repeated(run):
    first, logged = run()
    assert logged == [f"official, split 1 of 1: {name}" for name in prediction.METHODS]
    found = first["graphs"]["official"]
    assert found["metric"] == "roc_auc"
    assert len(found["methods"]["SGC"]["scores"]) == 1
    assert 0 <= found["methods"]["SGC"]["calibration_errors"][0] <= 1
    assert "seconds" not in found["methods"]["SGC"]
    known = json.loads(json.dumps(first))  # as read from a file
    assert run(earlier=known) == (first, [])
    assert run(earlier=known, again=True, methods=("SGC",))[1] == ["official, split 1 of 1: SGC"]


def test_seconds_are_measured_in_a_second_stage(run):
    first, _ = run()
    known = json.loads(json.dumps(first))
    second, logged = run(earlier=known, stages=("seconds",))
    assert logged == [f"official, seconds: {name}" for name in prediction.METHODS]
    methods = second["graphs"]["official"]["methods"]
    assert methods["SGC"]["seconds"] > 0
    assert methods["SGC"]["scores"] == first["graphs"]["official"]["methods"]["SGC"]["scores"]
    busy = second["busy"]["official"]
    assert busy["quiet"] > 0
    assert busy["busy"] > 0
    assert run(earlier=json.loads(json.dumps(second)), stages=("seconds",))[1] == []


def test_a_large_graph_is_measured_with_its_memory():
    shape = {"n_nodes": 400, "n_edges": 2000, "n_features": 8, "n_classes": 3}
    found = prediction.measure_generated(shape, (0.5, 0.2))
    assert found["labels"] == 200
    assert found["score"] > 0.6
    assert found["peak_bytes"] >= found["before_bytes"]
    assert found["processor_seconds"] > 0
