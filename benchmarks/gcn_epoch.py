"""Seconds and memory of an epoch of a 3-layer GCN on a graph of the size of ogbn-arxiv.

All methods train the same weights on the same graph; their losses must agree.
"""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Any

from . import child
from .config import Config, GraphShape
from .fits import merge_outcomes
from .timing import Outcome, summarize_times

HIDDEN, LAYERS = 256, 3

#: Epochs that are timed after the first one.
EPOCHS = 2

OURS, SPARSE, EDGE_INDEX = METHODS = ("GPCANet", "PyG, sparse CSR", "PyG, edge_index")


def run(config: Config) -> dict[str, Any]:
    shape = config.size.arxiv_size
    found: dict[str, list[Outcome]] = {method: [] for method in METHODS}
    for _ in range(config.size.rounds):
        for method, outcomes in found.items():
            config.log(f"one epoch of a GCN by {method}")
            outcomes.append(
                child.run_in_process("gcn_epoch.measure", method=method, shape=asdict(shape))
            )
    methods = {method: merge_outcomes(outcomes) for method, outcomes in found.items()}
    return {"nodes": shape.n_nodes, "layers": LAYERS, "hidden": HIDDEN, "methods": methods}


def measure(method: str, shape: dict[str, int]) -> Outcome:
    """Seconds of an epoch, the memory of training beyond the data, and the final loss."""
    import numpy as np
    import torch

    from .graphs import generate

    data = generate(GraphShape(**shape))
    x, y = torch.from_numpy(np.asarray(data.X)), torch.from_numpy(data.y)
    train = torch.from_numpy(data.train)
    model, graph = _model_and_graph(method, data)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    times, loss = [], torch.tensor(0.0)
    with child.Memory() as memory:
        for _ in range(EPOCHS + 1):
            start = time.perf_counter()
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(x, graph)[train], y[train])
            loss.backward()
            optimizer.step()
            times.append(time.perf_counter() - start)
    return {
        **summarize_times(times),
        "peak_bytes": memory.peak,
        "before_bytes": memory.before,
        "loss": loss.item(),
        "edges": data.graph.n_edges,
    }


def _model_and_graph(method: str, data: Any) -> tuple[Any, Any]:
    """A model and its second input, the graph."""
    import torch
    import torch_geometric.nn as pyg
    from torch_geometric.nn.conv.gcn_conv import gcn_norm

    from gpcanet.nn import GCN, GraphPropagation

    from .baselines import torch_csr
    from .step import edge_index

    sizes = data.X.shape[1], HIDDEN, LAYERS, data.n_classes
    torch.manual_seed(0)
    model = GCN(*sizes)
    if method == OURS:
        return model, GraphPropagation(data.graph)
    # The fastest uses of PyG: normalisation is cached, or computed in advance.
    options = {"normalize": False} if method == SPARSE else {"cached": True}
    other = pyg.GCN(*sizes, **options)
    other.load_state_dict(model.state_dict())
    edges = edge_index(data)
    if method == EDGE_INDEX:
        return other, edges
    n = data.graph.n_nodes
    edges, weights = gcn_norm(edges, num_nodes=n)
    order = torch.argsort(edges[1] * n + edges[0])  # rows are the targets of messages
    indptr = torch.zeros(n + 1, dtype=torch.int64)
    indptr[1:] = torch.cumsum(torch.bincount(edges[1], minlength=n), 0)
    return other, torch_csr(indptr, edges[0][order], weights[order])
