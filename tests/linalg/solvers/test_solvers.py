"""Every solver against the dense inverse of I + alpha L."""

import math
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from properties import examples
from sklearn.exceptions import ConvergenceWarning
from truth import (
    GHOSTS,
    KINDS,
    dense_P,
    dense_solve,
    dense_system,
    propagation,
    random_features,
    random_graph,
    random_labels,
)

from gpcanet import Graph
from gpcanet.linalg import BlockOperator, Solver
from gpcanet.linalg.solvers import base as solve_module

METHODS = ["fixed-point", "chebyshev", "cg", "direct"]
ITERATIVE = METHODS[:-1]


class MatrixOperator(BlockOperator):
    """P given as a symmetric matrix of any library that has ``@``."""

    def __init__(self, matrix):
        self.matrix = matrix

    def matmul(self, F):
        return self.matrix @ F


def sizes(block, normalization) -> np.ndarray:
    """The norm of each column in which errors are promised to be small."""
    return np.linalg.norm(block, axis=0, ord=2 if normalization == "sym" else np.inf)


def dense_residual(P, alpha, F, X, normalization) -> float:
    R = X - dense_system(P, alpha) @ F
    return (sizes(R, normalization) / sizes(X, normalization)).max()


# -- the promise ---------------------------------------------------------------------------


@examples(100)
@given(
    st.sampled_from(METHODS),
    st.sampled_from(["sym", "rw"]),
    st.sampled_from(GHOSTS),
    st.integers(5, 40),
    st.floats(0, 12),
    st.floats(0.1, 1e3),
    st.sampled_from([np.float64, np.float32]),
    st.integers(0, 1000),
)
def test_the_error_of_every_column_is_within_tol(
    method, normalization, ghost, n, spread, alpha, dtype, seed
):
    """In the 2-norm for sym, in the maximum norm for rw, or there is a warning."""
    rng = np.random.default_rng(seed)
    weights = 10 ** rng.choice([0, spread / 2, spread], n)
    graph = random_graph(n, seed=seed)
    graph = Graph(graph.adjacency.toarray() * np.minimum.outer(weights, weights))
    labels = random_labels(n, seed=seed)
    options = {"normalization": normalization, "labels": labels}
    options |= dict(zip(("beta", "ghost"), ghost, strict=True))
    X = np.column_stack([rng.standard_normal((n, 2)), np.eye(n)[rng.integers(n)]]).astype(dtype)
    tol = 1e-6 if dtype == np.float64 else 1e-5
    solver = Solver(propagation(graph, **options, dtype=dtype), alpha, method=method, tol=tol)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        F = solver.solve(X).F
    assert {warning.category for warning in caught} <= {ConvergenceWarning}
    if not caught:
        expected = dense_solve(dense_P(graph, **options), alpha, X.astype(float))
        errors = sizes(F - expected, normalization) / sizes(X, normalization)
        # P is rounded to the precision of X, which alone changes F by up to alpha times that.
        assert errors.max() <= tol + alpha * np.finfo(dtype).eps


# -- exactness -----------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", [0.1, 1.0, 10.0, 100.0])
@pytest.mark.parametrize(("beta", "ghost"), GHOSTS)
@pytest.mark.parametrize("normalization", ["sym", "rw"])
@pytest.mark.parametrize("kind", ["weighted", "disconnected", "isolated"])
@pytest.mark.parametrize("method", METHODS)
def test_solution_equals_dense_inverse(X, labels, method, kind, normalization, beta, ghost, alpha):
    graph = random_graph(**KINDS[kind])
    options = {"normalization": normalization, "labels": labels, "beta": beta, "ghost": ghost}
    P = propagation(graph, **options)
    solution = Solver(P, alpha, method=method, tol=1e-10, max_iter=5000).solve(X)
    assert solution.residual <= 1e-10
    expected = dense_solve(dense_P(graph, **options), alpha, X)
    np.testing.assert_allclose(solution.F, expected, rtol=0, atol=1e-8)


@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("normalization", ["sym", "rw"])
def test_compiled_path_equals_dense_inverse(graph, X, labels, normalization, method):
    options = {"normalization": normalization, "labels": labels, "beta": 0.3, "ghost": "paper"}
    solution = Solver(propagation(graph, **options), 10.0, method=method, tol=1e-10).solve(X)
    expected = dense_solve(dense_P(graph, **options), 10.0, X)
    np.testing.assert_allclose(solution.F, expected, rtol=0, atol=1e-8)


@pytest.mark.parametrize("method", METHODS)
def test_solve_and_apply_give_the_same_and_leave_x_alone(graph, X, method):
    for normalization in ("sym", "rw"):
        solver = Solver(propagation(graph, normalization=normalization), 5.0, method=method)
        kept = X.copy()
        np.testing.assert_array_equal(solver.solve(X).F, solver.apply(X))
        np.testing.assert_array_equal(X, kept)


