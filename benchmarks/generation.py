"""Seconds and memory of generating a graph of the size of ogbn-products."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Any

from . import child
from .config import Config, GraphShape
from .graphs import generate
from .timing import Outcome


def run(config: Config) -> dict[str, Any]:
    shape = config.size.products_size
    config.log(f"generating {shape.n_nodes:,} nodes and {shape.n_edges:,} edges")
    outcome = child.run_in_process("generation.measure", shape=asdict(shape))
    return {"columns": shape.n_features, **outcome}


def measure(shape: dict[str, int]) -> Outcome:
    with child.Memory() as memory:
        start = time.perf_counter()
        data = generate(GraphShape(**shape))
        seconds = time.perf_counter() - start
    return {
        "seconds": seconds,
        "peak_bytes": memory.peak,
        "nodes": data.graph.n_nodes,
        "edges": data.graph.n_edges,
    }
