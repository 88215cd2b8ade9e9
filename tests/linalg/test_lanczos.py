"""Block Lanczos against LAPACK."""

import itertools

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from truth import same_subspace

from gpcanet.linalg import lanczos as lanczos_module
from gpcanet.linalg import leading_eigenpairs, leading_eigenpairs_by_blocks


def matrix(d=400, decay=1.0, rank=None, seed=0):
    """Symmetric, with eigenvalues 1, 2^-decay, 3^-decay, ... up to the rank."""
    Q, _ = np.linalg.qr(np.random.default_rng(seed).standard_normal((d, d)))
    values = np.arange(1, d + 1.0) ** -decay
    values[d if rank is None else rank :] = 0
    return (Q * values) @ Q.T


def square_of(M):
    """Products with (M - shift I)^2."""

    def squared(V, shift):
        once = M @ V - shift * V
        return M @ once - shift * once

    return squared


@pytest.fixture
def _no_arpack(monkeypatch):
    monkeypatch.delattr(lanczos_module, "leading_eigenpairs_of")


@pytest.mark.usefixtures("_no_arpack")
@pytest.mark.parametrize("is_squared", [False, True])
@pytest.mark.parametrize("k", [1, 7, 40, 60])
@pytest.mark.parametrize("decay", [0.5, 1.0, 3.0])
def test_eigenpairs_equal_lapack(k, decay, is_squared):
    M = matrix(600, decay)
    squared = square_of(M) if is_squared else None
    values, vectors = leading_eigenpairs_by_blocks(lambda V: M @ V, len(M), k, squared=squared)
    expected_values, expected = leading_eigenpairs(M, k)
    np.testing.assert_allclose(values, expected_values, rtol=1e-9)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(k), atol=1e-12)
    # The space is right to 1e-6, and vectors within it as gaps allow: decay / k of them.
    np.testing.assert_allclose(vectors, expected, atol=1e-6 * k / decay)


@pytest.mark.usefixtures("_no_arpack")
@pytest.mark.parametrize("is_squared", [False, True])
@pytest.mark.parametrize("k", [7, 60])
@pytest.mark.parametrize("decay", [0.3, 1.0])
@pytest.mark.parametrize("angle", [0.1, 5e-3, 1e-4])
def test_an_angle_is_kept_and_saves_products(k, decay, angle, is_squared):
    M, products = matrix(800, decay), []

    def apply(V):
        products.append(V.shape[1])
        return M @ V

    def squared(V, shift):
        products.append(2 * V.shape[1])
        return square_of(M)(V, shift)

    options = {"squared": squared} if is_squared else {}
    vectors = leading_eigenpairs_by_blocks(apply, len(M), k, angle=angle, **options)[1]
    at_an_angle = sum(products)
    assert same_subspace(vectors, leading_eigenpairs(M, k)[1]) <= angle
    leading_eigenpairs_by_blocks(apply, len(M), k, **options)
    assert at_an_angle <= sum(products) - at_an_angle
    if (decay, k) == (0.3, 60):  # elsewhere the first look finds more than was asked for
        assert at_an_angle < sum(products) - at_an_angle


@pytest.mark.usefixtures("_no_arpack")
@pytest.mark.parametrize("is_squared", [False, True])
@pytest.mark.parametrize("gap", [1e-2, 1e-4, 1e-6])
def test_the_angle_holds_however_near_the_next_eigenvalue_is(gap, is_squared):
    """Where a residual over the gap would ask for far more, or the first order for too little."""
    k = 30
    values = np.arange(1, 701.0) ** -0.7
    values[k] = values[k - 1] * (1 - gap)
    Q = np.linalg.qr(np.random.default_rng(1).standard_normal((700, 700)))[0]
    M = (Q * values) @ Q.T
    squared = square_of(M) if is_squared else None
    vectors = leading_eigenpairs_by_blocks(lambda V: M @ V, 700, k, angle=2.5e-3, squared=squared)[
        1
    ]
    assert same_subspace(vectors, Q[:, :k]) <= 2.5e-3


