"""A store holds exactly what was written, mapped, and notices damage."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from properties import examples
from truth import KINDS, random_features, random_graph, random_labels

from gpcanet import GPCA, Graph
from gpcanet.datasets import Dataset
from gpcanet.distributed import Store
from gpcanet.distributed.writing import write_dataset
from gpcanet.errors import DataError, InputError, InputTypeError, OutputExistsError
from gpcanet.utils import array_files


def make_dataset(kind="isolated", d=6, dtype=np.float64, ids=None, seed=0):
    graph = random_graph(**KINDS[kind], seed=seed)
    if ids is not None:
        graph = Graph.from_csr(
            graph.indptr, graph.indices, graph.weights, node_ids=ids, validate=False
        )
    X = random_features(d=d, seed=seed).astype(dtype)
    train, validation, test = np.split(np.arange(40), [10, 20])
    return Dataset(
        "made", graph, X, random_labels(), train, validation, test,
        class_names=np.array(["a", "b", "c"]),
        feature_names=np.array([f"x{i}" for i in range(d)], object),
    )  # fmt: skip


IDS = {
    "none": None,
    "numbers": np.arange(40)[::-1] * 10**15,
    "text": np.array([f"näme {i}" * (i % 3) + str(i) for i in range(40)], object),
}


@examples(10)
@given(
    kind=st.sampled_from(list(KINDS)),
    d=st.integers(1, 9),
    width=st.integers(1, 10),
    ids=st.sampled_from(list(IDS)),
    dtype=st.sampled_from([np.float16, np.float32, np.float64]),
    seed=st.integers(0, 5),
)
def test_a_store_gives_back_what_was_written(tmp_path_factory, kind, d, width, ids, dtype, seed):
    data = make_dataset(kind, d, dtype, IDS[ids], seed)
    folder = tmp_path_factory.mktemp("stores") / "store"
    store = write_dataset(data, folder, columns_per_block=width)
    again = Store.open(folder).dataset()
    store.verify()
    if data.graph.weights is None or dtype == np.float64:
        assert again.graph == data.graph
    else:  # weights have the precision of the features
        np.testing.assert_allclose(again.graph.weights, data.graph.weights, rtol=1e-7)
    np.testing.assert_array_equal(again.X, data.X)
    np.testing.assert_array_equal(again.y, data.y)
    for part in ("train", "validation", "test"):
        np.testing.assert_array_equal(getattr(again, part), getattr(data, part))
    np.testing.assert_allclose(store.mean, data.X.mean(axis=0, dtype=float), rtol=1e-12, atol=1e-12)
    assert store.n_nodes == 40
    assert [s.stop - s.start for s in store.blocks][:-1] == [width] * (len(store.blocks) - 1)
    assert store.blocks[-1].stop == d
    for rows in (slice(0, 40), slice(3, 11), slice(39, 40)):
        expected = np.arange(40) if IDS[ids] is None else IDS[ids]
        assert store.ids(rows).tolist() == expected[rows].tolist()


def test_arrays_are_mapped(tmp_path):
    write_dataset(make_dataset(), tmp_path / "store")
    graph = Graph.open(tmp_path / "store")
    for array in (graph.indptr, graph.indices, graph.weights):
        assert isinstance(array.base, np.memmap)
        assert not array.flags.writeable


def test_the_local_estimator_reads_a_store(tmp_path):
    data = make_dataset()
    again = write_dataset(data, tmp_path / "store").dataset()
    model = GPCA(3)
    np.testing.assert_array_equal(
        model.fit_transform(data.X, graph=data.graph),
        model.fit_transform(again.X, graph=again.graph),
    )


def test_labels_of_ghost_edges_are_those_of_the_training_nodes(tmp_path):
    data = make_dataset()
    store = write_dataset(data, tmp_path / "store")
    np.testing.assert_array_equal(store.labels(), data.visible_labels(validation=False))


def flip(path, offset):
    content = bytearray(path.read_bytes())
    content[offset] ^= 1
    path.write_bytes(content)


@examples(10)
@given(data=st.data())
def test_every_flipped_byte_is_noticed_and_named(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("stores") / "store"
    write_dataset(make_dataset(ids=IDS["text"]), folder, columns_per_block=4)
    path = data.draw(st.sampled_from(sorted(folder.iterdir())))
    flip(path, data.draw(st.integers(0, path.stat().st_size - 1)))
    with pytest.raises(DataError, match=path.name):
        Store.open(folder).verify()


def test_a_damaged_shard_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(array_files, "SHARD_BYTES", 64)
    store = write_dataset(make_dataset(), tmp_path / "store")
    assert len(store.arrays["indptr"]["crc32"]) == (128 + 41 * 8 + 63) // 64
    flip(tmp_path / "store" / "indptr.npy", 200)
    with pytest.raises(DataError, match=r"indptr\.npy is damaged in its bytes 192 to 255: .*build"):
        store.verify()


@pytest.mark.parametrize("change", ["missing", "shorter"])
def test_a_missing_or_cut_file_is_named(tmp_path, change):
    store = write_dataset(make_dataset(), tmp_path / "store")
    path = tmp_path / "store" / "indices.npy"
    content = path.read_bytes()
    path.unlink()
    if change == "shorter":
        path.write_bytes(content[:-8])
    with pytest.raises(DataError, match=r"indices\.npy (is missing|has .* bytes instead of)"):
        store.graph()


def test_folders_that_are_no_stores(tmp_path):
    with pytest.raises(DataError, match=r"is not a store of GPCANet: it has no manifest\.json"):
        Store.open(tmp_path)
    write_dataset(make_dataset(), tmp_path / "store")
    manifest = tmp_path / "store" / "manifest.json"
    content = json.loads(manifest.read_text())
    for change, message in [
        ({"format": 99}, "newer than this version"),
        ({"kind": "zoo"}, "is a zoo of GPCANet, not a store"),
        ({"mean": [0.0]}, "does not match its checksum"),
    ]:
        manifest.write_text(json.dumps(content | change))
        with pytest.raises(DataError, match=message):
            Store.open(tmp_path / "store")


def test_what_cannot_be_stored(tmp_path):
    data = make_dataset()
    write_dataset(data, tmp_path / "store")
    with pytest.raises(OutputExistsError):
        write_dataset(data, tmp_path / "store")
    with pytest.raises(FileNotFoundError, match="does not exist; create it first"):
        write_dataset(data, tmp_path / "no" / "store")
    with pytest.raises(InputError, match="columns_per_block=0 must be at least 1; the default is"):
        write_dataset(data, tmp_path / "new", columns_per_block=0)
    ids = np.empty(40, object)
    ids[:] = [(1, 2)] * 40
    with pytest.raises(InputTypeError, match=r"node id \(1, 2\) cannot be stored"):
        write_dataset(make_dataset(ids=ids), tmp_path / "tuples")
    large = Dataset("m", data.graph, data.X * 1e6, data.y)
    with pytest.raises(InputError, match="too large for float16; store them in float32"):
        write_dataset(large, tmp_path / "half", dtype=np.float16)
    with pytest.raises(InputError, match="int32 must be float16, float32 or float64"):
        write_dataset(data, tmp_path / "ints", dtype=np.int32)
    assert [path.name for path in tmp_path.iterdir()] == ["store"]


def test_ids_that_are_not_unicode_are_an_error(tmp_path):
    ids = np.array(["a", "b", "c\ud800"], object)
    graph = Graph(np.ones((3, 3)) - np.eye(3), node_ids=ids)
    data = Dataset("d", graph, np.ones((3, 1)), np.full(3, -1))
    with pytest.raises(DataError, match=r"node id 'c.ud800' is not valid Unicode; rename it"):
        write_dataset(data, tmp_path / "store")
