"""Fits on a graph of the size of ogbn-products, from arrays in memory to Z."""

from __future__ import annotations

from typing import Any

from .config import Config
from .fits import FITS, fit_interleaved
from .graphs import stored_graph

COMPONENTS = 64


def run(config: Config) -> dict[str, Any]:
    shape = config.size.products_size
    folder = stored_graph(shape, config)
    config.log(f"{shape.n_edges:,} edges: fits by {len(FITS)} methods")
    methods = fit_interleaved(
        FITS, folder, columns=shape.n_features, components=COMPONENTS, config=config
    )
    return {
        "nodes": shape.n_nodes,
        "edges": max((found["edges"] for found in methods.values() if "edges" in found), default=0),
        "columns": shape.n_features,
        "components": COMPONENTS,
        "methods": methods,
    }
