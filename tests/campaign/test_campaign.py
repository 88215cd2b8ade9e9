"""Each part of the campaign for a few seconds, with a fixed seed; and it finds planted bugs."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from campaign import faults, hostile, truth
from campaign.cases import generator, run_cases
from campaign.checks import CHECKS, check_distributed
from campaign.fork_server import Ended
from campaign.formats import Format
from campaign.killed import TASKS
from gpcanet.linalg.operators import propagation
from gpcanet.linalg.operators.ghost import GhostFactor
from gpcanet.linalg.operators.propagation import degrees_of

ROOT = Path(__file__).parents[2]

#: Cases per check in this run.
CASES = 25


@pytest.mark.parametrize("check", [check for check, _ in CHECKS], ids=lambda c: c.__name__)
def test_random_cases_equal_the_dense_formulas(check):
    n_cases = {truth.check_predictors: 2, check_distributed: 5}.get(check, CASES)
    for number in range(n_cases):
        assert "failed" not in check(generator(0, number))


def test_damaged_files_are_refused_or_read():
    outcomes = [hostile.check_file(generator(0, number)) for number in range(150)]
    assert any(outcome.endswith("refused") for outcome in outcomes)
    assert any(outcome.endswith("read") for outcome in outcomes)


def test_files_are_damaged_by_coverage_too():
    pytest.importorskip("atheris", reason="atheris is not installed")
    ended = subprocess.run(
        [sys.executable, "-m", "campaign.coverage", "features csv", "-runs=300", "-seed=1"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    assert "Done 300 runs" in ended.stderr


@pytest.mark.parametrize("is_library", [False, True])
def test_reader_that_hangs_is_a_failure_unless_it_is_a_library(monkeypatch, is_library):
    monkeypatch.setattr(hostile, "TIMEOUT", 1)
    one = Format(".h5ad", b"", lambda path: time.sleep(60), may_crash=is_library)
    if is_library:
        assert hostile.outcome(one, b"") == "library crashed or hung"
    else:
        with pytest.raises(TimeoutError, match="no answer after 1 s"):
            hostile.outcome(one, b"")


def test_undamaged_files_of_every_format_are_read(tmp_path):
    for name, one in hostile.formats().items():
        path = tmp_path / f"{name}{one.suffix}"
        path.write_bytes(one.content)
        assert one.read(path) is not None


def test_killed_commands_leave_no_incomplete_file():
    seen = [faults.check_kill(generator(0, number)) for number in range(6)]
    assert any("SIGKILL" in outcome for outcome in seen)


def test_signals_reach_commands_while_they_run(tmp_path):
    seconds, _ = faults.reference("store")
    for number, code in ((signal.SIGKILL, -signal.SIGKILL), (signal.SIGINT, 130)):
        folder = tmp_path / str(number)
        folder.mkdir()
        assert faults.run("store", folder, number=number, moment=seconds / 20).code == code
        assert not (folder / "store").exists()


# -- planted bugs -----------------------------------------------------------------------------


def failures(check, n_cases=60):
    found = 0
    for number in range(n_cases):
        try:
            check(generator(0, number))
        except AssertionError:
            found += 1
    return found


def test_wrong_sign_of_the_ghost_factor_is_found(monkeypatch):
    add = GhostFactor.add_to_
    monkeypatch.setattr(GhostFactor, "add_to_", lambda self, out, F, a: add(self, out, F, -a))
    assert failures(truth.check_truncation) > 0


def test_missing_self_loop_is_found(monkeypatch):
    monkeypatch.setattr(propagation, "degrees_of", lambda *graph: degrees_of(*graph) + 0.1)
    assert failures(truth.check_gpca) > 10


class EqualToAll(str):
    def __ne__(self, other):
        return False


def test_accepted_checksum_is_found(monkeypatch):
    models = {name: one for name, one in hostile.formats().items() if name.startswith("model")}
    monkeypatch.setattr(hostile, "formats", lambda: models)
    monkeypatch.setattr("gpcanet.utils.tensor_file.digest", lambda header, arrays: EqualToAll())
    changed = 0
    for number in range(100):
        try:
            hostile.check_file(generator(1, number))
        except AssertionError:
            changed += 1
    assert changed > 0


def test_file_that_is_not_renamed_into_place_is_found(monkeypatch):
    def incomplete(name, folder, **fault):
        for output in TASKS[name].outputs:
            (folder / output).write_bytes(b"half")
        return Ended(0, "", 0.1)

    monkeypatch.setattr(faults, "reference", lambda name: (0.1, dict.fromkeys(
        TASKS[name].outputs, b"whole")))  # fmt: skip
    monkeypatch.setattr(faults, "run", incomplete)
    with pytest.raises(AssertionError, match="is incomplete"):
        faults.check_kill(generator(0, 0))


# -- the command ------------------------------------------------------------------------------


def crash(rng):
    import os

    if rng.random() < 0.5:
        os._exit(3)
    return "survived"


def test_crashed_process_fails_one_case_and_is_replaced():
    tally = run_cases(crash, 0, 60, limit=6)
    assert tally.counts["failed"] >= 1
    assert tally.counts["survived"] >= 1
    assert {failure["error"] for failure in tally.failures} == {"the process ended with code 3"}


def test_command_ends_with_a_line_of_figures(tmp_path):
    ended = subprocess.run(
        [sys.executable, "-m", "campaign", "--parts", "truth", "--minutes", "0.1", "--seed", "1",
         "--jobs", "1", "-o", tmp_path / "figures.json"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stdout + ended.stderr
    figures = json.loads(ended.stdout.splitlines()[-1])
    assert figures == json.loads((tmp_path / "figures.json").read_text())
    assert figures["parts"]["truth"]["failed"] == 0


def test_unknown_part_is_one_sentence():
    ended = subprocess.run(
        [sys.executable, "-m", "campaign", "--parts", "luck"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ended.returncode == 2
    assert "must be some of truth, faults, files, load" in ended.stderr
