"""Nothing is joined by place that has an id, and no label becomes a feature."""

import numpy as np
import own_files
import pandas as pd
import pytest
from own_files import load, npz, parquet

from gpcanet.errors import DataError, DataWarning
from gpcanet.files import load_files

EDGES = "source,target\nx,y\ny,z\n"
FEATURES = "id,a,b\nx,1,2\ny,3,4\nz,5,7\n"
X = [[1, 2], [3, 4], [5, 7]]
LABELS = {"x": "r", "y": "g", "z": "r"}


def labels_by_id(data):
    return dict(zip(data.graph.node_ids.tolist(), data.class_names[data.y].tolist(), strict=True))


@pytest.mark.parametrize(
    "labels",
    [
        "id,label\nz,r\nx,r\ny,g\n",
        "ID,topic\nz,r\nx,r\ny,g\n",
        parquet(node_id=["z", "x", "y"], label=["r", "r", "g"]),
        npz(node_ids=np.array(["z", "x", "y"]), y=np.array(["r", "r", "g"])),
        npz(ids=np.array(["z", "x", "y"]), labels=np.array(["r", "r", "g"])),
    ],
)
@pytest.mark.parametrize(
    "features",
    [
        FEATURES,
        FEATURES.replace("id", "ID"),
        FEATURES.replace("id", "Node_Id"),
        parquet(Id=["x", "y", "z"], a=[1.0, 3, 5], b=[2.0, 4, 7]),
        npz(node_ids=np.array(["x", "y", "z"]), X=np.array(X, float)),
    ],
)
def test_rows_are_joined_by_id_in_any_order(tmp_path, features, labels):
    data = load(tmp_path, features=features, edges=EDGES, labels=labels)
    assert data.X.tolist() == X
    assert labels_by_id(data) == LABELS


def test_pairs_without_a_header_are_id_and_label(tmp_path):
    data = load(
        tmp_path,
        features="id,a\n10,1\n20,2\n30,4\n",
        edges="source,target\n10,20\n",
        labels="30,7\n10,8\n",
    )
    assert data.class_names[data.y[[0, 2]]].tolist() == [8, 7]
    assert data.y[1] == -1


def test_named_id_column_may_be_in_one_file_only(tmp_path):
    data = load(
        tmp_path,
        features=FEATURES.replace("id", "paper"),
        edges=EDGES,
        labels="id,label\nz,r\nx,r\ny,g\n",
        id_column="paper",
    )
    assert labels_by_id(data) == LABELS


@pytest.mark.parametrize("name", ["paper_id", "userId", "paper ID"])
def test_column_that_may_be_the_id_raises_data_error(tmp_path, name):
    features = FEATURES.replace("id", name)
    with pytest.raises(DataError, match=f"'{name}' may be the node id"):
        load(tmp_path, features=features, edges="source,target\n0,1\n")
    data = load(tmp_path, features=features, edges="source,target\n0,1\n", ignore=[name])
    assert data.graph.node_ids is None
    assert "node i is row i" in data.notes[0]


def test_column_that_only_ends_in_id_is_a_feature(tmp_path):
    data = load(tmp_path, features="paid,humid\n1,2\n3,4\n5,7\n", edges="0,1\n1,2\n")
    assert data.feature_names.tolist() == ["paid", "humid"]


@pytest.mark.parametrize(
    ("features", "labels", "options"),
    [
        ("id,a,b,label\nx,1,2,0\ny,3,4,1\nz,5,7,0\n", "id,topic\nx,r\n", {"label_column": "topic"}),
        ("id,a,b,Label\nx,1,2,0\ny,3,4,1\nz,5,7,0\n", "id,label\nx,r\n", {}),
        ("id,a,b,topic\nx,1,2,0\ny,3,4,1\nz,5,7,0\n", "id,topic\nx,r\n", {}),
        ("id,a,b,Topic\nx,1,2,0\ny,3,4,1\nz,5,7,0\n", "id,topic\nx,r\n", {}),
    ],
)  # fmt: skip
def test_column_with_the_name_of_the_label_is_not_a_feature(tmp_path, features, labels, options):
    data = load(tmp_path, features=features, edges=EDGES, labels=labels, **options)
    assert data.feature_names.tolist() == ["a", "b"]
    assert data.class_names.tolist() == ["r"]


