"""The parts that run in this process, on graphs of a few hundred nodes."""

from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from benchmarks import bandwidth, child, embed, first_use, gcn_epoch, path, step
from benchmarks.config import SIZES, Config
from benchmarks.graphs import published
from gpcanet.datasets import DataUnavailableError, block_model


@pytest.fixture
def messages():
    return []


@pytest.fixture
def config(tmp_path, messages):
    size = replace(SIZES["quick"], real=("cora",))
    return Config(size, repeats=1, work_dir=tmp_path, log=messages.append, offline=True)


@pytest.fixture
def citations(monkeypatch):
    """Replacements of the citation graphs; one of them is unavailable."""

    def load(name, *_, **__):
        if name == "citeseer":
            raise DataUnavailableError("citeseer is unavailable")
        data = block_model(1_700, 9_000, n_features=90, n_classes=4, feature_noise=8.0)
        train, validation, test = np.split(np.arange(1_700), [300, 700])
        return replace(data, name=name, train=train, validation=validation, test=test)

    monkeypatch.setattr("benchmarks.graphs.load", load)
    monkeypatch.setattr("benchmarks.path.load", load)
    monkeypatch.setattr(
        child, "run_in_process", lambda job, timeout=None, **given: child.run_job(job, **given)
    )


@pytest.fixture
def small_search(monkeypatch):
    monkeypatch.setattr("gpcanet.estimators._model_selection.FEATURE_SCALINGS", ("l2",))
    monkeypatch.setattr("gpcanet.estimators._model_selection.EMBEDDING_NORMS", (False,))
    monkeypatch.setattr("gpcanet.estimators._model_selection.INVERSE_PENALTIES", (0.3,))


@pytest.mark.usefixtures("citations")
def test_unavailable_graph_is_skipped(config, messages):
    found, skipped = published(replace(config, size=SIZES["small"]))
    assert [data.name for data in found] == ["cora", "pubmed"]
    reason = "DataUnavailableError: citeseer is unavailable"
    assert skipped == {"citeseer": {"skipped": reason}}
    assert messages == ["citeseer is skipped: citeseer is unavailable"]


def test_step(config):
    found = step.run(config)
    assert list(found["methods"]) == [method.name for method in step.METHODS]
    assert found["methods"]["GPCANet"]["seconds"] > 0
    assert found["largest_difference"] < 1e-5
    assert found["nodes"] == 600


@pytest.mark.usefixtures("citations", "small_search")
def test_embeddings_are_timed_and_evaluated(config, monkeypatch):
    methods = [m for m in embed.METHODS if m.name in ("GPCA", "PCA of X")]

    def breaks(data):
        raise RuntimeError("broken")

    methods.append(replace(methods[0], name="broken", prepare=breaks))
    monkeypatch.setattr(embed, "METHODS", methods)
    monkeypatch.setattr(embed, "LARGE_METHODS", methods)
    monkeypatch.setattr(embed, "INVERSE_PENALTIES", (0.3,))
    graphs = embed.run(replace(config, size=replace(config.size, real=("cora", "citeseer"))))
    assert list(graphs["graphs"]) == ["citeseer", "cora", "generated"]
    cora = graphs["graphs"]["cora"]
    assert cora["methods"]["GPCA"]["accuracy"] > cora["methods"]["PCA of X"]["accuracy"]
    assert len(cora["methods"]["GPCA"]["random_accuracies"]) == 1
    assert cora["methods"]["broken"] == {"failed": "RuntimeError: broken"}
    assert cora["classifier"]["accuracy"] > 0.5
    assert "accuracy" not in graphs["graphs"]["generated"]["methods"]["GPCA"]


@pytest.fixture
def small_grid(monkeypatch):
    monkeypatch.setattr(path, "ALPHAS", (1.0, 10.0))
    monkeypatch.setattr(path, "GRID", tuple(product((1.0, 10.0), path.BETAS)))


