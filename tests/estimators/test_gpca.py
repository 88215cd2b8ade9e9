"""GPCA against dense formulas and the theorems about it."""

import logging

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import assume, example, given
from hypothesis import strategies as st
from properties import examples
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from truth import (
    GHOSTS,
    align_signs,
    dense_components,
    dense_P,
    dense_solve,
    objective,
    propagation,
    random_features,
    random_graph,
    random_labels,
    row_weights,
    same_subspace,
    word_counts,
)

from gpcanet import GPCA, GPCAPath, Graph
from gpcanet.linalg import Propagation, Solver, extreme_exponent, times_power_of_two

SOLVERS = ["auto", "direct", "chebyshev", "cg", "fixed-point"]

#: Options with a self-adjoint P, for which the closed form is the minimum of an objective.
WITH_OBJECTIVE = [("sym", b, g) for b, g in GHOSTS] + [
    ("rw", 0.0, "paper"),
    ("rw", 0.5, "balanced"),
]


def centered(X):
    return X - X.mean(axis=0)


# -- the optimum -----------------------------------------------------------------------


@pytest.mark.parametrize(("normalization", "beta", "ghost"), WITH_OBJECTIVE)
def test_no_other_point_has_a_smaller_objective(graph, X, labels, normalization, beta, ghost):
    alpha, k = 5.0, 3
    options = {"normalization": normalization, "beta": beta, "ghost": ghost}
    model = GPCA(k, alpha=alpha, solver="direct", **options)
    Z, W = model.fit_transform(X, labels, graph=graph), model.components_.T
    P = dense_P(graph, labels=labels, **options)
    weights = row_weights(graph, normalization)

    def value(Z, W):
        return objective(centered(X), Z, W, P, alpha, weights)

    best = value(Z, W)
    assert model.objective_ == pytest.approx(best, rel=1e-12)
    total = (weights[:, None] * centered(X) ** 2).sum()
    assert best == pytest.approx(total - model.eigenvalues_.sum(), rel=1e-10)
    rng = np.random.default_rng(4)
    for _ in range(20):
        other, _ = np.linalg.qr(rng.standard_normal(W.shape))
        assert value(rng.standard_normal(Z.shape), other) > best
        assert value(dense_solve(P, alpha, centered(X) @ other), other) > best
        for size in (1e-3, 0.1):
            assert value(Z + size * rng.standard_normal(Z.shape), W) > best
            near, _ = np.linalg.qr(W + size * rng.standard_normal(W.shape))
            assert value(dense_solve(P, alpha, centered(X) @ near), near) > best


@pytest.mark.parametrize("normalization", ["sym", "rw"])
def test_objective_is_the_value_at_z_also_for_inexact_solves(graph, X, normalization):
    model = GPCA(3, alpha=20.0, normalization=normalization, solver="chebyshev", tol=0.05)
    Z, W = model.fit_transform(X, graph=graph), model.components_.T
    P = dense_P(graph, normalization)
    weights = row_weights(graph, normalization)
    expected = objective(centered(X), Z, W, P, 20.0, weights)
    assert model.objective_ == pytest.approx(expected, rel=1e-12)
    optimum = dense_solve(P, 20.0, centered(X) @ W)
    assert model.objective_ > objective(centered(X), optimum, W, P, 20.0, weights)


