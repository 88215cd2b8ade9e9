"""Seconds and memory of a fit as the graph grows, or its features do."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .large import fits_in_turns, kept_graph
from .measure import Outcome
from .setting import Setting, Shape

#: Edges per node, on every graph: an average degree of 50, as in ogbn-products.
EDGES_PER_NODE = 25

COLUMNS, COMPONENTS = 64, 32

#: Components where columns grow, the same for all.
FEW_COMPONENTS = 8

WAYS = ("GPCA, 5 steps, half", "GPCA, exact", "torch CSR, 5 steps")
OUR_WAYS = WAYS[:2]

#: From here on the exponent is fitted: smaller fits are mostly fixed costs.
FITTED_FROM = 100_000


def run(setting: Setting) -> dict[str, Any]:
    size = setting.size
    edges = _over_edges(setting)
    shape = _shape(size.columns_edges, max(size.columns))
    folder = kept_graph(shape, setting)
    columns: list[dict[str, Any]] = []
    for width in size.columns:
        setting.tell(f"{size.columns_edges:,} edges, {width} columns")
        outcomes = fits_in_turns(
            OUR_WAYS, folder, columns=width, components=FEW_COMPONENTS, setting=setting
        )
        columns += [{"way": way, "columns": width, **found} for way, found in outcomes.items()]
    return {
        "edges_per_node": EDGES_PER_NODE,
        "columns": COLUMNS,
        "components": COMPONENTS,
        "over_edges": edges,
        "over_columns": columns,
        "exponents": exponents(edges),
    }


def _over_edges(setting: Setting) -> list[dict[str, Any]]:
    points: list[dict[str, Any]] = []
    gone: dict[str, Outcome] = {}  # ways that a smaller graph was too much for, and why
    for n_edges in setting.size.grown_edges:
        folder = kept_graph(_shape(n_edges, COLUMNS), setting)
        setting.tell(f"{n_edges:,} edges")
        ways = [way for way in WAYS if way not in gone]
        outcomes = fits_in_turns(
            ways, folder, columns=COLUMNS, components=COMPONENTS, setting=setting
        )
        gone |= {way: found for way, found in outcomes.items() if "seconds" not in found}
        outcomes |= gone
        points += [{"way": way, "wanted_edges": n_edges, **outcomes[way]} for way in WAYS]
    return points


def _shape(n_edges: int, n_features: int) -> Shape:
    return Shape(n_edges // EDGES_PER_NODE, n_edges, n_features)


def exponents(points: list[dict[str, Any]]) -> dict[str, Any]:
    """How seconds and memory grow with edges, as powers, from FITTED_FROM on."""
    found: dict[str, Any] = {}
    for way in WAYS:
        fitted = [
            point
            for point in points
            if point["way"] == way and "seconds" in point and point["wanted_edges"] >= FITTED_FROM
        ]
        if len(fitted) >= 2:
            edges = [point["edges"] for point in fitted]
            memory = [max(point["peak_bytes"] - point["before_bytes"], 1) for point in fitted]
            found[way] = {
                "seconds": exponent(edges, [point["seconds"] for point in fitted]),
                "memory": exponent(edges, memory),
                "points": len(fitted),
            }
    return found


def exponent(sizes: Sequence[float], values: Sequence[float]) -> float:
    """The p of values ~ sizes^p, by least squares on logarithms.

    Examples
    --------
    >>> round(exponent([1, 10, 100], [2, 20, 200]), 6)
    1.0
    """
    slope = np.polyfit([math.log(s) for s in sizes], [math.log(v) for v in values], 1)[0]
    return float(slope)
