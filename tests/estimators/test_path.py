"""GPCAPath finds what separate fits of GPCA find."""

import itertools
import os
import pickle
from unittest import mock

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import event, example, given
from hypothesis import strategies as st
from properties import examples
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
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
)

import gpcanet.estimators._memory
import gpcanet.estimators.path as path_module
import gpcanet.linalg.features
import gpcanet.linalg.solvers.base
from gpcanet import GPCA, GPCAPath, Graph, load_model, save_model
from gpcanet.datasets import load
from gpcanet.datasets.environment import DATA_DIR_VARIABLE
from gpcanet.estimators._problem import default_tol
from gpcanet.linalg import Sharing, whole_eigenpairs

ALPHAS, BETAS = (0.5, 10.0, 40.0), (0.0, 0.1, 0.5, 1.0)

PLANS = {
    "moments": Sharing("moments", False, 0.0),
    "moments-by-node": Sharing("moments", True, 0.0),
    "samples": Sharing("samples", False, 0.0),
    "samples-by-node": Sharing("samples", True, 0.0),
    "separate": Sharing("separate", False, 0.0),
}


@pytest.fixture(params=list(PLANS))
def any_plan(request, monkeypatch):
    """Take every way to the components, whichever is the cheapest."""
    plan = PLANS[request.param]
    monkeypatch.setattr(path_module, "plan_sharing", lambda *given, **options: plan)
    return plan


def assert_equals_separate_fits(path, X, labels, graph, alphas, betas, atol=1e-7, **options):
    for alpha, beta in itertools.product(alphas, betas):
        model = GPCA(path.n_components, alpha=alpha, beta=beta, **options)
        Z = model.fit_transform(X, labels, graph=graph)
        np.testing.assert_allclose(path.components(alpha, beta), model.components_, atol=atol)
        np.testing.assert_allclose(path.eigenvalues(alpha, beta), model.eigenvalues_, rtol=atol)
        np.testing.assert_allclose(path.embedding(alpha, beta), Z, atol=10 * atol)


# -- the same as separate fits -------------------------------------------------------------


@pytest.mark.parametrize("ghost", ["paper", "balanced"])
@pytest.mark.parametrize("normalization", ["sym", "rw"])
def test_every_way_equals_separate_fits(graph, X, labels, normalization, ghost, any_plan):
    if any_plan.by_node and ghost == "paper":
        pytest.skip("only the balanced form goes by node")
    options = {"normalization": normalization, "ghost": ghost, "tol": 1e-11}
    path = GPCAPath(3, alphas=ALPHAS, betas=BETAS, **options).fit(X, labels, graph=graph)
    assert path.way_ == any_plan.way
    options["solver"] = "direct"
    # 3.3 was not prepared.
    assert_equals_separate_fits(path, X, labels, graph, (*ALPHAS, 3.3), BETAS, **options)


def test_what_it_chooses_equals_separate_fits(any_graph, X, labels):
    path = GPCAPath(3, alphas=ALPHAS, betas=BETAS, tol=1e-11).fit(X, labels, graph=any_graph)
    assert_equals_separate_fits(path, X, labels, any_graph, ALPHAS, BETAS, tol=1e-11)


@pytest.mark.parametrize("normalization", ["sym", "rw"])
def test_components_equal_the_dense_ones(graph, X, labels, normalization):
    path = GPCAPath(3, betas=(0.0, 0.3), normalization=normalization, ghost="paper", tol=1e-10)
    path.fit(X, labels, graph=graph)
    for alpha, beta in itertools.product((1.0, 5.0, 10.0, 20.0, 50.0), (0.0, 0.3)):
        P = dense_P(graph, normalization, labels, beta, "paper")
        weights = row_weights(graph, normalization)
        values, W = dense_components(X - X.mean(axis=0), P, alpha, 3, weights)
        assert same_subspace(path.components(alpha, beta).T, W) < 1e-6
        np.testing.assert_allclose(path.eigenvalues(alpha, beta), values, rtol=1e-7)


