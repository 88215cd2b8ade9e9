"""The examples of the README run as they are written, and its numbers are those measured."""

import json
import re
from pathlib import Path

import pytest
from guide_blocks import ROOT, code_blocks, run_commands

README = (ROOT / "README.md").read_text()
[(_, PYTHON)] = code_blocks("README.md", "python")
[(_, SHELL)] = code_blocks("README.md", "sh")


def test_readme_has_no_block_that_is_not_run_here():
    assert README.count("```") == 4


def test_commands_run_and_write_their_files(tmp_path, monkeypatch):
    """Digits replace Cora, which would have to be fetched."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GPCANET_OFFLINE", "1")
    assert len(run_commands(SHELL, {"cora": "digits"})) == 2
    assert all(Path(name).stat().st_size > 0 for name in ("demo.png", "cora.parquet"))


def test_example_in_python_classifies_the_test_nodes(monkeypatch, capsys):
    monkeypatch.setenv("GPCANET_OFFLINE", "1")
    names = {}
    exec(PYTHON.replace('"cora"', '"digits"'), names)
    assert names["Z"].shape == (1797, 64)
    assert names["correct"].mean() > 0.9
    assert capsys.readouterr().out == f"test accuracy {names['correct'].mean():.1%}\n"


def results(part):
    return json.loads((ROOT / "benchmarks" / "results" / f"{part}.json").read_text())["results"]


def row(start):
    """Numbers of the row of a table that starts with these words."""
    [cells] = re.findall(rf"(?m)^\| {re.escape(start)} \|(.*)\|$", README)
    return [cell.strip() for cell in cells.split("|")]


@pytest.mark.parametrize("index", range(3))
def test_accuracies_are_those_of_the_benchmarks(index):
    name = ("cora", "citeseer", "pubmed")[index]
    measured = results("embed")["graphs"][name]
    assert row("`GPCAClassifier()`")[index] == f"{100 * measured['classifier']['accuracy']:.1f}"
    embedding = row("`GPCA`, 64 components, and logistic regression")[index]
    assert embedding == f"{100 * measured['methods']['GPCA']['accuracy']:.1f}"
    evidence = (ROOT / "docs" / "evidence.md").read_text()
    assert f"| GCN | {row('GCN in the paper')[index]} (" in evidence


def test_times_are_those_of_the_benchmarks():
    measured = results("large_graph")
    text = " ".join(README.split())
    assert f"{measured['nodes']:,} nodes and {measured['edges']:,} edges" in text
    times = {
        name: f"{measured['methods'][name]['seconds']:.3g} s"
        for name in ("GPCA, exact", "GPCA, 5 steps", "torch CSR, 5 steps")
    }
    assert f"takes {times['GPCA, exact']} on two cores" in text
    assert f"or {times['GPCA, 5 steps']} by the five steps" in text
    assert f"torch take {times['torch CSR, 5 steps']}" in text
