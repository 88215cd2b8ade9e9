"""GraphImputer against dense solves, and its contract with scikit-learn."""

import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import sklearn
from hypothesis import given
from hypothesis import strategies as st
from properties import examples
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from truth import KINDS, random_features, random_graph

import gpcanet.estimators.imputer
import gpcanet.linalg.harmonic
from campaign.dense import dense_harmonic
from gpcanet import GPCA, GPCAClassifier, GPCAPath, Graph, GraphImputer


def with_missing(X, share, rng, *, n_patterns=None):
    """X with NaN: a pattern for each column, or some patterns that columns share."""
    n, d = X.shape
    patterns = rng.random((n, n_patterns or d)) < share
    patterns[rng.integers(0, n)] = False  # every column has a value
    X = X.copy()
    X[patterns[:, np.arange(d) % patterns.shape[1]]] = np.nan
    return X


def random_case(seed, n, kind, share, n_patterns):
    rng = np.random.default_rng(seed)
    graph = random_graph(n, **KINDS[kind], seed=seed)
    X = random_features(n, 7, seed=seed)
    return graph, with_missing(X, share, rng, n_patterns=n_patterns), rng


cases = st.builds(
    random_case,
    st.integers(0, 10**6),
    st.integers(15, 40),
    st.sampled_from(list(KINDS)),
    st.floats(0, 0.95),
    st.sampled_from([1, 2, 7]),
)

#: L_uu of 40 nodes amplifies residuals of 1e-12 by at most about 40^2.
CLOSE = {"rtol": 0, "atol": 1e-8}


@examples(80)
@given(cases, st.sampled_from(["mean", "median"]))
def test_values_equal_the_dense_solution(case, fallback):
    graph, X, _ = case
    filled = GraphImputer(fallback=fallback, tol=1e-12).fit_transform(X, graph=graph)
    expected = dense_harmonic(graph, X, getattr(np, fallback))
    np.testing.assert_allclose(filled, expected, **CLOSE)
    known = ~np.isnan(X)
    np.testing.assert_array_equal(filled[known], X[known])


@examples(40)
@given(cases, st.sampled_from([1e-3, 1e-6, 1e-10]))
def test_every_filled_value_is_the_weighted_mean_of_its_neighbours_to_the_tolerance(case, tol):
    graph, X, _ = case
    filled = GraphImputer(tol=tol).fit_transform(X, graph=graph)
    A = graph.adjacency
    degree = A.sum(axis=1)
    means = np.divide(A @ filled, degree[:, None], out=np.zeros_like(X), where=degree[:, None] > 0)
    reached = ~np.isnan(dense_harmonic(graph, X, lambda known: np.nan))
    differences = np.where(np.isnan(X) & reached, filled - means, 0)
    spread = np.nanmax(np.abs(X - np.nanmean(X, axis=0)), axis=0)
    assert (np.abs(differences).max(axis=0) <= tol * spread + 1e-13).all()


@examples(40)
@given(cases)
def test_the_order_of_nodes_columns_and_the_scale_do_not_matter(case):
    graph, X, rng = case
    expected = GraphImputer(tol=1e-12).fit_transform(X, graph=graph)
    nodes, columns = rng.permutation(len(X)), rng.permutation(X.shape[1])
    scale, shift = 10.0 ** rng.uniform(-30, 30), rng.normal()
    moved = scale * (X[nodes][:, columns] + shift)
    filled = GraphImputer(tol=1e-12).fit_transform(moved, graph=graph.subgraph(nodes))
    np.testing.assert_allclose(filled / scale - shift, expected[nodes][:, columns], **CLOSE)
    if graph.weights is not None:
        heavier = Graph(graph.adjacency * scale)
        filled = GraphImputer(tol=1e-12).fit_transform(X, graph=heavier)
        np.testing.assert_allclose(filled, expected, **CLOSE)