@pytest.mark.usefixtures("any_plan")
def test_all_components(graph, X, labels):
    path = GPCAPath(alphas=(1.0, 8.0), betas=(0.2,), tol=1e-11).fit(X, labels, graph=graph)
    model = GPCA(alpha=8.0, beta=0.2, tol=1e-11).fit(X, labels, graph=graph)
    assert path.components(8.0, 0.2).shape == (6, 6)
    np.testing.assert_allclose(path.components(8.0, 0.2), model.components_, atol=1e-7)


@pytest.mark.parametrize("density", [0.02, 0.5])
def test_sparse_features(graph, labels, density):
    X = sp.random_array((40, 60), density=density, rng=np.random.default_rng(6), format="csr")
    path = GPCAPath(3, betas=(0.0, 0.2), tol=1e-12).fit(X, labels, graph=graph)
    dense = X.toarray()
    assert_equals_separate_fits(path, dense, labels, graph, (1.0, 20.0), (0.0, 0.2), tol=1e-12)


@pytest.mark.parametrize("normalization", ["sym", "rw"])
@pytest.mark.parametrize("ghost", ["paper", "balanced"])
def test_many_features_go_by_lanczos(graph, labels, normalization, ghost):
    rng = np.random.default_rng(3)
    X = rng.standard_normal((40, 1200)) * np.linspace(3, 1, 1200)
    options = {"normalization": normalization, "ghost": ghost, "tol": 1e-12}
    path = GPCAPath(4, alphas=(1.0, 9.0), betas=(0.0, 0.3), **options).fit(X, labels, graph=graph)
    is_symmetric = (normalization, ghost) != ("rw", "paper")
    assert path.way_ == ("lanczos" if is_symmetric else "separate")
    options["eigen_solver"] = "formed"
    assert_equals_separate_fits(path, X, labels, graph, (1.0, 4.0), (0.0, 0.3), **options)


@pytest.mark.parametrize("ghost", ["paper", "balanced"])
@pytest.mark.parametrize("is_wide", [True, False])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_without_a_tolerance_it_is_as_exact_as_separate_fits(is_wide, ghost, dtype):
    """Sparse X of many features goes by Lanczos, the other one by a pass for all pairs."""
    graph, labels = random_graph(300, parts=2), random_labels(300)
    X = (word_counts(300) if is_wide else word_counts(300, 90).toarray()).astype(dtype)
    path = GPCAPath(5, betas=(0.0, 0.2), ghost=ghost).fit(X, labels, graph=graph)
    assert (path.way_ == "lanczos") == is_wide
    tol = default_tol(dtype)
    for alpha, beta in itertools.product((1.0, 7.0, 50.0), (0.0, 0.2)):
        model = GPCA(5, alpha=alpha, beta=beta, ghost=ghost, solver="direct")
        model.fit(X, labels, graph=graph)
        # tol is relative to X^T X, whose largest eigenvalue is up to 15 times that at alpha = 50.
        values = path.eigenvalues(alpha, beta)
        np.testing.assert_allclose(values, model.eigenvalues_, rtol=15 * tol)
        ours = path.gpca(alpha, beta)
        assert ours.get_params() == {**model.get_params(), "solver": "auto"}
        assert ours.residual_ <= 15 * tol


def test_the_residual_of_a_model_covers_its_eigenpairs(graph, X, labels, monkeypatch):
    """Components that are a little off show in the residual, not in that of the solves."""

    def inexact(M, k):
        values, vectors = whole_eigenpairs(M, k)
        return values, np.linalg.qr(vectors + 1e-3 * np.roll(vectors, 1, axis=0))[0]

    for found, low, high in ((whole_eigenpairs, 0, 1e-6), (inexact, 1e-4, 1e-2)):
        monkeypatch.setattr(path_module, "whole_eigenpairs", found)
        monkeypatch.setattr(path_module, "plan_sharing", lambda *given, **how: PLANS["samples"])
        path = GPCAPath(3, betas=(0.2,)).fit(X, labels, graph=graph)
        model = path.gpca(10.0, 0.2)
        P, centred = dense_P(graph, labels=labels, beta=0.2), X - X.mean(axis=0)
        W = model.components_.T
        residuals = centred.T @ dense_solve(P, 10.0, centred @ W) - W * model.eigenvalues_
        expected = np.linalg.norm(residuals, axis=0).max() / model.eigenvalues_[0]
        assert low <= model.residual_ <= high
        # The solves behind Z are exact to 1e-6.
        assert model.residual_ == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(("k", "is_lanczos"), [(8, True), (80, False)])
