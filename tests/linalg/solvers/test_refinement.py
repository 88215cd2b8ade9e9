"""Iterative refinement in mixed precision: as accurate as float32, and used only where it pays."""

import math

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from truth import (
    KINDS,
    column_norms,
    dense_P,
    dense_solve,
    dense_system,
    propagation,
    random_features,
    random_graph,
    random_labels,
)

from gpcanet import GPCA, Graph
from gpcanet.datasets import block_model
from gpcanet.linalg import HalfPropagation, Propagation, Solver
from gpcanet.linalg.solvers import refinement
from gpcanet.utils.progress import progress_to


@pytest.fixture
def steps(monkeypatch):
    """List of the precision of every step, "half" or "full"."""
    taken = []
    for operator, name in ((Propagation, "full"), (HalfPropagation, "half")):

        def counted(self, *args, _step=operator.step, _name=name, **options):
            taken.append(_name)
            return _step(self, *args, **options)

        monkeypatch.setattr(operator, "step", counted)
    return taken


@pytest.fixture
def mixed(monkeypatch, compiled, steps):
    """Use mixed precision for blocks of any size and any number of steps; returns ``steps``."""
    monkeypatch.setattr(refinement, "MIXED_BYTES", 0)
    monkeypatch.setattr(refinement, "MIXED_STEPS", 0)
    return steps


def smooth_and_rough_columns(graph) -> np.ndarray:
    """Columns of both kinds over twelve orders of magnitude, and two of zeros."""
    X = random_features(d=8)
    X[:, ::2] = dense_solve(dense_P(graph), 1000.0, X[:, ::2])
    X *= np.geomspace(1e-6, 1e6, 8)
    X[:, [2, 5]] = 0
    return X.astype(np.float32)


@pytest.mark.parametrize("tol", [1e-4, 1e-5])
@pytest.mark.parametrize("beta", [0.0, 0.3])
@pytest.mark.parametrize("normalization", ["sym", "rw"])
@pytest.mark.parametrize(("kind", "reorder"), [("plain", False), ("isolated", True)])
def test_residual_and_error_of_every_column_are_within_tol(
    mixed, kind, reorder, normalization, beta, tol
):
    graph = random_graph(**KINDS[kind])
    X = smooth_and_rough_columns(graph)
    options = {"normalization": normalization, "labels": random_labels(), "beta": beta}
    P, dense = (
        propagation(graph, **options, dtype=np.float32, reorder=reorder),
        dense_P(graph, **options),
    )
    for alpha in (1.0, 10.0, 50.0):
        mixed.clear()
        solution = Solver(P, alpha, method="chebyshev", tol=tol).solve(X)
        assert "half" in mixed
        assert solution.residual <= tol
        F = solution.F
        assert F.dtype == np.float32
        residual = X - dense_system(dense, alpha) @ F.astype(np.float64)
        # In float64 it differs by the rounding error of one float32 step.
        allowed = (tol + 2 * 6e-8 * (1 + 2 * alpha)) * column_norms(X, normalization)
        assert np.all(column_norms(residual, normalization) <= allowed)
        # The norm of (I + alpha L)^-1 is at most 1, so errors have the same bound.
        error = F - dense_solve(dense, alpha, X)
        assert np.all(column_norms(error, normalization) <= allowed)
        np.testing.assert_array_equal(F[:, [2, 5]], 0)


def test_solution_with_ghost_edges_of_the_paper_equals_dense_inverse(mixed, graph, X, labels):
    options = {"labels": labels, "beta": 0.3, "ghost": "paper"}
    P = propagation(graph, **options, dtype=np.float32)
    solution = Solver(P, 10.0, method="chebyshev", tol=1e-5).solve(X.astype(np.float32))
    assert "half" in mixed
    expected = dense_solve(dense_P(graph, **options), 10.0, X)
    np.testing.assert_allclose(solution.F, expected, atol=2e-5 * np.abs(X).max() * len(X) ** 0.5)


