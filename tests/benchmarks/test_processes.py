"""Fits in new processes: order, memory, failures and growth."""

import os
import time
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import child, fits, growth
from benchmarks.config import SIZES, Config, GraphShape
from benchmarks.graphs import folder_of, read, stored_graph, write
from gpcanet.datasets import block_model

SHAPE = GraphShape(60, 150, 12, 3)


@pytest.fixture
def config(tmp_path):
    return Config(SIZES["quick"], repeats=2, work_dir=tmp_path / "work", log=lambda text: None)


@pytest.fixture
def folder(tmp_path):
    write(asdict(SHAPE), str(tmp_path))
    return tmp_path


def test_stored_graph_equals_the_generated_one(folder):
    data, stored = block_model(60, 150, n_features=12, n_classes=3), read(folder, 5)
    assert stored.graph == data.graph
    np.testing.assert_array_equal(stored.X, data.X[:, :5])
    assert not isinstance(stored.X, np.memmap)
    assert stored.X.flags.c_contiguous


def test_graph_is_generated_once(config):
    made = stored_graph(SHAPE, config)
    assert made == folder_of(SHAPE, config.work_dir)
    before = (made / "X.npy").stat().st_mtime_ns
    assert stored_graph(SHAPE, config) == made
    assert (made / "X.npy").stat().st_mtime_ns == before
    assert [path.name for path in config.work_dir.iterdir()] == [made.name]


@pytest.mark.parametrize("ending", [RuntimeError, KeyboardInterrupt])
def test_unfinished_graph_is_removed(config, monkeypatch, ending):
    def run_in_process(job, *, shape, folder):
        (Path(folder) / "X.npy").write_text("half")
        if ending is KeyboardInterrupt:
            raise KeyboardInterrupt
        return {"failed": "no memory"}

    monkeypatch.setattr(child, "run_in_process", run_in_process)
    with pytest.raises(ending):
        stored_graph(SHAPE, config)
    assert list(config.work_dir.iterdir()) == []


# -- one process --------------------------------------------------------------------------------


def arguments(folder, method="GPCA, 5 steps, half"):
    sizes = {"columns": 8, "components": 4, "repeats": 2}
    return {"method": method, "folder": str(folder), **sizes}


def test_process_returns_time_memory_and_sizes(folder):
    found = child.run_in_process("fits.measure", **arguments(folder))
    assert found["seconds"] > 0
    assert found["repeats"] == 2
    assert (found["nodes"], found["columns"]) == (60, 8)
    if os.path.exists("/proc/self/status"):
        assert 2**25 < found["before_bytes"] <= found["peak_bytes"] < 2**31


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="Linux only")
def test_peak_memory_is_that_of_the_fit(folder, monkeypatch):
    larger = np.ones(80 * 2**20, np.uint8)  # a larger peak before the fit
    del larger
    sizes = iter([120, 50, 50])  # the first call, which may compile, does not count
    allocated = []

    def fit(graph, X, k):
        allocated.append(np.ones(next(sizes) * 2**20, np.uint8).sum())
        return X

    monkeypatch.setitem(fits.FITS, "allocating", fit)
    found = fits.measure(**arguments(folder, "allocating"))
    extra = found["peak_bytes"] - found["before_bytes"]
    assert 45 * 2**20 < extra < 70 * 2**20
    assert len(allocated) == 3
    assert found["repeats"] == 2


def test_long_fit_runs_once(folder, monkeypatch):
    calls = []
    monkeypatch.setitem(fits.FITS, "long", lambda graph, X, k: calls.append(k))
    monkeypatch.setattr(fits, "LONG_SECONDS", 0.0)
    found = fits.measure(**arguments(folder, "long"))
    assert calls == [4]
    assert found["seconds"] == found["first"]
    assert found["repeats"] == 1


def test_generation_is_measured():
    shape = {"n_nodes": 50, "n_edges": 100, "n_features": 4, "n_classes": 2}
    found = child.run_job("generation.measure", shape=shape)
    assert found["nodes"] == 50
    assert found["seconds"] > 0


def test_failures_of_a_process_are_one_line(folder):
    found = child.run_in_process("fits.measure", **arguments(folder, "unknown"))
    assert found == {"failed": "KeyError: 'unknown'"}
    start = time.perf_counter()
    found = child.run_in_process("fits.measure", timeout=0.1, **arguments(folder))
    assert found == {"failed": "took longer than 0 s"}
    assert time.perf_counter() - start < 10


