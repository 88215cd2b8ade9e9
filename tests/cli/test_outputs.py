"""No command writes over a file that it reads, whatever the file is called."""

import json
import os
from pathlib import Path

import pytest
from command import write_blocks
from made_up import made_up_records
from own_files import make_source, write_edges, write_features, write_labels

from gpcanet.paper.journal import to_line


@pytest.fixture
def files():
    """Features, edges, labels and a model, each under two other names."""
    source = make_source([f"n{i}" for i in range(30)])
    write_features(source, Path("f.csv"))
    write_edges(source, Path("e.csv"))
    write_labels(source, Path("l.csv"))
    Path("m.safetensors").write_text("a model")
    Path("folder").mkdir()
    for name in ("f.csv", "e.csv", "l.csv", "m.safetensors"):
        Path(f"soft-{name}").symlink_to(name)
        os.link(name, f"hard-{name}")
    return {path.name: path.read_bytes() for path in Path().iterdir() if path.is_file()}


@pytest.fixture
def never_loaded(monkeypatch):
    """Fail if any data is read."""

    def load(self, console):
        raise AssertionError("data was loaded")

    monkeypatch.setattr("gpcanet.cli.options.Input.load", load)


INPUTS = ["-f", "f.csv", "-e", "e.csv", "-l", "l.csv"]
TABLES = [
    f"{link}{name}" for name in ("f.csv", "e.csv", "l.csv") for link in ("", "soft-", "hard-")
] + ["folder/../f.csv", "./f.csv"]
CASES = [
    *([command, "-o", name] for command in ("embed", "classify", "train") for name in TABLES),
    *(["train", "--checkpoint", name] for name in TABLES),
    *(
        [command, "-o", "z.csv", "--model", model, "--save-model", "m.safetensors"]
        for command in ("embed", "classify")
        for model in ("m.safetensors", "soft-m.safetensors", "hard-m.safetensors")
    ),
    ["train", "-o", "z.csv", "--checkpoint", "folder/../z.csv"],
]


@pytest.mark.usefixtures("never_loaded")
@pytest.mark.parametrize("args", CASES, ids=" ".join)
def test_an_output_that_is_an_input_is_refused_before_any_work(gpcanet, files, args):
    command, *options = args
    complaint = gpcanet(command, *INPUTS, *options, "--force").complaint
    assert "same file" in complaint or "give one" in complaint  # --model and --save-model
    found = {path.name: path.read_bytes() for path in Path().iterdir() if path.is_file()}
    assert found == files


def test_a_link_to_nothing_that_matters_may_be_written(gpcanet):
    Path("old.csv").write_text("old")
    Path("z.csv").symlink_to("old.csv")
    assert gpcanet("embed", *write_blocks(Path()), "-o", "z.csv", "--force").code == 0
    assert Path("old.csv").read_text() == "old"


def test_a_journal_is_not_merged_into_itself(gpcanet):
    Path("runs.jsonl").write_text("")
    Path("again.jsonl").symlink_to("runs.jsonl")
    for other in ("runs.jsonl", "again.jsonl"):
        ended = gpcanet("reproduce", "table1", "--journal", "runs.jsonl", "--merge", other)
        assert "same file as the input" in ended.complaint


def test_a_report_does_not_replace_what_it_is_made_of(gpcanet):
    pytest.importorskip("matplotlib")
    records = made_up_records(["table4", "histograms"], ["cora"])
    lines = b"".join(to_line(cell, record) for cell, record in records.items())
    Path("runs.md").write_bytes(lines)
    complaint = gpcanet("report", "runs.md", "-o", ".", "--name", "runs", "--force").complaint
    assert "runs.md is the same file as the input runs.md" in complaint
    assert Path("runs.md").read_bytes() == lines

    assert gpcanet("report", "runs.md", "-o", "first").code == 0
    summary = Path("first/report.json").read_bytes()
    again = ["report", "first/report.json", "-o", "first", "--force"]
    assert gpcanet(*again).code == 0  # rendered again from the same summary
    assert Path("first/report.json").read_bytes() == summary
    complaint = gpcanet(*again, "--note", "a remark").complaint
    assert "first/report.json is the same file as the input" in complaint
    assert Path("first/report.json").read_bytes() == summary
    assert gpcanet("report", "first/report.json", "-o", "second", "--note", "a remark").code == 0
    assert json.loads(Path("second/report.json").read_text())["notes"][-1] == "a remark"
