"""The Planetoid reader: real files where they are, and hostile ones everywhere."""

import contextlib
import hashlib
import os
import pickle
import struct
import sys
import tracemalloc
from collections import defaultdict

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import gpcanet.datasets.planetoid as module
from gpcanet.datasets.environment import CACHE_DIR_VARIABLE, DATA_DIR_VARIABLE
from gpcanet.datasets.planetoid import CLASS_NAMES, _PlanetoidUnpickler, load_planetoid, read_pickle
from gpcanet.datasets.planetoid_files import PINS
from gpcanet.errors import DataError

real_data = [
    pytest.mark.real_data,
    pytest.mark.skipif(
        DATA_DIR_VARIABLE not in os.environ, reason=f"{DATA_DIR_VARIABLE} names no folder"
    ),
]


# -- the real files -----------------------------------------------------------------------------

SIZES = {  # nodes, edges, features, classes, training labels, isolated nodes
    "cora": (2708, 5278, 1433, 7, 140, 0),
    "citeseer": (3327, 4552, 3703, 6, 120, 48),
    "pubmed": (19717, 44324, 500, 3, 60, 0),
}

# As the makers of the datasets tell them. CiteSeer has 15 papers of no class besides.
CLASS_SIZES = {
    "cora": {
        "Case Based": 298,
        "Genetic Algorithms": 418,
        "Neural Networks": 818,
        "Probabilistic Methods": 426,
        "Reinforcement Learning": 217,
        "Rule Learning": 180,
        "Theory": 351,
    },
    "citeseer": {"Agents": 596, "AI": 249, "DB": 701, "IR": 668, "ML": 590, "HCI": 508},
    "pubmed": {"Experimental": 4103, "Type 1": 7739, "Type 2": 7875},
}


@pytest.fixture
def real(request):
    return load_planetoid(request.param, offline=True)


each_real_graph = pytest.mark.parametrize(
    "real", [pytest.param(name, marks=real_data, id=name) for name in SIZES], indirect=True
)


@each_real_graph
def test_sizes_and_split_of_the_real_graphs(real):
    nodes, edges, features, classes, train, isolated = SIZES[real.name]
    graph = real.graph
    assert (graph.n_nodes, graph.n_edges, graph.n_isolated) == (nodes, edges, isolated)
    assert real.X.shape == (nodes, features)
    assert real.X.dtype == np.float32
    assert real.n_classes == classes
    assert [len(part) for part in (real.train, real.validation, real.test)] == [train, 500, 1000]
    assert np.bincount(real.y[real.train]).tolist() == [20] * classes
    split = np.concatenate([real.train, real.validation, real.test])
    assert len(np.unique(split)) == len(split)
    assert np.all(real.y[real.test] >= 0)


@each_real_graph
def test_names_of_the_real_classes_belong_to_their_sizes(real):
    sizes = np.bincount(real.y[real.y >= 0])
    assert dict(zip(real.class_names, sizes, strict=True)) == CLASS_SIZES[real.name]


# -- a small dataset in the form of the real ones -----------------------------------------------
# Python 3 writes other opcodes and globals than Python 2 did, so they are put together by hand.


def number(value):
    return b"J" + struct.pack("<i", value)


def text(value):
    return b"T" + struct.pack("<i", len(value)) + value


def tuple_of(*items):
    return b"(" + b"".join(items) + b"t"


def global_name(module_name, name):
    return f"c{module_name}\n{name}\n".encode()


def kind_of_number(code=b"i4"):
    made = global_name("numpy", "dtype") + tuple_of(text(code), number(0), number(1)) + b"R"
    state = [number(3), text(b"<"), b"NNN", number(-1), number(-1), number(0)]
    return made + tuple_of(*state) + b"b"


def array(values, kind=None):
    values = np.asarray(values)
    made = global_name("numpy.core.multiarray", "_reconstruct") + tuple_of(
        global_name("numpy", "ndarray"), tuple_of(number(0)), text(b"b")
    )
    shape = tuple_of(*map(number, values.shape))
    kind = kind or kind_of_number(values.dtype.str[1:].encode())
    state = tuple_of(number(1), shape, kind, b"\x89", text(values.tobytes()))
    return made + b"R" + state + b"b"


