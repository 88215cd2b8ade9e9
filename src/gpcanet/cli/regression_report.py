"""Scores of predicted numbers, as numbers and as a table."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from rich.console import Group
from rich.table import Table
from rich.text import Text

from .metrics import NUMBER_METRICS, scores


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
            f" on {len(self.truth):,} {self.description}\n",
        )
        return Group(headline, table)


def _shown(score: float | None) -> str:
    return "undefined" if score is None else f"{score:.4g}"
