"""Commands that are killed, interrupted, or cannot write: no file may be incomplete afterwards."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from .fork_server import TIMEOUT, Ended, ForkServer
from .inputs import Rng, choose
from .killed import TASKS, contents, write_inputs

#: Share of the commands that start as a new process, so that signals also hit their imports.
NEW_PROCESSES = 0.02

server = cache(ForkServer)


@cache
def reference(name: str) -> tuple[float, dict[str, Any]]:
    """Seconds and outputs of an undisturbed run."""
    with _folder() as folder:
        run(name, folder)  # fills the caches of kernels and modules
    with _folder() as folder:
        ended = run(name, folder)
        assert ended.code == 0, ended.complaint
        return ended.seconds, outputs(name, folder)


def check_kill(rng: Rng) -> str:
    """One command with one fault."""
    name = str(choose(rng, *TASKS))
    task, (seconds, expected) = TASKS[name], reference(name)
    fault = str(choose(rng, *task.faults))
    is_new = task.arguments is not None and fault != "disk" and rng.random() < NEW_PROCESSES
    with _folder() as folder:
        old: dict[str, bytes] = {}
        if rng.random() < 0.5 and not task.makes_folder:
            old = dict.fromkeys(expected, b"an older file\n")
            for output, content in old.items():
                (folder / output).write_bytes(content)
        if fault == "disk":
            ended = run(name, folder, largest_file=int(10 ** rng.uniform(1, 5)))
            assert ended.code in (0, 2), f"code {ended.code}: {ended.complaint}"
        else:
            number = int(getattr(signal, fault))
            # Half of the signals hit the end, where files are written.
            part = rng.uniform(0.7, 1.1) if rng.random() < 0.5 else rng.random()
            if is_new:
                assert task.arguments is not None
                ended = run_new_process(task.arguments, folder, number, part * (seconds + 2))
            else:
                ended = run(name, folder, number=number, moment=part * seconds)
            _check_code(ended, number, is_new)
        if task.arguments is not None and ended.code != 0:
            assert "Traceback" not in ended.complaint, ended.complaint
        for output, found in outputs(name, folder).items():
            assert found in (old.get(output), expected[output]), f"{output} is incomplete"
        if fault != "SIGKILL" and not task.resumes:
            left = [path.name for path in folder.iterdir() if path.name.endswith(".part")]
            assert not left, f"{left} left after {fault}"
        if task.resumes or rng.random() < 0.25:
            _check_rerun(name, folder, expected)
    finished = ", finished before" if fault != "disk" and ended.code == 0 else ""
    return f"{name}, {fault}{', new process' if is_new else ''}{finished}"


def _check_code(ended: Ended, number: int, is_new: bool) -> None:
    allowed = {0, -number if number == signal.SIGKILL else 130}
    if is_new:  # before the command's own code runs, Python ends by the signal
        allowed.add(-number)
    assert ended.code in allowed, f"code {ended.code}: {ended.complaint}"


def _check_rerun(name: str, folder: Path, expected: dict[str, Any]) -> None:
    """A second run writes the same bytes; it is not needed if a folder is complete."""
    if TASKS[name].makes_folder and outputs(name, folder) == expected:
        return
    ended = run(name, folder)
    assert ended.code == 0, ended.complaint
    assert outputs(name, folder) == expected, "a second run gives other bytes"


def run(name: str, folder: Path, **fault: Any) -> Ended:
    """Run a task in a process that is forked for it."""
    return server().run(name, folder, **fault)


def run_new_process(arguments: list[str], folder: Path, number: int, moment: float) -> Ended:
    """Run a command as the shell does, and send it a signal."""
    process = subprocess.Popen(
        [sys.executable, "-m", "gpcanet", *arguments],
        cwd=folder, env=os.environ | {"GPCANET_OFFLINE": "1", "OMP_NUM_THREADS": "1"},
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )  # fmt: skip
    start = time.monotonic()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(moment)
    if process.poll() is None:
        process.send_signal(number)
    _, err = process.communicate(timeout=TIMEOUT)
    return Ended(process.returncode, err.decode(errors="replace"), time.monotonic() - start)


def outputs(name: str, folder: Path) -> dict[str, Any]:
    """The outputs of a task that exist and those that do not, by name."""
    return {output: contents(folder / output) for output in TASKS[name].outputs}


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="campaign-") as name:
        shutil.copytree(_inputs(), name, dirs_exist_ok=True)
        yield Path(name)


@cache
def _inputs() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="campaign-inputs-"))
    write_inputs(folder)
    return folder
