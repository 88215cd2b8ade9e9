"""Fixtures for processes that run cells."""

import pytest
from processes import quick_processes


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
