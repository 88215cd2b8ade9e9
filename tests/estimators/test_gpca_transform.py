"""transform, nodes= and inverse_transform of GPCA against dense formulas."""

import numpy as np
import pytest
import scipy.sparse as sp
from truth import GHOSTS, dense_P, dense_solve, random_features, random_graph

from gpcanet import GPCA

SOLVERS = ["direct", "chebyshev", "cg", "fixed-point"]


@pytest.fixture
def rows():
    """25 of the 40 nodes, in no order."""
    return np.random.default_rng(7).permutation(40)[:25]


@pytest.mark.parametrize(("beta", "ghost"), GHOSTS)
@pytest.mark.parametrize("normalization", ["sym", "rw"])
@pytest.mark.parametrize("solver", SOLVERS)
def test_transform_of_the_training_graph_equals_fit_transform(
    graph, X, labels, solver, normalization, beta, ghost
):
    """Also with ghost edges: the labels given to fit count again."""
    model = GPCA(3, beta=beta, ghost=ghost, normalization=normalization, solver=solver, tol=1e-11)
    Z = model.fit_transform(X, labels, graph=graph)
    np.testing.assert_allclose(model.transform(X, graph=graph), Z, atol=1e-8)
    # An equal graph in another form is the same graph.
    np.testing.assert_allclose(model.transform(X, graph=graph.adjacency), Z, atol=1e-8)
    fitted = GPCA(**model.get_params()).fit(X, labels, graph=graph)
    np.testing.assert_array_equal(fitted.components_, model.components_)


@pytest.mark.parametrize(("beta", "ghost"), GHOSTS)
@pytest.mark.parametrize("normalization", ["sym", "rw"])
def test_transform_of_a_new_graph_equals_the_formula_without_labels(
    graph, X, labels, normalization, beta, ghost
):
    options = {"beta": beta, "ghost": ghost, "normalization": normalization}
    model = GPCA(3, alpha=4.0, **options).fit(X, labels, graph=graph)
    other, X_other = (
        random_graph(17, weighted=True, isolated=2, seed=8),
        random_features(17, seed=9),
    )
    P = dense_P(other, **options)
    expected = dense_solve(P, 4.0, (X_other - X.mean(axis=0)) @ model.components_.T)
    np.testing.assert_allclose(model.transform(X_other, graph=other), expected, atol=1e-10)


def test_another_graph_with_the_same_number_of_nodes_uses_no_training_labels(graph, X, labels):
    model = GPCA(3, alpha=4.0, beta=0.5).fit(X, labels, graph=graph)
    other = random_graph(seed=8)
    expected = dense_solve(
        dense_P(other, beta=0.5), 4.0, (X - X.mean(axis=0)) @ model.components_.T
    )
    np.testing.assert_allclose(model.transform(X, graph=other), expected, atol=1e-10)


def test_fit_on_some_nodes_equals_fit_on_their_subgraph(graph, X, labels, rows):
    model = GPCA(3, beta=0.2)
    Z = model.fit_transform(X[rows], labels[rows], graph=graph, nodes=rows)
    alone = GPCA(3, beta=0.2)
    expected = alone.fit_transform(X[rows], labels[rows], graph=graph.subgraph(rows))
    np.testing.assert_allclose(Z, expected, atol=1e-12)
    np.testing.assert_allclose(model.components_, alone.components_, atol=1e-12)


@pytest.mark.parametrize("beta", [0.0, 0.3])
@pytest.mark.parametrize("normalization", ["sym", "rw"])
def test_training_rows_are_neighbours_of_new_rows(graph, X, labels, rows, normalization, beta):
    """Rows of fit stay in the graph, with their features and labels; new rows have no label."""
    options = {"beta": beta, "normalization": normalization}
    model = GPCA(3, alpha=4.0, **options).fit(X[rows], labels[rows], graph=graph, nodes=rows)
    new = np.setdiff1d(np.arange(40), rows)[:9]
    both = np.concatenate([new, rows])
    seen_labels = np.where(np.isin(both, rows), labels[both], -1)
    P = dense_P(graph.subgraph(both), labels=seen_labels, **options)
    projected = (X[both] - X[rows].mean(axis=0)) @ model.components_.T
    expected = dense_solve(P, 4.0, projected)
    Z = model.transform(X[new], graph=graph, nodes=new)
    np.testing.assert_allclose(Z, expected[:9], atol=1e-10)
    # Training rows and new rows mixed: a training row is used once, in the given position.
    mixed = np.array([new[3], rows[0], new[0], rows[5]])
    Z = model.transform(X[mixed], graph=graph, nodes=mixed)
    order = np.concatenate([mixed, np.setdiff1d(rows, mixed)])
    seen_labels = np.where(np.isin(order, rows), labels[order], -1)
    P = dense_P(graph.subgraph(order), labels=seen_labels, **options)
    projected = (X[order] - X[rows].mean(axis=0)) @ model.components_.T
    np.testing.assert_allclose(Z, dense_solve(P, 4.0, projected)[:4], atol=1e-10)


