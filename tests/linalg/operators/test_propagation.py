"""The operator P against the dense matrix, with both implementations of the step."""

import os
import subprocess
import sys

import numpy as np
import pytest
from truth import GHOSTS, degrees, dense_ghost, dense_P, propagation, random_graph

from gpcanet import Graph
from gpcanet.linalg import Propagation, parallel
from gpcanet.linalg.operators.blocks import CACHE_LINE_BYTES, zero_block
from gpcanet.linalg.operators.propagation import column_dots, column_max_abs

#: Sums of ten float32 products have an error of about ten times the epsilon of 1.2e-7.
TOLERANCE = {np.float64: 1e-12, np.float32: 2e-6}

COMBINATIONS = [(n, b, g) for n in ("sym", "rw") for b, g in [*GHOSTS, (1.0, "balanced")]]


@pytest.mark.usefixtures("either_path")
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_product_equals_dense_product(any_graph, X, labels, dtype):
    for normalization, beta, ghost in COMBINATIONS:
        options = {"normalization": normalization, "labels": labels, "beta": beta, "ghost": ghost}
        product = propagation(any_graph, **options, dtype=dtype) @ X.astype(dtype)
        assert product.dtype == dtype
        expected = dense_P(any_graph, **options) @ X
        np.testing.assert_allclose(product, expected, rtol=0, atol=10 * TOLERANCE[dtype])


@pytest.mark.usefixtures("either_path")
@pytest.mark.parametrize("normalization", ["sym", "rw"])
def test_product_with_a_vector_is_a_vector(graph, X, labels, normalization):
    options = {"normalization": normalization, "labels": labels, "beta": 0.3}
    product = propagation(graph, **options) @ X[:, 0]
    assert product.shape == (graph.n_nodes,)
    np.testing.assert_allclose(product, dense_P(graph, **options) @ X[:, 0], atol=1e-12)


@pytest.mark.usefixtures("either_path")
def test_product_does_not_modify_its_argument_and_accepts_any_layout(graph, X):
    P = propagation(graph)
    F = np.asfortranarray(X)
    original = F.copy()
    product = P @ F
    np.testing.assert_array_equal(F, original)
    np.testing.assert_array_equal(product, P @ X)


@pytest.mark.usefixtures("either_path")
def test_p_of_a_graph_without_edges_is_the_identity(X):
    P = propagation(Graph.without_edges(len(X)))
    np.testing.assert_allclose(P @ X, X, rtol=1e-15)


def test_ghost_edges_equal_the_formula_of_the_paper(graph, labels):
    """At beta=1, P is D_y^-1/2 Y Y^T D_y^-1/2: 1 / class size for nodes of the same class."""
    P = propagation(graph, labels=labels, beta=1.0, ghost="paper") @ np.eye(graph.n_nodes)
    for i, row in enumerate(P):
        same_class = (labels == labels[i]) & (labels[i] >= 0)
        expected = same_class / max(1, same_class.sum())
        np.testing.assert_allclose(row, expected, atol=1e-14)


def test_operator_is_the_sum_of_sparse_part_and_ghost_factors(graph, labels):
    for normalization in ("sym", "rw"):
        P = propagation(graph, normalization=normalization, labels=labels, beta=0.4, ghost="paper")
        U, V = P.dense_ghost_factors
        whole = P.sparse_part.toarray() + U @ V.T
        np.testing.assert_allclose(P.matmul(np.eye(graph.n_nodes)), whole, atol=1e-14)
        without = P.without_ghost_factor()
        assert without.dense_ghost_factors is None
        np.testing.assert_allclose(
            without.matmul(np.eye(graph.n_nodes)), P.sparse_part.toarray(), atol=1e-14
        )


def test_rows_of_balanced_ghost_edges_sum_to_one_for_rw(graph, labels):
    ones = np.ones(graph.n_nodes)
    balanced = propagation(graph, normalization="rw", labels=labels, beta=0.4, ghost="balanced")
    np.testing.assert_allclose(balanced @ ones, ones, atol=1e-14)
    paper = propagation(graph, normalization="rw", labels=labels, beta=0.4, ghost="paper")
    np.testing.assert_allclose(paper @ ones, np.where(labels < 0, 0.6, 1.0), atol=1e-14)


def test_without_labels_only_balanced_ghost_edges_have_a_diagonal(graph, X):
    for ghost, diagonal in (("balanced", 0.3), ("paper", 0.0)):
        P = propagation(graph, beta=0.3, ghost=ghost)
        np.testing.assert_allclose(P @ X, 0.7 * dense_P(graph) @ X + diagonal * X, atol=1e-13)


# -- the inner product ---------------------------------------------------------------------


