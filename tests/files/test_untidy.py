"""Untidy text files: what is understood, what is noted, and what each error says."""

import re

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from own_files import EDGES, FEATURES, LABELS, Written, load, npy, parquet
from properties import examples

from gpcanet.errors import DataError

#: Files of one example may overwrite those of another.
SHARED = [HealthCheck.function_scoped_fixture]

NUMBERED = "id,a,b\n1,1,2\n2,3,4\n3,5,7\n"
PATH = "source,target\n1,2\n2,3\n"


def facts(data):
    """Ids, features, edges and labels."""
    labels = None if data.class_names is None else data.class_names.tolist()
    edges = data.graph.adjacency.toarray().tolist()
    return data.graph.node_ids.tolist(), data.X.tolist(), edges, data.y.tolist(), labels


# -- white space --------------------------------------------------------------------------------


@pytest.mark.parametrize("space", [" ", "\u00a0", "  \t", "\t\t"])
def test_white_space_around_names_and_text_is_not_part_of_it(tmp_path, space):
    def spaced(text):
        rows = [row.split(",") for row in text.splitlines()]
        return "".join(";".join(f"{space}{cell}{space}" for cell in row) + "\n" for row in rows)

    expected = load(tmp_path, labels=LABELS)
    # pyarrow itself trims numbers, but only by ASCII.
    features = FEATURES.replace("x", f"{space}x").replace("a", f"a{space}")
    data = load(tmp_path, features=features, edges=spaced(EDGES), labels=spaced(LABELS))
    assert facts(data) == facts(expected)
    assert data.feature_names.tolist() == ["a", "b"]


COLUMNS = {"id_column": "my key", "label_column": "group", "split_column": "part", "source": "from",
           "target": "to", "weight": "w"}  # fmt: skip


@pytest.mark.parametrize("labels_apart", [False, True])
def test_columns_may_be_named_exactly_as_in_the_header(tmp_path, labels_apart):
    def spaced(text):
        header, rows = text.split("\n", 1)
        return ",".join(f" {name}  " for name in header.split(",")) + "\n" + rows

    texts = {
        "features": "my key,a,b,c\nx,1,,red\ny,3,,blue\nz,5,,red\n",
        "edges": "from,to,w\nx,y,2\ny,z,3\n",
        "labels": "my key,group,part\nx,r,train\ny,g,test\nz,g,validation\n",
    }
    if not labels_apart:
        rows = [text.splitlines() for text in (texts["features"], texts.pop("labels"))]
        texts["features"] = "".join(
            one + other[other.index(",") :] + "\n" for one, other in zip(*rows, strict=True)
        )
    expected = load(tmp_path, **texts, **COLUMNS, ignore=["b"], one_hot=["c"])
    data = load(
        tmp_path,
        **{name: spaced(text) for name, text in texts.items()},
        **{option: f" {name}  " for option, name in COLUMNS.items()},
        ignore=[" b  "],
        one_hot=[" c  "],
    )
    assert facts(data) == facts(expected)
    assert data.feature_names.tolist() == ["a", "c=blue", "c=red"]
    assert data.train.tolist() == expected.train.tolist()


def test_an_id_column_of_labels_may_be_named_exactly_as_in_the_header(tmp_path):
    labels = " my key ,label\nx,red\ny,blue\n"
    data = load(tmp_path, labels=labels, id_column=" my key ")
    assert facts(data) == facts(load(tmp_path, labels=LABELS))


def test_columns_of_parquet_are_named_with_their_white_space(tmp_path):
    features = parquet(**{" key ": ["x", "y", "z"], "key": [1.0, 2, 4], "b": [1.0, 0, 0]})
    data = load(tmp_path, features=features, id_column=" key ")
    assert data.graph.node_ids.tolist() == ["x", "y", "z"]
    with pytest.raises(DataError, match="has no column 'b '; it has ' key ', 'key', 'b'"):
        load(tmp_path, features=features, id_column=" key ", ignore=["b "])


def test_a_label_of_white_space_means_unlabelled(tmp_path):
    data = load(tmp_path, labels="id,label\nx,red\ny, \nz,blue \n")
    assert data.class_names.tolist() == ["blue", "red"]
    assert data.y.tolist() == [1, -1, 0]


def test_text_in_parquet_keeps_its_white_space(tmp_path):
    data = load(tmp_path, labels=parquet(id=["x", "y"], label=["red", "red "]))
    assert data.class_names.tolist() == ["red", "red "]


