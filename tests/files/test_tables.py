"""Tables as people have them: dialects, what pandas writes, ids and numbers of all kinds."""

import decimal
import gzip
import itertools
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, assume, given
from hypothesis import strategies as st
from own_files import EDGES, FEATURES, LABELS, Written, load, npy, npz, parquet, sparse_npz
from properties import examples

from gpcanet.errors import DataError, InputError
from gpcanet.files import load_files
from gpcanet.files.paths import natural_order
from gpcanet.files.tables import Table

X = [[1, 2], [3, 4], [5, 7]]
PATH = [(0, 1), (1, 2)]
ROWS = npy(np.array(X, float))


def edges_of(data):
    return sorted((i, j) for i, j in zip(*data.graph.adjacency.nonzero(), strict=True) if i < j)


def pandas_parquet(frame):
    return Written("parquet", frame.to_parquet)


# -- dialects -----------------------------------------------------------------------------------

DIALECTS = {
    "plain": lambda text: text,
    "semicolons": lambda text: text.replace(",", ";"),
    "tabs": lambda text: text.replace(",", "\t"),
    "BOM": lambda text: "\ufeff" + text,
    "Windows": lambda text: "\ufeff" + text.replace("\n", "\r\n"),
    "old Mac": lambda text: text.replace("\n", "\r"),
    "blank lines": lambda text: "\n\n" + text.replace("\n", "\n\n"),
    "no last line end": lambda text: text.rstrip("\n"),
    "quotes": lambda text: (
        '"' + text.rstrip("\n").replace(",", '","').replace("\n", '"\n"') + '"\n'
    ),
    "spaces before numbers": lambda text: text.replace(",1,", ", 1,").replace(",3,", ",  3,"),
}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_all_csv_dialects_give_the_same_table(tmp_path, dialect):
    say = DIALECTS[dialect]
    data = load(tmp_path, features=say(FEATURES), edges=say(EDGES), labels=say(LABELS))
    assert data.graph.node_ids.tolist() == ["x", "y", "z"]
    assert data.X.tolist() == X
    assert edges_of(data) == PATH
    assert data.y.tolist() == [1, 0, -1]


@pytest.mark.parametrize("suffix", ["csv.gz", "csv.bz2", "tsv.gz"])
def test_compressed_files(tmp_path, suffix):
    import bz2

    pack = {"gz": gzip.compress, "bz2": bz2.compress}[suffix.split(".")[1]]
    text = FEATURES.replace(",", "\t") if suffix.startswith("tsv") else FEATURES
    packed = Written(suffix, lambda path: path.write_bytes(pack(text.encode())))
    assert load(tmp_path, features=packed).X.tolist() == X


@pytest.mark.parametrize(
    "dialect", ["plain", "semicolons", "tabs", "BOM", "Windows", "blank lines"]
)
@pytest.mark.parametrize("end", ["\n", ""])
def test_edges_without_header_are_all_read(tmp_path, dialect, end):
    edges = DIALECTS[dialect]("0,1\n1,2" + end)
    assert edges_of(load(tmp_path, features=ROWS, edges=edges)) == PATH
    weighted = load(tmp_path, features=ROWS, edges=DIALECTS[dialect]("0,1,2.5\n1,2,0.5" + end))
    assert weighted.graph.adjacency.toarray()[[0, 1], [1, 2]].tolist() == [2.5, 0.5]


def test_one_edge_without_header_and_line_end_is_one_edge(tmp_path):
    assert edges_of(load(tmp_path, features=ROWS, edges="0,2")) == [(0, 2)]


def test_features_without_a_header_are_all_features(tmp_path):
    data = load(tmp_path, features="1,2\n3,4\n5,7\n", edges="0,1\n")
    assert data.X.tolist() == X
    assert data.graph.node_ids is None


@pytest.mark.parametrize("edges", ["source,target\n", "source,target,weight\n", "source,target"])
def test_header_alone_is_a_graph_without_edges(tmp_path, edges):
    assert load(tmp_path, edges=edges).graph.n_edges == 0


