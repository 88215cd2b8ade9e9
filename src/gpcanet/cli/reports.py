"""Scores of predictions on nodes with known labels, as numbers and as tables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from string import ascii_lowercase
from typing import Any

import numpy as np
from rich.console import Group
from rich.table import Table
from rich.text import Text
from scipy.stats import binomtest
from sklearn.metrics import (
    confusion_matrix,
    f1_score,
    mean_absolute_error,
    precision_recall_fscore_support,
    r2_score,
    roc_auc_score,
    root_mean_squared_error,
)

from ..estimators.heads import expected_calibration_error

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


# -- classes ------------------------------------------------------------------------------

#: With more classes, the most frequent confusions are listed instead of the whole matrix.
MAX_COLUMNS = 12

#: Total length of the column headings that fits a terminal of 80 columns.
MAX_HEADING_LENGTH = 34


@dataclass(frozen=True)
class ClassificationReport:
    """Evaluation of the probabilities of all classes against true class codes."""

    classes: list[str]
    truth: np.ndarray
    probabilities: np.ndarray
    description: str = "nodes"  # of the evaluated nodes
    metric: str = "accuracy"  # shown first

    @cached_property
    def predicted(self) -> np.ndarray:
        return self.probabilities.argmax(axis=1)

    @cached_property
    def scores(self) -> dict[str, float | None]:
        return scores(CLASS_METRICS, self.truth, self.probabilities)

    @property
    def accuracy(self) -> float:
        return _accuracy(self.truth, self.probabilities)

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's 95 % interval for the accuracy."""
        n_correct = int(np.sum(self.truth == self.predicted))
        found = binomtest(n_correct, len(self.truth)).proportion_ci(method="wilson")
        return float(found.low), float(found.high)

    @property
    def calibration_error(self) -> float:
        """Expected calibration error: the mean difference of confidence and accuracy, by bins."""
        confidence = self.probabilities.max(axis=1)
        return expected_calibration_error(confidence, self.truth == self.predicted)

    @property
    def largest_class(self) -> float:
        """Accuracy of always predicting the largest class."""
        return float(np.bincount(self.truth).max() / len(self.truth))

    @cached_property
    def confusion(self) -> np.ndarray:
        """Rows are true classes, columns predicted ones."""
        return confusion_matrix(self.truth, self.predicted, labels=range(len(self.classes)))

    @cached_property
    def per_class(self) -> list[dict[str, Any]]:
        scores = precision_recall_fscore_support(
            self.truth, self.predicted, labels=range(len(self.classes)), zero_division=0
        )
        return [
            {
                "class": label,
                "precision": float(precision),
                "recall": float(recall),
                "f1": float(f1),
                "nodes": int(nodes),
            }
            for label, precision, recall, f1, nodes in zip(self.classes, *scores, strict=True)
        ]

    def values(self) -> dict[str, Any]:
        return {
            "metric": self.metric,
            "score": self.scores[self.metric],
            "scores": self.scores,
            "accuracy": self.accuracy,
            "interval95": list(self.interval),
            "n_nodes": len(self.truth),
            "calibration_error": self.calibration_error,
            "largest_class": self.largest_class,
            "per_class": self.per_class,
            "classes": self.classes,
            "confusion": self.confusion.tolist(),
        }

    def to_table(self) -> Group:
        low, high = (100 * bound for bound in self.interval)
        first = ""
        if self.metric != "accuracy":
            score = self.scores[self.metric]
            first = f"{self.metric} {'undefined' if score is None else f'{score:.4f}'}\n"
        headline = Text.assemble(
            (first, "bold"),
            (f"accuracy {100 * self.accuracy:.1f} %", "bold"),
            f" on {_count_nodes(self.truth, self.description)}\n"
            f"(95 % interval {low:.1f} to {high:.1f}; largest class alone: "
            f"{100 * self.largest_class:.1f} %)\n",
            f"expected calibration error {100 * self.calibration_error:.1f} %\n",
        )
        return Group(headline, self._class_table(), "", self._confusion_table())

    def _class_table(self) -> Table:
        table = Table(box=None, pad_edge=False, header_style="bold")
        table.add_column("class")
        for name in ("precision", "recall", "f1", "nodes"):
            table.add_column(name, justify="right")
        for row in self.per_class:
            scores = (f"{100 * row[name]:.1f}" for name in ("precision", "recall", "f1"))
            table.add_row(row["class"], *scores, f"{row['nodes']:,}")
        return table

    def _confusion_table(self) -> Table | Text:
        table = Table(box=None, pad_edge=False, header_style="bold")
        if len(self.classes) > MAX_COLUMNS:
            for name in ("true class", "predicted as", "nodes"):
                table.add_column(name, justify="right" if name == "nodes" else "left")
            wrong = self.confusion - np.diag(np.diag(self.confusion))
            for flat in np.argsort(-wrong, axis=None, kind="stable")[:10]:
                row, column = np.unravel_index(flat, wrong.shape)
                if wrong[row, column]:
                    names = self.classes[row], self.classes[column]
                    table.add_row(*names, f"{wrong[row, column]:,}")
            return table if table.row_count else Text("no confusions")
        # Letters replace names that are too long for column headings.
        rows = columns = self.classes
        if sum(map(len, self.classes)) > MAX_HEADING_LENGTH:
            columns = list(ascii_lowercase[: len(self.classes)])
            rows = [f"{c} {name}" for c, name in zip(columns, self.classes, strict=True)]
        table.add_column("true \\ predicted")
        for name in columns:
            table.add_column(name, justify="right", no_wrap=True)
        for i, name in enumerate(rows):
            cells = (
                Text(f"{count:,}", "bold") if i == j else (f"{count:,}" if count else "·")
                for j, count in enumerate(self.confusion[i])
            )
            table.add_row(name, *cells)
        return table


# -- numbers ------------------------------------------------------------------------------


@dataclass(frozen=True)
class RegressionReport:
    """Evaluation of predicted numbers against true ones."""

    truth: np.ndarray
    predicted: np.ndarray
    mean: float  # of the training nodes
    description: str = "nodes"  # of the evaluated nodes
    metric: str = "r2"

    @cached_property
    def scores(self) -> dict[str, float | None]:
        return scores(NUMBER_METRICS, self.truth, self.predicted)

    @cached_property
    def scores_of_mean(self) -> dict[str, float | None]:
        """Scores of always predicting the mean of the training nodes."""
        return scores(NUMBER_METRICS, self.truth, np.full(len(self.truth), self.mean))

    def values(self) -> dict[str, Any]:
        return {
            "metric": self.metric,
            "score": self.scores[self.metric],
            **self.scores,
            "n_nodes": len(self.truth),
            "mean_alone": self.scores_of_mean,
        }

    def to_table(self) -> Group:
        table = Table(box=None, pad_edge=False, header_style="bold")
        table.add_column("score")
        for name in ("predicted", "mean alone"):
            table.add_column(name, justify="right")
        for name in NUMBER_METRICS:
            table.add_row(name, _shown(self.scores[name]), _shown(self.scores_of_mean[name]))
        headline = Text.assemble(
            (f"{self.metric} {_shown(self.scores[self.metric])}", "bold"),
            f" on {_count_nodes(self.truth, self.description)}\n",
        )
        return Group(headline, table)


def _count_nodes(truth: np.ndarray, description: str) -> str:
    """The number of evaluated nodes with their description, whose first "nodes" is the noun."""
    shown = description.replace("nodes", "node", 1) if len(truth) == 1 else description
    return f"{len(truth):,} {shown}"


def _shown(score: float | None) -> str:
    return "undefined" if score is None else f"{score:.4g}"
