"""gpcanet classify: predictions and report."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import sklearn.metrics
from command import CLASSES, PER_CLASS, read_table, write_blocks
from own_files import write

from gpcanet import GPCAClassifier
from gpcanet.datasets import load
from gpcanet.files import load_files

pytestmark = pytest.mark.usefixtures("small_search")


def read_predictions(path, *, id_name="id"):
    """Ids, classes, and probabilities by class."""
    table = read_table(path)
    names = table.column_names
    assert names[:3] == [id_name, "predicted", "probability"]
    P = np.stack([table[name].to_numpy() for name in names[3:]], axis=1)
    np.testing.assert_allclose(P.sum(axis=1), 1, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(table["probability"].to_numpy(), P.max(axis=1))
    classes = np.array([name.removeprefix("p(").removesuffix(")") for name in names[3:]])
    predicted = np.array([str(name) for name in table["predicted"].to_pylist()])
    np.testing.assert_array_equal(predicted, classes[P.argmax(axis=1)])
    return table[id_name].to_pylist(), table["predicted"].to_pylist(), P


def labels_of(args):
    return np.array(read_table(Path(args[1]))["label"].to_pylist(), object)


def relabel(args, labels, **columns):
    """Replace the labels in a file of features."""
    table = read_table(Path(args[1]))
    old = {name: table[name] for name in table.column_names}
    write(old | {"label": labels} | columns, Path(args[1]))


@pytest.fixture(scope="module")
def blocks(tmp_path_factory):
    """A graph with noise enough for mistakes."""
    return write_blocks(tmp_path_factory.mktemp("blocks"), signal=0.7)


# -- predictions -------------------------------------------------------------------------------


def test_split_of_a_dataset_is_used(gpcanet):
    data = load("digits")
    ended = gpcanet("classify", "digits", "-a", 10, "--json", "-o", "p.parquet")
    assert ended.code == 0, ended.err
    values = json.loads(ended.out)
    model = GPCAClassifier(alpha=10).fit(
        data.X, data.visible_labels(), graph=data.graph, validation=data.validation
    )
    ids, predicted, P = read_predictions(Path("p.parquet"))
    assert ids == list(range(1797))
    np.testing.assert_array_equal(P, model.label_distributions_)
    assert predicted == [str(label) for label in model.transduction_]
    truth, guessed = data.y[data.test], model.transduction_[data.test]
    report = values["report"]
    assert report["n_nodes"] == 1447
    assert report["accuracy"] == sklearn.metrics.accuracy_score(truth, guessed)
    assert report["confusion"] == sklearn.metrics.confusion_matrix(truth, guessed).tolist()
    assert (values["nodes"], values["features"], values["labelled"]) == (1797, 64, 1797)
    selected = values["selected"]
    assert {member["alpha"] for member in selected["members"]} == {10.0}
    assert (selected["used"], selected["temperature"]) == (list(model.used_), model.temperature_)
    confidence = model.label_distributions_[data.test].max(axis=1)
    bins = np.minimum((15 * confidence).astype(int), 14)
    error = sum(
        np.mean(bins == i)
        * abs(np.mean(confidence[bins == i]) - np.mean((truth == guessed)[bins == i]))
        for i in np.unique(bins)
    )
    assert report["calibration_error"] == pytest.approx(error)


def test_without_a_split_the_report_uses_held_out_labels_and_predictions_use_all(gpcanet, blocks):
    ended = gpcanet("classify", *blocks, "--json", "-o", "p.csv", "--save-model", "m.safetensors")
    report = json.loads(ended.out)["report"]
    data = load_files(blocks[1], blocks[3])
    names = data.class_names[data.y]
    model = GPCAClassifier().fit(data.X, names, graph=data.graph)
    ids, predicted, P = read_predictions(Path("p.csv"))
    assert ids == data.graph.node_ids.tolist()
    assert predicted == model.transduction_.tolist()
    np.testing.assert_allclose(P, model.label_distributions_, rtol=0, atol=1e-12)
    # Two of twelve labels of each class are held out.
    assert [row["nodes"] for row in report["per_class"]] == [2, 2, 2]
    assert report["n_nodes"] == 6
    assert json.loads(ended.out)["labelled"] == len(names)
    # The saved model is the one that wrote the predictions.
    assert gpcanet("classify", *blocks, "--model", "m.safetensors", "-o", "again.csv").code == 0
    assert Path("again.csv").read_bytes() == Path("p.csv").read_bytes()


def test_held_out_labels_are_not_used_for_fitting(gpcanet, blocks, monkeypatch):
    seen = []
    fit = GPCAClassifier.fit

    def watched(self, X, y, **more):
        seen.append([label is not None for label in y])
        return fit(self, X, y, **more)

    monkeypatch.setattr(GPCAClassifier, "fit", watched)

    def kept_back(*options):
        seen.clear()
        written = ["-o", "p.csv", "--force"]
        assert gpcanet("classify", *blocks, *options, *written).code == 0
        first, last = np.array(seen)
        assert last.all()
        return np.flatnonzero(~first)

    once = kept_back()
    seen.clear()
    gpcanet("classify", *blocks)
    assert len(seen) == 1  # nothing to write, and so nothing to learn once more for
    assert (once // PER_CLASS).tolist() == [0, 0, 1, 1, 2, 2]
    np.testing.assert_array_equal(kept_back("--seed", 0), once)
    assert kept_back("--seed", 1).tolist() != once.tolist()
    assert len(kept_back("--test-share", 0.5)) == 18


def test_split_column_is_used(gpcanet, blocks):
    split = np.tile(["train", "test", "val", "test", "", "train"], 6)
    write({"id": read_table(Path(blocks[1]))["id"], "topic": labels_of(blocks).tolist(),
           "part": split}, Path("labels.tsv"))  # fmt: skip
    options = ["--labels", "labels.tsv", "--label", "topic", "--split", "part", "--ignore", "label"]
    ended = gpcanet("classify", *blocks, *options, "--json", "-o", "p.csv")
    assert ended.code == 0, ended.err
    data = load_files(blocks[1], blocks[3], ignore=["label"])
    y = labels_of(blocks)
    y[(split == "test") | (split == "")] = None
    model = GPCAClassifier().fit(data.X, y, graph=data.graph, validation=split == "val")
    P = read_predictions(Path("p.csv"))[2]
    np.testing.assert_allclose(P, model.label_distributions_, rtol=0, atol=1e-12)
    report = json.loads(ended.out)["report"]
    test = split == "test"
    assert report["n_nodes"] == test.sum()
    assert report["accuracy"] == np.mean(model.transduction_[test] == labels_of(blocks)[test])


def test_options_reach_the_classifier(gpcanet):
    args = write_blocks(Path(), signal=0.7)
    y = labels_of(args)
    y[::2] = ""
    relabel(args, y.tolist())
    options = ["-k", 2, "-a", 3, "-a", 7, "-b", 0.2, "--normalization", "rw", "--test-share", 0]
    assert gpcanet("classify", *args, *options, "-o", "p.csv").code == 0
    P = read_predictions(Path("p.csv"))[2]
    data = load_files(args[1], args[3])
    y[::2] = None

    def fit(**settings):
        return GPCAClassifier(**settings).fit(data.X, y, graph=data.graph).label_distributions_

    settings = {"n_components": 2, "alpha": [3.0, 7.0], "beta": 0.2, "normalization": "rw"}
    np.testing.assert_allclose(P, fit(**settings), rtol=0, atol=1e-12)
    for name in settings:
        others = {key: value for key, value in settings.items() if key != name}
        assert np.abs(P - fit(**others)).max() > 1e-6, f"{name} makes no difference here"


def test_integer_labels_and_ids_stay_integers(gpcanet):
    args = write_blocks(Path(), names=np.array([7, 30, -5]))
    ids = np.arange(36) * 10
    table = read_table(Path(args[1])).drop_columns("id").append_column("paper", [ids])
    write({name: table[name] for name in table.column_names}, Path("x.parquet"))
    write({"from": ids, "to": np.roll(ids, 1)}, Path("e.csv"))
    files = [
        "-f",
        "x.parquet",
        "-e",
        "e.csv",
        "--id",
        "paper",
        "--source",
        "from",
        "--target",
        "to",
    ]
    assert gpcanet("classify", *files, "-o", "p.parquet").code == 0
    found, predicted, _ = read_predictions(Path("p.parquet"), id_name="paper")
    assert found == ids.tolist()
    assert set(predicted) == {7, 30, -5}


def test_some_nodes_without_a_label_get_one(gpcanet):
    args = write_blocks(Path())
    labels = labels_of(args)
    known = labels.copy()
    known[::3] = ""
    relabel(args, known.tolist())
    assert gpcanet("classify", *args, "-o", "p.csv").code == 0
    predicted = np.array(read_predictions(Path("p.csv"))[1])
    assert set(predicted) == set(CLASSES)
    assert np.mean(predicted[::3] == labels[::3]) > 0.8


# -- the report as shown -----------------------------------------------------------------------


def test_report_is_shown_as_tables_of_the_numbers_in_json(gpcanet):
    blocks = write_blocks(Path())
    labels = labels_of(blocks)
    labels[::6] = np.roll(labels, 12)[::6]  # wrong labels, which no classifier predicts
    relabel(blocks, labels.tolist())
    values = json.loads(gpcanet("classify", *blocks, "--json", "--test-share", 0.5).out)["report"]
    assert values["accuracy"] < 1
    shown = gpcanet("classify", *blocks, "--test-share", 0.5).out.splitlines()
    assert shown[0] == f"accuracy {100 * values['accuracy']:.1f} % on 18 nodes with held-out labels"
    low, high = values["interval95"]
    assert shown[1].startswith(f"(95 % interval {100 * low:.1f} to {100 * high:.1f}; ")
    assert shown[2] == f"expected calibration error {100 * values['calibration_error']:.1f} %"
    cells = [line.split() for line in shown]
    for i, row in enumerate(values["per_class"]):
        scores = [f"{100 * row[name]:.1f}" for name in ("precision", "recall", "f1")]
        assert [row["class"], *scores, str(row["nodes"])] in cells
        counts = [str(count) if count or i == j else "·"
                  for j, count in enumerate(values["confusion"][i])]  # fmt: skip
        assert [row["class"], *counts] in cells
    assert shown[-1].startswith("(")


def test_many_classes_are_reported_by_their_confusions(gpcanet):
    args = write_blocks(Path(), names=np.array([f"c{i:02d}" for i in range(13)]))
    relabel(args, np.random.default_rng(0).permutation(labels_of(args)).tolist())
    ended = gpcanet("classify", *args, "-a", 10)
    assert ended.code == 0, ended.err
    assert max(map(len, ended.out.splitlines())) <= 80
    heading, *mixed = ended.out.split("\n\n")[2].splitlines()
    assert heading.split() == ["true", "class", "predicted", "as", "nodes"]
    assert 1 <= len(mixed) <= 10
    counts = [int(line.split()[2]) for line in mixed]
    assert counts == sorted(counts, reverse=True)


# -- few labels, and none ----------------------------------------------------------------------


def test_single_label_of_a_class_is_never_held_out(gpcanet):
    args = write_blocks(Path())
    labels = labels_of(args)
    labels[1:PER_CLASS] = ""
    relabel(args, labels.tolist())
    ended = gpcanet("classify", *args, "--json", "-o", "p.csv", "--test-share", 0.9)
    assert ended.code == 0, ended.err
    per_class = json.loads(ended.out)["report"]["per_class"]
    assert [row["nodes"] for row in per_class] == [0, 11, 11]
    assert "p(alpha)" in read_table(Path("p.csv")).column_names


@pytest.mark.parametrize("options", [["--test-share", "0"], ["--test-share", "0.01"]])
def test_without_held_out_labels_there_is_a_note_and_no_report(gpcanet, blocks, options):
    ended = gpcanet("classify", *blocks, *options, "--json", "-o", "p.csv")
    assert ended.code == 0
    assert json.loads(ended.out)["report"] is None
    assert "no report: no labels were held out" in ended.err
    assert "accuracy" not in gpcanet("classify", *blocks, *options).out
    assert len(read_predictions(Path("p.csv"))[0]) == 36


@pytest.mark.parametrize("share", ["1", "-0.1", "nan", "1.5"])
def test_share_out_of_range_is_refused(gpcanet, share):
    complaint = gpcanet("classify", "digits", "--test-share", share).complaint
    assert "must be at least 0 and less than 1" in complaint


@pytest.mark.parametrize(
    ("labels", "columns", "reason"),
    [
        ([""] * 36, {}, "no node has a label; give --labels, or name a column of the features by"),
        (["one"] * 36, {}, "y has only the class 'one'; at least 2 are needed"),
        (["a", "b"] * 18, {"split": ["test"] * 36}, "the split has no labelled training node"),
    ],
)  # fmt: skip
def test_unusable_labels_are_an_error(gpcanet, labels, columns, reason):
    args = write_blocks(Path())
    relabel(args, labels, **columns)
    assert reason in gpcanet("classify", *args, "-o", "p.csv").complaint_after_notes
    assert not Path("p.csv").exists()


def test_no_column_of_labels_at_all_is_an_error(gpcanet, blocks):
    ended = gpcanet("classify", *blocks, "--ignore", "label")
    assert "no node has a label" in ended.complaint_after_notes


# -- saved classifiers -------------------------------------------------------------------------


def test_saved_classifier_is_evaluated_on_other_files(gpcanet, blocks):
    assert gpcanet("classify", *blocks, "--save-model", "m.safetensors").code == 0
    other = write_blocks(Path(), seed=5, name="other", signal=0.7)
    ended = gpcanet("classify", *other, "--model", "m.safetensors", "-o", "p.csv", "--json")
    assert ended.code == 0, ended.err
    ids, predicted, _ = read_predictions(Path("p.csv"))
    assert ids[0] == "other-0"
    report = json.loads(ended.out)["report"]
    assert report["n_nodes"] == 36
    assert report["accuracy"] == np.mean(np.array(predicted) == labels_of(other))
    # The command does not know whether the model was fitted on these labels.
    shown = gpcanet("classify", *other, "--model", "m.safetensors").out
    assert "on 36 labelled nodes, which may include training nodes of the model\n" in shown
    assert "held-out" not in shown
    parts = np.resize(["train", "test"], 36)
    table = read_table(other[1])
    write({name: table[name] for name in table.column_names} | {"split": parts}, other[1])
    shown = gpcanet("classify", *other, "--model", "m.safetensors").out
    assert "on 18 test nodes of the split\n" in shown
    assert gpcanet("classify", *other, "--model", "m.safetensors", "--ignore", "label").code == 0


def test_unknown_class_counts_as_misclassified(gpcanet, blocks):
    assert gpcanet("classify", *blocks, "--save-model", "m.safetensors").code == 0
    other = write_blocks(Path(), names=np.array(["alpha", "delta", "gamma"]), name="other")
    ended = gpcanet("classify", *other, "--model", "m.safetensors", "-o", "p.csv", "--json")
    assert ended.code == 0, ended.err
    report = json.loads(ended.out)["report"]
    assert report["classes"] == ["alpha", "beta", "gamma", "delta"]
    assert report["per_class"][3]["recall"] == 0
    assert report["per_class"][3]["nodes"] == 12
    assert Path("p.csv").exists()


def test_saved_model_finds_its_features_by_name(gpcanet, blocks):
    assert gpcanet("classify", *blocks, "--save-model", "m.safetensors").code == 0
    before = gpcanet("classify", *blocks, "--model", "m.safetensors", "-o", "a.csv")
    assert before.code == 0
    features = Path(blocks[1])
    table = read_table(features)
    columns = {name: table[name] for name in reversed(table.column_names)}
    write(columns, features)
    assert gpcanet("classify", *blocks, "--model", "m.safetensors", "-o", "b.csv").code == 0
    assert Path("a.csv").read_bytes() == Path("b.csv").read_bytes()
    write({"new" if name == "x0" else name: values for name, values in columns.items()}, features)
    ended = gpcanet("classify", *blocks, "--model", "m.safetensors", "-o", "c.csv")
    assert "lacks the feature 'x0' that the model needs" in ended.complaint_after_notes


@pytest.mark.parametrize(
    ("options", "option"),
    [
        (["--alpha", 3], "--alpha"),
        (["-k", 2], "--components"),
        (["--beta", 0.1], "--beta"),
        (["--seed", 1], "--seed"),
        (["-k", 2, "--test-share", 0.5], "--components, --test-share"),
    ],
)
def test_saved_model_keeps_its_settings(gpcanet, blocks, options, option):
    assert gpcanet("classify", *blocks, "--save-model", "m.safetensors").code == 0
    ended = gpcanet("classify", *blocks, "--model", "m.safetensors", *options)
    assert f"has its own settings; leave out {option}" in ended.complaint


@pytest.mark.parametrize(
    ("trained", "applied"),
    [("integers", "text"), ("text", "integers"), ("words", "booleans"), ("booleans", "words")],
)
def test_labels_of_a_model_may_have_another_type(gpcanet, blocks, trained, applied):
    table = pd.read_csv(blocks[1])
    is_alpha = table["label"] == "alpha"
    labels = {
        "integers": is_alpha.astype(int),
        "text": is_alpha.astype(int).astype(str),
        "booleans": is_alpha,
        "words": is_alpha.astype(str),
    }
    for name in (trained, applied):
        table.assign(label=labels[name]).to_parquet(f"{name}.parquet", index=False)
    command = ["classify", "-e", blocks[3], "-q"]
    fit = ["-f", f"{trained}.parquet", "-a", 10, "--save-model", "m.safetensors"]
    assert gpcanet(*command, *fit).code == 0
    ended = gpcanet(*command, "-f", f"{applied}.parquet", "--model", "m.safetensors", "--json")
    assert ended.code == 0, ended.err
    assert json.loads(ended.out)["report"]["accuracy"] > 0.7


def test_labels_that_are_no_classes_of_a_model_are_reported(gpcanet, blocks):
    common = ["classify", *blocks, "-q"]
    assert gpcanet(*common, "-a", 10, "--save-model", "m.safetensors").code == 0
    table = pd.read_csv(blocks[1])
    table.assign(label="other").to_csv("other.csv", index=False)
    files = ["-f", "other.csv", "-e", blocks[3], "-o", "p.csv"]
    ended = gpcanet("classify", *files, "--model", "m.safetensors")
    assert ended.code == 0
    text = " ".join((ended.out + ended.err).split())
    assert "no report: no label, such as 'other', is a class of the model, such as 'alpha'" in text
    assert len(pd.read_csv("p.csv")) == len(table)