# -- ids ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["features", "edges", "both"])
def test_ids_may_end_in_a_decimal_zero(tmp_path, where):
    texts = {"features": NUMBERED, "edges": PATH}
    for name in texts if where == "both" else [where]:
        pattern = r"^(\d)" if name == "features" else r"(\d)"
        texts[name] = re.sub(pattern, r"\1.0", texts[name], flags=re.MULTILINE)
    data = load(tmp_path, **texts)
    assert facts(data) == facts(load(tmp_path, features=NUMBERED, edges=PATH))
    assert data.graph.node_ids.dtype == np.int64


def test_versions_are_text(tmp_path):
    features = "id,a,b\n1.0,1,2\n1.1,3,4\n2.0,5,7\n"
    data = load(tmp_path, features=features, edges="source,target\n1.0,1.1\n2.0,1.0\n")
    assert data.graph.node_ids.tolist() == ["1.0", "1.1", "2.0"]


def csv_of(**columns):
    return pd.DataFrame(columns).to_csv(index=False)


def dictionary_parquet(**columns):
    return parquet(**{name: pa.array(v).dictionary_encode() for name, v in columns.items()})


@examples(150, suppress_health_check=SHARED)
@given(
    form=st.sampled_from([(csv_of, float), (parquet, float), (dictionary_parquet, float),
                          (parquet, np.float32), (dictionary_parquet, np.float32)]),
    first=st.integers(-6, 2),
    sign=st.sampled_from([1, -1]),
    name=st.sampled_from(["id", "source", "target"]),
)  # fmt: skip
def test_ids_written_as_floats_are_the_same_nodes_or_an_error(tmp_path, form, first, sign, name):
    write, dtype = form
    limit = 2 ** (np.finfo(dtype).nmant + 1)  # the type skips integers from here on
    ids = sign * (limit + first + np.arange(5))
    features = {"id": ids, "a": np.arange(5.0), "b": np.ones(5)}
    edges = {"source": ids[:-1], "target": ids[1:]}
    expected = load(tmp_path, features=csv_of(**features), edges=csv_of(**edges))
    columns = features if name == "id" else edges
    may_be_rounded = (np.abs(columns[name]) >= limit).any()
    columns[name] = columns[name].astype(dtype)
    files = {"features": write(**features), "edges": write(**edges)}
    if not may_be_rounded:
        assert facts(load(tmp_path, **files)) == facts(expected)
        return
    message = rf"column '{name}' has integers of {limit:,} or more .* which rounds them"
    with pytest.raises(DataError, match=message):
        load(tmp_path, **files)


@pytest.mark.parametrize(
    ("types", "limit"), [(("float32", "float64"), 2**24), (("int64", "float64"), 2**53)]
)
def test_ids_that_are_rounded_in_one_file_of_a_folder_are_an_error(tmp_path, types, limit):
    folder = tmp_path / "parts"
    folder.mkdir()
    for name, dtype, ids in zip("ab", types, ([limit + 1, 1], [2, 3]), strict=True):
        columns = {"id": np.array(ids, dtype), "x": [1.0, 2], "y": [1.0, 1]}
        parquet(**columns).to(folder / f"{name}.parquet")
    with pytest.raises(DataError, match=rf"'id' has integers of {limit:,} or more as .* rounds"):
        load(tmp_path, features=folder, edges=csv_of(source=[1, 2], target=[2, 3]))


def test_labels_that_floats_have_rounded_are_an_error(tmp_path):
    labels = csv_of(id=["x", "y"], label=[2.0**53 - 1, 1])
    assert load(tmp_path, labels=labels).class_names.tolist() == [1, 2**53 - 1]
    with pytest.raises(DataError, match=r"'label' has integers of .* or more written as floats"):
        load(tmp_path, labels=csv_of(id=["x", "y"], label=[2.0**53, 1]))


def test_nan_is_a_missing_id(tmp_path):
    edges = parquet(source=[1.0, np.nan], target=[2.0, 3.0])
    with pytest.raises(DataError, match=r"row 1: the node id in column 'source' is missing"):
        load(tmp_path, features=NUMBERED, edges=edges)


