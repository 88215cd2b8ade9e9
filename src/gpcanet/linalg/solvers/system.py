"""The linear system that all solvers solve."""

from __future__ import annotations

from typing import NamedTuple

from ..operators.base import Array, BlockOperator
from ..operators.half_precision import HalfPropagation
from ..operators.propagation import Propagation


class System(NamedTuple):
    """(I + alpha L) F = X with L = I - P, in the internal variable of P.

    With c = alpha / (1 + alpha) it is equivalent to F = c P F + (1 - c) X. The spectrum of P is in
    [-1, 1], so that of I + alpha L is in [1, 1 + 2 alpha].
    """

    P: BlockOperator
    alpha: float

    @property
    def c(self) -> float:
        return self.alpha / (1 + self.alpha)

    def residual(self, F: Array, X: Array) -> Array:
        """(X - (I + alpha L) F) / (1 + alpha) as a new block.

        This is the change of one more fixed-point step. It has the size of F, so it stays in the
        range of half precision.
        """
        return self.P.step(F, X, self.P.scaled(F, 0.0), self.c, 1 - self.c, 0.0, own=-1.0)

    def relative_norm(self, residual: Array, X: Array) -> float:
        """Largest ||X - (I + alpha L) F|| / ||X|| over the columns."""
        size = self.P.norms(X)
        return (1 + self.alpha) * float((self.P.norms(residual) / (size + (size == 0))).max())

    @property
    def is_in_maximum_norm(self) -> bool:
        """Whether residuals are measured in the maximum norm: for the random walk."""
        P = self.P.P if isinstance(self.P, HalfPropagation) else self.P
        return isinstance(P, Propagation) and P.normalization == "rw"
