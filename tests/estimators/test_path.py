"""GPCAPath gives the components of separate fits of GPCA."""

import itertools
import os
import pickle
from collections import Counter

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import event, example, given
from hypothesis import strategies as st
from properties import examples
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from truth import (
    KINDS,
    dense_components,
    dense_P,
    dense_solve,
    random_features,
    random_graph,
    random_labels,
    row_weights,
    same_subspace,
    word_counts,
)

import gpcanet.estimators.memory_plan
import gpcanet.linalg.features
from gpcanet import GPCA, GPCAPath, Graph, load_model, save_model
from gpcanet.datasets import load
from gpcanet.datasets.environment import DATA_DIR_VARIABLE
from gpcanet.estimators.problem import default_tol

ALPHAS, BETAS = (0.5, 2.0, 10.0, 20.0, 40.0), (0.0, 0.1, 0.5, 1.0)

#: Numbers of nodes: a factorisation of 40 nodes is fast, so every pair is fitted separately; a
#: graph with 200 nodes has too much fill-in, so all pairs share their solves.
SIZES = {"separate": 40, "samples": 200}


@pytest.fixture(params=list(SIZES))
def strategy(request):
    return request.param


@pytest.fixture
def data(strategy):
    """A graph, X and labels for which the path uses the strategy."""
    n = SIZES[strategy]
    return random_graph(n, **KINDS["isolated"]), random_features(n), random_labels(n)


def check_separate_fits(path, X, labels, graph, alphas, betas, atol=1e-7, **options):
    for alpha, beta in itertools.product(alphas, betas):
        model = GPCA(path.n_components, alpha=alpha, beta=beta, **options)
        Z = model.fit_transform(X, labels, graph=graph)
        np.testing.assert_allclose(path.components(alpha, beta), model.components_, atol=atol)
        np.testing.assert_allclose(path.eigenvalues(alpha, beta), model.eigenvalues_, rtol=atol)
        np.testing.assert_allclose(path.embedding(alpha, beta), Z, atol=10 * atol)


# -- equal to separate fits ----------------------------------------------------------------


@pytest.mark.parametrize("ghost", ["paper", "balanced"])
@pytest.mark.parametrize("normalization", ["sym", "rw"])
def test_grid_equals_separate_fits(data, strategy, normalization, ghost):
    graph, X, labels = data
    options = {"normalization": normalization, "ghost": ghost, "tol": 1e-9}
    path = GPCAPath(3, alphas=ALPHAS, betas=BETAS, **options).fit(X, labels, graph=graph)
    assert path.strategy_ == strategy
    options["solver"] = "direct"
    # 3.3 is between the alphas of the grid.
    check_separate_fits(path, X, labels, graph, (0.5, 3.3, 40.0), BETAS, **options)


@pytest.mark.parametrize("kind", KINDS)
def test_components_equal_dense_components(kind, strategy):
    n = SIZES[strategy]
    graph, X, labels = random_graph(n, **KINDS[kind]), random_features(n), random_labels(n)
    for normalization in ("sym", "rw"):
        path = GPCAPath(
            3, alphas=ALPHAS, betas=(0.0, 0.3), normalization=normalization, ghost="paper",
            tol=1e-10,
        ).fit(X, labels, graph=graph)  # fmt: skip
        weights = row_weights(graph, normalization)
        for alpha, beta in itertools.product((0.5, 7.0, 40.0), (0.0, 0.3)):
            P = dense_P(graph, normalization, labels, beta, "paper")
            values, W = dense_components(X - X.mean(axis=0), P, alpha, 3, weights)
            assert same_subspace(path.components(alpha, beta).T, W) < 1e-6
            np.testing.assert_allclose(path.eigenvalues(alpha, beta), values, rtol=1e-7)


def test_default_number_of_components_is_all(data):
    graph, X, labels = data
    path = GPCAPath(alphas=(1.0, 8.0), betas=(0.2,), tol=1e-11).fit(X, labels, graph=graph)
    model = GPCA(alpha=8.0, beta=0.2, tol=1e-11).fit(X, labels, graph=graph)
    assert path.n_components_ == 6
    assert path.components(8.0, 0.2).shape == (6, 6)
    np.testing.assert_allclose(path.components(8.0, 0.2), model.components_, atol=1e-7)


