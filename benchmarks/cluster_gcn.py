"""Training of a GCN on parts of a graph (ClusterGCN), compared with the whole graph."""

from __future__ import annotations

from typing import Any

from . import child
from .config import Config
from .timing import Outcome

EDGES_PER_NODE, N_FEATURES, N_CLASSES = 8, 64, 16

#: Options of the training; an epoch with parts has 20 steps.
METHODS: dict[str, dict[str, Any]] = {
    "whole graph": {"parts": 1, "epochs": 60},
    "100 parts, 5 per batch": {"parts": 100, "parts_per_batch": 5, "epochs": 6},
}


def run(config: Config) -> dict[str, Any]:
    methods = {}
    for method in METHODS:
        config.log(f"training a GCN, {method}")
        methods[method] = child.run_in_process(
            "cluster_gcn.measure", method=method, n_nodes=config.size.cluster_nodes
        )
    return {"nodes": config.size.cluster_nodes, "methods": methods}


def measure(method: str, n_nodes: int) -> Outcome:
    """Accuracy, seconds and memory of a training in this process."""
    from gpcanet.datasets import block_model
    from gpcanet.nn import NodeData, Settings, train
    from gpcanet.nn.training.registry import build_initialized_model

    with child.Memory() as memory:
        dataset = block_model(
            n_nodes, EDGES_PER_NODE * n_nodes, n_features=N_FEATURES, n_classes=N_CLASSES,
            homophily=0.5, feature_noise=6.0,
        )  # fmt: skip
        data = NodeData.of(dataset)
        model, _ = build_initialized_model(
            "gcn", data, init="gpca", layers=3, hidden=128, dropout=0.2
        )
        settings = Settings(lr=0.01, weight_decay=0.0, eval_every=2, **METHODS[method])
        result = train(model, data, settings)
    return {
        "seconds": result.seconds,
        "repeats": 1,
        "accuracy": result.accuracy["test"],
        "epochs": result.epochs,
        "peak_bytes": memory.peak,
        "edges": dataset.graph.n_edges,
    }
