"""Killed workers and clients, full disks, damaged files: the same bytes, nothing repeated."""

import os
import re
import resource
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from filelock import FileLock
from namespaces import needs_file_systems, with_file_system

from gpcanet.datasets import block_model
from gpcanet.distributed import GPCA, Store, run, tasks, write_dataset
from gpcanet.distributed import plan as plan_module
from gpcanet.distributed.cluster import wait_for_workers
from gpcanet.errors import DataError, DataWarning, InputError

#: A run with 12 solves, 8 chunks, 2 levels of sums and 8 files of results.
PARAMETERS = {"n_components": 3, "alpha": 20.0, "solver": "chebyshev", "tol": 1e-12}

CHUNK_BYTES = 48 * 8 * 500

CLIENT = """
import sys
from distributed import Client
from gpcanet.distributed import GPCA, plan
plan.CHUNK_BYTES = {chunk_bytes}
with Client(sys.argv[1]) as client:
    GPCA(**{parameters}).fit_transform(
        sys.argv[2], client=client, scratch=sys.argv[3], output=sys.argv[4], resume=True
    )
"""


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch):
    monkeypatch.setattr(plan_module, "CHUNK_BYTES", CHUNK_BYTES)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    data = block_model(4_000, 40_000, n_features=48)
    data = replace(data, X=data.X.astype(np.float64))
    return write_dataset(data, tmp_path_factory.mktemp("faults") / "store", columns_per_block=4)


def fit(client, store, folder, *, resume=False):
    return GPCA(**PARAMETERS).fit_transform(
        store, client=client, scratch=folder / "scratch", output=folder / "out", resume=resume
    )


def contents(parts):
    return {path.name: path.read_bytes() for path in parts.files}


@pytest.fixture(scope="module")
def undisturbed(client, store, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan_module, "CHUNK_BYTES", CHUNK_BYTES)
        return contents(fit(client, store, tmp_path_factory.mktemp("undisturbed")))


def records(folder, pattern="*"):
    return set((folder / "scratch").glob(f"run-*/{pattern}.done.json"))


def wait_for(condition, process=None):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        if process is not None and process.poll() is not None:
            return
        time.sleep(0.001)


