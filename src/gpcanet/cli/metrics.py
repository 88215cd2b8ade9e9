"""Scores of predictions on nodes with known labels, by name."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from sklearn.metrics import (
    f1_score,
    mean_absolute_error,
    r2_score,
    roc_auc_score,
    root_mean_squared_error,
)

#: Smallest probability in the log loss. A class that the model does not know has probability 0.
SMALLEST_PROBABILITY = 1e-15

#: Functions that return a score of true and predicted values.
NUMBER_METRICS: dict[str, Callable[[np.ndarray, np.ndarray], float]] = {
    "r2": r2_score,
    "mae": mean_absolute_error,
    "rmse": root_mean_squared_error,
}


def _accuracy(truth: np.ndarray, probabilities: np.ndarray) -> float:
    return float(np.mean(truth == probabilities.argmax(axis=1)))


def _macro_f1(truth: np.ndarray, probabilities: np.ndarray) -> float:
    predicted = probabilities.argmax(axis=1)
    return float(f1_score(truth, predicted, average="macro", zero_division=0))


def _roc_auc(truth: np.ndarray, probabilities: np.ndarray) -> float:
    """Mean area under the curve of each class against the others, of classes that occur.

    For two classes it is the area of the second. NaN if all nodes are of one class.
    """
    n_classes = probabilities.shape[1]
    occurring = [code for code in range(n_classes) if 0 < np.mean(truth == code) < 1]
    if n_classes == 2:
        occurring = occurring[-1:]
    areas = [roc_auc_score(truth == code, probabilities[:, code]) for code in occurring]
    return float(np.mean(areas)) if areas else float("nan")


def _log_loss(truth: np.ndarray, probabilities: np.ndarray) -> float:
    of_truth = probabilities[np.arange(len(truth)), truth]
    return float(-np.mean(np.log(np.maximum(of_truth, SMALLEST_PROBABILITY))))


#: Functions that return a score of class codes and the probabilities of all classes.
CLASS_METRICS: dict[str, Callable[[np.ndarray, np.ndarray], float]] = {
    "accuracy": _accuracy,
    "macro-f1": _macro_f1,
    "roc-auc": _roc_auc,
    "log-loss": _log_loss,
}


def scores(
    known: dict[str, Callable[..., float]], truth: np.ndarray, predicted: np.ndarray
) -> dict[str, float | None]:
    """All scores by name; None where one is not defined, such as R^2 of a single node."""
    values = {}
    for name, metric in known.items():
        defined = name != "r2" or len(truth) > 1
        value = float(metric(truth, predicted)) if defined else float("nan")
        values[name] = value if np.isfinite(value) else None
    return values