# -- PCA -------------------------------------------------------------------------------


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize(
    ("normalization", "alpha", "source"),
    # Not rw with a graph at alpha=0, which weights rows by degree.
    [("sym", 0.0, "graph"), ("sym", 10.0, "none"), ("rw", 0.0, "none"), ("rw", 10.0, "edgeless")],
)
def test_without_a_graph_gpca_equals_pca(graph, X, normalization, alpha, source, solver):
    given = {"graph": graph, "none": None, "edgeless": Graph.without_edges(len(X))}[source]
    model = GPCA(4, alpha=alpha, solver=solver, normalization=normalization, tol=1e-12)
    Z = model.fit_transform(X, graph=given)
    pca = PCA(4, svd_solver="full").fit(X)
    np.testing.assert_allclose(align_signs(Z, pca.transform(X)), pca.transform(X), atol=1e-8)
    W = align_signs(model.components_.T, pca.components_.T)
    np.testing.assert_allclose(W, pca.components_.T, atol=1e-8)
    np.testing.assert_allclose(model.mean_, pca.mean_, atol=1e-12)
    np.testing.assert_allclose(model.eigenvalues_, 39 * pca.explained_variance_, rtol=1e-8)


# -- one GCN convolution ---------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
def test_first_order_term_at_alpha_one_equals_a_gcn_convolution(X, weighted):
    torch = pytest.importorskip("torch")
    GCNConv = pytest.importorskip("torch_geometric.nn").GCNConv
    graph = random_graph(weighted=weighted, isolated=3)
    W = GPCA(3, alpha=1.0).fit(X, graph=graph).components_.T
    coo = graph.adjacency.tocoo()
    convolution = GCNConv(6, 3, bias=False).double()
    with torch.no_grad():
        convolution.lin.weight.copy_(torch.tensor(W.T.copy()))
        edges = torch.tensor(np.vstack([coo.row, coo.col]).astype(np.int64))
        out = convolution(torch.tensor(X), edges, torch.tensor(coo.data)).numpy()
    P = propagation(graph)
    np.testing.assert_allclose(P @ X @ W, out, atol=1e-12)
    # (I + alpha L)^-1 = I - alpha L + O(alpha^2); the first two terms at alpha = 1 are P.
    # A difference quotient with a step of 1e-6 has an error of 1e-6 |L^2 X|, about 1e-5.
    tiny = 1e-6
    slope = (Solver(P, tiny, method="direct").solve(X).F - X) / tiny
    np.testing.assert_allclose((X + slope) @ W, out, atol=1e-4)


# -- structure --------------------------------------------------------------------


@pytest.mark.parametrize("normalization", ["sym", "rw"])
def test_permuting_nodes_permutes_the_embedding(any_graph, X, labels, normalization):
    model = GPCA(3, beta=0.3, normalization=normalization)
    order = np.random.default_rng(5).permutation(len(X))
    Z = model.fit_transform(X, labels, graph=any_graph)
    permuted = model.fit_transform(X[order], labels[order], graph=any_graph.subgraph(order))
    np.testing.assert_allclose(permuted, Z[order], atol=1e-10)


@pytest.mark.parametrize("alpha", [0.1, 100.0])
@pytest.mark.parametrize(("beta", "ghost"), GHOSTS)
@pytest.mark.parametrize("normalization", ["sym", "rw"])
def test_components_and_embedding_equal_dense_ones(
    graph, X, labels, normalization, beta, ghost, alpha
):
    """For rw the matrix is X^T D F, symmetrised."""
    options = {"normalization": normalization, "beta": beta, "ghost": ghost}
    P = dense_P(graph, labels=labels, **options)
    weights = row_weights(graph, normalization)
    values, W0 = dense_components(centered(X), P, alpha, 3, weights)
    for solver in SOLVERS:
        model = GPCA(3, alpha=alpha, solver=solver, tol=1e-10, max_iter=5000, **options)
        Z = model.fit_transform(X, labels, graph=graph)
        W = model.components_.T
        np.testing.assert_allclose(W.T @ W, np.eye(3), atol=1e-12)
        assert same_subspace(W, W0) < 1e-6
        np.testing.assert_allclose(model.eigenvalues_, values, rtol=1e-7)
        np.testing.assert_allclose(Z, dense_solve(P, alpha, centered(X) @ W), atol=1e-7)


# -- sparse features, Lanczos and float32 --------------------------------------------------


