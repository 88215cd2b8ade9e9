"""The choice between forming X^T F and Lanczos, by estimated work."""

from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp
from truth import random_graph

from gpcanet import GPCA
from gpcanet.estimators._problem import Parameters, Problem
from gpcanet.estimators._work import WorkSize, formed_work, lanczos_work

# CPU seconds of fits that were measured on one core (decision record 59): nodes, features,
# components, entries of the adjacency, entries of a sparse X, its conversion, bytes of a number,
# steps; seconds of the formed matrix, and of Lanczos.
MEASURED = [
    (100_000, 1000, 20, 602_034, 5_656_460, True, 4, 29, 10.3, 5.7),
    (19_717, 500, 8, 88_648, 988_031, True, 4, 29, 0.73, 0.35),
    (19_717, 500, 60, 88_648, 988_031, True, 4, 29, 0.77, 0.97),
    (2_708, 1433, 128, 10_556, 49_216, False, 4, None, 0.40, 0.20),
    (5_000, 500, 50, 35_358, 74_615, False, 4, None, 0.21, 0.14),
    (5_000, 200, 50, 69_914, 29_920, False, 4, 29, 0.10, 0.25),
    (5_000, 900, 5, 69_914, 134_740, False, 4, 29, 0.29, 0.12),
    (5_000, 900, 50, 69_914, 134_740, False, 4, 29, 0.32, 0.45),
    (30_000, 250, 50, 419_868, None, False, 4, 29, 0.97, 4.66),
    (30_000, 1000, 10, 419_868, None, False, 4, 29, 8.83, 5.27),
    (30_000, 1000, 50, 419_868, None, False, 4, 29, 3.52, 10.5),
    (30_000, 2000, 50, 419_868, 1_198_920, False, 4, 29, 8.87, 5.87),
    (30_000, 500, 20, 419_868, 300_138, False, 4, 68, 4.38, 6.87),
    (3_000, 300, 5, 41_898, None, False, 8, 33, 0.53, 0.11),
]


@pytest.mark.parametrize(("size", "formed", "lanczos"), [(r[:8], *r[8:]) for r in MEASURED])
def test_the_way_that_was_measured_as_faster_has_less_work(size, formed, lanczos):
    work = WorkSize(*size)
    assert (formed_work(work) < lanczos_work(work)) == (formed < lanczos)


def test_work_grows_with_every_size():
    base = WorkSize(10_000, 400, 10, 100_000, 200_000, False, 4, 29)
    for change, work in product(
        (
            {"n_nodes": 20_000},
            {"n_features": 800},
            {"n_components": 20},
            {"n_entries": 200_000},
            {"sparse_entries": 400_000},
            {"steps": 60},
        ),
        (formed_work, lanczos_work),
    ):
        assert work(base._replace(**change)) > work(base)
    assert formed_work(base._replace(item=8)) > formed_work(base)


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
