"""One propagation step, c P F + (1 - c) X, on a graph of ogbn-arxiv's size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gpcanet.datasets import Dataset
from gpcanet.linalg import HalfPropagation, Propagation
from gpcanet.linalg.operators.ordering import locality_order

from .graphs import generate
from .measure import Way, in_order, interleaved, prepare
from .plain import ALPHA, scipy_propagation, torch_csr
from .setting import Setting

C = ALPHA / (1 + ALPHA)

Task = Callable[[], Any]


def run(setting: Setting) -> dict[str, Any]:
    data = generate(setting.size.arxiv)
    tasks, left_out = prepare(WAYS, data)
    setting.tell(f"{len(tasks)} ways to take a step, in turns")
    outcomes = interleaved(tasks, setting.repeats)
    error = np.abs(leave_of(data)(tasks["GPCANet"]()) - tasks["scipy CSR"]()).max()
    graph = data.graph
    ordering = interleaved({"": lambda: locality_order(graph.indptr, graph.indices)}, 3)
    return {
        "nodes": graph.n_nodes,
        "edges": graph.n_edges,
        "columns": data.X.shape[1],
        "ways": in_order(WAYS, left_out, outcomes),
        "ordering_seconds": ordering[""]["seconds"],
        "largest_difference": float(error),
    }


def block(data: Dataset) -> np.ndarray:
    """F, the same for everybody."""
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


def _as_given(data: Dataset) -> Task:
    return _stepping(Propagation(data.graph.indptr, data.graph.indices, dtype=np.float32), data)


def _half(data: Dataset) -> Task:
    half = HalfPropagation(reordered(data))
    F = half.scaled(half.to_internal(block(data)), 1.0)
    X = half.materialize(half.to_internal(np.asarray(data.X)))
    out = np.zeros_like(F)
    return lambda: half.step(F, X, out, C, 1 - C, 0.0)


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
    """APPNP's propagation, one step from F: messages along edges, normalised beforehand."""
    import torch
    from torch_geometric.nn import APPNP

    F, edges = torch.from_numpy(block(data)), edge_index(data)
    step = APPNP(K=1, alpha=1 - C, cached=True)
    return lambda: step(F, edges)


def edge_index(data: Dataset) -> Any:
    import torch

    rows = np.repeat(np.arange(data.graph.n_nodes), np.diff(data.graph.indptr))
    return torch.tensor(np.stack([rows, data.graph.indices]), dtype=torch.int64)


WAYS = (
    Way("GPCANet", _full),
    Way("GPCANet, half precision", _half),
    Way("GPCANet, nodes as given", _as_given),
    Way("scipy CSR", _scipy),
    Way("torch sparse CSR", _torch, needs=("torch",)),
    Way("PyG propagate", _pyg, needs=("torch", "torch_geometric")),
)
