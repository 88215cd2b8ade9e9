"""Assembly of a Graph: compared with scipy, and its peak memory."""

import tracemalloc
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from graph_sources import SPARSE_FORMATS
from hypothesis import given
from hypothesis import strategies as st
from properties import examples

from gpcanet import GPCA, Graph
from gpcanet.datasets import block_model
from gpcanet.linalg import Propagation, Solver

# -- against scipy --------------------------------------------------------------------------

#: Weights of entries, as functions of the random generator and the number of entries.
WEIGHTS = {
    "ones": lambda rng, n: np.ones(n),
    "some zero": lambda rng, n: rng.integers(0, 3, n).astype(np.float64),
    "small integers": lambda rng, n: rng.integers(0, 200, n).astype(np.uint8),
    "single precision": lambda rng, n: rng.integers(1, 9, n).astype(np.float32) / 8,
    "booleans": lambda rng, n: rng.integers(0, 2, n).astype(bool),
}


def quietly(build, *args, **kwargs):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return build(*args, **kwargs)


def random_entries(seed, kind):
    """Rows, columns and weights with self-loops and repeats; odd seeds in both directions."""
    rng = np.random.default_rng(seed)
    n_nodes, n_entries = int(rng.integers(1, 12)), int(rng.integers(0, 40))
    rows, columns = rng.integers(n_nodes, size=(2, n_entries))
    weights = WEIGHTS[kind](rng, n_entries)
    if seed % 2:
        rows, columns = np.r_[rows, columns], np.r_[columns, rows]
        weights = np.r_[weights, weights]
    return rows, columns, weights, n_nodes


def without_loops(matrix):
    matrix = matrix.tolil()
    matrix.setdiag(0)
    matrix = matrix.tocsr()
    matrix.eliminate_zeros()
    return matrix


def assert_joins(graph, forward):
    """The graph is the maximum of a matrix and its transpose, and reports what changed."""
    expected = forward.maximum(forward.T).tocsr()
    expected.sort_indices()
    np.testing.assert_array_equal(graph.indptr, expected.indptr)
    np.testing.assert_array_equal(graph.indices, expected.indices)
    assert (graph.indptr.dtype, graph.indices.dtype) == (np.int64, np.int32)
    np.testing.assert_array_equal(graph.adjacency.data, expected.data)
    assert graph.is_weighted == bool(np.any(expected.data != 1))
    one_way = expected.nnz - forward.nnz
    raised = 0 if one_way else (forward != expected).nnz
    assert changes(graph)[2:4] == [one_way, raised]


def changes(graph):
    return [count for count, _, _ in graph._changes]


@examples(200)
@given(st.integers(0, 10_000), st.sampled_from(sorted(WEIGHTS)))
def test_weighted_entries_equal_scipy(seed, kind):
    rows, columns, weights, n_nodes = random_entries(seed, kind)
    graph = quietly(Graph.from_edge_index, [rows, columns], weights, n_nodes=n_nodes)
    values = weights.astype(np.float64)
    forward = without_loops(sp.csr_array((values, (rows, columns)), shape=(n_nodes, n_nodes)))
    assert_joins(graph, forward)
    edges = (rows != columns) & (values != 0)
    assert changes(graph)[:2] == [np.sum(rows == columns), np.sum(edges) - forward.nnz]


@examples(100)
@given(st.integers(0, 10_000), st.sampled_from([np.int64, np.int32, np.uint16]))
def test_unweighted_entries_equal_scipy(seed, dtype):
    rows, columns, _, n_nodes = random_entries(seed, "ones")
    pairs = np.array([rows, columns], dtype, order="F")
    graph = quietly(Graph.from_edge_index, pairs, n_nodes=n_nodes)
    forward = without_loops(sp.csr_array((np.ones(len(rows)), (rows, columns)), (n_nodes,) * 2))
    forward.data[:] = 1
    assert_joins(graph, forward)
    assert changes(graph)[:2] == [np.sum(rows == columns), np.sum(rows != columns) - forward.nnz]


@examples(200)
@given(st.integers(0, 10_000), st.sampled_from(sorted(WEIGHTS)), st.sampled_from(["raw", "array"]))
def test_matrices_equal_scipy(seed, kind, form):
    rows, columns, weights, n_nodes = random_entries(seed, kind)
    summed = sp.csr_array((weights.astype(np.float64), (rows, columns)), shape=(n_nodes,) * 2)
    if weights.dtype == bool:  # True and True is True
        summed.data = (summed.data > 0).astype(np.float64)
    forward = without_loops(summed)
    coo = sp.coo_array((weights, (rows, columns)), shape=(n_nodes,) * 2)
    order = np.argsort(rows, kind="stable")
    indptr = np.r_[0, np.cumsum(np.bincount(rows, minlength=n_nodes))]
    raw = sp.csr_array((weights[order], columns[order], indptr), shape=(n_nodes,) * 2)
    for matrix in [coo, raw, raw.tocsc()] if form == "raw" else [summed, summed.toarray()]:
        graph = quietly(Graph, matrix)
        assert_joins(graph, forward)
        assert changes(graph)[1] == 0
        if form == "raw":
            assert changes(graph)[0] == len(set(rows[rows == columns]))


