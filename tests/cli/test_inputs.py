"""Folders, patterns, standard input, categories and h5ad files on the command line."""

import gzip
import io
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from command import process, read_table, write_blocks

from gpcanet import GPCA


@pytest.fixture
def blocks(tmp_path):
    """Features with labels, and edges; paths as text."""
    _, features, _, edges = write_blocks(Path())
    return str(features), str(edges)


@pytest.fixture
def pipe(monkeypatch):
    """Set standard input."""

    def set_input(content):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))

    return set_input


def embedding(gpcanet, *options, features, edges, name="z.csv"):
    ended = gpcanet("embed", "-f", features, "-e", edges, "-k", 2, "-o", name, "--force", *options)
    assert ended.code == 0, ended.err
    return Path(name).read_bytes(), ended.err


def test_folders_and_patterns_equal_one_file(gpcanet, blocks):
    features, edges = blocks
    expected, _ = embedding(gpcanet, features=features, edges=edges)
    Path("parts").mkdir()
    table = read_table(Path(features)).to_pandas()
    for number in range(3):
        table.iloc[12 * number : 12 * number + 12].to_csv(f"parts/{number}.csv", index=False)
    for path in ("parts", "parts/*.csv", "p?rts"):
        found, notes = embedding(gpcanet, features=path, edges=edges)
        assert found == expected
        assert "36 nodes" in notes


@pytest.mark.parametrize("output", ["parts/z.csv", "parts/deep/z.csv", "parts/0.csv"])
@pytest.mark.parametrize("pattern", ["parts", "parts/**/*.csv"])
def test_outputs_among_the_inputs_are_refused(gpcanet, blocks, output, pattern):
    features, edges = blocks
    Path("parts/deep").mkdir(parents=True)
    Path("parts/0.csv").write_bytes(Path(features).read_bytes())
    ended = gpcanet("embed", "-f", pattern, "-e", edges, "-o", output, "--force")
    assert f"{output} would be one of the input files" in ended.complaint
    assert Path("parts/0.csv").read_bytes() == Path(features).read_bytes()


def test_unquoted_patterns_get_a_hint(gpcanet, blocks):
    features, edges = blocks
    ended = gpcanet("embed", "-f", features, features, "-e", edges, "-o", "z.csv")
    assert ended.complaint.endswith("not both; put quotes around a pattern of files")
    ended = gpcanet("embed", "-f", features, features, features, "-e", edges, "-o", "z.csv")
    assert ended.complaint.endswith("put a pattern of files in quotes")


# -- standard input -----------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["csv", "gzip", "parquet"])
@pytest.mark.parametrize("option", ["features", "edges"])
def test_standard_input_equals_a_file(gpcanet, blocks, pipe, kind, option):
    given = dict(zip(("features", "edges"), blocks, strict=True))
    expected, _ = embedding(gpcanet, **given)
    path = Path(given[option])
    table = read_table(path).to_pandas()
    content = table.to_parquet(index=False) if kind == "parquet" else table.to_csv(index=False)
    content = content if kind == "parquet" else content.encode()
    pipe(gzip.compress(content) if kind == "gzip" else content)
    assert embedding(gpcanet, **given | {option: "-"})[0] == expected


