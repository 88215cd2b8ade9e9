"""Logistic regressions on embeddings, and the calibration of their probabilities."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from scipy.optimize import minimize, minimize_scalar

from ..linalg import one_blas_thread
from .feature_scaler import unit_rows

#: Heads on a Z with at most this many entries are trained with one BLAS thread.
ONE_THREAD_SIZE = 1_000_000

#: Gradient at which a logistic regression stops, the same in a ranking of candidates, and its
#: largest number of iterations.
HEAD_TOL, RANKING_TOL, MAX_ITER = 3e-4, 1e-3, 300

#: Range of the temperature that calibrates probabilities, and the tolerance of its logarithm.
TEMPERATURES, TEMPERATURE_TOL = (0.1, 10.0), 1e-3

#: Bins of the expected calibration error.
CALIBRATION_BINS = 15

#: Smallest probability whose logarithm is taken.
SMALLEST_PROBABILITY = 1e-12


@dataclass(eq=False)
class Head:
    """Multinomial logistic regression on an embedding Z, optionally with more columns beside it.

    The objective is that of scikit-learn's LogisticRegression. Rows of Z are scaled to unit norm
    each (``unit_rows``) or by one common factor; the other columns have one factor of their own.
    A head stores arrays only, so that save_model can write it.
    """

    C: float
    _: KW_ONLY
    unit_rows: bool
    scale: float = 1.0
    others_scale: float = 1.0
    coefficients: np.ndarray | None = None  # of shape (n_columns + 1, n_classes), intercepts last

    def fit(
        self,
        Z: np.ndarray,
        codes: np.ndarray,
        weights: np.ndarray | None = None,
        *,
        others: Any = None,
        start: Head | None = None,
        tol: float = HEAD_TOL,
    ) -> Self:
        """Fit on these rows, starting from the coefficients of another head (``start``)."""
        # Scaled to unit norm on average, so that C has the same effect for every X. A Python
        # float keeps the dtype of float32 embeddings.
        self.scale = 1 / (float(np.sqrt(np.mean(np.sum(Z**2, axis=1)))) or 1.0)
        if others is not None:
            squares = others.multiply(others) if sp.issparse(others) else others**2
            self.others_scale = 1 / (float(np.sqrt(squares.sum() / len(codes))) or 1.0)
        first = None if start is None else start.coefficients
        with one_blas_thread() if Z.size <= ONE_THREAD_SIZE else nullcontext():
            self.coefficients = fit_logistic(
                self._blocks(Z, others), codes, weights, C=self.C, start=first, tol=tol
            )
        return self

    def predict_proba(self, Z: np.ndarray, others: Any = None) -> np.ndarray:
        assert self.coefficients is not None
        return softmax(_logits(self._blocks(Z, others), self.coefficients))

    def _blocks(self, Z: np.ndarray, others: Any) -> list[Any]:
        """Scaled Z and the scaled other columns."""
        Z = self.scale_rows(Z)
        return [Z] if others is None else [Z, others * self.others_scale]

    def scale_rows(self, Z: np.ndarray) -> np.ndarray:
        return unit_rows(Z) if self.unit_rows else Z * self.scale


def fit_logistic(
    blocks: list[Any],
    codes: np.ndarray,
    weights: np.ndarray | None = None,
    *,
    C: float,
    start: np.ndarray | None = None,
    tol: float = HEAD_TOL,
) -> np.ndarray:
    """Coefficients of a logistic regression on blocks of columns, the intercepts in the last row.

    Minimises the weighted mean of the negative log-likelihood plus ||W||^2 / (2 C n). For two
    classes the coefficients of the first are 0, as in scikit-learn.
    """
    n, n_classes = len(codes), int(codes.max()) + 1
    free = slice(0 if n_classes > 2 else 1, n_classes)
    n_columns = sum(block.shape[1] for block in blocks)
    weights = np.ones(n) if weights is None else weights
    penalty, shares = 1 / (C * weights.sum()), (weights / weights.sum())[:, None]
    dtype, rows = blocks[0].dtype, np.arange(n)
    transposed = [block.T.tocsr() if sp.issparse(block) else block.T for block in blocks]

    def objective(flat: np.ndarray) -> tuple[float, np.ndarray]:
        W = np.zeros((n_columns + 1, n_classes))
        W[:, free] = flat.reshape(n_columns + 1, -1)
        logits = _logits(blocks, W.astype(dtype))
        logits -= logits.max(axis=1, keepdims=True)
        of_true = logits[rows, codes]
        np.exp(logits, out=logits)
        totals = logits.sum(axis=1)
        loss = shares[:, 0] @ (np.log(totals) - of_true).astype(np.float64)
        logits /= totals[:, None]
        logits[rows, codes] -= 1
        logits *= shares.astype(dtype)
        slope = np.vstack([*(part @ logits for part in transposed), logits.sum(axis=0)])
        slope = slope.astype(np.float64)
        slope[:-1] += penalty * W[:-1]
        loss += penalty / 2 * float(np.vdot(W[:-1], W[:-1]))
        return loss, slope[:, free].ravel()

    W = np.zeros((n_columns + 1, n_classes))
    first = W if start is None or start.shape != W.shape else start
    options = {"maxiter": MAX_ITER, "gtol": tol, "ftol": 0.0}
    found = minimize(
        objective, first[:, free].ravel(), jac=True, method="L-BFGS-B", options=options
    )
    W[:, free] = found.x.reshape(n_columns + 1, -1)
    return W


def _logits(blocks: list[Any], W: np.ndarray) -> np.ndarray:
    logits, begin = W[-1], 0
    for block in blocks:
        end = begin + block.shape[1]
        logits = logits + block @ W[begin:end]
        begin = end
    return logits


def softmax(logits: np.ndarray) -> np.ndarray:
    """Probabilities of each row; scipy's function takes longer on few rows."""
    values = logits - logits.max(axis=1, keepdims=True)
    np.exp(values, out=values)
    values /= values.sum(axis=1, keepdims=True)
    return values