@pytest.mark.parametrize(
    ("values", "classes"),
    [
        (["01", "1", "10"], ["01", "1", "10"]),
        (["1", "2", "10"], [1, 2, 10]),
        (["1e3", "2", "1"], ["1", "1e3", "2"]),
        (["1.0", "", "2.0"], [1, 2]),
        (["NA", "r", "g"], ["g", "r"]),
        (["NaN", "3", "4"], [3, 4]),
    ],
)
def test_csv_labels_are_not_changed(tmp_path, values, classes):
    rows = "".join(f"{i},{v}\n" for i, v in zip("xyz", values, strict=True))
    data = load(tmp_path, features=FEATURES, edges=EDGES, labels="id,label\n" + rows)
    assert data.class_names.tolist() == classes
    with_labels = "id,a,label\n" + "".join(
        f"{i},1,{v}\n" for i, v in zip("xyz", values, strict=True)
    )
    assert load(tmp_path, features=with_labels, edges=EDGES).class_names.tolist() == classes


def test_split_in_the_features_applies_to_labels_of_another_file(tmp_path):
    features = "id,a,split\nx,1,test\ny,3,train\nz,5,train\n"
    labels = "id,label\nz,r\nx,r\ny,g\n"
    data = load(tmp_path, features=features, edges=EDGES, labels=labels)
    assert (data.train.tolist(), data.test.tolist()) == ([1, 2], [0])
    with pytest.raises(DataError, match=r"both have a split"):
        load(tmp_path, features=features, edges=EDGES, labels="id,label,split\nx,r,test\n")


def test_labels_joined_by_position_give_a_note(tmp_path):
    labels = "paper,label\nz,r\ny,g\nx,r\n"
    data = load(tmp_path, features=FEATURES, edges=EDGES, labels=labels)
    noted = "labels.csv has no column of node ids: label i belongs to node i"
    assert any(note.endswith(noted) for note in data.notes)
    data = load(tmp_path, features=FEATURES, edges=EDGES, labels=labels.replace("paper", "id"))
    assert not any(note.endswith(noted) for note in data.notes)


def test_dropped_and_unused_rows_are_noted(tmp_path):
    data = load(
        tmp_path,
        features=FEATURES,
        edges=EDGES + "x,q\n",
        labels="id,label,split\nx,r,train\ny,g,\nq,g,test\n",
        drop_unknown=True,
    )
    assert [note.replace(f"{tmp_path}/", "") for note in data.notes] == [
        "1 of 3 edges of edges.csv dropped: their nodes are not in features.csv",
        "1 of 3 labels of labels.csv dropped: their nodes are not in features.csv",
        "2 nodes labelled, in 2 classes",
        "1 labelled nodes are in no part of the split and are not used",
    ]


@pytest.mark.parametrize("what", ["edges", "labels"])
@pytest.mark.parametrize(("n_known", "n_unknown"), [(1, 0), (2, 2), (2, 3), (1, 9), (0, 1), (0, 3)])
def test_dropping_more_than_half_warns_and_dropping_all_is_an_error(
    tmp_path, what, n_known, n_unknown
):
    known, unknown = {"edges": ["x,y\n", "y,z\n"], "labels": ["x,r\n", "y,g\n"]}[what], "q{},r\n"
    rows = known[:n_known] + [unknown.format(i) for i in range(n_unknown)]
    header = {"edges": "source,target\n", "labels": "id,label\n"}[what]
    files = {"features": FEATURES, "edges": EDGES, what: header + "".join(rows)}
    dropped = (
        rf"^{n_unknown} of {len(rows)} {what} of .*{what}\.csv dropped: their nodes are not in"
    )
    if n_known == 0:
        with pytest.raises(DataError, match=dropped):
            load(tmp_path, **files, drop_unknown=True)
    elif n_unknown > n_known:
        with pytest.warns(DataWarning, match=dropped) as warned:
            data = load(tmp_path, **files, drop_unknown=True)
        assert str(warned[0].message) in data.notes
        assert warned[0].filename == own_files.__file__  # the caller of load_files
    else:
        notes = load(tmp_path, **files, drop_unknown=True).notes
        assert sum("dropped" in note for note in notes) == (n_unknown > 0)