def test_standard_input_as_a_process(blocks):
    edges = blocks[1]
    command = [sys.executable, "-m", "gpcanet", "embed", "-f", "-", "-e", edges, "-o", "z.csv"]
    done = subprocess.run(command, input=b"id,a\nx,oops\ny,2\n", capture_output=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith(b"gpcanet: standard input, line 2: 'oops' in column 'a' is not")


def test_wrong_standard_input_is_refused(gpcanet, blocks, pipe):
    edges = blocks[1]
    pipe(b"")
    assert "(-) is empty" in gpcanet("embed", "-f", "-", "-e", edges, "-o", "z.csv").complaint
    ended = gpcanet("embed", "-f", "-", "-e", "-", "-o", "z.csv")
    assert "--features and --edges are both standard input" in ended.complaint
    pipe(b"\x93NUMPYxxxxxxxxxxxxxxxxxxxx")
    ended = gpcanet("embed", "-f", "-", "-e", edges, "-o", "z.csv")
    assert "standard input is not a readable npy file" in ended.complaint


# -- categories ---------------------------------------------------------------------------


def test_model_finds_its_categories_in_other_files(gpcanet, blocks):
    features, edges = blocks
    table = pd.read_csv(features)
    table["kind"] = ["u", "v"] * 15 + ["w"] * 6
    table.to_csv("x.csv", index=False)
    options = ["embed", "-e", edges, "--ignore", "label"]
    first = ["-f", "x.csv", "--one-hot", "kind", "-o", "z.csv", "--save-model", "m.safetensors"]
    assert gpcanet(*options, *first, "-k", 3).code == 0
    names = ["x0", "x1", "x2", "kind=u", "kind=v", "kind=w"]
    X = pd.get_dummies(table[["x0", "x1", "x2", "kind"]], prefix_sep="=")
    assert X.columns.tolist() == names
    fewer = table[table["kind"] != "w"]
    fewer.to_csv("fewer.csv", index=False)
    apply = [*options, "--model", "m.safetensors", "--drop-unknown", "-o", "y.csv", "-f"]
    ended = gpcanet(*apply, "fewer.csv")
    assert ended.code == 0, ended.err
    assert len(pd.read_csv("y.csv")) == len(fewer)
    table.assign(kind="new").to_csv("new.csv", index=False)
    ended = gpcanet(*apply, "new.csv", "--force")
    assert "new.csv, line 2: 'new' in column 'kind' is not a category" in (
        ended.complaint_after_notes
    )


def test_text_feature_names_the_option(gpcanet, blocks):
    features, edges = blocks
    table = pd.read_csv(features).assign(kind="u")
    table.to_csv("x.csv", index=False)
    ended = gpcanet("embed", "-f", "x.csv", "-e", edges, "-o", "z.csv")
    assert (
        "'u' in column 'kind' is not a number; correct it, ignore the column, one-hot encode it"
        in (ended.complaint)
    )


# -- h5ad ---------------------------------------------------------------------------------


@pytest.fixture
def cells(blocks):
    anndata = pytest.importorskip("anndata")
    features, _ = blocks
    table = pd.read_csv(features, index_col="id")
    adata = anndata.AnnData(table.filter(like="x").to_numpy(), obs=table[["label"]])
    ring = sp.csr_matrix(np.roll(np.eye(36), 1, axis=0))
    adata.obsp["spatial_connectivities"] = (ring + ring.T).tocsr()
    adata.layers["double"] = 2 * adata.X
    adata.obsm["pair"] = adata.X[:, :2]
    adata.uns["kept"] = "yes"
    adata.write_h5ad("cells.h5ad")
    return adata


@pytest.mark.parametrize(
    ("options", "features"),
    [
        ([], lambda cells: cells.X),
        (["--layer", "double"], lambda cells: cells.layers["double"]),
        (["--obsm", "pair"], lambda cells: cells.obsm["pair"]),
        (["--obsp", "spatial_connectivities"], lambda cells: cells.X),
    ],
)
def test_parts_of_an_h5ad_file(gpcanet, cells, options, features):
    import anndata

    ended = gpcanet("embed", "-f", "cells.h5ad", "-k", 2, "-o", "out.h5ad", *options)
    assert ended.code == 0, ended.err
    named = "edges are obsp['spatial_connectivities']" in ended.err
    assert named is ("--obsp" not in options)
    found = anndata.read_h5ad("out.h5ad")
    expected = GPCA(2).fit_transform(features(cells), graph=cells.obsp["spatial_connectivities"])
    np.testing.assert_allclose(found.obsm["X_gpca"], expected, atol=1e-6)
    np.testing.assert_array_equal(found.layers["double"], cells.layers["double"])
    assert found.uns["kept"] == "yes"
    assert found.obs_names.tolist() == cells.obs_names.tolist()


def test_an_embedding_replaces_all_parts_of_an_earlier_one(gpcanet, cells):
    import anndata

    from gpcanet.integrations.anndata import gpca

    for name in ("X_gpca", "another"):
        gpca(cells, 3, neighbors_key="spatial_connectivities", key_added=name)
    cells.write_h5ad("cells.h5ad")
    assert gpcanet("embed", "-f", "cells.h5ad", "-k", 2, "-o", "out.h5ad").code == 0
    found = anndata.read_h5ad("out.h5ad")
    assert found.obsm["X_gpca"].shape == (36, 2)
    assert list(found.varm) == ["another"]
    assert sorted(found.uns) == ["another", "kept"]


def test_other_graphs_are_named(gpcanet, cells):
    cells.obsp["connectivities"] = sp.identity(36, format="csr")[::-1]
    cells.write_h5ad("cells.h5ad")
    ended = gpcanet("embed", "-f", "cells.h5ad", "-k", 2, "-o", "z.csv")
    assert "edges are obsp['connectivities']; obsp also has 'spatial_connectivities'" in ended.err
    del cells.obsp["connectivities"]
    cells.obsp["knn"] = cells.obsp["spatial_connectivities"]
    del cells.obsp["spatial_connectivities"]
    cells.write_h5ad("cells.h5ad")
    ended = gpcanet("embed", "-f", "cells.h5ad", "-k", 2, "-o", "z2.csv")
    assert "has no obsp['connectivities']; name one of 'knn' as obsp" in ended.complaint
    ended = gpcanet("embed", "-f", "cells.h5ad", "-k", 2, "-o", "z2.csv", "--obsp", "no")
    assert ended.complaint == "cells.h5ad has no obsp['no']; name one of 'knn'"
    features = "blocks.csv"
    ended = gpcanet("embed", "-f", features, "-e", "blocks-edges.parquet", "-o", "z", "--obsm", "a")
    assert ended.code == 2


@pytest.mark.usefixtures("small_search")
def test_predictions_in_an_h5ad_file(gpcanet, cells, blocks):
    import anndata

    features, edges = blocks
    options = ["-o", "new.h5ad", "--label", "label"]
    assert gpcanet("classify", "-f", features, "-e", edges, *options).code == 0
    new = anndata.read_h5ad("new.h5ad")
    ended = gpcanet("classify", "-f", features, "-e", edges, "-o", "table.csv", "--label", "label")
    assert ended.code == 0
    table = pd.read_csv("table.csv", index_col="id")
    assert new.obs_names.tolist() == table.index.tolist()
    assert new.obs["predicted"].tolist() == table["predicted"].tolist()
    classes = new.uns["gpcanet"]["classes"].tolist()
    expected = table[[f"p({name})" for name in classes]]
    np.testing.assert_allclose(new.obsm["probabilities"], expected, rtol=1e-6)
    ended = gpcanet("classify", "-f", "cells.h5ad", "--label", "label", "-o", "copy.h5ad")
    assert ended.code == 0, ended.err
    copied = anndata.read_h5ad("copy.h5ad")
    assert copied.obs["label"].tolist() == cells.obs["label"].tolist()
    assert set(copied.obs["predicted"]) <= set(classes)


def test_output_is_the_input_file_is_refused(gpcanet, cells):
    before = Path("cells.h5ad").read_bytes()
    ended = gpcanet("embed", "-f", "cells.h5ad", "-o", "cells.h5ad", "--force")
    assert "is the same file as the input" in ended.complaint
    assert Path("cells.h5ad").read_bytes() == before


def test_compressed_csv_equals_csv(gpcanet, blocks):
    features, edges = blocks
    plain, _ = embedding(gpcanet, features=features, edges=edges)
    packed, _ = embedding(gpcanet, features=features, edges=edges, name="z.csv.gz")
    assert gzip.decompress(packed) == plain
    again, _ = embedding(gpcanet, features=features, edges=edges, name="z.csv.gz")
    assert again == packed


# -- errors, log, completion, memory --------------------------------------------------------


def test_errors_are_json_where_results_would_be(gpcanet, monkeypatch, blocks):
    features, edges = blocks
    for words, kind in [
        (["embed", "-f", "no\x1b[2J.csv", "-e", edges, "-o", "z.csv"], "DataError"),
        (["embed", "--nope"], "UsageError"),
        (["embed", "-f", features, "-e", edges, "-o", features, "--force"], "InputError"),
    ]:
        ended = gpcanet(*words, "--json")
        error = json.loads(ended.out)["error"]
        assert (ended.code, error["type"], error["exit_code"]) == (2, kind, 2)
        assert "\x1b" not in ended.err + ended.out
    monkeypatch.setattr("gpcanet.cli.embed.run", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        gpcanet("embed", "-f", features, "-e", edges, "-o", "z.csv", "--json")


def test_log_file_has_notes_and_errors_in_one_line_each(gpcanet, blocks):
    features, edges = blocks
    log = ["--log-file", "run.log"]
    command = ["embed", "-f", features, "-e", edges, "-k", 2, "-o", "z.csv"]
    quiet = gpcanet(*command, "-q", *log)
    assert quiet.err == ""
    lines = Path("run.log").read_text().splitlines()
    assert "INFO gpcanet embed -f blocks.csv" in lines[0]
    assert any("36 nodes" in line for line in lines)
    assert any("INFO writing: " in line for line in lines)
    ended = gpcanet(*command, *log)  # the output exists
    more = Path("run.log").read_text().splitlines()
    assert more[: len(lines)] == lines
    assert more[-1].endswith(f"ERROR {ended.complaint}")
    strange = "evil\x1b[31m\nname.csv"
    Path(strange).write_text("id,a\nx,1\n")
    gpcanet("embed", "-f", strange, "-e", edges, "-o", "q.csv", *log)
    assert "\x1b" not in Path("run.log").read_text()
    assert not gpcanet("embed", "-f", "no.csv", "-e", edges, "-o", "q.csv").out
    assert "no.csv" not in Path("run.log").read_text()


@pytest.mark.parametrize("name", ["run.csv", "blocks-edges.parquet", "run"])
def test_log_file_is_no_data_file(gpcanet, blocks, name):
    features, edges = blocks
    before = Path(edges).read_bytes()
    ended = gpcanet("embed", "-f", features, "-e", edges, "-o", "z.csv", "--log-file", name)
    assert ended.complaint == f"--log-file {name} must be a .log or .txt file"
    assert Path(edges).read_bytes() == before


def test_log_file_and_page_are_not_among_the_inputs(gpcanet, blocks):
    features, edges = blocks
    Path("parts").mkdir()
    Path(features).rename("parts/a.csv")
    command = ["explore", "-f", "parts", "-e", edges, "-o"]
    for options, name in (
        (["parts/p.html"], "p.html"),
        (["p", "--log-file", "parts/l.log"], "l.log"),
    ):
        ended = gpcanet(*command, *options)
        assert ended.complaint.startswith(f"parts/{name} would be one of the input files parts;")
    assert [path.name for path in Path("parts").iterdir()] == ["a.csv"]


def test_log_file_of_a_name_that_is_not_utf8(blocks):
    # In a process, because pytest-xdist cannot send a captured log with such a name.
    ended = process("embed", "-f", "caf\udce9.csv", "-o", "z.csv", "--log-file", "run.log")
    assert ended.code == 2
    assert "Logging error" not in ended.err
    assert "caf\\udce9.csv" in Path("run.log").read_text()


def test_shell_completion():
    code = "import sys; from gpcanet.cli import main; sys.argv[0] = 'gpcanet'; main()"
    words = {"COMP_WORDS": "gpcanet cl", "COMP_CWORD": "1"}
    ended = process(code=code, _GPCANET_COMPLETE="complete_bash", **words)
    assert ended.out.split() == ["classify"]
    ended = process("--show-completion", "bash", code=code)
    assert "_GPCANET_COMPLETE=complete_bash" in ended.out, ended.err


def test_free_memory_limits_a_fit(gpcanet, monkeypatch, tmp_path):
    """A fit that needs more than the container has is divided into blocks."""
    rng = np.random.default_rng(0)
    np.save("x.npy", rng.normal(size=(20_000, 120)))
    pairs = np.stack([np.arange(19_999), np.arange(1, 20_000)])
    np.savez("e.npz", edge_index=pairs)
    command = ["embed", "-f", "x.npy", "-e", "e.npz", "-k", 2, "--alpha", 2]
    assert gpcanet(*command, "-o", "all.npz").code == 0
    monkeypatch.setattr("gpcanet.estimators.memory_estimate.available_bytes", lambda: 100 * 2**20)
    monkeypatch.setattr("gpcanet.estimators.memory_estimate.BYTES_OF_CODE", 2**23)
    ended = gpcanet(*command, "-o", "limited.npz")
    assert ended.code == 0, ended.err
    assert "memory is limited to" in ended.err
    found, expected = (np.load(name)["embedding"] for name in ("limited.npz", "all.npz"))
    np.testing.assert_allclose(found, expected, atol=1e-4)
    chosen = gpcanet(*command, "-o", "own.npz", "--memory-limit", "1GiB")
    assert "memory is limited to" not in chosen.err


@pytest.mark.filterwarnings("ignore:Variable names are not unique")
def test_columns_of_a_model_with_names_that_occur_twice(gpcanet, cells):
    import anndata

    cells.var_names = ["A", "B", "A"]
    cells.write_h5ad("twice.h5ad")
    command = ["embed", "-k", 2, "--obsp", "spatial_connectivities", "-q"]
    saved = ["--save-model", "m.safetensors", "-o", "a.npz"]
    assert gpcanet(*command, "-f", "twice.h5ad", *saved).code == 0
    apply = [*command[:1], *command[3:], "--model", "m.safetensors"]
    assert gpcanet(*apply, "-f", "twice.h5ad", "-o", "b.npz").code == 0
    with np.load("a.npz") as fitted, np.load("b.npz") as applied:
        np.testing.assert_array_equal(applied["embedding"], fitted["embedding"])
    anndata.read_h5ad("twice.h5ad")[:, ::-1][:, [1, 0, 2]].write_h5ad("other.h5ad")
    ended = gpcanet(*apply, "-f", "other.h5ad", "-o", "c.npz")
    assert ended.complaint == (
        "other has other features than the model, or in another order, and 'A' names 2 of them; "
        "make the names unique"
    )


def test_ignored_features_of_an_h5ad_file(gpcanet, cells):
    command = ["embed", "-f", "cells.h5ad", "-k", 2, "--json", "-o"]
    ended = gpcanet(*command, "a.npz", "--ignore", cells.var_names[1], "--ignore", "label")
    assert json.loads(ended.out)["features"] == 2
    assert (
        "cells.h5ad has no feature 'no' to ignore"
        in gpcanet(*command, "b.npz", "--ignore", "no").complaint
    )


@pytest.mark.parametrize("option", ["edges", "neighbors"])
def test_a_graph_of_an_h5ad_file_excludes_others(gpcanet, cells, blocks, option):
    value = blocks[1] if option == "edges" else 3
    command = ["embed", "-f", "cells.h5ad", "--obsp", "spatial_connectivities", "-o", "z.npz"]
    ended = gpcanet(*command, f"--{option}", value)
    assert ended.complaint == f"obsp and {option} are both given; give one of them"


def test_ids_of_labels_of_an_h5ad_file(gpcanet, cells):
    labels = pd.DataFrame({"cell": cells.obs_names[::-1], "kind": cells.obs["label"].to_numpy()})
    labels.to_csv("labels.csv", index=False)
    command = [
        "embed",
        "-f",
        "cells.h5ad",
        "-l",
        "labels.csv",
        "--id",
        "cell",
        "-o",
        "z.csv",
        "-k2",
    ]
    assert gpcanet(*command).code == 0
    assert read_table(Path("z.csv"))["cell"].to_pylist() == cells.obs_names.tolist()


def test_imputation_needs_edges(gpcanet, blocks):
    features, _ = blocks
    table = pd.read_csv(features)
    table.loc[4, "x1"] = np.nan
    table.to_csv(features, index=False)
    ended = gpcanet("embed", "-f", features, "--impute", "--neighbors", 2, "-o", "z.csv")
    assert ended.complaint == (
        f"{features}, line 6: a feature is missing; nearest neighbours need all features, and "
        f"--impute needs --edges"
    )


@pytest.mark.parametrize("name", ["gpca0", "predicted", "probability", "p(a)"])
def test_names_of_results_are_refused_before_the_fit(gpcanet, name):
    ended = gpcanet("embed", "-f", "no.csv", "-e", "no.csv", "--id", name, "-o", "z.csv")
    assert ended.complaint.startswith(f"the id column cannot be called {name!r}")
    ended = gpcanet("embed", "-f", "no.csv", "-e", "no.csv", "--id", name, "-o", "z.npz")
    assert ended.complaint.startswith("no.csv does not exist")