@pytest.mark.parametrize("fmt", SPARSE_FORMATS)
def test_the_matrix_is_neither_changed_nor_shared_in_any_format(fmt):
    matrix = sp.coo_array(block_model(50, 200).graph.adjacency).asformat(fmt)
    before = matrix.copy()
    graph = Graph(matrix)
    assert (matrix != before).nnz == 0
    for name in ("indices", "indptr"):
        if hasattr(matrix, name):
            assert not np.shares_memory(getattr(graph, name), getattr(matrix, name))
            assert getattr(matrix, name).flags.writeable


# -- memory ---------------------------------------------------------------------------------


def peak_bytes(build):
    """Peak memory that numpy allocates during a call."""
    tracemalloc.start()
    try:
        build()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.fixture(scope="module")
def large():
    return block_model(5000, 200_000, seed=3).graph


# A boolean CSR array takes 5 bytes per entry. Comparing the directions needs two of them and a
# mask of one byte; a source in another format is converted first.
@pytest.mark.parametrize("dtype", [bool, np.int8, np.float64])
@pytest.mark.parametrize(("fmt", "limit"), [("csr", 12), ("csc", 18), ("coo", 15)])
def test_unweighted_matrix_needs_no_floats(large, dtype, fmt, limit):
    matrix = large._matrix(np.ones(len(large.indices), dtype)).asformat(fmt)
    assert peak_bytes(lambda: Graph(matrix)) < limit * matrix.nnz


@pytest.mark.parametrize(("dtype", "limit"), [(np.int32, 12), (np.int64, 15)])
def test_edge_index_needs_a_few_bytes_per_entry(large, dtype, limit):
    pairs = np.array(large.adjacency.nonzero(), dtype)
    assert peak_bytes(lambda: Graph.from_edge_index(pairs)) < limit * pairs.shape[1]
    once = pairs[:, pairs[0] < pairs[1]]
    built = peak_bytes(lambda: Graph.from_edge_index(once, each_once=True))
    assert built < limit * pairs.shape[1]


def test_weighted_matrix_needs_two_copies(large):
    matrix = large._matrix(np.full(len(large.indices), 2.0))
    # 12 bytes per entry, twice, and masks.
    assert peak_bytes(lambda: Graph(matrix)) < 30 * matrix.nnz


def test_counting_components_allocates_no_values(large):
    fresh = Graph.from_csr(large.indptr, large.indices, validate=False)
    assert peak_bytes(fresh.summary) < len(large.indices)


# -- from_csr without validation ------------------------------------------------------------


@pytest.fixture(params=["unweighted", "weighted"])
def stored(request, tmp_path, large):
    """A graph, and its arrays mapped from files."""
    graph = large
    if request.param == "weighted":
        matrix = graph.adjacency
        matrix.data[:] = 1 + (matrix.indices + np.repeat(np.arange(5000), np.diff(matrix.indptr)))
        graph = Graph(matrix)
    arrays = {}
    for name in ("indptr", "indices", "weights"):
        arrays[name] = getattr(graph, name)
        if arrays[name] is not None:
            np.save(tmp_path / f"{name}.npy", arrays[name])
            arrays[name] = np.load(tmp_path / f"{name}.npy", mmap_mode="r")
    return graph, arrays


def test_from_csr_without_validation_shares_the_arrays(stored):
    graph, arrays = stored
    mapped = Graph.from_csr(**arrays, validate=False)
    for name, array in arrays.items():
        assert getattr(mapped, name) is array
    assert mapped == graph
    assert mapped.is_same(graph)
    assert mapped.subgraph([3, 1, 2]) == graph.subgraph([3, 1, 2])
    assert mapped.summary() == Graph(graph.adjacency).summary()
    named = Graph.from_csr(**arrays, node_ids=np.arange(5000) + 7, validate=False)
    assert named.positions([9, 8]).tolist() == [2, 1]


def test_from_csr_without_validation_does_not_read_the_arrays(stored):
    _, arrays = stored
    assert peak_bytes(lambda: Graph.from_csr(**arrays, validate=False)) < 10_000


def test_fits_on_mapped_arrays_equal_fits_in_memory(stored, either_path):
    graph, arrays = stored
    mapped = Graph.from_csr(**arrays, validate=False)
    X = np.random.default_rng(0).standard_normal((5000, 6)).astype(np.float32)
    models = [GPCA(3).fit(X, graph=which) for which in (graph, mapped)]
    np.testing.assert_array_equal(models[1].components_, models[0].components_)
    embeddings = [GPCA(3).fit_transform(X[:99], graph=g, nodes=range(99)) for g in (graph, mapped)]
    np.testing.assert_array_equal(embeddings[1], embeddings[0])


@pytest.mark.parametrize("reorder", [True, False])
def test_solves_on_mapped_arrays_equal_solves_in_memory(stored, either_path, reorder):
    graph, arrays = stored
    X = np.random.default_rng(0).standard_normal((5000, 6)).astype(np.float32)
    found, expected = (
        Solver(Propagation(*csr, dtype=np.float32, reorder=reorder), 10.0).apply(X)
        for csr in (arrays.values(), (graph.indptr, graph.indices, graph.weights))
    )
    np.testing.assert_array_equal(found, expected)
