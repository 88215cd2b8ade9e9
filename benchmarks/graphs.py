"""Generated graphs, made once and kept as .npy, and published ones where they can be had."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from gpcanet.datasets import Dataset, DataUnavailableError, block_model, load
from gpcanet.graph import Graph

from .measure import Outcome, reason_of
from .setting import Setting, Shape


def folder_of(shape: Shape, work_dir: Path) -> Path:
    counts = (shape.n_nodes, shape.n_edges, shape.n_features, shape.n_classes)
    return work_dir / "-".join(map(str, ("blocks", *counts)))


def generate(shape: Shape) -> Dataset:
    return block_model(
        shape.n_nodes, shape.n_edges, n_features=shape.n_features, n_classes=shape.n_classes
    )


def write(shape: Shape, folder: Path) -> None:
    """Generate a graph and write its arrays to a folder, for ``read``."""
    data = generate(shape)
    arrays = {"indptr": data.graph.indptr, "indices": data.graph.indices, "X": data.X}
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", np.asarray(array))


def read(folder: Path, n_features: int | None = None) -> Dataset:
    """A kept graph in memory, with the first so many of its features. Its labels are not kept."""
    arrays = {
        name: np.load(folder / f"{name}.npy", mmap_mode="r") for name in ("indptr", "indices", "X")
    }
    X = np.array(arrays["X"][:, :n_features], order="C")
    graph = Graph.from_csr(*(np.array(arrays[n]) for n in ("indptr", "indices")), validate=False)
    return Dataset("generated", graph, X, np.full(len(X), -1))


def published(setting: Setting) -> tuple[list[Dataset], dict[str, Outcome]]:
    """The citation graphs that can be had, and why not the others."""
    found, skipped = [], {}
    for name in setting.size.real:
        try:
            found.append(load(name, setting.data_dir, offline=setting.offline))
        except DataUnavailableError as error:
            skipped[name] = {"skipped": reason_of(error)}
            setting.tell(f"{name} is skipped: {error}")
    return found, skipped
