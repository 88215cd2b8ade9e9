"""The part prediction: graphs of a folder, splits, peers, and resuming."""

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


def test_finished_runs_are_not_repeated(folder, tmp_path, monkeypatch):
    methods = {name: prediction.METHODS[name] for name in ("GPCAClassifier", "SGC")}
    monkeypatch.setattr(prediction, "METHODS", methods)
    logged = []
    config = Config(SIZES["quick"], 1, tmp_path / "work", logged.append, datasets=("official",))
    first = prediction.run(config)
    assert logged == [f"official, split 1 of 1: {name}" for name in methods]
    assert prediction.run(config) == first
    assert len(logged) == 2
    assert first["graphs"]["official"]["metric"] == "roc_auc"
    assert len(first["graphs"]["official"]["methods"]["SGC"]["scores"]) == 1
