"""Correct and smooth: training labels propagated over the graph, after a prediction.

Both steps follow Huang et al., "Combining Label Propagation and Simple Models Out-performs Graph
Neural Networks" (2021), with the limit of the iterations, (I + alpha L)^-1, in place of 50 steps.
"""

from __future__ import annotations

import numpy as np

from ..graph import Graph
from ..linalg import Propagation, Solver

#: alpha of the solves: a random walk with restart probability 1/6.
SMOOTHING_ALPHA = 5.0


class LabelPropagation:
    """The two steps on one graph.

    Parameters
    ----------
    graph : Graph
        On the rows of the probabilities.
    codes : ndarray of int
        Class codes of the training nodes, -1 for all others.
    """

    def __init__(self, graph: Graph, codes: np.ndarray) -> None:
        self._solver = Solver(
            Propagation(graph.indptr, graph.indices, graph.weights), SMOOTHING_ALPHA
        )
        self._labeled = np.flatnonzero(codes >= 0)
        self._codes = codes[self._labeled]

    def correct(self, probabilities: np.ndarray) -> np.ndarray:
        """Add the errors on training nodes, propagated over the graph."""
        errors = np.zeros_like(probabilities)
        errors[self._labeled] = self._truth(probabilities) - probabilities[self._labeled]
        return normalized(probabilities + self._solver.apply(errors), probabilities)

    def smooth(self, probabilities: np.ndarray) -> np.ndarray:
        """Replace the probabilities of training nodes by their labels and propagate all."""
        values = probabilities.copy()
        values[self._labeled] = self._truth(probabilities)
        return normalized(self._solver.apply(values), probabilities)

    def apply(self, probabilities: np.ndarray, correct: bool, smooth: bool) -> np.ndarray:
        if correct:
            probabilities = self.correct(probabilities)
        return self.smooth(probabilities) if smooth else probabilities

    def _truth(self, probabilities: np.ndarray) -> np.ndarray:
        return np.eye(probabilities.shape[1])[self._codes]


def normalized(values: np.ndarray, otherwise: np.ndarray) -> np.ndarray:
    """Values without negative ones, summing to 1 per row; other rows where all are 0."""
    values = np.maximum(values, 0)
    totals = values.sum(axis=1, keepdims=True)
    return np.where(totals > 0, values / np.where(totals > 0, totals, 1), otherwise)
