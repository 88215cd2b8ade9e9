"""Random tables come back as they were; random bytes are a dataset or one sentence."""

import gzip
import os
import warnings

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
import scipy.io
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from own_files import EDGES, FEATURES, LABELS, make_source, write_edges, write_features

from gpcanet import Graph
from gpcanet.errors import DataError
from gpcanet.files import load_files

#: More of them: GPCANET_FUZZ=50 pytest tests/files/test_fuzz.py
EFFORT = int(os.environ.get("GPCANET_FUZZ", "1"))
N_TABLES, N_DAMAGED = 60 * EFFORT, 400 * EFFORT

#: Files of one example may overwrite those of another.
SHARED = [HealthCheck.function_scoped_fixture]

# -- tables -------------------------------------------------------------------------------------

# All of Unicode but half surrogates, which no file holds, and NUL, which npz drops at the end.
# White space at the ends is not part of a cell of text.
TEXT = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1
).filter(lambda text: text == text.strip())
CELLS = {
    "integers": st.integers(-(2**63) + 1, 2**63 - 1),
    "small integers": st.integers(-3, 30),
    "text": TEXT.filter(lambda text: not text.isascii() or not text.lstrip("-").isdigit()),
    "awkward text": st.text("\",;\t\n\r ab'", min_size=1).map(lambda text: f"t{text}t"),
}
NUMBERS = st.floats(-1e6, 1e6, width=32)


@st.composite
def tables(draw):
    ids = draw(st.sampled_from(sorted(CELLS)).flatmap(
        lambda kind: st.lists(CELLS[kind], min_size=2, max_size=8, unique=True)))  # fmt: skip
    n = len(ids)
    end = st.integers(0, n - 1)
    edges = draw(st.lists(st.tuples(end, end), min_size=1, max_size=12))
    eighths = st.integers(1, 64).map(lambda w: w / 8)
    weights = draw(st.none() | st.lists(eighths, min_size=len(edges), max_size=len(edges)))
    X = draw(st.lists(st.lists(NUMBERS, min_size=2, max_size=2), min_size=n, max_size=n))
    as_array = np.array(ids, np.int64 if isinstance(ids[0], int) else object)
    return as_array, np.array(edges).T, weights, np.array(X)


def quoted(value):
    return '"' + str(value).replace('"', '""') + '"'


def write_table(path, columns):
    """By hand, so that pyarrow does not agree with itself."""
    if path.suffix == ".parquet":
        pa.parquet.write_table(pa.table(columns), path)
    elif path.suffix == ".npz":
        np.savez(path, **{k: v.astype(str) if v.dtype == object else v for k, v in columns.items()})
    else:
        mark = {".tsv": "\t", ".gz": ",", ".csv": ";"}[path.suffix]
        lines = [columns, *zip(*(column.tolist() for column in columns.values()), strict=True)]
        text = "".join(mark.join(map(quoted, line)) + "\r\n" for line in lines).encode()
        path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return path


@pytest.mark.parametrize("suffix", ["csv", "csv.gz", "tsv", "parquet", "npz"])
@settings(max_examples=N_TABLES, deadline=None, suppress_health_check=SHARED)
@given(table=tables())
def test_any_table_survives_a_round_trip(tmp_path, suffix, table):
    ids, (rows, columns), weights, X = table
    ends = {"source": ids[rows], "target": ids[columns]}
    if weights is not None:
        ends["weight"] = np.array(weights)
    features = {"a": X[:, 0], "b": X[:, 1]} if suffix != "npz" else {"features": X}
    data = load_files(
        write_table(tmp_path / f"features.{suffix}", {"id": ids, **features}),
        write_table(tmp_path / f"edges.{suffix}", ends),
    )
    graph = Graph.from_edge_index((rows, columns), weights, n_nodes=len(ids), each_once=True)
    assert data.graph.node_ids.tolist() == ids.tolist()
    np.testing.assert_array_equal(data.X, X)
    np.testing.assert_array_equal(data.graph.adjacency.toarray(), graph.adjacency.toarray())


# -- bytes --------------------------------------------------------------------------------------


