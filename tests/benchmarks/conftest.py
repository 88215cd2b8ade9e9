"""Fixtures of the benchmarks."""

import pytest
from command import in_process, isolated

from benchmarks.__main__ import main
from benchmarks.prediction import FOLDER_VARIABLE


@pytest.fixture
def bench(tmp_path, capsys, monkeypatch):
    """Run the command in an empty folder without a network, and without graphs of the user."""
    monkeypatch.delenv(FOLDER_VARIABLE, raising=False)
    with isolated(tmp_path, monkeypatch):
        yield in_process(main, "benchmarks", capsys, monkeypatch)
