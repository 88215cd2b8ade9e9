"""Seconds and memory of a fit by number of edges and by number of features."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .config import Config, GraphShape
from .fits import fit_interleaved
from .graphs import stored_graph
from .timing import Outcome

#: Edges per node of every graph: an average degree of 50, as in ogbn-products.
EDGES_PER_NODE = 25

#: Features and components of the graphs with a growing number of edges.
COLUMNS, COMPONENTS = 64, 32

#: Components for every number of columns.
FEW_COMPONENTS = 8

METHODS = ("GPCA, 5 steps, half", "GPCA, exact", "torch CSR, 5 steps")
OUR_METHODS = METHODS[:2]

#: Number of edges from which the exponent is fitted; below, fixed costs dominate.
FITTED_FROM = 100_000


def run(config: Config) -> dict[str, Any]:
    size = config.size
    edges = _over_edges(config)
    shape = _shape(size.columns_edges, max(size.columns))
    folder = stored_graph(shape, config)
    columns: list[dict[str, Any]] = []
    for width in size.columns:
        config.log(f"{size.columns_edges:,} edges, {width} columns")
        outcomes = fit_interleaved(
            OUR_METHODS, folder, columns=width, components=FEW_COMPONENTS, config=config
        )
        columns += [{"method": m, "columns": width, **found} for m, found in outcomes.items()]
    return {
        "edges_per_node": EDGES_PER_NODE,
        "columns": COLUMNS,
        "components": COMPONENTS,
        "over_edges": edges,
        "over_columns": columns,
        "exponents": exponents(edges),
    }


def _over_edges(config: Config) -> list[dict[str, Any]]:
    points: list[dict[str, Any]] = []
    failed: dict[str, Outcome] = {}  # on a smaller graph
    for n_edges in config.size.grown_edges:
        folder = stored_graph(_shape(n_edges, COLUMNS), config)
        config.log(f"{n_edges:,} edges")
        methods = [method for method in METHODS if method not in failed]
        outcomes = fit_interleaved(
            methods, folder, columns=COLUMNS, components=COMPONENTS, config=config
        )
        failed |= {method: found for method, found in outcomes.items() if "seconds" not in found}
        outcomes |= failed
        points += [{"method": m, "requested_edges": n_edges, **outcomes[m]} for m in METHODS]
    return points


def _shape(n_edges: int, n_features: int) -> GraphShape:
    return GraphShape(n_edges // EDGES_PER_NODE, n_edges, n_features)


def exponents(points: list[dict[str, Any]]) -> dict[str, Any]:
    """Exponents of seconds and memory in the number of edges, from FITTED_FROM edges."""
    found: dict[str, Any] = {}
    for method in METHODS:
        fitted = [
            point
            for point in points
            if point["method"] == method
            and "seconds" in point
            and point["requested_edges"] >= FITTED_FROM
        ]
        if len(fitted) >= 2:
            edges = [point["edges"] for point in fitted]
            memory = [max(point["peak_bytes"] - point["before_bytes"], 1) for point in fitted]
            found[method] = {
                "seconds": exponent(edges, [point["seconds"] for point in fitted]),
                "memory": exponent(edges, memory),
                "points": len(fitted),
            }
    return found


def exponent(sizes: Sequence[float], values: Sequence[float]) -> float:
    """The exponent p in values ~ sizes^p, by least squares on logarithms.

    Examples
    --------
    >>> round(exponent([1, 10, 100], [2, 20, 200]), 6)
    1.0
    """
    slope = np.polyfit([math.log(s) for s in sizes], [math.log(v) for v in values], 1)[0]
    return float(slope)
