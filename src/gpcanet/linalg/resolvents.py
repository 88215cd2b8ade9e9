"""X^T (I + alpha L)^-1 X for a range of alpha and several beta, from shared solves.

Ghost edges are a low-rank term, which the Woodbury formula adds to the products of the plain
graph with the columns of that term:

- ``paper``: I + alpha L_beta = kappa (I + a L) - alpha beta U V^T with a column of U per class or
  target, kappa = 1 + alpha beta and a = alpha (1 - beta) / kappa. All beta share one pass.
- ``balanced``: the labels also change the diagonal of P, so every beta above 0 takes its own pass.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from .interpolation import InterpolatedProducts, sample_points, series_length, steps_needed
from .operators.ghost import GhostFactor, GhostForm, ghost_factors, max_rank
from .operators.propagation import Propagation
from .solvers.woodbury import woodbury_factor

#: Time per multiplication of a propagation step, relative to a product of dense blocks.
STEP_TIME = 12.0

#: Time per multiplication of adding a term to a sum, relative to a product of dense blocks.
ADDITION_TIME = 2.0

#: Steps that take as long as a direct solve on a small graph.
DIRECT_STEPS = 5

#: Sharing is chosen if its estimated time is below this fraction of the time of separate fits.
WORTH_SHARING = 0.8

#: Rounding error of the products of a pass, in units of the machine precision.
ROUNDING_ERROR = 0.5

#: Columns per block of a symmetric product, of which only the upper triangle is computed.
PRODUCT_COLUMNS = 64


class Pass(NamedTuple):
    """One pass over the graph: the betas that it serves, the range of alpha, the accuracy."""

    betas: tuple[float, ...]
    has_diagonal: bool  # whether P has the diagonal of its only beta
    smallest: float  # alpha above 0
    largest: float
    zero: bool  # whether alpha = 0 is needed, too
    tol: float


class Grid(NamedTuple):
    """Pairs of alpha and beta, and the largest error of the inverse relative to the identity."""

    alphas: tuple[float, ...]
    betas: tuple[float, ...]
    ghost: GhostForm
    tol: float

    def passes(self) -> list[Pass]:
        """The passes that the grid needs; the plan and the computation both read them."""
        shared = tuple(beta for beta in self.betas if self.ghost == "paper" or beta == 0)
        groups = [(shared, False)] if shared else []
        groups += [((beta,), True) for beta in self.betas if beta not in shared]
        return [self._pass(betas, has_diagonal) for betas, has_diagonal in groups]

    def _pass(self, betas: tuple[float, ...], has_diagonal: bool) -> Pass:
        ends = min(self.alphas), max(self.alphas)
        reached = [self.shift(alpha, beta)[1] for alpha in ends for beta in betas]
        smallest = min((alpha for alpha in reached if alpha > 0), default=0.0)
        tol = self.tol / self._amplification(ends[1], max(betas))
        return Pass(betas, has_diagonal, smallest, max(reached), 0 in reached, tol)

    def shift(self, alpha: float, beta: float) -> tuple[float, float, float]:
        """(kappa, a, s) such that I + alpha L_beta = kappa (I + a L) - s U V^T."""
        if self.ghost == "paper":
            kappa = 1 + alpha * beta
            return kappa, alpha * (1 - beta) / kappa, alpha * beta
        return 1.0, alpha, alpha * beta

    def _amplification(self, alpha: float, beta: float) -> float:
        """Largest factor by which the Woodbury formula multiplies an error of a pass.

        The error is multiplied from both sides by I + s U U^T S^-1, S being the whole system,
        whose smallest eigenvalue is 1.
        """
        return (1 + alpha * beta) ** (1 if self.ghost == "paper" else 2)


class Resolvents:
    """X^T (I + alpha L_beta)^-1 X for every alpha of a range and some beta.

    Parameters
    ----------
    propagation : callable
        P of a given beta.
    X : ndarray of shape (n, d)
        Centred.
    labels : ndarray, optional
        Class codes or targets, as for :class:`Propagation`.
    grid : Grid
        One for which :func:`sharing_pays`.
    """

    def __init__(
        self,
        propagation: Callable[[float], Propagation],
        X: np.ndarray,
        labels: np.ndarray | None,
        grid: Grid,
    ) -> None:
        self._d, self._grid, self._n_ghosts = X.shape[1], grid, 0
        self._samples: dict[float, InterpolatedProducts] = {}
        for one in grid.passes():
            P = propagation(one.betas[0] if one.has_diagonal else 0.0).without_ghost_factor()
            columns = [X]
            if labels is not None:
                factors = ghost_factors(labels, P.row_weights, grid.ghost)
                U, V = GhostFactor(*factors, P.n_nodes, X.dtype).dense()
                self._n_ghosts = U.shape[1]
                columns += [U] if np.array_equal(U, V) else [U, V]
            B = np.hstack(columns)
            samples = InterpolatedProducts(P, B, one.smallest, one.largest, one.tol, zero=one.zero)
            self._samples.update(dict.fromkeys(one.betas, samples))

    def matrix(self, alpha: float, beta: float) -> np.ndarray:
        """X^T (I + alpha L_beta)^-1 X (X^T D ... for ``rw``)."""
        kappa, a, strength = self._grid.shift(alpha, beta)
        product = self._samples[beta].product(a)
        return _with_ghost_edges(product, self._d, self._n_ghosts, strength / kappa) / kappa


def sharing_pays(
    P: Propagation,
    d: int,
    labels: np.ndarray | None,
    grid: Grid,
    *,
    direct: bool,
    max_iter: int = 1000,
) -> bool:
    """Whether shared solves reach the accuracy of the grid in less time than separate fits."""
    if min(grid.alphas) == 0:
        return False
    n, entries = P.n_nodes, len(P.indices) + P.n_nodes
    steps = (DIRECT_STEPS if direct else series_length(alpha, grid.tol) for alpha in grid.alphas)
    separate = sum(steps) * entries * d * STEP_TIME + len(grid.alphas) * n * d * d
    width = d + (0 if labels is None else max_rank(labels))
    shared = sum(_cost(one, P, entries, width, max_iter) for one in grid.passes())
    return shared < WORTH_SHARING * len(grid.betas) * separate


def _cost(one: Pass, P: Propagation, entries: int, width: int, max_iter: int) -> float:
    """Estimated time of a pass; infinite if it does not reach the accuracy."""
    if (
        one.tol < ROUNDING_ERROR * np.finfo(P.dtype).eps
        or series_length(one.largest, one.tol) > max_iter
    ):
        return math.inf
    points = sample_points(one.smallest, one.largest, one.tol) if one.smallest > 0 else None
    if points is None:
        return math.inf
    n_steps = steps_needed(one.largest, one.tol)
    n_terms = sum(min(n_steps, series_length(alpha, one.tol)) for alpha in points)
    triangle = min(1.0, (width + PRODUCT_COLUMNS) / (2 * width))
    return (
        n_steps * entries * width * STEP_TIME
        + n_terms * P.n_nodes * width * ADDITION_TIME
        + triangle * len(points) * P.n_nodes * width**2
    )


def _with_ghost_edges(product: np.ndarray, d: int, n_ghosts: int, strength: float) -> np.ndarray:
    """X^T (S - strength U V^T D)^-1 X by Woodbury from the products of [X, U, V], or [X, U].

    ``product`` holds the products of S^-1 with these columns.
    """
    if strength == 0 or n_ghosts == 0:
        return product[:d, :d]
    U = slice(d, d + n_ghosts)
    V = slice(len(product) - n_ghosts, len(product))
    factor = woodbury_factor(product[V, U], strength)
    return product[:d, :d] + product[:d, U] @ (factor @ product[V, :d])