@pytest.mark.parametrize("method", METHODS)
def test_single_precision_reaches_1e_5(graph, X, labels, method):
    for normalization in ("sym", "rw"):
        options = {"normalization": normalization, "labels": labels, "beta": 0.2}
        P = propagation(graph, **options, dtype=np.float32)
        solution = Solver(P, 10.0, method=method, tol=1e-5).solve(X.astype(np.float32))
        assert solution.F.dtype == np.float32
        assert solution.residual <= 1e-5
        dense = dense_P(graph, **options)
        # Measured anew in float64, the residual may differ by the rounding of one float32 step.
        assert dense_residual(dense, 10.0, solution.F, X, normalization) <= 1.3e-5


@pytest.mark.parametrize("method", [*METHODS, "auto"])
@pytest.mark.parametrize("normalization", ["sym", "rw"])
def test_alpha_zero_returns_a_copy(graph, X, normalization, method):
    solution = Solver(propagation(graph, normalization=normalization), 0.0, method=method).solve(X)
    np.testing.assert_allclose(solution.F, X, rtol=1e-15)
    assert not np.shares_memory(solution.F, X)
    assert solution.n_iter == 0
    assert solution.residual < 1e-15


@pytest.mark.parametrize("method", METHODS)
def test_zero_columns_stay_zero_and_disturb_nothing(graph, X, labels, method):
    P = propagation(graph, normalization="rw", labels=labels, beta=0.3, ghost="paper")
    solver = Solver(P, 10.0, method=method, tol=1e-10)
    padded = np.zeros((len(X), 8))
    padded[:, [0, 2, 3, 4, 6, 7]] = X
    solution = solver.solve(padded)
    np.testing.assert_array_equal(solution.F[:, [1, 5]], 0)
    expected = dense_solve(P @ np.eye(len(X)), 10.0, padded)
    np.testing.assert_allclose(solution.F, expected, atol=1e-8)
    nothing = solver.solve(np.zeros((len(X), 2)))
    np.testing.assert_array_equal(nothing.F, 0)
    assert nothing.residual == 0


def test_auto_factorises_small_graphs_and_iterates_on_others(graph, monkeypatch):
    P = propagation(graph)
    assert Solver(P, 1.0).method == "direct"
    monkeypatch.setattr(solve_module, "DIRECT_ENTRIES", len(P.indices) - 1)
    assert Solver(P, 1.0).method == "chebyshev"
    assert Solver(MatrixOperator(np.eye(3)), 1.0).method == "chebyshev"


def test_direct_says_that_it_needs_a_propagation():
    with pytest.raises(TypeError, match="needs a Propagation"):
        Solver(MatrixOperator(np.eye(3)), 1.0, method="direct")


# -- the fixed point -----------------------------------------------------------------------


@pytest.mark.parametrize("steps", [0, 1, 5, 13])
@pytest.mark.parametrize("normalization", ["sym", "rw"])
@pytest.mark.parametrize("ghost", ["paper", "balanced"])
def test_fixed_point_takes_the_steps_it_is_told(graph, X, labels, ghost, normalization, steps):
    options = {"normalization": normalization, "labels": labels, "beta": 0.2, "ghost": ghost}
    solver = Solver(propagation(graph, **options), 10.0, method="fixed-point", n_iter=steps)
    solution = solver.solve(X)  # silent, although far from converged
    P, F = dense_P(graph, **options), X
    for _ in range(steps):
        F = 10 / 11 * P @ F + 1 / 11 * X
    np.testing.assert_allclose(solution.F, F, atol=1e-12)
    assert solution.n_iter == steps


def test_fixed_point_converges_where_the_taylor_series_diverges(graph, X):
    P, alpha = dense_P(graph), 50.0
    term, series = X, X
    for _ in range(30):
        term = -alpha * (term - P @ term)
        series = series + term
    assert np.linalg.norm(series) > 1e20 * np.linalg.norm(X)
    solution = Solver(propagation(graph), alpha, method="fixed-point", max_iter=2000).solve(X)
    np.testing.assert_allclose(solution.F, dense_solve(P, alpha, X), atol=1e-4)


# -- residual and warnings -----------------------------------------------------------------


@pytest.mark.parametrize("normalization", ["sym", "rw"])
@pytest.mark.parametrize(("beta", "ghost"), [(0.0, "balanced"), (0.3, "paper")])
@pytest.mark.parametrize("method", ITERATIVE)
def test_residual_is_the_true_one(graph, X, labels, method, beta, ghost, normalization):
    options = {"normalization": normalization, "labels": labels, "beta": beta, "ghost": ghost}
    solution = Solver(propagation(graph, **options), 10.0, method=method, tol=1e-2).solve(X)
    expected = dense_residual(dense_P(graph, **options), 10.0, solution.F, X, normalization)
    assert solution.residual == pytest.approx(expected, rel=1e-9)
    assert 1e-7 < solution.residual <= 1e-2