@pytest.mark.usefixtures("citations", "small_grid")
def test_path(config):
    found = path.run(config)["graphs"]["cora"]
    assert list(found["methods"]) == [path.PATH, path.SEPARATE, path.SINGLE]
    assert found["methods"][path.SEPARATE]["seconds"] > found["methods"][path.SINGLE]["seconds"]
    assert len(found["cosines"]) == 6
    assert list(found["first_call"]) == [path.PATH, path.SEPARATE]
    for outcome in found["first_call"].values():
        assert outcome["seconds"] > 0
        assert outcome["repeats"] == 1
    assert min(pair["smallest_cosine"] for pair in found["cosines"]) > 1 - 1e-5


@pytest.mark.usefixtures("citations", "small_grid")
def test_failing_path_does_not_stop_other_methods(config, monkeypatch):
    def fails(**settings):
        raise ValueError("no")

    monkeypatch.setattr(path, "GPCAPath", fails)
    monkeypatch.setattr(child, "run_in_process", lambda job, **_: {"failed": "ValueError: no"})
    found = path.run(config)["graphs"]["cora"]
    assert found["first_call"][path.PATH] == {"failed": "ValueError: no"}
    assert found["methods"][path.PATH] == {"failed": "ValueError: no"}
    assert "seconds" in found["methods"][path.SINGLE]
    assert "cosines" not in found


def test_traffic_counts_every_array():
    data = block_model(50, 100, n_features=8)
    n_indices = len(data.graph.indices)
    found = bandwidth.traffic(data, 2)
    by_hand = 4 * n_indices + (8 + 4 + 4) * 50 + 3 * (50 * 8 * 2)
    assert found["compulsory_bytes"] == by_hand
    assert found["gathered_bytes"] == by_hand + n_indices * 8 * 2


def test_bandwidth(config):
    found = bandwidth.run(config)
    assert found["triad"]["bytes"] == 24 * config.size.triad_numbers
    assert set(found["methods"]) == {"GPCANet", "GPCANet, half precision"}
    full, half = found["methods"].values()
    assert half["gathered_bytes"] < full["gathered_bytes"] < 2 * half["gathered_bytes"]


def test_first_calls_are_the_minimum_over_processes(config, monkeypatch):
    calls = []

    def run_in_process(job, *, method, **_):
        calls.append(method)
        return {"seconds": 10.0 - len(calls)}

    monkeypatch.setattr(child, "run_in_process", run_in_process)
    found = path._first_calls("cora", replace(config, repeats=9))
    assert calls == [path.PATH, path.SEPARATE] * path.MAX_FIRST_CALLS
    assert found[path.SEPARATE] == {"seconds": 0.0, "repeats": path.MAX_FIRST_CALLS}


def test_first_use_starts_with_an_empty_kernel_cache(config, monkeypatch):
    """Every repeat has its own folder, which is empty for the first run and kept for the second."""
    contents, folders = [], []

    def run_python(arguments, kernel_cache):
        folders.append(kernel_cache)
        contents.append(sorted(path.name for path in Path(kernel_cache).iterdir()))
        (Path(kernel_cache) / "kernel").touch()

    monkeypatch.setattr(first_use, "run_python", run_python)
    size = replace(config.size, real=())
    found = first_use.run(replace(config, size=size, repeats=2))["graphs"]["generated"]
    assert found["repeats"] == 2
    assert found["first"] > 0 < found["second"]
    assert contents == [[], ["kernel"]] * 2
    assert len(set(folders)) == 2


def test_failed_first_use_is_reported(config, monkeypatch):
    def run_python(arguments, kernel_cache):
        raise RuntimeError("no such option")

    monkeypatch.setattr(first_use, "run_python", run_python)
    found = first_use.run(replace(config, size=replace(config.size, real=())))
    assert found == {"graphs": {"generated": {"failed": "RuntimeError: no such option"}}}


def test_losses_of_an_epoch_agree(config):
    pytest.importorskip("torch_geometric")
    shape = {"n_nodes": 300, "n_edges": 900, "n_features": 12, "n_classes": 4}
    found = [gcn_epoch.measure(method, shape) for method in gcn_epoch.METHODS]
    losses = [outcome["loss"] for outcome in found]
    assert losses == pytest.approx([losses[0]] * 3, rel=1e-4)
    assert {outcome["repeats"] for outcome in found} == {gcn_epoch.EPOCHS}