@pytest.mark.parametrize("density", [0.02, 0.5])
def test_sparse_features_equal_dense_features(strategy, density):
    """Sparse features stay sparse below a density of 5 %, and are then fitted separately."""
    n = SIZES[strategy]
    graph, labels = random_graph(n, **KINDS["isolated"]), random_labels(n)
    X = sp.random_array((n, 60), density=density, rng=np.random.default_rng(6), format="csr")
    path = GPCAPath(3, betas=(0.0, 0.2), tol=1e-12).fit(X, labels, graph=graph)
    assert path.strategy_ == (strategy if density == 0.5 else "separate")
    dense = X.toarray()
    check_separate_fits(path, dense, labels, graph, (1.0, 20.0), (0.0, 0.2), tol=1e-12)


@pytest.mark.parametrize("normalization", ["sym", "rw"])
@pytest.mark.parametrize("ghost", ["paper", "balanced"])
@pytest.mark.parametrize(("n", "is_sparse"), [(40, False), (200, True)])
def test_many_features_equal_separate_fits(n, is_sparse, normalization, ghost):
    """W is computed by Lanczos if the matrix is symmetric, with both kinds of solvers."""
    graph, labels, X = random_graph(n), random_labels(n), word_counts(n)
    X = X if is_sparse else X.toarray()
    options = {"normalization": normalization, "ghost": ghost, "tol": 1e-12}
    path = GPCAPath(4, alphas=(0.0, 9.0), betas=(0.0, 0.3), **options).fit(X, labels, graph=graph)
    assert path.strategy_ == "separate"
    dense = X.toarray() if is_sparse else X
    options["eigen_solver"] = "formed"
    check_separate_fits(path, dense, labels, graph, (0.0, 4.0), (0.0, 0.3), **options)


@pytest.mark.parametrize("seed", range(4))
def test_one_large_column_and_many_equal_ones(seed):
    """One large eigenvalue, many repeated ones, and as many zeros."""
    X = np.kron(np.eye(275), np.ones((1, 4)))
    X[:, 0] = 2 * np.random.default_rng(seed).poisson(3, 275)
    graph, X = random_graph(275, seed=seed), sp.csr_array(X)
    path = GPCAPath(2, alphas=(1.0,)).fit(X, graph=graph)
    expected = GPCA(2, alpha=1.0, eigen_solver="formed", solver="direct").fit(X, graph=graph)
    np.testing.assert_allclose(path.eigenvalues(1.0), expected.eigenvalues_, rtol=1e-6)


@pytest.mark.parametrize("ghost", ["paper", "balanced"])
@pytest.mark.parametrize("is_wide", [True, False])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_default_tolerance_is_that_of_separate_fits(is_wide, ghost, dtype):
    """A wide sparse X is fitted separately, a narrow dense one from shared solves."""
    graph, labels = random_graph(300, parts=2), random_labels(300)
    X = (word_counts(300) if is_wide else word_counts(300, 90).toarray()).astype(dtype)
    path = GPCAPath(5, betas=(0.0, 0.2), ghost=ghost).fit(X, labels, graph=graph)
    assert path.strategy_ == ("separate" if is_wide else "samples")
    tol = default_tol(dtype)
    for alpha, beta in itertools.product((1.0, 7.0, 50.0), (0.0, 0.2)):
        model = GPCA(5, alpha=alpha, beta=beta, ghost=ghost, solver="direct")
        model.fit(X, labels, graph=graph)
        # tol is relative to X^T X, whose largest eigenvalue is up to 15 times that at alpha = 50.
        values = path.eigenvalues(alpha, beta)
        np.testing.assert_allclose(values, model.eigenvalues_, rtol=15 * tol)
        from_path = path.gpca(alpha, beta)
        assert from_path.get_params() == {**model.get_params(), "solver": "auto"}
        assert from_path.residual_ <= 15 * tol


