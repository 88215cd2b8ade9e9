"""Starts commands in milliseconds: a process that has imported everything forks one for each.

Requests and answers are lines of JSON on standard input and output. The forked process is killed
or interrupted like any other and writes real files.
"""

from __future__ import annotations

import atexit
import importlib
import json
import os
import resource
import signal
import subprocess
import sys
import time
import traceback
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from gpcanet.cli.signals import INTERRUPTED, catch_signals, ignore_signals
from gpcanet.errors import UserError

from .killed import ARCHIVE, TASKS, URL_VARIABLE, Task
from .web_server import Page, WebServer

#: Seconds after which a command counts as hanging.
TIMEOUT = 180.0

#: Modules that the commands import.
MODULES = (
    "gpcanet.cli.app", "gpcanet.cli.embed", "gpcanet.cli.classify", "gpcanet.cli.regress",
    "gpcanet.cli.train", "gpcanet.files", "gpcanet.estimators", "gpcanet.nn",
    "gpcanet.nn.trained_network", "gpcanet.distributed", "gpcanet.datasets.download", "truststore",
    "numba", "pyarrow.csv", "pyarrow.parquet", "sklearn.linear_model", "scipy.optimize",
)  # fmt: skip


class Ended(NamedTuple):
    """How a command has ended: exit code, or minus the signal, and its messages."""

    code: int
    complaint: str
    seconds: float


class ForkServer:
    """A client of the server process."""

    def __init__(self) -> None:
        environment = os.environ | {"GPCANET_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "campaign.fork_server"],
            cwd=Path(__file__).parents[1], env=environment, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        atexit.register(self.close)

    def close(self) -> None:
        """End the server process, which notices the end of its input."""
        self._process.communicate()

    def run(
        self, name: str, folder: Path, *, number: int = 0, moment: float = TIMEOUT,
        largest_file: int | None = None,
    ) -> Ended:  # fmt: skip
        """Run a task; send it a signal after ``moment`` seconds, or limit the size of its files."""
        request = [name, str(folder), number, moment, largest_file]
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return Ended(*json.loads(self._process.stdout.readline()))


def serve() -> None:
    """Answer requests until standard input ends."""
    os.environ[URL_VARIABLE] = _start_web_server()
    for module in MODULES:
        importlib.import_module(module)
    for line in sys.stdin:
        with suppress(BrokenPipeError):  # the campaign has ended
            print(json.dumps(_run(*json.loads(line))), flush=True)


def _start_web_server() -> str:
    """The address of an archive, served by a process that ends with this one."""
    answer, question = os.pipe(), os.pipe()
    if os.fork() == 0:
        os.close(question[1])
        pages = {"/archive.zip": Page(ARCHIVE, etag='"1"')}
        with WebServer(pages) as server:
            os.write(answer[1], server.url("/archive.zip").encode())
            os.read(question[0], 1)
        os._exit(0)
    os.set_inheritable(question[1], False)
    return os.read(answer[0], 1000).decode()


def _run(name: str, folder: str, number: int, moment: float, largest_file: int | None) -> Ended:
    (log, stderr), (ready, is_ready) = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            _be_command(TASKS[name], folder, largest_file, stderr, is_ready)
        finally:
            os._exit(INTERRUPTED)
    os.close(stderr)
    os.close(is_ready)
    os.read(ready, 1)
    os.close(ready)
    os.set_blocking(log, False)
    start, messages = time.monotonic(), bytearray()
    code = _wait(pid, moment, log, messages)
    if code is None:
        os.kill(pid, number or signal.SIGKILL)
        code = _wait(pid, TIMEOUT, log, messages)
    if code is None:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        messages += f"\nhangs after signal {number}".encode()
        code = -signal.SIGALRM
    os.close(log)
    complaint = messages[-4000:].decode(errors="replace")
    return Ended(code, complaint, time.monotonic() - start)


def _wait(pid: int, seconds: float, log: int, messages: bytearray) -> int | None:
    """The exit code of a process that ends within some seconds; its messages are collected."""
    deadline = time.monotonic() + seconds
    while True:
        ended, status = os.waitpid(pid, os.WNOHANG)
        with suppress(BlockingIOError):
            while part := os.read(log, 1 << 16):
                messages += part
        if ended:
            return os.waitstatus_to_exitcode(status)
        left = deadline - time.monotonic()
        if left <= 0:
            return None
        time.sleep(min(left, 0.002))


def _be_command(
    task: Task, folder: str, largest_file: int | None, stderr: int, is_ready: int
) -> None:
    code = 1
    try:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(stderr, 1)
        os.dup2(stderr, 2)
        sys.stdout, sys.stderr = open(1, "w"), open(2, "w", buffering=1)  # noqa: SIM115
        os.chdir(folder)
        catch_signals()
        if largest_file is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (largest_file, largest_file))
        os.write(is_ready, b"1")
        os.close(is_ready)
        task.run()
        code = 0
    except SystemExit as ending:
        code = int(ending.code or 0)
    except KeyboardInterrupt:
        code = INTERRUPTED
    except (UserError, OSError) as error:
        print(error, file=sys.stderr)
        code = 2
    except Exception:
        traceback.print_exc()
    finally:
        ignore_signals()
        with suppress(OSError):
            sys.stdout.flush()
        os._exit(code)


if __name__ == "__main__":
    serve()