@pytest.mark.parametrize("density", [0.03, 0.5])
@pytest.mark.parametrize("kinds", ["sparse then sparse", "sparse then dense", "dense then sparse"])
def test_sparse_and_dense_features_may_be_mixed_between_fit_and_transform(
    graph, rows, kinds, density
):
    X = sp.random_array((40, 50), density=density, rng=np.random.default_rng(1), format="csr")
    new = np.setdiff1d(np.arange(40), rows)
    dense = GPCA(3, alpha=4.0).fit(X[rows].toarray(), graph=graph, nodes=rows)
    expected = dense.transform(X[new].toarray(), graph=graph, nodes=new)
    first, second = (X if kind == "sparse" else X.toarray() for kind in kinds.split(" then "))
    model = GPCA(3, alpha=4.0).fit(first[rows], graph=graph, nodes=rows)
    Z = model.transform(second[new], graph=graph, nodes=new)
    np.testing.assert_allclose(Z, expected, atol=1e-10)


def test_transform_of_some_nodes_after_a_fit_without_nodes_raises(graph, X, labels, rows):
    """The rows of the other nodes were not kept, and the embedding depends on them."""
    model = GPCA(3, alpha=4.0, beta=0.3).fit(X, labels, graph=graph)
    with pytest.raises(ValueError, match="fit kept no training rows; pass all rows of X"):
        model.transform(X[rows], graph=graph, nodes=rows)
    P = dense_P(graph.subgraph(rows))  # the labels were those of another graph
    expected = dense_solve(P, 4.0, (X[rows] - X.mean(axis=0)) @ model.components_.T)
    unlabeled = GPCA(3, alpha=4.0).fit(X, graph=graph)
    unlabeled.components_ = model.components_
    Z = unlabeled.transform(X[rows], graph=graph.subgraph(rows))
    np.testing.assert_allclose(Z, expected, atol=1e-10)


def test_inverse_transform_equals_the_reconstruction(graph, X):
    model = GPCA(3)
    Z = model.fit_transform(X, graph=graph)
    back = model.inverse_transform(Z)
    np.testing.assert_allclose(back, Z @ model.components_ + X.mean(axis=0), atol=1e-12)
    assert model.inverse_transform(Z.astype(np.float32)).dtype == np.float32
    with pytest.raises(ValueError, match="Z has 2 columns, but the embedding has 3"):
        model.inverse_transform(Z[:, :2])


def test_all_components_without_a_graph_reconstruct_exactly(X):
    model = GPCA()
    np.testing.assert_allclose(model.inverse_transform(model.fit_transform(X)), X, atol=1e-12)


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_float32_features_with_a_large_mean_keep_their_accuracy(graph, X, kind):
    # Years, prices: projecting before centring would lose four digits here.
    far = kind((X + 1e4).astype(np.float32))
    model = GPCA(2)
    Z = model.fit_transform(far, graph=graph)
    np.testing.assert_allclose(model.transform(far, graph=graph), Z, atol=1e-4)


def test_parameters_changed_after_fit_are_checked_again(graph, X):
    model = GPCA(2).fit(X, graph=graph).set_params(alpha=-5.0)
    with pytest.raises(ValueError, match=r"alpha=-5\.0 must be in"):
        model.transform(X, graph=graph)


def test_lanczos_without_n_components_computes_all_but_one(graph, X):
    assert GPCA(eigen_solver="lanczos").fit(X, graph=graph).components_.shape == (5, 6)


def test_repeated_entries_of_sparse_features_are_summed(graph, X):
    csr = sp.csr_array(X)
    repeated = sp.csr_array(
        (np.repeat(csr.data / 2, 2), np.repeat(csr.indices, 2), csr.indptr * 2), shape=X.shape
    )
    assert not repeated.has_canonical_format
    np.testing.assert_allclose(
        GPCA(2).fit_transform(repeated, graph=graph), GPCA(2).fit_transform(X, graph=graph)
    )
