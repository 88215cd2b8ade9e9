"""Seconds and memory of generating a graph of ogbn-products' size."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from .child import in_child
from .large import LONGEST_SECONDS
from .setting import Setting


def run(setting: Setting) -> dict[str, Any]:
    shape = setting.size.products
    setting.tell(f"generating {shape.n_nodes:,} nodes and {shape.n_edges:,} edges")
    outcome = in_child({"job": "generate", "shape": asdict(shape)}, timeout=LONGEST_SECONDS)
    return {"columns": shape.n_features, **outcome}
