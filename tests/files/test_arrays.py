"""Arrays that are not what they should be, hostile files, and files that were damaged."""

import gzip
import pickle
import sys
import zipfile

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
from own_files import EDGES, FEATURES, Written, load, npy, npz, parquet, sparse_npz

from gpcanet import GraphWarning
from gpcanet.errors import DataError
from gpcanet.files import load_files
from gpcanet.files.matrix_market import read_matrix_market

X = np.array([[1.0, 2], [3, 4], [5, 7]])
PAIRS = np.array([[0, 1], [1, 2]])
ADJACENCY = sp.csr_array(np.array([[0, 1.0, 0], [1, 0, 2], [0, 2, 0]]))
BLOCKS = sp.bsr_array(ADJACENCY, blocksize=(1, 1))
OUT_OF_RANGE = np.array([99, 0, 2, 1], np.int32)


def matrix_market(text, kind="coordinate real general"):
    content = f"%%MatrixMarket matrix {kind}\n{text}"
    return Written("mtx", lambda path: path.write_text(content))


def ids(values):
    return npz(features=X, ids=values)


FEATURE_ARRAYS = [
    ("three dimensions", npz(features=np.zeros((3, 2, 2))),
     r"npz must contain one matrix, or one ca"),
    ("one dimension", npz(features=np.zeros(3)),
     r"must contain one matrix, .*; it contains 'features'"),
    ("no dimension", npy(np.float64(3)), r"features of shape \(\) must be a matrix"),
    ("two matrices", npz(p=X, q=X), r"called 'features'; it contains 'p', 'q'"),
    ("nothing", npz(), r"features\.npz must contain one matrix"),
    ("text", npz(features=X.astype(str)), r"features of dtype <U32 must be real numbers"),
    ("complex", npz(features=X * 1j), r"features of dtype complex128 must be real numbers"),
    ("dates", npz(features=X.astype("M8[s]")), r"dtype datetime64\[s\] must be real numbers"),
    ("records", npz(features=np.zeros((3, 2), [("a", int)])), r"must be real numbers"),
    ("too few ids", ids(np.arange(2)), r"'ids' of shape \(2,\) must have one value for each of 3"),
    ("ids in a matrix", ids(np.zeros((3, 2), int)),
     r"array 'ids' of shape \(3, 2\) must have one value for each of 3 rows"),
    ("one id", ids(np.array(3)), r"features\.npz: (array 'ids' of shape|1 node ids for 3)"),
    ("complex ids", ids(np.arange(3) * 1j),
     r"dtype complex128 must be one-dimensional, with numbers or text"),
    ("ids of records", ids(np.zeros(3, [("a", int)])),
     r"must be one-dimensional, with numbers or text"),
    ("ids of bytes", ids(np.array([b"a", b"b", b"c"])),
     r"has type binary; node ids must be integers"),
    ("NaN id", ids(np.array([0, 1, np.nan])), r"row 2: the node id in column 'ids' is missing"),
]  # fmt: skip

