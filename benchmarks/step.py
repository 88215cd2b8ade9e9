"""One propagation step, c P F + (1 - c) X, on a graph of the size of ogbn-arxiv."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gpcanet.datasets import Dataset
from gpcanet.linalg import HalfPropagation, Propagation
from gpcanet.linalg.operators.ordering import locality_order

from .baselines import ALPHA, scipy_propagation, torch_csr
from .config import Config
from .graphs import generate
from .timing import Method, in_order, prepare, time_interleaved

C = ALPHA / (1 + ALPHA)

Task = Callable[[], Any]


def run(config: Config) -> dict[str, Any]:
    data = generate(config.size.arxiv_size)
    tasks, omitted = prepare(METHODS, data)
    config.log(f"timing one step of {len(tasks)} methods")
    outcomes = time_interleaved(tasks, config.repeats)
    error = np.abs(leave_of(data)(tasks["GPCANet"]()) - tasks["scipy CSR"]()).max()
    graph = data.graph
    ordering = time_interleaved({"": lambda: locality_order(graph.indptr, graph.indices)}, 3)
    return {
        "nodes": graph.n_nodes,
        "edges": graph.n_edges,
        "columns": data.X.shape[1],
        "methods": in_order(METHODS, omitted, outcomes),
        "ordering_seconds": ordering[""]["seconds"],
        "largest_difference": float(error),
    }


def block(data: Dataset) -> np.ndarray:
    """F, the same for all methods."""
    return np.random.default_rng(0).standard_normal(data.X.shape, dtype=np.float32)


def reordered(data: Dataset) -> Propagation:
    return Propagation(data.graph.indptr, data.graph.indices, dtype=np.float32, reorder=True)


def leave_of(data: Dataset) -> Callable[[np.ndarray], np.ndarray]:
    P = reordered(data)
    return lambda F: P.from_internal(F.copy(), F)


def _stepping(P: Propagation, data: Dataset) -> Task:
    F = P.scaled(P.to_internal(block(data)), 1.0)
    X = P.materialize(P.to_internal(np.asarray(data.X)))
    out = np.zeros_like(F)
    return lambda: P.step(F, X, out, C, 1 - C, 0.0)


def _full(data: Dataset) -> Task:
    return _stepping(reordered(data), data)


def _not_reordered(data: Dataset) -> Task:
    return _stepping(Propagation(data.graph.indptr, data.graph.indices, dtype=np.float32), data)


def _half(data: Dataset) -> Task:
    return _stepping(HalfPropagation(reordered(data)), data)


def _scipy(data: Dataset) -> Task:
    P, F, X = scipy_propagation(data.graph.indptr, data.graph.indices), block(data), data.X
    c = np.float32(C)
    return lambda: c * (P @ F) + (1 - c) * X


def _torch(data: Dataset) -> Task:
    import torch

    matrix = scipy_propagation(data.graph.indptr, data.graph.indices)
    P = torch_csr(*(torch.from_numpy(a) for a in (matrix.indptr, matrix.indices, matrix.data)))
    F, X = torch.from_numpy(block(data)), torch.tensor(data.X)
    return lambda: C * (P @ F) + (1 - C) * X


def _pyg(data: Dataset) -> Task:
    """One step of APPNP from F: messages along edges, normalised in advance."""
    import torch
    from torch_geometric.nn import APPNP

    F, edges = torch.from_numpy(block(data)), edge_index(data)
    step = APPNP(K=1, alpha=1 - C, cached=True)
    return lambda: step(F, edges)


def edge_index(data: Dataset) -> Any:
    import torch

    rows = np.repeat(np.arange(data.graph.n_nodes), np.diff(data.graph.indptr))
    return torch.tensor(np.stack([rows, data.graph.indices]), dtype=torch.int64)


METHODS = (
    Method("GPCANet", _full),
    Method("GPCANet, half precision", _half),
    Method("GPCANet, without reordering", _not_reordered),
    Method("scipy CSR", _scipy),
    Method("torch sparse CSR", _torch, needs=("torch",)),
    Method("PyG propagate", _pyg, needs=("torch", "torch_geometric")),
)