def valid_files(folder):
    """A small file of every format, for features, edges and labels."""
    source = make_source(np.arange(30))
    for suffix in ("csv", "parquet", "npz", "npy", "matrix.npz", "mtx"):
        yield write_features(source, folder / f"features.{suffix}")
    for suffix in ("csv", "tsv", "parquet", "npz", "pairs.npz", "matrix.npz", "mtx"):
        yield write_edges(source, folder / f"edges.{suffix}")
    np.save(folder / "labels.npy", np.arange(30) % 3)
    np.savez_compressed(folder / "features.packed.npz", features=source.X, ids=source.ids)
    sp.save_npz(folder / "edges.csc.npz", source.adjacency.tocsc())
    sp.save_npz(folder / "edges.coo.npz", source.adjacency.tocoo(), compressed=False)
    scipy.io.mmwrite(folder / "features.dense.mtx", source.X)
    text = pa.table({"id": [f"節{i}" for i in range(30)], "a": source.X.tolist()})
    pa.parquet.write_table(text, folder / "features.plain.parquet", use_dictionary=False,
                           compression="none")  # fmt: skip
    pa.parquet.write_table(text, folder / "features.gzip.parquet", compression="gzip")
    (folder / "features.csv.gz").write_bytes(gzip.compress(FEATURES.encode()))
    (folder / "edges.header.csv").write_text(EDGES)
    (folder / "edges.none.csv").write_text("0,1,2.5\n1,2,3\n")
    (folder / "labels.csv").write_text(LABELS)


class Files(dict):
    """Contents by name; hypothesis shows what a test is given, and these are long."""

    def __repr__(self):
        return f"Files of {len(self)} formats"


@pytest.fixture(scope="module")
def valid(tmp_path_factory):
    folder = tmp_path_factory.mktemp("valid")
    list(valid_files(folder))
    return Files({path.name: path.read_bytes() for path in sorted(folder.iterdir())})


def try_bytes(folder, name, content):
    """The dataset of this file and valid ones; None if it was refused."""
    role = name.partition(".")[0]
    path = folder / name
    path.write_bytes(content)
    np.save(folder / "rows.npy", np.arange(60.0).reshape(30, 2))
    others = {"features": folder / "rows.npy", role: path}
    options = {"neighbors": 2} if role != "edges" else {}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a directed graph, a strange header
            return load_files(**others, **options)
    except DataError as error:
        message = str(error)
    assert str(path) in message
    assert "\n" not in message
    return None


#: What is done, where (as a share of the file), and with which bytes.
HARMS = st.lists(
    st.tuples(
        st.sampled_from(["flip", "flip", "flip", "byte", "cut", "drop", "insert"]),
        st.integers(0, 10**6),
        st.binary(min_size=1, max_size=8),
    ),
    min_size=1,
    max_size=4,
)
NAMES = st.integers(0, 10**4)


def damaged(content, harms):
    content = bytearray(content)
    for what, share, values in harms:
        at = share * len(content) // (10**6 + 1)
        if what == "flip":
            content[at : at + 1] = bytes(byte ^ 1 << values[0] % 8 for byte in content[at : at + 1])
        elif what == "byte":
            content[at : at + 1] = values[:1]
        elif what == "cut":
            del content[at:]
        elif what == "drop":
            del content[at : at + 2 * len(values)]
        else:
            content[at:at] = values
    return bytes(content)


def pick(files, number):
    return sorted(files)[number % len(files)]


@settings(max_examples=N_DAMAGED, deadline=10_000, suppress_health_check=SHARED)
@given(number=NAMES, harms=HARMS)
def test_damaged_file_gives_dataset_or_data_error(tmp_path, valid, number, harms):
    name = pick(valid, number)
    try_bytes(tmp_path, name, damaged(valid[name], harms))


@settings(max_examples=N_DAMAGED // 4, deadline=10_000, suppress_health_check=SHARED)
@given(
    number=NAMES,
    keep=st.integers(0, 12),  # with or without the mark of the format
    content=st.binary(max_size=200) | st.text('0123456789,;\t\n\r"-.enaif x').map(str.encode),
)
def test_random_bytes_give_dataset_or_data_error(tmp_path, valid, number, keep, content):
    name = pick(valid, number)
    try_bytes(tmp_path, name, valid[name][:keep] + content)


PACKED = ["features.csv.gz", "features.parquet", "features.npz", "features.npy", "features.mtx",
          "edges.mtx", "edges.matrix.npz", "edges.parquet", "labels.npy"]  # fmt: skip


@pytest.mark.parametrize("name", PACKED)
def test_file_truncated_anywhere_raises_data_error(tmp_path, valid, name):
    content = valid[name]
    most = len(content) - (20 if name.endswith("mtx") else 2)  # a digit less may be a number
    for size in np.linspace(0, most, 25).astype(int):
        assert try_bytes(tmp_path, name, content[:size]) is None, size


def test_undamaged_files_are_valid(tmp_path, valid):
    refused = {"edges.header.csv", "labels.csv"}  # their nodes have names, the rows have none
    found = {name for name in valid if try_bytes(tmp_path, name, valid[name]) is None}
    assert found == refused
