"""One small attributed graph, written in every format there is."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import scipy.io
import scipy.sparse as sp

N_NODES = 30
N_FEATURES = 5


@dataclass(frozen=True)
class Source:
    """Edges by id, features and labels, all in the order of ``ids``."""

    ids: np.ndarray
    edges: np.ndarray
    weights: np.ndarray
    X: np.ndarray
    labels: np.ndarray

    @property
    def adjacency(self):
        shape = (len(self.ids),) * 2
        half = sp.coo_array((self.weights, tuple(self.edges)), shape=shape)
        return sp.csr_array(half.maximum(half.T))


def make_source(ids):
    """A ring with chords, so that every node has an edge and no edge stands twice."""
    rng = np.random.default_rng(0)
    nodes = np.arange(N_NODES)
    edges = np.concatenate([np.stack([nodes, (nodes + step) % N_NODES]) for step in (1, 7)], axis=1)
    labels = np.array(["red", "green", "blue"], object)[rng.integers(3, size=N_NODES)]
    return Source(
        ids=np.asarray(ids),
        edges=edges,
        # Exact in float32 and in decimal, so that every format keeps them to the last bit.
        weights=rng.integers(1, 64, size=edges.shape[1]) / 32,
        X=rng.integers(-512, 512, size=(N_NODES, N_FEATURES)) / 64,
        labels=labels,
    )


def write(table, path):
    """A dict of columns as CSV, TSV or Parquet."""
    table = pa.table(table)
    if path.suffix == ".parquet":
        pa.parquet.write_table(table, path)
    else:
        delimiter = "\t" if path.suffix == ".tsv" else ","
        options = pa.csv.WriteOptions(delimiter=delimiter)
        pa.csv.write_csv(table, path, options)
    return path


def write_edges(source, path):
    ends = source.ids[source.edges]
    if path.suffix == ".mtx":
        scipy.io.mmwrite(path, source.adjacency)
    elif path.name.endswith(".matrix.npz"):
        sp.save_npz(path, source.adjacency)
    elif path.name.endswith(".pairs.npz"):
        np.savez(path, edge_index=source.edges, edge_weight=source.weights)
    elif path.suffix == ".npz":
        ends = ends.astype(str) if ends.dtype == object else ends
        np.savez(path, source=ends[0], target=ends[1], weight=source.weights)
    else:
        write({"source": ends[0], "target": ends[1], "weight": source.weights}, path)
    return path


def write_features(source, path):
    if path.suffix == ".mtx":
        scipy.io.mmwrite(path, sp.coo_array(source.X))
    elif path.suffix == ".npy":
        np.save(path, source.X)
    elif path.name.endswith(".matrix.npz"):
        sp.save_npz(path, sp.csr_array(source.X))
    elif path.suffix == ".npz":
        ids = source.ids.astype(str) if source.ids.dtype == object else source.ids
        np.savez(path, node_ids=ids, features=source.X)
    else:
        columns = {f"f{i}": source.X[:, i] for i in range(N_FEATURES)}
        write({"id": source.ids, **columns}, path)
    return path


def write_labels(source, path):
    return write({"id": source.ids, "label": source.labels}, path)
