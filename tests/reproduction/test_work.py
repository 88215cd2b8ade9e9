"""What raises belongs to its cell, and what cells share fails once for all of them."""

import numpy as np
import pytest
from tiny_cells import linear, logistic

import reproduction.embeddings
from reproduction.data import Source
from reproduction.journal import to_line
from reproduction.work import group_key, outcomes


def test_a_head_that_diverges_has_failed():
    cell = linear(lr=1e38).cell("public", 0)
    with np.errstate(all="ignore"):
        ((_, outcome),) = outcomes([cell], Source())
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
def test_an_embedding_that_cannot_be_made_fails_once_for_all_its_cells(monkeypatch, setups):
    tries = []

    def fail(*given):
        tries.append(given)
        raise MemoryError("no room for\n the embedding")

    monkeypatch.setattr(reproduction.embeddings, "Embeddings", fail)
    cells = [setup.cell("public", 0) for setup in setups]
    assert len({group_key(cell) for cell in cells}) == 1
    found = list(outcomes(cells, Source()))
    assert [cell for cell, _ in found] == cells
    assert {(outcome["status"], outcome["reason"]) for _, outcome in found} == {
        ("failed", "MemoryError: no room for the embedding")
    }
    assert len(tries) == 1


def test_a_cell_that_raises_leaves_the_others_their_embedding():
    cells = [linear(lr=lr).cell("public", 0) for lr in (0.1, 1e38, 0.1)]
    with np.errstate(all="ignore"):
        found = [outcome for _, outcome in outcomes(cells, Source())]
    assert [outcome["status"] for outcome in found] == ["done", "failed", "done"]
    assert found[0]["accuracy"] == found[2]["accuracy"]
