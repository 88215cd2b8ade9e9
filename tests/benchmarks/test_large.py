"""Fits in processes of their own: turns, memory, failures, and how they grow."""

import os
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import child, fits, growth, large
from benchmarks.graphs import folder_of, read, write
from benchmarks.setting import SIZES, Setting, Shape
from gpcanet.datasets import block_model

SHAPE = Shape(60, 150, 12, 3)


@pytest.fixture
def setting(tmp_path):
    return Setting(SIZES["quick"], repeats=2, work_dir=tmp_path / "work", tell=lambda text: None)


@pytest.fixture
def folder(tmp_path):
    write(SHAPE, tmp_path)
    return tmp_path


def test_a_kept_graph_is_the_generated_one(folder):
    data, kept = block_model(60, 150, n_features=12, n_classes=3), read(folder, 5)
    assert kept.graph == data.graph
    np.testing.assert_array_equal(kept.X, data.X[:, :5])
    assert not isinstance(kept.X, np.memmap)
    assert kept.X.flags.c_contiguous


def test_a_graph_is_generated_once_and_by_a_child(setting):
    made = large.kept_graph(SHAPE, setting)
    assert made == folder_of(SHAPE, setting.work_dir)
    before = (made / "X.npy").stat().st_mtime_ns
    assert large.kept_graph(SHAPE, setting) == made
    assert (made / "X.npy").stat().st_mtime_ns == before
    assert [path.name for path in setting.work_dir.iterdir()] == [made.name]


@pytest.mark.parametrize("ending", [RuntimeError, KeyboardInterrupt])
def test_a_graph_that_is_not_finished_leaves_nothing(setting, monkeypatch, ending):
    def in_child(job, *, timeout):
        (Path(job["folder"]) / "X.npy").write_text("half")
        if ending is KeyboardInterrupt:
            raise KeyboardInterrupt
        return {"failed": "no memory"}

    monkeypatch.setattr(large, "in_child", in_child)
    with pytest.raises(ending):
        large.kept_graph(SHAPE, setting)
    assert list(setting.work_dir.iterdir()) == []


# -- one process --------------------------------------------------------------------------------


def job(folder, way="GPCA, 5 steps, half", **more):
    base = {"job": "fit", "way": way, "folder": str(folder), "columns": 8, "components": 4}
    return {**base, "repeats": 2, **more}


def test_a_process_tells_time_memory_and_sizes(folder):
    found = child.in_child(job(folder), timeout=100)
    assert found["seconds"] > 0
    assert found["repeats"] == 2
    assert (found["nodes"], found["columns"]) == (60, 8)
    if os.path.exists("/proc/self/status"):
        assert 2**25 < found["before_bytes"] <= found["peak_bytes"] < 2**31


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="Linux only")
def test_the_peak_is_that_of_the_fit(folder, monkeypatch):
    waste = np.ones(80 * 2**20, np.uint8)  # held before, and a larger peak before that
    del waste
    taken = []

    def fit(graph, X, k):
        if graph.n_nodes == SHAPE.n_nodes:  # not while warming up
            taken.append(np.ones(50 * 2**20, np.uint8).sum())
        return X

    monkeypatch.setitem(fits.FITS, "greedy", fit)
    found = child.do(job(folder, "greedy"))
    extra = found["peak_bytes"] - found["before_bytes"]
    assert 45 * 2**20 < extra < 70 * 2**20
    assert len(taken) == 2


def test_generating_is_measured():
    shape = {"n_nodes": 50, "n_edges": 100, "n_features": 4, "n_classes": 2}
    found = child.do({"job": "generate", "shape": shape})
    assert found["nodes"] == 50
    assert found["seconds"] > 0


def test_failures_of_a_process_are_told_in_a_line(folder):
    found = child.in_child(job(folder, "no such way"), timeout=100)
    assert found == {"failed": "KeyError: 'no such way'"}
    start = time.perf_counter()
    assert child.in_child(job(folder), timeout=0.1) == {"failed": "took longer than 0 s"}
    assert time.perf_counter() - start < 10


