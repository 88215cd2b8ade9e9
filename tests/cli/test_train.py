"""gpcanet train: models by name, from files or datasets, stopped and resumed."""

import json

import numpy as np
import pytest
from command import CLASSES, PER_CLASS, process, write_blocks

from gpcanet.nn.training.registry import INITS, MODEL_NAMES

QUICK = ("--epochs", 8, "--hidden", 8, "--lr", 0.02, "-q", "--json")


@pytest.fixture
def files(tmp_path):
    return write_blocks(tmp_path)


@pytest.mark.parametrize("model", MODEL_NAMES)
def test_every_model_trains(gpcanet, files, model):
    ended = gpcanet("train", *files, "--model", model, "--init", "xavier", *QUICK)
    assert ended.code == 0, ended.err
    values = json.loads(ended.out)
    assert values["model"] == model
    assert values["epochs"] == 8
    assert len(values["curve"]) == 9
    assert "loss" not in values["curve"][0]
    assert values["report"]["accuracy"] == values["accuracy"]["test"]
    phases = ["reading", "initialising", "training", "writing"]  # as in the other commands
    assert list(values["seconds"]) == phases
    assert 0 < values["training_seconds"] <= values["seconds"]["training"]


@pytest.mark.parametrize("init", INITS)
def test_every_initialisation_trains(gpcanet, files, init):
    ended = gpcanet("train", *files, "--layers", 4, "--init", init, *QUICK)
    values = json.loads(ended.out)
    assert values["initialised"] == 4


@pytest.mark.parametrize("model", MODEL_NAMES)
def test_every_model_starts_from_gpca(gpcanet, files, model):
    values = json.loads(gpcanet("train", *files, "--model", model, *QUICK).out)
    assert values["initialised"] >= 1


def test_unknown_head_names_all_choices(gpcanet, files):
    ended = gpcanet("train", *files, "--head", "svm", *QUICK)
    assert "--head 'svm' must be one of 'ridge', 'logistic', 'none'" in ended.complaint


def test_initialisation_and_accuracy_are_reported(gpcanet, files):
    ended = gpcanet("train", *files, "--layers", 3, "--epochs", 30, "--lr", 0.05)
    assert ended.code == 0
    assert "gpca: 3 of 3 layers set" in ended.err
    assert "set: ridge regression" in ended.err
    assert "best of 30 epochs by validation: epoch" in ended.err
    assert "accuracy" in ended.out
    assert "nodes with held-out labels" in ended.out


def test_predictions_are_written(gpcanet, files, tmp_path):
    out = tmp_path / "out.csv"
    assert gpcanet("train", *files, "-o", out, *QUICK).code == 0
    lines = out.read_text().splitlines()
    assert lines[0].startswith('"id","predicted","probability"')
    again = gpcanet("train", *files, "-o", out, *QUICK)
    assert again.complaint == f"{out} exists; choose another name or use --force to replace it"
    assert gpcanet("train", *files, "-o", out, "--force", *QUICK).code == 0


def test_gpcanet_accepts_one_alpha_per_layer(gpcanet, files):
    common = ("train", *files, "--model", "gpcanet", "--init", "gpca", *QUICK)
    assert gpcanet(*common, "-a", 5, "-a", 2, "--layers", 2).code == 0
    assert gpcanet(*common, "-a", 5, "--beta", 0.2, "--iterations", 3).code == 0
    wrong = gpcanet(*common, "-a", 5, "-a", 2, "-a", 1, "--layers", 2)
    assert wrong.complaint.startswith("alpha has 3 values for 2 layers")


@pytest.mark.parametrize(("features", "hidden"), [(3, 128), (90, 128), (90, 300)])
def test_gpcanet_trains_on_fewer_nodes_than_it_is_wide(gpcanet, tmp_path, features, hidden):
    rng = np.random.default_rng(0)
    y = np.arange(30) % 2
    names = [f"x{i}" for i in range(features)]
    rows = rng.standard_normal((30, features)) + y[:, None]
    pairs = rng.integers(0, 15, (60, 2)) * 2
    pairs = np.vstack([pairs, pairs + 1])
    tables = {
        "edges": ("source,target", pairs),
        "features": (",".join(["id", *names]), np.column_stack([np.arange(30), rows])),
        "labels": ("id,label", np.column_stack([np.arange(30), y])),
    }
    options = []
    for name, (header, table) in tables.items():
        lines = [",".join(f"{value:g}" for value in row) for row in table]
        (tmp_path / f"{name}.csv").write_text("\n".join([header, *lines]) + "\n")
        options += [f"--{name}", tmp_path / f"{name}.csv"]
    ended = gpcanet(
        "train", *options, "--model", "gpcanet", "--hidden", hidden, "--epochs", 5, "-q", "--json"
    )
    assert ended.code == 0, ended.err
    assert json.loads(ended.out)["initialised"] == 3