@pytest.mark.parametrize("name", ["i,d", 'i"d', "i d", "i;d", "i\nd", "節点"])
def test_names_of_columns_may_need_quotes(tmp_path, name):
    quoted = name.replace('"', '""')
    data = load(tmp_path, features=f'"{quoted}",a\n007,1\n7,2\n', edges="source,target\n007,7\n",
                id_column=name)  # fmt: skip
    assert data.graph.node_ids.tolist() == ["007", "7"]


@examples(100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    suffix=st.sampled_from(["tsv", "csv"]),
    marks=st.lists(st.sampled_from(["", "", ";", ",", "1,2", ";;"]), min_size=2, max_size=6),
)
def test_names_between_tabs_may_contain_other_delimiters(tmp_path, suffix, marks):
    names = [f"f{mark}{i}" for i, mark in enumerate(marks)]
    # The delimiter of a CSV is the most frequent one.
    assume(suffix == "tsv" or max("".join(names).count(mark) for mark in ";,") < len(names))
    header = "\t".join(["id", *names])
    rows = "".join("\t".join([node, *"123456"[: len(names)]]) + "\n" for node in NAMES)
    features = Written(suffix, lambda path: path.write_text(f"{header}\n{rows}"))
    edges = Written("tsv", lambda path: path.write_text("source\ttarget\tnote;x\nx\ty\t;\n"))
    data = load(tmp_path, features=features, edges=edges)
    assert data.feature_names.tolist() == names
    assert data.graph.n_edges == 1


# -- what pandas writes -------------------------------------------------------------------------

NAMES = ["x", "y", "z"]
FRAME = pd.DataFrame(X, columns=["a", "b"])
INDEXED = {
    "unnamed": FRAME.set_index(pd.Index(NAMES)),
    "named": FRAME.set_index(pd.Index(NAMES, name="node")),
    "ids and a range index": FRAME.assign(id=NAMES),
    "ids and an index": FRAME.assign(id=NAMES).set_index(pd.Index([7, 9, 8])),
}


@pytest.mark.parametrize("write", ["csv", "parquet"])
@pytest.mark.parametrize("kind", INDEXED)
def test_pandas_index_is_the_ids_or_is_ignored(tmp_path, kind, write):
    frame = INDEXED[kind]
    features = frame.to_csv() if write == "csv" else pandas_parquet(frame)
    labels = INDEXED[kind].assign(label=["r", "g", "r"]).drop(columns=["a", "b"])
    labels = labels.to_csv() if write == "csv" else pandas_parquet(labels)
    data = load(tmp_path, features=features, labels=labels)
    assert data.graph.node_ids.tolist() == NAMES
    assert data.X.tolist() == X
    assert data.class_names[data.y].tolist() == ["r", "g", "r"]


def test_parquet_index_of_any_name_is_the_ids(tmp_path):
    features = pandas_parquet(FRAME.set_index(pd.Index(NAMES, name="paper")))
    assert load(tmp_path, features=features).graph.node_ids.tolist() == NAMES


@examples(100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    start=st.integers(-5, 5),
    step=st.sampled_from([1, 1, 2, -1, 7]),
    n=st.integers(2, 6),
    name=st.sampled_from([None, "paper", "a"]),
    order=st.randoms(use_true_random=False),
)
def test_range_index_in_parquet_is_the_ids(tmp_path, start, step, n, name, order):
    index = pd.RangeIndex(start, start + n * step, step, name=name)
    rows = order.sample(range(n), n)
    frame = pd.DataFrame({"a": np.arange(n) + 0.5}, index=index)
    labels = pd.DataFrame({"label": np.array(rows)}, index=index[rows])  # by id, in any order
    edges = "source,target\n" + "".join(f"{i},{j}\n" for i, j in itertools.pairwise(index))
    labels = labels.to_csv(index_label="id")
    data = load(tmp_path, features=pandas_parquet(frame), labels=labels, edges=edges)
    assert edges_of(data) == [(i, i + 1) for i in range(n - 1)]
    assert data.X.ravel().tolist() == frame["a"].tolist()
    assert data.class_names[data.y].tolist() == list(range(n))
    is_default = (start, step) == (0, 1)
    assert (data.graph.node_ids is None) == is_default
    if not is_default:
        assert data.graph.node_ids.tolist() == index.tolist()


