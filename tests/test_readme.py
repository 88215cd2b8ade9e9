"""What the README shows can be typed as it stands."""

import re
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from own_files import make_source, write_edges, write_features, write_labels
from typer.testing import CliRunner

from gpcanet.cli import app
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


def test_the_python_runs(folder):
    edges, features = pd.read_csv("edges.csv"), pd.read_parquet("papers.parquet").set_index("id")
    labels = pd.read_csv("topics.csv").set_index("id")["label"].astype("category").cat.codes
    names = {"edges_df": edges, "features_df": features, "labels": labels}
    exec(PYTHON[0].replace('"cora"', '"digits"'), names)
    assert names["Z"].shape == (1797, 64)
    assert (names["model"].transduction_ >= 0).all()
    network = next(block for block in PYTHON if "gpca_init_" in block)
    exec(network.replace("train(net, nodes)", "train(net, nodes, Settings(epochs=2))"),
         names | {"Settings": Settings})  # fmt: skip
