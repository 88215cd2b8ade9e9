"""What the documents name exists."""

import importlib
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gpcanet.cli import app

ROOT = Path(__file__).parent.parent
THEORY = (ROOT / "docs" / "theory.md").read_text()

NAMED_TESTS = sorted(set(re.findall(r"`(tests/[\w/.]+)::(\w+)`", THEORY)))
NAMED_OBJECTS = sorted(set(re.findall(r"`(gpcanet(?:\.\w+)+)`", THEORY)))


@pytest.mark.parametrize(("path", "test"), NAMED_TESTS)
def test_every_test_named_in_the_theory_exists(path, test):
    assert f"def {test}(" in (ROOT / path).read_text()


@pytest.mark.parametrize("name", NAMED_OBJECTS)
def test_every_object_named_in_the_theory_exists(name):
    module, attribute = name.rsplit(".", 1)
    assert hasattr(importlib.import_module(module), attribute)


def test_the_theory_names_tests_and_objects():
    assert len(NAMED_TESTS) >= 10
    assert len(NAMED_OBJECTS) >= 4


@pytest.mark.parametrize(
    "document",
    [
        "README.md",
        "CONTRIBUTING.md",
        "docs/decisions.md",
        "docs/what-happens-if.md",
        "docs/guide-path.md",
        "docs/guide-init.md",
        "docs/evidence.md",
    ],
)
def test_links_and_make_targets_of_the_documents_exist(document):
    text = (ROOT / document).read_text()
    for target in re.findall(r"\]\((?!http)([^)#]+)\)", text):
        assert ((ROOT / document).parent / target).exists()
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"(?m)(?:^|`)make (\w+)", text):
        assert f"\n{target}:" in makefile


def test_the_guide_to_alpha_runs():
    """As it stands but for Cora, which digits play."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "guide-path.md").read_text(), re.S)
    assert len(blocks) == 4
    names = {}
    for block in blocks:
        exec(block.replace('"cora"', '"digits"'), names)
    assert names["Z"].shape == (1797, 32)
    assert max(names["scores"].values()) > 0.8
    assert names["model"].alpha == names["best"]


def test_the_guide_to_initialisation_runs(monkeypatch):
    """As it stands but for Cora, which digits play, and for the number of epochs."""
    text = (ROOT / "docs" / "guide-init.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, re.S)
    assert len(blocks) == 3
    names = {}
    for block in blocks:
        exec(block.replace('"cora"', '"digits"').replace("epochs=100", "epochs=3"), names)
    assert names["report"].n_set == 14
    assert names["result"].epochs == 3
    commands = re.search(r"```sh\n(.*?)```", text, re.S)[1].splitlines()
    assert len(commands) == 3
    monkeypatch.setenv("GPCANET_OFFLINE", "1")
    for command in commands:
        words = command.replace("cora", "digits").replace("epochs 200", "epochs 2").split()[1:]
        result = CliRunner().invoke(app, words, catch_exceptions=False)
        assert result.exit_code == 0, result.output