def test_rows_without_a_label_do_not_count_as_labels(tmp_path):
    labels = "id,label\nx,\ny,\nz,\nq,r\n"
    with pytest.raises(DataError, match=r"1 of 1 labels of .* dropped"):
        load(tmp_path, features=FEATURES, edges=EDGES, labels=labels, drop_unknown=True)


# -- columns and positions that are easily taken for something else ----------------------


def test_feature_and_label_with_the_same_number_are_both_kept(tmp_path):
    ids = [f"n{i}" for i in range(6)]
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(6, 4)), ids)
    X.to_csv(tmp_path / "X.csv")
    pd.Series([0, 1] * 3, ids).to_csv(tmp_path / "y.csv")
    pd.DataFrame({"source": ids[:-1], "target": ids[1:]}).to_csv(tmp_path / "e.csv", index=False)
    data = load_files(tmp_path / "X.csv", tmp_path / "e.csv", tmp_path / "y.csv")
    np.testing.assert_allclose(data.X, X.to_numpy())
    assert data.y.tolist() == [0, 1] * 3


def test_feature_with_the_name_of_a_label_is_excluded_with_a_note(tmp_path):
    ids = ["a", "b", "c"]
    pd.DataFrame({"id": ids, "x": [1.0, 2, 3], "topic": [0, 1, 0]}).to_csv(
        tmp_path / "X.csv", index=False
    )
    pd.DataFrame({"id": ids, "topic": [0, 1, 0]}).to_csv(tmp_path / "y.csv", index=False)
    pd.DataFrame({"source": ["a"], "target": ["b"]}).to_csv(tmp_path / "e.csv", index=False)
    data = load_files(tmp_path / "X.csv", tmp_path / "e.csv", tmp_path / "y.csv")
    assert data.X.shape == (3, 1)
    assert any("column 'topic' has the name of the label" in note for note in data.notes)


def test_edges_by_position_with_features_that_have_ids(tmp_path):
    np.savez(tmp_path / "e.npz", edge_index=[[0, 1], [1, 2]])
    features = tmp_path / "X.csv"
    pd.DataFrame({"id": ["c", "a", "b"], "x": [1.0, 2, 3]}).to_csv(features, index=False)
    data = load_files(features, tmp_path / "e.npz")
    assert any("refers to nodes by position: node i is row i of" in note for note in data.notes)
    pd.DataFrame({"id": [2, 0, 1], "x": [1.0, 2, 3]}).to_csv(features, index=False)
    with pytest.raises(DataError, match=r"has the ids 0, 1, \.\.\. in another order; sort its"):
        load_files(features, tmp_path / "e.npz")


@pytest.mark.parametrize("name", ["index", "Unnamed: 0"])
def test_named_pandas_index_in_csv_raises_data_error(tmp_path, name):
    features = tmp_path / "X.csv"
    pd.DataFrame({name: [0, 1], "x": [1.0, 2]}).to_csv(features, index=False)
    pd.DataFrame({"source": [0], "target": [1]}).to_csv(tmp_path / "e.csv", index=False)
    with pytest.raises(DataError, match=f"'{name}' may be the node id"):
        load_files(features, tmp_path / "e.csv")
    assert load_files(features, tmp_path / "e.csv", id_column=name).X.shape == (2, 1)
