"""gpcanet reproduce and gpcanet report as commands."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from made_up import made_up_records

from gpcanet.cli import evidence
from gpcanet.datasets.places import DATA_DIR_VARIABLE
from gpcanet.paper.document import document
from gpcanet.paper.journal import Journal, read_journals, to_line
from gpcanet.paper.render import to_markdown
from gpcanet.paper.summary import summarise

#: The fixtures of all commands take it away.
DATA_DIR = os.environ.get(DATA_DIR_VARIABLE)


@pytest.fixture
def journal(tmp_path):
    path = tmp_path / "runs.jsonl"
    records = made_up_records(["table4", "histograms"], ["cora"])
    path.write_bytes(b"".join(to_line(cell, record) for cell, record in records.items()))
    return path


def test_a_dry_run_says_what_there_is_to_run(gpcanet, tmp_path):
    ended = gpcanet(
        "reproduce", "table1", "--datasets", "cora", "--protocols", "paper", "--pool", "full",
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
def test_bad_input_is_one_sentence(gpcanet, tmp_path, monkeypatch, arguments, complaint):
    monkeypatch.chdir(tmp_path)
    assert complaint in gpcanet("reproduce", *arguments).complaint


def test_data_that_cannot_be_had_is_told_and_noted(gpcanet, tmp_path, monkeypatch):
    monkeypatch.setenv("GPCANET_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv(DATA_DIR_VARIABLE, raising=False)
    path = tmp_path / "runs.jsonl"
    ended = gpcanet(
        "reproduce", "table1", "--datasets", "ogbn-arxiv", "--offline", "--journal", path
    )
    assert "ogbn-arxiv cannot be had" in ended.complaint_after_notes
    ((cell, record),) = read_journals([path]).records.items()
    assert (cell.setup.method, record["status"]) == ("load", "failed")
    assert "ogbn-arxiv cannot be had" in record["reason"]


def test_what_is_not_installed_is_told_before_anything_fails(gpcanet, tmp_path, monkeypatch):
    monkeypatch.setattr(evidence, "find_spec", lambda name: None)
    path = tmp_path / "runs.jsonl"
    ended = gpcanet("reproduce", "table1", "--datasets", "cora", "--journal", path)
    assert "torch is not installed; pip install 'gpcanet[nn]'" in ended.complaint
    assert not path.exists()


def test_what_failed_counts_as_done_unless_it_is_to_be_run_again(gpcanet, tmp_path):
    path = tmp_path / "runs.jsonl"
    records = made_up_records(["table4"], ["cora"])
    records = {cell: record for cell, record in records.items() if cell.setup.get("patience")}
    first = next(iter(records))
    records[first] = {"status": "failed", "reason": "made up", "seconds": 1.0}
    path.write_bytes(b"".join(to_line(cell, record) for cell, record in records.items()))
    command = ["reproduce", "table4", "--datasets", "cora", "--journal", path, "--dry-run"]
    done = [json.loads(gpcanet(*command, *more, "--json").out)["done"]
            for more in ([], ["--retry-failed"])]  # fmt: skip
    assert done[1] < done[0]  # without it, nothing is chosen from those beside it either


def test_a_journal_in_use_is_refused(gpcanet, tmp_path):
    path = tmp_path / "runs.jsonl"
    with Journal(path):
        ended = gpcanet("reproduce", "table1", "--journal", path)
        assert "is being written to by another process" in ended.complaint


def test_a_dry_run_writes_nothing(gpcanet, journal, tmp_path):
    mine = tmp_path / "mine.jsonl"
    ended = gpcanet(
        "reproduce", "table4", "--datasets", "cora", "--journal", mine, "--merge", journal,
        "--dry-run", "--json",
    )  # fmt: skip
    told = json.loads(ended.out)
    assert told["cells"] == told["done"] > 100
    assert not mine.exists()


def test_journals_are_merged(gpcanet, journal, tmp_path):
    mine = tmp_path / "mine.jsonl"
    ended = gpcanet(
        "reproduce", "table4", "--datasets", "cora", "--journal", mine, "--merge", journal,
    )  # fmt: skip
    assert "records taken over" in ended.err  # and then there is no data here to go on with
    merged = read_journals([mine]).records
    assert read_journals([journal]).records.items() <= merged.items()


def test_no_other_file_is_added_to(gpcanet, tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("id,label\n1,a\n")
    assert "is no journal of gpcanet" in gpcanet("reproduce", "table1", "--journal", path).complaint
    assert path.read_text() == "id,label\n1,a\n"


def test_a_report_is_made_of_a_journal(gpcanet, journal, tmp_path):
    folder = tmp_path / "report"
    ended = gpcanet("report", journal, "-o", folder, "--json", "-q")
    told = json.loads(ended.out)
    # 5 depths of 4 initialisations, 4 histograms, and GCN in three tables from the same runs.
    assert told["numbers"] == 20 + 4 + 3
    assert all(os.path.exists(path) for path in told["files"])
    assert "use --force to replace it" in gpcanet("report", journal, "-o", folder).complaint
    again = gpcanet("report", folder / "report.json", "-o", folder, "--force", "-q")
    assert again.code == 0


def test_remarks_stay_with_the_summary(gpcanet, journal, tmp_path):
    first, again = tmp_path / "first", tmp_path / "again"
    gpcanet("report", journal, "-o", first, "-q", "--note", "Run on a <train>.", "--note", "Two.")
    gpcanet("report", first / "report.json", journal, "-o", again, "-q", "--note", "Three.")
    for folder, remarks in ((first, ("<train>", "Two.")), (again, ("<train>", "Two.", "Three."))):
        text = (folder / "report.md").read_text()
        assert all(text.count(remark) == 1 for remark in remarks)
        page = (folder / "report.html").read_text()
        assert "Run on a &lt;train&gt;." in page
    assert "Notes by" not in to_markdown(document(summarise([], {})), "")


def test_a_report_of_nothing_is_refused(gpcanet, tmp_path):
    path = tmp_path / "runs.jsonl"
    path.write_text("")
    assert "holds no run of gpcanet reproduce" in gpcanet("report", path).complaint


@pytest.mark.real_data
@pytest.mark.skipif(DATA_DIR is None, reason=f"{DATA_DIR_VARIABLE} names no folder")
def test_an_interrupted_run_ends_at_once_and_keeps_what_it_has(tmp_path):
    path = tmp_path / "runs.jsonl"
    command = [
        sys.executable, "-m", "gpcanet", "reproduce", "table1", "--protocols", "ours",
        "--datasets", "cora", "--journal", path, "--jobs", "1",
        "--data-dir", DATA_DIR,
    ]  # fmt: skip
    started = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
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
