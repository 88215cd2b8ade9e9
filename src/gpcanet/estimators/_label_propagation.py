"""Correct and smooth: training labels propagated over the graph, after a prediction.

Both steps follow Huang et al., "Combining Label Propagation and Simple Models Out-performs Graph
Neural Networks" (2021), with the limit of the iterations, (I + alpha L)^-1, in place of 50 steps.
"""

from __future__ import annotations

import numpy as np

from ..linalg import Propagation, Solver

#: alpha of the solves: a random walk with restart probability 1/6.
SMOOTHING_ALPHA = 5.0

#: Tolerance of the solves in single precision.
SINGLE_TOL = 1e-4


class LabelPropagation:
    """The two steps on one graph.

    Parameters
    ----------
    P : Propagation
        Propagation matrix of the rows of the probabilities, in any precision.
    codes : ndarray of int
        Class codes of the training nodes, -1 for all others.
    """

    def __init__(self, P: Propagation, codes: np.ndarray) -> None:
        tol = SINGLE_TOL if P.dtype == np.float32 else 1e-6
        self._solver = Solver(P, SMOOTHING_ALPHA, tol=tol)
        self._labeled = np.flatnonzero(codes >= 0)
        self._codes = codes[self._labeled]

    def correct(self, probabilities: np.ndarray) -> np.ndarray:
        """Add the errors on training nodes, propagated over the graph."""
        errors = np.zeros_like(probabilities)
        errors[self._labeled] = self._truth(probabilities) - probabilities[self._labeled]
        values = self._solver.apply(errors)
        values += probabilities
        return normalized(values, probabilities)

    def smooth(self, probabilities: np.ndarray) -> np.ndarray:
        """Replace the probabilities of training nodes by their labels and propagate all."""
        values = probabilities.copy()
        values[self._labeled] = self._truth(probabilities)
        return normalized(self._solver.apply(values), probabilities)

    def held_out(
        self, probabilities: np.ndarray, rows: np.ndarray, variants: list[tuple[bool, bool]]
    ) -> list[np.ndarray]:
        """Probabilities of some rows after each of several combinations of (correct, smooth)."""
        before = {False: probabilities}
        if any(correct for correct, _ in variants):
            before[True] = self.correct(probabilities)
        return [self.apply(before[correct], False, smooth)[rows] for correct, smooth in variants]

    def apply(self, probabilities: np.ndarray, correct: bool, smooth: bool) -> np.ndarray:
        if correct:
            probabilities = self.correct(probabilities)
        return self.smooth(probabilities) if smooth else probabilities

    def _truth(self, probabilities: np.ndarray) -> np.ndarray:
        return np.eye(probabilities.shape[1])[self._codes]


def normalized(values: np.ndarray, otherwise: np.ndarray) -> np.ndarray:
    """Set negative values to 0 and divide each row by its sum.

    A row without positive values is replaced by that of ``otherwise``. ``values`` are overwritten.
    """
    np.maximum(values, 0, out=values)
    totals = values.sum(axis=1, keepdims=True)
    empty = totals[:, 0] <= 0
    totals[empty] = 1
    values /= totals
    values[empty] = otherwise[empty]
    return values
