"""The parts that need no process of their own, on graphs of a few hundred nodes."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from benchmarks import bandwidth, embed, path, step
from benchmarks.graphs import published
from benchmarks.setting import SIZES, Setting
from gpcanet.datasets import DataUnavailableError, block_model


@pytest.fixture
def told():
    return []


@pytest.fixture
def setting(tmp_path, told):
    size = replace(SIZES["quick"], real=("cora",))
    return Setting(size, repeats=1, work_dir=tmp_path, tell=told.append, offline=True)


@pytest.fixture
def citations(monkeypatch):
    """Stand-ins for the citation graphs; one of them cannot be had."""

    def load(name, *_, **__):
        if name == "citeseer":
            raise DataUnavailableError("citeseer cannot be had here")
        data = block_model(700, 2_500, n_features=90, n_classes=4, feature_noise=8.0)
        train, validation, test = np.split(np.arange(700), [80, 300])
        return replace(data, name=name, train=train, validation=validation, test=test)

    monkeypatch.setattr("benchmarks.graphs.load", load)


@pytest.fixture
def small_search(monkeypatch):
    monkeypatch.setattr("gpcanet.estimators._model_selection.FEATURE_SCALINGS", ("l2",))
    monkeypatch.setattr("gpcanet.estimators._model_selection.EMBEDDING_NORMS", (False,))
    monkeypatch.setattr("gpcanet.estimators._model_selection.INVERSE_PENALTIES", (0.3,))


@pytest.mark.usefixtures("citations")
def test_a_graph_that_cannot_be_had_is_skipped_by_name(setting, told):
    found, skipped = published(replace(setting, size=SIZES["small"]))
    assert [data.name for data in found] == ["cora", "pubmed"]
    reason = "DataUnavailableError: citeseer cannot be had here"
    assert skipped == {"citeseer": {"skipped": reason}}
    assert told == ["citeseer is skipped: citeseer cannot be had here"]


def test_step(setting):
    found = step.run(setting)
    assert list(found["ways"]) == [way.name for way in step.WAYS]
    assert found["ways"]["GPCANet"]["seconds"] > 0
    assert found["largest_difference"] < 1e-5
    assert found["nodes"] == 600


@pytest.mark.usefixtures("citations", "small_search")
def test_embed_judges_what_it_times(setting, monkeypatch):
    ways = [way for way in embed.WAYS if way.name in ("GPCA", "PCA of X alone")]

    def breaks(data):
        raise RuntimeError("broken")

    ways.append(replace(ways[0], name="broken", prepare=breaks))
    monkeypatch.setattr(embed, "WAYS", ways)
    monkeypatch.setattr(embed, "LARGE_WAYS", ways)
    monkeypatch.setattr(embed, "INVERSE_PENALTIES", (0.3,))
    graphs = embed.run(replace(setting, size=replace(setting.size, real=("cora", "citeseer"))))
    assert list(graphs["graphs"]) == ["citeseer", "cora", "generated"]
    cora = graphs["graphs"]["cora"]
    assert cora["ways"]["GPCA"]["accuracy"] > cora["ways"]["PCA of X alone"]["accuracy"]
    assert len(cora["ways"]["GPCA"]["random_accuracies"]) == 1
    assert cora["ways"]["broken"] == {"failed": "RuntimeError: broken"}
    assert cora["classifier"]["accuracy"] > 0.5
    assert "accuracy" not in graphs["graphs"]["generated"]["ways"]["GPCA"]


def test_a_random_split_has_twenty_labels_a_class_and_no_node_twice():
    data = block_model(2_000, 4_000, n_classes=5)
    split = embed.random_split(data, seed=3)
    assert np.bincount(data.y[split.train]).tolist() == [20] * 5
    parts = np.concatenate([split.train, split.validation, split.test])
    assert len(np.unique(parts)) == len(parts) == 100 + 500 + 1000


@pytest.fixture
def small_grid(monkeypatch):
    monkeypatch.setattr(path, "ALPHAS", (1.0, 10.0))
    monkeypatch.setattr(path, "GRID", tuple(product((1.0, 10.0), path.BETAS)))


@pytest.mark.usefixtures("citations", "small_grid")
def test_path(setting):
    found = path.run(setting)["graphs"]["cora"]
    assert list(found["ways"]) == [path.WHOLE, path.SEPARATE, path.SINGLE]
    assert found["ways"][path.SEPARATE]["seconds"] > found["ways"][path.SINGLE]["seconds"]
    assert len(found["cosines"]) == 6
    assert min(pair["smallest_cosine"] for pair in found["cosines"]) > 1 - 1e-5


@pytest.mark.usefixtures("citations", "small_grid")
def test_a_path_that_fails_is_told_beside_the_others(setting, monkeypatch):
    def fails(**settings):
        raise ValueError("no")

    monkeypatch.setattr(path, "GPCAPath", fails)
    found = path.run(setting)["graphs"]["cora"]
    assert found["ways"][path.WHOLE] == {"failed": "ValueError: no"}
    assert "seconds" in found["ways"][path.SINGLE]
    assert "cosines" not in found


def test_traffic_counts_every_array(setting):
    data = block_model(50, 100, n_features=8)
    entries = len(data.graph.indices)
    found = bandwidth.traffic(data, 2)
    by_hand = 4 * entries + (8 + 4 + 4) * 50 + 3 * (50 * 8 * 2)
    assert found["compulsory_bytes"] == by_hand
    assert found["gathered_bytes"] == by_hand + entries * 8 * 2


def test_bandwidth(setting):
    found = bandwidth.run(setting)
    assert found["triad"]["bytes"] == 24 * setting.size.triad_numbers
    assert set(found["ways"]) == {"GPCANet", "GPCANet, half precision"}
    full, half = found["ways"].values()
    assert half["gathered_bytes"] < full["gathered_bytes"] < 2 * half["gathered_bytes"]
