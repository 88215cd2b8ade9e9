"""Commands that are killed, interrupted, or cannot write: no file may be incomplete afterwards."""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from gpcanet.datasets import block_model

from .inputs import Rng, choose

INPUTS = ["-e", "edges.csv", "-f", "features.csv"]


class Command(NamedTuple):
    """Arguments of the command, and the files that it writes."""

    arguments: list[str]
    outputs: list[str]


COMMANDS = {
    "embed": Command(
        ["embed", *INPUTS, "-k", "6", "-o", "z.parquet", "--save-model", "z.safetensors"],
        ["z.parquet", "z.safetensors"],
    ),
    "embed csv": Command(["embed", *INPUTS, "-k", "8", "-o", "z.csv"], ["z.csv"]),
    "classify": Command(
        ["classify", *INPUTS, "-l", "labels.csv", "-k", "6", "-a", "5", "-o", "classes.csv",
         "--save-model", "c.safetensors"],
        ["classes.csv", "c.safetensors"],
    ),
    "regress": Command(
        ["regress", *INPUTS, "-l", "numbers.csv", "-k", "6", "-a", "5", "-o", "numbers.npz"],
        ["numbers.npz"],
    ),
    "train": Command(
        ["train", *INPUTS, "-l", "labels.csv", "--hidden", "8", "--epochs", "20", "-o",
         "net.csv", "--save-model", "net.safetensors", "--checkpoint", "state.safetensors"],
        ["net.csv", "net.safetensors"],
    ),
}  # fmt: skip

#: Seconds after which a command counts as hanging.
TIMEOUT = 180.0


def write_inputs(folder: Path) -> None:
    """Edges, features, classes and numbers of a small generated graph."""
    data = block_model(150, 500, n_features=8, n_classes=3)
    coo = data.graph.adjacency.tocoo()
    pairs = np.stack([coo.row, coo.col])[:, coo.row < coo.col].T
    np.savetxt(
        folder / "edges.csv", pairs, "%d", delimiter=",", header="source,target", comments=""
    )
    names = ",".join(["id", *(f"x{j}" for j in range(data.X.shape[1]))])
    table = np.column_stack([np.arange(150), data.X])
    np.savetxt(folder / "features.csv", table, "%.6g", delimiter=",", header=names, comments="")
    classes = "".join(f"{i},class {y}\n" for i, y in enumerate(data.y[:90]))
    (folder / "labels.csv").write_text("id,label\n" + classes)
    numbers = "".join(f"{i},{x:.4f}\n" for i, x in enumerate(data.X[:90, 0]))
    (folder / "numbers.csv").write_text("id,label\n" + numbers)


@cache
def reference(name: str) -> tuple[float, dict[str, bytes]]:
    """Seconds and outputs of an undisturbed run."""
    with _folder() as folder:
        _run(name, folder)  # fills the caches of kernels and modules
        start = time.monotonic()
        ended = _run(name, folder)
        seconds = time.monotonic() - start
        assert ended.returncode == 0, ended.stderr
        return seconds, _outputs(name, folder)


def check_kill(rng: Rng) -> str:
    """One command with one fault."""
    name = str(choose(rng, *COMMANDS))
    seconds, expected = reference(name)
    fault = str(choose(rng, "SIGKILL", "SIGKILL", "SIGINT", "SIGTERM", "disk"))
    with _folder() as folder:
        old: dict[str, bytes] = {}
        if rng.random() < 0.5:
            old = dict.fromkeys(expected, b"an older file\n")
            for output, content in old.items():
                (folder / output).write_bytes(content)
        if fault == "disk":
            size = int(10 ** rng.uniform(1, 5))
            ended = _run(name, folder, largest_file=size)
            complaint = ended.stderr.decode(errors="replace")
            assert ended.returncode in (0, 2), f"code {ended.returncode}: {complaint}"
            assert "Traceback" not in complaint, complaint
        else:
            # Half of the faults hit the end, where files are written.
            moment = seconds * (rng.uniform(0.85, 1.1) if rng.random() < 0.5 else rng.random())
            code, complaint = _run_and_signal(name, folder, getattr(signal, fault), moment)
            # A signal before Python has installed its handlers ends the process as it is.
            # One that arrives while a library runs exec() ends it as by SIGINT, although handled.
            caught = (130, -signal.SIGINT) if fault != "SIGKILL" else ()
            allowed = (0, -getattr(signal, fault), *caught)
            assert code in allowed, f"code {code}: {complaint}"
            if code == 130:
                assert "Traceback" not in complaint, complaint
        for output in expected:
            path = folder / output
            found = path.read_bytes() if path.exists() else None
            assert found in (old.get(output), expected[output]), f"{output} is incomplete"
        if fault != "SIGKILL":
            left = [path.name for path in folder.iterdir() if path.name.endswith(".part")]
            assert not left, f"{left} left after {fault}"
        if rng.random() < 0.25:
            ended = _run(name, folder)
            assert ended.returncode == 0, ended.stderr.decode(errors="replace")
            assert _outputs(name, folder) == expected, "a second run gives other bytes"
    return f"{name}, {fault}"


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


def _start(name: str, folder: Path, largest_file: int | None) -> subprocess.Popen[bytes]:
    def limit() -> None:  # runs in the child
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if largest_file is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (largest_file, largest_file))

    environment = os.environ | {"GPCANET_OFFLINE": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.Popen(
        [sys.executable, "-m", "gpcanet", *COMMANDS[name].arguments, "--force", "-q"],
        cwd=folder, env=environment, preexec_fn=limit,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def _run(
    name: str, folder: Path, largest_file: int | None = None
) -> subprocess.CompletedProcess[bytes]:
    process = _start(name, folder, largest_file)
    out, err = process.communicate(timeout=TIMEOUT)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def _run_and_signal(name: str, folder: Path, number: int, moment: float) -> tuple[int, str]:
    process = _start(name, folder, None)
    time.sleep(moment)
    if process.poll() is None:
        process.send_signal(number)
    _, err = process.communicate(timeout=TIMEOUT)
    return process.returncode, err.decode(errors="replace")


def _outputs(name: str, folder: Path) -> dict[str, bytes]:
    return {output: (folder / output).read_bytes() for output in COMMANDS[name].outputs}
