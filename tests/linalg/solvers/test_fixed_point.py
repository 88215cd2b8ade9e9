"""The fixed-point iteration, step by step."""

import numpy as np
import pytest
from truth import dense_P, dense_solve, propagation

from gpcanet.linalg import Solver


@pytest.mark.parametrize("n_steps", [0, 1, 5, 13])
@pytest.mark.parametrize("normalization", ["sym", "rw"])
@pytest.mark.parametrize("ghost", ["paper", "balanced"])
def test_n_iter_steps_equal_the_formula(graph, X, labels, ghost, normalization, n_steps):
    options = {"normalization": normalization, "labels": labels, "beta": 0.2, "ghost": ghost}
    solver = Solver(propagation(graph, **options), 10.0, method="fixed-point", n_iter=n_steps)
    solution = solver.solve(X)  # no warning, although it has not converged
    P, F = dense_P(graph, **options), X
    for _ in range(n_steps):
        F = 10 / 11 * P @ F + 1 / 11 * X
    np.testing.assert_allclose(solution.F, F, atol=1e-12)
    assert solution.n_iter == n_steps
    assert not solution.has_residual
    assert np.isnan(solution.residual)


def test_fixed_point_converges_if_the_taylor_series_diverges(graph, X):
    P, alpha = dense_P(graph), 50.0
    term, series = X, X
    for _ in range(30):
        term = -alpha * (term - P @ term)
        series = series + term
    assert np.linalg.norm(series) > 1e20 * np.linalg.norm(X)
    solution = Solver(propagation(graph), alpha, method="fixed-point", max_iter=2000).solve(X)
    np.testing.assert_allclose(solution.F, dense_solve(P, alpha, X), atol=1e-4)
