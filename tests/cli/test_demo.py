"""gpcanet demo: a table and a figure, with or without a network."""

import json
import os
import re
import struct
import sys
import time
from pathlib import Path

import pytest
from command import process

DATA_DIR = os.environ.get("GPCANET_DATA_DIR")


def png_size(path):
    content = path.read_bytes()
    assert content.startswith(b"\x89PNG\r\n\x1a\n")
    return struct.unpack(">II", content[16:24])


@pytest.mark.usefixtures("small_search")
def test_offline_demo_uses_digits_with_a_note(gpcanet):
    pytest.importorskip("matplotlib")
    ended = gpcanet("demo")
    assert ended.code == 0, ended.err
    assert "Cora is not available" in ended.err
    assert "Using the digits of scikit-learn instead" in ended.err
    lines = ended.out.splitlines()
    assert lines[0].split() == ["digits,", "test", "accuracy", "in", "%", "here", "seconds"]
    accuracies = {line.rsplit(None, 2)[0]: float(line.split()[-2]) for line in lines[1:9]}
    assert len(accuracies) == 8
    assert accuracies["GPCA, alpha = 10"] > accuracies["features alone (PCA)"] + 5
    assert min(accuracies.values()) > 60
    assert lines[-1] == "demo.png shows the embeddings."
    width, height = png_size(Path("demo.png"))
    assert 800 <= width <= 4000
    assert 400 <= height <= 4000
    assert 50_000 < Path("demo.png").stat().st_size < 5_000_000
    assert [path.name for path in Path().iterdir()] == ["demo.png"]


@pytest.mark.usefixtures("small_search")
def test_without_matplotlib_there_is_a_note_and_no_figure(gpcanet, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    ended = gpcanet("demo", "--json", "--offline")
    assert ended.code == 0, ended.err
    assert "No figure: matplotlib is not installed; pip install 'gpcanet[plot]'." in ended.err
    values = json.loads(ended.out)
    assert (values["dataset"], values["figure"], len(values["rows"])) == ("digits", None, 8)
    assert not any(row.get("paper") for row in values["rows"])
    assert list(Path().iterdir()) == []


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ([], "demo.png exists; choose another name or use --force to replace it"),
        (["--figure", "here.jpg"], "here.jpg: the figure must be a .png, .pdf or .svg file"),
        (["--figure", "nowhere/demo.png"], "folder nowhere does not exist"),
    ],
)
def test_invalid_figure_is_an_error_before_loading(gpcanet, monkeypatch, options, reason):
    def load(*args, **kwargs):
        raise AssertionError("data was loaded")

    monkeypatch.setattr("gpcanet.cli.demo.load", load)
    Path("demo.png").write_text("old")
    assert reason in gpcanet("demo", *options).complaint
    assert Path("demo.png").read_text() == "old"


@pytest.mark.real_data
@pytest.mark.skipif(not DATA_DIR, reason="GPCANET_DATA_DIR is not set")
def test_accuracies_on_cora_agree_with_the_paper():
    Path("demo.png").write_text("old")
    start = time.perf_counter()
    ended = process("demo", "--force", GPCANET_DATA_DIR=DATA_DIR)
    seconds = time.perf_counter() - start
    assert ended.code == 0, ended.err
    lines = [re.split(r"\s{2,}", line) for line in ended.out.splitlines()]
    rows = {title: numbers for title, *numbers in lines}
    paper = {alpha: rows[f"GPCA, alpha = {alpha}"][1] for alpha in (1, 5, 10, 20, 50)}
    assert paper == {1: "72.6", 5: "81.0", 10: "82.2", 20: "82.0", 50: "81.1"}
    for alpha, figure in paper.items():
        assert abs(float(rows[f"GPCA, alpha = {alpha}"][0]) - float(figure)) < 3
    assert png_size(Path("demo.png"))[0] >= 800
    assert seconds < 30  # 15 where nothing else runs
