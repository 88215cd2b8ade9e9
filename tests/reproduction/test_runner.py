"""Runs in processes of their own: each is written down once, whatever is killed meanwhile."""

import contextlib
import multiprocessing
import os
import signal
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from processes import essence, on_linux, quick_processes
from threadpoolctl import threadpool_limits
from tiny_cells import LINEAR, LOGISTIC, TWO_STAGES, entry, linear, logistic, public

import reproduction.runner
from gpcanet.linalg.parallel import given_cores
from reproduction.cells import Setup
from reproduction.data import Source, _load
from reproduction.journal import Journal, read_journals
from reproduction.runner import THREAD_VARIABLES, State, _Pool, reproduce
from reproduction.selection import choose, reported
from reproduction.work import group_key, outcomes


def in_this_process(cells, jobs):
    """Outcomes of some cells, group by group, with as many threads as one of some workers has."""
    groups = {}
    for cell in cells:
        groups.setdefault(group_key(cell), []).append(cell)
    _load.cache_clear()
    with threadpool_limits(threads_of(jobs)):  # the graph of digits depends on it
        found = [pair for group in groups.values() for pair in outcomes(group, Source())]
    _load.cache_clear()
    return {cell: essence(outcome) for cell, outcome in found}


def threads_of(jobs):
    return max(1, given_cores() // jobs)


def environment_of(pid):
    text = Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace")
    return dict(line.partition("=")[::2] for line in text.split("\0") if line)


# -- an undisturbed run --------------------------------------------------------------------------

without_lr = {name: value for name, value in LINEAR.items() if name != "lr"}
BROKEN = Setup.of("gpca", "digits", **without_lr).cell("public", 0)
NOWHERE = Setup.of("gpca", "nowhere", **LOGISTIC).cell("public", 0)
ENTRIES = [
    TWO_STAGES,
    entry("logistic", [logistic(alpha=alpha, C=C) for alpha in (1, 5) for C in (0.1, 10)]),
    entry("one raises", [linear(), BROKEN.setup, linear(weight_decay=0.01)]),
    entry("all raise", [NOWHERE.setup]),
    entry("the same again", [linear(alpha=10, hidden=8)], runs=public(0, 1)),
]


@pytest.fixture(scope="module")
def finished(without_torch, tmp_path_factory):
    """What a run of ENTRIES leaves: the journal's path, what was told, what workers were given."""
    path = tmp_path_factory.mktemp("journal") / "runs.jsonl"
    told, environments = [], {}
    with quick_processes(without_torch) as patch:
        patch.setenv("MKL_NUM_THREADS", "7")
        before = dict(os.environ)

        def listener(state):
            told.append(state)
            for child in multiprocessing.active_children():
                with contextlib.suppress(OSError):
                    environments[child.pid] = environment_of(child.pid)

        with Journal(path) as journal:
            reproduce(ENTRIES, journal, Source(), jobs=2, listener=listener)
        assert dict(os.environ) == before
    assert multiprocessing.active_children() == []
    return path, told, environments


def test_every_cell_has_a_record_and_it_is_that_of_this_process(finished):
    contents = read_journals([finished[0]])
    assert (contents.damaged, contents.repeated) == (0, 0)
    chosen = choose(TWO_STAGES, contents.records)
    cells = {cell for one in ENTRIES for cell in one.cells_to_choose()}
    cells |= {linear(alpha=10, hidden=8).cell("public", seed) for seed in (0, 1)}
    cells |= {NOWHERE, *(chosen.cell("public", seed) for seed in (2, 3))}
    assert set(contents.records) == cells
    found = {cell: essence(record) for cell, record in contents.records.items()}
    assert found == in_this_process(cells, 2)
    for record in contents.records.values():
        assert record["seconds"] >= 0
        assert record["versions"]["numpy"] == np.__version__
        assert record["when"].endswith("+00:00")
        assert " cores of " in record["machine"]
        assert record["jobs"] == 2


def test_only_the_chosen_candidate_runs_with_the_other_seeds(finished):
    records = read_journals([finished[0]]).records
    seeds = {}
    for cell in records:
        seeds.setdefault(cell.setup, set()).add(cell.seed)
    means = {
        setup: sum(records[setup.cell(*run)]["accuracy"]["validation"] for run in public(0, 1))
        for setup in TWO_STAGES.candidates
    }
    best = max(means, key=means.__getitem__)
    assert {setup: seeds[setup] for setup in TWO_STAGES.candidates} == {
        setup: {0, 1, 2, 3} if setup == best else {0, 1} for setup in TWO_STAGES.candidates
    }
    assert len(reported(TWO_STAGES, records)["test"].values) == 4


def test_a_cell_that_raises_has_failed_with_its_reason_and_the_others_go_on(finished):
    records = read_journals([finished[0]]).records
    assert essence(records[BROKEN]) == {"status": "failed", "reason": "KeyError: 'lr'"}
    assert records[NOWHERE]["status"] == "failed"
    assert records[NOWHERE]["reason"].startswith("InputError: dataset 'nowhere' is not known")
    assert choose(ENTRIES[2], records) in (linear(), linear(weight_decay=0.01))


@on_linux
def test_workers_share_the_cores(finished):
    assert finished[2]
    for environment in finished[2].values():
        assert {environment.get(name) for name in THREAD_VARIABLES} == {str(threads_of(2))}


def test_progress_is_told_from_nothing_to_all(finished):
    told = finished[1]
    done = [state.done for state in told]
    assert done == sorted(done)
    assert (told[0].done, told[0].seconds_left) == (0, None)
    n_cells = len(read_journals([finished[0]]).records)
    assert told[-1] == State(n_cells, n_cells, 2, 0)


def test_what_is_done_or_failed_is_not_run_again(finished, tmp_path):
    path = tmp_path / "runs.jsonl"
    path.write_bytes(finished[0].read_bytes())
    started = []
    with Journal(path) as journal:
        reproduce(
            ENTRIES, journal, Source(), jobs=2,
            listener=lambda state: started.extend(multiprocessing.active_children()),
        )  # fmt: skip
    assert path.read_bytes() == finished[0].read_bytes()
    assert started == []


@pytest.mark.usefixtures("quick")
def test_what_failed_is_run_again_once_it_is_forgotten(finished, tmp_path):
    path = tmp_path / "runs.jsonl"
    path.write_bytes(finished[0].read_bytes())
    with Journal(path) as journal:
        journal.forget_failures()
        reproduce(ENTRIES, journal, Source(), jobs=1)
    lines = path.read_bytes().removeprefix(finished[0].read_bytes()).splitlines()
    assert len(lines) == 2
    contents = read_journals([path])
    assert contents.repeated == 2
    assert {cell for cell, record in contents.records.items() if record["status"] == "failed"} == {
        BROKEN,
        NOWHERE,
    }


@pytest.mark.slow
def test_networks_run_in_workers_as_here(tmp_path, monkeypatch):
    for name in THREAD_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    training = {"epochs": 6, "lr": 0.01, "weight_decay": 5e-4, "eval_every": 2, "dropout": 0.5}
    steps = {"alpha": 5, "n_iter": 10, "triangle": "upper", "normalization": "rw", "dropouts": 2}
    setups = [
        Setup.of("gcn", "digits", layers=3, hidden=16, init="gpca", **training),
        Setup.of("gpcanet", "digits", layers=2, hidden=16, **steps, **training),
        Setup.of("gpcanet", "digits", layers=2, hidden=-1, **steps, **training),
    ]
    cells = [setup.cell("public", 0) for setup in setups]
    with Journal(tmp_path / "runs.jsonl") as journal:
        reproduce([entry("networks", setups)], journal, Source(), jobs=2)
    found = {cell: essence(record) for cell, record in journal.contents.records.items()}
    assert [found[cell]["status"] for cell in cells] == ["done", "done", "failed"]
    assert [look[0] for look in found[cells[0]]["curve"]] == [2, 4, 6]
    assert found == in_this_process(cells, 2)


# -- what ends early -----------------------------------------------------------------------------


def slow(**options):
    """A cell of half a minute or more: enough to be killed in, not to be waited for."""
    return linear(epochs=10**6, eval_every=10**6, **options)


def killing(journal, n_records, which):
    """A thread that kills a worker of this process once there are so many records."""

    def watch():
        deadline = time.monotonic() + 100
        while time.monotonic() < deadline:
            if len(journal.contents.records) >= n_records:
                workers = sorted(multiprocessing.active_children(), key=lambda one: one.pid)
                os.kill(workers[which].pid, signal.SIGKILL)
                return
            time.sleep(0.01)

    thread = threading.Thread(target=watch)
    thread.start()
    return thread


@pytest.mark.usefixtures("quick")
def test_cells_whose_process_is_killed_are_run_again(tmp_path):
    setups = linear(), linear(epochs=20_000, eval_every=20_000), linear(weight_decay=0.01)
    with Journal(tmp_path / "runs.jsonl") as journal:
        thread = killing(journal, 1, 0)
        reproduce([entry("killed", setups)], journal, Source(), jobs=1)
        thread.join()
    contents = read_journals([tmp_path / "runs.jsonl"])
    assert contents.repeated == 0
    found = {cell: essence(record) for cell, record in contents.records.items()}
    assert found == in_this_process([setup.cell("public", 0) for setup in setups], 1)


class Killed:
    """A process that is gone, and what it was at."""

    def __init__(self, cells, *, has_told):
        self.cells, self.has_told, self.is_ready = list(cells), has_told, True
        self.heard = time.monotonic() - 5
        self.how_it_ended, self.end = (lambda: "the process was ended by SIGKILL"), (lambda: None)


@pytest.mark.parametrize(("has_told", "n_failed"), [(True, 1), (False, 3)])
def test_what_kills_its_process_twice_has_failed(tmp_path, has_told, n_failed):
    """The cell it was at; or, before its first outcome, all that share what it was making."""
    cells = [linear(weight_decay=decay).cell("public", 0) for decay in (0.1, 0.2, 0.3)]
    with Journal(tmp_path / "runs.jsonl") as journal:
        pool = _Pool([], journal, Source(), 1, None)
        for deaths in (1, 2):
            pool.workers.append(Killed(cells, has_told=has_told))
            pool._bury(pool.workers[0])
            assert pool.workers == []
            assert len(journal.contents.records) == (n_failed if deaths == 2 else 0)
        assert list(journal.contents.records) == cells[:n_failed]
        taken = [record["seconds"] for record in journal.contents.records.values()]
    assert 5 <= taken[0] < 100
    assert taken[1:] == [0] * (n_failed - 1)
    assert {record["reason"] for record in journal.contents.records.values()} == {
        "the process was ended by SIGKILL"
    }


@pytest.mark.usefixtures("quick")
def test_an_idle_process_may_be_killed_as_well(tmp_path):
    brief, long = linear(alpha=1), linear(alpha=2, epochs=20_000, eval_every=20_000)
    entries = [entry("idle", [brief, long], runs=public(0, 1))]
    with Journal(tmp_path / "runs.jsonl") as journal:
        thread = killing(journal, 1, 0)
        try:
            reproduce(entries, journal, Source(), jobs=2)
        finally:
            thread.join()
    assert {record["status"] for record in journal.contents.records.values()} == {"done"}


@pytest.mark.usefixtures("quick")
def test_being_interrupted_ends_the_workers_and_keeps_what_is_done(tmp_path):
    before = dict(os.environ)
    workers = []

    def interrupt(state):
        if state.done:
            workers.extend(multiprocessing.active_children())
            raise KeyboardInterrupt

    entries = [entry("interrupted", [linear(), slow()])]
    with Journal(tmp_path / "runs.jsonl") as journal, pytest.raises(KeyboardInterrupt):
        reproduce(entries, journal, Source(), jobs=1, listener=interrupt)
    assert len(workers) == 1
    assert multiprocessing.active_children() == []
    assert dict(os.environ) == before
    assert set(read_journals([tmp_path / "runs.jsonl"]).records) == {linear().cell("public", 0)}


def test_the_end_is_told_however_seldom_anything_is(quick, tmp_path):
    quick.setattr(reproduction.runner, "TELL_SECONDS", 1000)
    told = []
    with Journal(tmp_path / "runs.jsonl") as journal:
        reproduce([entry("one", [logistic()])], journal, Source(), jobs=1, listener=told.append)
    assert told[-1] == State(1, 1, 0, 0)


def test_processes_that_cannot_start_blame_no_cell(quick, tmp_path):
    quick.setenv("PYTHONHOME", str(tmp_path / "nowhere"))
    with Journal(tmp_path / "runs.jsonl") as journal:
        with pytest.raises(ChildProcessError, match="no process that runs cells can be started"):
            reproduce([entry("one", [logistic()])], journal, Source(), jobs=1)
        assert journal.contents.records == {}