def spectrum(kind, d, rng):
    """d eigenvalues, largest first."""
    rank = np.arange(1, d + 1.0)
    return {
        "power": rank ** -rng.uniform(0.1, 3),
        "uniform": np.sort(rng.random(d))[::-1],
        "exponential": np.exp(-rank / d * rng.uniform(1, 20)),
        "gamma": np.sort(rng.gamma(0.5, size=d))[::-1],
    }[kind]


@pytest.mark.parametrize("kind", ["power", "uniform", "exponential", "gamma"])
def test_the_estimate_is_right_for_many_spectra(kind, monkeypatch):
    """Not a bound, but not off by more than a factor of 4 here."""
    rng = np.random.default_rng(7)
    monkeypatch.setattr(lanczos_module, "leading_eigenpairs_of", lambda *given: (None, None))
    n_found = 0
    for _ in range(12):
        d = int(rng.integers(120, 500))
        k, values = int(rng.integers(1, d // 8)), spectrum(kind, d, rng)
        Q = np.linalg.qr(rng.standard_normal((d, d)))[0]
        M = (Q * values) @ Q.T
        for angle, squared in itertools.product((2.5e-3, 1e-6), (None, square_of(M))):
            vectors = leading_eigenpairs_by_blocks(
                lambda V, M=M: M @ V, d, k, angle=angle, squared=squared
            )[1]
            if vectors is not None:  # left to ARPACK
                n_found += 1
                assert same_subspace(vectors, Q[:, :k]) <= 4 * angle
    assert n_found > 30


def test_the_square_takes_a_smaller_space(monkeypatch):
    M, sizes = matrix(1000, 0.5), []
    vectors = lanczos_module.KrylovSpace.vectors

    def noted(space, U):
        sizes.append(space.size)
        return vectors(space, U)

    monkeypatch.setattr(lanczos_module.KrylovSpace, "vectors", noted)
    for squared in (None, square_of(M)):
        leading_eigenpairs_by_blocks(lambda V: M @ V, 1000, 60, angle=5e-3, squared=squared)
    assert sizes[1] < 0.8 * sizes[0]


@pytest.mark.usefixtures("_no_arpack")
@pytest.mark.parametrize("middle", [0.9, 0.5, 0.2, None])
def test_a_square_about_the_wrong_place_is_not_believed(middle, monkeypatch):
    """Eigenvalues below the middle would come out as large as those above it."""
    M = matrix(500)
    monkeypatch.setattr(lanczos_module, "_middle", lambda *given: middle)
    values = leading_eigenpairs_by_blocks(lambda V: M @ V, 500, 12, squared=square_of(M))[0]
    np.testing.assert_allclose(values, 1 / np.arange(1, 13.0), rtol=1e-9)


@pytest.mark.usefixtures("_no_arpack")
@pytest.mark.parametrize("n_spikes", [1, 2, 5])
@pytest.mark.parametrize("seed", range(6))
def test_zeros_of_the_matrix_are_not_taken_for_large_eigenvalues(n_spikes, seed):
    """They come out of the square as large as the square of the middle, but for rounding."""
    rng = np.random.default_rng(seed)
    spikes, bulk = rng.uniform(100, 900, n_spikes), rng.uniform(0.5, 1, 150)
    values = np.sort(np.concatenate([spikes, bulk, np.zeros(150 - n_spikes)]))[::-1]
    Q = np.linalg.qr(rng.standard_normal((300, 300)))[0]
    M, k = (Q * values) @ Q.T, n_spikes + 1
    found = leading_eigenpairs_by_blocks(
        lambda V: M @ V, 300, k, angle=2.5e-3, squared=square_of(M)
    )[0]
    np.testing.assert_allclose(found, values[:k], rtol=1e-3)


@pytest.mark.parametrize(
    "values",
    [
        np.linspace(1, 0, 1000),
        np.concatenate([[500.0], np.linspace(1, 0, 999)]),
        np.concatenate([np.linspace(9, 8, 30), np.linspace(1, 0, 470), np.zeros(500)]),
    ],
    ids=["flat", "one spike", "thirty and zeros"],
)
def test_the_middle_is_half_of_the_eigenvalue_asked_for(values):
    start = np.linalg.qr(np.random.default_rng(0).standard_normal((1000, 8)))[0].T
    for n_above in (50, 100, 300):
        middle = lanczos_module._middle(lambda V: values[:, None] * V, start, n_above)
        assert middle is None or n_above / 2 < np.sum(values > 2 * middle) < 4 * n_above
        assert middle is not None or values[n_above] < values[0] / 100


def test_a_steep_spectrum_has_no_middle():
    values = np.exp(-np.arange(1000.0))
    start = np.linalg.qr(np.random.default_rng(0).standard_normal((1000, 8)))[0].T
    assert lanczos_module._middle(lambda V: values[:, None] * V, start, 100) is None


def test_equal_eigenvalues_at_the_end_do_not_keep_it_from_ending():
    values = np.concatenate([np.linspace(5, 3, 9), np.full(2, 2.0), np.linspace(1, 0.1, 289)])
    found = leading_eigenpairs_by_blocks(lambda V: values[:, None] * V, 300, 10, angle=5e-3)[0]
    np.testing.assert_allclose(found, values[:10], rtol=1e-9)


@pytest.mark.parametrize("is_squared", [False, True])
@pytest.mark.parametrize("k", [12, 50])
@pytest.mark.parametrize("angle", [2.5e-3, 1e-6])
def test_eigenvalues_repeated_more_often_than_a_block_is_wide(k, angle, is_squared):
    """Krylov spaces hold as many of each as the start has vectors, and the rest is not missed."""
    values = np.repeat(np.arange(30, 0, -1.0), 20)
    squared = square_of(np.diag(values)) if is_squared else None
    found = leading_eigenpairs_by_blocks(
        lambda V: values[:, None] * V, 600, k, angle=angle, squared=squared
    )[0]
    np.testing.assert_allclose(found, values[:k], rtol=1e-9)


@pytest.mark.parametrize("is_squared", [False, True])
@pytest.mark.parametrize(
    ("width", "size", "k"), [(1e-3, 20, 12), (1e-3, 80, 64), (3e-3, 40, 30), (3e-4, 20, 22)]
)
def test_more_nearly_equal_eigenvalues_than_a_block_has_vectors(width, size, k, is_squared):
    """Which of them are found is open, but none of the others is taken for one."""
    values = np.concatenate([np.linspace(1, 1 - width, size), np.linspace(0.3, 0, 700 - size)])
    squared = square_of(np.diag(values)) if is_squared else None
    found = leading_eigenpairs_by_blocks(
        lambda V: values[:, None] * V, 700, k, angle=2.5e-3, squared=squared
    )[0]
    np.testing.assert_allclose(found, values[:k], atol=width)


def test_equal_eigenvalues_of_a_matrix_too_large_to_be_formed_are_told(monkeypatch):
    values = np.repeat(np.arange(30, 0, -1.0), 20)
    monkeypatch.setattr(lanczos_module, "FORMED_ROWS", 599)
    with pytest.warns(ConvergenceWarning, match="Lanczos may have missed eigenvectors"):
        leading_eigenpairs_by_blocks(lambda V: values[:, None] * V, 600, 12)


@pytest.mark.parametrize("largest", [2e4, 2e8])
def test_equal_eigenvalues_far_below_the_largest_are_noticed(largest):
    values = np.concatenate([[largest], np.ones(30), np.linspace(0.5, 0, 269)])
    for angle in (2.5e-3, 1e-6):
        found = leading_eigenpairs_by_blocks(
            lambda V: values[:, None] * V, 300, 20, angle=angle, squared=square_of(np.diag(values))
        )[0]
        np.testing.assert_allclose(found, values[:20], rtol=1e-6)


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