@pytest.mark.parametrize("normalization", ["sym", "rw"])
@pytest.mark.parametrize("density", [0.02, 0.5])
@pytest.mark.parametrize("eigen_solver", ["formed", "lanczos"])
def test_sparse_features_and_lanczos_equal_dense_features_and_formed(
    graph, labels, eigen_solver, density, normalization
):
    """A sparse X with a density above 5 % is converted to a dense array."""
    X = sp.random_array((40, 300), density=density, rng=np.random.default_rng(6), format="csr")
    options = {"n_components": 3, "beta": 0.2, "normalization": normalization, "tol": 1e-12}
    expected = GPCA(eigen_solver="formed", **options).fit(X.toarray(), labels, graph=graph)
    Z = expected.transform(X.toarray(), graph=graph)
    for features in (X, X.toarray()):
        model = GPCA(eigen_solver=eigen_solver, **options)
        np.testing.assert_allclose(model.fit_transform(features, labels, graph=graph), Z, atol=1e-8)
        np.testing.assert_allclose(model.components_, expected.components_, atol=1e-8)
        np.testing.assert_allclose(model.eigenvalues_, expected.eigenvalues_, rtol=1e-8)
        assert model.objective_ == pytest.approx(expected.objective_, rel=1e-9)
        np.testing.assert_allclose(model.transform(features, graph=graph), Z, atol=1e-8)


@pytest.mark.parametrize("eigen_solver", ["formed", "lanczos"])
@pytest.mark.parametrize("solver", SOLVERS)
def test_float32_is_kept_and_close_to_float64(graph, X, solver, eigen_solver):
    options = {"n_components": 3, "solver": solver, "eigen_solver": eigen_solver}
    double, single = GPCA(**options), GPCA(**options)
    Z = double.fit_transform(X, graph=graph)
    Z32 = single.fit_transform(X.astype(np.float32), graph=graph)
    assert Z.dtype == double.components_.dtype == np.float64
    parts = (Z32, single.components_, single.mean_)
    assert {part.dtype for part in parts} == {np.dtype(np.float32)}
    assert single.eigenvalues_.dtype == np.float64  # squares exceed the range of float32
    assert single.transform(X.astype(np.float32), graph=graph).dtype == np.float32
    # tol=1e-5 for float32, divided by the relative gap of the eigenvalues of about 0.1.
    np.testing.assert_allclose(Z32, Z, atol=1e-3)
    np.testing.assert_allclose(single.eigenvalues_, double.eigenvalues_, rtol=1e-4)


# -- scale ---------------------------------------------------------------------------------


@examples(30)  # four fits each
@given(
    st.sampled_from([np.float64, np.float32]),
    st.sampled_from(["formed", "lanczos", "half"]),
    st.booleans(),
    st.booleans(),
    st.floats(0, 1),
    st.integers(0, 100),
)
@example(np.float32, "formed", False, False, 0.15, 0)
@example(np.float32, "formed", False, False, 0.75, 0)
def test_scaled_features_give_the_same_components_and_a_scaled_embedding(
    dtype, strategy, is_sparse, is_path, where, seed
):
    """X is multiplied by 2^k, for k in the whole range of the dtype."""
    graph = random_graph(30, seed=seed)
    # Twelve bits, not near the ends of the range, so that X 2^k and Z 2^k are exact.
    X = np.round(random_features(30, 5, seed) * 2**7) / 2**7
    limits = np.finfo(dtype)
    k = round(limits.minexp + 8 + where * (limits.maxexp - limits.minexp - 16))
    options = {"precision": "half"} if strategy == "half" else {"eigen_solver": strategy}
    make = (lambda: GPCAPath(3, alphas=(10.0,))) if is_path else (lambda: GPCA(3, **options))
    results = []
    for exponent in (0, k):
        scaled = np.ldexp(X.astype(dtype), exponent)
        scaled = sp.csr_array(scaled) if is_sparse else scaled
        model = make().fit(scaled, graph=graph)
        if is_path:
            model, Z = model.fitted(10.0)
        else:
            Z = make().fit_transform(scaled, graph=graph)
        results.append((model, Z, model.transform(scaled, graph=graph)))
    (one, *embeddings), (other, *scaled_embeddings) = results
    # Powers of two are exact, but LAPACK rescales by other numbers. The rounding errors are
    # divided by the relative gaps between eigenvalues, of at least about 1e-3.
    atol = 1e4 * np.finfo(np.float32 if strategy == "half" else dtype).eps
    np.testing.assert_allclose(other.components_, one.components_, rtol=0, atol=atol)
    np.testing.assert_allclose(other.mean_, np.ldexp(one.mean_, k), rtol=0, atol=0)
    for Z, scaled_Z in zip(embeddings, scaled_embeddings, strict=True):
        np.testing.assert_allclose(np.ldexp(scaled_Z, -k), Z, rtol=0, atol=10 * atol)
    with np.errstate(over="ignore", under="ignore"):
        values, objective = np.ldexp(one.eigenvalues_, 2 * k), np.ldexp(one.objective_, 2 * k)
    np.testing.assert_allclose(other.eigenvalues_, values, rtol=atol)
    np.testing.assert_allclose(other.objective_, objective, rtol=atol)


