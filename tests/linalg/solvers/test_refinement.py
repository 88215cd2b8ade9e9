"""Full precision made of half: as accurate as without, and only where that is known to hold."""

import math

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from truth import (
    KINDS,
    dense_P,
    dense_solve,
    dense_system,
    propagation,
    random_features,
    random_graph,
    random_labels,
)

from gpcanet import GPCA
from gpcanet.datasets import block_model
from gpcanet.linalg import HalfPropagation, Propagation, Solver
from gpcanet.linalg.solvers import base as solve_module
from gpcanet.utils.progress import progress_to


@pytest.fixture
def refined(monkeypatch, compiled):
    """Refine the smallest block; the list has the precision of every step taken."""
    monkeypatch.setattr(solve_module, "REFINED_BYTES", 0)
    monkeypatch.setattr(solve_module, "REFINED_STEPS", 0)
    steps = []
    for operator, name in ((Propagation, "full"), (HalfPropagation, "half")):

        def counted(self, *args, _step=operator.step, _name=name, **options):
            steps.append(_name)
            return _step(self, *args, **options)

        monkeypatch.setattr(operator, "step", counted)
    return steps


def smooth_and_rough(graph) -> np.ndarray:
    """Columns of either kind over twelve orders of magnitude, and two of zeros."""
    X = random_features(d=8)
    X[:, ::2] = dense_solve(dense_P(graph), 1000.0, X[:, ::2])
    X *= np.geomspace(1e-6, 1e6, 8)
    X[:, [2, 5]] = 0
    return X.astype(np.float32)


def column_norms(block, weights) -> np.ndarray:
    return np.sqrt(weights @ block.astype(np.float64) ** 2)


def sizes(block, normalization) -> np.ndarray:
    """The norm of each column in which errors are promised to be small."""
    return np.linalg.norm(block, axis=0, ord=2 if normalization == "sym" else np.inf)


@pytest.mark.parametrize("alpha", [1.0, 10.0, 50.0])
@pytest.mark.parametrize("tol", [1e-4, 1e-5])
@pytest.mark.parametrize("beta", [0.0, 0.3])
@pytest.mark.parametrize("normalization", ["sym", "rw"])
@pytest.mark.parametrize("reorder", [False, True])
@pytest.mark.parametrize("kind", ["plain", "isolated"])
def test_every_column_is_as_accurate_as_was_asked_for(
    refined, kind, reorder, normalization, beta, tol, alpha
):
    graph = random_graph(**KINDS[kind])
    X = smooth_and_rough(graph)
    options = {"normalization": normalization, "labels": random_labels(), "beta": beta}
    P = propagation(graph, **options, dtype=np.float32, reorder=reorder)
    solution = Solver(P, alpha, method="chebyshev", tol=tol).solve(X)
    assert "half" in refined
    assert solution.residual <= tol
    F = solution.F
    assert F.dtype == np.float32
    dense = dense_P(graph, **options)
    residual = X - dense_system(dense, alpha) @ F.astype(np.float64)
    # Measured in float64 it differs by the rounding of one float32 step.
    allowed = (tol + 2 * 6e-8 * (1 + 2 * alpha)) * sizes(X, normalization)
    assert np.all(sizes(residual, normalization) <= allowed)
    # (I + alpha L)^-1 makes nothing larger, so that errors are at most as large.
    error = F - dense_solve(dense, alpha, X)
    assert np.all(sizes(error, normalization) <= allowed)
    np.testing.assert_array_equal(F[:, [2, 5]], 0)


def test_the_papers_ghost_edges_too(refined, graph, X, labels):
    options = {"labels": labels, "beta": 0.3, "ghost": "paper"}
    P = propagation(graph, **options, dtype=np.float32)
    solution = Solver(P, 10.0, method="chebyshev", tol=1e-5).solve(X.astype(np.float32))
    assert "half" in refined
    expected = dense_solve(dense_P(graph, **options), 10.0, X)
    np.testing.assert_allclose(solution.F, expected, atol=2e-5 * np.abs(X).max() * len(X) ** 0.5)


@pytest.mark.parametrize("tol", [1e-2, 1e-4, 1e-5])
@pytest.mark.parametrize("alpha", [10.0, 50.0])
def test_few_steps_are_taken_in_full(refined, alpha, tol):
    """One for the residual of each stage, the last of which is the measured one."""
    data = block_model(2000, 20_000, n_features=8)
    P = propagation(data.graph, dtype=np.float32)
    solution = Solver(P, alpha, method="chebyshev", tol=tol).solve(data.X)
    assert refined.count("full") <= 3
    once = math.ceil(math.acosh(1 / tol) / math.acosh((1 + alpha) / alpha))
    assert once <= solution.n_iter <= 1.4 * once
    stages = refined.count("full")
    assert refined.count("half") == solution.n_iter - stages  # the first of each is no product


def test_rows_and_rest_are_those_of_full_precision(refined, graph, X):
    P = propagation(graph, dtype=np.float32, reorder=True)
    solver = Solver(P, 10.0, method="chebyshev", tol=1e-5)
    X = X.astype(np.float32)
    shift = X.mean(axis=0)
    solution = solver.solve(X, shift)
    rows = slice(3, 17)
    here, rest = solution.rows(rows), solution.rest_rows(rows)
    F = solution.F
    np.testing.assert_array_equal(F[rows], here)
    expected = (X - shift - dense_system(dense_P(graph), 10.0) @ F.astype(np.float64)) / 11
    np.testing.assert_allclose(rest, expected[rows], atol=1e-6 * np.abs(F).max())