@pytest.mark.parametrize("tol", [1e-2, 1e-4, 1e-5])
@pytest.mark.parametrize("alpha", [10.0, 50.0])
def test_every_stage_takes_one_step_in_full_precision(mixed, alpha, tol):
    """It computes the residual; that of the last stage is the reported one."""
    data = block_model(2000, 20_000, n_features=8)
    P = propagation(data.graph, dtype=np.float32)
    solution = Solver(P, alpha, method="chebyshev", tol=tol).solve(data.X)
    n_stages = mixed.count("full")
    assert n_stages <= 3
    n_steps = math.ceil(math.acosh(1 / tol) / math.acosh((1 + alpha) / alpha))
    assert n_steps <= solution.n_iter <= 1.4 * n_steps
    assert mixed.count("half") == solution.n_iter - n_stages  # the first of each is no product


def test_rows_and_residual_rows_equal_dense_formula(mixed, graph, X):
    P = propagation(graph, dtype=np.float32, reorder=True)
    solver = Solver(P, 10.0, method="chebyshev", tol=1e-5)
    X = X.astype(np.float32)
    shift = X.mean(axis=0)
    solution = solver.solve(X, shift)
    assert "half" in mixed
    rows = slice(3, 17)
    F_rows, residual_rows = solution.rows(rows), solution.residual_rows(rows)
    F = solution.F
    np.testing.assert_array_equal(F[rows], F_rows)
    expected = (X - shift - dense_system(dense_P(graph), 10.0) @ F.astype(np.float64)) / 11
    np.testing.assert_allclose(residual_rows, expected[rows], atol=1e-6 * np.abs(F).max())


@pytest.mark.usefixtures("mixed")
def test_two_solves_give_identical_bytes_and_do_not_modify_x(graph, X, labels):
    X = X.astype(np.float32)
    original = X.copy()
    for beta in (0.0, 0.3):
        P = propagation(graph, labels=labels, beta=beta, dtype=np.float32)
        solver = Solver(P, 10.0, method="chebyshev", tol=1e-5)
        first = solver.solve(X).F
        np.testing.assert_array_equal(solver.solve(X).F, first)
        np.testing.assert_array_equal(solver.apply(X), first)
        np.testing.assert_array_equal(X, original)


def test_large_and_small_numbers_neither_overflow_nor_underflow(mixed, any_graph):
    X = (random_features(d=2) * np.array([1e33, 1e-30])).astype(np.float32)
    P = propagation(any_graph, dtype=np.float32)
    solution = Solver(P, 10.0, method="chebyshev", tol=1e-5).solve(X)
    assert "half" in mixed
    assert solution.residual <= 1e-5
    error = (solution.F - dense_solve(dense_P(any_graph), 10.0, X)).astype(np.float64)
    assert np.all(column_norms(error, "sym") < 2e-5 * column_norms(X.astype(np.float64), "sym"))


@pytest.mark.usefixtures("mixed")
def test_progress_increases_to_the_number_of_steps(graph, X):
    reports = []
    solver = Solver(propagation(graph, dtype=np.float32), 10.0, method="chebyshev", tol=1e-5)
    with progress_to(lambda what, done, total: reports.append((done, total))):
        solution = solver.solve(X.astype(np.float32))
    done, totals = zip(*reports, strict=True)
    assert list(done) == sorted(done)
    assert done[-1] == totals[-1] == solution.n_iter
    assert max(done[:-1]) < max(totals)


# -- where mixed precision is used -----------------------------------------------------------


