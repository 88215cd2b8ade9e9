"""Results on disk: they come back, and nothing is lost if writing fails."""

import errno
import os

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

import gpcanet.files.output
from gpcanet import Graph
from gpcanet.errors import DataError
from gpcanet.files import check_output, write_embedding, write_predictions
from gpcanet.files.output import write_table

SUFFIXES = ("parquet", "csv", "npz")
ADJACENCY = np.ones((3, 3)) - np.eye(3)
Z = np.array([[0.1, 1 / 3], [-2.5e-30, 4.0], [5.0, 1e30]])
PROBABILITIES = np.array([[0.75, 0.25], [0.5, 0.5], [0.125, 0.875]])
CLASSES = {
    "text": np.array(["bird, small", 'a "fish"'], object),
    "fixed text": np.array(["bird", "fish"]),
    "integers": np.array([3, 7]),
}


def graph_of(*names):
    ids = np.empty(len(names), object)
    ids[:] = names
    return Graph(ADJACENCY, node_ids=ids)


def read(path):
    """All that a file holds, as arrays by name."""
    if path.suffix == ".npz":
        with np.load(path, allow_pickle=False) as archive:
            return dict(archive)
    table = pa.csv.read_csv(path) if path.suffix == ".csv" else pa.parquet.read_table(path)
    return {name: table[name].to_numpy() for name in table.column_names}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_embedding_survives_a_round_trip(tmp_path, suffix, dtype):
    path = tmp_path / f"z.{suffix}"
    write_embedding(path, graph_of("x", 'y "1", 2', "節"), Z.astype(dtype))
    found = read(path)
    ids = found.pop("node_ids" if suffix == "npz" else "id")
    assert ids.tolist() == ["x", 'y "1", 2', "節"]
    again = found["embedding"] if suffix == "npz" else np.stack(list(found.values()), axis=1)
    if suffix != "csv":
        assert again.dtype == dtype
    np.testing.assert_array_equal(again.astype(dtype), Z.astype(dtype))


@pytest.mark.parametrize("kind", CLASSES)
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_predictions_survive_a_round_trip(tmp_path, suffix, kind):
    classes = CLASSES[kind]
    path = tmp_path / f"p.{suffix}"
    write_predictions(path, Graph(ADJACENCY), classes, PROBABILITIES)
    found = read(path)
    best = classes[[0, 0, 1]].tolist()
    assert found["predicted"].tolist() == best
    if suffix == "npz":
        assert found["node_ids"].tolist() == [0, 1, 2]
        assert found["classes"].tolist() == classes.tolist()
        np.testing.assert_array_equal(found["probabilities"], PROBABILITIES)
    else:
        names = [f"p({name})" for name in classes]
        assert list(found) == ["id", "predicted", "probability", *names]
        np.testing.assert_array_equal(found["probability"], PROBABILITIES.max(axis=1))
        np.testing.assert_array_equal(np.stack([found[n] for n in names], axis=1), PROBABILITIES)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_integer_objects_stay_integers(tmp_path, suffix):
    path = tmp_path / f"z.{suffix}"
    write_embedding(path, graph_of(10, np.int32(20), -30), Z)
    ids = read(path)["node_ids" if suffix == "npz" else "id"]
    assert ids.dtype == np.int64
    assert ids.tolist() == [10, 20, -30]


BAD_IDS = {
    "tuples": ((1, 2), (3, 4), (5, 6)),
    "fractions": (0.5, 1.5, 2.5),
    "bytes": (b"a", b"b", b"c"),
    "text and integers": ("a", 1, "b"),
    "truths and text": (True, "a", "b"),
    "beyond 64 bits": (2**70, 1, 2),
}


@pytest.mark.parametrize("kind", BAD_IDS)
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_ids_that_cannot_be_stored_raise_data_error(tmp_path, suffix, kind):
    pattern = rf"z\.{suffix}: '.*' contains .*; use only text, or only integers of 64 bits"
    with pytest.raises(DataError, match=pattern):
        write_embedding(tmp_path / f"z.{suffix}", graph_of(*BAD_IDS[kind]), Z)
    assert os.listdir(tmp_path) == []