@pytest.mark.parametrize("id_column", [None, "id"])
def test_range_index_without_a_name_is_called_id(tmp_path, id_column):
    frame = pd.DataFrame({"a": [1.0, 2, 3]}, index=pd.RangeIndex(1, 4))
    edges, labels = "source,target\n1,2\n", parquet(id=[3, 1], label=["r", "g"])
    options = {"features": pandas_parquet(frame), "edges": edges, "id_column": id_column}
    for data in (load(tmp_path, **options), load(tmp_path, **options, labels=labels)):
        assert data.graph.node_ids.tolist() == [1, 2, 3]
        assert data.feature_names.tolist() == ["a"]


def test_range_index_without_a_name_is_not_the_ids_next_to_a_column_of_ids(tmp_path):
    frame = pd.DataFrame({"node": [3, 2, 1], "a": [1.0, 2, 3]}, index=pd.RangeIndex(1, 4))
    data = load(tmp_path, features=pandas_parquet(frame), edges="source,target\n1,2\n")
    assert data.graph.node_ids.tolist() == [3, 2, 1]
    assert data.feature_names.tolist() == ["a"]


def test_range_index_is_used_in_labels_but_not_with_an_id_column(tmp_path):
    index = pd.RangeIndex(1, 4)
    features = parquet(id=[3, 2, 1], a=[1.0, 2, 3])
    labels = pandas_parquet(pd.DataFrame({"label": ["r", "g", "b"]}, index=index))
    edges = "source,target\n1,2\n"
    data = load(tmp_path, features=features, labels=labels, edges=edges)
    assert data.class_names[data.y].tolist() == ["b", "g", "r"]
    frame = pd.DataFrame({"id": [3, 2, 1], "a": [1.0, 2, 3]}, index=index)
    data = load(tmp_path, features=pandas_parquet(frame), edges=edges)
    assert data.graph.node_ids.tolist() == [3, 2, 1]
    assert data.feature_names.tolist() == ["a"]


def test_range_index_of_another_length_raises_data_error(tmp_path):
    frame = pd.DataFrame({"a": [1.0, 2, 3]}, index=pd.RangeIndex(1, 4))
    less = Written("parquet", lambda path: pa.parquet.write_table(
        pa.Table.from_pandas(frame).slice(0, 2), path))  # fmt: skip
    with pytest.raises(
        DataError, match=r"features\.parquet: the range index in its pandas metadata"
    ):
        load(tmp_path, features=less, edges="source,target\n0,1\n")


def test_index_of_two_levels_is_neither_ids_nor_features(tmp_path):
    index = pd.MultiIndex.from_tuples([(1, 2), (3, 4), (5, 6)])
    data = load(tmp_path, features=pandas_parquet(FRAME.set_index(index)), edges="0,1\n")
    assert data.graph.node_ids is None
    assert data.X.tolist() == X


# -- ids ----------------------------------------------------------------------------------------

BIG = 2**63 - 1
JOINED = {
    "integers in Parquet, CSV": ([1, 2, 3], "source,target\n1,2\n2,3\n", [1, 2, 3]),
    "digits as text in Parquet, CSV": (
        ["1", "2", "3"],
        "source,target\n1,2\n2,3\n",
        ["1", "2", "3"],
    ),
    "floats in Parquet": ([1.0, 2.0, 3.0], "source,target\n1,2\n2,3\n", [1, 2, 3]),
    "half floats": (np.array([1, 2, 3], np.float16), "source,target\n1,2\n2,3\n", [1, 2, 3]),
    "unsigned": (np.array([1, 2, 3], np.uint64), "source,target\n1,2\n2,3\n", [1, 2, 3]),
    "the largest integer": ([BIG, 2, -3], f"source,target\n{BIG},2\n2,-3\n", [BIG, 2, -3]),
    "categories": (pa.array(["x", "y", "z"]).dictionary_encode(), EDGES, NAMES),
    "large text": (pa.array(["x", "y", "z"], pa.large_string()), EDGES, NAMES),
}


