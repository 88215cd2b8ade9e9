"""Labels of every kind, in their own file or with the features, and their split."""

import datetime

import numpy as np
import pyarrow as pa
import pytest
from own_files import FEATURES, load, npy, npz, parquet

from gpcanet.errors import DataError

X = [[1, 2], [3, 4], [5, 7]]
NAMES = ["x", "y", "z"]

LABEL_COLUMNS = {
    "text": (["r", None, "g"], ["g", "r"], [1, -1, 0]),
    "integers": ([30, 10, 20], [10, 20, 30], [2, 0, 1]),
    "floats with missing": ([2.0, None, 1.0], [1, 2], [1, -1, 0]),
    "NaN": ([2.0, np.nan, 1.0], [1, 2], [1, -1, 0]),
    "truths": ([True, False, None], ["False", "True"], [1, 0, -1]),
    "minus one": ([-1, 5, 4], [4, 5], [-1, 1, 0]),
    "minus one as text": (["-1", "r", "g"], ["g", "r"], [-1, 1, 0]),
    "empty": (["", "r", "g"], ["g", "r"], [-1, 1, 0]),
    "all missing": ([None, None, None], [], [-1, -1, -1]),
}


@pytest.mark.parametrize("write", ["csv", "parquet", "with features"])
@pytest.mark.parametrize("kind", LABEL_COLUMNS)
def test_labels_of_all_types(tmp_path, kind, write):
    values, classes, codes = LABEL_COLUMNS[kind]
    if write == "csv":
        text = "".join(
            f"{i},{'' if v is None else v}\n" for i, v in zip(NAMES, values, strict=True)
        )
        data = load(tmp_path, labels="id,label\n" + text)
    elif write == "parquet":
        data = load(tmp_path, labels=parquet(id=NAMES, label=values))
    else:
        data = load(tmp_path, features=parquet(id=NAMES, a=[1.0, 3, 5], b=[2, 4, 7], label=values))
    if (kind, write) == ("truths", "csv"):
        classes = ["False", "True"]  # as they stand there
    assert data.class_names.tolist() == classes
    assert data.y.tolist() == codes
    assert data.X.tolist() == X


def test_categories_are_labels(tmp_path):
    values = pa.array(["r", None, "g"]).dictionary_encode()
    data = load(tmp_path, labels=parquet(id=NAMES, label=values))
    assert data.class_names[data.y[[0, 2]]].tolist() == ["r", "g"]
    assert data.y[1] == -1


@pytest.mark.parametrize("values", [[1, 0, 1], [1.5, 2.5, 3.5]])
@pytest.mark.parametrize("name", ["label", "kind"])
def test_column_of_labels_in_the_features_is_never_a_feature(tmp_path, name, values):
    features = parquet(id=NAMES, a=[1.0, 3, 5], b=[2, 4, 7], **{name: values})
    data = load(tmp_path, features=features, labels=parquet(id=NAMES, **{name: [7, 8, 7]}),
                label_column=name)  # fmt: skip
    assert data.X.tolist() == X
    assert data.class_names[data.y].tolist() == [7, 8, 7]
    with_own = load(tmp_path, features=features, labels=parquet(id=NAMES, label=[7, 8, 7]))
    assert with_own.X.shape[1] == (2 if name == "label" else 3)


def test_split_column_in_the_labels(tmp_path):
    labels = "id,label,split\nx,r,Train\ny,g, VAL \nz,,test\nw,g,testing\nv,r,\n"
    data = load(tmp_path, features=FEATURES + "w,1,1\nv,2,2\n", labels=labels)
    assert [part.tolist() for part in (data.train, data.validation, data.test)] == [[0], [1], [3]]


@pytest.mark.parametrize(
    ("labels", "pattern"),
    [
        (
            "id,label,split\nx,r,train\n\ny,g,often\n",
            r"labels\.csv, line 4: 'often' in column 'spl",
        ),
        (
            "id,label,split\nx,r,0\n",
            r"empty; rename the column if it is a feature, or leave it out \(--ignore split\)$",
        ),
        ("id,label\nx,1.5\ny,2\n", r"labels\.csv: column 'label' contains fractions"),
        (parquet(id=["x"], label=[datetime.date(2020, 1, 1)]), r"column 'label' has type date32"),
        (parquet(id=["x"], label=[[1]]), r"column 'label' has type list<.*>; labels must be"),
        (
            parquet(id=["x"], label=[1e300]),
            r"column 'label' has integers of 9,007,.* or more as double",
        ),
        (parquet(id=["x"], label=np.array([2**63], np.uint64)), r"integers beyond 64 bits"),
        (npy(np.array([np.inf, 1, 2])), r"labels\.npy: column 'label' has integers of 9,007,"),
        (npy(np.eye(3)), r"labels\.npy: labels must be one array, 'label', with one value per"),
        (npy(np.arange(5)), r"labels\.npy has 5 labels and no node ids, but .*csv has 3 nodes"),
        (npy(np.arange(2)), r"labels\.npy has 2 labels and no node ids, but .*csv has 3 nodes"),
        ("label\nr\ng\n", r"labels\.csv has 2 labels and no node ids"),
        (npy(np.arange(3) * 1j), r"array 'label' of shape \(3,\) and dtype complex128 must be"),
        (npz(kind=np.arange(3)), r"labels\.npz: labels must be one array, 'label'"),
    ],
)
def test_invalid_labels_raise_data_error(tmp_path, labels, pattern):
    with pytest.raises(DataError, match=pattern):
        load(tmp_path, labels=labels)


WORDS = np.array(["r", "", "g"])


@pytest.mark.parametrize(
    "labels", [npy(WORDS), npz(y=WORDS), npz(labels=WORDS), "label\nr\n-1\ng\n"]
)
def test_one_label_per_row(tmp_path, labels):
    data = load(tmp_path, labels=labels)
    assert data.class_names.tolist() == ["g", "r"]
    assert data.y.tolist() == [1, -1, 0]
