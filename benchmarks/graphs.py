"""Generated graphs, stored as .npy files, and published datasets."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import numpy as np

from gpcanet.datasets import Dataset, DataUnavailableError, block_model, load
from gpcanet.graph import Graph
from gpcanet.utils.atomic import atomic_folder

from . import child
from .config import Config, GraphShape
from .timing import Outcome, reason_of


def folder_of(shape: GraphShape, work_dir: Path) -> Path:
    counts = (shape.n_nodes, shape.n_edges, shape.n_features, shape.n_classes)
    return work_dir / "-".join(map(str, ("blocks", *counts)))


def generate(shape: GraphShape) -> Dataset:
    return block_model(
        shape.n_nodes, shape.n_edges, n_features=shape.n_features, n_classes=shape.n_classes
    )


def stored_graph(shape: GraphShape, config: Config) -> Path:
    """The folder of a generated graph; generated in a new process if it does not exist."""
    folder = folder_of(shape, config.work_dir)
    if not folder.is_dir():
        config.work_dir.mkdir(parents=True, exist_ok=True)
        config.log(f"generating {shape.n_nodes:,} nodes and {shape.n_edges:,} edges")
        # The folder is created here and not in the child, so that an interrupt removes it.
        with atomic_folder(folder) as part:
            outcome = child.run_in_process("graphs.write", shape=asdict(shape), folder=str(part))
            if outcome:
                raise RuntimeError(f"the graph was not generated: {outcome}")
    return folder


def write(shape: dict[str, int], folder: str) -> Outcome:
    """Generate a graph and write its arrays to a folder, for ``read``."""
    data = generate(GraphShape(**shape))
    arrays = {"indptr": data.graph.indptr, "indices": data.graph.indices, "X": data.X}
    for name, array in arrays.items():
        np.save(Path(folder) / f"{name}.npy", np.asarray(array))
    return {}


def read(folder: Path, n_features: int | None = None) -> Dataset:
    """A stored graph with its first ``n_features`` features and without labels."""
    arrays = {
        name: np.load(folder / f"{name}.npy", mmap_mode="r") for name in ("indptr", "indices", "X")
    }
    X = np.array(arrays["X"][:, :n_features], order="C")
    graph = Graph.from_csr(*(np.array(arrays[n]) for n in ("indptr", "indices")), validate=False)
    return Dataset("generated", graph, X, np.full(len(X), -1))


def published(config: Config) -> tuple[list[Dataset], dict[str, Outcome]]:
    """The citation graphs that can be loaded, and the reasons why others cannot."""
    found, skipped = [], {}
    for name in config.size.real:
        try:
            found.append(load(name, config.data_dir, offline=config.offline))
        except DataUnavailableError as error:
            skipped[name] = {"skipped": reason_of(error)}
            config.log(f"{name} is skipped: {error}")
    return found, skipped