@pytest.mark.parametrize("kind", JOINED)
def test_ids_of_different_types_are_matched(tmp_path, kind):
    ids, edges, known = JOINED[kind]
    data = load(tmp_path, features=parquet(id=ids, a=[1, 2, 3]), edges=edges)
    assert data.graph.node_ids.tolist() == known
    assert edges_of(data) == PATH


@pytest.mark.parametrize(
    "names",
    [["007", "7", "8"], ["1.0", "1", "2"], ["+1", "1", "01"], ["-0", "0", "1"],
     [str(2**63), "1", "2"], ["9" * 30, "9" * 29, "9"], ['a "q"', "b,c", "d;e"], ["a\nb", "a", "b"],
     ["😀", "é", "e\u0301"], ["NA", "null", "nan"], ["true", "false", "2020-01-01"],
     ["#", "//", "'"]],
    ids=repr,
)  # fmt: skip
def test_text_ids_of_a_csv_are_not_changed(tmp_path, names):
    quoted = ['"' + name.replace('"', '""') + '"' for name in names]
    data = load(
        tmp_path,
        features="id,a\n" + "".join(f"{name},{i}\n" for i, name in enumerate(quoted)),
        edges="source,target\n{0},{1}\n{1},{2}\n".format(*quoted),
    )
    assert data.graph.node_ids.tolist() == names
    assert edges_of(data) == PATH


@pytest.mark.parametrize("names", [["10", "20", "30"], ["b", "c", "a"]])
def test_positions_are_rows_whatever_the_ids_are(tmp_path, names):
    features = "id,a,b\n" + "".join(f"{n},{a},{b}\n" for n, (a, b) in zip(names, X, strict=True))
    edges = npz(edge_index=np.array(PATH).T)
    labels = npy(np.array([4, -1, 3]))
    data = load(tmp_path, features=features, edges=edges, labels=labels)
    assert edges_of(data) == PATH
    assert data.y.tolist() == [1, -1, 0]


def test_unknown_nodes_are_dropped_with_drop_unknown(tmp_path):
    data = load(tmp_path, edges="source,target,weight\nx,y,2\nq,x,3\ny,q,4\ny,z,5\n",
                labels=LABELS + "q,green\n", drop_unknown=True)  # fmt: skip
    assert data.graph.adjacency.toarray()[[0, 1], [1, 2]].tolist() == [2, 5]
    assert data.graph.n_edges == 2
    assert data.class_names[data.y[:2]].tolist() == ["red", "blue"]


# -- types of features --------------------------------------------------------------------------

HALF = decimal.Decimal("1.5")
TYPES = {
    "truths": (pa.array([True, False, True]), [1, 0, 1], np.float32),
    "small integers": (pa.array([1, 2, 3], pa.int8()), [1, 2, 3], np.float32),
    "integers": (pa.array([1, 2, 3], pa.int64()), [1, 2, 3], np.float64),
    "half": (np.array([1, 2, 0.5], np.float16), [1, 2, 0.5], np.float32),
    "single": (np.array([1, 2, 0.5], np.float32), [1, 2, 0.5], np.float32),
    "decimals": (pa.array([HALF, HALF, HALF]), [1.5, 1.5, 1.5], np.float64),
    "lists": (pa.array(X, pa.list_(pa.float32())), X, np.float32),
    "lists of one length": (pa.array(X, pa.list_(pa.float32(), 2)), X, np.float32),
    "large lists": (pa.array(X, pa.large_list(pa.float64())), X, np.float64),
}


@pytest.mark.parametrize("kind", TYPES)
def test_numbers_of_any_type_are_features(tmp_path, kind):
    values, expected, dtype = TYPES[kind]
    data = load(tmp_path, features=parquet(id=NAMES, a=values))
    assert data.X.dtype == dtype
    assert data.X.tolist() == np.reshape(expected, (3, -1)).tolist()