@pytest.mark.parametrize("scale", [2.0**-33, 1.0, 2.0**20])
def test_features_of_usual_size_are_not_copied(graph, X, scale):
    X = (X * scale).astype(np.float32)
    assert times_power_of_two(X, extreme_exponent(X, np.float32)) is X


# -- the paper's setting ---------------------------------------------------------------


def test_five_fixed_point_steps_equal_the_algorithm_of_the_paper(graph, X, labels):
    P = dense_P(graph, labels=labels, beta=0.2, ghost="paper")
    F = centered(X)
    for _ in range(5):
        F = 10 / 11 * P @ F + 1 / 11 * centered(X)
    M = centered(X).T @ F
    W = np.linalg.eigh((M + M.T) / 2)[1][:, ::-1][:, :3]
    model = GPCA(3, alpha=10.0, beta=0.2, ghost="paper", solver="fixed-point", n_iter=5)
    Z = model.fit_transform(X, labels, graph=graph)
    np.testing.assert_allclose(align_signs(Z, F @ W), F @ W, atol=1e-11)
    assert model.n_iter_ == 5


@pytest.mark.parametrize("eigen_solver", ["formed", "lanczos"])
def test_n_iter_takes_no_additional_steps(graph, X, monkeypatch, eigen_solver):
    """Neither for the residual nor for the objective, which are NaN."""
    taken = []
    step = Propagation.step

    def counted(self, F, *rest, **options):
        taken.append(F.shape[1])
        return step(self, F, *rest, **options)

    monkeypatch.setattr(Propagation, "step", counted)
    model = GPCA(3, eigen_solver=eigen_solver, solver="fixed-point", n_iter=5).fit(X, graph=graph)
    assert taken
    assert len(taken) % 5 == 0
    assert np.isnan(model.residual_)
    assert np.isnan(model.objective_)


# -- unusual graphs and features -----------------------------------------------------------


def test_isolated_nodes_are_projected_without_smoothing(graph, X):
    model = GPCA(3, alpha=50.0)
    Z = model.fit_transform(X, graph=graph)
    alone = np.diff(graph.indptr) == 0
    assert alone.sum() == 4
    np.testing.assert_allclose(Z[alone], (centered(X) @ model.components_.T)[alone], atol=1e-9)


def test_connected_components_are_embedded_independently():
    """Two disjoint graphs are embedded like each alone, with the same W."""
    parts = [random_graph(20, seed=s).adjacency for s in (1, 2)]
    X = random_features()
    model = GPCA(3, alpha=20.0)
    Z = model.fit_transform(X, graph=sp.block_diag(parts, format="csr"))
    for rows, part in ((slice(0, 20), parts[0]), (slice(20, 40), parts[1])):
        np.testing.assert_allclose(model.transform(X[rows], graph=part), Z[rows], atol=1e-10)