@pytest.mark.parametrize("tol", [1e-2, 1e-4, 1e-8])
@pytest.mark.parametrize("normalization", ["sym", "rw"])
def test_residual_of_a_model_is_the_largest_of_solves_and_eigenpairs(data, normalization, tol):
    graph, X, labels = data
    options = {"normalization": normalization, "tol": tol}
    path = GPCAPath(3, alphas=ALPHAS, betas=(0.2,), **options).fit(X, labels, graph=graph)
    model, Z = path.fitted(10.0, 0.2)
    W, centered = model.components_.T, X - X.mean(axis=0)
    order = 2 if normalization == "sym" else np.inf
    system = np.eye(len(X)) - dense_P(graph, normalization, labels, 0.2)
    residuals = centered @ W - Z - 10 * system @ Z
    of_solves = np.linalg.norm(residuals, order, axis=0) / np.linalg.norm(
        centered @ W, order, axis=0
    )
    weighted = row_weights(graph, normalization)[:, None] * Z
    residuals = centered.T @ weighted - W * model.eigenvalues_
    of_eigenpairs = np.linalg.norm(residuals, axis=0) / model.eigenvalues_[0]
    expected = max(of_solves.max(), of_eigenpairs.max())
    assert model.residual_ == pytest.approx(expected, rel=1e-6, abs=1e-14)


def test_float32_is_kept_and_close_to_float64(data):
    graph, X, labels = data
    options = {"alphas": (1.0, 10.0), "betas": (0.0, 0.2)}
    double = GPCAPath(3, **options).fit(X, labels, graph=graph)
    single = GPCAPath(3, **options).fit(X.astype(np.float32), labels, graph=graph)
    for pair in itertools.product(*options.values()):
        parts = single.components(*pair), single.eigenvalues(*pair), single.embedding(*pair)
        assert [part.dtype for part in parts] == [np.float32, np.float64, np.float32]
        # tol=1e-5 for float32, divided by the relative gap of the eigenvalues of about 0.1.
        np.testing.assert_allclose(parts[2], double.embedding(*pair), atol=1e-3)
        np.testing.assert_allclose(parts[1], double.eigenvalues(*pair), rtol=1e-4)


def test_alpha_zero_and_no_graph_equal_pca(graph, X):
    for source in (graph, None):
        path = GPCAPath(3, alphas=(0.0, 5.0)).fit(X, graph=source)
        np.testing.assert_allclose(path.components(0.0), GPCA(3).fit(X).components_, atol=1e-9)
    np.testing.assert_allclose(path.components(2.5), path.components(0.0), atol=1e-9)


#: Arguments of ``check_grid``. Grids of the first kind are mostly fitted separately, because the
#: graph is small or the range of alpha is wide; those of the second kind mostly share solves.
COMMON = {
    "kind": st.sampled_from(sorted(KINDS)),
    "d": st.integers(2, 80),
    "betas": st.lists(st.just(0.0) | st.floats(0.01, 1.0), min_size=1, max_size=3),
    "ghost": st.sampled_from(["balanced", "paper"]),
    "normalization": st.sampled_from(["sym", "rw"]),
    "tol": st.sampled_from([1e-2, 1e-3, 1e-4, 1e-6, 1e-9, 1e-12]),
    "seed": st.integers(0, 1000),
}
GRIDS = {
    "separate": {
        "n": st.integers(10, 60) | st.integers(150, 250),
        "alphas": st.lists(st.just(0.0) | st.floats(1e-2, 1e3), min_size=1, max_size=6),
    },
    "samples": {
        "n": st.integers(150, 250),
        "alphas": st.lists(st.floats(0.5, 50.0), min_size=4, max_size=6, unique_by=round),
    },
}


