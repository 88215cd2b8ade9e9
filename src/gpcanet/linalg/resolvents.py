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

from collections.abc import Callable, Sequence
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

#: Largest stack of moments that is held.
MOMENT_BYTES = 2**29


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
    alphas, betas : sequence of float
    ghost : {"balanced", "paper"}
    tol : float
        Largest error of the inverse as a function of the eigenvalues of L.
    plan : Sharing
        Of :func:`plan_sharing`, and not "separate".
    """

    def __init__(
        self,
        propagation: Callable[[float], Propagation],
        X: np.ndarray,
        labels: np.ndarray | None,
        alphas: Sequence[float],
        betas: Sequence[float],
        ghost: GhostForm,
        tol: float,
        plan: Sharing,
    ) -> None:
        self._d, self._ghost, self._by_node = X.shape[1], ghost, plan.by_node
        self._n_ghosts = 0
        self._passes: dict[float, Moments | Samples] = {}
        shared = [beta for beta in betas if self._is_shared(beta)]
        for members in [shared] * bool(shared) + [[b] for b in betas if b not in shared]:
            P = propagation(members[0] if members != shared else 0.0).without_ghost_factor()
            columns = [X]
            if labels is not None:
                U, V = ghost_columns(
                    labels, P.row_weights, balanced=ghost == "balanced", by_node=plan.by_node
                )
                self._n_ghosts = U.shape[1]
                columns += [U] if np.array_equal(U, V) else [U, V]
            B = np.hstack(columns, dtype=X.dtype, casting="same_kind")
            reached = [self._shift(a, b)[1] for a in (min(alphas), max(alphas)) for b in members]
            done: Moments | Samples
            by_class = members != shared or ghost == "paper"
            accuracy = tol / (_amplified(max(alphas), max(members), ghost) if by_class else 1)
            if plan.way == "moments":
                done = Moments(P, B, max(reached), accuracy)
            else:
                least = min(a for a in reached if a > 0)
                done = Samples(P, B, least, max(reached), accuracy, zero=0 in reached)
            self._passes.update(dict.fromkeys(members, done))

    def matrix(self, alpha: float, beta: float) -> np.ndarray:
        """X^T (I + alpha L_beta)^-1 X (X^T D ... for ``rw``)."""
        kappa, a, strength = self._shift(alpha, beta)
        product = self._passes[beta].product(a)
        return with_ghost_edges(product, self._d, self._n_ghosts, strength / kappa) / kappa

    def _is_shared(self, beta: float) -> bool:
        return self._ghost == "paper" or self._by_node or beta == 0

    def _shift(self, alpha: float, beta: float) -> tuple[float, float, float]:
        """(kappa, a, s) such that I + alpha L_beta = kappa (I + a L) - s U V^T."""
        if self._ghost == "paper":
            kappa = 1 + alpha * beta
            return kappa, alpha * (1 - beta) / kappa, alpha * beta
        if self._by_node:
            return 1.0, alpha * (1 - beta), -alpha * beta
        return 1.0, alpha, alpha * beta


def plan_sharing(
    P: Propagation,
    d: int,
    labels: np.ndarray | None,
    alphas: Sequence[float],
    betas: Sequence[float],
    ghost: GhostForm,
    tol: float,
    *,
    direct: bool,
) -> Sharing:
    """The cheapest way to the products of all pairs."""
    n, entries = P.n_nodes, len(P.indices) + P.n_nodes
    largest = max(alphas)

    def steps(alpha: float) -> int:
        return DIRECT_STEPS if direct and alpha else moments_needed(alpha, tol)

    alone = sum(steps(alpha) for alpha in alphas) * entries * d * STEP + len(alphas) * n * d * d
    plans = [Sharing("separate", False, WORTH_SHARING * len(betas) * alone)]
    n_labelled = 0 if labels is None else int(np.sum(labels >= 0))
    n_classes = 0 if labels is None else len(np.unique(labels[labels >= 0]))
    n_own = sum(beta > 0 for beta in betas)  # passes that the balanced form may need for itself
    for by_node in (False, True):
        if by_node and (ghost == "paper" or labels is None):
            continue
        rounding = float(np.finfo(P.dtype).eps) / 2 * _amplified(largest, max(betas), ghost)
        if not by_node and max(betas) > 0 and rounding > tol:
            continue
        w = d + (n_labelled if by_node else n_classes)
        n_passes = 1 if by_node or ghost == "paper" else n_own + (n_own < len(betas))
        half = (w + COLUMNS) / (2 * w) if w > COLUMNS else 1.0  # of symmetric products
        n_moments = moments_needed(largest, tol)
        if n_passes * n_moments * w * w * 8 <= MOMENT_BYTES:
            each = n_moments * (entries * w * STEP / 2 + half * n * w * w)
            plans.append(Sharing("moments", by_node, n_passes * each))
        if min(alphas) > 0 and min(betas) < 1:
            least = min(alphas) * (1 - max(beta for beta in betas if beta < 1))
            if ghost == "paper":
                least /= 1 + min(alphas) * max(betas)
            points = sample_points(least, largest, tol)
            if points is None:
                continue
            n_steps = steps_needed(largest, tol)
            n_terms = sum(min(n_steps, moments_needed(alpha, tol)) for alpha in points)
            each = n_steps * entries * w * STEP + n_terms * n * w * ADDITION
            each += half * len(points) * n * w * w
            plans.append(Sharing("samples", by_node, n_passes * each))
    return min(plans, key=lambda plan: plan.cost)


def _amplified(alpha: float, beta: float, ghost: GhostForm) -> float:
    """How much putting class means back may enlarge an error."""
    return (1 + alpha * beta) ** (1 if ghost == "paper" else 2)
