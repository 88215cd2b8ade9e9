"""gpcanet regress: predictions, report, saved models and errors; --metric of classify."""

import json
from pathlib import Path

import numpy as np
import pytest
import sklearn.metrics
from command import read_table, write_blocks
from own_files import write

from gpcanet import GPCARegressor
from gpcanet.cli.reports import CLASS_METRICS, NUMBER_METRICS, scores
from gpcanet.files import load_files

N = 60
RNG = np.random.default_rng(0)
IDS = np.array([f"house {i}" for i in range(N)])
X = RNG.normal(size=(N, 3))
PRICES = 3 * X[:, 0] - X[:, 1] + 100 + 0.3 * RNG.normal(size=N)
UNKNOWN = np.arange(N) % 6 == 0


@pytest.fixture
def houses(tmp_path):
    """Features with a column of prices, some of them empty, and a ring of edges."""
    prices = [None if unknown else price for price, unknown in zip(PRICES, UNKNOWN, strict=True)]
    columns = {"id": IDS, "price": prices} | {f"x{i}": x for i, x in enumerate(X.T)}
    features = write(columns, tmp_path / "houses.csv")
    edges = write({"source": IDS, "target": np.roll(IDS, 1)}, tmp_path / "streets.csv")
    return ["--features", features, "--edges", edges, "--label", "price"]


def read_values(path):
    table = read_table(Path(path))
    assert table.column_names == ["id", "predicted"]
    return table["id"].to_pylist(), table["predicted"].to_numpy()


def fitted(y, **parameters):
    graph = np.roll(np.eye(N), 1, axis=0)
    return GPCARegressor(**parameters).fit(X, y, graph=graph + graph.T)


def test_predictions_use_all_values_and_the_report_uses_held_out_ones(gpcanet, houses):
    ended = gpcanet("regress", *houses, "--json", "-o", "p.csv", "--save-model", "m.safetensors")
    assert ended.code == 0, ended.err
    values = json.loads(ended.out)
    y = np.where(UNKNOWN, np.nan, PRICES)
    ids, predicted = read_values("p.csv")
    assert ids == IDS.tolist()
    np.testing.assert_allclose(predicted, fitted(y).fitted_values_, atol=1e-6)
    report = values["report"]
    assert report["n_nodes"] == 10
    assert report["metric"] == "r2"
    assert report["score"] == report["r2"] > 0.9
    assert report["mean_alone"]["r2"] < 0.1
    assert values["labelled"] == 50
    assert sum(member["weight"] for member in values["selected"]["members"]) > 0.5
    again = gpcanet("regress", *houses, "--model", "m.safetensors", "-o", "again.csv")
    assert again.code == 0, again.err
    np.testing.assert_allclose(read_values("again.csv")[1], predicted, atol=1e-4)


def test_report_is_that_of_a_fit_without_the_held_out_values(gpcanet, houses):
    split = np.where(np.arange(N) % 3 == 1, "test", "train")
    table = read_table(Path(houses[1]))
    columns = {name: table[name] for name in table.column_names} | {"split": split}
    write(columns, Path(houses[1]))
    ended = gpcanet("regress", *houses, "--json", "--metric", "mae", "-o", "p.npz")
    report = json.loads(ended.out)["report"]
    test = (split == "test") & ~UNKNOWN
    model = fitted(np.where(UNKNOWN | test, np.nan, PRICES))
    truth, predicted = PRICES[test], model.fitted_values_[test]
    assert report["n_nodes"] == test.sum()
    assert report["r2"] == pytest.approx(sklearn.metrics.r2_score(truth, predicted), abs=1e-6)
    assert report["score"] == report["mae"]
    assert report["mae"] == pytest.approx(np.mean(np.abs(truth - predicted)), rel=1e-4)
    assert report["rmse"] == pytest.approx(np.sqrt(np.mean((truth - predicted) ** 2)), rel=1e-4)
    with np.load("p.npz") as written:
        np.testing.assert_allclose(written["predicted"], model.fitted_values_, atol=1e-6)
        assert written["node_ids"].tolist() == IDS.tolist()


