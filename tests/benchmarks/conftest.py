"""Fixtures of the benchmarks."""

import pytest
from command import in_process, isolated

from benchmarks.__main__ import main


@pytest.fixture
def bench(tmp_path, capsys, monkeypatch):
    """Run the command in an empty folder without a network."""
    with isolated(tmp_path, monkeypatch):
        yield in_process(main, "benchmarks", capsys, monkeypatch)
