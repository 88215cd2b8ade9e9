"""X^T (I + alpha L)^-1 X for a whole range of alpha and several beta, sharing what can be shared.

Ghost edges are of low rank, and what they do not share with the plain graph is put back by
Woodbury's formula from products with their factor:

- the paper's: I + alpha L_beta = kappa (I + a L) - alpha beta Q Q^T, Q one column per class, with
  kappa = 1 + alpha beta and a = alpha (1 - beta) / kappa;
- balanced: I + alpha L_beta = I + a L + alpha beta (Pi - Q Q^T), a = alpha (1 - beta), Pi the
  projector on labelled nodes: one column per labelled node;
- balanced with many labels: P gets a diagonal for each beta, and Q is as above: a pass per beta.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from .moments import COLUMNS, Moments, ghost_columns, moments_needed, with_ghost_edges
from .propagation import GhostForm, Propagation
from .samples import Samples, sample_points, steps_needed

# Time per multiplication in units of that in a product of two dense blocks: measured in float32,
# 169,343 nodes with 8 to 128 features and 20,000 nodes with 8 to 500.
STEP, ADDITION = 12.0, 2.0

#: A direct solve of a small graph takes as long as so many steps.
DIRECT_STEPS = 5

#: Sharing must take less than this part of the time to be chosen.
WORTH_SHARING = 0.8

#: What rounding adds to the products of a pass, in units of the precision.
ROUNDING = 0.5

#: Largest stack of moments that is held.
MOMENT_BYTES = 2**29


class Pass(NamedTuple):
    """One pass over the graph: which betas it serves, at which alphas of L, how accurately."""

    betas: tuple[float, ...]
    own: bool  # whether P has the diagonal of the only beta
    smallest: float  # above 0
    largest: float
    zero: bool  # whether alpha = 0 is wanted, too
    tol: float


class Grid(NamedTuple):
    """The pairs of alpha and beta that are wanted, and how accurately.

    ``tol`` is the largest error of the inverse, relative to the identity.
    """

    alphas: tuple[float, ...]
    betas: tuple[float, ...]
    ghost: GhostForm
    tol: float

    def passes(self, *, by_node: bool) -> list[Pass]:
        """The passes to be made, with all that their plan and their work depend on."""
        is_shared = self.ghost == "paper" or by_node
        shared = tuple(beta for beta in self.betas if is_shared or beta == 0)
        groups = [(shared, False)] if shared else []
        groups += [((beta,), True) for beta in self.betas if beta not in shared]
        return [self._pass(betas, own, by_node) for betas, own in groups]

    def _pass(self, betas: tuple[float, ...], own: bool, by_node: bool) -> Pass:
        ends = min(self.alphas), max(self.alphas)
        reached = [self.shift(a, b, by_node=by_node)[1] for a in ends for b in betas]
        tol = self.tol / self._amplification(ends[1], max(betas), by_node)
        smallest = min((a for a in reached if a > 0), default=0.0)
        return Pass(betas, own, smallest, max(reached), 0 in reached, tol)

    def shift(self, alpha: float, beta: float, *, by_node: bool) -> tuple[float, float, float]:
        """(kappa, a, s) such that I + alpha L_beta = kappa (I + a L) - s U V^T."""
        if self.ghost == "paper":
            kappa = 1 + alpha * beta
            return kappa, alpha * (1 - beta) / kappa, alpha * beta
        if by_node:
            return 1.0, alpha * (1 - beta), -alpha * beta
        return 1.0, alpha, alpha * beta

    def _amplification(self, alpha: float, beta: float, by_node: bool) -> float:
        """How much Woodbury's formula may enlarge an error of a pass.

        It multiplies the error from both sides by I + s U U^T S^-1, S being the whole system,
        which is at least 1, and on labelled nodes by node at least 1 + s.
        """
        s = alpha * beta
        if self.ghost == "paper":
            return 1 + s
        return (1 + math.sqrt(s)) ** 2 if by_node else (1 + s) ** 2


class Sharing(NamedTuple):
    """How to come by the products of all pairs, and what that takes."""

    way: str  # "moments", "samples" or "separate"
    by_node: bool
    cost: float


class Resolvents:
    """X^T (I + alpha L_beta)^-1 X for every alpha of a range and some beta.

    Parameters
    ----------
    propagation : callable
        P of a given beta.
    X : ndarray of shape (n, d)
        Centred.
    labels : ndarray of int, optional
        A class code per node, -1 for none.
    grid : Grid
    plan : Sharing
        Of :func:`plan_sharing`, and not "separate".
    """

    def __init__(
        self,
        propagation: Callable[[float], Propagation],
        X: np.ndarray,
        labels: np.ndarray | None,
        grid: Grid,
        plan: Sharing,
    ) -> None:
        self._d, self._grid, self._by_node = X.shape[1], grid, plan.by_node
        self._n_ghosts = 0
        self._passes: dict[float, Moments | Samples] = {}
        for one in grid.passes(by_node=plan.by_node):
            P = propagation(one.betas[0] if one.own else 0.0).without_ghost_factor()
            columns = [X]
            if labels is not None:
                U, V = ghost_columns(
                    labels, P.row_weights, balanced=grid.ghost == "balanced", by_node=plan.by_node
                )
                self._n_ghosts = U.shape[1]
                columns += [U] if np.array_equal(U, V) else [U, V]
            B = np.hstack(columns, dtype=X.dtype, casting="same_kind")
            done: Moments | Samples
            if plan.way == "moments":
                done = Moments(P, B, one.largest, one.tol)
            else:
                done = Samples(P, B, one.smallest, one.largest, one.tol, zero=one.zero)
            self._passes.update(dict.fromkeys(one.betas, done))

    def matrix(self, alpha: float, beta: float) -> np.ndarray:
        """X^T (I + alpha L_beta)^-1 X (X^T D ... for ``rw``)."""
        kappa, a, strength = self._grid.shift(alpha, beta, by_node=self._by_node)
        product = self._passes[beta].product(a)
        return with_ghost_edges(product, self._d, self._n_ghosts, strength / kappa) / kappa


def plan_sharing(
    P: Propagation,
    d: int,
    labels: np.ndarray | None,
    grid: Grid,
    *,
    direct: bool,
    max_iter: int = 1000,
) -> Sharing:
    """The cheapest way to the products of all pairs that reaches the accuracy of the grid."""
    n, entries = P.n_nodes, len(P.indices) + P.n_nodes

    def steps(alpha: float) -> int:
        return DIRECT_STEPS if direct and alpha else moments_needed(alpha, grid.tol)

    alone = sum(steps(alpha) for alpha in grid.alphas) * entries * d * STEP
    alone += len(grid.alphas) * n * d * d
    plans = [Sharing("separate", False, WORTH_SHARING * len(grid.betas) * alone)]
    n_labelled = 0 if labels is None else int(np.sum(labels >= 0))
    n_classes = 0 if labels is None else len(np.unique(labels[labels >= 0]))
    for by_node in (False, True):
        if by_node and (grid.ghost == "paper" or labels is None):
            continue
        passes = grid.passes(by_node=by_node)
        if any(
            one.tol < ROUNDING * np.finfo(P.dtype).eps
            or moments_needed(one.largest, one.tol) > max_iter
            for one in passes
        ):
            continue
        w = d + (n_labelled if by_node else n_classes)
        half = (w + COLUMNS) / (2 * w) if w > COLUMNS else 1.0  # of symmetric products
        n_moments = sum(moments_needed(one.largest, one.tol) for one in passes)
        if n_moments * w * w * 8 <= MOMENT_BYTES:
            cost = n_moments * (entries * w * STEP / 2 + half * n * w * w)
            plans.append(Sharing("moments", by_node, cost))
        if min(grid.alphas) > 0:
            cost = sum(_cost_of_samples(one, n, entries, w, half) for one in passes)
            plans.append(Sharing("samples", by_node, cost))
    return min(plans, key=lambda plan: plan.cost)


def _cost_of_samples(one: Pass, n: int, entries: int, w: int, half: float) -> float:
    """Infinite where interpolation does not reach the accuracy."""
    points = sample_points(one.smallest, one.largest, one.tol) if one.smallest > 0 else None
    if points is None:
        return math.inf
    n_steps = steps_needed(one.largest, one.tol)
    n_terms = sum(min(n_steps, moments_needed(alpha, one.tol)) for alpha in points)
    products = half * len(points) * n * w * w
    return n_steps * entries * w * STEP + n_terms * n * w * ADDITION + products
