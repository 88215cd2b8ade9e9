"""P as an operator against P as a dense matrix, on both implementations of the step."""

import os
import subprocess
import sys

import numba
import numpy as np
import pytest
from truth import GHOSTS, degrees, dense_ghost, dense_P, propagation, random_graph

from gpcanet import Graph
from gpcanet.linalg import Propagation
from gpcanet.linalg.operators import kernels
from gpcanet.linalg.operators.propagation import CACHE_LINE_BYTES, zero_block

#: Sums of some ten float32 products are good to about ten times its epsilon, 1.2e-7.
TOLERANCE = {np.float64: 1e-12, np.float32: 2e-6}

COMBINATIONS = [(n, b, g) for n in ("sym", "rw") for b, g in [*GHOSTS, (1.0, "balanced")]]


@pytest.mark.usefixtures("either_path")
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("normalization", "beta", "ghost"), COMBINATIONS)
def test_product_equals_dense(any_graph, X, labels, normalization, beta, ghost, dtype):
    options = {"normalization": normalization, "labels": labels, "beta": beta, "ghost": ghost}
    P = propagation(any_graph, **options, dtype=dtype)
    product = P @ X.astype(dtype)
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
def test_product_leaves_its_argument_alone_and_takes_any_layout(graph, X):
    P = propagation(graph)
    F = np.asfortranarray(X)
    kept = F.copy()
    by_columns = P @ F
    np.testing.assert_array_equal(F, kept)
    np.testing.assert_array_equal(by_columns, P @ X)


@pytest.mark.usefixtures("either_path")
def test_graph_without_edges_propagates_nothing(X):
    P = propagation(Graph.without_edges(len(X)))
    np.testing.assert_allclose(P @ X, X, rtol=1e-15)


def test_ghost_edges_are_the_papers_formula(graph, labels):
    """At beta=1 the paper's P is D_y^-1/2 Y Y^T D_y^-1/2, entry by entry 1 / class size."""
    P = propagation(graph, labels=labels, beta=1.0, ghost="paper") @ np.eye(graph.n_nodes)
    for i, row in enumerate(P):
        alike = (labels == labels[i]) & (labels[i] >= 0)
        np.testing.assert_allclose(row, alike / max(1, alike.sum()), atol=1e-14)


def test_ghost_factors_and_sparse_part_make_up_the_operator(graph, labels):
    for normalization in ("sym", "rw"):
        P = propagation(graph, normalization=normalization, labels=labels, beta=0.4, ghost="paper")
        U, V = P.ghost_factors
        whole = P.sparse_part.toarray() + U @ V.T
        np.testing.assert_allclose(P.matmul(np.eye(graph.n_nodes)), whole, atol=1e-14)
        without = P.without_ghost_factor()
        assert without.ghost_factors is None
        np.testing.assert_allclose(
            without.matmul(np.eye(graph.n_nodes)), P.sparse_part.toarray(), atol=1e-14
        )


def test_balanced_ghost_rows_of_the_walk_sum_to_one(graph, labels):
    ones = np.ones(graph.n_nodes)
    balanced = propagation(graph, normalization="rw", labels=labels, beta=0.4, ghost="balanced")
    np.testing.assert_allclose(balanced @ ones, ones, atol=1e-14)
    paper = propagation(graph, normalization="rw", labels=labels, beta=0.4, ghost="paper")
    np.testing.assert_allclose(paper @ ones, np.where(labels < 0, 0.6, 1.0), atol=1e-14)


def test_no_labels_means_no_class_edges(graph, X):
    for ghost, stays in (("balanced", 0.3), ("paper", 0.0)):
        P = propagation(graph, beta=0.3, ghost=ghost)
        np.testing.assert_allclose(P @ X, 0.7 * dense_P(graph) @ X + stays * X, atol=1e-13)


# -- the inner product ---------------------------------------------------------------------


@pytest.mark.usefixtures("either_path")
@pytest.mark.parametrize(("normalization", "beta", "ghost"), COMBINATIONS)
def test_self_adjoint_flag_tells_the_truth(graph, X, labels, normalization, beta, ghost):
    P = propagation(graph, normalization=normalization, labels=labels, beta=beta, ghost=ghost)
    U, V = (P.scaled(P.enter(block), 1.0) for block in (X, X[:, ::-1]))
    one, other = P.dots(U, P.matmul(V)), P.dots(P.matmul(U), V)
    assert P.self_adjoint == np.allclose(one, other, rtol=1e-12)
    assert P.self_adjoint == (not (normalization == "rw" and ghost == "paper" and beta > 0))


