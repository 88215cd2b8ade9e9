"""Memory bandwidth of a propagation step, compared with a STREAM triad.

The bytes of a step are counted in two ways; the true number lies in between:

- compulsory: each array once. Indices (4 bytes per edge and direction), row ends and two scales
  (16 bytes per node), F and X read, the result written.
- gathered: a row of F is read for every index and every node, as if nothing stayed in cache.
"""

from __future__ import annotations

from typing import Any

from gpcanet.datasets import Dataset

from .config import Config
from .graphs import generate
from .step import METHODS
from .timing import time_interleaved

#: Bytes per element of a block.
ITEM_BYTES = {"GPCANet": 4, "GPCANet, half precision": 2}


def run(config: Config) -> dict[str, Any]:
    from .triad import triad_task

    data = generate(config.size.arxiv_size)
    triad, triad_bytes = triad_task(config.size.triad_numbers)
    steps = {m.name: m.prepare(data) for m in METHODS if m.name in ITEM_BYTES}
    config.log("timing steps and a triad")
    outcomes = time_interleaved({"triad": triad, **steps}, config.repeats)
    methods = {name: outcomes[name] | traffic(data, ITEM_BYTES[name]) for name in steps}
    return {
        "triad": outcomes["triad"] | {"bytes": triad_bytes},
        "nodes": data.graph.n_nodes,
        "edges": data.graph.n_edges,
        "columns": data.X.shape[1],
        "methods": methods,
    }


def traffic(data: Dataset, item_bytes: int) -> dict[str, int]:
    """The bytes of a step, counted in both ways."""
    n_indices, n = len(data.graph.indices), data.graph.n_nodes
    row_bytes = data.X.shape[1] * item_bytes
    fixed = 4 * n_indices + 16 * n + 2 * n * row_bytes
    return {
        "compulsory_bytes": fixed + n * row_bytes,
        "gathered_bytes": fixed + (n_indices + n) * row_bytes,
    }