def matrix(dense):
    dense = sp.csr_array(dense)
    state = {b"_shape": tuple_of(*map(number, dense.shape))} | {
        name.encode(): array(getattr(dense, name)) for name in ("data", "indices", "indptr")
    }
    items = b"".join(text(name) + value for name, value in state.items())
    return global_name("scipy.sparse.csr", "csr_matrix") + b")\x81}(" + items + b"ub"


def lists(neighbors):
    made = global_name("collections", "defaultdict") + tuple_of(global_name("__builtin__", "list"))
    items = b"".join(
        number(node) + b"](" + b"".join(map(number, ends)) + b"e"
        for node, ends in neighbors.items()
    )
    return made + b"R(" + items + b"u"


def pickled(value):
    return b"\x80\x02" + value + b"."


# Nodes 0 to 4 are known, 5 and 7 are for test, and 6, as some of CiteSeer, is nobody.
FEATURES = np.array([[1, 0], [0, 1], [1, 1], [0, 2], [3, 0], [5, 5], [0, 0], [7, 0]], np.float32)
CLASSES = np.array([0, 1, 0, 1, 1, 0, -1, 1])
ONE_HOT = np.eye(2, dtype=np.int32)[CLASSES]
EDGES = {0: [1, 2, 2], 1: [0], 2: [0, 5], 3: [], 5: [2, 7], 7: [5, 7]}
SMALL = {
    "x": pickled(matrix(FEATURES[:2])),
    "tx": pickled(matrix(FEATURES[[7, 5]])),
    "allx": pickled(matrix(FEATURES[:5])),
    "y": pickled(array(ONE_HOT[:2])),
    "ty": pickled(array(ONE_HOT[[7, 5]])),
    "ally": pickled(array(ONE_HOT[:5])),
    "graph": pickled(lists(EDGES)),
    "test.index": b"7\n5\n",
}
PICKLED = [part for part in SMALL if part != "test.index"]


