"""Graphs of nearest neighbours."""

from __future__ import annotations

from typing import Any

from .graph import Graph


def neighbor_graph(X: Any, n_neighbors: int = 10, *, node_ids: Any = None) -> Graph:
    """Connect every row of X to its nearest neighbours.

    Examples
    --------
    >>> import numpy as np
    >>> neighbor_graph(np.array([[0.0], [0.1], [5.0], [5.1]]), n_neighbors=1).n_edges
    2
    """
    from sklearn.neighbors import kneighbors_graph

    nearest = kneighbors_graph(X, n_neighbors).tocoo()
    return Graph.from_edge_index(
        [nearest.row, nearest.col], n_nodes=X.shape[0], node_ids=node_ids, each_once=True
    )