EDGE_ARRAYS = [
    ("floats", npz(edge_index=PAIRS.astype(float)), r"dtype float64 must be two rows of integers"),
    ("three rows", npz(edge_index=np.zeros((3, 3), int)),
     r"edges of shape \(3, 3\) and dtype int64"),
    ("a number", npz(edge_index=np.array(3)),
     r"edges of shape \(\) and dtype int64 must be two rows"),
    ("beyond", npz(edge_index=PAIRS + 1), r"edges\.npz, row 1: node 3 is not in .*features\.npy"),
    ("before", npz(edge_index=PAIRS - 1), r"edges\.npz, row 0: node -1 is not in"),
    ("unsigned", npz(edge_index=PAIRS.astype(np.uint64) + 2**63), r"integers beyond 64 bits"),
    ("few weights", npz(edge_index=PAIRS, weight=np.ones(1)),
     r"shapes .* must have one value per edge"),
    ("weights in rows", npz(edge_index=PAIRS, weight=np.ones((2, 1))),
     r"must have one value per edge"),
    ("NaN weight", npz(edge_index=PAIRS, weight=np.array([1, np.nan])),
     r"row 1: weight nan must be"),
    ("text weights", npz(edge_index=PAIRS, weight=np.array(["1", "2"])),
     r"'weight' has type string"),
    ("complex weights", npz(edge_index=PAIRS, weight=np.array([1j, 2])),
     r"array 'weight' of shape"),
    ("ends in a matrix", npz(source=PAIRS, target=PAIRS), r"must have one value per edge"),
    ("one end", npz(source=PAIRS[0]),
     r"must contain edge_index, or source and target, .*it contains 'source'"),
    ("not square", sparse_npz(ADJACENCY[:2]), r"adjacency matrix of shape \(2, 3\) must be square"),
    ("too large", sparse_npz(sp.csr_array((4, 4))),
     r"edges\.npz: the adjacency matrix has 4 rows, but"),
    ("NaN", sparse_npz(ADJACENCY * np.nan),
     r"edges\.npz: weight nan of edge \(0, 1\) must be finite"),
    ("negative", sparse_npz(-ADJACENCY),
     r"edges\.npz: weight -1\.0 of edge \(0, 1\) must be finite"),
    ("complex", sparse_npz(ADJACENCY * 1j), r"weights of dtype complex128 must be real numbers"),
    ("text", sparse_npz(ADJACENCY, data=np.array(list("abcd"))), r"edges\.npz"),
    ("csr out of range", sparse_npz(ADJACENCY, indices=OUT_OF_RANGE), r"indices must be < 3"),
    ("csr below range", sparse_npz(ADJACENCY, indices=-OUT_OF_RANGE), r"indices must be >= 0"),
    ("csc out of range", sparse_npz(ADJACENCY.tocsc(), indices=OUT_OF_RANGE),
     r"indices must be < 3"),
    ("coo out of range", sparse_npz(ADJACENCY.tocoo(), row=OUT_OF_RANGE),
     r"index 99 exceeds matrix"),
    ("bsr out of range", sparse_npz(BLOCKS, indices=OUT_OF_RANGE),
     r"column index values must be < 3"),
    ("rows out of order", sparse_npz(ADJACENCY, indptr=np.array([0, 3, 1, 4], np.int32)),
     r"edges\.npz is not a readable npz file: ind"),
    ("last row out of order", sparse_npz(ADJACENCY, indptr=np.array([0, 3, 4, 0], np.int32)),
     r"edges\.npz is not a readable npz file: index pointers decrease"),
    ("too few rows", sparse_npz(ADJACENCY, indptr=np.array([0, 4])),
     r"index pointer size 2 should be"),
    ("negative shape", sparse_npz(ADJACENCY, shape=np.array([3, -3])), r"cannot be negative"),
    ("huge shape", sparse_npz(ADJACENCY, shape=np.array([2**50, 2**50])),
     r"is not a readable npz file"),
    ("a vector", sparse_npz(sp.coo_array(np.ones(3))),
     r"sparse array of shape \(3,\) is not a matrix"),
    ("unknown format", sparse_npz(ADJACENCY, format=np.array("xyz")), r"Unknown format"),
]  # fmt: skip

