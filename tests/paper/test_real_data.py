"""Published numbers, from the real files by the settings of the authors' code."""

import os

import numpy as np
import pytest

from gpcanet.datasets.places import DATA_DIR_VARIABLE
from gpcanet.paper.data import Source
from gpcanet.paper.embeddings import Embeddings
from gpcanet.paper.entries import entries_of, read_toml
from gpcanet.paper.journal import Journal
from gpcanet.paper.runner import reproduce
from gpcanet.paper.selection import choose
from gpcanet.paper.work import outcomes

pytestmark = [
    pytest.mark.real_data,
    pytest.mark.skipif(
        DATA_DIR_VARIABLE not in os.environ, reason=f"{DATA_DIR_VARIABLE} names no folder"
    ),
]


def entry_of(experiment, row):
    entries = entries_of(experiment, "authors-code", "full", "cora")
    return next(entry for entry in entries if entry.row == row)


@pytest.mark.parametrize(
    ("experiment", "row", "alpha", "hidden", "accuracy"),
    [
        ("table1", "GPCA, all alpha", 50, 256, 0.811),
        ("table2", "Supervised GPCA, beta = 0.2", 20, 128, 0.819),
    ],
)
def test_a_setting_of_the_pool_gives_the_published_number(experiment, row, alpha, hidden, accuracy):
    """81.10 (0.00) and 81.90 (0.00): without dropout all seeds end in the same place.

    Neither the other triangle nor the other normalisation comes there.
    """
    entry = entry_of(experiment, row)
    wanted = {"alpha": alpha, "hidden": hidden, "dropout": 0, "weight_decay": 0.0005}
    (setup,) = (setup for setup in entry.candidates if setup.some(*wanted) == wanted)
    cells = [setup.cell(*run) for run in dict.fromkeys(entry.runs)]
    test = [outcome["accuracy"]["test"] for _, outcome in outcomes(cells, Source())]
    assert test == [accuracy] * 4
    published = read_toml("published")[experiment]["cora"][row]
    assert published == [pytest.approx(100 * accuracy), 0]


def test_a_path_gives_the_embeddings_of_separate_fits():
    entries = entries_of("table1", "ours", "full", "cora")
    cells = [entry.candidates[0].cell("public", 0) for entry in entries if "= " in entry.row]
    together = Embeddings(cells, Source())
    for cell in cells[::2]:
        alone = Embeddings([cell], Source())
        np.testing.assert_allclose(together.of(cell), alone.of(cell), atol=1e-5)


#: Points of validation accuracy, three of 500 nodes, that runs of other seeds differ by.
NEARLY_TIED = 0.6


def chosen_and_nearly_tied(entry, records):
    """Test accuracy of the setting that validation chooses, and of all nearly as good ones."""
    means = {
        setup: [
            100 * np.mean([records[setup.cell(*run)]["accuracy"][part] for run in entry.select])
            for part in ("validation", "test")
        ]
        for setup in entry.candidates
    }
    chosen = choose(entry, records)
    best = means[chosen][0]
    near = [test for validation, test in means.values() if validation >= best - NEARLY_TIED]
    return means[chosen][1], np.array(near)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("experiment", "row", "is_chosen"),
    [
        ("table1", "GPCA, all alpha", True),
        # Here settings with dropout are ahead, and which of them depends on random numbers.
        ("table2", "Supervised GPCA, beta = 0.1", False),
        ("table2", "Supervised GPCA, beta = 0.2", False),
    ],
)
def test_the_authors_settings_give_the_published_numbers(tmp_path, experiment, row, is_chosen):
    """Within 0.3 points: by the setting chosen, or by one that could as well have been."""
    entry = entry_of(experiment, row)
    with Journal(tmp_path / "runs.jsonl") as journal:
        reproduce([entry], journal, Source())
        chosen, near = chosen_and_nearly_tied(entry, journal.contents.records)
    published = read_toml("published")[experiment]["cora"][row][0]
    assert np.min(np.abs(near - published)) <= 0.3
    if is_chosen:
        assert chosen == pytest.approx(published, abs=0.3)