@pytest.mark.usefixtures("either_path")
@pytest.mark.parametrize(("normalization", "beta", "ghost"), COMBINATIONS)
def test_self_adjoint_flag_is_correct(graph, X, labels, normalization, beta, ghost):
    P = propagation(graph, normalization=normalization, labels=labels, beta=beta, ghost=ghost)
    U, V = (P.scaled(P.to_internal(block), 1.0) for block in (X, X[:, ::-1]))
    left, right = P.dots(P.matmul(U), V), P.dots(U, P.matmul(V))
    assert P.self_adjoint == np.allclose(left, right, rtol=1e-12)
    assert P.self_adjoint == (not (normalization == "rw" and ghost == "paper" and beta > 0))


def test_rw_with_ghost_edges_of_the_paper_is_self_adjoint_if_degrees_are_equal(X, labels):
    n = len(X)
    ring = Graph.from_edge_index(
        np.hstack([(np.arange(n), np.roll(np.arange(n), s)) for s in (1, -1)])
    )
    P = propagation(ring, normalization="rw", labels=labels, beta=0.5, ghost="paper")
    assert P.self_adjoint
    V = X[:, ::-1].copy()
    np.testing.assert_allclose(P.dots(X, P.matmul(V)), P.dots(P.matmul(X), V), rtol=1e-12)


def test_internal_inner_product_is_that_of_the_objective(graph, X):
    """Unweighted for sym, weighted by degree for rw."""
    sym, rw = (propagation(graph, normalization=n) for n in ("sym", "rw"))
    B = sym.to_internal(X)
    np.testing.assert_allclose(sym.dots(B, B), (X**2).sum(axis=0), rtol=1e-13)
    np.testing.assert_allclose(rw.dots(X, X), degrees(graph) @ X**2, rtol=1e-13)
    assert sym.row_weights is None
    np.testing.assert_allclose(rw.row_weights, degrees(graph), rtol=1e-15)
    np.testing.assert_allclose(sym.rows(B, B, 2, 5), X[2:5], rtol=1e-14)
    np.testing.assert_allclose(sym.from_internal(B, B), X, rtol=1e-14)


def test_spectrum_is_between_minus_one_and_one(any_graph, labels):
    for beta, ghost in GHOSTS:
        P = propagation(any_graph, labels=labels, beta=beta, ghost=ghost)
        values = np.linalg.eigvalsh(P @ np.eye(any_graph.n_nodes))
        assert values.min() > -1 - 1e-12
        assert values.max() < 1 + 1e-12


# -- the step ------------------------------------------------------------------------------


@pytest.mark.usefixtures("either_path")
@pytest.mark.parametrize(
    ("a", "b", "c", "own"),
    [(0.9, 0.1, 0.0, 0.0), (1.7, 0.2, -0.8, 0.0), (-2.0, 3.0, 1.0, 0.5), (0.9, 0.1, 0.0, -1.0)],
)
@pytest.mark.parametrize("normalization", ["sym", "rw"])
@pytest.mark.parametrize("reorder", [False, True])
def test_step_equals_the_dense_formula(graph, X, labels, normalization, reorder, a, b, c, own):
    options = {"normalization": normalization, "labels": labels, "beta": 0.3}
    P = propagation(graph, **options, reorder=reorder)
    F, before, shift = X[:, ::-1].copy(), X**2, X[0]
    expected = a * dense_P(graph, **options) @ F + b * (X - shift) + c * before + own * F
    internal = P.to_internal(X, shift)
    F, before = (P.scaled(P.to_internal(block), 1.0) for block in (F, before))
    out = P.step(F, internal, before, a, b, c, own)  # may overwrite before
    np.testing.assert_allclose(P.rows(out, internal, 3, 7), expected[3:7], atol=1e-12)
    np.testing.assert_allclose(P.from_internal(out, internal), expected, atol=1e-12)


@pytest.mark.usefixtures("either_path")
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_step_does_not_read_out_if_c_is_zero(graph, X, dtype):
    P = propagation(graph, normalization="rw", dtype=dtype)
    F = X.astype(dtype)
    out = P.step(F, F, np.full_like(F, np.nan), 0.5, 0.5, 0.0)
    expected = (dense_P(graph, "rw") @ X + X) / 2
    np.testing.assert_allclose(out, expected, atol=10 * TOLERANCE[dtype])


# -- the kernels ---------------------------------------------------------------------------