MATRIX_MARKET = [
    ("beyond", matrix_market("3 3 1\n9 1 1\n"),
     r"entry 1 is at \[9\.0, 1\.0\], outside of \[3, 3\]"),
    ("position 0", matrix_market("3 3 1\n0 1 1\n"),
     r"edges\.mtx is not a readable .*: entry 1 is at"),
    ("half a position", matrix_market("3 3 1\n1.5 1 1\n"),
     r"entry 1 is at \[1\.5, 1\.0\], outside"),
    ("too few lines", matrix_market("3 3 2\n1 1 1\n"),
     r"it is truncated: its header states 2 lines"),
    ("too many lines", matrix_market("3 3 1\n1 1 1\n2 2 1\n"),
     r"6 numbers, but its header states 1 lines of 3"),
    ("no values", matrix_market("3 3 2\n1 1\n1 2\n"),
     r"edges\.mtx is not a readable Matrix Market file"),
    ("text", matrix_market("3 3 1\n2 1 abc\n"), r"it contains text between its numbers"),
    ("cut inside a number", matrix_market("3 3 1\n2 1 1.5E"),
     r"it contains text between its numbers"),
    ("cut after a sign", matrix_market("3 3 1\n2 1 1.5E-"),
     r"it contains text between its numbers"),
    ("more than memory", matrix_market(f"3 3 {10**15}\n1 1 1\n"), r"it is truncated"),
    ("more values than memory", matrix_market(f"{10**9} {10**9}\n1\n", "array real general"),
     r"it is truncated"),
    ("NaN", matrix_market("3 3 1\n2 1 nan\n"), r"edges\.mtx: weight nan of edge \(1, 0\) must be"),
    ("negative", matrix_market("3 3 1\n2 1 -3\n"), r"edges\.mtx: weight -3\.0 of edge \(1, 0\)"),
    ("complex", matrix_market("3 3 1\n2 1 1 1\n", "coordinate complex general"),
     r"its numbers are complex, but must be real"),
    ("symmetric, not square", matrix_market("3 2 1\n2 1 1\n", "coordinate real symmetric"),
     r"it is symmetric, but has 3 rows and 2 columns"),
    ("unknown symmetry", matrix_market("3 3 1\n2 1 1\n", "coordinate real odd"),
     r"it is odd, but must be general or sym"),
    ("unknown form", matrix_market("3 3 1\n2 1 1\n", "list real general"),
     r"its sizes '3 3 1' are not"),
    ("negative sizes", matrix_market("-3 3 1\n2 1 1\n"),
     r"its sizes '-3 3 1' are not those of a coo"),
    ("no sizes", matrix_market(""), r"edges\.mtx is not a readable Matrix Market file"),
    ("nothing", Written("mtx", lambda path: path.write_text("")),
     r"edges\.mtx is not a .*: it is empty"),
    ("something else", Written("mtx", lambda path: path.write_text(EDGES)),
     r"first line must be a banner"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("case", "pattern"),
    [pytest.param({"features": case}, pattern, id=f"features: {name}")
     for name, case, pattern in FEATURE_ARRAYS]
    + [pytest.param({"features": npy(X), "edges": case}, pattern, id=f"edges: {name}")
       for name, case, pattern in EDGE_ARRAYS + MATRIX_MARKET],
)  # fmt: skip
def test_invalid_array_raises_data_error(tmp_path, case, pattern):
    with pytest.raises(DataError, match=pattern) as caught:
        load(tmp_path, **case)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("dtype", [">f8", ">f4", np.float16, np.int8, bool, np.longdouble])
def test_features_of_any_real_type(tmp_path, dtype):
    features = npz(features=X.astype(dtype), ids=np.arange(3).astype(">i8"))
    data = load(tmp_path, features=features, edges=npz(edge_index=PAIRS.astype(">i4")))
    assert data.X.tolist() == X.astype(dtype).astype(float).tolist()
    assert data.X.dtype in (np.float32, np.float64)
    assert data.graph.node_ids.tolist() == [0, 1, 2]


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "bsr", "dia"])
def test_sparse_matrices_of_every_form(tmp_path, form):
    data = load(tmp_path, features=npy(X), edges=sparse_npz(ADJACENCY.asformat(form)))
    np.testing.assert_array_equal(data.graph.adjacency.toarray(), ADJACENCY.toarray())


