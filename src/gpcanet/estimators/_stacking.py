"""Ridge regressions on embeddings, combined by weights that fit their left-out predictions.

The leave-one-out predictions of a ridge regression are exact and take no refit, since the
embeddings do not use labels. They choose the penalty of every regression, and its weight in the sum
of all: the non-negative least squares fit of the targets (Breiman, "Stacked regressions", 1996).
Most weights are 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
import scipy.optimize
import scipy.sparse as sp

from ..graph import Graph
from ..linalg import Propagation, Solver, one_blas_thread
from ._boosting import BoostedTrees
from .feature_scaler import FeatureScaler
from .gpca import GPCA

#: Penalties of the ridge regressions, relative to the sum of squares of the centred embedding.
PENALTIES = 10.0 ** np.arange(-6, 2.5, 0.5)

#: Smallest value of 1 - leverage; below it a leave-one-out residual is mostly rounding.
SMALLEST_SLACK = 1e-10

#: Largest sum of the weights of all regressions. It may exceed 1, because each regression shrinks
#: its predictions.
MAX_TOTAL = 1.5

#: Weight of the equation that bounds this sum, relative to the equations of all rows together.
CONSTRAINT_FACTOR = 1e4

#: alpha of the solves that propagate residuals.
RESIDUAL_ALPHAS = (1.0, 5.0, 20.0)

#: Smallest share of walks that end at a known residual; solves have errors of 1e-6.
SMALLEST_SHARE = 1e-4

#: Folds of boosting and of propagated residuals.
N_FOLDS = 5

#: Embeddings with at most this many entries use one BLAS thread; two would wait for each other.
ONE_THREAD_SIZE = 2_000_000

#: Total size up to which the embeddings of all nodes are kept during fit.
KEPT_BYTES = 2**29


class Ridge(NamedTuple):
    """Ridge regressions of several targets, and their leave-one-out predictions."""

    coefficients: np.ndarray  # (n_columns, n_targets)
    intercepts: np.ndarray
    left_out: np.ndarray  # (n_rows, n_targets), NaN where a target is unknown

    @classmethod
    def fit(cls, B: np.ndarray, Y: np.ndarray, weights: np.ndarray) -> Ridge:
        """Fit each target on its known rows."""
        known = ~np.isnan(Y)
        result = cls(
            np.zeros((B.shape[1], Y.shape[1])), np.zeros(Y.shape[1]), np.full(Y.shape, np.nan)
        )
        patterns, pattern_of = np.unique(known, axis=1, return_inverse=True)
        for i, rows in enumerate(patterns.T):  # targets with the same known rows share the work
            targets = np.flatnonzero(pattern_of.ravel() == i)
            one = cls._fit_known(B[rows], Y[np.ix_(rows, targets)], weights[rows])
            result.coefficients[:, targets] = one.coefficients
            result.intercepts[targets] = one.intercepts
            result.left_out[np.ix_(rows, targets)] = one.left_out
        return result

    @classmethod
    def _fit_known(cls, B: np.ndarray, Y: np.ndarray, weights: np.ndarray) -> Ridge:
        """Fit known targets, each with the penalty of the smallest leave-one-out error."""
        shares = weights / weights.sum()
        column_means, target_means = shares @ B, shares @ Y
        roots = np.sqrt(weights)[:, None]
        C, R = roots * (B - column_means), roots * (Y - target_means)
        total = float(np.sum(C**2))
        if total == 0 or len(C) < 2:
            constant = np.zeros((B.shape[1], Y.shape[1])), target_means, 0 * Y + target_means
            return cls(*constant)
        by_rows = len(C) <= C.shape[1]
        squares, V = scipy.linalg.eigh(C @ C.T if by_rows else C.T @ C)
        kept = squares > max(C.shape) * np.finfo(np.float64).eps * squares[-1]
        squares, V = squares[kept], V[:, kept]
        U = V if by_rows else (C @ V) / np.sqrt(squares)
        projected = U.T @ R
        smallest = np.full(Y.shape[1], np.inf)
        left_out, solution = 0 * Y + target_means, np.zeros_like(projected)
        for penalty in PENALTIES * total:
            shrinkage = squares / (squares + penalty)
            slack = np.maximum(1 - U**2 @ shrinkage - shares, SMALLEST_SLACK)  # 1 - leverage
            residuals = (R - U @ (shrinkage[:, None] * projected)) / (roots * slack[:, None])
            errors = shares @ residuals**2
            better = errors < smallest
            smallest = np.where(better, errors, smallest)
            left_out[:, better] = (Y - residuals)[:, better]
            solution[:, better] = projected[:, better] / (squares + penalty)[:, None]
        if by_rows:
            coefficients = C.T @ (U @ solution)
        else:
            coefficients = V @ (np.sqrt(squares)[:, None] * solution)
        return cls(coefficients, target_means - column_means @ coefficients, left_out)


def stacking_weights(predictions: np.ndarray, y: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Least squares weights of the columns of ``predictions``, after subtraction of the mean of y.

    They are not negative, and their sum is at most ``MAX_TOTAL``. Without this bound, predictions
    that hardly vary would get very large weights if few values are known.
    """
    mean, roots = np.average(y, weights=weights), np.sqrt(weights)
    A, b = roots[:, None] * (predictions - mean), roots * (y - mean)
    size = float(np.linalg.norm(b))
    if size == 0:  # y is constant
        return np.zeros(A.shape[1])
    # A row with a large factor fixes the sum of all weights and of a slack variable.
    constraint = np.full((1, A.shape[1] + 1), CONSTRAINT_FACTOR)
    A = np.vstack([np.column_stack([A / size, np.zeros(len(A))]), constraint])
    b = np.append(b / size, MAX_TOTAL * CONSTRAINT_FACTOR)
    return scipy.optimize.nnls(A, b)[0][:-1]


