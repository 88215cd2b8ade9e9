"""Leading eigenpairs against LAPACK, their order and their signs."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import event, example, given
from hypothesis import strategies as st
from properties import examples
from sklearn.exceptions import ConvergenceWarning
from truth import dense_P, dense_solve, row_weights, same_subspace

from gpcanet import GPCA, Graph
from gpcanet.linalg import (
    estimate_trace,
    fix_signs,
    lanczos_vectors,
    leading_eigenpairs,
    leading_eigenpairs_of,
)
from gpcanet.linalg.eigen import FORMED_ROWS, KrylovBasis


@pytest.fixture
def M():
    """A symmetric 12 x 12 matrix with eigenvalues 12, 10, ..., -10."""
    Q, _ = np.linalg.qr(np.random.default_rng(0).standard_normal((12, 12)))
    return (Q * np.arange(12, -12, -2.0)) @ Q.T


@pytest.mark.parametrize("k", [1, 4, 12])
def test_leading_eigenpairs_equal_numpy(M, k):
    values, vectors = leading_eigenpairs(M, k)
    expected_values, expected = np.linalg.eigh(M)
    np.testing.assert_allclose(values, expected_values[::-1][:k], atol=1e-12)
    np.testing.assert_allclose(vectors, fix_signs(expected[:, ::-1][:, :k]), atol=1e-12)


def test_order_is_by_value_and_not_by_absolute_value(M):
    """A truncated series may have negative eigenvalues, which come last."""
    values, _ = leading_eigenpairs(M - 5 * np.eye(12), 12)
    np.testing.assert_allclose(values, np.arange(7, -17, -2.0), atol=1e-12)


def test_float32_is_kept(M):
    values, vectors = leading_eigenpairs(M.astype(np.float32), 3)
    assert (values.dtype, vectors.dtype) == (np.float32, np.float32)


def test_an_unsymmetric_matrix_is_symmetrized(M):
    skewed = M + np.triu(np.random.default_rng(1).standard_normal((12, 12)), 1)
    values, vectors = leading_eigenpairs(skewed, 3)
    expected_values, expected = np.linalg.eigh((skewed + skewed.T) / 2)
    np.testing.assert_allclose(values, expected_values[::-1][:3], atol=1e-12)
    np.testing.assert_allclose(vectors, fix_signs(expected[:, ::-1][:, :3]), atol=1e-12)
    np.testing.assert_array_equal(leading_eigenpairs(skewed.T, 3)[1], vectors)


# -- products with the matrix --------------------------------------------------------------


def diagonal(values):
    """Products with a diagonal matrix."""
    return lambda V: values[:, None] * V


def rotated(values, seed=0):
    """A matrix with these eigenvalues, and its eigenvectors."""
    Q, _ = np.linalg.qr(np.random.default_rng(seed).standard_normal((len(values), len(values))))
    return (Q * values) @ Q.T, Q


def check_eigenpairs(M, values, vectors, *, atol=1e-8):
    """Eigenvalues equal those of LAPACK; vectors are orthonormal and satisfy M w = lambda w."""
    k = len(values)
    expected = np.linalg.eigvalsh(M)[::-1]
    # The residual norm is at most 1e-9 of the largest eigenvalue for each of k pairs.
    scale = np.abs(expected).max()
    np.testing.assert_allclose(values, expected[:k], rtol=0, atol=atol * scale)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(k), atol=1e-10)
    assert np.linalg.norm(M @ vectors - vectors * values) <= atol * scale * k


@pytest.mark.parametrize("k", [1, 4, 11, 12])
def test_a_small_matrix_is_formed(M, k):
    values, vectors = leading_eigenpairs_of(lambda V: M @ V, 12, k)
    expected_values, expected = leading_eigenpairs(M, k)
    np.testing.assert_allclose(values, expected_values, atol=1e-12)
    np.testing.assert_allclose(vectors, expected, atol=1e-12)


@pytest.mark.parametrize("k", [1, 7, 60])
@pytest.mark.parametrize("decay", [0.5, 1.0, 3.0])
def test_eigenpairs_of_a_decaying_spectrum_equal_lapack(k, decay):
    M, Q = rotated(np.arange(1, 601.0) ** -decay)
    values, vectors = leading_eigenpairs_of(lambda V: M @ V, 600, k)
    np.testing.assert_allclose(values, np.arange(1, k + 1.0) ** -decay, rtol=0, atol=1e-9)
    check_eigenpairs(M, values, vectors)
    # A residual of 1e-9 divided by the gap to the next eigenvalue.
    gap = k**-decay - (k + 1.0) ** -decay
    assert same_subspace(vectors, Q[:, :k]) <= 1e-9 * np.sqrt(k) / gap + 1e-12


@pytest.mark.parametrize("gap", [1e-2, 1e-4, 1e-6])
def test_subspace_is_accurate_if_the_next_eigenvalue_is_close(gap):
    k, values = 30, np.arange(1, 701.0) ** -0.7
    values[k] = values[k - 1] * (1 - gap)
    M, Q = rotated(values, seed=1)
    found, vectors = leading_eigenpairs_of(lambda V: M @ V, 700, k)
    np.testing.assert_allclose(found, values[:k], rtol=0, atol=1e-9)
    # A residual of 1e-9 divided by the gap bounds the angle.
    assert same_subspace(vectors, Q[:, :k]) <= 1e-9 * np.sqrt(k) / (gap * values[k])


@examples(40)
@given(
    kind=st.sampled_from(["power", "uniform", "exponential", "clusters", "repeated", "flat"]),
    d=st.integers(1, 260),
    share=st.floats(0, 1),
    rank=st.floats(0, 1),
    may_form=st.booleans(),
    seed=st.integers(0, 10_000),
)
@example(kind="repeated", d=200, share=0.1, rank=1.0, may_form=True, seed=0)
@example(kind="clusters", d=250, share=0.1, rank=0.5, may_form=False, seed=1)
@example(kind="flat", d=200, share=0.05, rank=1.0, may_form=False, seed=2)
@example(kind="power", d=250, share=0.2, rank=0.0, may_form=False, seed=3)
@example(kind="uniform", d=120, share=1.0, rank=1.0, may_form=False, seed=4)
def test_eigenpairs_of_any_spectrum_equal_lapack(kind, d, share, rank, may_form, seed):
    """Repeated eigenvalues, clusters, zeros and rank deficiency, for any k up to d.

    If the matrix may not be formed, missing eigenvectors must be reported by a warning.
    """
    rng = np.random.default_rng(seed)
    values = np.sort(spectrum(kind, d, rng))[::-1].copy()
    values[round(rank * d) :] = 0
    M, _ = rotated(values, seed)
    k = max(1, round(share * d))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found, vectors = leading_eigenpairs_of(lambda V: M @ V, d, k, may_form=may_form)
    event(f"{kind}, {'warning' if caught else 'no warning'}")
    assert not (caught and may_form)
    assert {warning.category for warning in caught} <= {ConvergenceWarning}
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(k), atol=1e-10)
    if not caught:
        check_eigenpairs(M, found, vectors)


def spectrum(kind, d, rng):
    rank = np.arange(1, d + 1.0)
    width = 10.0 ** rng.integers(-12, -2)
    match kind:
        case "power":
            return rank ** -rng.uniform(0.1, 3)
        case "uniform":
            return rng.random(d)
        case "exponential":
            return np.exp(-rank / d * rng.uniform(1, 20))
        case "clusters":
            return rng.integers(1, 6, d) + width * rng.random(d)
        case "repeated":
            return rng.choice(rng.random(rng.integers(1, 40)), d)
        case "flat":
            return 1 + width * rng.random(d)


def test_two_identical_calls_give_identical_bytes():
    M, _ = rotated(np.arange(1, 401.0) ** -0.5)
    first, second = (leading_eigenpairs_of(lambda V: M @ V, 400, 5) for _ in range(2))
    assert [part.tobytes() for part in first] == [part.tobytes() for part in second]


@pytest.mark.parametrize("k", [2, 10, 40])
def test_all_eigenvectors_of_repeated_eigenvalues_are_found(k):
    """More than the block size, which are found by forming the matrix."""
    values = np.concatenate([np.full(30, 3.0), np.linspace(2.9, 0, 270)])
    found, vectors = leading_eigenpairs_of(diagonal(values), 300, k)
    np.testing.assert_allclose(found, values[:k], rtol=1e-9)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(k), atol=1e-10)


@pytest.mark.parametrize("k", [12, 50])
def test_every_eigenvalue_repeated_more_often_than_the_block_size(k):
    values = np.repeat(np.arange(30, 0, -1.0), 20)
    found, _ = leading_eigenpairs_of(diagonal(values), 600, k)
    np.testing.assert_allclose(found, values[:k], rtol=1e-9)


@pytest.mark.parametrize("largest", [2e4, 2e8])
def test_repeated_eigenvalues_far_below_the_largest_are_found(largest):
    values = np.concatenate([[largest], np.ones(30), np.linspace(0.5, 0, 269)])
    found, _ = leading_eigenpairs_of(diagonal(values), 300, 20)
    np.testing.assert_allclose(found, values[:20], rtol=1e-6)


@pytest.mark.parametrize(
    ("width", "size", "k"), [(1e-3, 20, 12), (1e-3, 80, 64), (3e-3, 40, 30), (3e-4, 20, 22)]
)
def test_clusters_larger_than_the_block_size(width, size, k):
    values = np.concatenate([np.linspace(1, 1 - width, size), np.linspace(0.3, 0, 700 - size)])
    found, _ = leading_eigenpairs_of(diagonal(values), 700, k)
    np.testing.assert_allclose(found, values[:k], rtol=0, atol=1e-9)


@pytest.mark.parametrize("rank", [0, 3, 20])
@pytest.mark.parametrize("d", [12, 200])
def test_more_eigenpairs_than_the_rank(d, rank):
    values = np.arange(1, d + 1.0) ** -1
    values[min(rank, d) :] = 0
    M, _ = rotated(values)
    for may_form in (True, False):
        check_eigenpairs(M, *leading_eigenpairs_of(lambda V: M @ V, d, 5, may_form=may_form))


@pytest.mark.parametrize(
    ("d", "may_form"), [(600, False), (FORMED_ROWS + 1, True)], ids=["not allowed", "too large"]
)
def test_missing_eigenvectors_are_reported_if_the_matrix_is_not_formed(d, may_form):
    values, widths = np.concatenate([np.full(20, 3.0), np.linspace(2, 0, d - 20)]), []

    def apply(V):
        widths.append(V.shape[1])
        return values[:, None] * V

    with pytest.warns(ConvergenceWarning, match=r"may have missed eigenvectors; form it$"):
        leading_eigenpairs_of(apply, d, 12, may_form=may_form, advice="form it")
    assert sum(widths) < d  # products with fewer vectors than forming the matrix takes


def test_lack_of_convergence_is_reported_if_the_matrix_is_not_formed():
    """Products with an error of 1e-5 cannot give a residual of 1e-9."""
    values, rng = np.linspace(1, 0, 300), np.random.default_rng(0)

    def apply(V):
        return values[:, None] * V + 1e-5 * rng.standard_normal(V.shape)

    with pytest.warns(ConvergenceWarning, match="Lanczos stopped at a relative residual of"):
        leading_eigenpairs_of(apply, 300, 2, may_form=False)
    found, _ = leading_eigenpairs_of(apply, 300, 2)
    np.testing.assert_allclose(found, values[:2], atol=1e-3)


@pytest.mark.parametrize("rank", [1, 3, 20, 100])
def test_basis_stays_orthonormal_when_the_krylov_space_is_exhausted(rank):
    values = np.zeros(300)
    values[:rank] = np.linspace(1, 0.5, rank)
    M, _ = rotated(values)
    basis = KrylovBasis(300, 5)
    while not basis.is_full:
        basis.grow(lambda V: M @ V)
    V = basis.vectors(np.eye(basis.size))
    np.testing.assert_allclose(V.T @ V, np.eye(basis.size), atol=1e-13)


@pytest.mark.parametrize("k", [1, 20, 100])
def test_number_of_vectors_in_memory_is_the_documented_one(k):
    basis = KrylovBasis(5000, k)
    while not basis.is_full:
        basis.grow(diagonal(np.linspace(1, 0, 5000)))
    values, U, _ = basis.ritz_pairs()
    assert basis.vectors(U[:, :k]).shape == (5000, k)
    assert basis.size <= lanczos_vectors(5000, k)
    basis.restart(values[: 2 * k], U[:, : 2 * k])
    assert basis.size == 2 * k


@pytest.mark.parametrize("d", [5, 32, 33, 400])
def test_trace_estimate_is_close_to_the_trace(d):
    M, Q = rotated(np.arange(1, d + 1.0) ** -0.5)
    k = min(d, 4)
    values = np.arange(1, k + 1.0) ** -0.5
    trace = estimate_trace(lambda V: M @ V, values, Q[:, :k])
    # 32 probes of the remainder: a standard error of sqrt(2 / 32) ||R||_F, here 1 % of the trace.
    assert trace == pytest.approx(np.trace(M), rel=1e-12 if d <= 32 else 0.03)


# -- graphs with repeated eigenvalues ------------------------------------------------------

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


# float32 cannot reach its default tolerance at alpha = 1e4.
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
def test_components_of_symmetric_graphs_with_repeated_eigenvalues(
    shape, kind, n, k, alpha, normalization, dtype, seed
):
    """All components are orthonormal eigenvectors with the leading eigenvalues."""
    A = SHAPES[shape](n)
    np.fill_diagonal(A, 0)
    graph, X = Graph(np.sign(A)), FEATURES[kind](len(A), np.random.default_rng(seed))
    model = GPCA(k, alpha=alpha, normalization=normalization).fit(X.astype(dtype), graph=graph)
    dense = X.toarray() if sp.issparse(X) else X
    centered, weights = dense - dense.mean(axis=0), row_weights(graph, normalization)
    F = dense_solve(dense_P(graph, normalization), alpha, centered)
    M = centered.T @ (weights[:, None] * F)
    M = (M + M.T) / 2
    W, values = model.components_.T.astype(float), np.linalg.eigvalsh(M)[::-1][:k]
    assert W.shape == (X.shape[1], k)
    # Sums over up to 80 rows in the precision of X, and solves to its default tolerance. With
    # "rw" entries are weighted by degrees that differ by a factor of up to 80.
    rounding = 1e-4 if dtype == np.float32 else 1e-6
    np.testing.assert_allclose(W.T @ W, np.eye(k), atol=rounding)
    np.testing.assert_allclose(model.eigenvalues_, values, atol=10 * rounding * values[0])
    np.testing.assert_allclose(M @ W, W * values, atol=10 * rounding * values[0])


def test_identity_features_without_a_graph():
    model = GPCA(8).fit(sp.eye_array(1200).tocsr())
    np.testing.assert_allclose(model.components_ @ model.components_.T, np.eye(8), atol=1e-10)
    np.testing.assert_allclose(model.eigenvalues_, 1.0, rtol=1e-9)


# -- signs ---------------------------------------------------------------------------------


def test_largest_entry_of_each_vector_is_positive():
    vectors = np.array([[0.1, 0.9], [-0.8, -0.2], [0.5, 0.3]])
    np.testing.assert_array_equal(fix_signs(vectors), vectors * [-1, 1])


def test_first_of_equally_large_entries_is_positive():
    vectors = np.array([[0.1, 0.5], [-0.7, -0.5], [0.7, 0.5], [-0.1, -0.5]])
    np.testing.assert_array_equal(fix_signs(vectors), vectors * [-1, 1])


@pytest.mark.parametrize("change", [1e-12, -1e-12, 1e-7, -1e-7])
def test_rounding_of_equally_large_entries_does_not_change_the_sign(change):
    vectors = np.array([[-0.5], [0.5 + change], [-0.5], [0.5]])
    np.testing.assert_array_equal(fix_signs(vectors), -vectors)


def test_sign_does_not_depend_on_the_sign_of_the_input(M):
    vectors = np.linalg.eigh(M)[1]
    np.testing.assert_array_equal(fix_signs(vectors), fix_signs(-vectors))


def test_fix_signs_keeps_dtype_and_zero_columns_and_does_not_modify_its_argument():
    vectors = np.array([[0.0, -1.0], [0.0, 0.5]], np.float32)
    original = vectors.copy()
    result = fix_signs(vectors)
    assert result.dtype == np.float32
    np.testing.assert_array_equal(result, [[0, 1], [0, -0.5]])
    np.testing.assert_array_equal(vectors, original)


def test_lanczos_vectors_of_a_singular_matrix_are_orthonormal():
    """Directions that cancel to rounding error lose orthogonality before they are replaced."""
    rng = np.random.default_rng(0)
    worst = 0.0
    for _ in range(20):
        X = rng.normal(size=(49, 8)) * np.geomspace(1, 0.03, 8) @ rng.normal(size=(8, 171))
        M = X.T @ X
        _, vectors = leading_eigenpairs_of(lambda V, M=M: M @ V, 171, 12)
        worst = max(worst, np.abs(vectors.T @ vectors - np.eye(12)).max())
    assert worst < 1e-14