@pytest.mark.property
@pytest.mark.parametrize("strategy", GRIDS)
def test_any_grid_to_any_tolerance(strategy):
    """The products of both strategies are within tol of the dense ones, relative to X^T D X."""
    found = Counter()

    @examples(60)
    @given(**COMMON, **GRIDS[strategy])
    @example(
        kind="plain",
        n=40,
        d=60,
        alphas=[1.0, 300.0],
        betas=[0.5],
        ghost="balanced",
        normalization="sym",
        tol=1e-9,
        seed=0,
    )
    @example(
        kind="plain",
        n=200,
        d=60,
        alphas=[1.0, 300.0],
        betas=[0.5],
        ghost="paper",
        normalization="rw",
        tol=1e-9,
        seed=0,
    )
    @example(
        kind="disconnected",
        n=10,
        d=2,
        alphas=[64.0],
        betas=[0.0, 0.9375],
        ghost="paper",
        normalization="rw",
        tol=0.01,
        seed=0,
    )
    def check(**arguments):
        used = check_grid(**arguments)
        found[used] += 1
        event(used)

    check()
    assert found[strategy] >= 5


def check_grid(*, kind, n, d, alphas, betas, ghost, normalization, tol, seed):
    graph = random_graph(n, **KINDS[kind], seed=seed)
    X, labels = random_features(n, d, seed), random_labels(n, seed=seed)
    k, options = min(2, d), {"ghost": ghost, "normalization": normalization, "tol": tol}
    path = GPCAPath(k, alphas=alphas, betas=betas, **options).fit(X, labels, graph=graph)
    centered, weights = X - X.mean(axis=0), row_weights(graph, normalization)
    # For rw with ghost edges of the paper, the inverse is bounded by 1 in the maximum norm only;
    # in the norm of X^T D X, by the square root of the ratio of degrees.
    scale = np.linalg.norm(centered.T @ (weights[:, None] * centered), 2)
    scale *= np.sqrt(weights.max() / weights.min()) if ghost == "paper" else 1
    for alpha, beta in itertools.product({*alphas, float(np.median(alphas))}, betas):
        P = dense_P(graph, normalization, labels, beta, ghost)
        M = centered.T @ (weights[:, None] * dense_solve(P, alpha, centered))
        M, W = (M + M.T) / 2, path.components(alpha, beta).T
        values = np.linalg.eigvalsh(M)[::-1][:k]
        # The dense inverse has rounding errors of 1e-12 at alpha = 1000.
        np.testing.assert_allclose(
            path.eigenvalues(alpha, beta), values, rtol=1e-12, atol=(tol + 1e-12) * scale
        )
        assert np.linalg.norm(M @ W - W * values) <= 3 * (tol + 1e-12) * scale
        np.testing.assert_allclose(W.T @ W, np.eye(k), atol=1e-12)
    return path.strategy_


# -- the fitted GPCA -----------------------------------------------------------------------


