"""python -m reproduction run and python -m reproduction report as commands."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from made_up import made_up_records

from gpcanet.datasets.environment import DATA_DIR_VARIABLE
from reproduction import __main__ as evidence
from reproduction.document import document
from reproduction.journal import Journal, read_journals, to_line
from reproduction.render import to_markdown
from reproduction.summary import summarise

#: The fixtures of all commands take it away.
CHECKOUT = Path(__file__).resolve().parents[2]

DATA_DIR = os.environ.get(DATA_DIR_VARIABLE)


@pytest.fixture
def journal(tmp_path):
    path = tmp_path / "runs.jsonl"
    records = made_up_records(["table4", "histograms"], ["cora"])
    path.write_bytes(b"".join(to_line(cell, record) for cell, record in records.items()))
    return path


def test_a_dry_run_says_what_there_is_to_run(reproduction, tmp_path):
    ended = reproduction(
        "run", "table1", "--datasets", "cora", "--protocols", "paper", "--pool", "full",
        "--journal", tmp_path / "runs.jsonl", "--dry-run", "--json",
    )  # fmt: skip
    # GPCA: 5 alphas, 12 settings, 5 seeds. GCN: 5 depths, 12 settings, 5 seeds.
    assert json.loads(ended.out) == {"cells": 600, "done": 0}


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["tabel1"], "experiment='tabel1' must be one of 'table1', 'table2'"),
        (["table1", "--protocols", "mine"], "protocol='mine' must be one of 'paper'"),
        (["table1", "--pool", "huge"], "pool='huge' must be one of 'full', 'lean'"),
        (["table1", "--datasets", "coral"], "dataset='coral' must be one of 'cora'"),
        (["table2", "--datasets", "ogbn-arxiv"], "there is nothing to run"),
        (["table1", "--datasets", ""], "there is nothing to run"),
        (["table1", "--journal", "no/such/folder.jsonl"], "folder no/such does not exist"),
        (["table1", "--merge", "absent.jsonl"], "No such file or directory: absent.jsonl"),
    ],
)
def test_bad_input_is_one_sentence(reproduction, tmp_path, monkeypatch, arguments, complaint):
    monkeypatch.chdir(tmp_path)
    assert complaint in reproduction("run", *arguments).complaint


def test_data_that_cannot_be_had_is_told_and_noted(reproduction, tmp_path, monkeypatch):
    monkeypatch.setenv("GPCANET_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv(DATA_DIR_VARIABLE, raising=False)
    path = tmp_path / "runs.jsonl"
    ended = reproduction(
        "run", "table1", "--datasets", "ogbn-arxiv", "--offline", "--journal", path
    )
    assert "ogbn-arxiv cannot be had" in ended.complaint_after_notes
    ((cell, record),) = read_journals([path]).records.items()
    assert (cell.setup.method, record["status"]) == ("load", "failed")
    assert "ogbn-arxiv cannot be had" in record["reason"]


def test_what_is_not_installed_is_told_before_anything_fails(reproduction, tmp_path, monkeypatch):
    monkeypatch.setattr(evidence, "find_spec", lambda name: None)
    path = tmp_path / "runs.jsonl"
    ended = reproduction("run", "table1", "--datasets", "cora", "--journal", path)
    assert "torch is not installed; pip install 'gpcanet[nn]'" in ended.complaint
    assert not path.exists()


def test_what_failed_counts_as_done_unless_it_is_to_be_run_again(reproduction, tmp_path):
    path = tmp_path / "runs.jsonl"
    records = made_up_records(["table4"], ["cora"])
    records = {cell: record for cell, record in records.items() if cell.setup.get("patience")}
    first = next(iter(records))
    records[first] = {"status": "failed", "reason": "made up", "seconds": 1.0}
    path.write_bytes(b"".join(to_line(cell, record) for cell, record in records.items()))
    command = ["run", "table4", "--datasets", "cora", "--journal", path, "--dry-run"]
    done = [json.loads(reproduction(*command, *more, "--json").out)["done"]
            for more in ([], ["--retry-failed"])]  # fmt: skip
    assert done[1] < done[0]  # without it, nothing is chosen from those beside it either


def test_a_journal_in_use_is_refused(reproduction, tmp_path):
    path = tmp_path / "runs.jsonl"
    with Journal(path):
        ended = reproduction("run", "table1", "--journal", path)
        assert "is being written to by another process" in ended.complaint


def test_a_dry_run_writes_nothing(reproduction, journal, tmp_path):
    mine = tmp_path / "mine.jsonl"
    ended = reproduction(
        "run", "table4", "--datasets", "cora", "--journal", mine, "--merge", journal,
        "--dry-run", "--json",
    )  # fmt: skip
    told = json.loads(ended.out)
    assert told["cells"] == told["done"] > 100
    assert not mine.exists()


def test_journals_are_merged(reproduction, journal, tmp_path):
    mine = tmp_path / "mine.jsonl"
    ended = reproduction(
        "run", "table4", "--datasets", "cora", "--journal", mine, "--merge", journal,
    )  # fmt: skip
    assert "records taken over" in ended.err  # and then there is no data here to go on with
    merged = read_journals([mine]).records
    assert read_journals([journal]).records.items() <= merged.items()


def test_no_other_file_is_added_to(reproduction, tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("id,label\n1,a\n")
    assert (
        "is no journal of the reproduction"
        in reproduction("run", "table1", "--journal", path).complaint
    )
    assert path.read_text() == "id,label\n1,a\n"


def test_a_report_is_made_of_a_journal(reproduction, journal, tmp_path):
    folder = tmp_path / "report"
    ended = reproduction("report", journal, "-o", folder, "--json", "-q")
    told = json.loads(ended.out)
    # 5 depths of 4 initialisations, 4 histograms, and GCN in three tables from the same runs.
    assert told["numbers"] == 20 + 4 + 3
    assert all(os.path.exists(path) for path in told["files"])
    assert "use --force to replace it" in reproduction("report", journal, "-o", folder).complaint
    again = reproduction("report", folder / "report.json", "-o", folder, "--force", "-q")
    assert again.code == 0


def test_remarks_stay_with_the_summary(reproduction, journal, tmp_path):
    first, again = tmp_path / "first", tmp_path / "again"
    reproduction(
        "report", journal, "-o", first, "-q", "--note", "Run on a <train>.", "--note", "Two."
    )
    reproduction("report", first / "report.json", journal, "-o", again, "-q", "--note", "Three.")
    for folder, remarks in ((first, ("<train>", "Two.")), (again, ("<train>", "Two.", "Three."))):
        text = (folder / "report.md").read_text()
        assert all(text.count(remark) == 1 for remark in remarks)
        page = (folder / "report.html").read_text()
        assert "Run on a &lt;train&gt;." in page
    assert "Notes by" not in to_markdown(document(summarise([], {})), "")


def test_a_report_of_nothing_is_refused(reproduction, tmp_path):
    path = tmp_path / "runs.jsonl"
    path.write_text("")
    assert "holds no run of the reproduction" in reproduction("report", path).complaint


def test_a_journal_is_not_merged_into_itself(reproduction):
    Path("runs.jsonl").write_text("")
    Path("again.jsonl").symlink_to("runs.jsonl")
    for other in ("runs.jsonl", "again.jsonl"):
        ended = reproduction("run", "table1", "--journal", "runs.jsonl", "--merge", other)
        assert "same file as the input" in ended.complaint


def test_a_report_does_not_replace_what_it_is_made_of(reproduction):
    pytest.importorskip("matplotlib")
    records = made_up_records(["table4", "histograms"], ["cora"])
    lines = b"".join(to_line(cell, record) for cell, record in records.items())
    Path("runs.md").write_bytes(lines)
    complaint = reproduction("report", "runs.md", "-o", ".", "--name", "runs", "--force").complaint
    assert "runs.md is the same file as the input runs.md" in complaint
    assert Path("runs.md").read_bytes() == lines

    assert reproduction("report", "runs.md", "-o", "first").code == 0
    summary = Path("first/report.json").read_bytes()
    again = ["report", "first/report.json", "-o", "first", "--force"]
    assert reproduction(*again).code == 0  # rendered again from the same summary
    assert Path("first/report.json").read_bytes() == summary
    complaint = reproduction(*again, "--note", "a remark").complaint
    assert "first/report.json is the same file as the input" in complaint
    assert Path("first/report.json").read_bytes() == summary
    assert (
        reproduction("report", "first/report.json", "-o", "second", "--note", "a remark").code == 0
    )
    assert json.loads(Path("second/report.json").read_text())["notes"][-1] == "a remark"


@pytest.mark.real_data
@pytest.mark.skipif(DATA_DIR is None, reason=f"{DATA_DIR_VARIABLE} names no folder")
def test_an_interrupted_run_ends_at_once_and_keeps_what_it_has(tmp_path):
    path = tmp_path / "runs.jsonl"
    command = [
        sys.executable, "-m", "reproduction", "run", "table1", "--protocols", "ours",
        "--datasets", "cora", "--journal", path, "--jobs", "1",
        "--data-dir", DATA_DIR,
    ]  # fmt: skip
    started = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=CHECKOUT,
    )
    deadline = time.monotonic() + 100
    while time.monotonic() < deadline and not (path.exists() and path.stat().st_size > 3000):
        time.sleep(0.1)
    started.send_signal(signal.SIGINT)
    _, told = started.communicate(timeout=20)
    assert started.returncode == 130, told
    assert f"runs are in {path}" in told
    contents = read_journals([path])
    assert contents.damaged == 0
    assert len(contents.records) >= 3
    assert all(record["status"] == "done" for record in contents.records.values())
