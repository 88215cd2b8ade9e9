"""Assembly of a Graph: against scipy's own arithmetic, and within the memory it may take."""

import tracemalloc
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from graph_sources import SPARSE_FORMATS
from hypothesis import given
from hypothesis import strategies as st
from properties import examples

import gpcanet.budget
from gpcanet import GPCA, Graph
from gpcanet.datasets import block_model

# -- against scipy --------------------------------------------------------------------------

#: Weights of entries, as a function of the random source and how many are needed.
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
    """Rows, columns and weights with loops and repeats; every other seed in both directions."""
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
    """The graph is the larger of a matrix and its transpose, and says what that changed."""
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
def test_weighted_entries_add_up_and_join_as_in_scipy(seed, kind):
    rows, columns, weights, n_nodes = random_entries(seed, kind)
    graph = quietly(Graph.from_edge_index, [rows, columns], weights, n_nodes=n_nodes)
    values = weights.astype(np.float64)
    forward = without_loops(sp.csr_array((values, (rows, columns)), shape=(n_nodes, n_nodes)))
    assert_joins(graph, forward)
    edges = (rows != columns) & (values != 0)
    assert changes(graph)[:2] == [np.sum(rows == columns), np.sum(edges) - forward.nnz]


@examples(100)
@given(st.integers(0, 10_000), st.sampled_from([np.int64, np.int32, np.uint16]))
def test_entries_without_weights_join_as_in_scipy(seed, dtype):
    rows, columns, _, n_nodes = random_entries(seed, "ones")
    pairs = np.array([rows, columns], dtype, order="F")
    graph = quietly(Graph.from_edge_index, pairs, n_nodes=n_nodes)
    forward = without_loops(sp.csr_array((np.ones(len(rows)), (rows, columns)), (n_nodes,) * 2))
    forward.data[:] = 1
    assert_joins(graph, forward)
    assert changes(graph)[:2] == [np.sum(rows == columns), np.sum(rows != columns) - forward.nnz]


@examples(200)
@given(st.integers(0, 10_000), st.sampled_from(sorted(WEIGHTS)), st.sampled_from(["raw", "array"]))
def test_matrices_join_as_in_scipy(seed, kind, form):
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
def test_a_matrix_is_neither_changed_nor_shared_in_any_format(fmt):
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
    """Most that numpy held beyond what it holds already, while something was built."""
    tracemalloc.start()
    try:
        build()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.fixture(scope="module")
def large():
    return block_model(5000, 200_000, seed=3).graph


# A CSR array of booleans takes 5 bytes an entry. It is there twice when directions are compared,
# beside a mask of one byte; a source in another form is first brought to this one.
@pytest.mark.parametrize("dtype", [bool, np.int8, np.float64])
@pytest.mark.parametrize(("fmt", "limit"), [("csr", 12), ("csc", 18), ("coo", 15)])
def test_ones_in_a_matrix_take_no_floats(large, dtype, fmt, limit):
    matrix = large._matrix(np.ones(len(large.indices), dtype)).asformat(fmt)
    assert peak_bytes(lambda: Graph(matrix)) < limit * matrix.nnz


@pytest.mark.parametrize(("dtype", "limit"), [(np.int32, 12), (np.int64, 15)])
def test_an_edge_index_is_joined_in_a_few_bytes_an_entry(large, dtype, limit):
    pairs = np.array(large.adjacency.nonzero(), dtype)
    assert peak_bytes(lambda: Graph.from_edge_index(pairs)) < limit * pairs.shape[1]
    once = pairs[:, pairs[0] < pairs[1]]
    built = peak_bytes(lambda: Graph.from_edge_index(once, each_once=True))
    assert built < limit * pairs.shape[1]


def test_weights_are_held_twice_like_positions(large):
    matrix = large._matrix(np.full(len(large.indices), 2.0))
    # 12 bytes an entry, twice, and masks.
    assert peak_bytes(lambda: Graph(matrix)) < 30 * matrix.nnz


def test_components_are_counted_without_values(large):
    fresh = Graph._trusted(large.indptr, large.indices, None)
    assert peak_bytes(fresh.summary) < len(large.indices)


# -- arrays taken over ----------------------------------------------------------------------


@pytest.fixture(params=["unweighted", "weighted"])
def stored(request, tmp_path, large):
    """A graph, and the same one from arrays mapped from files."""
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


def test_trusted_arrays_are_taken_as_they_are(stored):
    graph, arrays = stored
    trusted = Graph._trusted(**arrays)
    for name, array in arrays.items():
        assert getattr(trusted, name) is array
    assert trusted == graph
    assert trusted.is_same(graph)
    assert trusted.subgraph([3, 1, 2]) == graph.subgraph([3, 1, 2])
    assert trusted.summary() == Graph(graph.adjacency).summary()
    named = Graph._trusted(**arrays, node_ids=np.arange(5000) + 7)
    assert named.positions([9, 8]).tolist() == [2, 1]


def test_trusted_arrays_are_not_read_when_taken(stored):
    _, arrays = stored
    assert peak_bytes(lambda: Graph._trusted(**arrays)) < 10_000


@pytest.mark.parametrize("reorders", [True, False])
def test_fits_on_mapped_arrays_equal_those_in_memory(stored, either_path, monkeypatch, reorders):
    monkeypatch.setattr(gpcanet.budget, "reordering_pays", lambda *_: reorders)
    graph, arrays = stored
    trusted = Graph._trusted(**arrays)
    X = np.random.default_rng(0).standard_normal((5000, 6)).astype(np.float32)
    models = [GPCA(3).fit(X, graph=which) for which in (graph, trusted)]
    np.testing.assert_array_equal(models[1].components_, models[0].components_)
    embeddings = [GPCA(3).fit_transform(X[:99], graph=g, nodes=range(99)) for g in (graph, trusted)]
    np.testing.assert_array_equal(embeddings[1], embeddings[0])