def test_ignored_column_is_not_a_feature(tmp_path):
    data = load(tmp_path, features="id,t,a,b\nx,u,1,2\ny,v,3,4\nz,w,5,7\n", ignore=["t"])
    assert data.X.tolist() == X


# -- neighbors ----------------------------------------------------------------------------------


def test_neighbors_instead_of_edges(tmp_path):
    data = load(tmp_path, features="id,a\nx,0\ny,1\nz,10\n", edges=None, neighbors=1)
    assert edges_of(data) == PATH
    assert data.graph.node_ids.tolist() == NAMES


@pytest.mark.parametrize(
    ("case", "pattern"),
    [
        ({"edges": None, "neighbors": 3},
         r"neighbors=3 must be an integer from 1 to 2: .*features"),
        ({"edges": None, "neighbors": 0}, r"neighbors=0 must be an integer from 1 to 2"),
        ({"edges": None, "neighbors": 1.5}, r"neighbors=1\.5 must be an integer from 1 to 2"),
        ({"edges": None, "neighbors": "1"}, r"neighbors='1' must be an integer from 1 to 2"),
        ({"neighbors": 1}, r"edges and neighbors are both given; give one of them"),
        ({"edges": None}, r"has no edges; give edges or neighbors"),
        ({"edges": None, "neighbors": 1, "features": "id,a\nx,1\n\ny,inf\nz,2\n"},
         r"features\.csv, line 4: inf in column 'a' is not finite"),
        ({"edges": None, "neighbors": 1, "features": npy(np.array([[1], [1e200], [2]]))},
         r"features\.npy, row 1: features must be finite and less than"),
        ({"edges": None, "neighbors": 1, "features": sparse_npz(sp.diags_array([1, np.nan, 2])),
          "keep_missing": True},
         r"features\.npz, row 1: a feature is missing; .* and --impute needs --edges$"),
    ],
)  # fmt: skip
def test_invalid_neighbors_raise_input_error(tmp_path, case, pattern):
    with pytest.raises(InputError, match=pattern):
        load(tmp_path, **case)


def test_wide_tables_are_read_in_linear_time(tmp_path):
    table = pa.table({"id": ["x", "y", "z"]} | {f"g{i}": np.ones(3) for i in range(300)})
    lists = []

    class Counted:
        """A table of pyarrow that counts how often the list of its names is made."""

        column_names = property(lambda self: lists.append(1) or table.column_names)

        def __getattr__(self, name):
            return getattr(table, name)

    found = Table(tmp_path, Counted())
    for name in found.names:
        found.column(name)
    assert len(lists) == 1


@pytest.mark.parametrize("long_row", [0, 2])
def test_rows_may_be_longer_than_a_block(tmp_path, long_row):
    rows = ["id,a,b", "x,1,2", "y,3,4", "z,5,7"]
    rows[long_row] += ("." if long_row else "") + "0" * 3 * 2**20
    assert load(tmp_path, features="\n".join(rows)).X.tolist() == X


@pytest.mark.parametrize("kind", ["csv", "csv.gz", "parquet", "mtx"])
def test_names_of_files_need_not_be_utf8(tmp_path, kind):
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9." + kind.encode()))
    edges = tmp_path / "edges.csv"
    edges.write_text("source,target\n0,1\n")
    if kind == "mtx":
        path.write_text("%%MatrixMarket matrix array real general\n2 1\n3\n4\n")
    elif kind == "parquet":
        path.write_bytes(pd.DataFrame({"id": [0, 1], "a": [3, 4]}).to_parquet(index=False))
    else:
        content = b"id,a\n0,3\n1,4\n"
        path.write_bytes(gzip.compress(content) if kind == "csv.gz" else content)
    X = load_files(path, edges).X
    assert (X.toarray() if kind == "mtx" else X).tolist() == [[3], [4]]


def test_numbers_in_names_count_as_numbers():
    names = ["part-10", "b1", "1a", "part-2", "a", "\u06631", "a/\u0663/x", "a/b/x"]
    found = [str(path) for path in sorted(map(Path, names), key=natural_order)]
    assert found.index("part-2") + 1 == found.index("part-10")
