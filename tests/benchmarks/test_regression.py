"""The comparison of regressors, on small graphs."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import r2_score

from benchmarks import regression
from gpcanet import GPCARegressor
from gpcanet.datasets import block_model


@pytest.fixture
def folder(tmp_path):
    """A graph with sparse features that depend on classes, as a file."""
    data = block_model(200, 900, n_features=12, n_classes=3)
    X, A = sp.csr_array(np.maximum(data.X, 0)), data.graph.adjacency
    arrays = {"indptr": A.indptr, "indices": A.indices, "x_shape": X.shape}
    arrays |= {f"x_{name}": getattr(X, name) for name in ("data", "indices", "indptr")}
    np.savez(tmp_path / "small.npz", **arrays)
    return tmp_path


def test_table_of_a_file(folder, monkeypatch, capsys):
    arguments = ["regression", str(folder), "--graphs", "small", "--known", "60", "--splits", "1"]
    monkeypatch.setattr("sys.argv", arguments)
    monkeypatch.setattr(regression, "EPOCHS", 20)
    regression.main()
    header, _, row = capsys.readouterr().out.splitlines()
    assert header.count("|") == row.count("|")
    ours, *others = (float(cell) for cell in row.split("|")[2:-1])
    task = regression.half_of_the_words(folder / "small.npz")
    order = np.random.default_rng(0).permutation(200)
    known = np.where(np.isin(np.arange(200), order[:60]), task.y, np.nan)
    fitted = GPCARegressor().fit(task.X, known, graph=task.graph).fitted_values_
    assert ours == round(100 * r2_score(task.y[order[60:]], fitted[order[60:]]), 1)
    assert all(np.isfinite(others))


def test_target_is_not_among_the_features(folder):
    task = regression.half_of_the_words(folder / "small.npz")
    assert task.X.shape == (200, 6)
    assert task.y.std() == pytest.approx(1)


def test_label_propagation_predicts_a_smooth_target():
    task = regression.geometric(400)
    known = np.random.default_rng(0).permutation(400)[:200]
    assert r2_score(task.y, regression.label_propagation(task, known)) > 0.7
