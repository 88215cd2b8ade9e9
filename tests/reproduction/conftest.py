"""Fixtures for processes that run cells."""

import pytest
from command import in_process, isolated
from processes import quick_processes

from reproduction.__main__ import main


@pytest.fixture(scope="module")
def without_torch(tmp_path_factory):
    """A folder that hides from new processes what takes long to import and is not needed here."""
    folder = tmp_path_factory.mktemp("hidden")
    for name in ("torch", "pandas"):
        text = f"raise ModuleNotFoundError('{name} is hidden', name='{name}')\n"
        (folder / f"{name}.py").write_text(text)
    return folder


@pytest.fixture
def quick(without_torch):
    with quick_processes(without_torch) as patch:
        yield patch


@pytest.fixture
def reproduction(tmp_path, capsys, monkeypatch):
    """Run the whole command in an empty folder, without a network."""
    with isolated(tmp_path, monkeypatch):
        yield in_process(main, "reproduction", capsys, monkeypatch)
