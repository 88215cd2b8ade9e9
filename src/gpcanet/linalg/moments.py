"""X^T (I + alpha L)^-1 X for every alpha from one pass over the graph.

With c = alpha / (1 + alpha) the inverse is (1 - c) (I - c P)^-1, a function of the one matrix P
whatever alpha is, and has a Chebyshev series in it:

    (1 - c) / (1 - c mu) = (1 - c) / sqrt(1 - c^2) (1 + 2 sum_t r^t T_t(mu)),
    r = (1 - sqrt(1 - c^2)) / c.

So the moments X^T T_t(P) X are all that has to be known. T_2s = 2 T_s^2 - I and
T_2s+1 = 2 T_s+1 T_s - T_1 make two of them out of every step.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from .progress import report
from .propagation import Propagation
from .threads import parallel_sum

#: Rows multiplied at a time: their products are added up in float64, whatever the blocks are in.
ROWS = 2048

#: Columns multiplied at a time: of a symmetric product only blocks from the diagonal on are made.
COLUMNS = 64


class Moments:
    """B^T T_t(P) B for t = 0, 1, ... up to what ``largest_alpha`` needs.

    Products are those in which P is self-adjoint: plain for ``sym``, weighted by D for ``rw``.

    Parameters
    ----------
    P : Propagation
        Without a ghost factor; its spectrum is in [-1, 1].
    B : ndarray of shape (n, w)
    largest_alpha : float
    tol : float
        Largest error of (I + alpha L)^-1 as a function of the eigenvalues of L.

    Examples
    --------
    >>> import numpy as np
    >>> P = Propagation(np.array([0, 1, 2]), np.array([1, 0]))  # a single edge
    >>> moments = Moments(P, np.array([[1.0], [3.0]]), largest_alpha=5.0, tol=1e-9)
    >>> moments.product(0.0), moments.product(1.0).round(6)  # 1.5 * 1 + 2.5 * 3
    (array([[10.]]), array([[9.]]))
    """

    def __init__(self, P: Propagation, B: np.ndarray, largest_alpha: float, tol: float) -> None:
        self.largest_alpha = largest_alpha
        n_steps = (moments_needed(largest_alpha, tol) + 1) // 2
        before = P.scaled(P.enter(B), 1.0)
        self.moments = np.empty((2 * n_steps + 1, B.shape[1], B.shape[1]))
        self.moments[0] = _products(P.mass, before, before)[0]
        if n_steps == 0:
            return
        T = P.matmul(before)
        self.moments[2], self.moments[1] = _products(P.mass, T, before)
        self.moments[2] = 2 * self.moments[2] - self.moments[0]
        for s in range(2, n_steps + 1):
            T, before = P.step(T, T, before, 2.0, 0.0, -1.0), T
            even, odd = _products(P.mass, T, before)
            self.moments[2 * s] = 2 * even - self.moments[0]
            self.moments[2 * s - 1] = 2 * odd - self.moments[1]
            report("adding up moments", s, n_steps)

    def product(self, alpha: float) -> np.ndarray:
        """B^T (I + alpha L)^-1 B for an alpha from 0 to ``largest_alpha``."""
        coefficients = series(alpha, len(self.moments))
        return np.tensordot(coefficients, self.moments, axes=1)


def series(alpha: float, n_terms: int) -> np.ndarray:
    """Chebyshev coefficients of (1 + alpha (1 - mu))^-1 on [-1, 1]."""
    c = alpha / (1 + alpha)
    root = math.sqrt(1 - c * c)
    terms = (c / (1 + root)) ** np.arange(n_terms)
    terms[1:] *= 2
    return (1 - c) / root * terms


def moments_needed(alpha: float, tol: float) -> int:
    """The last t whose coefficient matters: those after it add up to at most tol."""
    c = alpha / (1 + alpha)
    root = math.sqrt(1 - c * c)
    r = c / (1 + root)
    if r == 0:
        return 0
    rest = 2 * (1 - c) / root / (1 - r)  # times r^(t + 1)
    return max(0, math.ceil(math.log(tol / rest) / math.log(r)) - 1)


def _products(mass: np.ndarray, T: np.ndarray, before: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """T^T T and T^T before, rows weighted; both are symmetric."""
    w = T.shape[1]
    others = (T,) if T is before else (T, before)

    def products_of(rows: slice) -> np.ndarray:
        left = (mass[rows, None] * T[rows]).T
        upper = np.zeros((2, w, w))
        for product, right in zip(upper, others, strict=False):
            for column in range(0, w, COLUMNS):
                part = slice(column, column + COLUMNS)
                product[part, column:] = left[part] @ right[rows, column:]
        return upper

    products = sum_over_rows(products_of, len(T))
    even, odd = np.triu(products) + np.triu(products, 1).transpose(0, 2, 1)
    return even, odd


def sum_over_rows(function: Callable[[slice], np.ndarray], n_rows: int) -> np.ndarray:
    """The sum of a function over all rows, some thousand at a time, in threads of our own."""
    slices = [slice(begin, begin + ROWS) for begin in range(0, n_rows, ROWS)]
    return parallel_sum(function, slices)


def ghost_columns(
    labels: np.ndarray, row_weights: np.ndarray | None, *, balanced: bool, by_node: bool
) -> tuple[np.ndarray, np.ndarray]:
    """The ghost edges as U V^T D, in the caller's variable; D is ``row_weights``, None for ones.

    By class, U V^T D is the matrix of class means, one column per class. By node, it is the
    projector on labelled nodes less that matrix, one column per labelled node: what is left of
    the balanced form when its diagonal beta I is taken out.
    """
    nodes = np.flatnonzero(labels >= 0)
    codes = np.unique(labels[nodes], return_inverse=True)[1]
    weights = np.ones(len(nodes)) if row_weights is None else row_weights[nodes].astype(float)
    member = np.zeros((len(nodes), codes.max(initial=-1) + 1))
    member[np.arange(len(nodes)), codes] = 1
    if balanced:
        # Orthonormal once rows are multiplied by the root of their weight.
        left = member / np.sqrt(weights @ member)
        right = left
        if by_node:
            root = np.sqrt(weights)[:, None]
            rooted = root * left
            left = right = (np.eye(len(nodes)) - rooted @ rooted.T) / root
    else:
        left = member / np.sqrt(member.sum(axis=0))
        right = left / weights[:, None]
    U, V = (np.zeros((len(labels), left.shape[1])) for _ in range(2))
    U[nodes], V[nodes] = left, right
    return U, V


def with_ghost_edges(product: np.ndarray, d: int, n_ghosts: int, strength: float) -> np.ndarray:
    """X^T (S^-1 - strength U V^T D)^-1 X from the products of [X, U, V] (or of [X, U], U = V).

    S is what ``product`` was made with; by Woodbury's formula.
    """
    if strength == 0 or n_ghosts == 0:
        return product[:d, :d]
    U = slice(d, d + n_ghosts)
    V = slice(len(product) - n_ghosts, len(product))
    capacitance = np.eye(n_ghosts) - strength * product[V, U]
    added = np.linalg.solve(capacitance, strength * product[V, :d])
    return product[:d, :d] + product[:d, U] @ added
