"""Every example of the README runs as it is written, and its numbers are those of the pages."""

import re
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import sklearn
from own_files import make_source, write_edges, write_features, write_labels
from typer.testing import CliRunner

from gpcanet.cli import app
from gpcanet.datasets import block_model, load
from gpcanet.nn import Settings
from reproduction.__main__ import app as reproduction_app

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
PYTHON = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
SHELL = re.findall(r"```sh\n(.*?)```", README, re.DOTALL)


def commands(block):
    """Words of every command of a block, without comments."""
    lines = block.replace("\\\n", " ").splitlines()
    return [shlex.split(line, comments=True) for line in lines if line.strip()]


def test_readme_has_the_blocks_that_are_run_here():
    assert len(PYTHON) == 4
    assert len(SHELL) == 3
    assert README.count("```") == 2 * (len(PYTHON) + len(SHELL))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working directory with the files that the README names; digits replace Cora."""
    source = make_source(np.array([f"paper {i}" for i in range(30)], object))
    for prefix in ("", "new-"):
        write_edges(source, tmp_path / f"{prefix}edges.csv")
        write_features(source, tmp_path / f"{prefix}papers.parquet")
    write_features(source, tmp_path / "table.csv")
    write_labels(source, tmp_path / "topics.csv")
    (tmp_path / "citations.csv").write_text(
        "id,label\n" + "".join(f"paper {i},{i % 7 + 0.5}\n" for i in range(30))
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GPCANET_OFFLINE", "1")
    monkeypatch.setattr("gpcanet.explorer.layout.AUTO_TSNE_NODES", 100)  # digits take a minute
    return tmp_path


def test_commands_run_in_order_and_write_their_files(folder):
    written = ["demo.png", "topics.safetensors", "deep.safetensors"]
    for program, *words in commands(SHELL[0]) + commands(SHELL[1]):
        assert program == "gpcanet"
        words = [{"cora": "digits", "50": "2"}.get(word, word) for word in words]
        result = CliRunner().invoke(app, words, catch_exceptions=False)
        assert result.exit_code == 0, (words, result.output)
        written += [words[words.index("-o") + 1]] if "-o" in words else []
    assert len(written) == 11
    assert all((folder / name).stat().st_size > 0 for name in written)


def test_commands_of_the_reproduction_are_understood(folder):
    """Runs are only planned, and the report is made from the results of this repository."""
    n_runs = []
    for python, m, program, *words in commands(SHELL[2]):
        assert [python, m, program] == ["python", "-m", "reproduction"]
        words = [str(ROOT / "docs/evidence.json") if ".jsonl" in word else word for word in words]
        words += ["--dry-run"] if words[0] == "run" else []
        result = CliRunner().invoke(reproduction_app, words, catch_exceptions=False)
        assert result.exit_code == 0, (words, result.output)
        n_runs += [int(count) for count in re.findall(r"^([\d,]+) runs", result.output)]
    assert len(n_runs) == 2
    assert 0 < n_runs[0] < n_runs[1]
    assert (folder / "report" / "report.html").stat().st_size > 0


def test_first_example_in_python_classifies_the_test_nodes(monkeypatch, capsys):
    monkeypatch.setenv("GPCANET_OFFLINE", "1")
    names = {}
    exec(PYTHON[0].replace('"cora"', '"digits"'), names)
    assert names["Z"].shape == (1797, 64)
    assert names["correct"].mean() > 0.9
    assert capsys.readouterr().out == f"test accuracy {names['correct'].mean():.1%}\n"


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
    exec(PYTHON[1], names)
    assert accuracy(names["model"].transduction_, names, truth) > 0.9
    ratios = names["gpca"].explained_variance_ratio_
    assert len(ratios) == names["gpca"].n_components_ < 8
    assert ratios[:-1].sum() < 0.9 <= ratios.sum()

    exec(PYTHON[2], names)
    assert -1 not in names["search"].classes_
    assert accuracy(names["predicted"], names, truth) > 0.9
    assert names["search"].best_score_ > 0.8
    with pytest.raises(ValueError, match="was fitted with a graph"):
        names["search"].predict(names["X"])


def test_network_of_the_readme_learns(monkeypatch):
    monkeypatch.setenv("GPCANET_OFFLINE", "1")
    names = {"data": load("digits"), "Settings": Settings}
    exec(
        PYTHON[3]
        .replace("num_layers=15", "num_layers=3")
        .replace("train(net, nodes)", "result = train(net, nodes, Settings(epochs=20, lr=0.01))"),
        names,
    )
    assert names["result"] > 0.8


def test_numbers_are_those_of_the_pages():
    tables = README.split("## Accuracy and speed")[1].split("\n## ")[0]
    numbers = re.findall(r"\| (\d[\d.]*(?: m?s)?) (?=\|)", tables)
    assert len(numbers) == 9 + 8
    pages = "".join(
        (ROOT / "docs" / f"{page}.md").read_text() for page in ("performance", "evidence")
    )
    for number in numbers:
        assert re.search(rf"\s{re.escape(number)}[\s%]", pages), number
