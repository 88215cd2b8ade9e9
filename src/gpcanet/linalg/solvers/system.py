"""The linear system of GPCA, and what iterations need to know of a system."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from ..operators.base import Array, BlockOperator
from ..operators.half_precision import HalfPropagation
from ..operators.propagation import Propagation


class LinearSystem(Protocol):
    """S F = X with an S that is self-adjoint and positive in the inner product of P."""

    @property
    def P(self) -> BlockOperator:
        """The operator whose block operations are used."""

    @property
    def scale(self) -> float:
        """Factor by which ``residual`` is smaller than X - S F."""

    def apply(self, F: Array, out: Array) -> Array:
        """S F; may overwrite ``out``."""

    def residual(self, F: Array, X: Array) -> Array:
        """(X - S F) / scale as a new block."""

    def relative_norm(self, residual: Array, X: Array) -> float:
        """Largest ||X - S F|| / ||X|| over the columns."""


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

    @property
    def scale(self) -> float:
        return 1 + self.alpha

    def apply(self, F: Array, out: Array) -> Array:
        """(I + alpha L) F; may overwrite ``out``."""
        return self.P.step(F, F, out, -self.alpha, 1 + self.alpha, 0.0)

    def residual(self, F: Array, X: Array) -> Array:
        """(X - (I + alpha L) F) / (1 + alpha) as a new block.

        This is the change of one more fixed-point step. It has the size of F, so it stays in the
        range of half precision.
        """
        return self.P.step(F, X, self.P.scaled(F, 0.0), self.c, 1 - self.c, 0.0, own=-1.0)

    def relative_norm(self, residual: Array, X: Array) -> float:
        """Largest ||X - (I + alpha L) F|| / ||X|| over the columns."""
        size = self.P.norms(X)
        return self.scale * float((self.P.norms(residual) / (size + (size == 0))).max())

    @property
    def is_in_maximum_norm(self) -> bool:
        """Whether residuals are measured in the maximum norm: for the random walk."""
        P = self.P.P if isinstance(self.P, HalfPropagation) else self.P
        return isinstance(P, Propagation) and P.normalization == "rw"
