"""A store built from directories of Parquet equals what the local command reads."""

import errno
import os
import shutil
import signal
import subprocess
import sys
import time
import warnings
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from filelock import FileLock, Timeout
from hypothesis import HealthCheck, Phase, given
from hypothesis import strategies as st
from properties import examples
from test_store import flip

from gpcanet.distributed import build, build_store, run
from gpcanet.distributed.build import parquet_parts
from gpcanet.distributed.run import WorkerError
from gpcanet.errors import (
    DataError,
    DataWarning,
    InputError,
    OutputExistsError,
    UnknownNodeError,
)
from gpcanet.files import load_files

N_NODES = 30


def write_parts(folder, table, n_parts):
    """A table as one file, and as a directory of files."""
    folder.mkdir()
    edges = np.linspace(0, len(table), n_parts + 1).astype(int)
    for i in range(n_parts):
        pq.write_table(table.slice(edges[i], edges[i + 1] - edges[i]), folder / f"p{i}.parquet")
    pq.write_table(table, folder.with_suffix(".parquet"))
    return folder


def make_tables(ids, *, weighted, labels, dtype, seed):
    rng = np.random.default_rng(seed)
    names = {
        "numbers": rng.permutation(N_NODES) * 10**12 - 5,
        "text": np.array([f"ä{i}" for i in rng.permutation(N_NODES)], object),
        "none": np.arange(N_NODES),
    }[ids]
    columns = {} if ids == "none" else {"id": names}
    columns |= {f"x{i}": rng.standard_normal(N_NODES).astype(dtype) for i in range(5)}
    classes = np.array([None, "b", "a", "c"], object)[rng.integers(0, 4, N_NODES)]
    classes[:2] = "a", "b"
    if labels == "in features":
        columns["label"] = classes
        columns["split"] = np.array(["train", "test", None], object)[rng.integers(0, 3, N_NODES)]
    pairs = rng.integers(0, N_NODES, (2, 80))  # with self-loops and repeated edges
    edges = {"source": names[pairs[0]], "target": names[pairs[1]]}
    if weighted:
        edges["weight"] = rng.choice([0.0, 0.5, 1.0, 2.25], 80)
    own = {"id": names[::-1][:20], "label": classes[:20]} if labels == "own file" else None
    return [None if table is None else pa.table(table) for table in (columns, edges, own)]


@examples(
    4, suppress_health_check=[HealthCheck.function_scoped_fixture],
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
)  # fmt: skip
@given(
    ids=st.sampled_from(["numbers", "text", "none"]),
    weighted=st.booleans(),
    labels=st.sampled_from(["none", "in features", "own file"]),
    dtype=st.sampled_from([np.float32, np.float64]),
    n_parts=st.tuples(*[st.integers(1, 4)] * 3),
    shard=st.sampled_from([7, 2**24]),
    seed=st.integers(0, 100),
)
def test_it_equals_what_the_local_command_reads(
    client, tmp_path_factory, monkeypatch, ids, weighted, labels, dtype, n_parts, shard, seed
):
    folder = tmp_path_factory.mktemp("build")
    tables = make_tables(ids, weighted=weighted, labels=labels, dtype=dtype, seed=seed)
    names = ("features", "edges", "labels")
    paths = [
        None if table is None else write_parts(folder / name, table, n)
        for name, table, n in zip(names, tables, n_parts, strict=True)
    ]
    monkeypatch.setattr(build, "ENTRIES_PER_SHARD", shard)
    store = build_store(folder / "store", *paths, client=client, columns_per_block=2)
    store.verify()
    data = store.dataset()
    files = [None if path is None else path.with_suffix(".parquet") for path in paths]
    expected = load_files(*files)
    assert data.graph == expected.graph
    np.testing.assert_array_equal(data.X, expected.X)
    assert data.X.dtype == expected.X.dtype
    np.testing.assert_array_equal(data.y, expected.y)
    for part in ("train", "validation", "test"):
        np.testing.assert_array_equal(getattr(data, part), getattr(expected, part))
    np.testing.assert_allclose(store.mean, data.X.mean(axis=0, dtype=float), atol=1e-12)
    assert data.feature_names.tolist() == expected.feature_names.tolist()
    if labels != "none":
        assert data.class_names.tolist() == expected.class_names.tolist()
    assert [path for path in folder.iterdir() if path.name.startswith(".")] == []


@pytest.fixture
def paths(tmp_path):
    tables = make_tables("text", weighted=False, labels="own file", dtype=np.float32, seed=0)
    return {
        name: write_parts(tmp_path / name, table, 3)
        for name, table in zip(("features", "edges", "labels"), tables, strict=True)
    }