def test_a_missing_package_is_skipped_by_name(monkeypatch, capsys):
    def missing(job):
        raise ModuleNotFoundError("No module named 'torch'", name="torch")

    monkeypatch.setattr(child, "do", missing)
    monkeypatch.setattr(child.sys, "argv", ["child", "{}"])
    monkeypatch.setattr(child, "_die_first", lambda: None)
    with pytest.raises(SystemExit) as ending:
        child.main()
    assert ending.value.code == child.MISSING
    assert capsys.readouterr().err == "torch is not installed\n"


# -- several processes --------------------------------------------------------------------------


def point(seconds, peak=100, before=40, **more):
    return {
        "seconds": seconds, "first": seconds, "repeats": 1,
        "peak_bytes": peak, "before_bytes": before, **more,
    }  # fmt: skip


def test_ways_take_turns_and_long_ones_run_once(setting, monkeypatch):
    calls = []
    seconds = {"quick": iter([3.0, 1.0, 2.0]), "long": iter([61.0])}

    def in_child(job, *, timeout):
        calls.append(job["way"])
        return {"failed": "no"} if job["way"] == "bad" else point(next(seconds[job["way"]]))

    monkeypatch.setattr(large, "in_child", in_child)
    setting = replace(setting, size=replace(setting.size, rounds=3))
    found = large.fits_in_turns(
        ("quick", "long", "bad"), Path(), columns=8, components=4, setting=setting
    )
    assert calls == ["quick", "long", "bad", "quick", "quick"]
    assert (found["quick"]["seconds"], found["quick"]["repeats"]) == (1.0, 3)
    assert found["long"]["repeats"] == 1
    assert found["bad"] == {"failed": "no"}


def test_processes_are_merged_by_least_time_and_largest_memory():
    found = large.merged([point(2.0, 100, 40), point(1.0, 120, 50)])
    assert (found["seconds"], found["repeats"]) == (1.0, 2)
    assert (found["peak_bytes"], found["before_bytes"]) == (120, 40)
    assert large.merged([point(1.0), {"failed": "later"}]) == {"failed": "later"}


def test_a_way_that_failed_is_not_tried_on_larger_graphs(setting, monkeypatch):
    tried = []

    def fits_in_turns(ways, folder, *, columns, components, setting):
        tried.append(list(ways))
        found = {way: point(1.0, edges=1, nodes=1) for way in ways}
        if len(tried) == 2 and "torch CSR, 5 steps" in found:
            found["torch CSR, 5 steps"] = {"failed": "took longer than 1 s"}
        return found

    monkeypatch.setattr(growth, "fits_in_turns", fits_in_turns)
    monkeypatch.setattr(growth, "kept_graph", lambda shape, setting: Path())
    setting = replace(setting, size=replace(setting.size, grown_edges=(1000, 2000, 3000)))
    found = growth.run(setting)
    assert ["torch CSR, 5 steps" in ways for ways in tried] == [True, True, False, False]
    last = [p for p in found["over_edges"] if p["wanted_edges"] == 3000]
    assert [p["way"] for p in last] == list(growth.WAYS)
    assert last[-1]["failed"] == "took longer than 1 s"


# -- exponents ----------------------------------------------------------------------------------


@given(power=st.floats(-2, 3), factor=st.floats(1e-6, 1e6))
def test_the_exponent_of_a_power_law_is_found(power, factor):
    sizes = [10, 100, 5_000, 10**8]
    values = [factor * size**power for size in sizes]
    assert growth.exponent(sizes, values) == pytest.approx(power, abs=1e-9)


def test_exponents_heed_large_points_that_there_are():
    way = growth.WAYS[0]
    points = [
        {"way": way, "wanted_edges": edges, **point(edges**1.2, 7 * edges + 5, 5, edges=edges)}
        for edges in (100_000, 1_000_000, 10_000_000)
    ]
    points.insert(0, {"way": way, "wanted_edges": 10_000, **point(1e9, edges=10_000)})
    points.append({"way": way, "wanted_edges": 10**8, "failed": "no"})
    points.append({"way": growth.WAYS[1], "wanted_edges": 10**6, **point(1.0, edges=10**6)})
    found = growth.exponents(points)
    assert list(found) == [way]
    assert found[way]["seconds"] == pytest.approx(1.2)
    assert found[way]["memory"] == pytest.approx(1.0)
    assert found[way]["points"] == 3