RANDOM = sp.random_array((7, 7), density=0.3, rng=0)
MATRICES = {
    "general": RANDOM,
    "symmetric": RANDOM + RANDOM.T,
    "pattern": RANDOM > 0,
    "integers": (RANDOM * 100).astype(int),
    "dense": RANDOM.toarray(),
    "dense, symmetric": (RANDOM + RANDOM.T).toarray(),
    "no entry": sp.coo_array((4, 5)),
    "wide": RANDOM.tocsr()[:3],
}


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("kind", MATRICES)
def test_matrix_market_is_read_as_scipy_reads_it(tmp_path, kind, wide):
    path = tmp_path / "features.mtx"
    scipy.io.mmwrite(path, MATRICES[kind], comment="two\nlines")
    if wide:  # any white space, Windows
        path.write_text(path.read_text().replace(" ", "   ").replace("\n", "\r\n"))
    expected = scipy.io.mmread(path, spmatrix=False)
    found = read_matrix_market(path)
    np.testing.assert_array_equal(found.toarray(), sp.coo_array(expected).toarray())
    packed = tmp_path / "packed.mtx.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert (read_matrix_market(packed) != found).nnz == 0


def test_edge_index_may_be_transposed(tmp_path):
    pairs = np.array([[0, 1], [1, 2], [2, 0]])
    assert load(tmp_path, features=npy(X), edges=npy(pairs)).graph.n_edges == 3


def test_directed_matrix_warns(tmp_path):
    with pytest.warns(GraphWarning, match="directed"):
        load(tmp_path, features=npy(X), edges=sparse_npz(sp.triu(ADJACENCY, format="csr")))


# -- pickles ------------------------------------------------------------------------------------