def change(path, **columns):
    table = pq.read_table(path)
    for name, values in columns.items():
        table = table.drop([name]) if name in table.column_names else table
        table = table if values is None else table.append_column(name, pa.array(values))
    pq.write_table(table, path)


def test_bad_files_are_named(client, tmp_path, paths):
    target = tmp_path / "store"

    def fails(error, message, **options):
        with pytest.raises(error, match=message):
            build_store(target, **paths | options, client=client)
        assert [path for path in tmp_path.iterdir() if "store" in path.name] == []

    whole = paths["features"].with_suffix(".parquet")
    change(paths["edges"] / "p1.parquet", source=["nobody"] * 27)
    fails(UnknownNodeError, r"p1\.parquet, row 0: node 'nobody' is not in the features \(27 unk")
    build_store(tmp_path / "dropped", **paths, client=client, drop_unknown=True)
    strangers = tmp_path / "strangers.parquet"
    pq.write_table(pa.table({"source": ["nobody"], "target": ["no one"]}), strangers)
    fails(DataError, r"check the ids of .*strangers\.parquet$", edges=strangers, drop_unknown=True)
    change(paths["edges"] / "p1.parquet", source=np.arange(27))
    fails(DataError, r"p1\.parquet: column 'source' has integers, but the features have text")
    (paths["edges"] / "p1.parquet").unlink()
    fails(DataError, r"edges has no part 1, but p2\.parquet; complete the directory")
    ids = pq.read_table(paths["features"] / "p0.parquet")["id"]
    change(paths["features"] / "p2.parquet", id=ids)
    edges = paths["edges"].with_suffix(".parquet")
    fails(DataError, r"p2\.parquet, row \d has the same node id as .*p0\.parquet", edges=edges)
    change(paths["features"] / "p2.parquet", x1=None)
    fails(DataError, r"p2\.parquet has other columns than", edges=edges)
    (tmp_path / "empty").mkdir()
    fails(DataError, "contains no Parquet files", features=whole, edges=tmp_path / "empty")
    fails(DataError, "does not exist; check the name", features=tmp_path / "no")


@pytest.mark.parametrize("ids", ["numbers", "text", "none"])
def test_a_node_with_two_labels_is_named(client, tmp_path, ids):
    tables = make_tables(ids, weighted=False, labels="own file", dtype=np.float32, seed=0)
    features, edges, labels = (
        write_parts(tmp_path / name, table, 3)
        for name, table in zip(("features", "edges", "labels"), tables, strict=True)
    )
    node = pq.read_table(labels / "p0.parquet")["id"][3].as_py()
    nodes = pq.read_table(labels / "p2.parquet")["id"].to_pylist()
    change(labels / "p2.parquet", id=[*nodes[:-1], node])
    with pytest.raises(DataError) as found:
        build_store(tmp_path / "store", features, edges, labels, client=client)
    assert str(found.value) == f"{labels}/p2.parquet: node {node!r} has two labels; remove one row"


def test_parts_have_the_order_of_their_numbers(tmp_path):
    for i in range(12):
        pq.write_table(pa.table({"a": [i]}), tmp_path / f"part.{i}.parquet")
    (tmp_path / "_metadata.parquet").touch()
    assert [p.name for p in parquet_parts(tmp_path)] == [f"part.{i}.parquet" for i in range(12)]


# -- builds that were stopped -----------------------------------------------------------------

BUILDER = """
import sys
from distributed import Client
from gpcanet.distributed import build
build.ENTRIES_PER_SHARD = 20
with Client(sys.argv[1]) as client:
    build.build_store(*sys.argv[2:], client=client, columns_per_block=2)
"""


@pytest.fixture
def built(client, tmp_path, paths, monkeypatch):
    """A function that builds a store, and the files of one that was built undisturbed."""
    monkeypatch.setattr(build, "ENTRIES_PER_SHARD", 20)

    def resume():
        (tmp_path / "new").mkdir(exist_ok=True)
        store = build_store(tmp_path / "new" / "store", *paths.values(), client=client,
                            columns_per_block=2)  # fmt: skip
        return {path.name: path.read_bytes() for path in store.folder.iterdir()}

    expected = resume()
    shutil.rmtree(tmp_path / "new")
    return resume, expected


def records_of(folder):
    return {path: path.stat() for path in folder.glob(".store.build/run-*/*.done.json")}


def kill_build(client, folder, paths, n_records):
    """Start a build in another process, and kill it when this many tasks are finished."""
    folder.mkdir()
    arguments = [client.scheduler.address, folder / "store", *paths.values()]
    process = subprocess.Popen([sys.executable, "-c", BUILDER, *map(str, arguments)])
    while len(records_of(folder)) < n_records and process.poll() is None:
        time.sleep(0.001)
    process.send_signal(signal.SIGKILL)
    process.wait()
    time.sleep(0.3)  # tasks that run already are finished by the workers


