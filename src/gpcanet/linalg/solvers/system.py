"""The linear system of GPCA, and what iterations need to know of a system."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from ..operators.blocks import Block
from ..operators.propagation import Propagation


class LinearSystem(ABC):
    """S F = X with an S that is self-adjoint and positive in the inner product of P.

    Attributes
    ----------
    P : Propagation
        The operator whose block operations are used.
    scale : float
        Factor by which ``residual`` is smaller than X - S F.
    """

    P: Propagation
    scale: float

    @abstractmethod
    def apply(self, F: np.ndarray, out: np.ndarray) -> np.ndarray:
        """S F; may overwrite ``out``."""

    @abstractmethod
    def residual(self, F: np.ndarray, X: Block) -> np.ndarray:
        """(X - S F) / scale as a new block."""

    def relative_norm(self, residual: np.ndarray, X: Block) -> float:
        """Largest ||X - S F|| / ||X|| over the columns."""
        size = self.P.norms(X)
        return self.scale * float((self.P.norms(residual) / (size + (size == 0))).max())


class System(LinearSystem):
    """(I + alpha L) F = X with L = I - P, in the internal variable of P.

    With c = alpha / (1 + alpha) it is equivalent to F = c P F + (1 - c) X. The spectrum of P is in
    [-1, 1], so that of I + alpha L is in [1, 1 + 2 alpha].
    """

    def __init__(self, P: Propagation, alpha: float) -> None:
        self.P, self.alpha = P, alpha
        self.c, self.scale = alpha / (1 + alpha), 1 + alpha

    def apply(self, F: np.ndarray, out: np.ndarray) -> np.ndarray:
        return self.P.step(F, F, out, -self.alpha, 1 + self.alpha, 0.0)

    def residual(self, F: np.ndarray, X: Block) -> np.ndarray:
        # The change of one more fixed-point step. It has the size of F, so it stays in the range
        # of half precision.
        return self.P.step(F, X, self.P.scaled(F, 0.0), self.c, 1 - self.c, 0.0, own=-1.0)