@pytest.mark.parametrize("eigen_solver", ["formed", "lanczos"])
@pytest.mark.parametrize("solver", SOLVERS)
def test_constant_features_embed_to_zero(graph, solver, eigen_solver):
    model = GPCA(2, solver=solver, eigen_solver=eigen_solver)
    Z = model.fit_transform(np.full((40, 5), 3.0), graph=graph)
    np.testing.assert_array_equal(Z, 0)
    np.testing.assert_allclose(model.components_ @ model.components_.T, np.eye(2), atol=1e-12)


def test_a_constant_feature_has_weight_zero(graph, X):
    X[:, 2] = 7.0
    model = GPCA(3).fit(X, graph=graph)
    np.testing.assert_allclose(model.components_[:, 2], 0, atol=1e-12)


@pytest.mark.parametrize(("shape", "width"), [((40, 6), 6), ((8, 20), 8), ((150, 140), 128)])
def test_default_number_of_components_is_all_up_to_128(shape, width):
    X = random_features(*shape)
    model = GPCA(alpha=2.0)
    Z = model.fit_transform(X, graph=random_graph(shape[0]))
    assert Z.shape == (shape[0], width)
    assert np.all(np.diff(model.eigenvalues_) <= 0)
    np.testing.assert_allclose(model.components_ @ model.components_.T, np.eye(width), atol=1e-11)


def test_more_features_than_nodes(labels):
    X, graph = random_features(12, 30), random_graph(12)
    model = GPCA(4, alpha=2.0, beta=0.3)
    Z = model.fit_transform(X, labels[:12], graph=graph)
    P = dense_P(graph, labels=labels[:12], beta=0.3)
    _, W = dense_components(centered(X), P, 2.0, 4, np.ones(12))
    assert same_subspace(model.components_.T, W) < 1e-10
    W = model.components_.T
    np.testing.assert_allclose(Z, dense_solve(P, 2.0, centered(X) @ W), atol=1e-10)


# -- logging and repeatability -------------------------------------------------------------


def test_info_log_contains_numbers_of_nodes_components_and_features(graph, X, caplog):
    with caplog.at_level(logging.INFO, logger="gpcanet"):
        GPCA(2).fit(X, graph=graph)
    assert graph.n_connected_components == 6
    assert "40 nodes" in caplog.text
    assert "6 components, 4 isolated nodes" in caplog.text
    assert "6 features" in caplog.text


@pytest.mark.parametrize("eigen_solver", ["formed", "lanczos"])
@pytest.mark.parametrize("solver", SOLVERS)
def test_two_identical_calls_give_identical_bytes(graph, X, labels, solver, eigen_solver):
    one, other = (
        GPCA(3, beta=0.2, solver=solver, eigen_solver=eigen_solver).fit_transform(
            X, labels, graph=graph
        )
        for _ in range(2)
    )
    assert one.tobytes() == other.tobytes()


def test_random_data_has_distinct_eigenvalues_and_all_classes():
    """A check of the test data, on which the tests above depend."""
    assert set(random_labels()) == {-1, 0, 1, 2}
    values = np.linalg.svd(centered(random_features()), compute_uv=False) ** 2
    assert np.min(-np.diff(values) / values[1:]) > 0.05


def test_lanczos_is_not_used_if_the_matrix_is_not_symmetric(graph, X, labels):
    options = {"normalization": "rw", "ghost": "paper", "beta": 0.4, "solver": "chebyshev"}
    with pytest.raises(ValueError, match="eigen_solver='lanczos' requires a symmetric"):
        GPCA(2, eigen_solver="lanczos", **options).fit(X, labels, graph=graph)
    formed = GPCA(2, eigen_solver="formed", **options).fit(X, labels, graph=graph)
    wide = np.hstack([X, np.zeros((len(X), 1100))])  # auto would use lanczos otherwise
    auto = GPCA(2, **options).fit(wide, labels, graph=graph)
    np.testing.assert_allclose(auto.components_[:, : X.shape[1]], formed.components_, atol=1e-6)


