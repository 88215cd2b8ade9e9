"""Statistics of each node's neighbourhood, as additional columns for the heads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from ..graph import Graph
from ..linalg import Propagation, extreme_exponent, times_power_of_two


@dataclass(eq=False)
class NodeStatistics:
    """Standardised statistics: degree, means over 1 and 2 hops, and the neighbours' extremes.

    The columns are the logarithm of the degree and its mean over the neighbours, then for every
    feature the means over the neighbours and over their neighbours, and the largest value, the
    smallest value and the standard deviation of the neighbours. They are 0 without neighbours.
    """

    mean: np.ndarray | None = None
    scale: np.ndarray | None = None
    exponent: int = 0  # X is divided by 2**exponent if its squares could leave the range of float64

    def fit(self, graph: Graph, X: Any) -> Self:
        self.exponent = extreme_exponent(X, np.float64)
        values = node_statistics(graph, times_power_of_two(X, -self.exponent))
        self.mean, self.scale = values.mean(axis=0), values.std(axis=0)
        self.scale[self.scale == 0] = 1
        return self

    def transform(self, graph: Graph, X: Any) -> np.ndarray:
        values = node_statistics(graph, times_power_of_two(X, -self.exponent))
        return (values - self.mean) / self.scale


def node_statistics(graph: Graph, X: Any) -> np.ndarray:
    """The statistics before standardisation, in float64."""
    X = np.asarray(X.toarray() if sp.issparse(X) else X, np.float64)
    n, d = X.shape
    A, degrees = graph.adjacency, np.diff(graph.indptr)
    totals = A.sum(axis=1, dtype=np.float64)
    inverse = np.divide(1.0, totals, out=np.zeros(n), where=totals > 0)[:, None]

    def mean(values: np.ndarray) -> np.ndarray:
        return (A @ values) * inverse

    log_degree = np.log1p(totals)[:, None]
    near = mean(X)
    deviation = np.sqrt(np.maximum(mean(X**2) - near**2, 0))
    largest, smallest = np.zeros((n, d)), np.zeros((n, d))
    some = degrees > 0
    begins = np.asarray(graph.indptr[:-1])[some]
    for j in range(d if len(begins) else 0):  # one column at a time, to save memory
        values = X[graph.indices, j]
        largest[some, j] = np.maximum.reduceat(values, begins)
        smallest[some, j] = np.minimum.reduceat(values, begins)
    return np.hstack([log_degree, mean(log_degree), near, mean(near), largest, smallest, deviation])


def node_table(X: Any, graph: Graph) -> np.ndarray:
    """Features, their means and standard deviations over neighbours, means over two hops, degree.

    A node counts as its own neighbour.
    """
    X = np.asarray(X.toarray() if sp.issparse(X) else X, np.float64)
    P = Propagation(graph.indptr, graph.indices, graph.weights, normalization="rw")
    exponent = extreme_exponent(X, X.dtype)
    X = times_power_of_two(X, -exponent)
    means = P @ X
    deviations = np.sqrt(np.maximum(P @ X**2 - means**2, 0))
    columns = (times_power_of_two(one, exponent) for one in (X, means, deviations, P @ means))
    return np.hstack([*columns, np.log(P.mass)[:, None]])