@pytest.mark.parametrize("stage", ["F", "M0", "Z"])
def test_a_killed_worker(client, store, undisturbed, tmp_path, stage):
    [pid, *_] = client.run(os.getpid).values()

    def kill():
        wait_for(lambda: len(records(tmp_path, f"{stage}*")) >= 2)
        os.kill(pid, signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    found = contents(fit(client, store, tmp_path))
    killer.join()
    assert found == undisturbed
    wait_for_workers(client, 2)


def killed_client(client, store, folder, n_records):
    """Start a client, and kill it when this many tasks are finished."""
    code = CLIENT.format(parameters=PARAMETERS, chunk_bytes=CHUNK_BYTES)
    arguments = [client.scheduler.address, store.folder, folder / "scratch", folder / "out"]
    process = subprocess.Popen([sys.executable, "-c", code, *map(str, arguments)])
    wait_for(lambda: len(records(folder)) >= n_records, process)
    process.send_signal(signal.SIGKILL)
    process.wait()


def check_resumed(client, store, folder, undisturbed, monkeypatch):
    if (folder / "out").exists():  # it was complete before it could be killed
        found = {path.name: path.read_bytes() for path in (folder / "out").iterdir()}
        assert found == undisturbed
        return
    time.sleep(0.3)  # tasks that run already are finished by the workers
    finished = {path: path.stat() for path in records(folder)}
    monkeypatch.setattr(run.Run, "finish", lambda self: None)
    assert contents(fit(client, store, folder, resume=True)) == undisturbed
    monkeypatch.undo()
    for path, before in finished.items():
        assert (path.stat().st_ino, path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


@pytest.mark.parametrize("n_records", [1, 17])
def test_a_killed_client_is_resumed(client, store, undisturbed, tmp_path, monkeypatch, n_records):
    killed_client(client, store, tmp_path, n_records)
    check_resumed(client, store, tmp_path, undisturbed, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("moment", range(20))
def test_a_client_killed_at_random(client, store, undisturbed, tmp_path, monkeypatch, moment):
    n_records = int(np.random.default_rng(moment).integers(0, 30))
    killed_client(client, store, tmp_path, n_records)
    check_resumed(client, store, tmp_path, undisturbed, monkeypatch)


def limit_file_size(n_bytes):
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, hard))


def test_files_that_may_not_grow(client, store, undisturbed, tmp_path):
    client.run(limit_file_size, 50_000)
    try:
        with pytest.raises(OSError, match=r"File too large: '.*scratch/run-\w+/F\d+\.npy'"):
            fit(client, store, tmp_path)
    finally:
        client.run(limit_file_size, resource.RLIM_INFINITY)
    assert not list((tmp_path / "scratch").rglob("*.npy"))
    assert contents(fit(client, store, tmp_path, resume=True)) == undisturbed


FULL_DISK = """
import os, sys
from gpcanet.distributed import GPCA, local_cluster, plan

def main():
    plan.CHUNK_BYTES = {chunk_bytes}
    store, disk, ballast = sys.argv[1], sys.argv[2], sys.argv[2] + "/ballast"
    with open(ballast, "wb") as file:
        file.write(bytes(2_500_000))
    with local_cluster(1) as client:
        while True:
            try:
                parts = GPCA(**{parameters}).fit_transform(
                    store, client=client, scratch=disk + "/scratch", output=disk + "/out",
                    resume=True,
                )
            except OSError as error:
                print(error)
                os.truncate(ballast, os.path.getsize(ballast) - 400_000)
            else:
                break
    for path in parts.files:
        print(path.name, path.read_bytes().hex())

if __name__ == "__main__":
    main()
"""


@needs_file_systems
def test_a_full_disk(store, undisturbed, tmp_path):
    """A file system of 3 MB, which is filled to 2.5 MB at first, and less after every error."""
    (tmp_path / "disk").mkdir()
    script = tmp_path / "script.py"
    script.write_text(FULL_DISK.format(parameters=PARAMETERS, chunk_bytes=CHUNK_BYTES))
    command = [sys.executable, script, store.folder, tmp_path / "disk"]
    ended = subprocess.run(
        with_file_system(tmp_path / "disk", "3000000", command), capture_output=True, text=True
    )
    assert ended.returncode == 0, ended.stderr
    lines = ended.stdout.splitlines()
    errors, files = lines[: -len(undisturbed)], lines[-len(undisturbed) :]
    full = r"\[Errno 28\] No space left on device: '.*/disk/.*(F\d+|M\d+-\d+|part-\d+)\..*'"
    assert len(errors) >= 3
    assert [line for line in errors if not re.fullmatch(full, line)] == []
    found = {name: bytes.fromhex(content) for name, content in map(str.split, files)}
    assert found == undisturbed


def flip(path, offset):
    content = bytearray(path.read_bytes())
    content[offset] ^= 16
    path.write_bytes(content)


def test_damaged_files_are_named_and_not_used(client, store, undisturbed, tmp_path, monkeypatch):
    copy = tmp_path / "copy"
    copy.mkdir()
    for path in store.folder.iterdir():
        (copy / path.name).write_bytes(path.read_bytes())
    flip(copy / "X3.npy", 5_000)
    with pytest.raises(DataError, match=r"X3\.npy is damaged in its bytes 0 to .*build the store"):
        fit(client, Store.open(copy), tmp_path)
    (tmp_path / "scratch" / "run.json").unlink()
    (tmp_path / "scratch" / "lock").unlink(missing_ok=True)
    killed_client(client, store, tmp_path, 14)
    time.sleep(0.3)
    [path] = (tmp_path / "scratch").glob("run-*/F2.npy")
    flip(path, 5_000)
    with pytest.warns(DataWarning, match=r"F2\.npy is damaged .*; it is computed again"):
        assert contents(fit(client, store, tmp_path, resume=True)) == undisturbed


def test_one_run_per_scratch_folder(client, store, tmp_path):
    (tmp_path / "scratch").mkdir()
    with FileLock(tmp_path / "scratch" / "lock"), pytest.raises(InputError, match="another run"):
        fit(client, store, tmp_path)


def test_only_the_same_run_is_resumed(client, store, tmp_path):
    killed_client(client, store, tmp_path, 2)
    with pytest.raises(InputError, match="contains an unfinished run; pass resume=True"):
        fit(client, store, tmp_path)
    other = GPCA(**PARAMETERS | {"alpha": 3.0})
    arguments = {"client": client, "scratch": tmp_path / "scratch", "output": tmp_path / "out"}
    with pytest.raises(InputError, match="differs in alpha and cannot be resumed"):
        other.fit_transform(store, **arguments, resume=True)


def test_files_of_another_run_are_not_used(client, store, undisturbed, tmp_path):
    """A client may be killed while it removes the files of a run, and a task may outlive it."""
    killed_client(client, store, tmp_path, 14)
    (tmp_path / "scratch" / "run.json").unlink()
    (tmp_path / "scratch" / "Z of the user").touch()
    time.sleep(0.3)
    other = GPCA(**PARAMETERS | {"alpha": 3.0})
    arguments = {"client": client, "scratch": tmp_path / "scratch"}
    other.fit(store, **arguments)
    expected = GPCA(**PARAMETERS | {"alpha": 3.0}).fit(
        store, client=client, scratch=tmp_path / "empty"
    )
    np.testing.assert_array_equal(other.components_, expected.components_)
    assert (tmp_path / "scratch" / "Z of the user").exists()


def test_nothing_else_is_left(client, store, undisturbed, tmp_path):
    assert contents(fit(client, store, tmp_path)) == undisturbed
    left = {str(path.relative_to(tmp_path)) for path in Path(tmp_path).rglob("*")}
    assert left - {"scratch/lock"} == {"scratch", "out", *(f"out/{name}" for name in undisturbed)}


@pytest.mark.parametrize("content", [b"", b"5", b"[]", b"{}", b'{"sha256": "0"}', None])
def test_task_with_a_damaged_record_is_not_finished(tmp_path, content):
    tasks.write_record(tmp_path, "F0", {"n_iter": 5, "residual": 1e-6})
    path = tasks.record_path(tmp_path, "F0")
    assert tasks.read_record(tmp_path, "F0") == {"n_iter": 5, "residual": 1e-6}
    path.write_bytes(path.read_bytes().replace(b"5", b"6") if content is None else content)
    assert tasks.read_record(tmp_path, "F0") is None


def test_damaged_file_of_a_run_is_another_run(client, store, tmp_path):
    (tmp_path / "scratch").mkdir()
    (tmp_path / "scratch" / run.RUN_FILE).write_bytes(b"[]")
    with pytest.raises(InputError, match="cannot be resumed"):
        fit(client, store, tmp_path, resume=True)
