"""A reproduction that is killed repeatedly gives the same records as one that is not."""

import contextlib
import os
import pickle
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tiny_cells import linear, logistic, public, spec
from worker_helpers import on_linux, reproducible_part

from reproduction.journal import Journal, read_journals
from reproduction.loading import DatasetLoader
from reproduction.runner import reproduce

SESSION = """
import pickle, sys
from pathlib import Path
from reproduction.journal import Journal
from reproduction.loading import DatasetLoader
from reproduction.runner import reproduce
specs = pickle.loads(Path(sys.argv[2]).read_bytes())
with Journal(sys.argv[1]) as journal:
    reproduce(specs, journal, DatasetLoader(), jobs=2)
"""
MARK = "GPCANET_TEST_SESSION"
CHECKOUT = Path(__file__).resolve().parents[2]


def marked(mark):
    """Processes with the mark in their environment."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if f"{MARK}={mark}".encode() in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
    return found


@on_linux
@pytest.mark.slow
@pytest.mark.usefixtures("quick")
def test_run_killed_twenty_times_gives_the_same_records(tmp_path, without_torch):
    candidates = [
        linear(alpha=alpha, hidden=hidden, dropout=dropout, epochs=3_000)
        for alpha in (1, 5, 10, 20)
        for hidden in (8, 16)
        for dropout in (0, 0.5)
    ]
    specs = [
        spec(candidates, public(*range(5)), public(*range(8))),
        spec([logistic(alpha=alpha) for alpha in (1, 5, 10)]),
    ]
    path, specs_path = tmp_path / "killed_often.jsonl", tmp_path / "specs"
    specs_path.write_bytes(pickle.dumps(specs))
    mark = f"{os.getpid()}-{time.monotonic_ns()}"
    path_variable = os.pathsep.join([str(without_torch), str(CHECKOUT), *sys.path])
    environment = {**os.environ, "PYTHONPATH": path_variable, MARK: mark}

    def session():
        with open(tmp_path / "log", "ab") as log:
            command = [sys.executable, "-c", SESSION, path, specs_path]
            return subprocess.Popen(command, stdout=log, stderr=log, env=environment)

    def n_lines():
        return path.read_bytes().count(b"\n") if path.exists() else 0

    rng, killed, most, lines_at_kills = random.Random(0), 0, 0, []
    for number in range(20):
        before, process = n_lines(), session()
        if number % 3 == 0:  # in the middle of the work
            least, deadline = before + rng.randint(1, 3), time.monotonic() + 100
            while n_lines() < least and process.poll() is None:
                assert time.monotonic() < deadline
                time.sleep(0.005)
            time.sleep(rng.uniform(0, 0.05))
        else:  # while processes start
            time.sleep(rng.uniform(0.1, 2.5))
        most = max(most, len(marked(mark)))
        killed += process.poll() is None
        process.kill()  # its workers must end by themselves
        process.wait()
        lines_at_kills.append(n_lines())
    assert killed == 20
    assert most >= 3  # with its workers
    assert len(set(lines_at_kills)) >= 7  # there was progress between the kills
    last = session()
    assert last.wait(timeout=100) == 0, (tmp_path / "log").read_text()[-2000:]

    deadline = time.monotonic() + 10
    while (left := marked(mark)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert left == []

    with Journal(tmp_path / "whole.jsonl") as journal:
        reproduce(specs, journal, DatasetLoader(), jobs=2)
    whole, killed_often = journal.contents, read_journals([path])
    assert len(whole.records) == 16 * 5 + 3 + 3
    assert killed_often.repeated == 0
    assert killed_often.damaged <= killed
    assert {cell: reproducible_part(record) for cell, record in killed_often.records.items()} == {
        cell: reproducible_part(record) for cell, record in whole.records.items()
    }
