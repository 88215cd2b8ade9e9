"""No command overwrites one of its input files, whatever its name."""

import os
from pathlib import Path

import pytest
from command import write_blocks
from own_files import make_source, write_edges, write_features, write_labels


@pytest.fixture
def files():
    """Features, edges, labels and a model, each under two other names."""
    source = make_source([f"n{i}" for i in range(30)])
    write_features(source, Path("f.csv"))
    write_edges(source, Path("e.csv"))
    write_labels(source, Path("l.csv"))
    Path("m.safetensors").write_text("a model")
    Path("folder").mkdir()
    for name in ("f.csv", "e.csv", "l.csv", "m.safetensors"):
        Path(f"soft-{name}").symlink_to(name)
        os.link(name, f"hard-{name}")
    return {path.name: path.read_bytes() for path in Path().iterdir() if path.is_file()}


@pytest.fixture
def never_loaded(monkeypatch):
    """Fail if any data is read."""

    def load(self, console):
        raise AssertionError("data was loaded")

    monkeypatch.setattr("gpcanet.cli.options.Input.load", load)


INPUTS = ["-f", "f.csv", "-e", "e.csv", "-l", "l.csv"]
TABLES = [
    f"{link}{name}" for name in ("f.csv", "e.csv", "l.csv") for link in ("", "soft-", "hard-")
] + ["folder/../f.csv", "./f.csv"]
CASES = [
    *([command, "-o", name] for command in ("embed", "classify", "train") for name in TABLES),
    *(["train", "--checkpoint", name] for name in TABLES),
    *(
        [command, "-o", "z.csv", "--model", model, "--save-model", "m.safetensors"]
        for command in ("embed", "classify")
        for model in ("m.safetensors", "soft-m.safetensors", "hard-m.safetensors")
    ),
    ["train", "-o", "z.csv", "--checkpoint", "folder/../z.csv"],
    ["train", "--save-model", "z.safetensors", "--checkpoint", "folder/../z.safetensors"],
]


@pytest.mark.usefixtures("never_loaded")
@pytest.mark.parametrize("args", CASES, ids=" ".join)
def test_output_that_is_an_input_is_refused(gpcanet, files, args):
    command, *options = args
    complaint = gpcanet(command, *INPUTS, *options, "--force").complaint
    assert "same file" in complaint or "give one" in complaint  # --model and --save-model
    found = {path.name: path.read_bytes() for path in Path().iterdir() if path.is_file()}
    assert found == files


def test_link_to_another_file_is_replaced(gpcanet):
    Path("old.csv").write_text("old")
    Path("z.csv").symlink_to("old.csv")
    assert gpcanet("embed", *write_blocks(Path()), "-o", "z.csv", "--force").code == 0
    assert Path("old.csv").read_text() == "old"