def test_two_solves_give_the_same_bytes(refined, graph, X, labels):
    X = X.astype(np.float32)
    kept = X.copy()
    for beta in (0.0, 0.3):
        P = propagation(graph, labels=labels, beta=beta, dtype=np.float32)
        solver = Solver(P, 10.0, method="chebyshev", tol=1e-5)
        first = solver.solve(X).F
        np.testing.assert_array_equal(solver.solve(X).F, first)
        np.testing.assert_array_equal(solver.apply(X), first)
        np.testing.assert_array_equal(X, kept)


def test_huge_and_tiny_numbers_neither_overflow_nor_vanish(refined, any_graph):
    X = (random_features(d=2) * np.array([1e33, 1e-30])).astype(np.float32)
    P = propagation(any_graph, dtype=np.float32)
    solution = Solver(P, 10.0, method="chebyshev", tol=1e-5).solve(X)
    assert "half" in refined
    assert solution.residual <= 1e-5
    error = solution.F - dense_solve(dense_P(any_graph), 10.0, X)
    ones = np.ones(len(X))
    assert np.all(column_norms(error, ones) < 2e-5 * column_norms(X, ones))


def test_progress_never_goes_back(refined, graph, X):
    told = []
    solver = Solver(propagation(graph, dtype=np.float32), 10.0, method="chebyshev", tol=1e-5)
    with progress_to(lambda what, done, total: told.append((done, total))):
        solution = solver.solve(X.astype(np.float32))
    done, totals = zip(*told, strict=True)
    assert list(done) == sorted(done)
    assert done[-1] == totals[-1] == solution.n_iter
    assert max(done[:-1]) < max(totals)


# -- where it is not used ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("solver", "operator"),
    [
        ({"method": "cg"}, {}),
        ({"method": "fixed-point"}, {}),
        ({"method": "direct"}, {}),
        ({"tol": 1e-6}, {}),
        ({"alpha": 1000.0}, {}),
        ({"alpha": 0.0}, {}),
        ({"max_iter": 50}, {}),
        ({}, {"dtype": np.float64}),
        ({}, {"normalization": "rw", "beta": 0.3, "ghost": "paper"}),
    ],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_elsewhere_no_step_is_in_half(refined, graph, X, labels, solver, operator):
    P = propagation(graph, labels=labels, **({"dtype": np.float32} | operator))
    settings = {"alpha": 10.0, "method": "chebyshev", "tol": 1e-5} | solver
    Solver(P, **settings).solve(X.astype(P.dtype))
    assert "half" not in refined


@pytest.mark.parametrize("name", ["REFINED_BYTES", "REFINED_STEPS"])
def test_nor_for_small_blocks_and_short_solves(refined, graph, X, monkeypatch, name):
    monkeypatch.setattr(solve_module, name, 10**6)
    P = propagation(graph, dtype=np.float32)
    Solver(P, 10.0, method="chebyshev", tol=1e-5).solve(X.astype(np.float32))
    assert "half" not in refined


def test_nor_without_compiled_steps(refined, graph, X, monkeypatch):
    monkeypatch.setattr("gpcanet.linalg.operators.propagation.FUSED_WORK", math.inf)
    P = propagation(graph, dtype=np.float32)
    Solver(P, 10.0, method="chebyshev", tol=1e-5).solve(X.astype(np.float32))
    assert "half" not in refined


def test_where_16_bits_do_not_get_there_32_do(refined, graph, X, monkeypatch):
    def spoilt(self, F, block, scale):
        self.P.combine_(F, 1.0, np.ones(F.shape, np.float32), 1e-3 * np.ones(F.shape[1]))

    monkeypatch.setattr(HalfPropagation, "add_to_", spoilt)
    X = X.astype(np.float32)
    P = propagation(graph, dtype=np.float32)
    solution = Solver(P, 10.0, method="chebyshev", tol=1e-5).solve(X)
    assert solution.residual <= 1e-5
    assert refined.count("full") > 20
    expected = dense_solve(dense_P(graph), 10.0, X)
    np.testing.assert_allclose(solution.F, expected, atol=1e-4)


def test_what_is_no_number_warns_as_in_full_precision(refined, graph, X):
    X = X.astype(np.float32)
    X[3, 2] = np.nan
    P = propagation(graph, dtype=np.float32)
    with pytest.warns(ConvergenceWarning, match="relative residual nan"):
        solution = Solver(P, 10.0, method="chebyshev", tol=1e-5).solve(X)
    assert np.isfinite(solution.F[:, :2]).all()


@pytest.mark.parametrize("memory_limit", [None, "41MiB"])
def test_a_fit_is_that_of_full_precision(refined, monkeypatch, memory_limit):
    data = block_model(3000, 12_000, n_features=40, n_classes=5)
    settings = {"alpha": 10.0, "solver": "chebyshev", "memory_limit": memory_limit}
    refining, plain = (GPCA(8, **settings) for _ in range(2))
    found = refining.fit_transform(data.X, graph=data.graph)
    assert "half" in refined
    assert isinstance(found, np.memmap) == (memory_limit is not None)
    monkeypatch.setattr(solve_module, "REFINED_BYTES", math.inf)
    expected = plain.fit_transform(data.X, graph=data.graph)
    assert refining.residual_ <= 1e-5
    np.testing.assert_allclose(found, expected, atol=2e-4 * np.abs(expected).max())
    assert refining.objective_ == pytest.approx(plain.objective_, rel=1e-5)