def test_same_seed_gives_the_same_result_and_parts_train(gpcanet, files):
    runs = [
        json.loads(gpcanet("train", *files, "--seed", seed, "--parts", parts, *QUICK).out)
        for seed, parts in ((1, 1), (1, 1), (2, 1), (1, 3))
    ]
    losses = [[look["loss"] for look in run["curve"][1:]] for run in runs]
    assert losses[0] == losses[1]
    assert losses[0] != losses[2]
    assert losses[0] != losses[3]


def test_training_resumes_from_a_checkpoint(gpcanet, files, tmp_path):
    path = tmp_path / "t.safetensors"
    train = ("train", *files, "--hidden", 8, "-q", "--json", "--checkpoint", path)
    assert json.loads(gpcanet(*train, "--epochs", 5).out)["epochs"] == 5
    longer = json.loads(gpcanet(*train, "--epochs", 9).out)
    whole = json.loads(gpcanet(*train[:-2], "--epochs", 9).out)
    assert [look["loss"] for look in longer["curve"][1:]] == [
        look["loss"] for look in whole["curve"][1:]
    ]
    other = gpcanet(*train, "--hidden", 16)
    assert "in its model, convs.0.bias is [8] instead of [16]" in other.complaint
    path.write_bytes(path.read_bytes()[:100])
    assert "is not a training checkpoint of GPCANet, or is damaged" in gpcanet(*train).complaint


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--model", "transformer"], "--model 'transformer' must be one of 'gcn', 'sage'"),
        (["--init", "zeros"], "--init 'zeros' must be one of 'gpca', 'xavier'"),
        (["--layers", "0"], "--layers 0 must be at least 1"),
        (["--alpha", "5"], "--alpha is for the model gpcanet; leave it out for gcn"),
        (["--epochs", "0"], "--epochs 0 must be at least 1"),
        (["--lr", "nan"], "--lr nan must be finite and at least 0"),
        (["--dropout", "1.5"], "--dropout 1.5 must be in [0, 0.99]"),
        (["--checkpoint", "no/where.safetensors"], "folder no does not exist"),
        (["--iterations", "5"], "--iterations is for the model gpcanet; leave it out for gcn"),
        (["--device", "abacus"], "device='abacus' cannot be used here"),
    ],
)
def test_bad_options(gpcanet, files, options, complaint):
    assert gpcanet("train", *files, *options, "-q").complaint.startswith(complaint)


def test_diverged_loss_is_reported(gpcanet, files):
    ended = gpcanet("train", *files, "--lr", "1e30", "-q", "--epochs", 20)
    assert "; use a smaller lr than 1e+30" in ended.complaint
    assert "in epoch 1;" in ended.complaint


def test_without_torch_it_says_what_to_install(files, tmp_path):
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
    ended = process("train", *files, code=code)
    wanted = "torch is not installed; install what networks need: pip install 'gpcanet[nn]'"
    assert ended.complaint == wanted


def test_labels_without_a_split_are_split_by_class(gpcanet, files):
    values = json.loads(gpcanet("train", *files, *QUICK).out)
    assert values["report"]["n_nodes"] == len(CLASSES) * round(0.2 * PER_CLASS)


@pytest.mark.parametrize(("option", "value"), [("--spectrum", "0.3"), ("--head", "logistic")])
def test_settings_of_gpca_are_refused_for_other_initialisers(gpcanet, files, option, value):
    ended = gpcanet("train", *files, "--init", "xavier", option, value, *QUICK)
    assert ended.complaint == f"{option} is for --init gpca; leave it out for xavier"


def test_checkpoints_have_the_suffix_of_models(gpcanet, files):
    ended = gpcanet("train", *files, "--checkpoint", "notes.txt", *QUICK)
    assert ended.complaint == "notes.txt: checkpoints are saved as .safetensors"