@pytest.mark.parametrize("k", [10, 40])
def test_identity_features_on_a_graph_with_many_components(k):
    """Each component has an eigenvector of eigenvalue 1, more than Lanczos finds."""
    graph, X = random_graph(1200, parts=30), sp.eye_array(1200, format="csr")
    model = GPCA(k, alpha=10.0).fit(X, graph=graph)
    expected = GPCA(k, alpha=10.0, eigen_solver="formed", solver="direct").fit(X, graph=graph)
    np.testing.assert_allclose(model.eigenvalues_, expected.eigenvalues_, rtol=1e-9)
    np.testing.assert_allclose(model.eigenvalues_[: min(k, 29)], 1.0, rtol=1e-9)
    path = GPCAPath(k, alphas=(10.0,)).fit(X, graph=graph)
    np.testing.assert_allclose(path.eigenvalues(10.0), expected.eigenvalues_, rtol=1e-4)
    with pytest.warns(ConvergenceWarning, match=r"use eigen_solver='formed', .* 1,200 x 1,200"):
        GPCA(k, eigen_solver="lanczos", memory_limit="50MiB").fit(X, graph=graph)


# -- explained variance --------------------------------------------------------------------


def dense_matrix(X, graph, alpha, *, normalization="sym", labels=None, beta=0.0, ghost="balanced"):
    """The symmetrised X^T D (I + alpha L)^-1 X of centred features."""
    P, weights = (
        dense_P(graph, normalization, labels, beta, ghost),
        row_weights(graph, normalization),
    )
    M = centered(X).T @ (weights[:, None] * dense_solve(P, alpha, centered(X)))
    return (M + M.T) / 2


@pytest.mark.parametrize("normalization", ["sym", "rw"])
@pytest.mark.parametrize(("beta", "ghost"), GHOSTS)
@pytest.mark.parametrize("alpha", [0.0, 10.0])
def test_explained_variance_ratio_equals_eigenvalues_over_dense_trace(
    graph, X, labels, alpha, beta, ghost, normalization
):
    options = {"normalization": normalization, "beta": beta, "ghost": ghost}
    M = dense_matrix(X, graph, alpha, labels=labels, **options)
    values = np.linalg.eigvalsh(M)[::-1]
    model = GPCA(3, alpha=alpha, tol=1e-11, **options).fit(X, labels, graph=graph)
    expected = values[:3] / np.trace(M)
    np.testing.assert_allclose(model.explained_variance_ratio_, expected, rtol=1e-8)
    assert model.n_components_ == 3
    every = GPCA(alpha=alpha, tol=1e-11, **options).fit(X, labels, graph=graph)
    assert every.explained_variance_ratio_.sum() == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize("normalization", ["sym", "rw"])
@pytest.mark.parametrize("beta", [0.0, 0.3])
@pytest.mark.parametrize(("d", "rtol"), [(30, 1e-7), (400, 0.03)])
def test_explained_variance_ratio_of_lanczos_is_close_to_the_exact_one(
    d, rtol, beta, normalization
):
    """The trace is exact up to 32 features, and otherwise estimated by 32 random vectors."""
    graph, labels, X = random_graph(500), random_labels(500), word_counts(500, d)
    options = {"normalization": normalization, "beta": beta}
    model = GPCA(5, eigen_solver="lanczos", tol=1e-10, **options).fit(X, labels, graph=graph)
    M = dense_matrix(X.toarray(), graph, 10.0, labels=labels, **options)
    expected = np.linalg.eigvalsh(M)[::-1][:5] / np.trace(M)
    np.testing.assert_allclose(model.explained_variance_ratio_, expected, rtol=rtol)