@pytest.mark.parametrize("normalization", ["sym", "rw"])
@pytest.mark.parametrize("method", ITERATIVE)
def test_too_few_iterations_warn_and_say_how_far_they_got(graph, X, normalization, method):
    P = propagation(graph, normalization=normalization)
    solver = Solver(P, 100.0, method=method, tol=1e-9, max_iter=10)
    with pytest.warns(ConvergenceWarning) as caught:
        solution = solver.solve(X)
    assert len(caught) == 1
    message = str(caught[0].message)
    assert f"{method!r} stopped after 10 iterations" in message
    assert f"relative residual {solution.residual:.1e}, tol=1.0e-09" in message
    expected = dense_residual(dense_P(graph, normalization), 100.0, solution.F, X, normalization)
    assert solution.residual == pytest.approx(expected, rel=1e-9)
    assert solution.n_iter == 10


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("max_iter", [1, 7, 15])
@pytest.mark.parametrize(("beta", "ghost"), [(0.0, "balanced"), (0.5, "paper")])
@pytest.mark.parametrize("method", ITERATIVE)
def test_no_more_iterations_than_allowed(X, labels, method, beta, ghost, max_iter):
    P = propagation(random_graph(), normalization="rw", labels=labels, beta=beta, ghost=ghost)
    solver = Solver(P, 100.0, method=method, tol=1e-9, max_iter=max_iter)
    assert solver.solve(X).n_iter <= max_iter


def test_tolerance_beyond_the_precision_ends_with_a_warning(graph, X):
    """float32 cannot hold a residual of 1e-12: cg must stop trying long before max_iter."""
    P = propagation(graph, dtype=np.float32)
    with pytest.warns(ConvergenceWarning, match="use float64 features"):
        solution = Solver(P, 10.0, method="cg", tol=1e-12, max_iter=10**6).solve(
            X.astype(np.float32)
        )
    assert solution.n_iter < 1000


# -- Chebyshev -----------------------------------------------------------------------------


def chebyshev_steps(alpha, tol) -> int:
    return math.ceil(math.acosh(1 / tol) / math.acosh((1 + alpha) / alpha))


@pytest.mark.parametrize("alpha", [0.1, 1.0, 10.0, 100.0])
@pytest.mark.parametrize("tol", [1e-2, 1e-6, 1e-10])
def test_chebyshev_knows_its_steps_beforehand(any_graph, X, alpha, tol):
    solution = Solver(propagation(any_graph), alpha, method="chebyshev", tol=tol).solve(X)
    assert solution.n_iter == max(1, chebyshev_steps(alpha, tol))
    assert solution.residual <= tol


@pytest.mark.parametrize("alpha", [1.0, 10.0, 100.0])
def test_chebyshev_steps_are_enough_for_any_spectrum_and_not_one_too_many(alpha):
    """Eigenvalues at both ends of [-1, 1] are the worst case, and meet the bound exactly."""
    P, tol = MatrixOperator(np.diag(np.linspace(-1, 1, 9))), 1e-6
    enough = Solver(P, alpha, method="chebyshev", tol=tol).solve(np.eye(9))
    assert enough.residual <= tol
    fewer = Solver(P, alpha, method="chebyshev", tol=tol, max_iter=enough.n_iter - 1)
    with pytest.warns(ConvergenceWarning):
        assert fewer.solve(np.eye(9)).residual > tol


# -- one body of code for numpy and torch --------------------------------------------------


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta")
@pytest.mark.parametrize("method", ITERATIVE)
def test_torch_and_numpy_run_the_same_code_to_the_same_result(graph, method):
    torch = pytest.importorskip("torch")
    X = random_features()
    P = sp.csr_array(dense_P(graph))
    parts = [torch.tensor(part) for part in (P.indptr, P.indices, P.data)]
    tensor = torch.sparse_csr_tensor(*parts, P.shape, check_invariants=True)
    options = {"method": method, "tol": 1e-10}
    by_torch = Solver(MatrixOperator(tensor), 10.0, **options).solve(torch.tensor(X))
    by_numpy = Solver(MatrixOperator(P), 10.0, **options).solve(X)
    assert isinstance(by_torch.F, torch.Tensor)
    assert by_torch.n_iter == by_numpy.n_iter
    assert by_torch.residual <= 1e-10
    np.testing.assert_allclose(by_torch.F.numpy(), by_numpy.F, atol=1e-11)
    own = Solver(propagation(graph), 10.0, **options).solve(X)
    np.testing.assert_allclose(by_torch.F.numpy(), own.F, atol=1e-8)
