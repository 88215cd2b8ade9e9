"""Worker processes: every cell is recorded once, also if workers are killed."""

import contextlib
import multiprocessing
import os
import signal
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from threadpoolctl import threadpool_limits
from tiny_cells import LINEAR, LOGISTIC, TWO_STAGES, linear, logistic, public, spec
from worker_helpers import children_since, on_linux, quick_workers, reproducible_part

import reproduction.runner
from gpcanet.linalg.parallel import available_cores
from reproduction.cells import PUBLIC, Setup
from reproduction.journal import Journal, read_journals
from reproduction.loading import DatasetLoader, _load
from reproduction.runner import THREAD_VARIABLES, WorkerPool, reproduce
from reproduction.schedule import Progress
from reproduction.selection import completed, select
from reproduction.work import group_key, outcomes


def in_this_process(cells, jobs):
    """Outcomes of cells in this process, with the number of threads of a worker."""
    groups = {}
    for cell in cells:
        groups.setdefault(group_key(cell), []).append(cell)
    _load.cache_clear()
    with threadpool_limits(threads_of(jobs)):  # it affects the rounding of the graph of digits
        found = [pair for group in groups.values() for pair in outcomes(group, DatasetLoader())]
    _load.cache_clear()
    return {cell: reproducible_part(outcome) for cell, outcome in found}