@pytest.mark.parametrize("tol", [None, 1e-4, 1e-9])
def test_a_few_eigenvectors_of_large_products_are_found_by_lanczos(k, tol, is_lanczos, monkeypatch):
    graph, X, calls = random_graph(350), word_counts(350, 320).toarray(), []
    by_blocks = path_module.leading_eigenpairs_by_blocks

    def noted(*given, **options):
        calls.append(given)
        return by_blocks(*given, **options)

    monkeypatch.setattr(path_module, "leading_eigenpairs_by_blocks", noted)
    monkeypatch.setattr(path_module, "plan_sharing", lambda *given, **options: PLANS["samples"])
    path = GPCAPath(k, alphas=(1.0, 20.0), tol=tol).fit(X, graph=graph)
    assert bool(calls) == is_lanczos
    for alpha in (1.0, 4.0, 20.0):
        W = whole_eigenpairs(path._resolvents.matrix(alpha, 0.0), k)[1]
        # The angle is an estimate; tests/linalg/test_lanczos.py allows for a factor of 4.
        assert same_subspace(path.components(alpha).T, W) <= 4 * (tol or 1e-6)


def word_counts(n, width=1100, seed=5):
    """Sparse features of many columns with some structure."""
    rng = np.random.default_rng(seed)
    topics = rng.gamma(0.2, size=(8, width))
    chances = rng.dirichlet(np.full(8, 0.3), n) @ (topics / topics.sum(axis=1, keepdims=True))
    return sp.csr_array((rng.random((n, width)) < 20 * chances).astype(float))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("normalization", "ghost"), [("sym", "paper"), ("sym", "balanced"), ("rw", "balanced")]
)
def test_compiled_products_equal_separate_fits(kind, normalization, ghost, monkeypatch):
    monkeypatch.setattr(path_module, "COMPILED_WORK", 0)
    graph, labels, X = random_graph(300, **KINDS[kind]), random_labels(300), word_counts(300)
    options = {"normalization": normalization, "ghost": ghost, "tol": 1e-12}
    path = GPCAPath(4, alphas=(0.0, 30.0), betas=(0.0, 0.3), **options).fit(X, labels, graph=graph)
    assert path.way_ == "lanczos"
    assert path._products is not None
    options["eigen_solver"] = "formed"
    assert_equals_separate_fits(
        path, X.toarray(), labels, graph, (0.0, 4.0, 30.0), (0.0, 0.3), **options
    )
    again = pickle.loads(pickle.dumps(path))
    np.testing.assert_array_equal(again.components(7.0, 0.3), path.components(7.0, 0.3))


@pytest.mark.parametrize("seed", range(8))
def test_a_large_column_beside_many_that_are_equal(seed, monkeypatch):
    """One spike, a flat rest and as many zeros: what the square of a matrix is worst at."""
    monkeypatch.setattr(path_module, "COMPILED_WORK", 0)
    X = np.kron(np.eye(275), np.ones((1, 4)))
    X[:, 0] = 2 * np.random.default_rng(seed).poisson(3, 275)
    graph, X = random_graph(275, seed=seed), sp.csr_array(X)
    path = GPCAPath(2, alphas=(1.0,)).fit(X, graph=graph)
    expected = GPCA(2, alpha=1.0, eigen_solver="formed", solver="direct").fit(X, graph=graph)
    np.testing.assert_allclose(path.eigenvalues(1.0), expected.eigenvalues_, rtol=1e-6)


