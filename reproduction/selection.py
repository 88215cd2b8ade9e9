"""Model selection: which candidate of a row is selected, and the accuracies of its runs."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from scipy.stats import t as student

from .cells import Cell, Run, Setup
from .experiments import RowSpec
from .journal import Record

Records = dict[Cell, Record]

SELECTION_RULE = (
    "The setting of the pool with the highest validation accuracy, averaged over the selection "
    "seeds, is selected; of equal ones, the first in the order of the pool. Settings with a failed "
    "run are excluded. The epoch of a run is selected by its validation accuracy too. Test "
    "accuracies are never used for selection."
)


def select(spec: RowSpec, records: Records) -> Setup | None:
    """The candidate with the best validation accuracy; None if runs are missing or all failed."""
    if len(spec.candidates) == 1:
        return spec.candidates[0]
    scores = {}
    for setup in spec.candidates:
        found = [records.get(setup.cell(*run)) for run in spec.selection_runs]
        if any(record is None for record in found):
            return None
        done = [record for record in found if record is not None and record["status"] == "done"]
        if len(done) == len(found):
            total = math.fsum(record["accuracy"]["validation"] for record in done)
            scores[setup] = round(total, 9)  # sums that differ by rounding are equal
    return max(scores, key=scores.__getitem__) if scores else None


def is_decided(spec: RowSpec, records: Records) -> bool:
    """Whether all selection runs have been made."""
    return all(cell in records for cell in spec.selection_cells())


def missing_cells(spec: RowSpec, records: Records) -> list[Cell]:
    """The cells to run next for a row: those of the selection, then those of the selected one."""
    missing = [cell for cell in spec.selection_cells() if cell not in records]
    if missing:
        return missing
    selected = select(spec, records)
    if selected is None:  # all candidates failed
        return []
    return [cell for cell in spec.final_cells(selected) if cell not in records]


@dataclass(frozen=True)
class Sample:
    """Accuracies in percent, over seeds or splits."""

    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        return statistics.fmean(self.values)

    @property
    def sd(self) -> float:
        return statistics.stdev(self.values) if len(self.values) > 1 else 0.0

    def interval(self, level: float = 0.95) -> tuple[float, float] | None:
        """Confidence interval of the mean by Student's t; None for a single value."""
        n = len(self.values)
        if n < 2:
            return None
        half_width = float(student.ppf((1 + level) / 2, n - 1)) * self.sd / math.sqrt(n)
        return self.mean - half_width, self.mean + half_width


@dataclass(frozen=True)
class Selected:
    """The selected candidate of a row and its completed runs."""

    setup: Setup
    runs: tuple[Run, ...]
    records: tuple[Record, ...]
    n_failed: int

    @property
    def test(self) -> Sample:
        return self._accuracies("test")

    @property
    def validation(self) -> Sample:
        return self._accuracies("validation")

    def _accuracies(self, part: str) -> Sample:
        return Sample(tuple(100 * record["accuracy"][part] for record in self.records))


def completed(spec: RowSpec, records: Records) -> Selected | None:
    """The selected candidate with its runs; None if runs are missing or all failed."""
    selected = select(spec, records)
    if selected is None:
        return None
    found = {run: records.get(selected.cell(*run)) for run in spec.runs}
    if any(record is None for record in found.values()):
        return None
    done = [
        (run, record)
        for run in spec.runs
        if (record := found[run]) is not None and record["status"] == "done"
    ]
    if not done:
        return None
    runs, kept = zip(*done, strict=True)
    return Selected(selected, runs, kept, len(spec.runs) - len(runs))


def paired(first: Sequence[float], second: Sequence[float]) -> Sample:
    """Differences run by run, which cancel the effect of the split or the seed."""
    return Sample(tuple(a - b for a, b in zip(first, second, strict=True)))
