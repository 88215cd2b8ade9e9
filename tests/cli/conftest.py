"""Running the whole command line without a new process, away from network and cache."""

import signal
import sys

import pytest
from command import Ended

from gpcanet.cli import main

#: What the tests say about the environment; nothing here may reach the network.
SETTINGS = {"GPCANET_OFFLINE": "1", "TERM": "dumb", "COLUMNS": "80"}
UNSET = ("GPCANET_DATA_DIR", "GPCANET_DEBUG", "NO_COLOR", "FORCE_COLOR", "PYTHONUNBUFFERED")


@pytest.fixture(autouse=True)
def _alone(tmp_path, monkeypatch):
    """Every test in an empty folder, with an empty cache and without a network."""
    for name in UNSET:
        monkeypatch.delenv(name, raising=False)
    for name, value in SETTINGS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("GPCANET_CACHE_DIR", str(tmp_path / "cache"))
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.fixture
def gpcanet(capsys, monkeypatch):
    """Run the whole command, its ending included, without a new process."""

    def run(*args):
        monkeypatch.setattr(sys, "argv", ["gpcanet", *map(str, args)])
        capsys.readouterr()
        code = 0
        try:
            main()
        except SystemExit as ending:
            code = ending.code or 0
        out, err = capsys.readouterr()
        return Ended(code, out, err)

    return run


@pytest.fixture
def small_search(monkeypatch):
    """Let a classifier try one setting instead of ninety: what is tested here is the command."""
    monkeypatch.setattr("gpcanet.classifier.FEATURE_SCALINGS", ("l2",))
    monkeypatch.setattr("gpcanet.classifier.EMBEDDING_NORMS", (False,))
    monkeypatch.setattr("gpcanet.classifier.INVERSE_PENALTIES", (0.3,))
