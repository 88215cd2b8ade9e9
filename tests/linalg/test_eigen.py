"""Eigenpairs: right, in order, and with the sign rule that makes them repeatable."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

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
    for given in ({}, {"may_form": False}):
        with pytest.warns(
            ConvergenceWarning, match=r"may have missed eigenvectors .* \(here 100\)"
        ):
            leading_eigenpairs_of(lambda V: values[:, None] * V, 100, 6, **given)
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
