"""Schedulers that do not answer, and workers that cannot do the work."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time

import pytest
from distributed import Client, LocalCluster, Nanny, nanny
from namespaces import needs_file_systems, with_file_system
from test_store import make_dataset

from gpcanet.distributed import GPCA, cluster, connect, local_cluster, write_dataset
from gpcanet.distributed.cluster import check_workers, versions, wait_for_workers
from gpcanet.errors import InputError


@pytest.fixture
def store(tmp_path):
    return write_dataset(make_dataset(), tmp_path / "store")


def test_a_scheduler_that_does_not_answer(monkeypatch):
    monkeypatch.setattr(cluster, "TIMEOUT", 0.2)
    message = r"no Dask scheduler answers at tcp://127\.0\.0\.1:9 .*start"
    with pytest.raises(InputError, match=message), connect("tcp://127.0.0.1:9"):
        pass


class Workers:
    """A client whose only worker reports something else than the truth."""

    def __init__(self, client, **changes):
        self.client, self.changes = client, changes

    def nthreads(self):
        return {"tcp://w": 1}

    def run(self, function, *args, **kw):
        class Worker:
            class state:
                nthreads = 1

        report = function(*args, Worker)
        if isinstance(self.changes.get("error"), Exception):
            return {"tcp://w": self.changes["error"]}
        return {"tcp://w": report | self.changes}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"store": None}, "does not see the store .* as it is here"),
        ({"store": "abc"}, "does not see the store .* as it is here"),
        ({"versions": versions() | {"numpy": "1.0"}}, "has numpy 1.0, but the client has"),
        ({"threads": 4}, "runs 4 tasks at a time, but its .*; start workers with --nthreads 1"),
        ({"error": ModuleNotFoundError("gpcanet")}, "cannot run gpcanet .*install gpcanet"),
    ],
)
def test_workers_that_cannot_do_the_work(store, tmp_path, changes, message):
    with pytest.raises(InputError, match=f"worker tcp://w {message}"):
        check_workers(Workers(None, **changes), tmp_path, store)
    check_workers(Workers(None), tmp_path, store)
    assert [path.name for path in tmp_path.iterdir()] == ["store"]


PRELOAD = "import gpcanet; gpcanet.__version__ = '0.0.1'"


@pytest.mark.parametrize(
    ("worker", "message"),
    [
        pytest.param(
            "elsewhere", "does not see the folder .*storage that all workers",
            marks=needs_file_systems,
        ),
        ("older", r"has gpcanet 0\.0\.1, but the client has .*; install the same version"),
    ],
)  # fmt: skip
def test_worker_processes_that_cannot_do_the_work(store, tmp_path, worker, message):
    """A worker with other folders, or another version."""
    (tmp_path / "shared").mkdir()
    (tmp_path / "older.py").write_text(PRELOAD)
    with (
        LocalCluster(n_workers=0, protocol="tcp://", dashboard_address=":0") as local,
        Client(local) as client,
    ):
        command = [
            *(sys.executable, "-m", "distributed.cli.dask_worker", local.scheduler_address),
            *("--nthreads", "1", "--no-nanny", "--no-dashboard", "--memory-limit", "0"),
            *(["--preload", str(tmp_path / "older.py")] if worker == "older" else []),
        ]
        if worker == "elsewhere":
            command = with_file_system(tmp_path / "shared", "1m", command)
        process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.DEVNULL)
        try:
            with pytest.raises(InputError, match=rf"worker tcp://127\.0\.0\.1:\d+ {message}"):
                GPCA(2).fit(store, client=client, scratch=tmp_path / "shared" / "scratch")
        finally:
            process.kill()
            process.wait()
    assert not list((tmp_path / "shared").rglob("*.done.json"))


def test_waiting_for_workers_leaves_the_list_of_the_cluster_alone():
    """With a list replaced by Dask's own wait, a worker that leaves breaks the cluster's close."""
    with (
        LocalCluster(n_workers=1, processes=False, dashboard_address=":0") as local,
        Client(local) as client,
    ):
        workers = local.scheduler_info
        wait_for_workers(client, 1)
        assert local.scheduler_info is workers


def test_a_scheduler_without_workers(store, tmp_path, monkeypatch):
    monkeypatch.setattr(cluster, "TIMEOUT", 0.2)
    with (
        LocalCluster(n_workers=0, processes=False, dashboard_address=":0") as local,
        Client(local) as client,
        pytest.raises(InputError, match=r"has no workers; start one with `dask worker inproc"),
    ):
        check_workers(client, tmp_path, store)


@pytest.mark.parametrize("gives_up", [False, True])
def test_no_process_is_left(monkeypatch, gives_up):
    """One worker is killed, so that it is restarted while the cluster is closed."""
    others = multiprocessing.active_children()
    with local_cluster(2) as client:
        [pid, *_] = client.run(os.getpid).values()
        if gives_up:

            async def kill(self, *args):
                await self.process.running.wait()
                raise TimeoutError

            monkeypatch.setattr(Nanny, "kill", kill)
        os.kill(pid, signal.SIGKILL)
        time.sleep(0.5)
    assert [child for child in multiprocessing.active_children() if child not in others] == []


def test_no_process_is_left_after_a_failed_start(monkeypatch):
    """A worker whose start fails and that does not end in time, either."""
    others = multiprocessing.active_children()
    start = nanny.WorkerProcess.start

    async def fail(self):
        await start(self)
        raise OSError("no worker")

    async def kill(*_):
        raise TimeoutError

    monkeypatch.setattr(nanny.WorkerProcess, "start", fail)
    monkeypatch.setattr(Nanny, "kill", kill)
    with pytest.raises(RuntimeError, match="Nanny failed to start"), local_cluster(1):
        pass
    assert [child for child in multiprocessing.active_children() if child not in others] == []
