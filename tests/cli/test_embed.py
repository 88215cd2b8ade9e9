"""gpcanet embed writes the embedding that GPCA computes."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from command import read_table, write_blocks
from own_files import N_NODES, make_source, write, write_edges, write_features, write_labels

from gpcanet import GPCA, Graph, load_model, save_model
from gpcanet.datasets import load

IDS = np.array([f"paper {i:03d}" for i in range(N_NODES)], object)


def read_embedding(path):
    """Ids and numbers of any of the formats."""
    if path.suffix == ".npz":
        with np.load(path) as arrays:
            return arrays["node_ids"].tolist(), arrays["embedding"]
    table = read_table(path)
    numbers = [table[name].to_numpy() for name in table.column_names[1:]]
    return table["id"].to_pylist(), np.stack(numbers, axis=1)


def write_files(source, features="csv", edges="csv"):
    return [
        "--features", write_features(source, Path(f"features.{features}")),
        "--edges", write_edges(source, Path(f"edges.{edges}")),
    ]  # fmt: skip


def embed(source, y=None, **parameters):
    return GPCA(**parameters).fit_transform(source.X, y, graph=Graph(source.adjacency))


@pytest.mark.parametrize(
    ("features", "edges", "output"),
    [
        ("csv", "csv", "z.parquet"),
        ("parquet", "tsv", "z.csv"),
        ("npz", "parquet", "z.npz"),
        ("npy", "mtx", "z.csv"),
        ("matrix.npz", "pairs.npz", "z.parquet"),
    ],
)
def test_files_give_what_gpca_computes(gpcanet, features, edges, output):
    has_ids = features in ("csv", "parquet", "npz")
    source = make_source(IDS if has_ids else np.arange(N_NODES))
    files = write_files(source, features, edges)
    ended = gpcanet("embed", *files, "-k", 3, "-a", 4, "-o", output)
    assert ended.code == 0, ended.err
    ids, Z = read_embedding(Path(output))
    assert ids == source.ids.tolist()
    np.testing.assert_allclose(Z, embed(source, n_components=3, alpha=4), rtol=0, atol=1e-12)
    assert ended.out.startswith(f"30 nodes in 3 dimensions: {output} (")
    assert "30 nodes, 60 edges" in ended.err


def test_dataset_by_name_gives_what_gpca_computes(gpcanet):
    data = load("digits")
    assert gpcanet("embed", "digits", "-k", 4, "-o", "z.npz").code == 0
    ids, Z = read_embedding(Path("z.npz"))
    assert ids == list(range(data.graph.n_nodes))
    np.testing.assert_array_equal(Z, GPCA(4).fit_transform(data.X, graph=data.graph))


@pytest.mark.parametrize(
    ("options", "parameters"),
    [
        (["--alpha", "0.5"], {"alpha": 0.5}),
        (["--components", "2"], {"n_components": 2}),
        (["--normalization", "rw"], {"normalization": "rw"}),
        (["--iterations", "2"], {"solver": "fixed-point", "n_iter": 2}),
        (["--beta", "0.3", "--labels", "labels.csv"], {"beta": 0.3}),
    ],
)
def test_every_option_reaches_gpca(gpcanet, options, parameters):
    source = make_source(IDS)
    files = write_files(source)
    write_labels(source, Path("labels.csv"))
    assert gpcanet("embed", *files, *options, "-o", "z.csv").code == 0
    y = np.unique(source.labels.tolist(), return_inverse=True)[1]
    Z, plain = read_embedding(Path("z.csv"))[1], embed(source)
    np.testing.assert_allclose(Z, embed(source, y, **parameters), rtol=0, atol=1e-12)
    assert Z.shape != plain.shape or np.abs(Z - plain).max() > 1e-3


def test_ghost_edges_come_only_from_training_labels(gpcanet):
    data = load("digits")
    assert gpcanet("embed", "digits", "-k", 3, "-b", 0.5, "-o", "z.npz").code == 0
    fit = GPCA(3, beta=0.5).fit_transform
    Z = read_embedding(Path("z.npz"))[1]
    train = np.full_like(data.y, -1)
    train[data.train] = data.y[data.train]
    np.testing.assert_array_equal(Z, fit(data.X, train, graph=data.graph))
    for y in (data.visible_labels(), data.y):
        assert np.abs(Z - fit(data.X, y, graph=data.graph)).max() > 1e-3


def test_validation_and_test_labels_of_files_do_not_change_the_embedding(gpcanet):
    source = make_source(IDS)
    files = write_files(source)
    split = np.resize(["train", "validation", "test"], N_NODES)
    embeddings = []
    for seed in range(3):
        other = np.random.default_rng(seed).choice(["red", "green", "blue"], N_NODES)
        labels = np.where(split == "train", source.labels.astype(str), other)
        write({"id": IDS, "label": labels, "split": split}, Path("labels.csv"))
        options = ["--labels", "labels.csv", "-b", 0.3, "-o", "z.csv", "--force"]
        assert gpcanet("embed", *files, *options).code == 0
        embeddings.append(Path("z.csv").read_bytes())
    assert len(set(embeddings)) == 1


def test_saved_model_gives_the_same_bytes_and_accepts_other_files(gpcanet):
    source = make_source(IDS)
    files = write_files(source)
    write_labels(source, Path("labels.csv"))
    known = [*files, "--labels", "labels.csv"]
    fitted = gpcanet("embed", *known, "-b", 0.3, "-o", "fit.csv", "--save-model", "m.safetensors")
    assert fitted.code == 0, fitted.err
    assert "fit.csv, m.safetensors (" in fitted.out
    assert gpcanet("embed", *known, "--model", "m.safetensors", "-o", "again.csv").code == 0
    assert Path("again.csv").read_bytes() == Path("fit.csv").read_bytes()
    y = np.unique(source.labels.tolist(), return_inverse=True)[1]
    Z = read_embedding(Path("again.csv"))[1]
    np.testing.assert_allclose(Z, embed(source, y, beta=0.3), rtol=0, atol=1e-12)

    other = make_source(np.array([f"other {i}" for i in range(30)], object))
    moved = write_files(other)
    assert gpcanet("embed", *moved, "--model", "m.safetensors", "-o", "other.csv").code == 0
    assert read_embedding(Path("other.csv"))[0][0] == "other 0"
    foreign = write_blocks(Path(), name="foreign")
    ended = gpcanet("embed", *foreign, "--model", "m.safetensors", "-o", "z.csv")
    assert "foreign lacks the feature 'f0' that the model needs" in ended.complaint_after_notes
    assert not Path("z.csv").exists()


def test_model_alone_may_be_saved(gpcanet):
    source = make_source(IDS)
    ended = gpcanet("embed", *write_files(source), "-k", 2, "--save-model", "m.safetensors")
    assert ended.code == 0
    model = load_model("m.safetensors")
    assert model.feature_names_in_.tolist() == ["f0", "f1", "f2", "f3", "f4"]
    del model.feature_names_in_  # an array has no names to compare
    Z = model.transform(source.X, graph=Graph(source.adjacency))
    np.testing.assert_allclose(Z, embed(source, n_components=2), rtol=0, atol=1e-12)
    assert sorted(path.name for path in Path().glob("m*")) == ["m.safetensors"]


# -- what is said, and where -------------------------------------------------------------------


@pytest.fixture
def directed():
    """A matrix with an edge one way only, about which Graph warns."""
    np.save("x.npy", np.random.default_rng(0).normal(size=(6, 3)))
    sp.save_npz("a.npz", sp.csr_array(np.eye(6, k=1)))
    return ["embed", "--features", "x.npy", "--edges", "a.npz", "-o", "z.csv"]


@pytest.mark.filterwarnings("ignore::gpcanet.GraphWarning")
def test_fixed_iterations_give_no_residual_and_objective(gpcanet, directed):
    values = json.loads(gpcanet(*directed, "--json", "--iterations", "5").out)
    assert values["iterations"] == 5
    assert not {"residual", "objective"} & set(values)


@pytest.mark.filterwarnings("always::gpcanet.GraphWarning")
def test_json_is_one_object_and_warnings_go_elsewhere(gpcanet, directed):
    ended = gpcanet(*directed, "--json")
    assert ended.code == 0
    assert ended.out.count("\n") == 1
    values = json.loads(ended.out)
    sizes = [values[name] for name in ("nodes", "edges", "features", "components")]
    assert sizes == [6, 5, 3, 3]
    assert (values["alpha"], values["beta"], values["written"]) == (10.0, 0.0, ["z.csv"])
    assert 0 <= values["residual"] < 1e-6
    assert values["objective"] > 0
    assert set(values["seconds"]) == {"reading", "embedding", "writing"}
    note = next(line for line in ended.err.splitlines() if line.startswith("note: "))
    assert "symmetric" in note or "one way" in note or "directed" in note
    assert ".py" not in ended.err


@pytest.mark.filterwarnings("always::gpcanet.GraphWarning")
def test_quiet_prints_nothing_but_the_result(gpcanet, directed):
    ended = gpcanet(*directed, "--quiet")
    assert ended.err == ""
    assert ended.out.count("\n") == 1
    ended = gpcanet(*directed, "--quiet", "--json", "--force")
    assert ended.err == ""
    assert json.loads(ended.out)["nodes"] == 6


def test_names_with_brackets_and_colons_are_shown_as_they_are(gpcanet):
    name = "z [bold] :smile: x.csv"
    ended = gpcanet("embed", *write_files(make_source(IDS)), "-k", 2, "-o", name)
    assert name in ended.out
    assert Path(name).exists()


# -- refused before the work -------------------------------------------------------------------


@pytest.fixture
def never_loaded(monkeypatch):
    """Fail if any data is read."""

    def load(self, console):
        raise AssertionError("data was loaded")

    monkeypatch.setattr("gpcanet.cli.options.Input.load", load)


@pytest.mark.usefixtures("never_loaded")
@pytest.mark.parametrize("command", ["embed", "classify"])
@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["-o", "old.csv"], "old.csv exists; choose another name or use --force to replace it"),
        (["--save-model", "old.safetensors"], "old.safetensors exists"),
        (["-o", "folder.csv", "--force"], "folder.csv is a folder"),
        (["-o", "nowhere/z.csv"], "folder nowhere does not exist"),
        (["-o", "z.xlsx"], "z.xlsx: results must be a .parquet, .csv, .csv.gz, .npz, .h5ad file"),
        (["-o", "z"], "z: results must be a"),
        (["-o", "z.csv", "--save-model", "z.csv"], "z.csv: models are saved as .safetensors"),
        (["-o", "z.csv", "--model", "a", "--save-model", "b"], "give one"),
        (["-o", "z.csv", "--model", "nowhere.safetensors"], "nowhere.safetensors is not a file"),
        (["-o", "z.csv", "--model", "old.csv"], "old.csv is not a model of GPCANet, or is damaged"),
        (["-o", "z.csv", "--alpha", "-1"], "--alpha -1.0 must be"),
        (["-o", "z.csv", "--beta", "1.5"], "--beta 1.5 must be"),
        (["-o", "z.csv", "--normalization", "both"], "--normalization 'both' must be"),
    ],
)
def test_bad_options_are_an_error_before_loading(gpcanet, command, options, reason):
    Path("old.csv").write_text("old")
    Path("old.safetensors").write_text("old")
    Path("folder.csv").mkdir()
    assert reason in gpcanet(command, "digits", *options).complaint
    assert Path("old.csv").read_text() == "old"
    assert sorted(path.name for path in Path().iterdir()) == [
        "folder.csv",
        "old.csv",
        "old.safetensors",
    ]


@pytest.mark.parametrize(
    ("args", "reason"),
    [
        (["digits"], "nothing to write: give --output, --save-model or both"),
        (["-o", "z.csv"], "give the name of a dataset, or --features and --edges"),
        (["--edges", "e.csv", "-o", "z.csv"], "give the name of a dataset, or --features"),
        (["digits", "--edges", "e.csv", "-o", "z.csv"], "dataset (digits) or files (e.csv)"),
        (
            ["digits", "--neighbors", "3", "-o", "z.csv"],
            "--neighbors applies to files only; leave it out for the dataset digits",
        ),
        (["dig", "-o", "z.csv"], "dataset 'dig' is unknown; use one of cora, citeseer"),
        (["cora", "-o", "z.csv"], "cora"),  # not to be had without a network
        (["digits", "-o", "z.csv", "extra"], "extra"),
        (["digits", "-o"], "Option '-o' requires an argument; see gpcanet"),
        (["digits", "-k", "many", "-o", "z.csv"], "--components"),
    ],
)
def test_contradictory_arguments_give_one_line(gpcanet, args, reason):
    assert reason in gpcanet("embed", *args).complaint
    assert list(Path().iterdir()) == []


def test_force_replaces(gpcanet):
    files = write_files(make_source(IDS))
    Path("z.csv").write_text("old")
    Path("m.safetensors").write_text("old")
    outputs = ["-o", "z.csv", "--save-model", "m.safetensors", "--force"]
    assert gpcanet("embed", *files, *outputs).code == 0
    assert len(read_embedding(Path("z.csv"))[0]) == N_NODES
    load_model("m.safetensors")


@pytest.mark.usefixtures("small_search")
def test_other_and_damaged_models_are_refused(gpcanet):
    source = make_source(IDS)
    assert gpcanet("classify", *write_blocks(Path()), "--save-model", "c.safetensors").code == 0
    save_model(GPCA(2).fit(source.X), "e.safetensors")
    damaged = bytearray(Path("e.safetensors").read_bytes())
    damaged[-3] ^= 1
    Path("d.safetensors").write_bytes(damaged)
    shutil.copy("e.safetensors", "short.safetensors")
    with open("short.safetensors", "r+b") as file:
        file.truncate(200)
    for command, model, reason in [
        ("embed", "c", "c.safetensors is a GPCAClassifier; use gpcanet classify"),
        ("classify", "e", "e.safetensors is a GPCA; use gpcanet embed"),
        ("embed", "d", "d.safetensors is damaged"),
        ("embed", "short", "short.safetensors is not a model of GPCANet, or is damaged"),
    ]:
        options = ["--model", f"{model}.safetensors", "-o", "z.csv"]
        assert reason in gpcanet(command, "digits", *options).complaint


def test_embedding_is_the_same_within_a_memory_limit(gpcanet, monkeypatch):
    monkeypatch.setattr("gpcanet.files.arrays.MAPPED_BYTES", 0)
    source = make_source(np.arange(N_NODES))
    files = write_files(source, "npy", "mtx")
    options = ["-k", 3, "--memory-limit", 40 * 2**20 + 5000]
    ended = gpcanet("embed", *files, *options, "-o", "z.npz", "--save-model", "m.safetensors")
    assert ended.code == 2  # a number alone has no unit
    options[-1] = "41951040B"
    ended = gpcanet("embed", *files, *options, "-o", "z.npz", "--save-model", "m.safetensors")
    assert ended.code == 0, ended.err
    Z = read_embedding(Path("z.npz"))[1]
    np.testing.assert_allclose(Z, embed(source, n_components=3), rtol=0, atol=1e-12)
    again = gpcanet(
        "embed", *files, "--model", "m.safetensors", "-o", "y.npz", "--memory-limit", "1MiB", "-q"
    )
    assert again.complaint == "--memory-limit 1MiB is too small for this fit; use at least 41 MiB"
    again = gpcanet("embed", *files, "-o", "y.npz", "--memory-limit", "1KiB", "-q")
    assert again.complaint.startswith("--memory-limit 1KiB is too small for this fit; use at least")


def test_half_precision_equals_the_estimator(gpcanet):
    source = make_source(np.arange(N_NODES))
    files = write_files(source, "npy", "mtx")
    ended = gpcanet("embed", *files, "-k", 3, "--precision", "half", "-o", "z.npz")
    assert ended.code == 0, ended.err
    expected = embed(source, n_components=3, precision="half")
    np.testing.assert_array_equal(read_embedding(Path("z.npz"))[1], expected)
    assert "--precision 'double'" in gpcanet(
        "embed", *files, "--precision", "double", "-o", "y.npz"
    ).complaint  # fmt: skip