def test_only_large_blocks_and_long_solves_use_mixed_precision(steps):
    """Blocks of 64 MiB, and 12 or more Chebyshev steps."""
    n, d = 2**16, 256
    ring = np.stack([np.arange(n), np.roll(np.arange(n), 1)])
    P = propagation(Graph.from_edge_index(ring, each_once=True), dtype=np.float32)
    solver = Solver(P, 2.0, method="chebyshev", tol=1e-5)
    # All columns are eigenvectors with the same eigenvalue, so the solution is known.
    angles = 2 * np.pi * 1000 * np.arange(n) / n
    X = np.tile(np.stack([np.cos(angles), np.sin(angles)], axis=1), d // 2).astype(np.float32)
    eigenvalue = 1 - (1 + 2 * np.cos(2 * np.pi * 1000 / n)) / 3
    solution = solver.solve(X)
    assert "half" in steps
    assert solution.residual <= 1e-5
    # 1e-5 of the norm of a column, sqrt(n / 2), could be concentrated in one entry.
    np.testing.assert_allclose(solution.F, X / (1 + 2 * eigenvalue), atol=2e-3)
    short = Solver(P, 2.0, method="chebyshev", tol=1e-4)
    for other, block in ((solver, X[:, : d - 1]), (short, X)):
        steps.clear()
        assert other.solve(block).n_iter == len(steps) == (13 if other is solver else 11)
        assert "half" not in steps


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
def test_unsuitable_solves_take_no_step_in_half_precision(
    mixed, graph, X, labels, solver, operator
):
    P = propagation(graph, labels=labels, **({"dtype": np.float32} | operator))
    options = {"alpha": 10.0, "method": "chebyshev", "tol": 1e-5} | solver
    Solver(P, **options).solve(X.astype(P.dtype))
    assert mixed or "alpha" in solver or solver.get("method") == "direct"
    assert "half" not in mixed


def test_mixed_precision_requires_compiled_kernels(mixed, graph, X, monkeypatch):
    monkeypatch.setattr("gpcanet.linalg.operators.propagation.FUSED_WORK", math.inf)
    P = propagation(graph, dtype=np.float32)
    Solver(P, 10.0, method="chebyshev", tol=1e-5).solve(X.astype(np.float32))
    assert "half" not in mixed


def test_if_half_precision_does_not_converge_full_precision_does(mixed, graph, X, monkeypatch):
    def add_wrong_correction(self, F, block, scale):
        self.combine_(F, 1.0, np.ones(F.shape, np.float32), 1e-3 * np.ones(F.shape[1]))

    monkeypatch.setattr(HalfPropagation, "add_to_", add_wrong_correction)
    X = X.astype(np.float32)
    P = propagation(graph, dtype=np.float32)
    solution = Solver(P, 10.0, method="chebyshev", tol=1e-5).solve(X)
    assert solution.residual <= 1e-5
    assert mixed.count("full") > 20
    expected = dense_solve(dense_P(graph), 10.0, X)
    np.testing.assert_allclose(solution.F, expected, atol=1e-4)


@pytest.mark.usefixtures("mixed")
def test_nan_issues_a_warning_as_in_full_precision(graph, X):
    X = X.astype(np.float32)
    X[3, 2] = np.nan
    P = propagation(graph, dtype=np.float32)
    with pytest.warns(ConvergenceWarning, match="relative residual nan"):
        solution = Solver(P, 10.0, method="chebyshev", tol=1e-5).solve(X)
    assert np.isfinite(solution.F[:, :2]).all()


@pytest.mark.parametrize("memory_limit", [None, "41MiB"])
def test_fit_in_mixed_precision_equals_fit_in_full_precision(mixed, monkeypatch, memory_limit):
    data = block_model(3000, 12_000, n_features=40, n_classes=5)
    options = {"alpha": 10.0, "solver": "chebyshev", "memory_limit": memory_limit}
    in_mixed, in_full = (GPCA(8, **options) for _ in range(2))
    Z = in_mixed.fit_transform(data.X, graph=data.graph)
    assert "half" in mixed
    assert isinstance(Z, np.memmap) == (memory_limit is not None)
    monkeypatch.setattr(refinement, "MIXED_BYTES", math.inf)
    expected = in_full.fit_transform(data.X, graph=data.graph)
    assert in_mixed.residual_ <= 1e-5
    np.testing.assert_allclose(Z, expected, atol=2e-4 * np.abs(expected).max())
    assert in_mixed.objective_ == pytest.approx(in_full.objective_, rel=1e-5)