@pytest.fixture
def put(tmp_path, monkeypatch):
    """Puts files in a folder and takes their hashes for right; returns the folder."""
    monkeypatch.setenv(CACHE_DIR_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setattr(module, "N_VALIDATION", 2)

    def put(contents):
        for part, content in contents.items():
            (tmp_path / f"ind.cora.{part}").write_bytes(content)
            monkeypatch.setitem(PINS["cora"], part, hashlib.sha256(content).hexdigest())
        return tmp_path

    return put


def test_rows_are_moved_to_their_nodes(put):
    data = load_planetoid("cora", put(SMALL), offline=True)
    np.testing.assert_array_equal(data.X.toarray(), FEATURES)
    np.testing.assert_array_equal(data.y, CLASSES)
    assert [part.tolist() for part in (data.train, data.validation, data.test)] == [
        [0, 1],
        [2, 3],
        [5, 7],
    ]


def test_neighbours_become_edges_once_and_without_loops(put):
    graph = load_planetoid("cora", put(SMALL), offline=True).graph
    rows, columns = graph.adjacency.nonzero()
    edges = {(a, b) for a, b in zip(rows.tolist(), columns.tolist(), strict=True) if a < b}
    assert edges == {(0, 1), (0, 2), (2, 5), (5, 7)}
    assert graph.n_edges == 4
    assert set(graph.adjacency.data) == {1}


def test_class_names_are_distinct():
    for name, (_, _, _, n_classes, _, _) in SIZES.items():
        assert len(set(CLASS_NAMES[name])) == n_classes


def test_arrays_are_read_in_either_order_and_of_either_kind():
    values = np.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(read_pickle(pickled(array(values))), values)
    by_columns = array(values).replace(b"\x89", b"\x88")  # False, True: by columns
    expected = values.ravel().reshape((2, 3), order="F")
    np.testing.assert_array_equal(read_pickle(pickled(by_columns)), expected)


# -- hostile files ------------------------------------------------------------------------------


class _RunsCode:
    def __init__(self, command):
        self.command = command

    def __reduce__(self):
        return os.system, (self.command,)


@pytest.mark.parametrize("protocol", [0, 1, 2, 4])
@pytest.mark.parametrize("part", PICKLED)
def test_pickle_that_runs_code_is_refused(put, tmp_path, part, protocol):
    hostile = pickle.dumps(_RunsCode(f"touch '{tmp_path / 'marker'}'"), protocol=protocol)
    folder = put(SMALL | {part: hostile})
    with pytest.raises(DataError, match="Planetoid file"):
        load_planetoid("cora", folder, offline=True)
    assert not (tmp_path / "marker").exists()
    if part == "graph" and protocol == 2:  # it would have run
        pickle.loads(hostile)
        assert (tmp_path / "marker").exists()


def test_refused_global_is_named():
    with pytest.raises(DataError, match=r"must not contain \w+\.system; the file"):
        read_pickle(pickle.dumps(_RunsCode("true"), protocol=2))


def test_exactly_six_globals_are_allowed():
    assert set(_PlanetoidUnpickler.ALLOWED) == {
        ("__builtin__", "list"),
        ("collections", "defaultdict"),
        ("numpy", "dtype"),
        ("numpy", "ndarray"),
        ("numpy.core.multiarray", "_reconstruct"),
        ("scipy.sparse.csr", "csr_matrix"),
    }


@pytest.mark.parametrize(
    ("module_name", "name"),
    [
        ("builtins", "list"),
        ("__builtin__", "eval"),
        ("__builtin__", "getattr"),
        ("collections", "defaultdict.__init__.__globals__"),
        ("numpy", "load"),
        ("numpy.core.multiarray", "frombuffer"),
        ("scipy.sparse.csr", "csr_array"),
        ("", ""),
    ],
)
def test_similar_globals_are_refused(module_name, name):
    with pytest.raises(DataError, match="a Planetoid file must not contain"):
        read_pickle(pickled(global_name(module_name, name)))


REDUCE = b"R"
NOT_A_FILE = {
    "nothing": b"",
    "text": b"<html>Please log in</html>",
    "a number": pickled(number(3)),
    "a list": pickled(b"]"),
    "none": pickled(b"N"),
    "a global": pickled(global_name("numpy", "ndarray")),
    "an empty array": pickled(global_name("numpy.core.multiarray", "_reconstruct") + b")" + REDUCE),
    "an array made directly": pickled(
        global_name("numpy", "ndarray") + tuple_of(tuple_of(number(2**31 - 1))) + REDUCE
    ),
    "an array of more numbers than it has": pickled(
        array([1, 2, 3]).replace(tuple_of(number(3)), tuple_of(number(2**31 - 1)))
    ),
    "an array of objects": pickled(array([1, 2], kind_of_number(b"O8"))),
    "an array of records": pickled(array([1, 2], kind_of_number(b"V8"))),
    "an array of a kind of no kind": pickled(array([1, 2], number(4))),
    "a matrix without arrays": pickled(global_name("scipy.sparse.csr", "csr_matrix") + b")\x81}b"),
    "a matrix with no state": pickled(global_name("scipy.sparse.csr", "csr_matrix") + b")\x81"),
    "a string longer than the file": b"\x80\x02T" + struct.pack("<i", 2**31 - 1) + b"x.",
    "a string of negative length": b"\x80\x02T" + struct.pack("<i", -1) + b"x.",
    "two gigabytes of zeros": b"\x80\x05\x96" + struct.pack("<Q", 2**31) + b".",
    "a higher protocol": b"\x80\x05" + number(3) + b".",
    "a stack that is empty": b"\x80\x02.",
    "no end": b"\x80\x02" + number(3),
    "something persistent": b"\x80\x02Pos\n.",
    "an extension": b"\x80\x02\x82\x01.",
    "a change of a class": pickled(global_name("scipy.sparse.csr", "csr_matrix") + b"}b"),
}


@pytest.mark.parametrize("content", NOT_A_FILE.values(), ids=NOT_A_FILE.keys())
def test_other_content_raises_data_error(content):
    tracemalloc.start()
    try:
        with pytest.raises(DataError, match="not a Planetoid file, or is damaged"):
            read_pickle(content)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1 << 20  # whatever sizes the file claims


def test_large_memo_index_allocates_nothing():
    """The unpickler in C would make a table of 2**32 entries here."""
    tracemalloc.start()
    try:
        content = pickled(b"}r" + struct.pack("<I", 2**31 - 1) + b"0" + array([1, 2]))
        with pytest.raises(DataError):  # 0 (POP) is no opcode of these files
            read_pickle(content)
        content = pickled(lists(EDGES) + b"r" + struct.pack("<I", 2**31 - 1))
        assert read_pickle(content) == EDGES
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1 << 20


def test_index_beyond_the_columns_is_found():
    """scipy does not look by itself, and would read foreign memory in products."""
    good = matrix(FEATURES)
    bad = sp.csr_array(FEATURES)
    indices = bad.indices.copy()
    indices[-1] = 1000
    content = pickled(good.replace(array(bad.indices), array(indices)))
    assert content != pickled(good)
    with pytest.raises(DataError, match="damaged"):
        read_pickle(content)


# -- damaged files ------------------------------------------------------------------------------

_watched = {"on": False, "seen": []}
_FORBIDDEN = {"os.system", "os.exec", "os.fork", "subprocess.Popen", "exec", "compile", "open"} | {
    "pickle.find_class",  # the one of the library, which would import anything
    "import",
    "socket.connect",
}


def _watch(event, _):
    if _watched["on"] and event in _FORBIDDEN:
        _watched["seen"].append(event)


@pytest.fixture(scope="module")
def watch():
    """An audit hook sees what Python does. It cannot be removed, only disabled."""
    sys.addaudithook(_watch)
    for part in PICKLED:  # whatever is imported late is imported now
        read_pickle(SMALL[part])
    with contextlib.suppress(DataError):
        read_pickle(b"")


def read_or_refuse(content):
    _watched["seen"].clear()
    _watched["on"] = True
    try:
        loaded = read_pickle(content)
    except DataError:
        loaded = None
    finally:
        _watched["on"] = False
    assert _watched["seen"] == []
    assert loaded is None or isinstance(loaded, np.ndarray | sp.csr_array | defaultdict)


def test_watch_detects_execution(watch):
    _watched["on"] = True
    try:
        with open(os.devnull):
            pass
    finally:
        _watched["on"] = False
    assert "open" in _watched["seen"]


fuzz = settings(max_examples=150, deadline=10_000)  # milliseconds: slow is no failure, hanging is
any_part = st.sampled_from([SMALL[part] for part in ("x", "y", "graph")])


@fuzz
@given(content=st.binary(max_size=200))
def test_random_bytes_are_refused(watch, content):
    read_or_refuse(content)
    read_or_refuse(b"\x80\x02" + content + b".")


@fuzz
@given(content=any_part, end=st.floats(0, 1, exclude_max=True))
def test_truncated_file_is_refused(watch, content, end):
    content = content[: int(end * len(content))]
    read_or_refuse(content)
    with pytest.raises(DataError):
        read_pickle(content)


@fuzz
@given(
    content=any_part,
    changes=st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(1, 255)), min_size=1),
)
def test_changed_bytes_are_refused_or_are_data(watch, content, changes):
    changed = bytearray(content)
    for place, change in changes:
        changed[int(place * len(content))] ^= change
    read_or_refuse(bytes(changed))


OPCODES = [getattr(pickle, name) for name in dir(pickle) if name.isupper() and name[0] != "_"]


@fuzz
@given(
    pieces=st.lists(
        st.sampled_from([code for code in OPCODES if isinstance(code, bytes)])
        | st.sampled_from([global_name(*pair) for pair in _PlanetoidUnpickler.ALLOWED])
        | st.sampled_from([number(0), number(-1), number(2**31 - 1), text(b"i4"), text(b"O")])
        | st.sampled_from([array([1]), matrix(FEATURES), lists(EDGES), kind_of_number()]),
        max_size=30,
    )
)
def test_no_program_of_opcodes_does_harm(watch, pieces):
    read_or_refuse(pickled(b"".join(pieces)))


def test_index_pointers_that_decrease_are_refused():
    broken = sp.csr_array(np.eye(2))
    broken.indptr[-1] = 0
    with pytest.raises(DataError, match="index pointers decrease"):
        read_pickle(pickled(matrix(broken)))