class Bomb:
    """Unpickling it writes a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


def bombs(marker):
    objects = np.array([[Bomb(marker)] * 2] * 3, object)
    return {
        "npy": Written("npy", lambda path: np.save(path, objects, allow_pickle=True)),
        "npz": npz(features=X, more=objects),
        "pickle as npy": Written("npy", lambda path: path.write_bytes(pickle.dumps(objects))),
        "pickle as npz": Written("npz", lambda path: path.write_bytes(pickle.dumps(objects))),
        "scipy's npz": sparse_npz(ADJACENCY, data=objects[0]),
    }


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # the proof of the bomb leaves a file open
@pytest.mark.parametrize("kind", bombs(None))
@pytest.mark.parametrize("role", ["features", "edges", "labels"])
def test_pickled_content_is_never_executed(tmp_path, kind, role):
    marker = tmp_path / "executed"
    with pytest.raises(DataError, match=rf"{role}\.np. is not a readable np. file: "):
        load(tmp_path, **{"features": npy(X)} | {role: bombs(marker)[kind]})
    assert not marker.exists()
    pickle.loads(pickle.dumps(Bomb(marker))).close()
    assert marker.exists(), "the bomb was none"


# -- damage -------------------------------------------------------------------------------------

WHOLE = {
    "csv.gz": Written(
        "csv.gz", lambda path: path.write_bytes(gzip.compress(FEATURES.encode() * 9))
    ),
    "parquet": parquet(id=["x", "y", "z"], a=[1.0, 2, 3]),
    "npz": npz(features=X),
    "npy": npy(X),
    "sparse npz": sparse_npz(ADJACENCY),
}


@pytest.mark.parametrize("kind", WHOLE)
def test_truncated_file_raises_data_error(tmp_path, kind):
    whole = WHOLE[kind]
    path = tmp_path / f"half.{whole.suffix}"
    whole.to(path)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(DataError, match=rf"half\.{whole.suffix} is not (a )?readable"):
        load(tmp_path, features=path)


def test_truncated_large_compressed_file_raises_data_error(tmp_path):
    # The first rows are good; the end is met only when pyarrow reads the blocks.
    rng = np.random.default_rng(0)
    rows = "".join(f"{i},{x}\n" for i, x in enumerate(rng.random(200_000)))
    path = tmp_path / "large.csv.gz"
    path.write_bytes(gzip.compress(f"id,a\n{rows}".encode(), 1)[:-1000])
    with pytest.raises(DataError, match=r"large\.csv\.gz is not readable: Truncated"):
        load(tmp_path, features=path, edges="source,target\n0,1\n")


def test_text_in_parquet_must_be_utf8(tmp_path):
    path = tmp_path / "features.parquet"
    parquet(id=["x", "yyyy", "z"], a=[1.0, 2, 3]).to(path)
    content = path.read_bytes()
    assert b"yyyy" in content
    path.write_bytes(content.replace(b"yyyy", b"yy\xffy"))
    with pytest.raises(
        DataError, match=r"features\.parquet is not a readable Parquet file: .*UTF8"
    ):
        load(tmp_path, features=path)


# -- h5ad ---------------------------------------------------------------------------------------


def test_error_without_anndata_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "anndata", None)
    cells = Written("h5ad", lambda path: path.write_bytes(b""))
    with pytest.raises(
        DataError, match=r"reading h5ad files needs anndata; pip install 'gpcanet\[anndata\]'"
    ):
        load(tmp_path, features=cells, edges=None)


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("kind", [int, bool, np.float32])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
def test_h5ad_of_any_real_type(tmp_path, kind, form):
    anndata = pytest.importorskip("anndata")
    cells = anndata.AnnData(form(X.astype(kind)))
    data = load(tmp_path, features=Written("h5ad", cells.write_h5ad), edges=None, neighbors=1)
    assert data.X.dtype == (np.float64 if kind is int else np.float32)
    found = data.X.toarray() if sp.issparse(data.X) else data.X
    np.testing.assert_array_equal(found, X.astype(kind))


@pytest.mark.filterwarnings("default")
def test_h5ad_contains_features_ids_graph_and_labels(tmp_path):
    anndata = pytest.importorskip("anndata")
    import pandas as pd

    obs = pd.DataFrame({"kind": pd.Categorical(["r", "g", "r"])}, index=["x", "y", "z"])
    cells = anndata.AnnData(sp.csr_matrix(X), obs=obs)
    cells.obsp["connectivities"] = sp.csr_matrix(ADJACENCY)
    data = load(tmp_path, features=Written("h5ad", cells.write_h5ad), edges=None,
                label_column="kind")  # fmt: skip
    assert data.graph.node_ids.tolist() == ["x", "y", "z"]
    assert data.class_names[data.y].tolist() == ["r", "g", "r"]
    np.testing.assert_array_equal(data.X.toarray(), X)
    np.testing.assert_array_equal(data.graph.adjacency.toarray(), ADJACENCY.toarray())
    cells.X = None
    with pytest.raises(DataError, match=r"features\.h5ad has no features; set X"):
        load(tmp_path, features=Written("h5ad", cells.write_h5ad), edges=None)
    with pytest.raises(DataError, match=r"is not a readable h5ad file"):
        load(tmp_path, features=Written("h5ad", lambda path: path.write_bytes(b"x")), edges=None)


# -- node ids of npz files ---------------------------------------------------------------------


@pytest.mark.parametrize("name", ["index", "nodes", "Index", "node_ids"])
def test_npz_ids_of_any_usual_name_are_node_ids(tmp_path, name):
    features, edges = tmp_path / "x.npz", tmp_path / "e.csv"
    np.savez(features, features=np.eye(3), **{name: np.array(["a", "b", "c"])})
    edges.write_text("source,target\na,c\n")
    data = load_files(features, edges)
    assert data.graph.node_ids.tolist() == ["a", "b", "c"]
    assert data.graph.adjacency[0, 2] == 1


def test_npz_ids_of_a_label_file_are_used(tmp_path):
    features, labels = tmp_path / "x.csv", tmp_path / "y.npz"
    features.write_text("id,a,b\np,1,2\nq,3,4\nr,5,7\n")
    np.savez(labels, nodes=np.array(["r", "p"]), y=np.array([1, 0]))
    data = load_files(features, labels=labels, neighbors=1)
    assert data.y.tolist() == [0, -1, 1]


def test_npz_ids_that_are_ambiguous_or_of_a_wrong_length_are_refused(tmp_path):
    path = tmp_path / "x.npz"
    np.savez(path, features=np.eye(3), index=np.arange(3), nodes=np.arange(3))
    with pytest.raises(
        DataError, match="several arrays that may be the node ids, 'index', 'nodes'"
    ):
        load_files(path, neighbors=1)
    assert load_files(path, neighbors=1, id_column="nodes").graph.node_ids.tolist() == [0, 1, 2]
    np.savez(path, features=np.eye(3), nodes=3)
    with pytest.raises(DataError, match=r"array 'id' of shape \(\) must have one value for each"):
        load_files(path, neighbors=1)


@pytest.mark.parametrize(
    ("name", "at", "wrong", "reason"),
    [("indptr", 0, 1, "index pointer"), ("indptr", -1, 0, "index pointers decrease"),
     ("indices", 0, 99, "indices")],
)  # fmt: skip
@pytest.mark.parametrize("slot", ["X", "obsp/connectivities"])
def test_h5ad_with_a_damaged_sparse_matrix_is_refused(tmp_path, slot, name, at, wrong, reason):
    anndata, h5py = pytest.importorskip("anndata"), pytest.importorskip("h5py")
    matrix = sp.csr_matrix(np.ones((3, 3)))

    def write(path):
        anndata.AnnData(matrix, obsp={"connectivities": matrix}).write_h5ad(path)
        with h5py.File(path, "r+") as file:
            file[f"{slot}/{name}"][at] = wrong

    with pytest.raises(DataError, match=rf"features\.h5ad.* is damaged: .*{reason}"):
        load(tmp_path, features=Written("h5ad", write), edges=None)


def test_member_of_an_npz_that_is_not_an_array(tmp_path):
    np.savez(tmp_path / "features.npz", X=np.eye(3))
    with zipfile.ZipFile(tmp_path / "features.npz", "a") as archive:
        archive.writestr("notes.txt", "not an array")
    with pytest.raises(DataError, match=r"features\.npz is not a readable npz file: its member"):
        load_files(tmp_path / "features.npz", neighbors=2)


@pytest.mark.parametrize(
    ("names", "target"),
    [({}, "y"), ({"source": "from", "target": "to"}, "z"), ({"target": "to"}, "z")],
)
def test_arrays_of_edges_are_found_by_name(tmp_path, names, target):
    ends = {"source": ["x"], "target": ["y"], "from": ["x"], "to": ["z"]}
    data = load(tmp_path, edges=npz(**{name: np.array(end) for name, end in ends.items()}), **names)
    graph = data.graph
    assert graph.node_ids[graph.indices[graph.indptr[0] : graph.indptr[1]]].tolist() == [target]


@pytest.mark.parametrize(
    ("case", "message"),
    [
        ({"edges": npz(edge_index=PAIRS), "source": "a"}, "must contain edge_index, or a and targ"),
        ({"edges": npy(PAIRS), "target": "a"}, "has no names, and therefore no array 'a'"),
        ({"edges": sparse_npz(ADJACENCY), "weight": "w"}, "has no names, and therefore no array"),
        ({"edges": "5,6\n6,7\n", "source": "a"}, "has no header, and therefore no column 'a'"),
        ({"edges": "5,6,1\n6,7,2\n", "weight": "w"}, "has no header, and therefore no column 'w'"),
        ({"features": npy(X), "ignore": ["a"]}, "has no array 'a' to ignore; leave it out"),
        ({"features": sparse_npz(ADJACENCY), "ignore": ["a"]}, "has no array 'a' to ignore"),
        ({"features": npz(X=X, y=np.arange(3)), "ignore": ["a"]}, "has no array 'a' to ignore"),
    ],
)  # fmt: skip
def test_names_that_a_file_does_not_have_are_refused(tmp_path, case, message):
    with pytest.raises(DataError, match=message):
        load(tmp_path, **case)


def test_arrays_are_ignored(tmp_path):
    features = npz(X=X, y=np.array(["a", "b", "a"]))
    edges = npz(edge_index=PAIRS)
    assert load(tmp_path, features=features, edges=edges).n_classes == 2
    assert load(tmp_path, features=features, edges=edges, ignore=["y"]).n_classes == 0
