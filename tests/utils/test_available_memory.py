"""The memory limit of a real control group, in which this test runs a command."""

import os
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

MIB = 2**20
MOUNT = Path("/sys/fs/cgroup")

#: For each version: folder of the groups, file of the limit.
VERSIONS = {
    "version 1": (MOUNT / "memory", "memory.limit_in_bytes"),
    "version 2": (MOUNT, "memory.max"),
}


@contextmanager
def control_group(version, limit):
    """A new group with a memory limit, removed at the end; skips the test if there can be none."""
    parent, name = VERSIONS[version]
    if not (parent / "cgroup.procs").exists():
        pytest.skip(f"no control groups of {version} with memory limits in {parent}")
    group = parent / f"gpcanet-test-{os.getpid()}"
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"{group} cannot be created: {error.strerror}")
    try:
        try:
            (group / name).write_text(str(limit))
        except OSError as error:
            pytest.skip(f"the limit {group / name} cannot be set: {error.strerror}")
        yield group
    finally:
        for _ in range(50):  # the kernel may take a moment to release processes that have ended
            try:
                group.rmdir()
                break
            except OSError:
                time.sleep(0.1)


def run_in(group, *arguments):
    """A Python process that joins the group before it starts."""

    def join():
        (group / "cgroup.procs").write_text(str(os.getpid()))

    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(command, preexec_fn=join, capture_output=True, text=True, timeout=300)


@pytest.mark.parametrize("version", VERSIONS)
def test_free_memory_is_that_of_the_control_group(version):
    program = (
        "from gpcanet.utils.available_memory import available_bytes; before = available_bytes();"
        "block = bytearray(b'x' * 2**25); print(before, available_bytes())"
    )
    with control_group(version, 200 * MIB) as group:
        done = run_in(group, "-c", program)
    assert done.returncode == 0, done.stderr
    before, after = map(int, done.stdout.split())
    assert 100 * MIB < before < 200 * MIB
    assert 25 * MIB < before - after < 60 * MIB


@pytest.mark.parametrize("version", VERSIONS)
def test_a_fit_larger_than_the_control_group_is_limited_and_finishes(version, tmp_path):
    """Without the limit of the command, the kernel would kill it."""
    n_nodes, n_features = 100_000, 128
    rng = np.random.default_rng(0)
    np.save(tmp_path / "x.npy", rng.standard_normal((n_nodes, n_features), dtype=np.float32))
    ring = np.arange(n_nodes)
    np.save(tmp_path / "e.npy", np.stack([ring, np.roll(ring, 1)], axis=1))
    options = ("embed", "-e", tmp_path / "e.npy", "-f", tmp_path / "x.npy", "-k", 16, "-a", 1)
    with control_group(version, 400 * MIB) as group:
        done = run_in(group, "-m", "gpcanet", *options, "-o", tmp_path / "z.npz")
    assert done.returncode == 0, done.stderr
    assert "memory is limited to" in done.stderr
    assert (tmp_path / "z.npz").exists()
