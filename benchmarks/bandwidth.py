"""Bytes a second that our step moves, beside those of a STREAM triad in the same run.

Two counts of the bytes of a step, of which the truth lies in between:

- compulsory: each array once, whatever the graph. Indices (4 bytes an entry), the row ends and
  two scales (16 bytes a row), F and X read, the result written.
- gathered: the same, but a row of F anew for every entry and the node itself, as if nothing
  stayed in cache.
"""

from __future__ import annotations

from typing import Any

from gpcanet.datasets import Dataset

from .graphs import generate
from .measure import interleaved
from .setting import Setting
from .step import WAYS

#: Bytes of a number in a block.
ITEM_BYTES = {"GPCANet": 4, "GPCANet, half precision": 2}


def run(setting: Setting) -> dict[str, Any]:
    from .triad import triad_task

    data = generate(setting.size.arxiv)
    triad, triad_bytes = triad_task(setting.size.triad_numbers)
    steps = {way.name: way.prepare(data) for way in WAYS if way.name in ITEM_BYTES}
    setting.tell("steps and a triad, in turns")
    outcomes = interleaved({"triad": triad, **steps}, setting.repeats)
    ways = {}
    for name in steps:
        bytes_of = traffic(data, ITEM_BYTES[name])
        ways[name] = outcomes[name] | bytes_of
    return {
        "triad": outcomes["triad"] | {"bytes": triad_bytes},
        "nodes": data.graph.n_nodes,
        "edges": data.graph.n_edges,
        "columns": data.X.shape[1],
        "ways": ways,
    }


def traffic(data: Dataset, item_bytes: int) -> dict[str, int]:
    """The bytes of a step by both counts."""
    entries, n = len(data.graph.indices), data.graph.n_nodes
    row_bytes = data.X.shape[1] * item_bytes
    fixed = 4 * entries + 16 * n + 2 * n * row_bytes
    return {
        "compulsory_bytes": fixed + n * row_bytes,
        "gathered_bytes": fixed + (entries + n) * row_bytes,
    }
