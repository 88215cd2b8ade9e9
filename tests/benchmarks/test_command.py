"""The command python -m benchmarks: small runs, their files, and bad input."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchmarks import deep_gcn
from benchmarks.parts import PARTS
from gpcanet.linalg.parallel import available_cores

CHECKOUT = Path(__file__).resolve().parents[2]


def written():
    return sorted(str(path) for path in Path().rglob("*") if path.is_file())


@pytest.fixture
def in_process(monkeypatch):
    """Run the jobs of child processes here, because a process takes seconds to start."""
    from benchmarks import child

    def run_here(job, timeout=None, **given):
        try:
            return child.run_job(job, **given)
        except ModuleNotFoundError as error:
            return {"skipped": f"{error.name} is not installed"}

    monkeypatch.setattr(child, "run_in_process", run_here)


@pytest.mark.usefixtures("in_process")
def test_quick_run_of_all_parts(bench, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    architectures = pytest.importorskip("benchmarks.architectures")
    for module in ("command", "first_use"):  # two seconds per command
        monkeypatch.setattr(f"benchmarks.{module}.run_python", lambda *_: None)
    for module in ("deep_gcn", "architectures"):
        monkeypatch.setattr(f"benchmarks.{module}.EPOCHS", 2)
    # All of them take a minute.
    monkeypatch.setattr(deep_gcn, "METHODS", {"orthogonal": deep_gcn.METHODS["orthogonal"]})
    monkeypatch.setattr(architectures, "ARCHITECTURES", {"GIN": architectures.ARCHITECTURES["GIN"]})
    monkeypatch.setattr("benchmarks.explore.SECONDS", 0.2)
    monkeypatch.setattr("benchmarks.workers.WORKERS", (1,))
    monkeypatch.setattr("benchmarks.worker_memory.WORKERS", 1)
    monkeypatch.setattr("benchmarks.id_mapping.METHODS", {})
    monkeypatch.setattr("benchmarks.distributed.WORKERS", 1)
    ended = bench("--size", "quick", "--jobs", "1", "--work-dir", tmp_path / "work")
    assert ended.code == 0, ended.err
    assert written() == sorted(
        [f"bench/{part}.json" for part in PARTS]
        + ["bench/images/deep.png", "bench/images/growth.png", "bench/performance.md"]
    )
    assert ended.out == Path("bench/performance.md").read_text()
    assert "embed (5 of 22)" in ended.err
    embed = json.loads(Path("bench/embed.json").read_text())
    assert (embed["size"], embed["repeats"], embed["machine"]["cores"]) == (
        "quick",
        1,
        available_cores(),
    )
    assert "seconds" in embed["results"]["graphs"]["generated"]["methods"]["GPCA"]
    assert "## Growth" in ended.out


def test_json_output_quiet_mode_and_child_processes(bench, tmp_path):
    options = ["--size", "quick", "--parts", "generate, step", "--repeats", "2", "--quiet"]
    ended = bench(*options, "--json", "--out", "a", "--docs", "b")
    assert ended.code == 0, ended.err
    assert ended.err == ""
    found = json.loads(ended.out)
    assert list(found["parts"]) == ["generate", "step"]
    assert found["parts"]["step"]["repeats"] == 2
    assert found["parts"]["generate"]["results"]["nodes"] == 800
    assert found["written"] == ["a/generate.json", "a/step.json", "b/performance.md"]
    assert written() == sorted(found["written"])

    # Existing results are not replaced without --force.
    assert "a/generate.json exists" in bench(*options, "--out", "a").complaint
    Path("b/performance.md").unlink()
    ended = bench("--page-only", "--out", "a", "--docs", "b")
    assert ended.code == 0, ended.err
    assert "## One propagation step" in Path("b/performance.md").read_text()
    assert "## Generation of a graph" in ended.out


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--parts", "step,stride"], "part 'stride' is unknown; use step, bandwidth"),
        (["--size", "huge"], "size 'huge' is unknown; use quick, small, full"),
        (["--repeats", "0"], "--repeats"),
        (["--page-only"], "folder bench contains no results; measure first"),
    ],
)
def test_bad_input_is_refused_and_writes_nothing(bench, options, reason):
    assert reason in bench(*options).complaint
    assert list(Path().iterdir()) == []


@pytest.mark.usefixtures("bench")
def test_interrupt_keeps_only_finished_parts(tmp_path):
    options = [
        "--size",
        "quick",
        "--parts",
        "step,large_graph",
        "--work-dir",
        str(tmp_path / "work"),
    ]
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks", *options],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(CHECKOUT), *sys.path])},
    )
    while not Path("bench/step.json").exists() and process.poll() is None:
        time.sleep(0.05)
    time.sleep(0.5)  # somewhere in the second part
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=100)
    assert process.returncode == 130, err
    assert out == ""
    assert err.splitlines()[-1] == "benchmarks: interrupted; no incomplete file was left"
    assert written() == ["bench/step.json"]
    assert not list((tmp_path / "work").glob(".*"))


@pytest.mark.parametrize("content", ["{no", "[]", '{"part": "growth"}'])
def test_damaged_results_give_one_line(bench, content):
    Path("results").mkdir()
    Path("results/step.json").write_text(content)
    assert "step.json" in bench("--page-only", "--out", "results").complaint