@pytest.mark.parametrize("write", ["csv", "parquet", "range"])
def test_row_numbers_of_pandas_are_not_taken_for_ids_next_to_a_column_of_ids(tmp_path, write):
    frame = pd.DataFrame({"paper_id": [2, 0, 1], "a": [1.0, 2, 3], "b": [2.0, 1, 1]})
    frame.index = {"range": pd.RangeIndex(5, 8)}.get(write, [0, 2, 1])
    suffix, to = ("csv", frame.to_csv) if write == "csv" else ("parquet", frame.to_parquet)
    features, edges = Written(suffix, to), "source,target\n0,1\n1,2\n"
    with pytest.raises(DataError, match=r"several columns .* node id, '.*', 'paper_id'; name one"):
        load(tmp_path, features=features, edges=edges)
    data = load(tmp_path, features=features, edges=edges, id_column="paper_id")
    assert data.graph.node_ids.tolist() == [2, 0, 1]
    assert data.feature_names.tolist() == ["a", "b"]


def test_a_feature_with_the_name_of_an_id_is_noted(tmp_path):
    data = load(tmp_path, features="id,user_id,b\nx,1,2\ny,3,4\nz,5,7\n")
    assert any("'user_id' is a feature, although its name" in note for note in data.notes)
    data = load(tmp_path, features="id,user_id,b\nx,1,2\ny,3,4\nz,5,7\n", ignore=["user_id"])
    assert not any("user_id" in note for note in data.notes)


# -- edges --------------------------------------------------------------------------------------


def test_source_and_target_in_upper_or_lower_case(tmp_path):
    data = load(tmp_path, features=NUMBERED, edges=PATH.replace("source,target", "Source,TARGET"))
    assert facts(data) == facts(load(tmp_path, features=NUMBERED, edges=PATH))


@pytest.mark.parametrize(
    ("names", "parameters"),
    [
        ({"source": "from", "target": "From"}, "source and target are both 'From'"),
        ({"source": "to", "target": "to "}, "source and target are both 'to'"),
        ({"source": "from", "target": "to", "weight": "From"}, "source and weight are both 'From'"),
    ],
)
def test_two_names_of_the_same_column_are_an_error(tmp_path, names, parameters):
    with pytest.raises(DataError, match=rf"edges\.csv: {parameters}; name two different columns"):
        load(tmp_path, features=NUMBERED, edges="From,to\n1,2\n2,3\n", **names)


def test_columns_whose_names_differ_in_case_are_two(tmp_path):
    files = {"features": NUMBERED, "edges": "From,from\n1,2\n2,3\n"}
    assert load(tmp_path, **files, source="from", target="From").graph.n_edges == 2


def test_the_third_column_of_edges_without_a_header_is_noted(tmp_path):
    data = load(tmp_path, features=NUMBERED, edges="1,2,1990\n2,3,1991\n")
    assert any(n.endswith("its columns are source, target and weight") for n in data.notes)


# -- what errors say ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"features": FEATURES.replace(",", ";").replace("1;", "1,5;")},
         "line 2: '1,5' in column 'a' is not a number; write decimal points"),
        ({"features": "\n1,5;2;3\n1,5;2;4\n"}, "line 2: '1,5' is not a number; write decimal"),
        ({"edges": 'source,target,weight\nx,y,"0,5"\n'},
         "line 2: '0,5' in column 'weight' is not a number; write decimal points"),
        ({"edges": "source,target,weight\nx,y,heavy\n"},
         "line 2: 'heavy' in column 'weight' is not a number; correct it$"),
        ({"edges": "from,to\nx,y\n"}, "give the names of the source and the target column$"),
        ({"features": "# exported today\n" + FEATURES},
         "line 2: 3 cells, but the first row has 1; correct one of them$"),
        ({"features": npy(np.ones(3))}, r"features of shape \(3,\) must be a matrix$"),
    ],
)  # fmt: skip
def test_errors_name_the_fault(tmp_path, files, message):
    with pytest.raises(DataError, match=message):
        load(tmp_path, **files)


@pytest.mark.parametrize(
    ("number", "advice"), [("1,5", "write decimal points"), ("1_5", "leave the cell empty")]
)
def test_numbers_to_predict_are_written_plainly(tmp_path, number, advice):
    with pytest.raises(DataError, match=f"'{number}' in column 'label' is not a finite .*{advice}"):
        load(tmp_path, labels=f'id,label\nx,"{number}"\n', numeric_labels=True)


def test_a_pattern_is_proposed_for_the_tables_of_a_folder(tmp_path):
    folder = tmp_path / "parts"
    folder.mkdir()
    (folder / "a.csv").write_text(FEATURES)
    (folder / "readme.md").write_text("read me")
    with pytest.raises(DataError, match=r"several formats .* such as '.*parts/\*\.csv'"):
        load(tmp_path, features=folder)