class Embedded(NamedTuple):
    """An embedding with a ridge regression; ``gpca`` is None for X itself."""

    scaling: FeatureScaler
    gpca: GPCA | None
    ridge: Ridge
    Z: Any  # of all rows; None if it was not kept


def embed(
    X: Any, scaling: FeatureScaler, gpca: GPCA | None, graph: Graph, nodes: np.ndarray | None
) -> Any:
    """The embedding of X by a fitted GPCA, or the scaled X itself."""
    scaled = scaling.transform(X)
    return scaled if gpca is None else gpca.transform(scaled, graph=graph, nodes=nodes)


class Stack:
    """Regressions of the same targets on the labelled rows, and their weighted sum.

    Parameters
    ----------
    labeled : ndarray of int
        The rows of X with a known target.
    Y : ndarray of shape (n_labeled, n_targets)
        NaN where a target is unknown.
    weights : ndarray of shape (n_labeled,)
        Above 0.
    """

    def __init__(self, labeled: np.ndarray, Y: np.ndarray, weights: np.ndarray) -> None:
        self.labeled, self.Y, self.weights = labeled, Y, weights
        self.candidates: list[Embedded] = []
        self.table: np.ndarray | None = None
        self._kept_bytes = 0

    def add(self, scaling: FeatureScaler, gpca: GPCA | None, Z: Any) -> None:
        """Fit a ridge regression on an embedding."""
        B = Z[self.labeled]
        B = np.asarray(B.toarray() if sp.issparse(B) else B, np.float64)
        with one_blas_thread() if B.size <= ONE_THREAD_SIZE else nullcontext():
            ridge = Ridge.fit(B, self.Y, self.weights)
        if gpca is None:
            Z = None
        else:
            self._kept_bytes += Z.nbytes
            Z = Z if self._kept_bytes <= KEPT_BYTES else None
        self.candidates.append(Embedded(scaling, gpca, ridge, Z))

    def combine(self, table: np.ndarray | None, folds: np.ndarray) -> None:
        """Compute the weights; ``table`` has the features of boosting for all rows."""
        n_targets = self.Y.shape[1]
        boosted = None if table is None else self._boosted(table[self.labeled], folds)
        everything = [one.ridge.left_out for one in self.candidates]
        everything += [] if boosted is None else [boosted]
        stack_weights = np.zeros((len(everything), n_targets))
        self.left_out, self.means = np.full(self.Y.shape, np.nan), np.empty(n_targets)
        for t in range(n_targets):
            rows = ~np.isnan(self.Y[:, t])
            y, weights = self.Y[rows, t], self.weights[rows]
            predictions = np.column_stack([one[rows, t] for one in everything])
            stack_weights[:, t] = stacking_weights(predictions, y, weights)
            self.means[t] = mean = np.average(y, weights=weights)
            self.left_out[rows, t] = mean + (predictions - mean) @ stack_weights[:, t]
        n = len(self.candidates)
        used = np.flatnonzero(stack_weights[:n].any(axis=1))
        self.used = [self.candidates[i] for i in used]
        self.stack_weights = stack_weights[used]
        self.tree_weights = np.zeros(n_targets) if boosted is None else stack_weights[-1]
        self.trees = [
            BoostedTrees.fit_values(table[self.labeled][rows], self.Y[rows, t], self.weights[rows])
            if table is not None and self.tree_weights[t] > 0
            else None
            for t, rows in enumerate(~np.isnan(self.Y.T))
        ]

    def linear(self) -> tuple[list[np.ndarray], np.ndarray]:
        """Coefficients of each used embedding, and intercepts, with the weights included."""
        total = self.stack_weights.sum(axis=0) + self.tree_weights
        coefficients, intercepts = [], self.means * (1 - total)
        for one, weights in zip(self.used, self.stack_weights, strict=True):
            coefficients.append(weights * one.ridge.coefficients)
            intercepts += weights * one.ridge.intercepts
        return coefficients, intercepts

    def _boosted(self, table: np.ndarray, folds: np.ndarray) -> np.ndarray:
        """Predictions for the nodes of each fold by trees that are trained on the other folds."""
        predicted = np.full(self.Y.shape, np.nan)
        for t, known in enumerate(~np.isnan(self.Y.T)):
            for fold in np.unique(folds):
                train, held_out = known & (folds != fold), known & (folds == fold)
                if train.any() and held_out.any():
                    trees = BoostedTrees.fit_values(
                        table[train], self.Y[train, t], self.weights[train]
                    )
                    predicted[held_out, t] = trees.predict(table[held_out])
            missing = known & np.isnan(predicted[:, t])  # a single fold
            predicted[missing, t] = np.mean(self.Y[known, t])
        return predicted


