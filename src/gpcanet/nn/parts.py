"""Parts of a graph for mini-batches (ClusterGCN), by METIS."""

from __future__ import annotations

import numpy as np

from ..graph import Graph
from ..validation import check_number


def partition(graph: Graph, n_parts: int, *, seed: int = 0) -> list[np.ndarray]:
    """Positions of the nodes of each part; few edges go between parts, and all are about equal.

    Examples
    --------
    >>> graph = Graph.from_edge_index([[0, 1, 2, 3], [1, 0, 3, 2]])
    >>> sorted(part.tolist() for part in partition(graph, 2))
    [[0, 1], [2, 3]]
    """
    check_number("n_parts", n_parts, 1, graph.n_nodes, advice="one is the whole", integer=True)
    if n_parts == 1:
        return [np.arange(graph.n_nodes)]
    import pymetis

    _, membership = pymetis.part_graph(
        n_parts,
        pymetis.CSRAdjacency(graph.indptr.astype(np.int32), graph.indices),
        options=pymetis.Options(seed=seed),
    )
    member = np.asarray(membership)
    parts = np.split(np.argsort(member, kind="stable"), np.cumsum(np.bincount(member))[:-1])
    return [part for part in parts if len(part)]
