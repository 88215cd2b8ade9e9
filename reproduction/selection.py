"""From records to numbers: what is chosen, by validation accuracies alone, and what it comes to."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from scipy.stats import t as student

from .cells import Cell, Setup
from .entries import Entry
from .journal import Record

Records = dict[Cell, Record]

#: What the report says of it.
RULE = (
    "Of all settings in the pool, the one with the highest validation accuracy, averaged over the "
    "seeds that all of them ran with; of equals, the first in the order of the pool; settings "
    "with a failed run are out. The epoch of a run is chosen by its validation accuracy, too."
)


def choose(entry: Entry, records: Records) -> Setup | None:
    """The candidate that is best by validation; None while some have not run.

    Candidates that failed are out of the question.
    """
    if len(entry.candidates) == 1:
        return entry.candidates[0]
    scores = {}
    for setup in entry.candidates:
        found = [records.get(setup.cell(*run)) for run in entry.select]
        if any(record is None for record in found):
            return None
        if all(record is not None and record["status"] == "done" for record in found):
            total = math.fsum(
                record["accuracy"]["validation"] for record in found if record is not None
            )
            scores[setup] = round(total, 9)  # equal counts of nodes are equals, whatever the sum
    return max(scores, key=scores.__getitem__) if scores else None


def is_decided(entry: Entry, records: Records) -> bool:
    """Whether there is nothing left to run for choosing."""
    return all(cell in records for cell in entry.cells_to_choose())


def wanted(entry: Entry, records: Records) -> list[Cell]:
    """The cells an entry still needs, as far as they are known."""
    to_choose = [cell for cell in entry.cells_to_choose() if cell not in records]
    if to_choose:
        return to_choose
    chosen = choose(entry, records)
    if chosen is None:  # all candidates have failed
        return []
    return [cell for cell in entry.cells_to_report(chosen) if cell not in records]


@dataclass(frozen=True)
class Sample:
    """Test accuracies in percent, over seeds or splits."""

    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        return statistics.fmean(self.values)

    @property
    def sd(self) -> float:
        return statistics.stdev(self.values) if len(self.values) > 1 else 0.0

    def interval(self, level: float = 0.95) -> tuple[float, float] | None:
        """Of the mean, by Student's t; None for a single value."""
        n = len(self.values)
        if n < 2:
            return None
        reach = float(student.ppf((1 + level) / 2, n - 1)) * self.sd / math.sqrt(n)
        return self.mean - reach, self.mean + reach


def reported(entry: Entry, records: Records) -> dict[str, Any] | None:
    """What an entry comes to: the setting chosen, its runs, and what they took.

    None while runs are missing; runs that failed are left out and counted.
    """
    chosen = choose(entry, records)
    if chosen is None:
        return None
    cells = entry.cells_to_report(chosen)
    if any(cell not in records for cell in cells):
        return None
    done = [records[cell] for cell in cells if records[cell]["status"] == "done"]
    if not done:
        return None
    return {
        "chosen": chosen,
        "test": Sample(tuple(100 * record["accuracy"]["test"] for record in done)),
        "validation": Sample(tuple(100 * record["accuracy"]["validation"] for record in done)),
        "best_epochs": [record["best_epoch"] for record in done],
        "failed": len(cells) - len(done),
        "runs": [run for run, cell in zip(entry.runs, cells, strict=True) if
                 records[cell]["status"] == "done"],
        "records": done,
    }  # fmt: skip


def paired(one: Sequence[float], other: Sequence[float]) -> Sample:
    """Differences run for run: what the split or the seed does to both cancels."""
    return Sample(tuple(a - b for a, b in zip(one, other, strict=True)))
