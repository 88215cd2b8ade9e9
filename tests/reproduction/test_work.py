"""Failures of cells and of their shared embedding."""

import numpy as np
import pytest
from tiny_cells import linear, logistic

import reproduction.embeddings
from reproduction.cells import PUBLIC
from reproduction.journal import to_line
from reproduction.loading import DatasetLoader
from reproduction.work import group_key, outcomes


def test_diverging_head_is_recorded_as_failed():
    cell = linear(lr=1e38).cell(PUBLIC, 0)
    with np.errstate(all="ignore"):
        ((_, outcome),) = outcomes([cell], DatasetLoader())
    assert outcome["status"] == "failed"
    assert outcome["reason"].startswith("TrainingDivergedError: the loss is ")
    assert to_line(cell, outcome)


@pytest.mark.parametrize(
    "setups",
    [
        [linear(weight_decay=decay) for decay in (0, 0.01, 0.1)],
        [logistic(alpha=alpha) for alpha in (1, 5, 10)],
    ],
    ids=["linear", "logistic"],
)
def test_failed_embedding_is_tried_once_for_all_its_cells(monkeypatch, setups):
    attempts = []

    def fail(*given):
        attempts.append(given)
        raise MemoryError("no room for\n the embedding")

    monkeypatch.setattr(reproduction.embeddings, "Embeddings", fail)
    cells = [setup.cell(PUBLIC, 0) for setup in setups]
    assert len({group_key(cell) for cell in cells}) == 1
    found = list(outcomes(cells, DatasetLoader()))
    assert [cell for cell, _ in found] == cells
    assert {(outcome["status"], outcome["reason"]) for _, outcome in found} == {
        ("failed", "MemoryError: no room for the embedding")
    }
    assert len(attempts) == 1


def test_failing_cell_does_not_affect_the_shared_embedding():
    cells = [linear(lr=lr).cell(PUBLIC, 0) for lr in (0.1, 1e38, 0.1)]
    with np.errstate(all="ignore"):
        found = [outcome for _, outcome in outcomes(cells, DatasetLoader())]
    assert [outcome["status"] for outcome in found] == ["done", "failed", "done"]
    assert found[0]["accuracy"] == found[2]["accuracy"]
