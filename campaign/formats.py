"""A small valid file of every format that is read, and its reader."""

from __future__ import annotations

import gzip
import io
import json
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import scipy.io
import scipy.sparse as sp

from gpcanet import GPCA, GPCAClassifier, GPCARegressor, load_model, save_model
from gpcanet.datasets import block_model, ogb
from gpcanet.datasets.ogb_files import convert, opened
from gpcanet.distributed import Store, write_dataset
from gpcanet.distributed.tasks import read_record, record_path, write_record
from gpcanet.errors import DataError
from gpcanet.files import load_files
from reproduction.cells import Setup, Split
from reproduction.journal import Journal, read_journals


class Format(NamedTuple):
    """A valid file, and its reader.

    ``is_sealed``: a checksum protects the whole content. ``may_crash``: the library that reads it
    may crash on damaged files, so that it is read in a process of its own.
    """

    suffix: str
    content: bytes
    read: Callable[[Path], Any]
    is_sealed: bool = False
    may_crash: bool = False


@cache
def formats() -> dict[str, Format]:
    """One file of every format that is read."""
    data = block_model(30, 80, n_features=5, n_classes=3)
    X, graph = data.X, data.graph
    coo = graph.adjacency.tocoo()
    once = coo.row < coo.col
    ids = np.array([f"n{i}" for i in range(30)])
    features = {"id": ids} | {f"x{j}": X[:, j] for j in range(5)}
    edges = {"source": ids[coo.row[once]], "target": ids[coo.col[once]]}
    labels = {"id": ids, "label": np.array([f"class {y}" for y in data.y])}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        fixed = folder / "fixed"
        fixed.mkdir()
        for part, columns in (("features", features), ("edges", edges)):
            pyarrow.parquet.write_table(pa.table(columns), fixed / f"{part}.parquet")
        kept = {path.name: path.read_bytes() for path in fixed.iterdir()}

        def as_features(path: Path) -> Any:
            return load_files(path, neighbors=2)

        def as_edges(path: Path) -> Any:
            return load_files(_fixed(path, kept, "features.parquet"), path)

        def as_labels(path: Path) -> Any:
            features, edges = (
                _fixed(path, kept, f"{part}.parquet") for part in ("features", "edges")
            )
            return load_files(features, edges, path)

        found = {
            "features csv": Format(".csv", _text(features, ","), as_features),
            "features tsv": Format(".tsv", _text(features, "\t"), as_features),
            "features gz": Format(".csv.gz", gzip.compress(_text(features, ",")), as_features),
            "features parquet": Format(".parquet", kept["features.parquet"], as_features),
            "features npy": Format(".npy", _saved(folder, ".npy", X), as_features),
            "features npz": Format(".npz", _saved(folder, ".npz", X), as_features),
            "features sparse": Format(".npz", _sparse(folder, X), as_features),
            "features mtx": Format(".mtx", _market(folder, sp.coo_array(X)), as_features),
            "edges csv": Format(".csv", _text(edges, ","), as_edges),
            "edges parquet": Format(".parquet", kept["edges.parquet"], as_edges),
            "edges npz": Format(
                ".npz", _arrays(folder, edge_index=np.stack([coo.row, coo.col])), as_edges
            ),
            "edges mtx": Format(".mtx", _market(folder, graph.adjacency), as_edges),
            "labels csv": Format(".csv", _text(labels, ","), as_labels),
            "labels npy": Format(".npy", _saved(folder, ".npy", data.y), as_labels),
        }
        found |= _models(folder, data)
        found |= _anndata(folder, X, graph)
        found |= _networks(folder, data)
        found |= _stores(folder, data)
        found |= _journals(folder)
        found |= _archives(data)
    return found


def _fixed(path: Path, kept: dict[str, bytes], name: str) -> Path:
    target = path.with_name(f"fixed-{name}")
    target.write_bytes(kept[name])
    return target


def _text(columns: dict[str, np.ndarray], mark: str) -> bytes:
    rows = [list(columns), *zip(*(column.tolist() for column in columns.values()), strict=True)]
    return "".join(mark.join(map(str, row)) + "\n" for row in rows).encode()


def _saved(folder: Path, suffix: str, array: np.ndarray) -> bytes:
    path = folder / f"array{suffix}"
    np.save(path, array) if suffix == ".npy" else np.savez(path, features=array)
    return path.read_bytes()


def _arrays(folder: Path, **arrays: np.ndarray) -> bytes:
    path = folder / "arrays.npz"
    np.savez(path, **arrays)  # type: ignore[arg-type]
    return path.read_bytes()


def _sparse(folder: Path, X: np.ndarray) -> bytes:
    sp.save_npz(folder / "sparse.npz", sp.csr_array(X))
    return (folder / "sparse.npz").read_bytes()


def _market(folder: Path, matrix: Any) -> bytes:
    scipy.io.mmwrite(folder / "matrix.mtx", matrix)
    return (folder / "matrix.mtx").read_bytes()


def _models(folder: Path, data: Any) -> dict[str, Format]:
    y = np.where(np.arange(30) < 20, data.y, -1)
    numbers = np.where(np.arange(30) < 20, data.X[:, 0], np.nan)
    models: dict[str, Any] = {
        "GPCA": GPCA(3, keep_training_nodes=True).fit(data.X, graph=data.graph),
        "GPCAClassifier": GPCAClassifier(3, alpha=2.0).fit(data.X, y, graph=data.graph),
        "GPCARegressor": GPCARegressor(3, alpha=2.0).fit(data.X, numbers, graph=data.graph),
    }
    found = {}
    for name, model in models.items():
        path = folder / f"{name}.safetensors"
        save_model(model, path)

        def read(path: Path) -> Any:
            loaded = load_model(path)
            use = loaded.transform if isinstance(loaded, GPCA) else loaded.predict
            return use(data.X, graph=data.graph)

        found[f"model {name}"] = Format(".safetensors", path.read_bytes(), read, True)
    return found


