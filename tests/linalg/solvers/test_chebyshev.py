"""The number of Chebyshev steps, which is known before the first one."""

import math

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from truth import propagation

from gpcanet import Graph
from gpcanet.linalg import Solver


@pytest.mark.parametrize("alpha", [0.1, 10.0, 100.0])
@pytest.mark.parametrize("tol", [1e-2, 1e-6, 1e-10])
def test_number_of_steps_equals_the_formula(any_graph, X, alpha, tol):
    solution = Solver(propagation(any_graph), alpha, method="chebyshev", tol=tol).solve(X)
    expected = math.ceil(math.acosh(1 / tol) / math.acosh((1 + alpha) / alpha))
    assert solution.n_iter == max(1, expected)
    assert solution.residual <= tol


@pytest.mark.parametrize("alpha", [1.0, 10.0, 100.0])
def test_steps_suffice_for_any_spectrum_and_one_less_does_not(alpha):
    """Eigenvalues at both ends of [-1, 1] are the worst case; they attain the bound."""
    # A pair of nodes with an edge of weight w has the eigenvalues 1 and (1 - w) / (1 + w).
    pairs, weights = np.arange(18).reshape(2, 9, order="F"), np.geomspace(1e9, 1e-9, 9)
    P, tol = propagation(Graph.from_edge_index(pairs, weights, each_once=True)), 1e-6
    X = np.kron(np.eye(9), [[1.0], [-1.0]])  # the eigenvectors of the second ones
    enough = Solver(P, alpha, method="chebyshev", tol=tol).solve(X)
    assert enough.residual <= tol
    fewer = Solver(P, alpha, method="chebyshev", tol=tol, max_iter=enough.n_iter - 1)
    with pytest.warns(ConvergenceWarning):
        assert fewer.solve(X).residual > tol
