"""Fixtures of worker processes and of the command."""

import pytest
from command import in_process, isolated
from worker_helpers import quick_workers

from reproduction.__main__ import main


@pytest.fixture(scope="module")
def without_torch(tmp_path_factory):
    """A folder that hides packages from new processes, so that these start quickly."""
    folder = tmp_path_factory.mktemp("hidden")
    for name in ("torch", "pandas"):
        text = f"raise ModuleNotFoundError('{name} is hidden', name='{name}')\n"
        (folder / f"{name}.py").write_text(text)
    return folder


@pytest.fixture
def quick(without_torch):
    with quick_workers(without_torch) as patch:
        yield patch


@pytest.fixture
def reproduction(tmp_path, capsys, monkeypatch):
    """Run the command in an empty folder without a network."""
    with isolated(tmp_path, monkeypatch):
        yield in_process(main, "reproduction", capsys, monkeypatch)