def test_missing_package_is_named(monkeypatch, capsys):
    def missing(job, **arguments):
        raise ModuleNotFoundError("No module named 'torch'", name="torch")

    monkeypatch.setattr(child, "run_job", missing)
    monkeypatch.setattr(child.sys, "argv", ["child", '["fits.measure", {}]'])
    monkeypatch.setattr(child, "_prefer_for_oom_kill", lambda: None)
    with pytest.raises(SystemExit) as ending:
        child.main()
    assert ending.value.code == child.MISSING_PACKAGE
    assert capsys.readouterr().err == "torch is not installed\n"


# -- several processes --------------------------------------------------------------------------


def point(seconds, peak=100, before=40, **more):
    return {
        "seconds": seconds, "first": seconds, "repeats": 1,
        "peak_bytes": peak, "before_bytes": before, **more,
    }  # fmt: skip


def test_processes_are_interleaved_and_long_fits_run_once(config, monkeypatch):
    calls = []
    seconds = {"quick": iter([3.0, 1.0, 2.0]), "long": iter([61.0])}

    def run_in_process(job, *, method, **_):
        calls.append(method)
        return {"failed": "no"} if method == "bad" else point(next(seconds[method]))

    monkeypatch.setattr(child, "run_in_process", run_in_process)
    config = replace(config, size=replace(config.size, rounds=3))
    found = fits.fit_interleaved(
        ("quick", "long", "bad"), Path(), columns=8, components=4, config=config
    )
    assert calls == ["quick", "long", "bad", "quick", "quick"]
    assert (found["quick"]["seconds"], found["quick"]["repeats"]) == (1.0, 3)
    assert found["long"]["repeats"] == 1
    assert found["bad"] == {"failed": "no"}


def test_minimum_time_and_maximum_memory_over_processes():
    found = fits.merge_outcomes([point(2.0, 100, 40), point(1.0, 120, 50)])
    assert (found["seconds"], found["repeats"]) == (1.0, 2)
    assert (found["peak_bytes"], found["before_bytes"]) == (120, 40)
    assert fits.merge_outcomes([point(1.0), {"failed": "later"}]) == {"failed": "later"}


def test_failed_method_is_not_tried_on_larger_graphs(config, monkeypatch):
    tried = []

    def fit_interleaved(methods, folder, *, columns, components, config):
        tried.append(list(methods))
        found = {method: point(1.0, edges=1, nodes=1) for method in methods}
        if len(tried) == 2 and "torch CSR, 5 steps" in found:
            found["torch CSR, 5 steps"] = {"failed": "took longer than 1 s"}
        return found

    monkeypatch.setattr(growth, "fit_interleaved", fit_interleaved)
    monkeypatch.setattr(growth, "stored_graph", lambda shape, config: Path())
    config = replace(config, size=replace(config.size, grown_edges=(1000, 2000, 3000)))
    found = growth.run(config)
    assert ["torch CSR, 5 steps" in methods for methods in tried] == [True, True, False, False]
    last = [p for p in found["over_edges"] if p["requested_edges"] == 3000]
    assert [p["method"] for p in last] == list(growth.METHODS)
    assert last[-1]["failed"] == "took longer than 1 s"


# -- exponents ----------------------------------------------------------------------------------


@given(power=st.floats(-2, 3), factor=st.floats(1e-6, 1e6))
def test_exponent_of_a_power_law(power, factor):
    sizes = [10, 100, 5_000, 10**8]
    values = [factor * size**power for size in sizes]
    assert growth.exponent(sizes, values) == pytest.approx(power, abs=1e-9)


def test_exponents_use_only_large_graphs():
    method, other = growth.METHODS[:2]

    def at(requested, **outcome):
        return {"method": method, "requested_edges": requested, **outcome}

    points = [
        at(10_000, **point(1e9, edges=10_000)),
        *(
            at(edges, **point(edges**1.2, 7 * edges + 5, 5, edges=edges))
            for edges in (100_000, 1_000_000, 10_000_000)
        ),
        at(10**8, failed="no"),
        at(10**6, **point(1.0, edges=10**6)) | {"method": other},
    ]
    found = growth.exponents(points)
    assert list(found) == [method]
    assert found[method]["seconds"] == pytest.approx(1.2)
    assert found[method]["memory"] == pytest.approx(1.0)
    assert found[method]["points"] == 3
