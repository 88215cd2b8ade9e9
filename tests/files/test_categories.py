"""Categorical features: next to pandas' get_dummies, and bad input."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from properties import examples

from gpcanet.errors import DataError, MissingFeatureError
from gpcanet.files import load_files
from gpcanet.files.categories import categories_of_features

VALUES = st.one_of(
    st.lists(st.integers(-5, 5), min_size=4, max_size=9),
    st.lists(st.text("abc ,=é", min_size=1, max_size=3).filter(str.strip), min_size=4, max_size=9),
    st.lists(st.booleans(), min_size=4, max_size=9),
)  # fmt: skip


def load(path, **options):
    return load_files(path, neighbors=1, **options)


@examples(30)
@given(values=VALUES, suffix=st.sampled_from(["csv", "parquet"]))
def test_encoding_equals_get_dummies(tmp_path_factory, values, suffix):
    path = tmp_path_factory.mktemp("t") / f"x.{suffix}"
    n = len(values)
    table = pd.DataFrame({"id": [f"n{i}" for i in range(n)], "a": np.arange(n), "kind": values})
    table.to_csv(path, index=False) if suffix == "csv" else table.to_parquet(path, index=False)
    data = load(path, one_hot=["kind"])
    text = table["kind"].astype(str)
    text = text.str.strip() if suffix == "csv" else text
    expected = pd.get_dummies(table.assign(kind=text)[["a", "kind"]], prefix_sep="=")
    np.testing.assert_array_equal(data.X, expected)
    assert data.feature_names.tolist() == expected.columns.tolist()


def test_declared_categories_are_encoded_without_being_named(tmp_path):
    kind = pd.Categorical(["u", "v", "u"], categories=["v", "u", "w"])
    table = pd.DataFrame({"id": list("xyz"), "kind": kind, "a": [1, 2, 3]})
    table.to_parquet(tmp_path / "x.parquet", index=False)
    data = load(tmp_path / "x.parquet")
    assert data.feature_names.tolist() == ["kind=v", "kind=u", "kind=w", "a"]
    np.testing.assert_array_equal(data.X[:, :3], [[0, 1, 0], [1, 0, 0], [0, 1, 0]])
    assert any("the categories of 'kind' are columns of 0 and 1" in note for note in data.notes)
    pl.DataFrame({"id": list("xyz"), "kind": pl.Series(list("uvu"), dtype=pl.Categorical)}
                 ).write_parquet(tmp_path / "p.parquet")  # fmt: skip
    assert load(tmp_path / "p.parquet").feature_names.tolist() == ["kind=u", "kind=v"]


def test_text_of_a_csv_stays_as_it_is(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("id,zip\na,01\nb,1\nc,01\n")
    assert load(path, one_hot=["zip"]).feature_names.tolist() == ["zip=01", "zip=1"]


@pytest.mark.parametrize("cell", ["", '" "'])
def test_missing_categories_are_missing_features(tmp_path, cell):
    path = tmp_path / "x.csv"
    path.write_text(f"id,a,kind\nx,1,u\ny,2,{cell}\nz,3,v\n")
    with pytest.raises(MissingFeatureError, match=r"line 3: the category in column 'kind' is mis"):
        load(path, one_hot=["kind"])
    (tmp_path / "e.csv").write_text("source,target\nx,y\ny,z\n")
    found = load_files(path, tmp_path / "e.csv", one_hot=["kind"], keep_missing=True).X
    np.testing.assert_array_equal(found, [[1, 1, 0], [2, np.nan, np.nan], [3, 0, 1]])


def test_categories_of_a_model(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("id,kind\nx,u\ny,u\nz,v\n")
    found = load(path, one_hot={"kind": ["w", "v", "u"], "other": ["a"]})
    assert found.feature_names.tolist() == ["kind=w", "kind=v", "kind=u"]
    with pytest.raises(DataError, match=r"line 4: 'v' in column 'kind' is not a category of the m"):
        load(path, one_hot={"kind": ["u", "w"]})
    names = ["a", "kind=u", "kind=x=y", "b", "b=1"]
    assert categories_of_features(names) == {"kind": ["u", "x=y"], "kind=x": ["y"]}
    path.write_text("id,a=b\nx,u\ny,u\nz,v\n")
    names = load(path, one_hot=["a=b"]).feature_names
    found = load(path, one_hot=categories_of_features(names))
    assert found.feature_names.tolist() == names.tolist() == ["a=b=u", "a=b=v"]


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ({"kind": [0.5, 1.5, 2.5]}, "column 'kind' has type double; categories must be text"),
        ({"kind": [None, None, None]}, "column 'kind' has no value; ignore it"),
        ({"other": ["u", "v", "w"]}, "has no column 'kind'"),
    ],
)
def test_columns_that_are_no_categories_are_refused(tmp_path, column, message):
    pd.DataFrame({"id": list("xyz"), **column}).to_parquet(tmp_path / "x.parquet", index=False)
    with pytest.raises(DataError, match=message):
        load(tmp_path / "x.parquet", one_hot=["kind"])


def test_too_many_categories_and_other_files_are_refused(tmp_path):
    n = 1_001
    table = pd.DataFrame({"id": np.arange(n), "kind": [f"k{i}" for i in range(n)]})
    table.to_csv(tmp_path / "x.csv", index=False)
    with pytest.raises(DataError, match="'kind' has 1,001 distinct values, more than 1,000"):
        load(tmp_path / "x.csv", one_hot=["kind"])
    np.save(tmp_path / "x.npy", np.eye(3))
    with pytest.raises(DataError, match="has no column 'kind' to encode; it is not a table"):
        load(tmp_path / "x.npy", one_hot=["kind"])
    (tmp_path / "x").write_bytes(b"id,kind\n")
    with pytest.raises(DataError, match="not one without a suffix; add its suffix, or use - for"):
        load(tmp_path / "x", one_hot=["kind"])


def test_integer_categories_of_pandas_are_encoded_in_parquet(tmp_path):
    kind = pd.Categorical([10, 9, None, 10])
    table = pd.DataFrame({"id": list("wxyz"), "a": [1, 2, 3, 4], "kind": kind})
    table.to_parquet(tmp_path / "x.parquet", index=False)
    (tmp_path / "e.csv").write_text("source,target\nw,x\n")
    found = load_files(tmp_path / "x.parquet", tmp_path / "e.csv", keep_missing=True)
    assert found.feature_names.tolist() == ["a", "kind=9", "kind=10"]
    np.testing.assert_array_equal(found.X[:, 1], [0, 1, np.nan, 0])
    assert any("the categories of 'kind'" in note for note in found.notes)