def test_values_in_a_file_of_their_own_in_another_order(gpcanet, houses, tmp_path):
    known = np.flatnonzero(~UNKNOWN)[::-1]
    labels = write({"id": IDS[known], "price": PRICES[known]}, tmp_path / "prices.parquet")
    gpcanet("regress", *houses, "-o", "one.csv")
    features = read_table(Path(houses[1])).drop_columns(["price"])
    write({name: features[name] for name in features.column_names}, Path(houses[1]))
    ended = gpcanet("regress", *houses[:4], "--labels", labels, "-o", "two.csv")
    assert ended.code == 0, ended.err
    np.testing.assert_allclose(read_values("one.csv")[1], read_values("two.csv")[1], atol=1e-9)


def test_minus_one_is_a_value_and_words_for_missing_ones_are_not(tmp_path):
    table = {"id": IDS, "y": [["-1", "", "NA", "2.5", "nan", "1e3"][i % 6] for i in range(N)]}
    table |= {"x": X[:, 0]}
    features = write(table, tmp_path / "f.csv")
    edges = write({"source": IDS, "target": np.roll(IDS, 1)}, tmp_path / "e.csv")
    data = load_files(features, edges, label_column="y", numeric_labels=True)
    np.testing.assert_array_equal(data.targets[:6], [-1, np.nan, np.nan, 2.5, np.nan, 1000])
    assert "30 nodes labelled, in 3 distinct values" in data.notes
    as_numbers = write(table | {"y": np.where(UNKNOWN, np.nan, PRICES)}, tmp_path / "g.parquet")
    data = load_files(as_numbers, edges, label_column="y", numeric_labels=True)
    np.testing.assert_array_equal(data.targets, np.where(UNKNOWN, np.nan, PRICES))
    integers = write(table | {"y": np.arange(N)}, tmp_path / "h.parquet")
    data = load_files(integers, edges, label_column="y", numeric_labels=True)
    np.testing.assert_array_equal(data.targets, np.arange(N))


def test_new_nodes_are_predicted_by_a_saved_model(gpcanet, houses, tmp_path):
    saved = ["--save-model", "m.safetensors", "--keep-training-nodes"]
    assert gpcanet("regress", *houses, *saved).code == 0
    features = write({"id": ["new"], "x0": [1.0], "x1": [0.0], "x2": [0.0]}, tmp_path / "new.csv")
    edges = write({"source": ["new"], "target": ["house 3"]}, tmp_path / "new-edges.csv")
    new = ["--features", features, "--edges", edges]
    ended = gpcanet("regress", *new, "--model", "m.safetensors", "-o", "p.csv")
    assert ended.code == 0, ended.err
    ids, predicted = read_values("p.csv")
    assert ids == ["new"]
    assert predicted[0] == pytest.approx(103, abs=1.5)  # 3 x0 - x1 + 100


def test_human_output(gpcanet, houses):
    ended = gpcanet("regress", *houses, "--metric", "rmse")
    assert ended.code == 0
    assert ended.out.startswith("rmse 0.")
    assert "on 10 nodes with held-out values" in ended.out
    assert "mean alone" in ended.out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--metric", "accuracy"], "--metric 'accuracy' must be"),
        (["--test-share", "1"], "--test-share 1.0 must be at least 0 and less than 1"),
        (["--alpha", "-1"], "--alpha -1.0 must be in [0, 1e+06]"),
        (["--model", "m.safetensors", "-k", "3"], "has its own settings; leave out --components"),
    ],
)
def test_wrong_options(gpcanet, houses, options, message):
    assert message in gpcanet("regress", *houses, *options).complaint_after_notes


