"""The choice between forming X^T F and Lanczos, by estimated work."""

import numpy as np
import pytest
import scipy.sparse as sp
from truth import random_graph

from gpcanet import GPCA, Graph
from gpcanet.estimators.problem import Parameters, Problem

# CPU seconds of fits that were measured on one core (decision record 57): nodes, features,
# components, dtype, solver; seconds of the formed matrix, and of Lanczos.
MEASURED = [
    (100_000, 1000, 20, "f4", "chebyshev", 10.3, 5.7),
    (19_717, 500, 8, "f4", "chebyshev", 0.73, 0.35),
    (19_717, 500, 60, "f4", "chebyshev", 0.77, 0.97),
    (2_708, 1433, 128, "f4", "direct", 0.40, 0.20),
    (5_000, 500, 50, "f4", "direct", 0.21, 0.14),
    (5_000, 200, 50, "f4", "chebyshev", 0.10, 0.25),
    (5_000, 900, 5, "f4", "chebyshev", 0.29, 0.12),
    (5_000, 900, 50, "f4", "chebyshev", 0.32, 0.45),
    (30_000, 250, 50, "f4", "chebyshev", 0.97, 4.66),
    (30_000, 1000, 10, "f4", "chebyshev", 8.83, 5.27),
    (30_000, 1000, 50, "f4", "chebyshev", 3.52, 10.5),
    (30_000, 2000, 50, "f4", "chebyshev", 8.87, 5.87),
    (30_000, 500, 20, "f4", "chebyshev", 4.38, 6.87),
    (3_000, 300, 5, "f8", "chebyshev", 0.53, 0.11),
]


@pytest.mark.parametrize(("n", "d", "k", "dtype", "solver", "formed", "lanczos"), MEASURED)
def test_the_way_that_was_measured_as_faster_is_chosen(n, d, k, dtype, solver, formed, lanczos):
    graph = Graph.from_edge_index(np.empty((2, 0), int), n_nodes=n)
    X = sp.csr_array((n, d), dtype=dtype)  # the choice does not read its entries
    problem = Problem(Parameters(solver=solver), graph, X, n_components=k)
    assert problem.strategy == ("formed" if formed < lanczos else "lanczos")


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("is_sparse", [True, False])
def test_the_automatic_choice_equals_the_formed_matrix(is_sparse, dtype):
    """With fewer than 1,000 features, few components are computed by Lanczos."""
    graph, rng = random_graph(300), np.random.default_rng(0)
    X = rng.normal(size=(300, 5)) @ rng.normal(size=(5, 700)) + 0.1 * rng.normal(size=(300, 700))
    X = (X * (rng.random((300, 700)) < 0.1)).astype(dtype)
    X = sp.csr_array(X) if is_sparse else X
    assert Problem(Parameters(), graph, X, n_components=4).strategy == "lanczos"
    auto, formed = GPCA(4), GPCA(4, eigen_solver="formed")
    Z, expected = auto.fit_transform(X, graph=graph), formed.fit_transform(X, graph=graph)
    # Tolerances of 1e-6 and 1e-5, divided by the smallest relative gap.
    gap = np.min(-np.diff(np.append(formed.eigenvalues_, 0)) / formed.eigenvalues_)
    assert gap > 0.01
    tol = (1e-6 if dtype is np.float64 else 1e-5) / gap
    np.testing.assert_allclose(auto.eigenvalues_, formed.eigenvalues_, rtol=tol)
    np.testing.assert_allclose(Z, expected, atol=2 * tol * np.abs(expected).max())
    assert auto.objective_ == pytest.approx(formed.objective_, rel=tol)


@pytest.mark.parametrize(
    ("options", "n_components"),
    [
        ({"eigen_solver": "formed"}, 4),
        ({"memory_limit": "1GiB"}, 4),
        ({"precision": "half", "solver": "chebyshev"}, 4),
        ({"normalization": "rw", "ghost": "paper", "beta": 0.4}, 4),
        ({}, 200),
        ({}, 0.9),
    ],
)
def test_the_matrix_is_formed_where_lanczos_cannot_be_used(options, n_components):
    graph, X = random_graph(300), np.random.default_rng(0).normal(size=(300, 700))
    assert Problem(Parameters(), graph, X, n_components=4).strategy == "lanczos"
    problem = Problem(Parameters(**options), graph, X, n_components=n_components)
    assert problem.strategy == "formed"


def test_repeated_eigenvalues_are_found_within_a_memory_limit():
    """Lanczos may miss some of their eigenvectors; a small matrix is then formed instead."""
    graph, rng = (
        Graph.from_edge_index(np.empty((2, 0), int), n_nodes=4_000),
        np.random.default_rng(0),
    )
    X = np.zeros((4_000, 500))
    for column in range(40):  # 16 equal eigenvalues, then 24 others
        X[20 * column : 20 * column + 20, column] = 3 if column < 16 else 2
    X[800:, 40:] = (rng.random((3_200, 460)) < 0.005) * 0.1
    X = sp.csr_array(X)
    assert Problem(Parameters(), graph, X, n_components=20).strategy == "lanczos"
    values = GPCA(20, memory_limit="1GiB").fit(X, graph=graph).eigenvalues_
    expected = np.linalg.eigvalsh(np.cov(X.toarray().T, ddof=0) * 4_000)[:-21:-1]
    np.testing.assert_allclose(values, expected, rtol=1e-6)
