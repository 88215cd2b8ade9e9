"""The commands python -m reproduction run and report."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from artificial_records import artificial_records

from gpcanet.datasets.environment import DATA_DIR_VARIABLE
from reproduction import __main__ as command
from reproduction.document import document
from reproduction.journal import Journal, read_journals, to_line
from reproduction.rendering import to_markdown
from reproduction.results import Summary

CHECKOUT = Path(__file__).resolve().parents[2]

#: Read at import time, because the fixtures remove the variable.
DATA_DIR = os.environ.get(DATA_DIR_VARIABLE)


@pytest.fixture
def journal(tmp_path):
    path = tmp_path / "runs.jsonl"
    records = artificial_records(["table4", "histograms"], ["cora"])
    path.write_bytes(b"".join(to_line(cell, record) for cell, record in records.items()))
    return path


def test_dry_run_counts_the_runs(reproduction, tmp_path):
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
def test_bad_input_gives_one_sentence(reproduction, tmp_path, monkeypatch, arguments, complaint):
    monkeypatch.chdir(tmp_path)
    assert complaint in reproduction("run", *arguments).complaint


def test_unavailable_data_is_reported_and_recorded(reproduction, tmp_path, monkeypatch):
    monkeypatch.setenv("GPCANET_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv(DATA_DIR_VARIABLE, raising=False)
    path = tmp_path / "runs.jsonl"
    ended = reproduction(
        "run", "table1", "--datasets", "ogbn-arxiv", "--offline", "--journal", path
    )
    assert "ogbn-arxiv is not available" in ended.complaint_after_notes
    ((cell, record),) = read_journals([path]).records.items()
    assert (cell.setup.method, record["status"]) == ("load", "failed")
    assert "ogbn-arxiv is not available" in record["reason"]


def test_missing_package_is_reported_before_the_first_run(reproduction, tmp_path, monkeypatch):
    monkeypatch.setattr(command, "find_spec", lambda name: None)
    path = tmp_path / "runs.jsonl"
    ended = reproduction("run", "table1", "--datasets", "cora", "--journal", path)
    assert "torch is not installed, and networks" in ended.complaint
    assert not path.exists()


def test_failed_runs_count_as_done_without_retry(reproduction, tmp_path):
    path = tmp_path / "runs.jsonl"
    records = artificial_records(["table4"], ["cora"])
    records = {cell: record for cell, record in records.items() if cell.setup.get("patience")}
    first = next(iter(records))
    records[first] = {"status": "failed", "reason": "artificial", "seconds": 1.0}
    path.write_bytes(b"".join(to_line(cell, record) for cell, record in records.items()))
    arguments = ["run", "table4", "--datasets", "cora", "--journal", path, "--dry-run"]
    done = [json.loads(reproduction(*arguments, *more, "--json").out)["done"]
            for more in ([], ["--retry-failed"])]  # fmt: skip
    assert done[1] < done[0]  # nothing is selected without it, so fewer cells are known


def test_table4_runs_under_the_text_and_the_code_of_the_authors(reproduction, tmp_path):
    def n_cells(*protocols):
        ended = reproduction(
            "run", "table4", "--datasets", "cora", "--journal", tmp_path / "runs.jsonl",
            "--dry-run", "--json", *protocols,
        )  # fmt: skip
        return json.loads(ended.out)["cells"]

    both, one = n_cells(), n_cells("--protocols", "authors-code")
    assert both == n_cells("--protocols", "paper") + one
    assert n_cells("--protocols", "ours") == both - one  # as in the paper


def test_journal_in_use_is_refused(reproduction, tmp_path):
    path = tmp_path / "runs.jsonl"
    with Journal(path):
        ended = reproduction("run", "table1", "--journal", path)
        assert "is in use by another process" in ended.complaint


def test_dry_run_writes_nothing(reproduction, journal, tmp_path):
    mine = tmp_path / "mine.jsonl"
    ended = reproduction(
        "run", "table4", "--datasets", "cora", "--journal", mine, "--merge", journal,
        "--dry-run", "--json",
    )  # fmt: skip
    found = json.loads(ended.out)
    assert found["cells"] == found["done"] > 100
    assert not mine.exists()


def test_journals_are_merged(reproduction, journal, tmp_path):
    mine = tmp_path / "mine.jsonl"
    ended = reproduction(
        "run", "table4", "--datasets", "cora", "--journal", mine, "--merge", journal,
    )  # fmt: skip
    assert "records of other journals" in ended.err  # the run itself fails without data
    merged = read_journals([mine]).records
    assert read_journals([journal]).records.items() <= merged.items()


def test_other_files_are_not_appended_to(reproduction, tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("id,label\n1,a\n")
    assert (
        "is not a journal of the reproduction"
        in reproduction("run", "table1", "--journal", path).complaint
    )
    assert path.read_text() == "id,label\n1,a\n"


def test_report_on_a_journal(reproduction, journal, tmp_path):
    folder = tmp_path / "report"
    ended = reproduction("report", journal, "-o", folder, "--json", "-q")
    found = json.loads(ended.out)
    # 5 depths with 4 initialisations under 2 protocols, 4 histograms, and GCN in three tables
    # under both protocols from the same runs.
    assert found["results"] == 40 + 4 + 6
    assert all(os.path.exists(path) for path in found["files"])
    assert "use --force to replace it" in reproduction("report", journal, "-o", folder).complaint
    again = reproduction("report", folder / "report.json", "-o", folder, "--force", "-q")
    assert again.code == 0


def test_notes_are_kept_in_the_summary(reproduction, journal, tmp_path):
    first, again = tmp_path / "first", tmp_path / "again"
    reproduction(
        "report", journal, "-o", first, "-q", "--note", "Run on a <train>.", "--note", "Two."
    )
    reproduction("report", first / "report.json", journal, "-o", again, "-q", "--note", "Three.")
    shown = "a &lt;train>."
    for folder, notes in ((first, (shown, "Two.")), (again, (shown, "Two.", "Three."))):
        text = (folder / "report.md").read_text()
        assert all(text.count(note) == 1 for note in notes)
        page = (folder / "report.html").read_text()
        assert "Run on a &lt;train&gt;." in page
    assert "Notes by" not in to_markdown(document(Summary()), "")


@pytest.mark.parametrize("name", ["../../x", "inner/x", "..", "."])
def test_report_stays_in_its_folder(reproduction, journal, tmp_path, name):
    folder = tmp_path / "deep" / "report"
    complaint = reproduction("report", journal, "-o", folder, "--name", name).complaint
    assert "must be a name without folders" in complaint
    assert not folder.parent.exists()


def test_report_on_an_empty_journal_is_refused(reproduction, tmp_path):
    path = tmp_path / "runs.jsonl"
    path.write_text("")
    assert "contains no runs" in reproduction("report", path).complaint


def test_journal_cannot_be_merged_into_itself(reproduction):
    Path("runs.jsonl").write_text("")
    Path("again.jsonl").symlink_to("runs.jsonl")
    for other in ("runs.jsonl", "again.jsonl"):
        ended = reproduction("run", "table1", "--journal", "runs.jsonl", "--merge", other)
        assert "same file as the input" in ended.complaint


def test_report_does_not_replace_its_sources(reproduction):
    pytest.importorskip("matplotlib")
    records = artificial_records(["table4", "histograms"], ["cora"])
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
    complaint = reproduction(*again, "--note", "a note").complaint
    assert "first/report.json is the same file as the input" in complaint
    assert Path("first/report.json").read_bytes() == summary
    assert reproduction("report", "first/report.json", "-o", "second", "--note", "a note").code == 0
    assert json.loads(Path("second/report.json").read_text())["notes"][-1] == "a note"


@pytest.mark.real_data
@pytest.mark.skipif(DATA_DIR is None, reason=f"{DATA_DIR_VARIABLE} names no folder")
def test_interrupted_run_ends_at_once_and_keeps_its_records(tmp_path):
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
    _, messages = started.communicate(timeout=20)
    assert started.returncode == 130, messages
    assert f"runs are in {path}" in messages
    contents = read_journals([path])
    assert contents.damaged == 0
    assert len(contents.records) >= 3
    assert all(record["status"] == "done" for record in contents.records.values())