@pytest.mark.parametrize("beta", [0.0, 0.3])
def test_gpca_of_a_pair_equals_a_separate_fit(data, beta, tmp_path):
    graph, X, labels = data
    path = GPCAPath(3, betas=(0.0, 0.3), tol=1e-11).fit(X, labels, graph=graph)
    from_path = path.gpca(10.0, beta)
    separate = GPCA(3, alpha=10.0, beta=beta, tol=1e-11).fit(X, labels, graph=graph)
    assert from_path.get_params() == separate.get_params()
    assert from_path.objective_ == pytest.approx(separate.objective_, rel=1e-9)
    assert (from_path.n_components_, from_path.n_features_in_) == (3, 6)
    assert from_path.n_iter_ == separate.n_iter_
    assert from_path.residual_ <= 1e-11
    np.testing.assert_allclose(
        from_path.explained_variance_ratio_, separate.explained_variance_ratio_, rtol=1e-7
    )
    assert list(from_path.get_feature_names_out()) == ["gpca0", "gpca1", "gpca2"]
    Z = from_path.transform(X, graph=graph)
    np.testing.assert_allclose(Z, path.embedding(10.0, beta), atol=1e-10)
    np.testing.assert_allclose(Z, separate.transform(X, graph=graph), atol=1e-7)
    save_model(from_path, tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    np.testing.assert_array_equal(loaded.transform(X, graph=graph), Z)


def test_fit_on_some_nodes_equals_gpca_on_these_nodes(graph, X, labels):
    nodes = np.random.default_rng(0).permutation(40)[:25]
    options = {"graph": graph, "nodes": nodes}
    path = GPCAPath(3, betas=(0.3,), tol=1e-11).fit(X[nodes], labels[nodes], **options)
    model = GPCA(3, alpha=5.0, beta=0.3, tol=1e-11)
    Z = model.fit_transform(X[nodes], labels[nodes], **options)
    np.testing.assert_allclose(path.embedding(5.0, 0.3), Z, atol=1e-7)
    others = np.setdiff1d(np.arange(40), nodes)  # the nodes of fit are their neighbours
    np.testing.assert_allclose(
        path.gpca(5.0, 0.3).transform(X[others], graph=graph, nodes=others),
        model.transform(X[others], graph=graph, nodes=others),
        atol=1e-7,
    )


def test_large_features_that_are_centred_in_chunks(data, monkeypatch):
    graph, X, labels = data
    monkeypatch.setattr(gpcanet.estimators.memory_plan, "KEPT_BYTES", 0)
    monkeypatch.setattr(gpcanet.linalg.features, "KEPT_BYTES", 0)
    X = X + 7
    path = GPCAPath(3, alphas=(1.0, 20.0), betas=(0.0, 0.2), tol=1e-11).fit(X, labels, graph=graph)
    check_separate_fits(path, X, labels, graph, (1.0, 8.0), (0.0, 0.2), tol=1e-11)


# -- the strategy --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options", [{"tol": 1e-15}, {"alphas": (1e-300, 50.0)}, {"alphas": (0.0, 50.0)}]
)
def test_pairs_are_fitted_separately_if_interpolation_is_not_accurate_enough(options):
    graph, X = random_graph(200), random_features(200)
    path = GPCAPath(2, **options).fit(X, graph=graph)
    assert path.strategy_ == "separate"
    expected = GPCA(2, alpha=50.0).fit(X, graph=graph).components_
    np.testing.assert_allclose(path.components(50.0), expected, atol=1e-5)
    assert GPCAPath(2).fit(X, graph=graph).strategy_ == "samples"


def test_pairs_are_fitted_separately_if_max_iter_is_too_small_to_share():
    graph, X = random_graph(200), random_features(200)
    path = GPCAPath(2, alphas=(1.0, 50.0), max_iter=60)
    with pytest.warns(ConvergenceWarning):
        path.fit(X, graph=graph).embedding(50.0)
    assert path.strategy_ == "separate"
    assert path.set_params(max_iter=200).fit(X, graph=graph).strategy_ == "samples"


# -- the estimator -------------------------------------------------------------------------


def test_two_identical_fits_give_identical_bytes(data):
    graph, X, labels = data
    first, second = (
        GPCAPath(3, alphas=(1.0, 5.0), betas=(0.0, 0.2)).fit(X, labels, graph=graph).components(3.0)
        for _ in range(2)
    )
    assert first.tobytes() == second.tobytes()


def test_clone_and_pickle(data):
    graph, X, _ = data
    path = GPCAPath(3, alphas=(1.0, 5.0)).fit(X, graph=graph)
    assert clone(path).get_params() == path.get_params()
    assert not hasattr(clone(path), "strategy_")
    restored = pickle.loads(pickle.dumps(path))
    np.testing.assert_array_equal(restored.components(2.0), path.components(2.0))


def test_graph_and_nodes_are_requested_in_metadata_routing():
    requests = GPCAPath().get_metadata_routing().fit.requests
    assert requests == {"graph": True, "nodes": True}


def fitted():
    return GPCAPath(2, alphas=(1.0, 20.0), betas=(0.0, 0.5)).fit(
        random_features(), random_labels(), graph=random_graph()
    )