def test_errors_in_the_data_name_the_line(gpcanet, houses):
    text = Path(houses[1]).read_text().replace(str(PRICES[1]), "cheap")
    Path(houses[1]).write_text(text)
    complaint = gpcanet("regress", *houses).complaint
    assert "line 3: 'cheap' in column 'price' is not a finite number; leave the cell" in complaint
    Path(houses[1]).write_text(text.replace("cheap", "inf"))
    assert "'inf' in column 'price' is not a finite number" in gpcanet("regress", *houses).complaint


def test_without_any_value(gpcanet, houses):
    complaint = gpcanet("regress", *houses[:4], "--ignore", "price").complaint_after_notes
    assert "no node has a label" in complaint


def test_a_dataset_with_classes_is_refused(gpcanet):
    complaint = gpcanet("regress", "digits").complaint_after_notes
    assert complaint == "digits has classes, not numbers; use gpcanet classify"


def test_models_of_other_commands_are_refused(gpcanet, houses, tmp_path):
    gpcanet("regress", *houses, "--save-model", "r.safetensors")
    gpcanet("embed", *houses[:4], "--ignore", "price", "--save-model", "e.safetensors")
    complaint = gpcanet("regress", *houses, "--model", "e.safetensors").complaint
    assert complaint == "e.safetensors is a GPCA; use gpcanet embed"
    for command in ("classify", "embed"):
        files = [*houses[:4], "--model", "r.safetensors", "-o", "z.csv"]
        complaint = gpcanet(command, *files).complaint
        assert complaint == "r.safetensors is a GPCARegressor; use gpcanet regress"


def test_classify_refuses_fractions_and_names_regress(gpcanet, houses):
    assert "use gpcanet regress to predict numbers" in gpcanet("classify", *houses).complaint


# -- metrics -----------------------------------------------------------------------------------


def test_metrics_of_classes_equal_those_of_scikit_learn():
    rng = np.random.default_rng(0)
    truth, P = rng.integers(0, 3, 80), rng.dirichlet([1, 1, 1], 80)
    found = scores(CLASS_METRICS, truth, P)
    predicted = P.argmax(axis=1)
    assert found["accuracy"] == pytest.approx(sklearn.metrics.accuracy_score(truth, predicted))
    expected = sklearn.metrics.f1_score(truth, predicted, average="macro")
    assert found["macro-f1"] == pytest.approx(expected)
    expected = sklearn.metrics.roc_auc_score(truth, P, multi_class="ovr")
    assert found["roc-auc"] == pytest.approx(expected)
    assert found["log-loss"] == pytest.approx(sklearn.metrics.log_loss(truth, P))
    two = P[:, :2] / P[:, :2].sum(axis=1, keepdims=True)
    found = scores(CLASS_METRICS, np.minimum(truth, 1), two)
    expected = sklearn.metrics.roc_auc_score(np.minimum(truth, 1), two[:, 1])
    assert found["roc-auc"] == pytest.approx(expected)


def test_undefined_scores_are_none():
    assert scores(CLASS_METRICS, np.zeros(3, int), np.full((3, 2), 0.5))["roc-auc"] is None
    assert scores(NUMBER_METRICS, np.ones(1), np.zeros(1))["r2"] is None


@pytest.mark.usefixtures("small_search")
def test_metric_of_classify(gpcanet, tmp_path):
    blocks = write_blocks(tmp_path, signal=0.7)
    report = json.loads(gpcanet("classify", *blocks, "--json", "--metric", "roc-auc").out)["report"]
    assert report["metric"] == "roc-auc"
    assert report["score"] == report["scores"]["roc-auc"]
    assert report["scores"]["accuracy"] == report["accuracy"]
    assert gpcanet("classify", *blocks, "--metric", "log-loss").out.startswith("log-loss 0.")
    assert "--metric 'r2' must be" in gpcanet("classify", *blocks, "--metric", "r2").complaint
