"""python -m benchmarks: whole runs of the smallest size, what they leave, and what is refused."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gpcanet.linalg.parallel import given_cores

CHECKOUT = Path(__file__).resolve().parents[2]


def written():
    return sorted(str(path) for path in Path().rglob("*") if path.is_file())


@pytest.fixture
def in_process(monkeypatch):
    """Run the jobs of children here: a process takes seconds to start."""
    from benchmarks import child

    def in_child(job, *, timeout):
        return child.do(job)

    for user in ("large", "generating"):
        monkeypatch.setattr(f"benchmarks.{user}.in_child", in_child)


@pytest.mark.usefixtures("in_process")
def test_a_quick_run_of_all_parts(bench, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.setattr("benchmarks.command._python", lambda *_: None)  # two seconds each
    ended = bench("--size", "quick", "--work-dir", tmp_path / "work")
    assert ended.code == 0, ended.err
    parts = ["step", "bandwidth", "path", "embed", "command", "generate", "products", "growth"]
    assert written() == sorted(
        [f"bench/{part}.json" for part in parts]
        + ["bench/images/growth.png", "bench/performance.md"]
    )
    assert ended.out == Path("bench/performance.md").read_text()
    assert "embed (4 of 8)" in ended.err
    embed = json.loads(Path("bench/embed.json").read_text())
    assert (embed["size"], embed["repeats"], embed["machine"]["cores"]) == (
        "quick",
        1,
        given_cores(),
    )
    assert "seconds" in embed["results"]["graphs"]["generated"]["ways"]["GPCA"]
    assert "## Growth" in ended.out


def test_json_and_quiet_and_processes_of_its_own(bench, tmp_path):
    options = ["--size", "quick", "--parts", "generate, step", "--repeats", "2", "--quiet"]
    ended = bench(*options, "--json", "--out", "a", "--docs", "b")
    assert ended.code == 0, ended.err
    assert ended.err == ""
    told = json.loads(ended.out)
    assert list(told["parts"]) == ["generate", "step"]
    assert told["parts"]["step"]["repeats"] == 2
    assert told["parts"]["generate"]["results"]["nodes"] == 800
    assert told["written"] == ["a/generate.json", "a/step.json", "b/performance.md"]
    assert written() == sorted(told["written"])

    # Another part joins; one that is there is not replaced unasked.
    assert "a/generate.json exists" in bench(*options, "--out", "a").complaint
    Path("b/performance.md").unlink()
    ended = bench("--page-only", "--out", "a", "--docs", "b")
    assert ended.code == 0, ended.err
    assert "## One propagation step" in Path("b/performance.md").read_text()
    assert "## Generating a graph" in ended.out


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--parts", "step,stride"], "part 'stride' is not known; there are step, bandwidth"),
        (["--size", "huge"], "size 'huge' is not known; there are quick, small, full"),
        (["--repeats", "0"], "--repeats"),
        (["--page-only"], "folder bench holds no results; measure first"),
    ],
)
def test_what_makes_no_sense_is_refused_and_leaves_nothing(bench, options, reason):
    assert reason in bench(*options).complaint
    assert list(Path().iterdir()) == []


@pytest.mark.usefixtures("bench")
def test_an_interrupt_keeps_finished_parts_and_leaves_no_half_ones(tmp_path):
    options = ["--size", "quick", "--parts", "step,products", "--work-dir", str(tmp_path / "work")]
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks", *options],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(CHECKOUT)},
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
def test_damaged_results_are_one_line(bench, content):
    Path("results").mkdir()
    Path("results/step.json").write_text(content)
    assert "step.json" in bench("--page-only", "--out", "results").complaint
