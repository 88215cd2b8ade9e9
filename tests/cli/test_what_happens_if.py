"""Every line of docs/what-happens-if.md, in Python and on the command line."""

import re
import warnings
from pathlib import Path

import networkx as nx
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp

from gpcanet import (
    GPCA,
    GPCAClassifier,
    GPCARegressor,
    Graph,
    GraphImputer,
    load_model,
    save_model,
)
from gpcanet.errors import UserError

PAGE = (Path(__file__).parents[2] / "docs" / "what-happens-if.md").read_text()
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE.splitlines()
    if line.startswith("| ")
][1:]

N = 12
IDS = [f"n{i}" for i in range(N)]
RNG = np.random.default_rng(0)
X = pd.DataFrame(RNG.normal(size=(N, 4)), IDS, ["a", "b", "c", "d"])
X.loc[IDS[: N // 2], "a"] += 5
EDGES = pd.DataFrame(
    {
        "source": [IDS[i] for i in range(N)],
        "target": [IDS[(i + 1) % (N // 2) + (N // 2) * (i >= N // 2)] for i in range(N)],
    }
)
WEIGHTED = EDGES.assign(weight=np.arange(1.0, N + 1))
Y = pd.Series(np.repeat([0, 1], N // 2), IDS)
Y.iloc[[2, 8]] = -1
GRAPH = Graph.from_edges(EDGES, nodes=X.index)
WEIGHTED_GRAPH = Graph.from_edges(WEIGHTED, nodes=X.index)
SHUFFLED = RNG.permutation(N)
FROM_ONE = pd.RangeIndex(1, N + 1)


def embed(X=X, graph=GRAPH):
    return GPCA(2).fit_transform(X, graph=graph)


def classify(y, X=X, graph=GRAPH):
    return GPCAClassifier(2, feature_scaling="none", C=1.0).fit(X, y, graph=graph)


def from_edges(table, nodes=X.index):
    return Graph.from_edges(table, nodes=nodes)


# -- in Python: what is done, and what tidy input gives ----------------------------------------


def same(call, expected):
    return call, expected


def summary_says(graph, words):
    """Check the summary of a graph."""
    assert words in graph.summary()
    return "reports"


def repeated(order):
    more = WEIGHTED.iloc[:1].rename(columns=dict(zip(["source", "target"], order, strict=True)))
    graph = from_edges(pd.concat([WEIGHTED, more.assign(weight=99.0)]))
    assert graph.adjacency[0, 1] == 99
    return summary_says(graph, "1 repeated edge merged (largest weight kept)")


def unlabelled_forms():
    expected = classify(Y).label_distributions_
    named = np.array(["red", "blue"], object)
    for marks, y in [
        ((-1, None, np.nan), Y.astype(object)),
        (("", "-1", None), pd.Series(np.where(Y >= 0, named[Y], None), IDS)),
    ]:
        for mark in marks:
            marked = y.copy()
            marked.iloc[[2, 8]] = pd.Series([mark, mark], dtype=object).to_numpy()
            model = classify(marked)
            order = [0, 1] if model.classes_[0] in (0, "red") else [1, 0]
            np.testing.assert_allclose(model.label_distributions_[:, order], expected, atol=1e-3)
    return "same answer"


def scaled_features():
    expected = GPCA(2).fit_transform(X.to_numpy(np.float32), graph=GRAPH)
    for scale in (1e-24, 1e18):
        tiny = (X.to_numpy() * scale).astype(np.float32)
        Z = GPCA(2).fit_transform(tiny, graph=GRAPH)
        np.testing.assert_allclose(Z / np.float32(scale), expected, atol=1e-4)
        for model, attribute in (
            (GPCAClassifier(2), "label_distributions_"),
            (GPCARegressor(2), "fitted_values_"),
        ):
            usual, found = (
                getattr(model.fit(rows, Y, graph=GRAPH), attribute)
                for rows in (X.to_numpy(np.float32), tiny)
            )
            np.testing.assert_allclose(found, usual, atol=1e-3)
    return "same answer"


def model_with_names(tmp_path):
    model = GPCA(2).fit(X, graph=GRAPH)
    save_model(model, tmp_path / "model.safetensors")
    return load_model(tmp_path / "model.safetensors")


def fitted():
    return GPCA(2).fit(X.to_numpy(), graph=GRAPH)


def embed_new_node(neighbor):
    """Embed one new node with an edge to one neighbour."""
    graph = Graph.from_edges({"source": ["new"], "target": [neighbor]})
    return GPCA(2).fit(X, graph=GRAPH).transform(X.iloc[:1].set_axis(["new"]), graph=graph)


def with_value(value):
    table = X.copy().astype(object)
    table.iloc[3, 1] = value
    return table if isinstance(value, str) else table.astype(float)


PYTHON = {
    "rows of the features come in another order": lambda _: same(
        lambda: embed(X.iloc[SHUFFLED]), embed()[SHUFFLED]),
    "labels come in another order": lambda _: same(
        lambda: classify(Y.iloc[SHUFFLED]).label_distributions_, classify(Y).label_distributions_),
    "rows have no ids": lambda _: same(lambda: embed(X.to_numpy()), embed()),
    "labels have ids in another order": lambda _: lambda: classify(
        Y.iloc[SHUFFLED], X.to_numpy()),
    "the nodes of a networkx graph are": lambda _: lambda: embed(
        np.eye(3), nx.Graph([(2, 0), (0, 1)])),
    "the graph of `fit` comes": lambda _: same(
        lambda: GPCA(2, beta=0.5).fit(X, Y, graph=GRAPH).transform(
            X.iloc[SHUFFLED], graph=GRAPH.subgraph(SHUFFLED)),
        GPCA(2, beta=0.5).fit_transform(X, Y, graph=GRAPH)[SHUFFLED]),
    "a DataFrame has the default index": lambda _: lambda: embed(X.reset_index(drop=True)),
    "pandas' index starts at 1": lambda _: same(
        lambda: embed(X.set_axis(FROM_ONE), Graph(GRAPH.adjacency, node_ids=FROM_ONE)), embed()),
    "a features row has an id that the edges": lambda _: lambda: embed(
        pd.concat([X, X.iloc[:1].set_axis(["new"])]), Graph.from_edges(EDGES)),
    "an edge names a node without": lambda _: lambda: from_edges(EDGES, nodes=IDS[:-1]),
    "an id occurs twice": lambda _: lambda: embed(X.set_axis([*IDS[:-1], IDS[0]])),
    "the graph is left out": lambda _: lambda: fitted().transform(X.to_numpy()),
    "only some nodes are given": lambda _: lambda: fitted().transform(
        X.to_numpy()[:3], graph=GRAPH, nodes=[0, 1, 2]),
    "new nodes have edges": lambda _: lambda: embed_new_node("n0"),
    "a new node has an edge": lambda _: lambda: embed_new_node("x"),
    "an edge is listed twice": lambda _: (
        repeated(["source", "target"]) and repeated(["target", "source"])),
    "both directions": lambda _: same(
        lambda: embed(graph=from_edges(pd.concat([EDGES, EDGES.set_axis(
            ["target", "source"], axis=1)]))), embed()),
    "the adjacency matrix is directed": lambda _: lambda: Graph(
        np.triu(GRAPH.adjacency.toarray())),
    "edges join a node to itself": lambda _: summary_says(
        from_edges(pd.concat([EDGES, pd.DataFrame({"source": ["n0"], "target": ["n0"]})])),
        "1 self-loop dropped"),
    "weights are called": lambda _: same(
        lambda: np.concatenate([from_edges(WEIGHTED.rename(columns={"weight": name})).weights
                                for name in ("Weights", "edge_weight")]),
        np.tile(WEIGHTED_GRAPH.weights, 2)),
    "the edges have another column": lambda _: lambda: from_edges(EDGES.assign(year=2000)),
    "a weight is negative": lambda _: lambda: from_edges(WEIGHTED.assign(weight=-1.0)),
    "unlabelled nodes are marked": lambda _: unlabelled_forms(),
    "labels are words": lambda _: lambda: classify(
        Y.map({0: "red", 1: "blue", -1: "NA"})),
    "labels are text": lambda _: same(
        lambda: classify(Y.map({0: "A", 1: "B", -1: None})).label_distributions_,
        classify(Y).label_distributions_),
    "labels are fractions": lambda _: lambda: classify(Y + 0.5),
    "all labels are one class": lambda _: lambda: classify(Y * 0),
    "there are labels of unknown nodes": lambda _: lambda: classify(
        Y.rename({"n0": "unknown"})),
    "a feature is NaN": lambda _: lambda: embed(with_value(np.nan)),
    "features are missing": lambda _: lambda: embed(
        GraphImputer().fit_transform(with_value(np.nan), graph=GRAPH)),
    "a feature is text": lambda _: lambda: embed(with_value("x")),
    "features are numbers of size": lambda _: scaled_features(),
    "tables are of polars": lambda _: same(
        lambda: np.concatenate([embed(table(X), Graph.from_edges(edges(EDGES), nodes=IDS))
                                for table, edges in ((pl.from_pandas, pl.from_pandas),
                                                     (pa_table, pa_table))]),
        np.tile(embed(), (2, 1))),
    "a saved model gets": lambda folder: lambda: model_with_names(folder).transform(
        X[["b", "a", "c", "d"]], graph=GRAPH),
}  # fmt: skip


def pa_table(frame):
    return pa.Table.from_pandas(frame, preserve_index=False)


def observed(check):
    """What a call did, in the words of the page."""
    if isinstance(check, str):
        return check
    call, expected = check if isinstance(check, tuple) else (check, None)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = call()
        except UserError:
            return "refuses"
    if caught:
        return "warns"
    if expected is None:
        return "accepts"
    # Rows in another order are rounded otherwise; heads stop at a gradient of 1e-4.
    np.testing.assert_allclose(result, expected, atol=1e-4)
    return "same answer"


# -- on the command line ------------------------------------------------------------------------


class Files:
    """The tidy files, and runs of the command on them or on others."""

    def __init__(self, folder, gpcanet):
        self.folder, self.gpcanet = folder, gpcanet
        self.features, self.edges, self.labels = (
            folder / name for name in ("features.csv", "edges.csv", "labels.csv")
        )
        X.to_csv(self.features, index_label="id")
        EDGES.to_csv(self.edges, index=False)
        Y.rename("label").to_csv(self.labels, index_label="id")

    def csv(self, table, name, **how):
        path = self.folder / name
        table.to_csv(path, **({"index": False} | how))
        return path

    def rewrite(self, path, to_line):
        """A copy of a CSV, its rows written in another way."""
        copy = self.folder / f"rewritten-{path.name}"
        rows = (line.split(",") for line in path.read_text().splitlines())
        copy.write_text("".join(f"{to_line(row)}\n" for row in rows))
        return copy

    def embed(self, *options, features=None, edges=None):
        features, edges = features or self.features, edges or self.edges
        files = ["-f", features, "-e", edges]
        output = self.folder / "out.csv"
        ended = self.gpcanet("embed", *files, "-k", 2, "-o", output, "--force", *options)
        return ended, pd.read_csv(output) if ended.code == 0 else None

    def classify(self, labels, *options):
        output = self.folder / "out.csv"
        files = ["-f", self.features, "-e", self.edges, "-l", labels]
        ended = self.gpcanet("classify", *files, "-k", 2, "-o", output, "--force", *options)
        return ended, pd.read_csv(output) if ended.code == 0 else None

    def same(self, run, expected, columns=None):
        """Check that two runs have the same result for every node."""
        ended, table = run
        assert ended.code == 0, ended.err
        table, expected = table.set_index("id"), expected[1].set_index("id")
        columns = columns or expected.columns
        found = table.loc[expected.index, table.columns if len(columns) == 0 else columns]
        np.testing.assert_allclose(found, expected[columns], atol=1e-4)
        return "same answer"


def new_node(files, neighbor):
    """A new node with an edge to one neighbour, and a model that has kept its training nodes."""
    model = files.folder / "model.safetensors"
    kept = ["--save-model", model, "--keep-training-nodes", "--force"]
    assert files.embed(*kept)[0].code == 0
    row = files.csv(X.iloc[:1].set_axis(["new"]), "new.csv", index_label="id", index=True)
    edges = files.csv(pd.DataFrame({"source": ["new"], "target": [neighbor]}), "new-edges.csv")
    output = ["-o", files.folder / "z.csv"]
    return files.gpcanet("embed", "--model", model, "-f", row, "-e", edges, *output), None


def outcome(run, note=None):
    ended, _ = run
    assert "Traceback" not in ended.err
    if ended.code:
        assert ended.code == 2
        return "refuses"
    if note is None:
        return "accepts"
    assert note in ended.err, ended.err
    return "reports"


def rows_without_ids(files):
    features = files.folder / "x.npy"
    np.save(features, X.to_numpy())
    edges = files.folder / "pairs.npz"
    np.savez(edges, edge_index=[[IDS.index(i) for i in EDGES[end]] for end in EDGES])
    return outcome(files.embed(features=features, edges=edges), "node i is row i")


def positions_beside_ids(files):
    edges = files.folder / "pairs.npz"
    np.savez(edges, edge_index=[[IDS.index(i) for i in EDGES[end]] for end in EDGES])
    return outcome(files.embed(edges=edges), "refers to nodes by position: node i is row i")


def other_order_of_nodes(files):
    """A saved model with labels meets its own graph, the rows of the features in another order."""
    model, output = files.folder / "model.safetensors", files.folder / "out.csv"
    expected = files.embed("-l", files.labels, "--beta", 0.5, "--save-model", model)
    features = files.csv(X.iloc[SHUFFLED], "s.csv", index_label="id", index=True)
    ended = files.gpcanet(
        "embed", "-f", features, "-e", files.edges, "--model", model, "-o", output, "--force"
    )
    return files.same((ended, pd.read_csv(output)), expected)


def from_one(files):
    """An index from 1 that pandas keeps as metadata only."""
    features, edges = files.folder / "one.parquet", files.folder / "one-edges.csv"
    X.set_axis(FROM_ONE).to_parquet(features)
    EDGES.map(lambda name: IDS.index(name) + 1).to_csv(edges, index=False)
    ended, table = files.embed(features=features, edges=edges)
    table["id"] = [IDS[i - 1] for i in table["id"]]
    return files.same((ended, table), files.embed())


def drop_most(files):
    extra = pd.DataFrame({"source": IDS[0], "target": [f"new{i}" for i in range(30)]})
    edges = files.csv(pd.concat([EDGES, extra]), "most.csv")
    ended, _ = files.embed("--drop-unknown", "--quiet", edges=edges)
    assert ended.code == 0
    assert "30" in ended.err
    return "warns"


def directed(files):
    edges = files.folder / "directed.npz"
    sp.save_npz(edges, sp.csr_array(np.triu(GRAPH.adjacency.toarray())))
    ended, _ = files.embed(edges=edges)
    assert "is directed" in ended.err
    return "warns"


def weights_under_other_names(files):
    expected = files.embed(edges=files.csv(WEIGHTED, "weighted.csv"))
    for name in ("Weights", "edge_weight"):
        edges = files.csv(WEIGHTED.rename(columns={"weight": name}), "renamed.csv")
        files.same(files.embed(edges=edges), expected)
    return "same answer"


def unlabelled_in_files(files):
    named = Y.map({0: "red", 1: "blue", -1: ""}).rename("label")
    expected = files.classify(files.csv(named, "l0.csv", index_label="id", index=True))
    for mark in ("-1", None, np.nan):
        marked = named.replace("", mark)
        labels = files.csv(marked, "l1.csv", index_label="id", index=True)
        files.same(files.classify(labels), expected, ["p(red)", "p(blue)"])
    return "same answer"


def text_labels(files):
    named = Y.map({0: "red", 1: "blue", -1: ""}).rename("label")
    run = files.classify(files.csv(named, "text.csv", index_label="id", index=True))
    run[1].rename(columns={"p(red)": "p(0)", "p(blue)": "p(1)"}, inplace=True)
    return files.same(run, files.classify(files.labels), ["p(0)", "p(1)"])


def numbers_scaled(files):
    expected = files.embed()[1].set_index("id")
    for scale in (1e-24, 1e18):
        features = files.folder / "scaled.parquet"
        (X * scale).astype(np.float32).rename_axis("id").to_parquet(features)
        ended, table = files.embed(features=features)
        assert ended.code == 0, ended.err
        np.testing.assert_allclose(table.set_index("id") / scale, expected, atol=1e-4)
    return "same answer"


def polars_files(files):
    features, edges = files.folder / "polars.parquet", files.folder / "arrow.parquet"
    pl.from_pandas(X.rename_axis("id").reset_index()).write_parquet(features)
    pa.parquet.write_table(pa_table(EDGES), edges)
    return files.same(files.embed(features=features, edges=edges), files.embed())


def running_header(files):
    features = files.csv(X.set_axis(range(4), axis=1), "numbers.csv")
    edges = files.csv(EDGES.map(IDS.index), "positions.csv")
    ended, table = files.embed(features=features, edges=edges)
    table["id"] = [IDS[i] for i in table["id"]]
    return files.same((ended, table), files.embed())


def ids_with_fractions(files):
    edges = files.csv(EDGES.map(IDS.index).astype(float), "positions.csv")
    features = files.csv(X.set_axis(range(N)), "integers.csv", index_label="id", index=True)
    ended, table = files.embed(features=features, edges=edges)
    table["id"] = [IDS[i] for i in table["id"]]
    return files.same((ended, table), files.embed())


def rounded_ids(files):
    edges = files.csv((EDGES.map(IDS.index) + 2**53).astype(float), "rounded.csv")
    features = X.set_axis(np.arange(N) + 2**53)
    features = files.csv(features, "large.csv", index_label="id", index=True)
    return outcome(files.embed(features=features, edges=edges))


def other_columns(files):
    model = files.folder / "model.safetensors"
    expected = files.embed("--save-model", model)
    features = files.csv(X[["b", "a", "c", "d"]], "other.csv", index_label="id", index=True)
    output = files.folder / "out.csv"
    ended = files.gpcanet(
        "embed", "-f", features, "-e", files.edges, "--model", model, "-o", output, "--force"
    )
    return files.same((ended, pd.read_csv(output)), expected)


def categorical(files):
    path = files.folder / "kinds.parquet"
    X.assign(kind=pd.Categorical(["u", "v"] * (N // 2))).to_parquet(path)
    return outcome(files.embed(features=path), "the categories of 'kind' are columns of 0 and 1")


def divided(files):
    parts = files.folder / "parts"
    parts.mkdir()
    for number in range(3):
        files.csv(X.iloc[4 * number : 4 * number + 4], f"parts/{number}.csv", index_label="id",
                  index=True)  # fmt: skip
    return files.same(files.embed(features=parts), files.embed())


def feature_called_split(files):
    features = files.csv(X.assign(split=1.5), "split.csv", index_label="id", index=True)
    files.same(files.embed("--ignore", "split", features=features), files.embed())
    return outcome(files.embed(features=features))


def output_is_input(files):
    before = files.features.read_bytes()
    ended = files.gpcanet(
        "embed", "-f", files.features, "-e", files.edges, "-o", files.features, "--force"
    )
    assert files.features.read_bytes() == before
    return outcome((ended, None))


def labeled(files, y, name="y.csv"):
    return files.classify(files.csv(y.rename("label"), name, index_label="id", index=True))


def repeated_in_file(files, ends):
    more = WEIGHTED.iloc[:1].set_axis([*ends, "weight"], axis=1).assign(weight=99.0)
    edges = files.csv(pd.concat([WEIGHTED, more]), "twice.csv")
    return outcome(files.embed(edges=edges), "1 repeated edge merged (largest weight kept)")


COMMAND = {
    "rows of the features come in another order": lambda f: f.same(
        f.embed(features=f.csv(X.iloc[SHUFFLED], "s.csv", index_label="id", index=True)),
        f.embed()),
    "labels come in another order": lambda f: f.same(
        labeled(f, Y.iloc[SHUFFLED]), f.classify(f.labels), ["p(0)", "p(1)"]),
    "rows have no ids": rows_without_ids,
    "edges are positions or a matrix": positions_beside_ids,
    "the graph of `fit` comes": other_order_of_nodes,
    "pandas' index starts at 1": from_one,
    "a features row has an id that the edges": lambda f: outcome(f.embed(features=f.csv(
        pd.concat([X, X.iloc[:1].set_axis(["new"])]), "m.csv", index_label="id", index=True))),
    "an edge names a node without": lambda f: outcome(f.embed(features=f.csv(
        X.iloc[1:], "fewer.csv", index_label="id", index=True))),
    "`--drop-unknown` drops more": drop_most,
    "an id occurs twice": lambda f: outcome(f.embed(features=f.csv(
        X.set_axis([*IDS[:-1], IDS[0]]), "twice.csv", index_label="id", index=True))),
    "the graph is left out": lambda f: outcome((f.gpcanet(
        "embed", "-f", f.features, "-o", f.folder / "o.csv"), None)),
    "an edge is listed twice": lambda f: (
        repeated_in_file(f, ["source", "target"]) and repeated_in_file(f, ["target", "source"])),
    "both directions": lambda f: f.same(f.embed(edges=f.csv(pd.concat(
        [EDGES, EDGES.set_axis(["target", "source"], axis=1)]), "both.csv")), f.embed()),
    "the adjacency matrix is directed": directed,
    "edges join a node to itself": lambda f: outcome(f.embed(edges=f.csv(pd.concat(
        [EDGES, pd.DataFrame({"source": ["n0"], "target": ["n0"]})]), "loop.csv")),
        "1 self-loop dropped"),
    "weights are called": weights_under_other_names,
    "the edges have another column": lambda f: outcome(f.embed(
        edges=f.csv(EDGES.assign(year=2000), "year.csv")), "column 'year' is not used"),
    "a weight is negative": lambda f: outcome(f.embed(
        edges=f.csv(WEIGHTED.assign(weight=-1.0), "negative.csv"))),
    "unlabelled nodes are marked": unlabelled_in_files,
    "labels are words": lambda f: outcome(
        labeled(f, Y.map({0: "red", 1: "blue", -1: "N/A"})), "means unlabelled"),
    "labels are text": text_labels,
    "labels are fractions": lambda f: outcome(labeled(f, Y + 0.5)),
    "all labels are one class": lambda f: outcome(labeled(f, Y * 0)),
    "there are labels of unknown nodes": lambda f: outcome(labeled(f, Y.rename({"n0": "x"}))),
    "new nodes have edges": lambda f: outcome(
        new_node(f, "n0"), "edges name 1 training node of the model"),
    "a new node has an edge": lambda f: outcome(new_node(f, "x")),
    "a feature is NaN": lambda f: outcome(f.embed(features=f.csv(
        with_value(np.nan), "nan.csv", index_label="id", index=True))),
    "features are missing": lambda f: outcome(f.embed("--impute", features=f.csv(
        with_value(np.nan), "nan.csv", index_label="id", index=True)),
        "1 missing feature filled in"),
    "a feature is text": lambda f: outcome(f.embed(features=f.csv(
        with_value("x"), "text.csv", index_label="id", index=True))),
    "a feature is categorical": categorical,
    "a table is divided": divided,
    "features are numbers of size": numbers_scaled,
    "tables are of polars": polars_files,
    "a CSV has the header": running_header,
    "names and cells of a CSV": lambda f: f.same(f.embed(
        features=f.rewrite(f.features, lambda row: " , ".join(row)),
        edges=f.rewrite(f.edges, lambda row: " ,\t".join(row))), f.embed()),
    "ids of a CSV end": ids_with_fractions,
    "ids of a CSV are rounded": rounded_ids,
    "numbers have decimal": lambda f: outcome(f.embed(
        features=f.rewrite(f.features, lambda row: ";".join(row).replace(".", ",")))),
    "pandas has written row numbers": lambda f: outcome(f.embed(features=f.csv(
        X.rename_axis("paper_id").reset_index(), "row-numbers.csv", index=True))),
    "a column next to the id": lambda f: outcome(f.embed(features=f.csv(
        X.assign(user_id=range(N)), "user.csv", index_label="id", index=True)),
        "'user_id' is a feature, although"),
    "a feature is called `label`": lambda f: outcome(f.embed("--label", "b", features=f.csv(
        X.assign(b=[*"uv"] * (N // 2), Labels=1.5), "names.csv", index_label="id", index=True)),
        "column 'Labels' is not used as a feature, because its name is that of a label"),
    "a feature is called `split`": feature_called_split,
    "a saved model gets": other_columns,
    "the output is one of": output_is_input,
}  # fmt: skip


def check_of(checks, title):
    found = [check for start, check in checks.items() if title.startswith(start)]
    assert len(found) == 1, f"{title!r} has {len(found)} checks"
    return found[0]


def verb(cell):
    return re.match(r"\*\*(.*?)\*\*", cell)[1]


def test_page_and_the_checks_are_complete():
    assert sum(bool(python) for _, python, _ in ROWS) == len(PYTHON)
    assert sum(bool(command) for _, _, command in ROWS) == len(COMMAND)


@pytest.mark.parametrize(("title", "said"), [(t, p) for t, p, _ in ROWS if p])
def test_python_does_what_the_page_says(title, said, tmp_path):
    assert observed(check_of(PYTHON, title)(tmp_path)) == verb(said)


@pytest.mark.parametrize(("title", "said"), [(t, c) for t, _, c in ROWS if c])
@pytest.mark.usefixtures("small_search")
@pytest.mark.filterwarnings("default")  # as outside of the tests, where the command prints them
def test_command_does_what_the_page_says(title, said, tmp_path, gpcanet):
    assert check_of(COMMAND, title)(Files(tmp_path, gpcanet)) == verb(said)