@pytest.mark.parametrize("share", [0.3, 0.95])
@pytest.mark.parametrize("n_patterns", [1, 9])
@pytest.mark.usefixtures("either_path")
def test_both_propagation_kernels_and_both_solvers_agree(share, n_patterns, monkeypatch):
    """Also columns that are filled in several blocks."""
    graph = random_graph(200, weighted=True, parts=3, isolated=5)
    X = with_missing(
        random_features(200, 9), share, np.random.default_rng(0), n_patterns=n_patterns
    )
    monkeypatch.setattr(gpcanet.estimators.imputer, "BLOCK_BYTES", 0)
    monkeypatch.setattr(gpcanet.estimators.imputer, "BLOCK_COLUMNS", 4)
    expected = dense_harmonic(graph, X)
    for few in (0, 4):
        monkeypatch.setattr(gpcanet.linalg.harmonic, "FEW_PATTERNS", few)
        filled = GraphImputer(tol=1e-12).fit_transform(X, graph=graph)
        np.testing.assert_allclose(filled, expected, **CLOSE)


def test_weights_of_very_different_size():
    """On a path the values are determined by the resistances 1 / weight."""
    weights = np.array([1e-8, 1e8, 1.0, 1e-8, 1e8])
    pairs = np.array([np.arange(5), np.arange(1, 6)])
    graph = Graph.from_edge_index(pairs, weights, each_once=True)
    place = np.concatenate([[0], np.cumsum(1 / weights)])
    X = np.full((6, 9), np.nan)
    X[[0, -1]] = [np.arange(9.0), np.arange(9.0) ** 2]
    expected = X[0] + (X[-1] - X[0]) * (place / place[-1])[:, None]
    filled = GraphImputer().fit_transform(X, graph=graph)
    np.testing.assert_allclose(filled, expected, atol=1e-10)


def test_values_stay_in_the_range_of_the_known_ones(any_graph):
    rng = np.random.default_rng(3)
    X = with_missing(rng.integers(0, 2, (40, 30)).astype(float), 0.7, rng)
    X[:, 0] = np.where(np.isnan(X[:, 0]), np.nan, 0.1)
    filled = GraphImputer(tol=1e-2).fit_transform(X, graph=any_graph)
    assert filled.min() == 0
    assert filled.max() == 1
    assert (filled[:, 0] == 0.1).all()


@pytest.mark.parametrize("kind", [np.array, sp.csr_array])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_features_without_nan_stay_unchanged(graph, X, kind, dtype):
    X = kind(X.astype(dtype))
    imputer = GraphImputer()
    for filled in (imputer.fit_transform(X, graph=graph), imputer.transform(X, graph=graph)):
        assert filled is not X
        assert filled.dtype == dtype
        difference = filled != X
        assert (difference.nnz if sp.issparse(difference) else difference.sum()) == 0
    assert imputer.n_missing_ == imputer.n_unreachable_ == 0


def test_input_is_not_modified(graph, X):
    X = with_missing(X, 0.5, np.random.default_rng(0))
    for kind in (np.array, sp.csr_array):
        given_X = kind(X)
        GraphImputer().fit_transform(given_X, graph=graph)
        assert (
            np.isnan(given_X.data if kind is sp.csr_array else given_X).sum() == np.isnan(X).sum()
        )


def test_sparse_features_keep_their_zeros(graph):
    """An entry that is not stored is known to be 0; only stored NaN are filled."""
    rng = np.random.default_rng(5)
    X = sp.random_array((40, 30), density=0.4, rng=rng, format="csr")
    X.data[rng.random(X.nnz) < 0.3] = np.nan
    filled = GraphImputer(tol=1e-12).fit_transform(X, graph=graph)
    assert isinstance(filled, sp.csr_array)
    np.testing.assert_array_equal(filled.indices, X.indices)
    expected = dense_harmonic(graph, X.toarray())
    np.testing.assert_allclose(filled.toarray(), expected, **CLOSE)


