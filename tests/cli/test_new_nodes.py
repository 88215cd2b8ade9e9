"""Saved models that have kept their training nodes, applied to files of new nodes."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command import read_table, write_blocks

from gpcanet import GPCA, GPCAClassifier, Graph, GraphImputer, load_model

NEW = ["new a", "new b", "new c"]


def tables(kind):
    """Features and edges of old and of new nodes, as written by ``write_blocks``."""
    old = pd.read_csv("blocks.csv")
    edges = pd.DataFrame(read_table(Path("blocks-edges.parquet")).to_pandas())
    rng = np.random.default_rng(9)
    new = pd.DataFrame(rng.normal([2, 0, 0], size=(3, 3)), columns=["x0", "x1", "x2"])
    new.insert(0, "id", NEW)
    links = pd.DataFrame({
        "source": ["new a", "new a", "blocks-7", "new b", "new b"],
        "target": ["blocks-3", "blocks-5", "new b", "new a", "blocks-30"],
    })  # fmt: skip
    if kind == "numbers":
        number = {name: i for i, name in enumerate([*old["id"], *NEW])}
        for table, columns in ((old, ["id"]), (new, ["id"]), (edges, ["source", "target"]),
                               (links, ["source", "target"])):  # fmt: skip
            for column in columns:
                table[column] = table[column].map(number)
        old.to_csv("blocks.csv", index=False)
        edges.to_parquet("blocks-edges.parquet")
    new.to_csv("new.csv", index=False)
    links.to_csv("new-edges.csv", index=False)
    return old, edges, new, links


def extended(old, edges, new, links):
    """The whole graph and the rows of all nodes."""
    ids = [*old["id"], *new["id"]]
    graph = Graph.from_edges(pd.concat([edges, links]), nodes=ids)
    columns = ["x0", "x1", "x2"]
    return graph, np.vstack([old[columns], new[columns]])


@pytest.mark.parametrize("kind", ["text", "numbers"])
@pytest.mark.parametrize("beta", [0, 0.3])
def test_embed_writes_the_rows_of_the_new_nodes(gpcanet, kind, beta):
    files = write_blocks(Path())
    old, edges, new, links = tables(kind)
    ended = gpcanet(
        "embed", *files, "-k", 2, "--beta", beta, "--save-model", "m.safetensors",
        "--keep-training-nodes",
    )  # fmt: skip
    assert ended.code == 0, ended.err
    options = ["--model", "m.safetensors", "-f", "new.csv", "-e", "new-edges.csv"]
    ended = gpcanet("embed", *options, "-o", "z.csv")
    assert ended.code == 0, ended.err
    assert f"new: 3 new nodes, {len(links)} edges, " in ended.err
    assert "edges name 4 training nodes of the model" in ended.err
    assert ended.out.startswith("3 nodes in 2 dimensions: z.csv (")
    table = pd.read_csv("z.csv")
    assert table["id"].tolist() == new["id"].tolist()
    n = len(old)
    graph, X = extended(old, edges, new, links)
    model = GPCA(2, beta=beta).fit(X[:n], old["label"], graph=graph.subgraph(np.arange(n)))
    expected = model.transform(X, graph=graph)[n:]
    np.testing.assert_allclose(table[["gpca0", "gpca1"]], expected, atol=1e-5)
    # Files with all old and new nodes give the same.
    pd.concat([new, old[new.columns]]).to_csv("all.csv", index=False)
    pd.concat([links, edges]).to_csv("all-edges.csv", index=False)
    options = ["--model", "m.safetensors", "-f", "all.csv", "-e", "all-edges.csv"]
    assert gpcanet("embed", *options, "-o", "all.npz").code == 0
    np.testing.assert_allclose(np.load("all.npz")["embedding"][:3], expected, atol=1e-5)


@pytest.mark.usefixtures("small_search")
def test_classify_writes_predictions_of_the_new_nodes(gpcanet):
    files = write_blocks(Path())
    old, edges, new, links = tables("text")
    saved = ["--save-model", "m.safetensors", "--keep-training-nodes"]
    assert gpcanet("classify", *files, *saved).code == 0
    new.assign(label=["alpha", "", ""]).to_csv("new.csv", index=False)
    options = ["--model", "m.safetensors", "-f", "new.csv", "-e", "new-edges.csv"]
    ended = gpcanet("classify", *options, "-o", "y.csv", "--json")
    assert ended.code == 0, ended.err
    result = json.loads(ended.out)
    assert result["nodes"] == 3
    assert result["report"]["n_nodes"] == 1
    # The model knows its training nodes, and this is none of them.
    shown = gpcanet("classify", *options).out
    assert " % on 1 labelled node\n" in shown
    table = pd.read_csv("y.csv")
    assert table["id"].tolist() == NEW
    graph, X = extended(old, edges, new, links)
    model = load_model("m.safetensors")
    assert isinstance(model, GPCAClassifier)
    del model.feature_names_in_  # of the files
    expected = model.predict_proba(X, graph=graph)[len(old) :]
    found = table[[f"p({name})" for name in model.classes_]]
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_missing_features_of_new_nodes_use_training_nodes(gpcanet):
    files = write_blocks(Path())
    old, edges, new, links = tables("text")
    saved = ["-k", 2, "--save-model", "m.safetensors", "--keep-training-nodes"]
    assert gpcanet("embed", *files, *saved).code == 0
    new.loc[[0, 2], "x1"] = np.nan
    # Columns in another order: they are matched by name before they are filled in.
    new[["id", "x2", "x1", "x0"]].to_csv("new.csv", index=False)
    options = ["--model", "m.safetensors", "-f", "new.csv", "-e", "new-edges.csv"]
    assert "use --impute" in gpcanet("embed", *options, "-o", "z.csv").complaint
    ended = gpcanet("embed", *options, "--impute", "-o", "z.csv")
    assert ended.code == 0, ended.err
    assert "2 missing features filled in from neighbours" in ended.err
    graph, X = extended(old, edges, new, links)
    filled = GraphImputer().fit(X[: len(old)]).transform(X)
    # new c has no edges, so it gets the mean of the training rows.
    assert filled[-1, 1] == pytest.approx(old["x1"].mean())
    filled = GraphImputer().fit_transform(X, graph=graph)
    filled[-1, 1] = old["x1"].mean()
    model = load_model("m.safetensors")
    del model.feature_names_in_
    expected = model.transform(filled, graph=graph)[len(old) :]
    np.testing.assert_allclose(pd.read_csv("z.csv")[["gpca0", "gpca1"]], expected, atol=1e-5)


def test_new_nodes_need_training_nodes_in_the_model(gpcanet):
    files = write_blocks(Path())
    tables("text")
    assert gpcanet("embed", *files, "--save-model", "m.safetensors").code == 0
    options = ["-f", "new.csv", "-e", "new-edges.csv"]
    ended = gpcanet("embed", "--model", "m.safetensors", *options, "-o", "z.csv")
    assert "line 2: node 'blocks-3' is not in new.csv (4 unknown in all)" in ended.complaint
    advice = "if it is a training node, save the model with --keep-training-nodes"
    assert ended.complaint.endswith(advice)
    ended = gpcanet("embed", *files, "--keep-training-nodes", "-o", "z.csv")
    assert ended.complaint == "--keep-training-nodes applies to a saved model; give --save-model"


def test_a_model_with_training_nodes_is_applied_to_another_graph_as_before(gpcanet):
    files = write_blocks(Path())
    for kept in ([], ["--keep-training-nodes"]):
        name = f"m{len(kept)}.safetensors"
        assert gpcanet("embed", *files, "-k", 2, "--save-model", name, *kept).code == 0
        other = write_blocks(Path(), seed=4, name="other")
        assert gpcanet("embed", *other, "--model", name, "-o", f"z{len(kept)}.csv").code == 0
    assert Path("z0.csv").read_text() == Path("z1.csv").read_text()
    assert Path("m1.safetensors").stat().st_size > Path("m0.safetensors").stat().st_size


def test_integer_ids_of_new_nodes_find_the_text_ids_of_a_model(gpcanet):
    write_blocks(Path())
    old, edges, new, links = tables("numbers")
    for table, columns in ((old, ["id"]), (edges, ["source", "target"])):
        table[columns] = table[columns].astype(str)
    old.to_parquet("blocks.parquet", index=False)
    edges.to_parquet("blocks-edges.parquet")
    fit = ["embed", "-f", "blocks.parquet", "-e", "blocks-edges.parquet", "-k", 2, "-q"]
    save = ["--save-model", "m.safetensors", "--keep-training-nodes"]
    assert gpcanet(*fit, *save).code == 0
    apply = ["embed", "--model", "m.safetensors", "-f", "new.csv", "-e", "new-edges.csv", "-q"]
    ended = gpcanet(*apply, "-o", "z.csv")
    assert ended.code == 0, ended.err
    new.astype({"id": str}).to_csv("text.csv", index=False)
    for table, columns in ((new, ["id"]), (links, ["source", "target"])):
        table[columns] = table[columns].astype(str)
    new.to_parquet("new.parquet", index=False)
    links.to_parquet("new-edges.parquet")
    ended = gpcanet(
        *apply[:3], "-f", "new.parquet", "-e", "new-edges.parquet", "-q", "-o", "expected.csv"
    )
    assert Path("z.csv").read_text() == Path("expected.csv").read_text()


def test_text_ids_of_new_nodes_and_a_model_with_integers(gpcanet):
    write_blocks(Path())
    _, _, new, links = tables("numbers")
    fit = ["embed", "-f", "blocks.csv", "-e", "blocks-edges.parquet", "-k", 2, "-q"]
    save = ["--save-model", "m.safetensors", "--keep-training-nodes"]
    assert gpcanet(*fit, *save).code == 0
    for table, columns in ((new, ["id"]), (links, ["source", "target"])):
        table[columns] = table[columns].replace({36: "new"})
        table.to_csv("new.csv" if table is new else "new-edges.csv", index=False)
    apply = ["embed", "--model", "m.safetensors", "-f", "new.csv", "-e", "new-edges.csv"]
    ended = gpcanet(*apply, "-o", "z.csv")
    assert ended.complaint == (
        "new.csv has text for node ids, such as 'new', but the model has integers; use one type"
    )
