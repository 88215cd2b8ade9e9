"""The command line as a process of its own, and small graphs to run it on."""

import json
import os
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import pyarrow.csv
import pyarrow.parquet
from own_files import write

from gpcanet.cli.console import escaped


@dataclass(frozen=True)
class Ended:
    """Exit code and output of a command."""

    code: int
    out: str
    err: str
    program: str = "gpcanet"

    @property
    def complaint(self):
        """The error message, which must be the only output."""
        assert len(self.err.splitlines()) == 1, self.err
        return self.complaint_after_notes

    @property
    def complaint_after_notes(self):
        """The error message after notes about the data."""
        assert self.code == 2, self
        *notes, last = self.err.splitlines()
        if self.out:  # with --json
            error = json.loads(self.out)["error"]
            assert last == f"{self.program}: {escaped(error['message'])}"
            assert error["exit_code"] == 2
        assert last.startswith(f"{self.program}: ")
        assert not [line for line in notes if line.startswith((f"{self.program}: ", "Traceback"))]
        return last.removeprefix(f"{self.program}: ")


#: Environment of the tests, without a network.
SETTINGS = {"GPCANET_OFFLINE": "1", "TERM": "dumb", "COLUMNS": "80"}
UNSET = ("GPCANET_DATA_DIR", "GPCANET_DEBUG", "NO_COLOR", "FORCE_COLOR", "PYTHONUNBUFFERED")


@contextmanager
def isolated(tmp_path, monkeypatch):
    """An empty folder, an empty cache and no network."""
    for name in UNSET:
        monkeypatch.delenv(name, raising=False)
    for name, value in SETTINGS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("GPCANET_CACHE_DIR", str(tmp_path / "cache"))
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    yield


def in_process(main, program, capsys, monkeypatch):
    """A function that runs a whole command, its ending included, without a new process."""

    def run(*args):
        monkeypatch.setattr(sys, "argv", [program, *map(str, args)])
        capsys.readouterr()
        code = 0
        try:
            main()
        except SystemExit as ending:
            code = ending.code or 0
        out, err = capsys.readouterr()
        return Ended(code, out, err, program)

    return run


def process(*args, code=None, folder=None, **settings):
    """Run ``python -m gpcanet``, or this code with these arguments, as a process of its own."""
    start = ["-m", "gpcanet"] if code is None else ["-c", code]
    done = subprocess.run(
        [sys.executable, *start, *map(str, args)],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        env=os.environ | settings,
        timeout=120,
    )
    return Ended(done.returncode, done.stdout, done.stderr)


def read_table(path):
    """CSV or Parquet as it was written."""
    read = pyarrow.csv.read_csv if path.suffix == ".csv" else pyarrow.parquet.read_table
    return read(path)


CLASSES = np.array(["alpha", "beta", "gamma"])
PER_CLASS = 12


def write_blocks(folder, *, names=CLASSES, seed=0, name="blocks", signal=2.0):
    """Features and labels in one file, edges in another: a ring of nodes for every class."""
    n = len(names) * PER_CLASS
    codes = np.repeat(np.arange(len(names)), PER_CLASS)
    rng = np.random.default_rng(seed)
    X = np.eye(len(names))[codes] * signal + rng.normal(size=(n, len(names)))
    ids = np.array([f"{name}-{i}" for i in range(n)])
    table = {"id": ids, "label": names[codes]} | {f"x{i}": x for i, x in enumerate(X.T)}
    features = write(table, folder / f"{name}.csv")
    # A ring with a chord here and there, so that degrees differ.
    ring, place = np.divmod(np.arange(n), PER_CLASS)
    following, across = (ring * PER_CLASS + (place + step) % PER_CLASS for step in (1, 5))
    chords = np.flatnonzero(place % 4 == 0)
    ends = {
        "source": ids[np.append(np.arange(n), chords)],
        "target": ids[np.append(following, across[chords])],
    }
    edges = write(ends, folder / f"{name}-edges.parquet")
    return ["--features", features, "--edges", edges]
