"""The user guide and the recipes run as they are written."""

from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import sklearn
from guide_blocks import ROOT, check_outputs, code_blocks, commands, run_commands, run_page
from own_files import make_source, write_edges, write_features, write_labels
from sklearn.calibration import CalibratedClassifierCV
from sklearn.metrics import adjusted_rand_score
from sklearn.model_selection import GridSearchCV, cross_val_predict
from typer.testing import CliRunner

from gpcanet import GPCAClassifier, Graph
from gpcanet.datasets import block_model
from reproduction.__main__ import app as reproduction_app

WITH_OUTPUTS = [
    path.name for path in sorted((ROOT / "docs").glob("*.md")) if "```pycon" in path.read_text()
]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working directory without network."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GPCANET_OFFLINE", "1")
    monkeypatch.setitem(mpl.rcParams, "backend", "Agg")
    return tmp_path


@pytest.mark.parametrize("page", WITH_OUTPUTS)
def test_examples_have_the_outputs_shown(page, folder):
    check_outputs(f"docs/{page}")


def test_the_four_pages_with_formulae_have_examples():
    pages = {"guide-gpca.md", "guide-large.md", "guide-classify.md", "guide-gpcanet.md"}
    assert pages <= set(WITH_OUTPUTS)


def test_recipes_run_in_order(folder):
    names = run_page("docs/recipes.md")
    assert Path("new.csv").read_text().count("\n") == 3
    assert not np.isnan(names["filled"]).any()
    assert adjusted_rand_score(names["data"].y, names["clusters"]) > 0.5
    assert names["with_graph"] > names["without_graph"] + 0.1
    assert names["both"].weights.max() <= 2
    assert names["network"].predict(names["other"]).shape == (100,)
    assert Path("map.png").stat().st_size > 0
    assert Path("classes.csv").read_text().count("\n") == 1798


def test_command_of_the_installation_page_runs(folder):
    [(_, block)] = code_blocks("docs/install.md", "sh")
    run_commands(block)
    assert Path("digits.parquet").stat().st_size > 0


def test_commands_run_in_order_and_write_their_files(folder):
    """Files of 30 papers; digits replace Cora."""
    source = make_source(np.array([f"paper {i}" for i in range(30)], object))
    for prefix in ("", "new-"):
        write_edges(source, folder / f"{prefix}edges.csv")
        write_features(source, folder / f"{prefix}papers.parquet")
    write_features(source, folder / "table.csv")
    write_labels(source, folder / "topics.csv")
    (folder / "citations.csv").write_text(
        "id,label\n" + "".join(f"paper {i},{i % 7 + 0.5}\n" for i in range(30))
    )
    [(_, block)] = code_blocks("docs/guide-files.md", "sh")
    ran = run_commands(block, {"cora": "digits", "50": "2"})
    written = ["topics.safetensors", "deep.safetensors"]
    written += [words[words.index("-o") + 1] for words in ran if "-o" in words]
    assert len(written) == 8
    assert all((folder / name).stat().st_size > 0 for name in written)


def test_commands_of_the_experiments_are_understood(folder):
    """Runs are only planned, and the report is made from the results of this repository."""
    n_runs = []
    [(_, block)] = code_blocks("docs/experiments.md", "sh")
    for python, m, program, *words in commands(block):
        assert [python, m, program] == ["python", "-m", "reproduction"]
        words = [str(ROOT / "docs/evidence.json") if ".jsonl" in word else word for word in words]
        words += ["--dry-run"] if words[0] == "run" else []
        result = CliRunner().invoke(reproduction_app, words, catch_exceptions=False)
        assert result.exit_code == 0, (words, result.output)
        n_runs += [
            int(line.split()[0].replace(",", ""))
            for line in result.output.splitlines()
            if " runs" in line and line[0].isdigit()
        ][:1]
    assert len(n_runs) == 2
    assert 0 < n_runs[0] < n_runs[1]
    assert (folder / "report" / "report.html").stat().st_size > 0


@pytest.fixture
def tables():
    """Tables of edges, features and a few labels of three groups of nodes, in random order."""
    rng = np.random.default_rng(0)
    data = block_model(240, 1500, n_features=8, n_classes=3, seed=1)
    ids = rng.permutation([f"node {i}" for i in range(240)])
    pairs = sp.triu(data.graph.adjacency).tocoo()
    edges = pd.DataFrame({"source": ids[pairs.row], "target": ids[pairs.col]}).sample(frac=1)
    features = pd.DataFrame(data.X, ids).sample(frac=1, random_state=1)
    truth = pd.Series(data.y, ids)
    labels = truth.groupby(truth).head(12).sample(frac=1, random_state=2)
    return {"edges_df": edges, "features_df": features, "labels": labels}, truth


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


def accuracy(predicted, names, truth):
    """Accuracy on the nodes whose labels the example does not use."""
    unlabeled = (names["y"] == -1).to_numpy()
    return np.mean(predicted[unlabeled] == truth[names["X"].index].to_numpy()[unlabeled])


def test_examples_with_tables_classify_the_unlabelled_nodes(tables, routing):
    names, truth = tables
    (_, first), (_, second), (_, third) = code_blocks("docs/guide-tables.md", "python")
    exec(first, names)
    assert accuracy(names["model"].transduction_, names, truth) > 0.9
    ratios = names["gpca"].explained_variance_ratio_
    assert len(ratios) == names["gpca"].n_components_ < 8
    assert ratios[:-1].sum() < 0.9 <= ratios.sum()

    exec(second, names)
    assert -1 not in names["search"].classes_
    assert accuracy(names["predicted"], names, truth) > 0.9
    assert names["search"].best_score_ > 0.8
    with pytest.raises(ValueError, match="was fitted with a graph"):
        names["search"].predict(names["X"])
    exec(third, names)
    assert names["search"].best_score_ > 0.8


def test_what_cannot_pass_the_graph_to_predict_is_as_the_guide_says(tables, routing):
    names, truth = tables
    X = names["features_df"]
    y = truth.loc[X.index]
    model = GPCAClassifier(alpha=1, feature_scaling="none", C=1.0)
    graph = Graph.from_edges(names["edges_df"], nodes=X.index)
    metadata = {"graph": graph, "nodes": np.arange(len(X))}
    grid = {"param_grid": {"alpha": [1]}, "cv": 2, "error_score": "raise"}
    for call in (
        lambda: GridSearchCV(model, scoring="f1_macro", **grid).fit(X, y, **metadata),
        lambda: cross_val_predict(model, X, y, cv=2, params=metadata),
        lambda: CalibratedClassifierCV(model, cv=2).fit(X, y, **metadata),
    ):
        with pytest.raises(ValueError, match="instead of a named scorer use scoring=lambda"):
            call()
