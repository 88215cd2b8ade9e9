"""Block Lanczos against LAPACK."""

import numpy as np
import pytest
from truth import same_subspace

from gpcanet.linalg import lanczos as lanczos_module
from gpcanet.linalg import leading_eigenpairs, leading_eigenpairs_by_blocks


def matrix(d=400, decay=1.0, rank=None, seed=0):
    """Symmetric, with eigenvalues 1, 2^-decay, 3^-decay, ... up to the rank."""
    Q, _ = np.linalg.qr(np.random.default_rng(seed).standard_normal((d, d)))
    values = np.arange(1, d + 1.0) ** -decay
    values[d if rank is None else rank :] = 0
    return (Q * values) @ Q.T


@pytest.fixture
def _no_arpack(monkeypatch):
    monkeypatch.delattr(lanczos_module, "leading_eigenpairs_of")


@pytest.mark.usefixtures("_no_arpack")
@pytest.mark.parametrize("k", [1, 7, 40, 60])
@pytest.mark.parametrize("decay", [0.5, 1.0, 3.0])
def test_eigenpairs_equal_lapack(k, decay):
    M = matrix(600, decay)
    values, vectors = leading_eigenpairs_by_blocks(lambda V: M @ V, len(M), k)
    expected_values, expected = leading_eigenpairs(M, k)
    np.testing.assert_allclose(values, expected_values, rtol=1e-9)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(k), atol=1e-12)
    # Residuals of 1e-6 over a relative gap of decay / k.
    np.testing.assert_allclose(vectors, expected, atol=1e-6 * k / decay)


@pytest.mark.usefixtures("_no_arpack")
@pytest.mark.parametrize("k", [7, 60])
@pytest.mark.parametrize("decay", [0.3, 1.0])
@pytest.mark.parametrize("angle", [0.1, 5e-3, 1e-4])
def test_an_angle_is_kept_and_saves_products(k, decay, angle):
    M, products = matrix(800, decay), []

    def apply(V):
        products.append(V.shape[1])
        return M @ V

    vectors = leading_eigenpairs_by_blocks(apply, len(M), k, angle=angle)[1]
    at_an_angle = sum(products)
    assert same_subspace(vectors, leading_eigenpairs(M, k)[1]) <= angle
    leading_eigenpairs_by_blocks(apply, len(M), k)
    assert at_an_angle <= sum(products) - at_an_angle + 4 * (angle < 1e-3) * k


def test_equal_eigenvalues_at_the_end_do_not_keep_it_from_ending():
    values = np.concatenate([np.linspace(5, 3, 9), np.full(2, 2.0), np.linspace(1, 0.1, 289)])
    found = leading_eigenpairs_by_blocks(lambda V: values[:, None] * V, 300, 10, angle=5e-3)[0]
    np.testing.assert_allclose(found, values[:10], rtol=1e-9)


def test_repeated_eigenvalues_are_all_found():
    values = np.concatenate([np.full(6, 3.0), np.linspace(2, 0.1, 294)])
    found = leading_eigenpairs_by_blocks(lambda V: values[:, None] * V, 300, 10)[0]
    np.testing.assert_allclose(found, values[:10], rtol=1e-9)


@pytest.mark.parametrize("rank", [0, 3, 20])
@pytest.mark.parametrize("d", [12, 200])
def test_where_the_space_is_exhausted_the_result_is_right_all_the_same(d, rank):
    M = matrix(d, rank=min(rank, d))
    values, vectors = leading_eigenpairs_by_blocks(lambda V: M @ V, d, 5)
    expected = leading_eigenpairs(M, 5)[0]
    np.testing.assert_allclose(values, expected, atol=1e-9)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(5), atol=1e-9)
    np.testing.assert_allclose(M @ vectors, vectors * values, atol=1e-6)


def test_two_identical_calls_give_identical_bytes():
    M = matrix()
    one, other = (leading_eigenpairs_by_blocks(lambda V: M @ V, 400, 5) for _ in range(2))
    assert [part.tobytes() for part in one] == [part.tobytes() for part in other]
