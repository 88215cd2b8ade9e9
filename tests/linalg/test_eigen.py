"""Eigenpairs: right, in order, and with the sign rule that makes them repeatable."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import example, given
from hypothesis import strategies as st
from properties import examples
from sklearn.exceptions import ConvergenceWarning
from truth import dense_P, dense_solve, row_weights

from gpcanet import GPCA, Graph
from gpcanet.linalg import eigen as eigen_module
from gpcanet.linalg import fix_signs, leading_eigenpairs, leading_eigenpairs_of


@pytest.fixture
def M():
    """Symmetric 12 x 12 with eigenvalues 12, 10, ... down to -10."""
    Q, _ = np.linalg.qr(np.random.default_rng(0).standard_normal((12, 12)))
    return (Q * np.arange(12, -12, -2.0)) @ Q.T


@pytest.mark.parametrize("k", [1, 4, 12])
def test_leading_eigenpairs_equal_numpy(M, k):
    values, vectors = leading_eigenpairs(M, k)
    expected_values, expected = np.linalg.eigh(M)
    np.testing.assert_allclose(values, expected_values[::-1][:k], atol=1e-12)
    np.testing.assert_allclose(vectors, fix_signs(expected[:, ::-1][:, :k]), atol=1e-12)


def test_order_is_by_value_largest_first_and_not_by_size(M):
    """A truncated series can give negative eigenvalues; they come last, however large."""
    values, _ = leading_eigenpairs(M - 5 * np.eye(12), 12)
    np.testing.assert_allclose(values, np.arange(7, -17, -2.0), atol=1e-12)


def test_single_precision_is_kept(M):
    values, vectors = leading_eigenpairs(M.astype(np.float32), 3)
    assert (values.dtype, vectors.dtype) == (np.float32, np.float32)


def test_unsymmetric_input_counts_with_both_triangles(M):
    skewed = M + np.triu(np.random.default_rng(1).standard_normal((12, 12)), 1)
    values, vectors = leading_eigenpairs(skewed, 3)
    expected_values, expected = np.linalg.eigh((skewed + skewed.T) / 2)
    np.testing.assert_allclose(values, expected_values[::-1][:3], atol=1e-12)
    np.testing.assert_allclose(vectors, fix_signs(expected[:, ::-1][:, :3]), atol=1e-12)
    np.testing.assert_array_equal(leading_eigenpairs(skewed.T, 3)[1], vectors)


@pytest.mark.parametrize("k", [1, 4, 11])
def test_eigenpairs_of_an_action_equal_those_of_the_matrix(M, k):
    values, vectors = leading_eigenpairs_of(lambda v: M @ v, 12, k)
    expected_values, expected = leading_eigenpairs(M, k)
    np.testing.assert_allclose(values, expected_values, atol=1e-10)
    np.testing.assert_allclose(vectors, expected, atol=1e-9)


def test_eigenpairs_of_an_action_are_the_same_bytes_each_time(M):
    one, other = (leading_eigenpairs_of(lambda v: M @ v, 12, 3) for _ in range(2))
    assert [part.tobytes() for part in one] == [part.tobytes() for part in other]


@pytest.mark.parametrize("k", [2, 10, 40])
def test_eigenvalues_that_many_eigenvectors_share_are_found_for_each(k):
    """Lanczos from one vector sees each of them once, and rounding brings some of the others."""
    values = np.concatenate([np.full(30, 3.0), np.linspace(2.9, 0, 270)])
    found, vectors = leading_eigenpairs_of(lambda V: values[:, None] * V, 300, k)
    np.testing.assert_allclose(found, values[:k], rtol=1e-9)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(k), atol=1e-10)


def test_where_arpack_does_not_come_to_an_end_the_matrix_is_formed(monkeypatch):
    values = np.linspace(2.0, 1.0, 200) ** 0.1
    monkeypatch.setattr(eigen_module, "RESTARTS", 1)
    found = leading_eigenpairs_of(lambda V: values[:, None] * V, 200, 8)[0]
    np.testing.assert_allclose(found, values[:8], rtol=1e-12)


def test_a_matrix_too_large_to_be_formed_is_not(monkeypatch):
    values, calls = np.concatenate([np.full(5, 3.0), np.linspace(2, 0, 95)]), []
    monkeypatch.setattr(eigen_module, "FORMED_ROWS", 99)
    monkeypatch.setattr(eigen_module, "leading_eigenpairs", lambda *given: calls.append(given))
    for options in ({}, {"may_form": False}):
        with pytest.warns(
            ConvergenceWarning, match=r"may have missed eigenvectors .* \(here 100\)"
        ):
            leading_eigenpairs_of(lambda V: values[:, None] * V, 100, 6, **options)
    assert calls == []


@pytest.mark.parametrize(
    ("values", "times", "expected"),
    [
        ([3.0, 2.0, 2.0, 1.0], 2, True),
        ([3.0, 2.0, 2.0, 1.0], 3, False),
        ([3.0, 2.0, 1.0], 2, False),
        ([3.0, 2.0, 0.0, 0.0], 2, False),  # zeros are no news
        ([3.0, 3.0 - 1e-9, 1.0], 2, True),
        ([3e8, 2.0, 2.0, 1.0], 2, True),  # however small beside the largest
        ([3e8, 2.0, 1.9, 1.0], 2, False),
        ([3.0], 2, False),
        ([0.0, 0.0], 2, False),
    ],
)
def test_repeated_eigenvalues_are_noticed(values, times, expected):
    assert eigen_module.are_repeated(np.array(values), times) is expected


# -- symmetric graphs ------------------------------------------------------------------------

SHAPES = {
    "complete": lambda n: np.ones((n, n)) - np.eye(n),
    "star": lambda n: np.eye(n, 1) @ np.ones((1, n)) + np.ones((n, 1)) @ np.eye(1, n),
    "path": lambda n: np.eye(n, k=1) + np.eye(n, k=-1),
    "cycle": lambda n: sum(np.eye(n, k=k) for k in (1, -1, n - 1, 1 - n)),
    "bipartite": lambda n: np.subtract.outer(np.arange(n) % 2, np.arange(n) % 2) ** 2.0,
    "copies": lambda n: np.kron(np.eye(n // 3), np.ones((3, 3)) - np.eye(3)),
    "empty": lambda n: np.zeros((n, n)),
}

FEATURES = {
    "identity": lambda n, rng: np.eye(n),
    "few rows": lambda n, rng: np.eye(n)[rng.integers(0, 4, n)],
    "one column": lambda n, rng: np.outer(rng.standard_normal(n), np.ones(12)),
    "sparse identity": lambda n, rng: sp.eye_array(n).tocsr(),
}


# float32 cannot reach its default tolerance at alpha = 1e4, and says so.
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@examples(100)
@given(
    shape=st.sampled_from(sorted(SHAPES)),
    kind=st.sampled_from(sorted(FEATURES)),
    n=st.integers(12, 80),
    k=st.integers(1, 10),
    alpha=st.sampled_from([0.0, 0.1, 1.0, 10.0, 100.0, 1e4]),
    normalization=st.sampled_from(["sym", "rw"]),
    dtype=st.sampled_from([np.float64, np.float32]),
    seed=st.integers(0, 9),
)
@example("complete", "identity", 60, 8, 1.0, "sym", np.float64, 0)
@example("complete", "identity", 12, 8, 1e4, "sym", np.float32, 0)
@example("complete", "identity", 60, 8, 10.0, "sym", np.float64, 0)
@example("star", "identity", 60, 3, 0.1, "sym", np.float64, 0)
def test_highly_repeated_eigenvalues(shape, kind, n, k, alpha, normalization, dtype, seed):
    """As many components as asked for, orthonormal and with the right eigenvalues."""
    A = SHAPES[shape](n)
    np.fill_diagonal(A, 0)
    graph, X = Graph(np.sign(A)), FEATURES[kind](len(A), np.random.default_rng(seed))
    model = GPCA(k, alpha=alpha, normalization=normalization).fit(X.astype(dtype), graph=graph)
    dense = X.toarray() if sp.issparse(X) else X
    centred, weights = dense - dense.mean(axis=0), row_weights(graph, normalization)
    F = dense_solve(dense_P(graph, normalization), alpha, centred)
    M = centred.T @ (weights[:, None] * F)
    M = (M + M.T) / 2
    W, values = model.components_.T.astype(float), np.linalg.eigvalsh(M)[::-1][:k]
    assert W.shape == (X.shape[1], k)
    # Sums over up to 80 rows in the precision of X, and solves to its default tolerance. With
    # "rw" entries are weighted by degrees that differ by a factor of up to 80.
    rounding = 1e-4 if dtype == np.float32 else 1e-6
    np.testing.assert_allclose(W.T @ W, np.eye(k), atol=rounding)
    np.testing.assert_allclose(model.eigenvalues_, values, atol=10 * rounding * values[0])
    np.testing.assert_allclose(M @ W, W * values, atol=10 * rounding * values[0])


def test_many_sparse_features_that_are_all_alike():
    model = GPCA(8).fit(sp.eye_array(1200).tocsr())
    np.testing.assert_allclose(model.components_ @ model.components_.T, np.eye(8), atol=1e-10)
    np.testing.assert_allclose(model.eigenvalues_, 1.0, rtol=1e-9)


# -- signs ---------------------------------------------------------------------------------


def test_largest_entry_becomes_positive():
    vectors = np.array([[0.1, 0.9], [-0.8, -0.2], [0.5, 0.3]])
    np.testing.assert_array_equal(fix_signs(vectors), vectors * [-1, 1])


def test_first_of_equally_large_entries_decides():
    vectors = np.array([[0.1, 0.5], [-0.7, -0.5], [0.7, 0.5], [-0.1, -0.5]])
    np.testing.assert_array_equal(fix_signs(vectors), vectors * [-1, 1])


@pytest.mark.parametrize("change", [1e-12, -1e-12, 1e-7, -1e-7])
def test_rounding_of_equally_large_entries_does_not_turn_the_vector(change):
    vectors = np.array([[-0.5], [0.5 + change], [-0.5], [0.5]])
    np.testing.assert_array_equal(fix_signs(vectors), -vectors)


def test_sign_does_not_depend_on_the_sign_that_came_in(M):
    vectors = np.linalg.eigh(M)[1]
    np.testing.assert_array_equal(fix_signs(vectors), fix_signs(-vectors))


def test_signs_keep_dtype_zero_columns_and_the_input():
    vectors = np.array([[0.0, -1.0], [0.0, 0.5]], np.float32)
    kept = vectors.copy()
    turned = fix_signs(vectors)
    assert turned.dtype == np.float32
    np.testing.assert_array_equal(turned, [[0, 1], [0, -0.5]])
    np.testing.assert_array_equal(vectors, kept)