def test_float32_features_are_solved_in_float64(any_graph, X):
    X = with_missing(X + 1e4, 0.5, np.random.default_rng(1)).astype(np.float32)
    filled = GraphImputer(tol=1e-10).fit_transform(X, graph=any_graph)
    expected = dense_harmonic(any_graph, X.astype(float))
    assert filled.dtype == np.float32
    np.testing.assert_allclose(filled, expected, rtol=2 * np.finfo(np.float32).eps)


@pytest.mark.parametrize("strategy", ["mean", "median"])
def test_without_a_graph_it_is_scikit_learns_simple_imputer(X, strategy):
    X = with_missing(X, 0.4, np.random.default_rng(2))
    imputer, simple = GraphImputer(fallback=strategy), SimpleImputer(strategy=strategy)
    np.testing.assert_allclose(imputer.fit_transform(X), simple.fit_transform(X), rtol=1e-14)
    other = with_missing(X, 0.4, np.random.default_rng(3))
    other[:, 0] = np.nan  # filled with the statistics of fit
    np.testing.assert_allclose(imputer.transform(other), simple.transform(other), rtol=1e-14)
    np.testing.assert_allclose(imputer.statistics_, simple.statistics_, rtol=1e-14)
    assert imputer.n_unreachable_ == imputer.n_missing_ == np.isnan(X).sum()


def test_unreachable_values_are_counted_and_get_the_statistics_of_fit():
    graph = Graph.from_edge_index([[0, 2], [1, 3]], n_nodes=5, each_once=True)
    X = np.array([[1, np.nan], [np.nan, 3], [np.nan, 4], [np.nan, np.nan], [5, np.nan]])
    imputer = GraphImputer().fit(X, graph=graph)
    assert (imputer.n_missing_, imputer.n_unreachable_) == (6, 3)
    filled = imputer.transform(X, graph=graph)
    np.testing.assert_array_equal(filled, [[1, 3], [1, 3], [3, 4], [3, 4], [5, 3.5]])
    other = np.array([[7.0, 8], [np.nan, 8], [np.nan, np.nan], [np.nan, 8], [9, 8]])
    filled = imputer.transform(other, graph=graph)
    np.testing.assert_array_equal(filled, [[7, 8], [7, 8], [3, 8], [3, 8], [9, 8]])


def test_a_column_without_values(graph, X):
    X[:, 2] = np.nan
    with pytest.raises(ValueError, match="every value in column 2 of X is NaN; drop the"):
        GraphImputer().fit(X, graph=graph)
    table = pd.DataFrame(X, columns=list("abcdef"))
    with pytest.raises(ValueError, match="every value in column 'c' of X is NaN"):
        GraphImputer().fit(table, graph=graph)
    imputer = GraphImputer(keep_empty_features=True)
    assert (imputer.fit_transform(X, graph=graph)[:, 2] == 0).all()


def test_long_paths_are_filled_by_interpolation():
    """CG needs a step per node here; few patterns are factorised instead."""
    n = 3000
    graph = Graph.from_edge_index(np.array([np.arange(n - 1), np.arange(1, n)]), each_once=True)
    X = np.full((n, 2), np.nan)
    X[0], X[-1] = [0, 5], [1, 3]
    filled = GraphImputer().fit_transform(X, graph=graph)
    np.testing.assert_allclose(filled[:, 0], np.linspace(0, 1, n), atol=1e-9)
    np.testing.assert_allclose(filled[:, 1], np.linspace(5, 3, n), atol=1e-9)


def test_a_solve_that_does_not_converge_warns(monkeypatch):
    monkeypatch.setattr(gpcanet.linalg.harmonic, "FEW_PATTERNS", 0)
    monkeypatch.setattr(gpcanet.linalg.harmonic, "MAX_STEPS", 3)
    graph = random_graph(100)
    X = np.full((100, 1), np.nan)
    X[[0, 9], 0] = 0, 1
    with pytest.warns(ConvergenceWarning, match=r"stopped after 3 iterations with residual"):
        GraphImputer().fit_transform(X, graph=graph)


# -- shrinkage ----------------------------------------------------------------------------------