def test_walk_with_paper_ghosts_is_self_adjoint_where_degrees_are_equal(X, labels):
    n = len(X)
    ring = Graph.from_edge_index(
        np.hstack([(np.arange(n), np.roll(np.arange(n), s)) for s in (1, -1)])
    )
    P = propagation(ring, normalization="rw", labels=labels, beta=0.5, ghost="paper")
    assert P.self_adjoint
    V = X[:, ::-1].copy()
    np.testing.assert_allclose(P.dots(X, P.matmul(V)), P.dots(P.matmul(X), V), rtol=1e-12)


def test_entering_keeps_the_inner_product_of_the_objective(graph, X):
    """Plain for sym, weighted by degree for rw."""
    sym, rw = (propagation(graph, normalization=n) for n in ("sym", "rw"))
    B = sym.enter(X)
    np.testing.assert_allclose(sym.dots(B, B), (X**2).sum(axis=0), rtol=1e-13)
    np.testing.assert_allclose(rw.dots(X, X), degrees(graph) @ X**2, rtol=1e-13)
    assert sym.row_weights is None
    np.testing.assert_allclose(rw.row_weights, degrees(graph), rtol=1e-15)
    np.testing.assert_allclose(sym.rows(B, B, 2, 5), X[2:5], rtol=1e-14)
    np.testing.assert_allclose(sym.leave(B, B), X, rtol=1e-14)


def test_spectrum_lies_between_minus_one_and_one(any_graph, labels):
    for beta, ghost in GHOSTS:
        P = propagation(any_graph, labels=labels, beta=beta, ghost=ghost)
        values = np.linalg.eigvalsh(P @ np.eye(any_graph.n_nodes))
        assert values.min() > -1 - 1e-12
        assert values.max() < 1 + 1e-12


# -- the step ------------------------------------------------------------------------------


@pytest.mark.usefixtures("either_path")
@pytest.mark.parametrize(
    ("a", "b", "c", "stay"),
    [(0.9, 0.1, 0.0, 0.0), (1.7, 0.2, -0.8, 0.0), (-2.0, 3.0, 1.0, 0.5), (0.9, 0.1, 0.0, -1.0)],
)
@pytest.mark.parametrize("normalization", ["sym", "rw"])
@pytest.mark.parametrize("reorder", [False, True])
def test_step_is_a_linear_combination(graph, X, labels, normalization, reorder, a, b, c, stay):
    options = {"normalization": normalization, "labels": labels, "beta": 0.3}
    P = propagation(graph, **options, reorder=reorder)
    F, before, shift = X[:, ::-1].copy(), X**2, X[0]
    expected = a * dense_P(graph, **options) @ F + b * (X - shift) + c * before + stay * F
    entered = P.enter(X, shift)
    F, before = (P.scaled(P.enter(block), 1.0) for block in (F, before))
    out = P.step(F, entered, before, a, b, c, stay)  # may overwrite before
    np.testing.assert_allclose(P.rows(out, entered, 3, 7), expected[3:7], atol=1e-12)
    np.testing.assert_allclose(P.leave(out, entered), expected, atol=1e-12)


@pytest.mark.usefixtures("either_path")
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_step_reads_nothing_of_out_where_c_is_zero(graph, X, dtype):
    P = propagation(graph, normalization="rw", dtype=dtype)
    F = X.astype(dtype)
    out = P.step(F, F, np.full_like(F, np.nan), 0.5, 0.5, 0.0)
    expected = (dense_P(graph, "rw") @ X + X) / 2
    np.testing.assert_allclose(out, expected, atol=10 * TOLERANCE[dtype])


# -- the kernels ---------------------------------------------------------------------------


