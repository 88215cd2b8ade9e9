"""--impute fills in missing features as GraphImputer does; without it they are an error."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from own_files import N_NODES, make_source, write, write_edges

from gpcanet import GPCA, Graph, GraphImputer
from gpcanet.errors import MissingFeatureError
from gpcanet.files import load_files

IDS = np.array([f"paper {i:03d}" for i in range(N_NODES)], object)
SOURCE = make_source(IDS)
RNG = np.random.default_rng(8)
X = np.where(RNG.random(SOURCE.X.shape) < 0.3, np.nan, SOURCE.X)
X[0] = SOURCE.X[0]
N_MISSING = int(np.isnan(X).sum())


def write_features(suffix):
    """The features with empty cells, nulls or NaN."""
    path = Path(f"features{suffix}")
    if suffix == ".npz":
        np.savez(path, X=X, node_ids=IDS.astype(str))
    elif suffix == ".sparse.npz":
        sp.save_npz(path, sp.csr_array(X))
    elif suffix == ".lists.parquet":
        columns = {"id": IDS, "x": [[None if v != v else v for v in row] for row in X]}
        write(columns, path)
    else:
        table = pd.DataFrame(X, columns=list("abcde"))
        table.insert(0, "id", IDS)
        table.to_parquet(path, index=False) if suffix == ".parquet" else table.to_csv(
            path, index=False, na_rep="NA" if suffix == ".tsv" else "",
            sep="\t" if suffix == ".tsv" else ",",
        )  # fmt: skip
    return path


SUFFIXES = [".csv", ".tsv", ".parquet", ".lists.parquet", ".npz", ".sparse.npz"]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_files_give_what_graph_imputer_fills_in(gpcanet, suffix):
    features = write_features(suffix)
    is_matrix = suffix == ".sparse.npz"
    edges = write_edges(SOURCE, Path("edges.matrix.npz" if is_matrix else "edges.csv"))
    files = ["--features", features, "--edges", edges]
    refused = gpcanet("embed", *files, "-o", "z.npz")
    row, column = np.argwhere(np.isnan(X))[0]
    assert "is missing; fill it in, or use --impute" in refused.complaint
    name = {".npz": f"{column}", ".sparse.npz": f"{column}", ".lists.parquet": "'x'"}
    # A table is checked column by column.
    if suffix in (".csv", ".tsv", ".parquet"):
        row, column = np.argwhere(np.isnan(X).T)[0][::-1]
        name[suffix] = repr("abcde"[column])
    place = {".csv": f", line {row + 2}: ", ".tsv": f", line {row + 2}: "}
    assert f"{features}{place.get(suffix, f', row {row}: ')}" in refused.complaint
    assert f"the number in column {name[suffix]} is missing" in refused.complaint

    ended = gpcanet("embed", *files, "--impute", "-k", 3, "-o", "z.npz", "--json")
    assert ended.code == 0, ended.err
    note = f"{N_MISSING} missing features filled in from neighbours"
    assert note in ended.err
    assert note in json.loads(ended.out)["notes"]
    graph = Graph(SOURCE.adjacency)
    filled = GraphImputer().fit_transform(X, graph=graph)
    expected = GPCA(3).fit_transform(filled, graph=graph)
    np.testing.assert_allclose(np.load("z.npz")["embedding"], expected, atol=1e-12)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_loader_keeps_missing_features_on_request(suffix):
    features = write_features(suffix)
    with pytest.raises(MissingFeatureError, match="pass keep_missing=True and use"):
        load_files(features, neighbors=2)
    is_matrix = suffix == ".sparse.npz"
    edges = write_edges(SOURCE, Path("edges.matrix.npz" if is_matrix else "edges.csv"))
    data = load_files(features, edges, keep_missing=True)
    np.testing.assert_array_equal(data.X.toarray() if is_matrix else data.X, X)


def test_boolean_and_integer_columns_with_empty_cells(gpcanet):
    write(
        {"id": ["a", "b", "c"], "n": [1, None, 3], "flag": [True, None, False]}, Path("x.parquet")
    )
    write({"source": ["a", "b"], "target": ["b", "c"]}, Path("e.csv"))
    data = load_files("x.parquet", "e.csv", keep_missing=True)
    np.testing.assert_array_equal(data.X, [[1, 1], [np.nan, np.nan], [3, 0]])
    ended = gpcanet("embed", "-f", "x.parquet", "-e", "e.csv", "--impute", "-o", "z.csv")
    assert "2 missing features filled in from neighbours" in ended.err


def test_classify_and_values_that_no_neighbour_has(gpcanet, small_search):
    """The last two nodes have no edge to a node with a value in column a."""
    source = [f"n{i}" for i in range(10)] + ["far"]
    target = [f"n{(i + 1) % 10}" for i in range(10)] + ["away"]
    ids = [*source, "away"]
    table = {
        "id": ids, "a": [*np.arange(10.0), None, None], "b": [None, *np.arange(11.0)],
        "label": ["x"] * 5 + ["y"] * 5 + [""] * 2,
    }  # fmt: skip
    write(table, Path("x.parquet"))
    write({"source": source, "target": target}, Path("e.csv"))
    files = ["-f", "x.parquet", "-e", "e.csv"]
    ended = gpcanet("classify", *files, "--impute", "-o", "y.csv")
    assert ended.code == 0, ended.err
    assert (
        "3 missing features filled in from neighbours, 2 of them by the mean of their column, "
        "since no node of their component has a value" in ended.err
    )


def test_nothing_missing_an_empty_column_and_infinity(gpcanet):
    write_edges(SOURCE, Path("edges.csv"))
    table = pd.DataFrame(SOURCE.X, columns=list("abcde"))
    table.insert(0, "id", IDS)
    table.to_csv("x.csv", index=False)
    files = ["-f", "x.csv", "-e", "edges.csv", "--impute"]
    ended = gpcanet("embed", *files, "-o", "z.csv")
    assert "no feature is missing" in ended.err
    table.assign(c=np.nan).to_csv("x.csv", index=False)
    ended = gpcanet("embed", *files, "-o", "y.csv")
    assert ended.complaint == "x: column 'c' has no number at all; leave it out with --ignore"
    table.assign(c=np.inf).to_csv("x.csv", index=False)
    assert "x.csv, line 2: inf in column 'c' is not finite" in gpcanet(
        "embed", *files, "-o", "y.csv"
    ).complaint  # fmt: skip
    ended = gpcanet("embed", "cora", "--impute", "-o", "y.csv")
    assert "--impute applies to files only" in ended.complaint
