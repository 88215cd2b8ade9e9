"""Running the whole command line without a new process, away from network and cache."""

import pytest
from command import in_process, isolated

from gpcanet.cli import main


@pytest.fixture(autouse=True)
def _alone(tmp_path, monkeypatch):
    """Every test in an empty folder, with an empty cache and without a network."""
    with isolated(tmp_path, monkeypatch):
        yield


@pytest.fixture
def gpcanet(capsys, monkeypatch):
    """Run the whole command, its ending included, without a new process."""
    return in_process(main, "gpcanet", capsys, monkeypatch)


@pytest.fixture
def small_search(monkeypatch):
    """Let a classifier try few settings: what is tested here is the command."""
    monkeypatch.setattr("gpcanet.estimators._model_selection.FEATURE_SCALINGS", ("l2",))
    monkeypatch.setattr("gpcanet.estimators._model_selection.EMBEDDING_NORMS", (False,))
    monkeypatch.setattr("gpcanet.estimators._model_selection.INVERSE_PENALTIES", (0.3,))
