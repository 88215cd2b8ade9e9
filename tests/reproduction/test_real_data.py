"""Published numbers, from the real data with the settings of the authors' code."""

import os
from dataclasses import replace

import numpy as np
import pytest

from gpcanet import GPCA
from gpcanet.datasets.environment import DATA_DIR_VARIABLE
from reproduction.cells import PUBLIC
from reproduction.embeddings import Embeddings
from reproduction.experiments import Row, row_specs
from reproduction.journal import Journal
from reproduction.loading import DatasetLoader
from reproduction.runner import reproduce
from reproduction.selection import completed
from reproduction.verdicts import published
from reproduction.work import outcomes

pytestmark = [
    pytest.mark.real_data,
    pytest.mark.skipif(
        DATA_DIR_VARIABLE not in os.environ, reason=f"{DATA_DIR_VARIABLE} names no folder"
    ),
]


TABLE1 = Row("table1", "authors-code", "cora", "gpca")
TABLE2 = Row("table2", "authors-code", "cora", "gpca", supervised=True)


def spec_of(row):
    specs = row_specs(row.experiment, row.protocol, "full", row.dataset)
    return next(spec for spec in specs if spec.row == row)


@pytest.mark.parametrize(
    ("row", "alpha", "hidden", "accuracy"),
    [(TABLE1, 50, 256, 0.811), (replace(TABLE2, beta=0.2), 20, 128, 0.819)],
    ids=["table1", "table2"],
)
def test_one_setting_of_the_pool_gives_the_published_number(row, alpha, hidden, accuracy):
    """81.10 (0.00) and 81.90 (0.00): without dropout all seeds give the same accuracy.

    Neither the other triangle nor the other normalisation gives these numbers.
    """
    spec = spec_of(row)
    wanted = {"alpha": alpha, "hidden": hidden, "dropout": 0, "weight_decay": 0.0005}
    (setup,) = (setup for setup in spec.candidates if setup.subset(*wanted) == wanted)
    cells = [setup.cell(*run) for run in dict.fromkeys(spec.runs)]
    test = [outcome["accuracy"]["test"] for _, outcome in outcomes(cells, DatasetLoader())]
    assert test == [accuracy] * 4
    assert published(row)[:2] == (pytest.approx(100 * accuracy), 0)


@pytest.mark.parametrize("dataset", ["cora", pytest.param("pubmed", marks=pytest.mark.slow)])
def test_embeddings_of_a_path_equal_separate_fits(dataset):
    specs = row_specs("table1", "ours", "full", dataset)
    cells = [spec.candidates[0].cell(PUBLIC, 0) for spec in specs if spec.row.alpha is not None]
    embeddings, data = Embeddings(cells, DatasetLoader()), DatasetLoader().dataset(dataset)
    for cell in cells[::2]:
        gpca = GPCA(cell.setup["hidden"], alpha=cell.setup["alpha"])
        expected = gpca.fit_transform(data.X, graph=data.graph)
        # The eigenvalues of the last components nearly coincide, so these may mix.
        difference = np.abs(embeddings.embedding(cell) - expected)[:, :32]
        assert difference.max() <= 1e-3 * np.abs(expected).max()


@pytest.mark.slow
@pytest.mark.parametrize(
    "row",
    [TABLE1, replace(TABLE2, beta=0.1), replace(TABLE2, beta=0.2)],
    ids=["table1", "table2, beta=0.1", "table2, beta=0.2"],
)
def test_settings_and_seeds_of_the_authors_give_the_published_numbers(tmp_path, row):
    """81.10, 81.17 and 81.90, within the 0.5 points of the verdicts.

    Two settings have almost the same validation accuracy with beta = 0.2 (3.216 and 3.220 summed
    over four seeds). Which one is selected depends on the signs of the eigenvectors, and those of
    the authors are not known.
    """
    spec = spec_of(row)
    with Journal(tmp_path / "runs.jsonl") as journal:
        reproduce([spec], journal, DatasetLoader())
        found = completed(spec, journal.contents.records)
    assert found.test.mean == pytest.approx(published(row).mean, abs=0.5)