@examples(40)
@given(cases, st.floats(0.01, 50))
def test_shrunk_values_equal_the_dense_solution(case, shrinkage):
    """The statistic of the column is one more neighbour of every unknown node."""
    graph, X, _ = case
    imputer = GraphImputer(shrinkage=shrinkage, fallback="median", tol=1e-12)
    filled = imputer.fit_transform(X, graph=graph)
    n = len(X)
    A = np.zeros((n + 1, n + 1))
    A[:n, :n] = graph.adjacency.toarray()
    for j in range(X.shape[1]):
        # Known values stay, so an edge from a known node to the statistic changes nothing.
        A[n, :n] = A[:n, n] = shrinkage
        column = np.append(X[:, j], np.nanmedian(X[:, j]))[:, None]
        expected = dense_harmonic(Graph(A), column)[:n, 0]
        np.testing.assert_allclose(filled[:, j], expected, **CLOSE)


@examples(30)
@given(cases)
def test_automatic_shrinkage_follows_the_correlation_along_edges(case):
    graph, X, _ = case
    imputer = GraphImputer(shrinkage="auto").fit(X, graph=graph)
    weights = graph.adjacency.tocoo()
    for j in range(X.shape[1]):
        x = X[:, j] - np.nanmean(X[:, j])
        both = np.isfinite(x[weights.row] * x[weights.col])
        w = weights.data[both]
        covariance = np.sum(w * (x[weights.row] * x[weights.col])[both]) / max(w.sum(), 1e-300)
        r = covariance / np.nanmean(x**2) if np.nanmean(x**2) > 0 else 0
        expected = max(1 / r - 1, 0) * weights.data.mean() if r >= 0.01 else np.inf
        np.testing.assert_allclose(imputer.shrinkage_[j], expected, rtol=1e-9, atol=1e-12)
    if graph.weights is not None:
        scaled = GraphImputer(shrinkage="auto").fit(X, graph=Graph(graph.adjacency * 1e-9))
        np.testing.assert_allclose(scaled.shrinkage_, imputer.shrinkage_ * 1e-9, rtol=1e-9)


def test_automatic_shrinkage_has_the_smaller_error_on_noisy_features():
    """Columns of smooth signals with more and more noise, and one of noise alone."""
    rng = np.random.default_rng(0)
    graph = random_graph(800)
    signal = GPCA(1, alpha=50.0).fit_transform(rng.normal(size=(800, 6)), graph=graph)
    noise = np.array([0.0, 0.5, 1, 2, 4])
    X = signal / signal.std() + noise * rng.normal(size=(800, 5))
    X = np.column_stack([X, rng.normal(size=800)])
    missing = rng.random(X.shape) < 0.4
    given_X = np.where(missing, np.nan, X)

    def errors(imputer):
        filled = imputer.fit_transform(given_X, graph=graph)
        return np.sqrt((((filled - X) ** 2) * missing).sum(axis=0) / missing.sum(axis=0))

    shrunk = errors(GraphImputer(shrinkage="auto"))
    harmonic, mean = errors(GraphImputer()), errors(GraphImputer(shrinkage=1e9))
    assert (shrunk[3:] <= np.minimum(harmonic, mean)[3:]).all()
    assert (shrunk[3:] < 0.98 * harmonic[3:]).any()
    # The estimate uses pairs of neighbours only, and shrinks smooth columns a little too much.
    assert (shrunk <= 1.1 * np.minimum(harmonic, mean)).all()


# -- rows and nodes, scikit-learn ---------------------------------------------------------------


