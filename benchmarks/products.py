"""A graph of ogbn-products' size, from arrays in memory to Z."""

from __future__ import annotations

from typing import Any

from .fits import FITS
from .large import fits_in_turns, kept_graph
from .setting import Setting

COMPONENTS = 64


def run(setting: Setting) -> dict[str, Any]:
    shape = setting.size.products
    folder = kept_graph(shape, setting)
    setting.tell(f"{shape.n_edges:,} edges: embedding in {len(FITS)} ways, in turns")
    ways = fits_in_turns(
        FITS, folder, columns=shape.n_features, components=COMPONENTS, setting=setting
    )
    return {
        "nodes": shape.n_nodes,
        "edges": max((way["edges"] for way in ways.values() if "edges" in way), default=0),
        "columns": shape.n_features,
        "components": COMPONENTS,
        "ways": ways,
    }
