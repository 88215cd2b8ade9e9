"""Folders, patterns and partitioned Parquet equal one file with all rows."""

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from properties import examples

from gpcanet.errors import DataError
from gpcanet.files import load_files
from gpcanet.files.paths import contains_file

N = 12


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "id": [f"n{i}" for i in range(N)],
            "a": rng.integers(0, 9, N),
            "b": rng.normal(size=N),
            "label": ["r", "g", "b"] * (N // 3),
        }
    )


@pytest.fixture
def edges(tmp_path):
    path = tmp_path / "edges.csv"
    path.write_text("source,target\n" + "".join(f"n{i},n{i + 1}\n" for i in range(N - 1)))
    return path


def write_parts(table, folder, cuts, suffix=".csv"):
    folder.mkdir(exist_ok=True)
    for number, part in enumerate(np.split(np.arange(len(table)), cuts)):
        path, rows = folder / f"part-{number}{suffix}", table.iloc[part]
        rows.to_csv(path, index=False) if "csv" in suffix else rows.to_parquet(path, index=False)
    return folder


def assert_same(found, expected):
    np.testing.assert_array_equal(found.X, expected.X)
    np.testing.assert_array_equal(found.y, expected.y)
    np.testing.assert_array_equal(found.graph.node_ids, expected.graph.node_ids)
    assert found.feature_names.tolist() == expected.feature_names.tolist()
    assert found.graph == expected.graph


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".parquet"])
@pytest.mark.parametrize("form", ["folder", "pattern", "nested"])
def test_parts_equal_one_file(tmp_path, table, edges, suffix, form):
    single = tmp_path / "single.csv"
    table.to_csv(single, index=False)
    folder = write_parts(table, tmp_path / "parts", [3, 4, 9], suffix)
    (folder / "_SUCCESS").write_text("")
    (folder / ".hidden.csv").write_text("x")
    path = {"folder": folder, "pattern": folder / f"part-?{suffix}", "nested": tmp_path / "p*"}
    assert_same(load_files(path[form], edges), load_files(single, edges))
    assert_same(load_files(single, tmp_path / "edges*.csv", path[form]), load_files(single, edges))


@examples(20)
@given(values=st.lists(st.one_of(st.integers(-99, 99), st.text("ab c=/%_", max_size=4)),
                       min_size=N, max_size=N))  # fmt: skip
def test_partitions_equal_a_column(tmp_path_factory, values):
    """pandas writes the folders; their names are the column."""
    folder = tmp_path_factory.mktemp("parts")
    kind = [value or None for value in map(str, values)]
    table = pd.DataFrame({"id": np.arange(N), "a": np.arange(N) ** 2.0, "kind": kind})
    table.to_parquet(folder / "hive", partition_cols=["kind"], index=False)
    table.to_parquet(folder / "one.parquet", index=False)
    found, expected = (
        load_files(path, neighbors=2, label_column="kind")
        for path in (folder / "hive", folder / "one.parquet")
    )
    order = np.argsort(found.graph.node_ids)
    np.testing.assert_array_equal(found.X[order], expected.X)
    names = [
        [None if code < 0 else str(data.class_names[code]) for code in data.y[rows]]
        for data, rows in ((found, order), (expected, slice(None)))
    ]
    assert names[0] == names[1]


def test_partition_of_numbers_is_a_feature_and_of_a_split_the_split(tmp_path, table):
    for number, (split, year) in enumerate([("train", 2019), ("test", 2020)]):
        folder = tmp_path / "data" / f"split={split}" / f"year={year}"
        folder.mkdir(parents=True)
        table.iloc[number::2].to_parquet(folder / "x.parquet", index=False)
    data = load_files(tmp_path / "data", neighbors=2)
    assert data.feature_names.tolist() == ["a", "b", "year"]
    assert set(data.X[:, 2]) == {2019, 2020}
    assert (len(data.train), len(data.test)) == (6, 6)
    only = load_files(tmp_path / "data" / "split=*" / "year=2020", neighbors=2)
    assert only.feature_names.tolist() == ["a", "b", "year"]
    assert len(only.test) == 6


def test_types_are_those_of_all_files(tmp_path, table):
    table["a"] = table["a"].astype(float)
    table.loc[9:, "a"] += 0.5
    table.loc[:2, "b"] = np.nan
    parts = write_parts(table, tmp_path / "parts", [3, 9])
    (tmp_path / "e.csv").write_text("source,target\nn0,n1\n")
    data = load_files(parts, tmp_path / "e.csv", keep_missing=True)
    np.testing.assert_allclose(data.X, table[["a", "b"]])