def test_products_are_compiled_where_there_are_many(monkeypatch):
    graph, X = random_graph(300), word_counts(300)
    for factor, expected in ((1, True), (1.01, False)):
        monkeypatch.setattr(path_module, "COMPILED_WORK", factor * 5 * 4 * X.nnz)
        path = GPCAPath(4).fit(X, graph=graph)
        assert (path._products is not None) == expected
    monkeypatch.setattr(path_module, "COMPILED_WORK", 0)
    for module, limit in (
        (gpcanet.linalg.solvers.base, "DIRECT_NODES"),
        (path_module, "FACTOR_ENTRIES"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(module, limit, 299)
            assert GPCAPath(4).fit(X, graph=graph)._products is None


def test_compiled_products_do_not_mind_an_order_of_nodes(monkeypatch):
    graph, X = random_graph(300), word_counts(300)
    monkeypatch.setattr(path_module, "COMPILED_WORK", 0)
    expected = GPCAPath(4, tol=1e-10).fit(X, graph=graph).components(10.0)
    monkeypatch.setattr(gpcanet.estimators._memory, "reordering_pays", lambda *given: True)
    found = GPCAPath(4, tol=1e-10).fit(X, graph=graph).components(10.0)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.usefixtures("any_plan")
def test_single_precision_is_kept_and_close(graph, X, labels):
    options = {"alphas": (1.0, 10.0), "betas": (0.0, 0.2)}
    double = GPCAPath(3, **options).fit(X, labels, graph=graph)
    single = GPCAPath(3, **options).fit(X.astype(np.float32), labels, graph=graph)
    for pair in itertools.product(*options.values()):
        parts = single.components(*pair), single.eigenvalues(*pair), single.embedding(*pair)
        assert [part.dtype for part in parts] == [np.float32, np.float64, np.float32]
        # tol=1e-5 in single precision, over the relative gap of the eigenvalues of about 0.1.
        np.testing.assert_allclose(parts[2], double.embedding(*pair), atol=1e-3)
        np.testing.assert_allclose(parts[1], double.eigenvalues(*pair), rtol=1e-4)


def test_alpha_zero_and_no_graph_are_pca(graph, X):
    for source in (graph, None):
        path = GPCAPath(3, alphas=(0.0, 5.0)).fit(X, graph=source)
        np.testing.assert_allclose(path.components(0.0), GPCA(3).fit(X).components_, atol=1e-9)
    np.testing.assert_allclose(path.components(2.5), path.components(0.0), atol=1e-9)


@examples(20)
@given(
    st.integers(8, 30),
    st.integers(2, 10),
    st.integers(1, 3),
    st.integers(0, 3),
    st.just(0.0) | st.floats(1e-3, 60.0),
    st.sampled_from([0.0, 0.15, 1.0]),
    st.integers(0, 1000),
)
def test_any_graph_any_alpha(n, d, parts, isolated, alpha, beta, seed):
    graph = random_graph(n, parts=parts, isolated=isolated, seed=seed)
    X, labels = random_features(n, d, seed), random_labels(n, seed=seed)
    k = min(2, d)
    path = GPCAPath(k, alphas=(0.0, 60.0), betas=(beta,), tol=1e-11).fit(X, labels, graph=graph)
    model = GPCA(k, alpha=alpha, beta=beta, solver="direct").fit(X, labels, graph=graph)
    np.testing.assert_allclose(path.eigenvalues(alpha, beta), model.eigenvalues_, rtol=1e-6)
    W = path.components(alpha, beta)
    np.testing.assert_allclose(W @ W.T, np.eye(k), atol=1e-10)


@examples(100)
@given(
    st.sampled_from(sorted(KINDS)),
    st.integers(10, 60),
    st.integers(2, 80),
    st.lists(st.just(0.0) | st.floats(1e-2, 1e3), min_size=1, max_size=15),
    st.lists(st.just(0.0) | st.floats(0.01, 1.0), min_size=1, max_size=5),
    st.sampled_from(["balanced", "paper"]),
    st.sampled_from(["sym", "rw"]),
    st.sampled_from([1e-2, 1e-4, 1e-6, 1e-9, 1e-11, 1e-12]),
    st.sampled_from([0, 6_000]),
    st.integers(0, 1000),
)
@example("plain", 40, 60, [1.0, 300.0], [0.5], "balanced", "sym", 1e-9, 0, 0)
@example("plain", 40, 60, [1.0, 300.0], [0.5], "paper", "rw", 1e-9, 0, 0)
@example("disconnected", 10, 2, [64.0], [0.0, 0.9375], "paper", "rw", 0.01, 0, 0)
def test_any_grid_to_any_tolerance(
    kind, n, d, alphas, betas, ghost, normalization, tol, direct_nodes, seed
):
    """Whatever the plan, products are within tol of the dense ones, relative to X^T D X."""
    with mock.patch.object(gpcanet.linalg.solvers.base, "DIRECT_NODES", direct_nodes):
        check_grid(kind, n, d, alphas, betas, ghost, normalization, tol, seed)


def check_grid(kind, n, d, alphas, betas, ghost, normalization, tol, seed):
    graph = random_graph(n, **KINDS[kind], seed=seed)
    X, labels = random_features(n, d, seed), random_labels(n, seed=seed)
    k, options = min(2, d), {"ghost": ghost, "normalization": normalization, "tol": tol}
    path = GPCAPath(k, alphas=alphas, betas=betas, **options).fit(X, labels, graph=graph)
    event(path.way_)
    centred, weights = X - X.mean(axis=0), row_weights(graph, normalization)
    # Of a random walk with the paper's class means, the inverse is bounded by 1 in the maximum
    # norm; in the norm of X^T D X by the root of the ratio of degrees.
    scale = np.linalg.norm(centred.T @ (weights[:, None] * centred), 2)
    scale *= np.sqrt(weights.max() / weights.min()) if ghost == "paper" else 1
    for alpha, beta in itertools.product({*alphas, float(np.median(alphas))}, betas):
        P = dense_P(graph, normalization, labels, beta, ghost)
        M = centred.T @ (weights[:, None] * dense_solve(P, alpha, centred))
        M, W = (M + M.T) / 2, path.components(alpha, beta).T
        values = np.linalg.eigvalsh(M)[::-1][:k]
        # The dense inverse itself is rounded at alpha = 1000.
        np.testing.assert_allclose(
            path.eigenvalues(alpha, beta), values, rtol=1e-12, atol=(tol + 1e-12) * scale
        )
        assert np.linalg.norm(M @ W - W * values) <= 3 * (tol + 1e-12) * scale
        np.testing.assert_allclose(W.T @ W, np.eye(k), atol=1e-12)


# -- the fitted GPCA -----------------------------------------------------------------------


@pytest.mark.parametrize("beta", [0.0, 0.3])
def test_gpca_of_a_pair_is_a_fitted_one(graph, X, labels, beta, tmp_path):
    path = GPCAPath(3, betas=(0.0, 0.3), tol=1e-11).fit(X, labels, graph=graph)
    ours = path.gpca(10.0, beta)
    theirs = GPCA(3, alpha=10.0, beta=beta, tol=1e-11).fit(X, labels, graph=graph)
    assert ours.get_params() == theirs.get_params()
    assert ours.objective_ == pytest.approx(theirs.objective_, rel=1e-9)
    assert (ours.n_iter_, ours.n_features_in_) == (theirs.n_iter_, 6)
    assert ours.residual_ <= 1e-11
    assert list(ours.get_feature_names_out()) == ["gpca0", "gpca1", "gpca2"]
    Z = ours.transform(X, graph=graph)
    np.testing.assert_allclose(Z, path.embedding(10.0, beta), atol=1e-10)
    np.testing.assert_allclose(Z, theirs.transform(X, graph=graph), atol=1e-7)
    save_model(ours, tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    np.testing.assert_array_equal(loaded.transform(X, graph=graph), Z)


def test_nodes_that_are_a_part_of_the_graph(graph, X, labels):
    nodes = np.random.default_rng(0).permutation(40)[:25]
    options = {"graph": graph, "nodes": nodes}
    path = GPCAPath(3, betas=(0.3,), tol=1e-11).fit(X[nodes], labels[nodes], **options)
    model = GPCA(3, alpha=5.0, beta=0.3, tol=1e-11)
    Z = model.fit_transform(X[nodes], labels[nodes], **options)
    np.testing.assert_allclose(path.embedding(5.0, 0.3), Z, atol=1e-7)
    others = np.setdiff1d(np.arange(40), nodes)  # see those of fit as neighbours
    np.testing.assert_allclose(
        path.gpca(5.0, 0.3).transform(X[others], graph=graph, nodes=others),
        model.transform(X[others], graph=graph, nodes=others),
        atol=1e-7,
    )


# -- the estimator -------------------------------------------------------------------------


@pytest.mark.usefixtures("any_plan")
def test_two_identical_fits_give_identical_bytes(graph, X, labels):
    one, other = (
        GPCAPath(3, alphas=(1.0, 5.0), betas=(0.0, 0.2)).fit(X, labels, graph=graph).components(3.0)
        for _ in range(2)
    )
    assert one.tobytes() == other.tobytes()


def test_clone_and_pickle(graph, X):
    path = GPCAPath(3, alphas=(1.0, 5.0)).fit(X, graph=graph)
    assert clone(path).get_params() == path.get_params()
    assert not hasattr(clone(path), "way_")
    again = pickle.loads(pickle.dumps(path))
    np.testing.assert_array_equal(again.components(2.0), path.components(2.0))


def test_graph_and_nodes_are_requested():
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
     r"beta=0\.2 adds ghost edges .* y is None; give y"),
    ("no alphas", lambda: GPCAPath(alphas=()).fit(random_features()), ValueError,
     r"alphas=\(\) must be a list of numbers, at least one"),
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
]  # fmt: skip


@pytest.mark.parametrize(
    ("call", "error", "message"), [c[1:] for c in BAD_CALLS], ids=[c[0] for c in BAD_CALLS]
)
def test_bad_calls_say_what_to_do(call, error, message):
    with pytest.raises(error, match=message):
        call()


# -- real data -----------------------------------------------------------------------------


@pytest.mark.real_data
@pytest.mark.skipif(
    DATA_DIR_VARIABLE not in os.environ, reason=f"{DATA_DIR_VARIABLE} names no folder"
)
@pytest.mark.parametrize(
    ("name", "k"),
    [("cora", 32), ("citeseer", 64), pytest.param("pubmed", 64, marks=pytest.mark.slow)],
)
def test_subspaces_on_real_graphs_are_those_of_separate_fits(name, k):
    data = load(name)
    y, betas = data.visible_labels(validation=False), (0.0, 0.1, 0.2)
    path = GPCAPath(k, betas=betas, ghost="paper").fit(data.X, y, graph=data.graph)
    for alpha, beta in itertools.product((1.0, 5.0, 20.0, 50.0), betas):
        model = GPCA(k, alpha=alpha, beta=beta, ghost="paper").fit(data.X, y, graph=data.graph)
        cosines = np.linalg.svd(path.components(alpha, beta) @ model.components_.T)[1]
        assert cosines.min() >= 0.99999
        # X is float32, for which tol is 1e-5, relative to the largest eigenvalue at alpha = 0.
        np.testing.assert_allclose(path.eigenvalues(alpha, beta), model.eigenvalues_, rtol=1e-4)


def test_the_kinds_of_graph_are_all_there():
    assert set(KINDS) == {"plain", "weighted", "disconnected", "isolated"}


@pytest.mark.usefixtures("any_plan")
def test_features_too_large_to_be_centred_beforehand(graph, X, labels, monkeypatch):
    monkeypatch.setattr(gpcanet.estimators._memory, "KEPT_BYTES", 0)
    monkeypatch.setattr(gpcanet.linalg.features, "KEPT_BYTES", 0)
    X = X + 7
    path = GPCAPath(3, alphas=(1.0, 20.0), betas=(0.0, 0.2), tol=1e-11).fit(X, labels, graph=graph)
    assert_equals_separate_fits(path, X, labels, graph, (1.0, 8.0), (0.0, 0.2), tol=1e-11)


@pytest.mark.parametrize("options", [{"tol": 1e-14}, {"alphas": (1e-300, 50.0)}])
def test_what_interpolation_cannot_reach_is_found_otherwise(graph, X, options):
    path = GPCAPath(2, **options).fit(X, graph=graph)
    expected = GPCA(2, alpha=50.0).fit(X, graph=graph).components_
    np.testing.assert_allclose(path.components(50.0), expected, atol=1e-6)


def test_more_steps_than_allowed_are_not_taken_together(graph, X):
    path = GPCAPath(2, alphas=(1.0, 1e5), max_iter=100).fit(X, graph=graph)
    assert path.way_ == "separate"