@pytest.fixture
def wide():
    """P with enough rows for several chunks, including a hub, and a block."""
    n = 1500
    rng = np.random.default_rng(3)
    rows, columns = rng.integers(0, n, (2, 6 * n))
    rows[: n // 2] = 7
    both = np.unique(np.hstack([[rows, columns], [columns, rows]]), axis=1)
    return propagation(Graph.from_edge_index(both, n_nodes=n)), rng.standard_normal((n, 5))


@pytest.mark.usefixtures("compiled")
def test_kernels_give_identical_bytes_for_any_number_of_threads(wide, monkeypatch):
    P, F = wide
    results = set()
    for n_threads in (1, 2, 5):
        monkeypatch.setattr(parallel, "usable_cores", lambda n_threads=n_threads: n_threads)
        stepped = P.step(F, F, F.copy(), 0.7, 0.2, 0.1)
        combined = P.combine_(F.copy(), np.arange(5.0), stepped, 0.3)
        parts = stepped, P.dots(F, stepped), P.max_abs(stepped), combined
        results.add(b"".join(part.tobytes() for part in parts))
    assert len(results) == 1


@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_an_unweighted_graph_equals_weights_of_one_exactly(wide, dtype):
    P, F = wide
    ones = np.ones(len(P.indices))
    ones.flags.writeable = False
    unweighted = Propagation(P.indptr, P.indices, dtype=dtype) @ F.astype(dtype)
    weighted = Propagation(P.indptr, P.indices, ones, dtype=dtype) @ F.astype(dtype)
    assert unweighted.tobytes() == weighted.tobytes()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_dots_kernel_equals_numpy(wide, dtype):
    P, F = wide
    U, V, mass = F.astype(dtype), (F[:, ::-1] ** 2).astype(dtype), P.mass.astype(dtype)
    result = column_dots(U, V, mass)
    assert result.dtype == np.float64
    # Products of float32 numbers are rounded to float32 before they are summed in float64.
    size = np.einsum("i,ij,ij->j", mass, np.abs(U), V, dtype="f8")
    expected = np.einsum("i,ij,ij->j", mass, U, V, dtype="f8")
    assert np.all(np.abs(result - expected) <= TOLERANCE[dtype] * size)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_max_abs_kernel_equals_numpy(wide, dtype):
    F = wide[1].astype(dtype)
    np.testing.assert_array_equal(column_max_abs(F), np.abs(F).max(axis=0))


@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_combine_kernel_equals_numpy(wide, dtype):
    P, F = wide
    P = propagation(Graph.from_csr(P.indptr, P.indices), dtype=dtype)
    Y, Z = F.astype(dtype), (F**2).astype(dtype)
    expected = np.arange(5) * F - np.linspace(0, 1, 5) * F**2
    assert P.combine_(Y, np.arange(5.0), Z, np.linspace(0, -1, 5)) is Y
    np.testing.assert_allclose(Y, expected, atol=20 * TOLERANCE[dtype])


@pytest.mark.usefixtures("either_path")
def test_dots_and_combine_of_the_operator_equal_numpy(X):
    P = propagation(random_graph(weighted=True), normalization="rw")
    Z = X**2
    np.testing.assert_allclose(P.dots(X, Z), P.mass @ (X * Z), rtol=1e-12)
    scale = np.arange(6.0)
    np.testing.assert_allclose(P.combine_(X.copy(), scale, Z, 0.5), scale * X + Z / 2, atol=1e-12)


def test_dense_ghost_edges_of_the_reference_are_a_projection(labels):
    """A check of the reference implementation: class means are projections."""
    D = np.linspace(1, 5, len(labels))
    for normalization in ("sym", "rw"):
        for ghost in ("paper", "balanced"):
            G = dense_ghost(labels, D, normalization, ghost)
            np.testing.assert_allclose(G @ G, G, atol=1e-14)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_zero_blocks_are_aligned_to_cache_lines(dtype):
    for shape in [(1000, 64), (7, 3)]:
        block = zero_block(shape, dtype)
        assert block.shape == shape
        assert block.dtype == dtype
        assert block.ctypes.data % CACHE_LINE_BYTES == 0
        assert block.flags.c_contiguous
        assert not block.any()
    assert zero_block((0, 5), dtype).shape == (0, 5)


# -- forked processes ----------------------------------------------------------------------

FORK = """
import multiprocessing
import numpy as np
import gpcanet.linalg.operators.propagation
gpcanet.linalg.operators.propagation.FUSED_WORK = 0
from gpcanet import GPCA
from gpcanet.datasets import block_model

data = block_model(500, 2000, n_features=8)

def fit(_):
    return GPCA(3, solver="chebyshev").fit_transform(data.X, graph=data.graph)

expected = fit(0)
with multiprocessing.get_context("fork").Pool(2) as pool:
    for Z in pool.map(fit, range(4)):
        np.testing.assert_array_equal(Z, expected)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork")
def test_compiled_kernels_run_in_a_forked_process():
    """The first fit starts threads, which a child process does not inherit."""
    ended = subprocess.run(
        [sys.executable, "-c", FORK], capture_output=True, text=True, timeout=120, check=False
    )
    assert ended.returncode == 0, ended.stderr
