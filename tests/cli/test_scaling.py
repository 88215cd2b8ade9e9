"""Features in different units: the note on variances, and the option --standardize."""

import json
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from command import write_blocks
from own_files import N_NODES, make_source, write_edges, write_features
from sklearn.preprocessing import StandardScaler

from gpcanet import GPCA, Graph
from gpcanet.graph.neighbors import neighbor_graph
from gpcanet.linalg import column_variances

#: Factors of the five features; the last but one column is constant.
UNITS = np.array([1e4, 1, 1e-3, 0, 2])


@pytest.fixture
def source():
    source = make_source(np.arange(N_NODES))
    source.X[:] = source.X * UNITS + (UNITS == 0) * 0.1
    return source


@pytest.fixture
def files(source):
    features = write_features(source, Path("features.csv"))
    return ["-f", features, "-e", write_edges(source, Path("edges.csv"))]


def embedding(gpcanet, *options):
    ended = gpcanet("embed", *options, "-k", 2, "-o", "z.npz", "--force", "--json")
    assert ended.code == 0, ended.err
    return np.load("z.npz")["embedding"], json.loads(ended.out)["notes"], ended.err


def test_a_column_with_nearly_all_of_the_variance_is_reported(gpcanet, files):
    *_, notes, err = embedding(gpcanet, *files)
    note = (
        "column 'f0' has 99.99 % of the variance of all features; --standardize scales all "
        "columns to unit variance"
    )
    assert notes[-1] == note
    assert err.count(note) == 1
    *_, notes, _ = embedding(gpcanet, *files, "--ignore", "f0")
    assert "variance" not in str(notes)


@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize(
    ("dtype", "unit"),
    [(np.float32, 1), (np.float64, 1), (np.float32, 1e-24), (np.float64, 1e-200), (float, 1e200)],
)
def test_standardize_scales_like_scikit_learn(gpcanet, source, is_sparse, dtype, unit):
    X = source.X * (source.X > 0) if is_sparse else source.X
    expected = StandardScaler().fit_transform(X)
    expected = GPCA(2).fit_transform(expected, graph=Graph(source.adjacency))
    X = (X * unit).astype(dtype)
    if is_sparse:
        sp.save_npz("x.npz", sp.csr_array(X))
    else:
        np.save("x.npy", X)
    write_edges(source, Path("pairs.npz"))
    options = ["-f", "x.npz" if is_sparse else "x.npy", "-e", "pairs.npz", "--standardize"]
    Z, notes, _ = embedding(gpcanet, *options)
    assert notes[-1] == "columns of features are scaled to unit variance"
    # float32 has 7 digits, and X is not centred before it is scaled.
    np.testing.assert_allclose(np.abs(Z), np.abs(expected), atol=1e-3)


def test_neighbours_are_those_of_scaled_features(gpcanet, source, files):
    Z, *_ = embedding(gpcanet, *files[:2], "--neighbors", 3, "--standardize")
    scaled = source.X / StandardScaler().fit(source.X).scale_
    expected = GPCA(2).fit_transform(scaled, graph=neighbor_graph(scaled, 3))
    np.testing.assert_allclose(np.abs(Z), np.abs(expected), atol=1e-8)


def test_variances_equal_those_of_numpy(source):
    for X in (source.X[:, :3], source.X[:, :3] + 1e6):
        for stored in (X, sp.csr_array(X)):
            np.testing.assert_allclose(column_variances(stored), X.var(axis=0), rtol=1e-6)
    constant = np.full((1000, 1), 0.1)
    assert column_variances(constant) == column_variances(sp.csr_array(constant)) == 0


@pytest.mark.parametrize(
    ("command", "options", "complaint"),
    [
        ("embed", ["--save-model", "m.safetensors"], "--standardize and --save-model exclude"),
        ("train", ["--save-model", "m.safetensors"], "--standardize and --save-model exclude"),
        ("embed", ["--model", "m.safetensors", "-o", "z.csv"], "leave out --standardize"),
        ("embed", ["--workers", 1, "--scratch", "s", "-o", "z"], "--standardize is for data in"),
    ],
)
def test_what_cannot_be_standardized_is_refused(gpcanet, files, command, options, complaint):
    assert complaint in gpcanet(command, *files, *options, "--standardize").complaint


def test_train_standardizes(gpcanet):
    ended = gpcanet("train", *write_blocks(Path()), "--standardize", "--epochs", 2, "--json")
    assert ended.code == 0, ended.err
    assert json.loads(ended.out)["notes"][-1] == "columns of features are scaled to unit variance"
