"""Generated graphs: stochastic block models."""

from __future__ import annotations

import numpy as np

from ..graph import Graph
from .dataset import Dataset

#: Edges per block: drawing an edge takes 60 bytes of temporary memory.
EDGES_PER_DRAW = 2**20


def block_model(
    n_nodes: int,
    n_edges: int,
    *,
    n_features: int = 32,
    n_classes: int = 8,
    homophily: float = 0.7,
    degree_exponent: float = 3.0,
    feature_noise: float = 2.0,
    seed: int = 0,
) -> Dataset:
    """Generate a degree-corrected stochastic block model with class-dependent features.

    Parameters
    ----------
    n_nodes, n_edges : int
        Number of nodes and edges. Edges are drawn independently; repeated edges count once.
    n_features, n_classes : int
        Number of features and classes.
    homophily : float
        Share of edges drawn within a class.
    degree_exponent : float
        Exponent of the expected degrees; a smaller one gives larger hubs.
    feature_noise : float
        Standard deviation of the features around the class centres, which have unit variance.
    seed : int
        Random seed.

    Examples
    --------
    >>> block_model(100, 300).graph.n_nodes
    100
    """
    rng = np.random.default_rng(seed)
    y = rng.integers(n_classes, size=n_nodes)
    expected_degrees = rng.pareto(degree_exponent - 1, n_nodes) + 1
    pairs = _draw_edges(rng, n_edges, y, n_classes, expected_degrees, homophily)
    graph = Graph.from_edge_index(pairs, n_nodes=n_nodes, each_once=True)
    del pairs  # frees the memory before X is created

    centers = rng.standard_normal((n_classes, n_features), dtype=np.float32)
    X = rng.standard_normal((n_nodes, n_features), dtype=np.float32)
    X *= np.float32(feature_noise)
    X += centers[y]
    order = rng.permutation(n_nodes)
    train, validation, test = np.split(order, [n_nodes // 10, n_nodes // 5])
    return Dataset("block model", graph, X, y, train, validation, test)


def _draw_edges(
    rng: np.random.Generator,
    n_edges: int,
    y: np.ndarray,
    n_classes: int,
    expected_degrees: np.ndarray,
    homophily: float,
) -> np.ndarray:
    """Draw both nodes of every edge; ``homophily`` is the share of edges within a class."""
    n_nodes = len(y)
    # Inverse transform sampling: the cumulative expected degrees of the nodes, sorted by class, so
    # that a uniform number in the range of a class gives a node of that class.
    by_class = np.argsort(y, kind="stable").astype(np.int32)
    ends = np.cumsum(expected_degrees[by_class])
    counts = np.bincount(y, minlength=n_classes)
    boundaries = np.concatenate([[0.0], ends])[np.concatenate([[0], np.cumsum(counts)])]
    class_starts, class_ends = boundaries[:-1], boundaries[1:]

    def node_at(point: np.ndarray) -> np.ndarray:
        # Sorted searches are faster, because they stay in cache.
        order = np.argsort(point)
        place = np.minimum(np.searchsorted(ends, point[order], side="right"), n_nodes - 1)
        nodes = np.empty(len(point), np.int32)
        nodes[order] = by_class[place]
        return nodes

    pairs = np.empty((2, n_edges), np.int32)
    for begin in range(0, n_edges, EDGES_PER_DRAW):
        size = min(EDGES_PER_DRAW, n_edges - begin)
        source = node_at(rng.random(size) * ends[-1])
        within = rng.random(size) < homophily
        low = np.where(within, class_starts[y[source]], 0.0)
        high = np.where(within, class_ends[y[source]], ends[-1])
        pairs[0, begin : begin + size] = source
        pairs[1, begin : begin + size] = node_at(low + rng.random(size) * (high - low))
    return pairs