def threads_of(jobs):
    return max(1, available_cores() // jobs)


def environment_of(pid):
    text = Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace")
    return dict(line.partition("=")[::2] for line in text.split("\0") if line)


# -- an undisturbed run --------------------------------------------------------------------------

without_lr = {name: value for name, value in LINEAR.items() if name != "lr"}
BROKEN = Setup.of("gpca", "digits", **without_lr).cell(PUBLIC, 0)
NOWHERE = Setup.of("gpca", "nowhere", **LOGISTIC).cell(PUBLIC, 0)
SPECS = [
    TWO_STAGES,
    spec([logistic(alpha=alpha, C=C) for alpha in (1, 5) for C in (0.1, 10)]),
    spec([linear(), BROKEN.setup, linear(weight_decay=0.01)]),
    spec([NOWHERE.setup]),
    spec([linear(alpha=10, hidden=8)], runs=public(0, 1)),
]


@pytest.fixture(scope="module")
def finished(without_torch, tmp_path_factory):
    """The journal of a run of SPECS, its progress reports and the environments of its workers."""
    path = tmp_path_factory.mktemp("journal") / "runs.jsonl"
    reports, environments, others = [], {}, multiprocessing.active_children()
    with quick_workers(without_torch) as patch:
        patch.setenv("MKL_NUM_THREADS", "7")
        before = dict(os.environ)

        def listener(progress):
            reports.append(progress)
            for child in children_since(others):
                with contextlib.suppress(OSError):
                    environments[child.pid] = environment_of(child.pid)

        with Journal(path) as journal:
            reproduce(SPECS, journal, DatasetLoader(), jobs=2, listener=listener)
        assert dict(os.environ) == before
    assert children_since(others) == []
    return path, reports, environments


def test_every_cell_has_the_record_of_a_run_in_this_process(finished):
    contents = read_journals([finished[0]])
    assert (contents.damaged, contents.repeated) == (0, 0)
    chosen = select(TWO_STAGES, contents.records)
    cells = {cell for one in SPECS for cell in one.selection_cells()}
    cells |= {linear(alpha=10, hidden=8).cell(PUBLIC, seed) for seed in (0, 1)}
    cells |= {NOWHERE, *(chosen.cell(PUBLIC, seed) for seed in (2, 3))}
    assert set(contents.records) == cells
    found = {cell: reproducible_part(record) for cell, record in contents.records.items()}
    assert found == in_this_process(cells, 2)
    for record in contents.records.values():
        assert record["seconds"] >= 0
        assert record["versions"]["numpy"] == np.__version__
        assert record["when"].endswith("+00:00")
        assert " cores of " in record["machine"]
        assert record["jobs"] == 2


def test_only_the_selected_candidate_runs_with_further_seeds(finished):
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
    assert len(completed(TWO_STAGES, records).test.values) == 4


def test_exception_fails_one_cell_and_the_others_continue(finished):
    records = read_journals([finished[0]]).records
    assert reproducible_part(records[BROKEN]) == {"status": "failed", "reason": "KeyError: 'lr'"}
    assert records[NOWHERE]["status"] == "failed"
    assert records[NOWHERE]["reason"].startswith("InputError: dataset 'nowhere' is unknown")
    assert select(SPECS[2], records) in (linear(), linear(weight_decay=0.01))


@on_linux
def test_workers_divide_the_cores(finished):
    assert finished[2]
    for environment in finished[2].values():
        assert {environment.get(name) for name in THREAD_VARIABLES} == {str(threads_of(2))}


def test_progress_goes_from_zero_to_all_cells(finished):
    reports = finished[1]
    done = [progress.done for progress in reports]
    assert done == sorted(done)
    assert (reports[0].done, reports[0].seconds_left) == (0, None)
    n_cells = len(read_journals([finished[0]]).records)
    assert reports[-1] == Progress(n_cells, n_cells, 2, 0)


def test_recorded_cells_are_not_run_again(finished, tmp_path):
    path = tmp_path / "runs.jsonl"
    path.write_bytes(finished[0].read_bytes())
    started, others = [], multiprocessing.active_children()
    with Journal(path) as journal:
        reproduce(
            SPECS, journal, DatasetLoader(), jobs=2,
            listener=lambda progress: started.extend(children_since(others)),
        )  # fmt: skip
    assert path.read_bytes() == finished[0].read_bytes()
    assert started == []


@pytest.mark.usefixtures("quick")
def test_forgotten_failures_are_run_again(finished, tmp_path):
    path = tmp_path / "runs.jsonl"
    path.write_bytes(finished[0].read_bytes())
    with Journal(path) as journal:
        journal.forget_failures()
        reproduce(SPECS, journal, DatasetLoader(), jobs=1)
    lines = path.read_bytes().removeprefix(finished[0].read_bytes()).splitlines()
    assert len(lines) == 2
    contents = read_journals([path])
    assert contents.repeated == 2
    assert {cell for cell, record in contents.records.items() if record["status"] == "failed"} == {
        BROKEN,
        NOWHERE,
    }


@pytest.mark.slow
def test_networks_give_the_same_records_in_workers(tmp_path, monkeypatch):
    for name in THREAD_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    training = {"epochs": 6, "lr": 0.01, "weight_decay": 5e-4, "eval_every": 2, "dropout": 0.5}
    steps = {"alpha": 5, "n_iter": 10, "triangle": "upper", "normalization": "rw", "dropouts": 2}
    setups = [
        Setup.of("gcn", "digits", layers=3, hidden=16, init="gpca", **training),
        Setup.of("gpcanet", "digits", layers=2, hidden=16, **steps, **training),
        Setup.of("gpcanet", "digits", layers=2, hidden=-1, **steps, **training),
    ]
    cells = [setup.cell(PUBLIC, 0) for setup in setups]
    with Journal(tmp_path / "runs.jsonl") as journal:
        reproduce([spec(setups)], journal, DatasetLoader(), jobs=2)
    found = {cell: reproducible_part(record) for cell, record in journal.contents.records.items()}
    assert [found[cell]["status"] for cell in cells] == ["done", "done", "failed"]
    assert [point[0] for point in found[cells[0]]["curve"]] == [2, 4, 6]
    assert found == in_this_process(cells, 2)


# -- early ends ----------------------------------------------------------------------------------


def slow(**options):
    """A cell that takes half a minute or more."""
    return linear(epochs=10**6, eval_every=10**6, **options)


def killing(journal, n_records, which):
    """A thread that kills a worker once there are ``n_records`` records."""
    others = multiprocessing.active_children()

    def watch():
        deadline = time.monotonic() + 100
        while time.monotonic() < deadline:
            if len(journal.contents.records) >= n_records:
                workers = sorted(children_since(others), key=lambda one: one.pid)
                os.kill(workers[which].pid, signal.SIGKILL)
                return
            time.sleep(0.01)

    thread = threading.Thread(target=watch)
    thread.start()
    return thread


@pytest.mark.usefixtures("quick")
def test_cells_of_a_killed_worker_are_run_again(tmp_path):
    setups = linear(), linear(epochs=20_000, eval_every=20_000), linear(weight_decay=0.01)
    with Journal(tmp_path / "runs.jsonl") as journal:
        thread = killing(journal, 1, 0)
        reproduce([spec(setups)], journal, DatasetLoader(), jobs=1)
        thread.join()
    contents = read_journals([tmp_path / "runs.jsonl"])
    assert contents.repeated == 0
    found = {cell: reproducible_part(record) for cell, record in contents.records.items()}
    assert found == in_this_process([setup.cell(PUBLIC, 0) for setup in setups], 1)


class KilledWorker:
    """A worker that was killed while it ran some cells."""

    def __init__(self, cells, *, has_outcome):
        self.cells, self.has_outcome, self.is_ready = list(cells), has_outcome, True
        self.last_message = time.monotonic() - 5

    def exit_reason(self):
        return "the worker was ended by SIGKILL"

    def terminate(self):
        pass


@pytest.mark.parametrize(("has_outcome", "n_failed"), [(True, 1), (False, 3)])
def test_cell_that_kills_two_workers_is_recorded_as_failed(tmp_path, has_outcome, n_failed):
    """Before the first outcome, all cells that share the embedding have failed."""
    cells = [linear(weight_decay=decay).cell(PUBLIC, 0) for decay in (0.1, 0.2, 0.3)]
    with Journal(tmp_path / "runs.jsonl") as journal:
        pool = WorkerPool([], journal, DatasetLoader(), 1)
        for deaths in (1, 2):
            pool.workers.append(KilledWorker(cells, has_outcome=has_outcome))
            pool.handle_death(pool.workers[0])
            assert pool.workers == []
            assert len(journal.contents.records) == (n_failed if deaths == 2 else 0)
        assert list(journal.contents.records) == cells[:n_failed]
        taken = [record["seconds"] for record in journal.contents.records.values()]
    assert 5 <= taken[0] < 100
    assert taken[1:] == [0] * (n_failed - 1)
    assert {record["reason"] for record in journal.contents.records.values()} == {
        "the worker was ended by SIGKILL"
    }


@pytest.mark.usefixtures("quick")
def test_killed_idle_worker_is_replaced(tmp_path):
    brief, long = linear(alpha=1), linear(alpha=2, epochs=20_000, eval_every=20_000)
    specs = [spec([brief, long], runs=public(0, 1))]
    with Journal(tmp_path / "runs.jsonl") as journal:
        thread = killing(journal, 1, 0)
        try:
            reproduce(specs, journal, DatasetLoader(), jobs=2)
        finally:
            thread.join()
    assert {record["status"] for record in journal.contents.records.values()} == {"done"}


@pytest.mark.usefixtures("quick")
def test_interrupt_ends_the_workers_and_keeps_finished_cells(tmp_path):
    before = dict(os.environ)
    workers, others = [], multiprocessing.active_children()

    def interrupt(progress):
        if progress.done:
            workers.extend(children_since(others))
            raise KeyboardInterrupt

    specs = [spec([linear(), slow()])]
    with Journal(tmp_path / "runs.jsonl") as journal, pytest.raises(KeyboardInterrupt):
        reproduce(specs, journal, DatasetLoader(), jobs=1, listener=interrupt)
    assert len(workers) == 1
    assert children_since(others) == []
    assert dict(os.environ) == before
    assert set(read_journals([tmp_path / "runs.jsonl"]).records) == {linear().cell(PUBLIC, 0)}


def test_the_end_is_always_reported(quick, tmp_path):
    quick.setattr(reproduction.runner, "PROGRESS_SECONDS", 1000)
    reports = []
    with Journal(tmp_path / "runs.jsonl") as journal:
        reproduce([spec([logistic()])], journal, DatasetLoader(), jobs=1, listener=reports.append)
    assert reports[-1] == Progress(1, 1, 0, 0)


def test_workers_that_cannot_start_raise_and_record_nothing(quick, tmp_path):
    quick.setenv("PYTHONHOME", str(tmp_path / "nowhere"))
    with Journal(tmp_path / "runs.jsonl") as journal:
        with pytest.raises(ChildProcessError, match="worker processes cannot be started"):
            reproduce([spec([logistic()])], journal, DatasetLoader(), jobs=1)
        assert journal.contents.records == {}
