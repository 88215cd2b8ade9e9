"""Cells go on from earlier results, and are written one by one."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import cells, child
from benchmarks.cells import NOT_MEASURED, train_cells
from benchmarks.config import SIZES, Config
from benchmarks.parts import run_part

KEYS = [{"dataset": "a", "layers": n} for n in (2, 5, 9)]


def run(number):
    return {"test": number / 10}


@pytest.fixture
def calls(monkeypatch):
    """Jobs that were run; each adds the runs that are missing."""
    found = []

    def run_in_process(job, *, seeds, earlier, layers, **_):
        first = len(earlier["runs"]) if earlier else 0
        found.append((layers, first, seeds))
        if layers == 9:
            return {"failed": "ValueError: no"}
        settings = {"lr": earlier["lr"] if earlier else 0.1}
        return settings | {"runs": [run(n) for n in range(seeds)]}

    monkeypatch.setattr(child, "run_in_process", run_in_process)
    return found


@pytest.fixture
def config(tmp_path):
    return Config(SIZES["quick"], repeats=1, work_dir=tmp_path, log=lambda _: None, jobs=1)


def test_only_missing_seeds_are_trained_in_the_order_of_the_rounds(calls, config):
    earlier = [
        {**KEYS[0], "lr": 0.5, "runs": [run(0), run(1)]},
        {**KEYS[1], "skipped": NOT_MEASURED},
        {"dataset": "other", "layers": 2, "lr": 0.7, "runs": [run(3)]},
    ]
    saved = []
    config = replace(config, earlier={"cells": earlier}, save=saved.append)
    found = train_cells("job", [(KEYS[:2], 2), (KEYS, 3)], config)["cells"]
    assert calls == [(5, 0, 2), (2, 2, 3), (5, 2, 3), (9, 0, 3)]
    assert found[0] == {**KEYS[0], "lr": 0.5, "runs": [run(0), run(1), run(2)]}
    assert found[1] == {**KEYS[1], "lr": 0.1, "runs": [run(0), run(1), run(2)]}
    assert found[2] == {**KEYS[2], "failed": "ValueError: no"}
    assert found[3] == earlier[2]  # cells of other runs are kept
    assert len(saved) == 4
    assert saved[-1]["cells"] == found
    assert saved[0]["cells"][2] == {**KEYS[2], "skipped": NOT_MEASURED}
    # A second run trains only what failed.
    calls.clear()
    train_cells("job", [(KEYS, 3)], replace(config, earlier={"cells": found}))
    assert calls == [(9, 0, 3)]


def test_failure_does_not_replace_earlier_runs(calls, config):
    earlier = [{**KEYS[2], "lr": 0.5, "runs": [run(0)]}]
    found = train_cells("job", [(KEYS[2:], 2)], replace(config, earlier={"cells": earlier}))
    assert calls == [(9, 1, 2)]
    assert found["cells"] == earlier


def test_interrupted_part_is_resumed_from_its_file(calls, config, monkeypatch, tmp_path):
    monkeypatch.setattr("benchmarks.deep_gcn.METHODS", {"he": {}, "xavier": {}})
    config = replace(config, size=replace(config.size, depths=(({"a": (2, 5)}, 1),)))
    path = tmp_path / "deep_gcn.json"
    original = cells._train

    def interrupted(job, key, *rest):
        if key["layers"] == 5:
            raise KeyboardInterrupt
        return original(job, key, *rest)

    monkeypatch.setattr(cells, "_train", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_part("deep_gcn", "quick", config, path=path, overwrite=False)
    written = json.loads(Path(path).read_text())["results"]["cells"]
    assert ["runs" in cell for cell in written] == [True, True, False, False]
    monkeypatch.setattr(cells, "_train", original)
    calls.clear()
    run_part("deep_gcn", "quick", config, path=path, overwrite=False)
    assert [layers for layers, *_ in calls] == [5, 5]
    assert all("runs" in cell for cell in json.loads(path.read_text())["results"]["cells"])
