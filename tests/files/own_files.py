"""One small attributed graph, written in every format there is."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import scipy.io
import scipy.sparse as sp

from gpcanet.files import load_files

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


# -- three nodes, for tests of single cells ------------------------------------------------------

FEATURES = "id,a,b\nx,1,2\ny,3,4\nz,5,7\n"
EDGES = "source,target\nx,y\ny,z\n"
LABELS = "id,label\nx,red\ny,blue\n"


@dataclass(frozen=True)
class Written:
    """How to write a file, and with which suffix."""

    suffix: str
    to: Callable[[Path], object]


def parquet(**columns):
    return Written("parquet", lambda path: pa.parquet.write_table(pa.table(columns), path))


def npy(array):
    return Written("npy", lambda path: np.save(path, array))


def npz(**arrays):
    return Written("npz", lambda path: np.savez(path, **arrays))


def sparse_npz(matrix, **changed):
    """scipy's npz, some of its arrays replaced."""

    def write_to(path):
        sp.save_npz(path, matrix)
        with np.load(path) as archive:
            arrays = dict(archive) | changed
        np.savez(path, **arrays)

    return Written("npz", write_to)


def put(folder, name, content):
    """Text and bytes as CSV, anything Written as it says, a path as it stands."""
    if content is None or isinstance(content, Path):
        return content
    if isinstance(content, str | bytes):
        path = folder / f"{name}.csv"
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path
    path = folder / f"{name}.{content.suffix}"
    content.to(path)
    return path


def load(folder, *, features=FEATURES, edges=EDGES, labels=None, **options):
    """``load_files`` of contents."""
    contents = {"features": features, "edges": edges, "labels": labels}
    paths = [put(folder, name, content) for name, content in contents.items()]
    return load_files(*paths, **options)