BAD_CALLS = [
    ("alpha too small", lambda: fitted().components(0.9), ValueError,
     r"alpha=0\.9 must be in \[1, 20\]; fit the path with alphas that enclose it"),
    ("alpha too large", lambda: fitted().embedding(21), ValueError, r"alpha=21 must be in \[1, 20"),
    ("alpha of text", lambda: fitted().gpca("5"), TypeError, r"alpha='5' must be a number"),
    ("NaN alpha", lambda: fitted().components(np.nan), ValueError, r"alpha=nan must be in"),
    ("beta not fitted", lambda: fitted().eigenvalues(5, 0.1), ValueError,
     r"beta=0\.1 must be one of 0, 0\.5; fit the path with it in betas"),
    ("beta too large", lambda: fitted().components(5, 1.5), ValueError, r"beta=1\.5 must be in"),
    ("not fitted", lambda: GPCAPath().components(5), NotFittedError, r"is not fitted yet"),
    ("no labels", lambda: GPCAPath(betas=(0.0, 0.2)).fit(random_features()), ValueError,
     r"beta=0\.2 adds ghost edges .* y is None; pass y"),
    ("no alphas", lambda: GPCAPath(alphas=()).fit(random_features()), ValueError,
     r"alphas=\(\) must be a list of at least one number"),
    ("negative alpha", lambda: GPCAPath(alphas=(1, -2)).fit(random_features()), ValueError,
     r"alphas=-2 must be in \[0, 1e\+06\]"),
    ("alphas of text", lambda: GPCAPath(alphas="many").fit(random_features()), TypeError,
     r"alphas='many' must be a number"),
    ("betas above 1", lambda: GPCAPath(betas=(0, 2)).fit(random_features()), ValueError,
     r"betas=2 must be in \[0, 1\]"),
    ("NaN in X", lambda: GPCAPath().fit(np.array([[1.0, np.nan], [0, 1]])), ValueError,
     r"X contains NaN at row 0, column 1"),
    ("wrong graph", lambda: GPCAPath().fit(random_features(), graph=Graph.without_edges(3)),
     ValueError, r"X has 40 rows but the graph has 3 nodes"),
    ("wrong ghost", lambda: GPCAPath(ghost="x").fit(random_features()), ValueError, r"ghost='x'"),
    ("too wide", lambda: GPCAPath(7).fit(random_features()), ValueError,
     r"n_components=7 must be in \[1, 6\]"),
    ("share of the trace", lambda: GPCAPath(0.9).fit(random_features()), ValueError,
     r"n_components=0\.9 must be an integer"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("call", "error", "message"), [c[1:] for c in BAD_CALLS], ids=[c[0] for c in BAD_CALLS]
)
def test_invalid_calls_raise_with_value_limit_and_advice(call, error, message):
    with pytest.raises(error, match=message):
        call()


# -- real data -----------------------------------------------------------------------------


@pytest.mark.real_data
@pytest.mark.skipif(DATA_DIR_VARIABLE not in os.environ, reason=f"{DATA_DIR_VARIABLE} is not set")
@pytest.mark.parametrize(
    ("name", "k"),
    [("cora", 32), ("citeseer", 64), pytest.param("pubmed", 64, marks=pytest.mark.slow)],
)
def test_subspaces_of_real_graphs_equal_separate_fits(name, k):
    data = load(name)
    y, betas = data.visible_labels(validation=False), (0.0, 0.2)
    path = GPCAPath(k, alphas=(1.0, 50.0), betas=betas, ghost="paper").fit(
        data.X, y, graph=data.graph
    )
    for alpha, beta in itertools.product((1.0, 7.0, 50.0), betas):
        model = GPCA(k, alpha=alpha, beta=beta, ghost="paper").fit(data.X, y, graph=data.graph)
        cosines = np.linalg.svd(path.components(alpha, beta) @ model.components_.T)[1]
        assert cosines.min() >= 0.99999
        # X is float32, for which tol is 1e-5, relative to the largest eigenvalue at alpha = 0.
        np.testing.assert_allclose(path.eigenvalues(alpha, beta), model.eigenvalues_, rtol=1e-4)
