"""Damaged files of every format: one sentence, or an answer, but never a crash or a hang."""

from __future__ import annotations

import gzip
import multiprocessing
import os
import resource
import signal
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import scipy.io
import scipy.sparse as sp

from gpcanet import GPCA, GPCAClassifier, GPCARegressor, load_model, save_model
from gpcanet.datasets import block_model
from gpcanet.errors import UserError
from gpcanet.files import load_files

from .inputs import Rng, choose

#: Seconds after which a reader counts as hanging.
TIMEOUT = 30

#: Memory that a reader may use beyond what the process has, in bytes. All files are small.
MEMORY = 2 << 30

#: Integers that damage lengths, offsets and counts.
EXTREMES = (0, 1, 0x7F, 0xFF, 0x7FFF, 0xFFFF, 2**31 - 1, 2**31, 2**32 - 1, 2**62, 2**63 - 1)


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


def mutate(rng: Rng, content: bytes) -> bytes:
    """The content with one to three random damages."""
    data = bytearray(content)
    for _ in range(int(rng.integers(1, 4))):
        at = int(rng.integers(len(data))) if data else 0
        size = int(min(10 ** rng.uniform(0, 3), len(data)))
        kind = choose(
            rng, "flip", "flip", "cut", "delete", "repeat", "random", "number", "number", "text"
        )
        if kind == "flip" and data:
            data[at] ^= 1 << int(rng.integers(8))
        elif kind == "cut":
            del data[at:]
        elif kind == "delete":
            del data[at : at + size]
        elif kind == "repeat":
            data[at:at] = data[at : at + size] * int(rng.integers(1, 20))
        elif kind == "random":
            data[at : at + size] = rng.bytes(size)
        elif kind == "number":
            width = int(choose(rng, 1, 2, 4, 8))
            value = int(choose(rng, *EXTREMES)) % 256**width
            data[at : at + width] = value.to_bytes(width, str(choose(rng, "little", "big")))
        else:
            words = (b"9" * 30, b"-1", b"nan", b"1e400", b'"', b"\n", b"\0", b",,,", b"\xff\xfe")
            data[at : at + int(choose(rng, 0, size))] = choose(rng, *words)
    return bytes(data)


def check_file(rng: Rng) -> str:
    """One damaged file."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of libraries that write the valid files
        formats()
    name, one = choose(rng, *formats().items())
    damaged = mutate(rng, one.content)
    with tempfile.TemporaryDirectory(prefix="campaign-") as folder:
        path = Path(folder) / f"file{one.suffix}"
        path.write_bytes(damaged)
        signal.signal(signal.SIGALRM, _raise_timeout)
        signal.alarm(TIMEOUT)
        try:
            with warnings.catch_warnings(), limited_memory():
                warnings.simplefilter("ignore")
                answer = _read_in_child(one, path) if one.may_crash else one.read(path)
        except (UserError, OSError) as error:
            _check_message(str(error))
            return f"{name}, refused"
        finally:
            signal.alarm(0)
        if one.is_sealed:
            path.write_bytes(one.content)
            assert np.array_equal(answer, one.read(path)), "a damaged file gives another answer"
    return f"{name}, read"


def _check_message(message: str) -> None:
    assert "\n" not in message.strip(), f"several lines: {message}"
    assert len(message) < 1000, f"a message of {len(message)} characters"


def _read_in_child(one: Format, path: Path) -> Any:
    """Read in a forked process, whose crash is not a failure; other errors are raised here."""
    ours, theirs = multiprocessing.Pipe(duplex=False)
    if os.fork() == 0:
        try:
            one.read(path)
            theirs.send(None)
        except BaseException as error:
            theirs.send(error if isinstance(error, UserError) else repr(error))
        os._exit(0)
    theirs.close()
    try:
        complaint = ours.recv()
    except EOFError:
        raise OSError("the library crashed") from None
    finally:
        os.wait()
    if isinstance(complaint, UserError):
        raise complaint
    assert complaint is None, complaint


def _raise_timeout(*_: Any) -> None:
    raise TimeoutError(f"no answer after {TIMEOUT} s")


@contextmanager
def limited_memory() -> Iterator[None]:
    """Limit the address space of this process to what it has and ``MEMORY``."""
    with open("/proc/self/statm") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
