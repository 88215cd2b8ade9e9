"""gpcanet train --save-model, and gpcanet classify --model with the file."""

import json
from pathlib import Path

import numpy as np
import pytest
from command import process, read_table, write_blocks
from own_files import write

from gpcanet.nn import load_model
from gpcanet.nn.training.registry import MODEL_NAMES

NETWORK = Path("net.safetensors")
QUICK = ("--epochs", 8, "--hidden", 8, "--lr", 0.02, "--init", "xavier")


@pytest.fixture
def files():
    return write_blocks(Path(), signal=0.7)


def columns_of(path):
    table = read_table(Path(path))
    return {name: table[name] for name in table.column_names}


@pytest.mark.parametrize("model", MODEL_NAMES)
def test_saved_network_predicts_the_same(gpcanet, files, model):
    options = ("--model", model, "-o", "p.csv", "--save-model", NETWORK)
    ended = gpcanet("train", *files, *options, *QUICK, "-q", "--json")
    assert ended.code == 0, ended.err
    values = json.loads(ended.out)
    assert values["written"] == ["p.csv", str(NETWORK)]
    again = gpcanet("classify", *files, "--model", NETWORK, "-o", "again.csv", "-q", "--json")
    assert again.code == 0, again.err
    assert Path("again.csv").read_bytes() == Path("p.csv").read_bytes()
    classified = json.loads(again.out)
    assert classified["network"]["model"] == model
    assert classified["network"]["result"]["best_epoch"] == values["best_epoch"]
    assert (classified["nodes"], classified["features"], classified["labelled"]) == (36, 3, 36)
    assert classified["report"]["n_nodes"] == 36
    network = load_model(NETWORK)
    assert network.classes.tolist() == ["alpha", "beta", "gamma"]
    assert network.feature_names.tolist() == ["x0", "x1", "x2"]


def test_labels_of_a_network_with_beta_are_those_of_the_training(gpcanet, files):
    options = ("--model", "gpcanet", "--beta", 0.3, "-o", "p.csv", "--save-model", NETWORK)
    assert gpcanet("train", *files, *options, *QUICK).code == 0
    assert gpcanet("classify", *files, "--model", NETWORK, "-o", "again.csv").code == 0
    assert Path("again.csv").read_bytes() == Path("p.csv").read_bytes()
    other = write_blocks(Path(), name="other", seed=1)
    ended = gpcanet("classify", *other, "--model", NETWORK, "-q")
    assert "cannot predict on another graph" in ended.complaint


def test_network_is_applied_to_new_nodes_without_labels(gpcanet):
    files = write_blocks(Path())
    common = ("--save-model", NETWORK, "--epochs", 60, "--hidden", 8, "--lr", 0.05)
    assert gpcanet("train", *files, *common).code == 0
    new = write_blocks(Path(), name="new", seed=5)
    columns = columns_of(new[1])
    labels = columns.pop("label").to_pylist()
    write(columns, Path(new[1]))
    ended = gpcanet("classify", *new, "--model", NETWORK, "-o", "p.csv", "--json")
    assert ended.code == 0, ended.err
    assert json.loads(ended.out)["report"] is None
    table = read_table(Path("p.csv"))
    assert table["id"].to_pylist() == [f"new-{i}" for i in range(36)]
    assert np.mean(np.array(table["predicted"].to_pylist()) == labels) > 0.8


def test_features_are_found_by_name(gpcanet, files):
    assert gpcanet("train", *files, "--save-model", NETWORK, "-o", "p.csv", *QUICK).code == 0
    columns = columns_of(files[1])
    apply = ("classify", *files, "--model", NETWORK, "-q", "-o", "q.csv")
    write(dict(reversed(columns.items())), Path(files[1]))
    assert gpcanet(*apply).code == 0
    assert Path("q.csv").read_bytes() == Path("p.csv").read_bytes()
    write({name: values for name, values in columns.items() if name != "x1"}, Path(files[1]))
    assert "lacks the feature 'x1' that the model needs" in gpcanet(*apply, "--force").complaint
    write(columns | {"x3": columns["x0"]}, Path(files[1]))
    assert "has a column 'x3' that is not a feature" in gpcanet(*apply, "--force").complaint


def test_number_of_features_must_be_the_same(gpcanet, files):
    assert gpcanet("train", *files, "--save-model", NETWORK, *QUICK).code == 0
    ended = gpcanet("classify", "digits", "--model", NETWORK, "-q")
    assert ended.complaint.startswith("digits has 64 features, but the model was fitted with 3")


def test_an_existing_file_is_replaced_only_with_force(gpcanet, files):
    NETWORK.write_text("precious")
    train = ("train", *files, "--save-model", NETWORK, *QUICK, "-q")
    assert gpcanet(*train).complaint.startswith(f"{NETWORK} exists; choose another name or use --f")
    assert NETWORK.read_text() == "precious"
    assert gpcanet(*train, "--force").code == 0
    assert len(load_model(NETWORK).classes) == 3


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["train", "--save-model", "net.pt"], "net.pt: models are saved as .safetensors"),
        (["train", "--save-model", "no/net.safetensors"], "folder no does not exist"),
        (
            ["train", "--save-model", NETWORK, "--checkpoint", NETWORK],
            f"{NETWORK} and {NETWORK} are the same file but get different contents",
        ),
        (["classify", "--model", "none.safetensors"], "none.safetensors is not a file; give"),
    ],
)
def test_bad_files_are_refused_before_any_work(gpcanet, files, options, complaint):
    ended = gpcanet(*options, *files, "-q")
    assert complaint in ended.complaint
    assert not NETWORK.exists()


def test_options_that_do_not_fit_a_network_are_refused(gpcanet, files):
    assert gpcanet("train", *files, "--save-model", NETWORK, *QUICK).code == 0
    apply = ("classify", *files, "--model", NETWORK, "-q")
    assert "--memory-limit is for GPCA" in gpcanet(*apply, "--memory-limit", "1GiB").complaint
    assert "has its own settings; leave out --alpha" in gpcanet(*apply, "--alpha", 3).complaint
    ended = gpcanet("embed", *files, "--model", NETWORK, "-o", "z.csv", "-q")
    assert ended.complaint == f"{NETWORK} is a network; use gpcanet classify"
    NETWORK.write_bytes(NETWORK.read_bytes()[:-5])
    assert "is not a model of GPCANet, or is damaged" in gpcanet(*apply).complaint


def test_without_torch_a_network_file_says_what_to_install(gpcanet, files):
    assert gpcanet("train", *files, "--save-model", NETWORK, *QUICK).code == 0
    code = """
import sys
class Absent:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == "torch":
            raise ModuleNotFoundError("No module named 'torch'", name="torch")
sys.meta_path.insert(0, Absent)
from gpcanet.cli import main
main()
"""
    ended = process("classify", *files, "--model", NETWORK, code=code)
    wanted = "torch is not installed; install what networks need: pip install 'gpcanet[nn]'"
    assert ended.complaint == wanted