def sorted_folds(Y: np.ndarray, X: Any) -> np.ndarray:
    """The fold of every row.

    Rows are sorted by the first target, then by the row sums of X, and assigned to the folds in
    turn. So every fold covers the range of the target, and the order of the nodes does not matter.
    """
    sums = np.asarray(X.sum(axis=1)).ravel()
    folds = np.empty(len(Y), np.int64)
    folds[np.lexsort((sums, Y[:, 0]))] = np.arange(len(Y)) % N_FOLDS
    return folds


def propagate(graph: Graph, residuals: np.ndarray, alpha: float) -> np.ndarray:
    """For every node the mean of the known residuals, weighted by a random walk with restart.

    Unknown residuals are NaN. The mean is 0 where hardly any walk ends at a known one.
    """
    P = Propagation(graph.indptr, graph.indices, graph.weights, normalization="rw")
    known = ~np.isnan(residuals)
    sums = Solver(P, alpha).apply(np.hstack([np.nan_to_num(residuals), known.astype(np.float64)]))
    totals, shares = np.hsplit(sums, 2)
    return np.divide(totals, shares, out=np.zeros_like(totals), where=shares > SMALLEST_SHARE)


def residual_gains(
    graph: Graph,
    residuals: np.ndarray,
    labeled: np.ndarray,
    weights: np.ndarray,
    folds: np.ndarray,
    *,
    required: bool,
) -> tuple[float, np.ndarray, np.ndarray]:
    """The best alpha, a factor for each target, and the propagated residuals of each labelled row.

    The residuals of a fold are predicted from those of the other folds. The factor is their least
    squares fit in [0, 1], or 0 if it does not reduce the squared error by more than one standard
    error. If ``required``, any reduction is enough.
    """
    left_out = residuals[labeled]
    best: tuple[float, float, np.ndarray, np.ndarray] | None = None
    for alpha in RESIDUAL_ALPHAS:
        smoothed, gains = np.zeros(left_out.shape), np.zeros(left_out.shape[1])
        reduction = 0.0
        for t in range(left_out.shape[1]):
            errors = np.full((len(residuals), N_FOLDS), np.nan)
            others = folds[:, None] != np.arange(N_FOLDS)
            errors[labeled] = np.where(others, left_out[:, [t]], np.nan)
            smoothed[:, t] = propagate(graph, errors, alpha)[labeled, folds]
            known = ~np.isnan(left_out[:, t])
            r, s, w = left_out[known, t], smoothed[known, t], weights[known]
            gain = float(np.clip((w * r) @ s / (float((w * s) @ s) or 1.0), 0, 1))
            change = r**2 - (r - gain * s) ** 2
            mean = np.average(change, weights=w)
            error = np.sqrt(np.average((change - mean) ** 2, weights=w) / len(r))
            if mean > (0 if required else error):
                gains[t] = gain
                reduction += mean / (np.average(r**2, weights=w) or 1.0)
        if best is None or reduction > best[0]:
            best = reduction, alpha, gains, smoothed
    assert best is not None
    return best[1:]


def left_out_r2(Y: np.ndarray, left_out: np.ndarray, weights: np.ndarray) -> float:
    """R^2 of the left-out predictions, the mean over targets; NaN if no target varies."""
    scores = []
    for t, known in enumerate(~np.isnan(Y.T)):
        y, w = Y[known, t], weights[known]
        variance = np.average((y - np.average(y, weights=w)) ** 2, weights=w)
        if variance > 0:
            error = np.average((y - left_out[known, t]) ** 2, weights=w)
            scores.append(1 - error / variance)
    return float(np.mean(scores)) if scores else float("nan")


def predict_stacked(
    tables: Sequence[Any], coefficients: Sequence[np.ndarray], intercepts: np.ndarray, n_rows: int
) -> np.ndarray:
    """The weighted sum of the linear predictions."""
    result = np.tile(intercepts, (n_rows, 1))
    for Z, coefficient in zip(tables, coefficients, strict=True):
        result += Z @ coefficient
    return result