def _anndata(folder: Path, X: np.ndarray, graph: Any) -> dict[str, Format]:
    try:
        import anndata
    except ImportError:
        return {}
    path = folder / "cells.h5ad"
    anndata.AnnData(X, obsp={"connectivities": sp.csr_matrix(graph.adjacency)}).write_h5ad(path)
    return {"features h5ad": Format(".h5ad", path.read_bytes(), load_files, may_crash=True)}


def _networks(folder: Path, data: Any) -> dict[str, Format]:
    try:
        from gpcanet.nn import GCN, NodeData, Settings, TrainedNetwork, train
        from gpcanet.nn import load_model as load_network
        from gpcanet.nn import save_model as save_network
    except ImportError:
        return {}
    nodes = NodeData.of(data)
    network = GCN(5, 4, 3)
    state = folder / "state.safetensors"
    train(network, nodes, Settings(epochs=2), checkpoint=state)
    path = folder / "network.safetensors"
    save_network(TrainedNetwork(network), path)

    def read_network(path: Path) -> Any:
        loaded = load_network(path)
        return np.concatenate([p.detach().numpy().ravel() for p in loaded.model.parameters()])

    def resume(path: Path) -> Any:
        return train(GCN(5, 4, 3), nodes, Settings(epochs=2), checkpoint=path).accuracy["test"]

    return {
        "model network": Format(".safetensors", path.read_bytes(), read_network, True),
        "checkpoint": Format(".safetensors", state.read_bytes(), resume, True),
    }


def _stores(folder: Path, data: Any) -> dict[str, Format]:
    store = write_dataset(data, folder / "store", columns_per_block=3).folder
    files = {path.name: path.read_bytes() for path in store.iterdir()}

    def reader(name: str) -> Callable[[Path], Any]:
        def read(path: Path) -> Any:
            place = path.with_name("store")
            place.mkdir(exist_ok=True)
            for other, content in files.items():
                (place / other).write_bytes(path.read_bytes() if other == name else content)
            found = Store.open(place)
            found.verify()
            loaded = found.dataset()
            return np.concatenate([loaded.X.ravel(), loaded.graph.indices, loaded.y])

        return read

    return {
        f"store {name}": Format(".part", files[name], reader(name), True)
        for name in ("manifest.json", "indptr.npy", "indices.npy", "X1.npy", "labels.npy")
    }


def _journals(folder: Path) -> dict[str, Format]:
    """A journal of the reproduction, whose damaged lines are skipped, and a record of a task."""
    cells = [Setup.of("gcn", "cora", layers=n).cell(Split(), 0) for n in (2, 3)]
    with Journal(folder / "journal.jsonl") as journal:
        for number, cell in enumerate(cells):
            journal.append(cell, {"status": "done", "accuracy": number / 4})
    written = read_journals([journal.path]).records

    def read_journal(path: Path) -> bool:
        with Journal(path) as again:
            found = again.contents.records
        return all(written.get(cell) == record for cell, record in found.items())

    write_record(folder, "F0", {"array": {"file": "F0.npy", "bytes": 100}, "residual": 1e-6})
    record = record_path(folder, "F0").read_bytes()

    def read_task(path: Path) -> str:
        record_path(path.parent, "F0").write_bytes(path.read_bytes())
        found = read_record(path.parent, "F0")
        if found is None:
            raise DataError("the task is not finished")
        return json.dumps(found)

    return {
        "journal": Format(".jsonl", journal.path.read_bytes(), read_journal, True),
        "task record": Format(".json", record, read_task, True),
    }


def _archives(data: Any) -> dict[str, Format]:
    """An archive of OGB with a small graph."""
    coo, n = data.graph.adjacency.tocoo(), len(data.y)
    once = np.stack([coo.row, coo.col])[:, coo.row < coo.col]
    name = "ogbn-arxiv"
    layout = ogb.LAYOUTS[name]._replace(n_listed_edges=once.shape[1])
    about = replace(
        ogb.ABOUT[name], n_nodes=n, n_edges=once.shape[1], n_features=data.X.shape[1], n_classes=3
    )
    tables: dict[str, Any] = {
        "raw/edge": once.T, "raw/node-feat": data.X, "raw/node-label": data.y[:, None],
        "raw/num-node-list": [[n]], "raw/num-edge-list": [[once.shape[1]]],
        "split/time/train": data.train[:, None], "split/time/valid": data.validation[:, None],
        "split/time/test": data.test[:, None],
        "mapping/labelidx2arxivcategeory": [["", ""], [0, "a"], [1, "b"], [2, "c"]],
    }  # fmt: skip
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("arxiv/", b"")
        for member, rows in tables.items():
            text = "".join(",".join(map(str, row)) + "\n" for row in rows)
            archive.writestr(f"arxiv/{member}.csv.gz", gzip.compress(text.encode(), mtime=0))

    def read(path: Path) -> Any:
        with opened(path, layout) as published, tempfile.TemporaryDirectory() as name:
            convert(published, Path(name), about, layout)
            parts = ("X", "y", "indptr", "indices", "train", "test")
            return np.concatenate([np.load(Path(name) / f"{part}.npy").ravel() for part in parts])

    return {"ogb archive": Format(".zip", packed.getvalue(), read, True)}
