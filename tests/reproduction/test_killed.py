"""A run that is killed again and again comes to the same end as one that is not."""

import contextlib
import os
import pickle
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest
from processes import essence, on_linux
from tiny_cells import entry, linear, logistic, public

from reproduction.data import Source
from reproduction.journal import Journal, read_journals
from reproduction.runner import reproduce

SESSION = """
import pickle, sys
from pathlib import Path
from gpcanet.paper.data import Source
from gpcanet.paper.journal import Journal
from gpcanet.paper.runner import reproduce
entries = pickle.loads(Path(sys.argv[2]).read_bytes())
with Journal(sys.argv[1]) as journal:
    reproduce(entries, journal, Source(), jobs=2)
"""
MARK = "GPCANET_TEST_SESSION"


def marked(mark):
    """Processes that were started, by whomever, with our mark in their environment."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if f"{MARK}={mark}".encode() in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
    return found


@on_linux
@pytest.mark.slow
@pytest.mark.usefixtures("quick")
def test_a_run_that_is_killed_twenty_times_comes_to_the_same_end(tmp_path, without_torch):
    candidates = [
        linear(alpha=alpha, hidden=hidden, dropout=dropout, epochs=200)
        for alpha in (1, 5, 10, 20)
        for hidden in (8, 16)
        for dropout in (0, 0.5)
    ]
    entries = [
        entry("abused", candidates, public(*range(5)), public(*range(8))),
        entry("logistic", [logistic(alpha=alpha) for alpha in (1, 5, 10)]),
    ]
    path, entries_path = tmp_path / "abused.jsonl", tmp_path / "entries"
    entries_path.write_bytes(pickle.dumps(entries))
    mark = f"{os.getpid()}-{time.monotonic_ns()}"
    environment = {**os.environ, "PYTHONPATH": str(without_torch), MARK: mark}

    def session():
        with open(tmp_path / "log", "ab") as log:
            command = [sys.executable, "-c", SESSION, path, entries_path]
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
        process.kill()  # and not its workers, which have to notice
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
        reproduce(entries, journal, Source(), jobs=2)
    whole, abused = journal.contents, read_journals([path])
    assert len(whole.records) == 16 * 5 + 3 + 3
    assert abused.repeated == 0
    assert abused.damaged <= killed
    assert {cell: essence(record) for cell, record in abused.records.items()} == {
        cell: essence(record) for cell, record in whole.records.items()
    }