def test_rows_of_a_dataframe_are_matched_by_id_and_keep_their_names(X):
    rng = np.random.default_rng(4)
    ids = [f"n{i}" for i in range(40)]
    graph = Graph(random_graph(weighted=True).adjacency, node_ids=ids)
    table = pd.DataFrame(with_missing(X, 0.4, rng), ids, list("abcdef"))
    expected = dense_harmonic(graph, table.to_numpy())
    order = rng.permutation(40)
    imputer = GraphImputer(tol=1e-12).set_output(transform="pandas")
    filled = imputer.fit_transform(table.iloc[order], graph=graph)
    assert list(filled.columns) == list(imputer.get_feature_names_out()) == list("abcdef")
    assert list(filled.index) == [ids[i] for i in order]
    np.testing.assert_allclose(filled.loc[ids], expected, **CLOSE)
    with pytest.raises(ValueError, match="this GraphImputer was fitted with a graph; pass graph="):
        imputer.transform(table)


def test_some_nodes_are_filled_over_their_subgraph(any_graph, X):
    rng = np.random.default_rng(6)
    nodes = rng.permutation(40)[:25]
    X = with_missing(X[nodes], 0.4, rng)
    filled = GraphImputer(tol=1e-12).fit_transform(X, graph=any_graph, nodes=nodes)
    np.testing.assert_allclose(filled, dense_harmonic(any_graph.subgraph(nodes), X), **CLOSE)


def test_nullable_and_integer_columns():
    table = pd.DataFrame({"a": pd.array([1, None, 3], "Int64"), "b": [True, False, True]})
    graph = Graph.from_edge_index([[0, 1], [1, 2]], each_once=True)
    filled = GraphImputer().fit_transform(table, graph=graph)
    np.testing.assert_array_equal(filled, [[1, 1], [2, 0], [3, 1]])


def test_pipeline_passes_the_graph(graph, X):
    X = with_missing(X, 0.3, np.random.default_rng(0))
    with sklearn.config_context(enable_metadata_routing=True):
        pipeline = make_pipeline(GraphImputer(), GPCA(2), PCA(2))
        Z = pipeline.fit_transform(X, graph=graph)
        again = pipeline.transform(X, graph=graph)
    filled = GraphImputer().fit_transform(X, graph=graph)
    expected = PCA(2).fit_transform(GPCA(2).fit_transform(filled, graph=graph))
    np.testing.assert_allclose(Z, expected, atol=1e-8)
    np.testing.assert_allclose(again, expected, atol=1e-5)


@pytest.mark.parametrize("estimator", [GPCA(), GPCAPath(), GPCAClassifier()], ids=repr)
def test_the_error_on_nan_names_the_imputer(estimator, graph, X):
    X[3, 1] = np.nan
    with pytest.raises(ValueError, match=r"X contains NaN at row 3, column 1 .*GraphImputer"):
        estimator.fit(X, np.arange(40) % 2, graph=graph)


BAD = [
    ("infinity", lambda X: GraphImputer().fit(np.where(X > 3, np.inf, X)),
     r"X contains infinity \(inf\) at row 0, column 0 \(\d+ infinite values in all\); correct"),
    ("fallback", lambda X: GraphImputer(fallback="mode").fit(X),
     r"fallback='mode' must be one of 'mean', 'median'"),
    ("shrinkage", lambda X: GraphImputer(shrinkage=-1.0).fit(X),
     r"shrinkage=-1\.0 must be finite and at least 0; use shrinkage='auto'"),
    ("tol", lambda X: GraphImputer(tol=0).fit(X), r"tol=0 must be in \[1e-14, 0\.5\]"),
    ("masked", lambda X: GraphImputer().fit(np.ma.masked_greater(X, 1)),
     r"X has masked values; fill them in \(gpcanet\.GraphImputer on X\.filled\(np\.nan\)\)"),
    ("rows", lambda X: GraphImputer().fit(X, graph=Graph.without_edges(7)),
     r"X has 40 rows but the graph has 7 nodes"),
    ("text", lambda X: GraphImputer().fit(pd.DataFrame({"a": ["x", "y"]})),
     r"column 'a' of X holds 'x', not numbers"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "message"), [row[1:] for row in BAD], ids=[row[0] for row in BAD])
def test_bad_input_raises_one_sentence(call, message, X):
    X[0, 0] = 4
    with warnings.catch_warnings(), pytest.raises(ValueError, match=message):
        call(X)
