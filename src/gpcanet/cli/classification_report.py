"""Accuracy, scores per class and confusion matrix of predictions, as numbers and as tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from string import ascii_lowercase
from typing import Any

import numpy as np
from rich.console import Group
from rich.table import Table
from rich.text import Text
from scipy.stats import binomtest
from sklearn.metrics import confusion_matrix, precision_recall_fscore_support

from ..estimators.heads import expected_calibration_error

#: With more classes, the most frequent confusions are listed instead of the whole matrix.
MAX_COLUMNS = 12

#: Total length of the column headings that fits a terminal of 80 columns.
MAX_HEADING_LENGTH = 34


@dataclass(frozen=True)
class ClassificationReport:
    """Evaluation of predicted class codes against true ones."""

    classes: list[str]
    truth: np.ndarray
    predicted: np.ndarray
    description: str = "nodes"  # of the evaluated nodes
    confidence: np.ndarray | None = None  # probability of the predicted class
    metric: str = "accuracy"  # shown first
    scores: Mapping[str, float | None] = field(default_factory=dict)  # by metric

    @property
    def accuracy(self) -> float:
        return float(np.mean(self.truth == self.predicted))

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's 95 % interval for the accuracy."""
        n_correct = int(np.sum(self.truth == self.predicted))
        found = binomtest(n_correct, len(self.truth)).proportion_ci(method="wilson")
        return float(found.low), float(found.high)

    @property
    def calibration_error(self) -> float | None:
        """Expected calibration error: the mean difference of confidence and accuracy, by bins."""
        if self.confidence is None:
            return None
        return expected_calibration_error(self.confidence, self.truth == self.predicted)

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
            "score": self.scores.get(self.metric, self.accuracy),
            "scores": dict(self.scores),
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
        error = self.calibration_error
        first = ""
        if self.metric != "accuracy":
            score = self.scores.get(self.metric)
            first = f"{self.metric} {'undefined' if score is None else f'{score:.4f}'}\n"
        headline = Text.assemble(
            (first, "bold"),
            (f"accuracy {100 * self.accuracy:.1f} %", "bold"),
            f" on {len(self.truth):,} {self.description}\n"
            f"(95 % interval {low:.1f} to {high:.1f}; largest class alone: "
            f"{100 * self.largest_class:.1f} %)\n",
            *([] if error is None else [f"expected calibration error {100 * error:.1f} %\n"]),
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