@pytest.mark.parametrize("eigen_solver", ["formed", "lanczos"])
def test_explained_variance_ratio_of_constant_features_is_zero(graph, eigen_solver):
    model = GPCA(2, eigen_solver=eigen_solver).fit(np.full((40, 5), 3.0), graph=graph)
    np.testing.assert_array_equal(model.explained_variance_ratio_, [0, 0])


@examples(30)
@given(
    st.floats(0.01, 0.999),
    st.integers(2, 12),
    st.sampled_from([0.0, 1.0, 50.0]),
    st.sampled_from(["sym", "rw"]),
    st.sampled_from(GHOSTS),
    st.booleans(),
    st.integers(0, 100),
)
def test_a_share_keeps_the_fewest_components_that_reach_it(
    share, d, alpha, normalization, ghost, is_sparse, seed
):
    graph, X, labels = random_graph(seed=seed), random_features(40, d, seed), random_labels()
    options = {"normalization": normalization, "beta": ghost[0], "ghost": ghost[1]}
    M = dense_matrix(X, graph, alpha, labels=labels, **options)
    values = np.linalg.eigvalsh(M)[::-1]
    reached = np.cumsum(values) / values.sum()
    assume(np.abs(reached - share).min() > 1e-9)  # solves to 1e-11 decide no closer case
    model = GPCA(share, alpha=alpha, tol=1e-11, **options)
    Z = model.fit_transform(sp.csr_array(X) if is_sparse else X, labels, graph=graph)
    k = int(np.sum(reached < share)) + 1
    assert Z.shape == (40, k)
    assert model.n_components_ == len(model.components_) == len(model.eigenvalues_) == k
    assert model.explained_variance_ratio_.sum() >= share
    assert model.explained_variance_ratio_[:-1].sum() < share
    fixed = GPCA(k, alpha=alpha, tol=1e-11, **options).fit(X, labels, graph=graph)
    np.testing.assert_allclose(model.eigenvalues_, fixed.eigenvalues_, rtol=1e-9)


def test_a_share_cannot_be_reached_by_lanczos(graph, X):
    with pytest.raises(ValueError, match=r"n_components=0\.9 requires all eigenvalues; use eigen_"):
        GPCA(0.9, eigen_solver="lanczos").fit(X, graph=graph)


@pytest.mark.parametrize("value", [1.5, -0.5, float("nan")])
def test_an_invalid_share_raises(X, value):
    with pytest.raises(ValueError, match=rf"n_components={value}"):
        GPCA(value).fit(X)


def test_check_parameters_raises_before_a_fit():
    GPCA(alpha=3.0).check_parameters()
    with pytest.raises(ValueError, match=r"alpha=-1 must be in"):
        GPCA(alpha=-1).check_parameters()
    with pytest.raises(ValueError, match=r"n_iter=5 requires solver='fixed-point'"):
        GPCA(n_iter=5).check_parameters()


def test_tensors_and_columns_with_names_of_attributes(graph, X):
    expected = GPCA(2).fit_transform(X, graph=graph)
    names = ["dtype", "kind", *map(str, range(X.shape[1] - 2))]
    table = pd.DataFrame(X, columns=names)
    np.testing.assert_array_equal(GPCA(2).fit_transform(table, graph=graph), expected)
    torch = pytest.importorskip("torch")
    found = GPCA(2).fit_transform(torch.from_numpy(X), graph=graph)
    np.testing.assert_array_equal(found, expected)


def test_a_failed_refit_does_not_change_how_a_graph_is_used(graph, X):
    model = GPCA(2).fit(X, graph=graph).set_params(beta=0.5)
    with pytest.raises(ValueError, match="but y is None"):
        model.fit(X)
    with pytest.raises(NotFittedError):  # it was fitted with a graph
        model.transform(X)
