"""The same graph through every format is the same graph, and ids come back as they were."""

from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest
from own_files import N_NODES, make_source, write_edges, write_features, write_labels

from gpcanet import GPCA, Graph
from gpcanet.files import load_files, write_embedding

IDS = {
    "integers": np.arange(N_NODES)[::-1] * 10 - 50,
    "text": np.array([f"paper {i}, no. {i % 7}" for i in range(N_NODES)], object),
    "zeros": np.array([f"{i:03d}" for i in range(N_NODES)], object),
    "unicode": np.array([f"節点-{i}-é" for i in range(N_NODES)], object),
}
WITH_IDS = ("csv", "csv.gz", "tsv", "parquet", "npz")
EDGE_FORMATS = (*WITH_IDS, "pairs.npz", "matrix.npz", "mtx")
FEATURE_FORMATS = (*WITH_IDS, "npy", "matrix.npz", "mtx")


def truth(source):
    graph = Graph(source.adjacency)
    return GPCA(3).fit_transform(source.X, graph=graph)


def packed(path, write, source):
    """Write, and compress where the name says so."""
    if path.suffix != ".gz":
        return write(source, path)
    import gzip

    plain = write(source, path.with_suffix(""))
    path.write_bytes(gzip.compress(plain.read_bytes()))
    return path


@pytest.mark.parametrize("edges", EDGE_FORMATS)
@pytest.mark.parametrize("features", FEATURE_FORMATS)
def test_every_pair_of_formats_gives_the_same_embedding(tmp_path, edges, features):
    # Where a file has no ids, ids are the numbers of the rows.
    source = make_source(np.arange(N_NODES))
    data = load_files(
        packed(tmp_path / f"features.{features}", write_features, source),
        packed(tmp_path / f"edges.{edges}", write_edges, source),
    )
    Z = GPCA(3).fit_transform(data.X, graph=data.graph)
    np.testing.assert_allclose(Z, truth(source), rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", IDS)
@pytest.mark.parametrize(
    ("edges", "features", "labels"),
    [
        ("csv", "csv", "csv"),
        ("csv", "parquet", "tsv"),
        ("parquet", "csv", "parquet"),
        ("tsv", "npz", "csv"),
        ("npz", "tsv", "parquet"),
    ],
)
def test_ids_join_files_and_are_written_unchanged(tmp_path, kind, edges, features, labels):
    source = make_source(IDS[kind])
    shuffled = np.random.default_rng(1).permutation(N_NODES)
    known = make_source(IDS[kind])
    data = load_files(
        write_features(source, tmp_path / f"features.{features}"),
        write_edges(source, tmp_path / f"edges.{edges}"),
        write_labels(replace(known, ids=known.ids[shuffled], labels=known.labels[shuffled]),
                     tmp_path / f"labels.{labels}"),
    )  # fmt: skip
    assert data.graph.node_ids.tolist() == source.ids.tolist()
    assert data.class_names[data.y].tolist() == source.labels.tolist()
    Z = GPCA(3).fit_transform(data.X, graph=data.graph)
    np.testing.assert_allclose(Z, truth(source), rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", IDS)
@pytest.mark.parametrize("suffix", ["parquet", "csv", "npz"])
def test_embedding_written_and_read_again_has_the_same_ids_and_numbers(tmp_path, kind, suffix):
    source = make_source(IDS[kind])
    graph = Graph(source.adjacency, node_ids=source.ids)
    Z = GPCA(3).fit_transform(source.X, graph=graph)
    path = tmp_path / f"z.{suffix}"
    write_embedding(path, graph, Z)
    again = load_files(path, neighbors=3)
    assert again.graph.node_ids.tolist() == source.ids.tolist()
    np.testing.assert_array_equal(again.X, Z)


def test_embedding_in_parquet_is_a_plain_table(tmp_path):
    source = make_source(IDS["text"])
    graph = Graph(source.adjacency, node_ids=source.ids)
    write_embedding(tmp_path / "z.parquet", graph, source.X.astype(np.float32), id_name="paper")
    table = pq.read_table(tmp_path / "z.parquet")
    assert table.column_names == ["paper", "gpca0", "gpca1", "gpca2", "gpca3", "gpca4"]
    assert str(table.schema.field("gpca0").type) == "float"