def test_text_that_a_format_would_change_is_refused(tmp_path):
    with pytest.raises(DataError, match="ends in NUL, which npz cannot store"):
        write_embedding(tmp_path / "z.npz", graph_of("a", "b\0", "c"), Z)
    for suffix in ("csv", "parquet"):
        with pytest.raises(DataError, match="contains text that is not valid Unicode"):
            write_embedding(tmp_path / f"z.{suffix}", graph_of("a", "\ud800", "c"), Z)
    assert os.listdir(tmp_path) == []


def test_id_column_must_not_have_the_name_of_a_result(tmp_path):
    with pytest.raises(DataError, match="the id column cannot be called 'gpca0'"):
        write_embedding(tmp_path / "z.csv", graph_of(1, 2, 3), Z, id_name="gpca0")
    with pytest.raises(DataError, match="the id column cannot be called 'predicted'"):
        write_predictions(tmp_path / "p.csv", graph_of(1, 2, 3), CLASSES["text"], PROBABILITIES,
                          id_name="predicted")  # fmt: skip
    # Other results have no such column, and an npz has no columns.
    write_embedding(tmp_path / "z.csv", graph_of(1, 2, 3), Z, id_name="predicted")
    write_embedding(tmp_path / "z.npz", graph_of(1, 2, 3), Z, id_name="gpca0")


# -- old files ----------------------------------------------------------------------------------

OLD = b"the old content"


@pytest.fixture(params=SUFFIXES)
def target(request, tmp_path):
    path = tmp_path / f"z.{request.param}"
    path.write_bytes(OLD)
    return path


def untouched(path):
    return path.read_bytes() == OLD and os.listdir(path.parent) == [path.name]


def test_file_is_replaced_only_with_overwrite(target):
    with pytest.raises(FileExistsError, match=rf"{target.name} exists; choose another name"):
        write_embedding(target, Graph(ADJACENCY), Z)
    with pytest.raises(FileExistsError):
        check_output(target)
    assert untouched(target)
    assert check_output(target, overwrite=True) == target
    write_embedding(target, Graph(ADJACENCY), Z, overwrite=True)
    assert len(read(target)) >= 2


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left"), KeyboardInterrupt()])
def test_write_that_fails_leaves_the_old_file(target, monkeypatch, error):
    def fail(*args, **kwargs):
        file = next(a for a in args if hasattr(a, "write"))
        file.write(b"half of the new content")
        file.flush()
        raise error

    monkeypatch.setattr(np, "savez", fail)
    monkeypatch.setattr(pa.csv, "CSVWriter", fail)
    monkeypatch.setattr(pa.parquet, "ParquetWriter", fail)
    with pytest.raises(type(error)):
        write_embedding(target, Graph(ADJACENCY), Z, overwrite=True)
    assert untouched(target)


@pytest.mark.parametrize("name", ["z", "z.txt", "z.npy", "z.gz", "z.npz.gz"])
def test_unknown_suffix_of_results_raises_data_error(tmp_path, name):
    with pytest.raises(
        DataError, match=r"results must be a \.parquet, \.csv, \.csv\.gz, \.npz, \.h5ad"
    ):
        check_output(tmp_path / name)


def test_results_need_a_folder(tmp_path):
    with pytest.raises(
        FileNotFoundError, match=r"folder .*missing does not exist; create it first"
    ):
        check_output(tmp_path / "missing" / "z.csv")


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
@pytest.mark.parametrize("n_rows", [1, 5, 8, 9])
def test_large_results_are_written_in_blocks(tmp_path, monkeypatch, suffix, n_rows):
    monkeypatch.setattr(gpcanet.files.output, "BYTES_PER_TABLE", 4 * 16)  # four rows
    path = tmp_path / f"z.{suffix}"
    ids = np.array([f"n{i}" for i in range(n_rows)], object)
    write_table(path, {"id": ids, "z0": np.arange(n_rows) / 4})
    read = pa.parquet.read_table(path) if suffix == "parquet" else pa.csv.read_csv(path)
    assert read.column("id").to_pylist() == ids.tolist()
    assert read.column("z0").to_pylist() == [i / 4 for i in range(n_rows)]


@pytest.mark.parametrize("name", ["a\0b", "a\ud800"])
def test_ids_that_h5ad_cannot_store_are_an_error(tmp_path, name):
    pytest.importorskip("anndata")
    with pytest.raises(DataError, match="has a character that h5ad files cannot store; rename it"):
        write_embedding(tmp_path / "z.h5ad", graph_of("a", "b", name), Z)
    assert list(tmp_path.iterdir()) == []