def test_categories_of_several_files(tmp_path, table):
    folder = tmp_path / "parts"
    folder.mkdir()
    for number, kinds in enumerate(["xy", "yz"]):
        rows = table.iloc[number * 6 : number * 6 + 6].drop(columns="label")
        rows = rows.assign(kind=pd.Categorical(list(kinds) * 3))
        rows.to_parquet(folder / f"{number}.parquet", index=False)
    data = load_files(folder, neighbors=2)
    assert data.feature_names.tolist() == ["a", "b", "kind=x", "kind=y", "kind=z"]
    assert data.X[:, 2:].sum(axis=1).tolist() == [1] * N


def test_errors_name_the_file_and_its_line(tmp_path, table):
    table["b"] = table["b"].astype(object)
    table.loc[5, "b"] = "oops"
    parts = write_parts(table, tmp_path / "parts", [3, 9])
    with pytest.raises(DataError, match=r"part-1\.csv, line 4: 'oops' in column 'b' is not a num"):
        load_files(parts, neighbors=2)
    table.loc[5, "b"] = None
    with pytest.raises(DataError, match=r"part-1\.csv, line 4: the number in column 'b' is miss"):
        load_files(write_parts(table, parts, [3, 9]), neighbors=2)
    table.loc[5, ["b", "id"]] = 1.0, "n0"
    with pytest.raises(DataError, match=r"part-1\.csv, line 4: .*n0"):
        load_files(write_parts(table, parts, [3, 9]), neighbors=2)


def rename_column(folder):
    path = folder / "part-1.csv"
    path.write_text(path.read_text().replace("a,b", "a,c"))


def without_header(folder):
    (folder / "part-1.csv").write_text("7,8,9,1\n")


def partition(folder):
    (folder / "b=1").mkdir()
    (folder / "part-0.csv").rename(folder / "b=1" / "part-0.csv")


@pytest.mark.parametrize(
    ("damage", "name", "message"),
    [
        (rename_column, "", r"part-1\.csv has no column 'b', unlike .*part-0\.csv; all files need"),
        (without_header, "", r"part-1\.csv has no header, unlike .*part-0\.csv; add it there"),
        (partition, "", r"part-1\.csv is not in a folder b=\.\.\., unlike others"),
        (partition, "b=*", r"'b' is a column and a folder b=\.\.\.; rename one"),
        (lambda folder: (folder / "x.parquet").write_bytes(b""), "",
         r"has files of several formats \(\.csv, \.parquet\); give a pattern such as .*\*\.parq"),
        (lambda folder: None, "no*.csv", r"no\*\.csv matches no file; check the pattern"),
        (lambda folder: [path.unlink() for path in folder.iterdir()], "", "contains no file"),
        (lambda folder: (folder / "x.npy").write_bytes(b""), "*.npy",
         r"only \.csv, \.tsv, \.parquet, \.pq files are read from a folder or a pattern, not x"),
    ],
)  # fmt: skip
def test_folders_that_do_not_match_are_refused(tmp_path, table, damage, name, message):
    folder = write_parts(table, tmp_path / "parts", [6])
    damage(folder)
    with pytest.raises(DataError, match=message) as error:
        load_files(folder / name, neighbors=2)
    assert "\n" not in str(error.value)


def test_name_with_wildcards_may_be_a_file(tmp_path, table):
    path = tmp_path / "what[1]*.csv"
    table.to_csv(path, index=False)
    assert load_files(path, neighbors=2).graph.n_nodes == N


@pytest.mark.parametrize(
    ("path", "file", "inside"),
    [
        ("data", "data/out.csv", True),
        ("data", "data/deep/out.csv", True),
        ("data", "out.csv", False),
        ("data", "database.csv", False),
        ("*.csv", "out.csv", True),
        ("*.csv", "out.parquet", False),
        ("data/*.csv", "data/deep/out.csv", False),
        ("data/**/*.csv", "data/deep/er/out.csv", True),
    ],
)
def test_outputs_among_the_inputs_are_noticed(tmp_path, monkeypatch, path, file, inside):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    assert contains_file(Path(path), Path(file)) is inside


def test_dictionary_without_rows_is_joined():
    from gpcanet.files.joined_tables import JoinedTable
    from gpcanet.files.tables import Table

    parts = [Table(Path("p"), pa.table({"k": pa.array([], pa.string())})) for _ in range(2)]
    assert JoinedTable(Path("both"), parts, {}).n_rows == 0


def test_parts_are_in_the_order_of_their_numbers(tmp_path, table):
    for number in range(N):
        table.iloc[[number]].drop(columns="id").to_parquet(tmp_path / f"part.{number}.parquet")
    found = load_files(tmp_path, neighbors=1)
    np.testing.assert_array_equal(found.X[:, 1], table["b"])