@pytest.fixture
def wide():
    """Enough rows for many chunks, a hub among them."""
    n = 1500
    rng = np.random.default_rng(3)
    rows, columns = rng.integers(0, n, (2, 6 * n))
    rows[: n // 2] = 7
    both = np.unique(np.hstack([[rows, columns], [columns, rows]]), axis=1)
    return propagation(Graph.from_edge_index(both, n_nodes=n)), rng.standard_normal((n, 5))


@pytest.fixture
def keep_threads():
    before = numba.get_num_threads()
    yield
    numba.set_num_threads(before)


@pytest.mark.usefixtures("compiled", "keep_threads")
@pytest.mark.skipif(numba.config.NUMBA_NUM_THREADS < 2, reason="needs two threads")
def test_kernels_give_the_same_bits_on_one_and_two_threads(wide):
    P, F = wide
    results = []
    for threads in (1, 2):
        numba.set_num_threads(threads)
        stepped = P.step(F, F, F.copy(), 0.7, 0.2, 0.1)
        combined = P.combine_(F.copy(), np.arange(5.0), stepped, 0.3)
        results.append([stepped.tobytes(), P.dots(F, stepped).tobytes(), combined.tobytes()])
    assert results[0] == results[1]


@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_missing_weights_are_ones_to_the_last_bit(wide, dtype):
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
    parts = np.zeros((kernels.N_PARTS, U.shape[1]))
    kernels.partial_dots(U, V, mass, parts)
    result = parts.sum(axis=0)
    assert result.dtype == np.float64
    # Products of float32 are rounded to float32 before they are added up in float64.
    size = np.einsum("i,ij,ij->j", mass, np.abs(U), V, dtype="f8")
    expected = np.einsum("i,ij,ij->j", mass, U, V, dtype="f8")
    assert np.all(np.abs(result - expected) <= TOLERANCE[dtype] * size)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_combine_kernel_equals_numpy_in_place(wide, dtype):
    _, F = wide
    Y, Z = F.astype(dtype), (F**2).astype(dtype)
    expected = np.arange(5) * F - np.linspace(0, 1, 5) * F**2
    kernels.combine(Y, np.arange(5).astype(dtype), Z, np.linspace(0, -1, 5).astype(dtype))
    np.testing.assert_allclose(Y, expected, atol=20 * TOLERANCE[dtype])


@pytest.mark.usefixtures("either_path")
def test_dots_and_combine_of_the_operator_agree_with_numpy(X):
    P = propagation(random_graph(weighted=True), normalization="rw")
    Z = X**2
    np.testing.assert_allclose(P.dots(X, Z), P.mass @ (X * Z), rtol=1e-12)
    scale = np.arange(6.0)
    np.testing.assert_allclose(P.combine_(X.copy(), scale, Z, 0.5), scale * X + Z / 2, atol=1e-12)


def test_dense_ghost_of_this_module_is_a_projector(labels):
    """The reference checked against what theory says of it: class means are projections."""
    D = np.linspace(1, 5, len(labels))
    for normalization in ("sym", "rw"):
        for ghost in ("paper", "balanced"):
            G = dense_ghost(labels, D, normalization, ghost)
            np.testing.assert_allclose(G @ G, G, atol=1e-14)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_blocks_begin_where_a_cache_line_does(dtype):
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
import multiprocessing, sys
import numpy as np
import gpcanet.linalg.propagation
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
import os
import subprocess
import sys

import numba
print(numba.threading_layer())
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system does not fork")
@pytest.mark.parametrize("layer", [None, "workqueue"])
def test_compiled_kernels_run_in_a_forked_process(layer):
    """The first fit starts the threads; a child has none of them, and must start its own."""
    chosen = {} if layer is None else {"NUMBA_THREADING_LAYER": layer}
    environment = {k: v for k, v in os.environ.items() if k != "NUMBA_THREADING_LAYER"} | chosen
    ended = subprocess.run(
        [sys.executable, "-c", FORK],
        env=environment, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    assert layer is None or ended.stdout.split() == [layer]


def test_a_threading_layer_chosen_by_the_user_is_kept():
    code = "import numba, gpcanet.linalg.operators.kernels; print(numba.config.THREADING_LAYER)"
    for chosen, kept in (("omp", "omp"), ("default", "forksafe")):
        environment = os.environ | {"NUMBA_THREADING_LAYER": chosen}
        command = [sys.executable, "-c", code]
        assert subprocess.check_output(command, env=environment, text=True).split() == [kept]
