"""What the README shows can be typed as it stands."""

import re
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import sklearn
from own_files import make_source, write_edges, write_features, write_labels
from sklearn.model_selection import GridSearchCV, PredefinedSplit
from typer.testing import CliRunner

from gpcanet.cli import app
from gpcanet.datasets import block_model, load
from gpcanet.nn import Settings

README = (Path(__file__).parent.parent / "README.md").read_text()
SHELL = re.search(r"```sh\n(.*?)```", README, re.DOTALL)[1]
COMMANDS = [
    shlex.split(line, comments=True)[1:]
    for line in SHELL.replace("\\\n", " ").splitlines()
    if line.strip()
]
PYTHON = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working directory with the files that the README speaks of; Cora is played by digits."""
    source = make_source(np.array([f"paper {i}" for i in range(30)], object))
    for prefix in ("", "new-"):
        write_edges(source, tmp_path / f"{prefix}edges.csv")
        write_features(source, tmp_path / f"{prefix}papers.parquet")
    write_features(source, tmp_path / "table.csv")
    write_labels(source, tmp_path / "topics.csv")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GPCANET_OFFLINE", "1")
    return tmp_path


def test_the_commands_run_one_after_the_other_and_write_what_they_say(folder):
    written = []
    for command in COMMANDS:
        command = [{"cora": "digits", "50": "2"}.get(word, word) for word in command]
        result = CliRunner().invoke(app, command, catch_exceptions=False)
        assert result.exit_code == 0, (command, result.output)
        written += [command[command.index("-o") + 1]] if "-o" in command else []
    assert len(written) == 6
    assert all((folder / name).stat().st_size > 0 for name in written)
    assert (folder / "topics.safetensors").is_file()


@pytest.fixture
def tables():
    """Three groups of nodes: tables of edges, features and a few labels, rows in any order."""
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
    """On the nodes whose labels the README's code has not seen."""
    unseen = (names["y"] == -1).to_numpy()
    return np.mean(predicted[unseen] == truth[names["X"].index].to_numpy()[unseen])


def test_the_python_gives_the_right_answer(tables, routing, monkeypatch):
    monkeypatch.setenv("GPCANET_OFFLINE", "1")
    names, truth = tables
    exec(PYTHON[0].replace('"cora"', '"digits"'), names)
    assert names["Z"].shape == (1797, 64)
    assert accuracy(names["model"].transduction_, names, truth) > 0.9

    names |= {"sklearn": sklearn, "np": np, "GridSearchCV": GridSearchCV}
    names |= {"PredefinedSplit": PredefinedSplit}
    exec(PYTHON[1], names)
    assert -1 not in names["search"].classes_
    assert accuracy(names["predicted"], names, truth) > 0.9
    assert names["search"].best_score_ > 0.8
    with pytest.raises(ValueError, match="was fitted with a graph; pass graph= here, too"):
        names["search"].predict(names["X"])

    assert len(PYTHON) == 3


def test_the_network_of_the_readme_learns(routing, monkeypatch):
    monkeypatch.setenv("GPCANET_OFFLINE", "1")
    names = {"data": load("digits"), "Settings": Settings}
    exec(
        PYTHON[2]
        .replace("num_layers=15", "num_layers=3")
        .replace("train(net, nodes)", "result = train(net, nodes, Settings(epochs=20, lr=0.01))"),
        names,
    )
    assert names["result"] > 0.8