def with_temperature(probabilities: np.ndarray, temperature: float) -> np.ndarray:
    """Probabilities to the power 1 / temperature, normalised."""
    if temperature == 1:
        return probabilities
    return softmax(safe_log(probabilities) / temperature)


def fit_temperature(
    probabilities: np.ndarray, codes: np.ndarray, weights: np.ndarray | None = None
) -> float:
    """The temperature with the largest likelihood of the true classes.

    An additional node, whose class is uniformly distributed, keeps the temperature above 0 if all
    nodes are predicted right.
    """
    logits, n = safe_log(probabilities).astype(np.float64, copy=False), len(codes)
    logits -= logits.max(axis=1, keepdims=True)
    of_true = float(np.average(logits[np.arange(n), codes], weights=weights))
    of_all = float(logits.mean())

    def loss(exponent: float) -> float:
        factor = float(np.exp(-exponent))
        totals = np.log(np.exp(factor * logits).sum(axis=1))
        likelihood = factor * of_true - float(np.average(totals, weights=weights))
        return -(n * likelihood + factor * of_all - float(totals.mean())) / (n + 1)

    options = {"xatol": TEMPERATURE_TOL}
    found = minimize_scalar(loss, bounds=np.log(TEMPERATURES), method="bounded", options=options)
    return float(np.exp(found.x))


def safe_log(probabilities: np.ndarray) -> np.ndarray:
    """Finite logarithms."""
    return np.log(np.maximum(probabilities, SMALLEST_PROBABILITY))


def expected_calibration_error(
    confidence: np.ndarray, correct: np.ndarray, weights: np.ndarray | None = None
) -> float:
    """Mean distance between confidence and accuracy, in bins of equal width by confidence.

    ``confidence`` is the probability of each predicted class, ``correct`` whether it is the true
    one.
    """
    weights = np.ones(len(confidence)) if weights is None else weights
    excess = weights * (confidence - correct)
    bins = np.minimum((confidence * CALIBRATION_BINS).astype(int), CALIBRATION_BINS - 1)
    return float(np.abs(np.bincount(bins, excess)).sum() / weights.sum())