def check_build_is_resumed(client, tmp_path, paths, built, monkeypatch, n_records):
    resume, expected = built
    kill_build(client, tmp_path / "new", paths, n_records)
    if (tmp_path / "new" / "store").exists():  # it was complete before it could be killed
        return
    earlier, later, remove = records_of(tmp_path / "new"), {}, build.remove_folder
    if not (tmp_path / "new" / ".store.build" / "store").exists():
        assert len(earlier) >= n_records

    def remove_and_note(folder):  # before the files are moved
        later.update(records_of(tmp_path / "new"))
        remove(folder)

    monkeypatch.setattr(build, "remove_folder", remove_and_note)
    assert resume() == expected
    for path, before in earlier.items():
        assert (later[path].st_ino, later[path].st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["store"]


def test_a_killed_build_is_resumed(client, tmp_path, paths, built, monkeypatch):
    check_build_is_resumed(client, tmp_path, paths, built, monkeypatch, 8)


@pytest.mark.slow
@pytest.mark.parametrize("moment", range(20))
def test_a_build_killed_at_random(client, tmp_path, paths, built, monkeypatch, moment):
    n_records = int(np.random.default_rng(moment).integers(0, 27))
    check_build_is_resumed(client, tmp_path, paths, built, monkeypatch, n_records)


def test_a_stopped_build_is_used_only_for_the_same_files(
    client, tmp_path, paths, built, monkeypatch
):
    resume, expected = built

    complete = build.Run.complete

    def stop(tasks, what, *arguments):
        if what == "joining edges":
            raise KeyboardInterrupt
        return complete(tasks, what, *arguments)

    monkeypatch.setattr(build.Run, "complete", stop)
    with pytest.raises(KeyboardInterrupt):
        resume()
    monkeypatch.setattr(build.Run, "complete", complete)
    part = tmp_path / "new" / ".store.build"
    with (
        FileLock(part / "lock"),
        pytest.raises(InputError, match="another run uses the scratch folder"),
    ):
        resume()
    copy = shutil.copytree(part, tmp_path / "copy")
    [damaged] = part.glob("run-*/edges-0.npy")
    flip(damaged, -1)
    with pytest.warns(DataWarning, match=r"edges-0\.npy is damaged .*; it is computed again"):
        assert resume() == expected
    shutil.rmtree(tmp_path / "new" / "store")
    shutil.move(copy, part)
    change(paths["features"] / "p0.parquet", x4=np.zeros(10, np.float32))
    changed = resume()
    assert changed.keys() == expected.keys()
    assert changed["X2.npy"] != expected["X2.npy"]


def hidden_files(folder):
    return sorted(path.name for path in folder.iterdir() if path.name.startswith("."))


def test_errors_of_the_user_leave_nothing(client, tmp_path, paths):
    change(paths["features"] / "p2.parquet", x4=np.full(10, 1e6, np.float32))
    for options, message in (
        ({"dtype": np.float16}, "features are too large for float16"),
        ({"columns_per_block": 0}, "columns_per_block=0 must be at least 1; the default is 32"),
        ({"weight": "cost"}, "has no column 'cost'"),
    ):
        with pytest.raises(InputError, match=message):
            build_store(tmp_path / "store", **paths, client=client, **options)
        assert hidden_files(tmp_path) == []


def test_a_build_without_memory_is_kept(client, built, tmp_path, monkeypatch):
    resume, expected = built

    def fail(tasks, what, *_):
        raise WorkerError(f"{what}: a worker has not enough memory")

    with monkeypatch.context() as patch:
        patch.setattr(build.Run, "complete", fail)
        with pytest.raises(WorkerError):
            resume()
    assert hidden_files(tmp_path / "new") == [".store.build"]
    assert resume() == expected


@pytest.mark.parametrize("number", range(1, 9, 3))
def test_a_build_stopped_while_its_files_are_moved(built, monkeypatch, number):
    resume, expected = built
    rename, targets = os.rename, []

    def stop(source, target):
        targets.append(target)
        if len(targets) == number:
            raise KeyboardInterrupt
        rename(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(build.os, "rename", stop)
        with pytest.raises(KeyboardInterrupt):
            resume()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert resume() == expected


def test_a_build_killed_after_the_move_leaves_nothing_for_good(built, tmp_path, monkeypatch):
    resume, expected = built
    new = tmp_path / "new"

    def stop(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(build, "remove_scratch", stop)
        with pytest.raises(KeyboardInterrupt):
            resume()
    assert hidden_files(new) == [".store.build"]
    with FileLock(new / ".store.build" / "lock"), pytest.raises(OutputExistsError):
        resume()
    assert hidden_files(new) == [".store.build"]
    with pytest.raises(OutputExistsError):
        resume()
    assert [path.name for path in new.iterdir()] == ["store"]
    assert {path.name: path.read_bytes() for path in (new / "store").iterdir()} == expected


def test_files_of_a_stopped_build_are_kept_beside_another_store(built, tmp_path, monkeypatch):
    resume, expected = built
    move = build.move_folder

    def create_and_move(part, output):
        output.mkdir()
        (output / "file").touch()
        move(part, output)

    monkeypatch.setattr(build, "move_folder", create_and_move)
    with pytest.raises(DataError, match=r"was created meanwhile; the result is in .*build/store"):
        resume()
    with pytest.raises(OutputExistsError):
        resume()
    part = tmp_path / "new" / ".store.build" / "store"
    assert {path.name: path.read_bytes() for path in part.iterdir()} == expected


@pytest.mark.parametrize("moment", ["rmtree", "rmdir"])
def test_a_folder_in_which_another_build_begins_is_kept(built, tmp_path, monkeypatch, moment):
    resume, expected = built
    scratch = tmp_path / "new" / ".store.build"
    other = FileLock(scratch / "lock", timeout=0)
    owner = run.shutil if moment == "rmtree" else Path
    remove = getattr(owner, moment)

    def begin_and_remove(folder, *args, **options):
        if moment == "rmtree":
            remove(folder, *args, **options)
        with suppress(Timeout):
            scratch.mkdir(exist_ok=True)
            other.acquire()
            (scratch / "file").touch()
        if moment == "rmdir":
            remove(folder)

    def note(*folders):
        move(*folders)
        monkeypatch.setattr(owner, moment, begin_and_remove)

    move = build.move_folder
    monkeypatch.setattr(build, "move_folder", note)
    assert resume() == expected
    assert other.is_locked == (moment == "rmdir")
    assert scratch.exists() == other.is_locked
    if other.is_locked:
        assert sorted(path.name for path in scratch.iterdir()) == ["file", "lock"]
        other.release()


def test_a_folder_that_cannot_be_removed_is_an_error(tmp_path, monkeypatch):
    attempts = []

    def rmtree(folder):
        attempts.append(folder)
        raise OSError(errno.ENOTEMPTY, "Directory not empty", str(folder))

    monkeypatch.setattr(run, "REMOVAL_TIMEOUT", 0.2)
    monkeypatch.setattr(run.shutil, "rmtree", rmtree)
    with pytest.raises(OSError, match="Directory not empty"):
        run.remove_folder(tmp_path)
    assert 2 <= len(attempts) <= 6


@pytest.mark.parametrize(
    "case",
    ["split of the features", "label is a column of the features", "id of the labels",
     "id of the features"],
)  # fmt: skip
def test_features_and_labels_of_own_files_equal_the_local_command(client, tmp_path, case):
    tables = make_tables("text", weighted=False, labels="own file", dtype=np.float32, seed=0)
    features, edges, labels = tables
    options = {}
    if case == "split of the features":
        parts = np.array(["train", "test", "validation"])[np.arange(N_NODES) % 3]
        features = features.append_column("split", pa.array(parts))
    elif case == "label is a column of the features":
        labels = labels.rename_columns(["id", "x1"])
    elif case == "id of the labels":
        labels, options = labels.rename_columns(["name", "label"]), {"id_column": "name"}
    else:
        features = features.rename_columns(["name", *features.column_names[1:]])
        options = {"id_column": "name"}
    paths = [
        write_parts(tmp_path / name, table, 2)
        for name, table in zip(
            ("features", "edges", "labels"), (features, edges, labels), strict=True
        )
    ]
    data = build_store(tmp_path / "store", *paths, client=client, **options).dataset()
    expected = load_files(*paths, **options)
    np.testing.assert_array_equal(data.X, expected.X)
    assert data.graph == expected.graph
    for field in ("y", "train", "validation", "test"):
        np.testing.assert_array_equal(getattr(data, field), getattr(expected, field))
    note = "column 'x1' has the name of the label and is not a feature"
    has_note = [any(note in sentence for sentence in found.notes) for found in (data, expected)]
    assert has_note == [case == "label is a column of the features"] * 2


def test_two_splits_are_refused(client, tmp_path, paths):
    for name in ("features", "labels"):
        for path in paths[name].iterdir():
            change(path, split=["train"] * pq.read_metadata(path).num_rows)
    with pytest.raises(DataError, match=r"p\d\.parquet and .*p0\.parquet both have a split"):
        build_store(tmp_path / "store", **paths, client=client)
