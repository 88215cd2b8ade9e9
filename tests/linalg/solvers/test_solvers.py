"""All solvers against the dense inverse of I + alpha L."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from properties import examples
from sklearn.exceptions import ConvergenceWarning
from truth import (
    GHOSTS,
    column_norms,
    dense_P,
    dense_solve,
    dense_system,
    propagation,
    random_graph,
    random_labels,
)

from gpcanet import Graph
from gpcanet.linalg import Solver

METHODS = ["fixed-point", "chebyshev", "cg", "direct"]
ITERATIVE = METHODS[:-1]


def relative_residual(P, alpha, F, X, normalization) -> float:
    R = X - dense_system(P, alpha) @ F
    return (column_norms(R, normalization) / column_norms(X, normalization)).max()


@pytest.mark.parametrize(("beta", "ghost"), GHOSTS)
@pytest.mark.parametrize("normalization", ["sym", "rw"])
@pytest.mark.parametrize("method", [*METHODS, "auto"])
def test_solution_equals_dense_inverse(graph, X, labels, method, normalization, beta, ghost):
    options = {"normalization": normalization, "labels": labels, "beta": beta, "ghost": ghost}
    P = propagation(graph, **options)
    for alpha in (0.1, 100.0):
        solution = Solver(P, alpha, method=method, tol=1e-10, max_iter=5000).solve(X)
        assert solution.residual <= 1e-10
        expected = dense_solve(dense_P(graph, **options), alpha, X)
        np.testing.assert_allclose(solution.F, expected, rtol=0, atol=1e-8)


@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("normalization", ["sym", "rw"])
def test_solution_of_compiled_kernels_equals_dense_inverse(graph, X, labels, normalization, method):
    options = {"normalization": normalization, "labels": labels, "beta": 0.3, "ghost": "paper"}
    solution = Solver(propagation(graph, **options), 10.0, method=method, tol=1e-10).solve(X)
    expected = dense_solve(dense_P(graph, **options), 10.0, X)
    np.testing.assert_allclose(solution.F, expected, rtol=0, atol=1e-8)


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
def test_error_of_every_column_is_within_tol(
    method, normalization, ghost, n, spread, alpha, dtype, seed
):
    """In the 2-norm for sym and in the maximum norm for rw, unless a warning is issued."""
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
        errors = column_norms(F - expected, normalization) / column_norms(X, normalization)
        # P is rounded to the precision of X, which changes F by up to alpha times its epsilon.
        assert errors.max() <= tol + alpha * np.finfo(dtype).eps


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("normalization", ["sym", "rw"])
def test_solve_equals_apply_and_does_not_modify_x(graph, X, normalization, method):
    solver = Solver(propagation(graph, normalization=normalization), 5.0, method=method)
    original = X.copy()
    np.testing.assert_array_equal(solver.solve(X).F, solver.apply(X))
    np.testing.assert_array_equal(X, original)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("normalization", ["sym", "rw"])
def test_float32_reaches_a_residual_of_1e_5(graph, X, labels, normalization, method):
    options = {"normalization": normalization, "labels": labels, "beta": 0.2}
    P = propagation(graph, **options, dtype=np.float32)
    solution = Solver(P, 10.0, method=method, tol=1e-5).solve(X.astype(np.float32))
    assert solution.F.dtype == np.float32
    assert solution.residual <= 1e-5
    dense = dense_P(graph, **options)
    # In float64 the residual may differ by the rounding error of one float32 step.
    assert relative_residual(dense, 10.0, solution.F, X, normalization) <= 1.3e-5


@pytest.mark.parametrize("method", [*METHODS, "auto"])
@pytest.mark.parametrize("normalization", ["sym", "rw"])
def test_alpha_zero_returns_a_copy(graph, X, normalization, method):
    solution = Solver(propagation(graph, normalization=normalization), 0.0, method=method).solve(X)
    np.testing.assert_allclose(solution.F, X, rtol=1e-15)
    assert not np.shares_memory(solution.F, X)
    assert solution.n_iter == 0
    assert solution.residual < 1e-15


@pytest.mark.parametrize("method", METHODS)
def test_zero_columns_stay_zero_and_do_not_change_others(graph, X, labels, method):
    P = propagation(graph, normalization="rw", labels=labels, beta=0.3, ghost="paper")
    solver = Solver(P, 10.0, method=method, tol=1e-10)
    padded = np.zeros((len(X), 8))
    padded[:, [0, 2, 3, 4, 6, 7]] = X
    solution = solver.solve(padded)
    np.testing.assert_array_equal(solution.F[:, [1, 5]], 0)
    expected = dense_solve(P @ np.eye(len(X)), 10.0, padded)
    np.testing.assert_allclose(solution.F, expected, atol=1e-8)
    all_zero = solver.solve(np.zeros((len(X), 2)))
    np.testing.assert_array_equal(all_zero.F, 0)
    assert all_zero.residual == 0


# -- rows and residuals --------------------------------------------------------------------


@pytest.mark.usefixtures("either_path")
@pytest.mark.parametrize("normalization", ["sym", "rw"])
@pytest.mark.parametrize("reorder", [False, True])
@pytest.mark.parametrize("method", METHODS)
def test_rows_of_solution_and_residual(graph, X, method, reorder, normalization):
    P = propagation(graph, normalization=normalization, reorder=reorder)
    shift = X.mean(axis=0)
    solution = Solver(P, 10.0, method=method, tol=1e-2).solve(X, shift)
    rows = slice(3, 17)
    F_rows, residual_rows = solution.rows(rows), solution.residual_rows(rows)
    solution.drop_residual()
    F = solution.F
    np.testing.assert_allclose(F_rows, F[rows], rtol=1e-14)
    expected = (X - shift - dense_system(dense_P(graph, normalization), 10.0) @ F) / 11
    np.testing.assert_allclose(residual_rows, expected[rows], atol=1e-13)


@pytest.mark.parametrize("normalization", ["sym", "rw"])
@pytest.mark.parametrize(("beta", "ghost"), [(0.0, "balanced"), (0.3, "paper")])
@pytest.mark.parametrize("method", ITERATIVE)
def test_residual_equals_dense_residual(graph, X, labels, method, beta, ghost, normalization):
    options = {"normalization": normalization, "labels": labels, "beta": beta, "ghost": ghost}
    solution = Solver(propagation(graph, **options), 10.0, method=method, tol=1e-2).solve(X)
    expected = relative_residual(dense_P(graph, **options), 10.0, solution.F, X, normalization)
    assert solution.has_residual
    assert solution.residual == pytest.approx(expected, rel=1e-9)
    assert 1e-7 < solution.residual <= 1e-2


# -- warnings ------------------------------------------------------------------------------


@pytest.mark.parametrize("normalization", ["sym", "rw"])
@pytest.mark.parametrize("method", ITERATIVE)
def test_too_few_iterations_issue_one_warning_with_the_residual(graph, X, normalization, method):
    P = propagation(graph, normalization=normalization)
    solver = Solver(P, 100.0, method=method, tol=1e-9, max_iter=10)
    with pytest.warns(ConvergenceWarning) as caught:
        solution = solver.solve(X)
    assert len(caught) == 1
    message = str(caught[0].message)
    assert f"{method!r} stopped after 10 iterations" in message
    assert f"relative residual {solution.residual:.1e}, tol=1.0e-09" in message
    assert "raise max_iter" in message
    assert ("use solver='cg'" in message) == (method == "chebyshev")
    expected = relative_residual(dense_P(graph, normalization), 100.0, solution.F, X, normalization)
    assert solution.residual == pytest.approx(expected, rel=1e-9)
    assert solution.n_iter == 10


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("max_iter", [1, 7, 15])
@pytest.mark.parametrize(("beta", "ghost"), [(0.0, "balanced"), (0.5, "paper")])
@pytest.mark.parametrize("method", ITERATIVE)
def test_number_of_iterations_is_at_most_max_iter(X, labels, method, beta, ghost, max_iter):
    P = propagation(random_graph(), normalization="rw", labels=labels, beta=beta, ghost=ghost)
    solver = Solver(P, 100.0, method=method, tol=1e-9, max_iter=max_iter)
    assert solver.solve(X).n_iter <= max_iter


def test_tolerance_below_the_precision_ends_with_a_warning(graph, X):
    """float32 cannot reach a residual of 1e-12: cg must stop long before max_iter."""
    P = propagation(graph, dtype=np.float32)
    with pytest.warns(ConvergenceWarning, match="use float64 features"):
        solution = Solver(P, 10.0, method="cg", tol=1e-12, max_iter=10**6).solve(
            X.astype(np.float32)
        )
    assert solution.n_iter < 1000
