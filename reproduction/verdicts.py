"""Comparison with the published numbers, and of methods on random splits."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, NamedTuple

from scipy.stats import t as student

from .experiments import INITS, Row
from .pools import read_toml
from .results import Result
from .selection import Sample, paired

#: Points added to the noise for what seeds do not explain.
TOLERANCE = 0.5

WITHIN_NOISE, BETTER, WORSE = VERDICTS = ("within noise", "better", "worse")

VERDICT_RULE = (
    "A difference from the published mean is within noise if it is at most the half width of its "
    "95 % interval by Welch's t, from both standard deviations over seeds, plus "
    f"{TOLERANCE:g} points for what seeds do not explain (rounding, library versions, which of "
    "several nearly equal settings is selected). Published deviations divide by the number of runs "
    "(four, for GPCANet five), ours by one less; the rule corrects for that. Deviations of Table 4 "
    "are from the authors' notebook. Where none is published, ours is used for both; a single "
    "deterministic run has deviation 0. One comparison in twenty may differ by chance. Better and "
    "worse mean higher and lower than published, for the baselines too."
)


class Published(NamedTuple):
    """A published mean and standard deviation, and the number of runs behind them."""

    mean: float
    sd: float | None
    n_runs: int


@dataclass(frozen=True)
class PublishedComparison:
    """A result compared with the published number."""

    published: Published
    difference: float
    noise: float

    @property
    def verdict(self) -> str:
        return verdict(self.difference, self.noise)


@cache
def _published_rows() -> dict[tuple[Any, ...], Published]:
    """By experiment, dataset and the settings of a row; the same for every protocol."""
    tables = read_toml("published")
    found = {}
    for experiment in ("table1", "table2", "table3", "table4"):
        for dataset, rows in tables[experiment].items():
            for values in rows:
                settings = {k: v for k, v in values.items() if k not in ("mean", "sd")}
                row = Row(experiment, "paper", dataset, **settings)
                n_runs = tables["n_runs"][row.method]
                number = Published(values["mean"], values.get("sd"), n_runs)
                found[experiment, dataset, row.settings] = number
    return found


def published_rows() -> list[Row]:
    """Every row that the paper publishes a number for, under protocol ``paper``."""
    return [Row(e, "paper", dataset, *settings) for e, dataset, settings in _published_rows()]


def published(row: Row) -> Published | None:
    """The paper's number for a row."""
    return _published_rows().get((row.experiment, row.dataset, row.settings))


def compare_with_published(result: Result) -> PublishedComparison | None:
    """The difference from the published mean; None if nothing is published for the row."""
    number = published(result.row)
    if number is None:
        return None
    sample = Sample(result.values)
    sd = number.sd
    if sd is not None:  # published deviations divide by n, not by n - 1
        sd *= math.sqrt(number.n_runs / (number.n_runs - 1))
    return PublishedComparison(number, sample.mean - number.mean, noise(sd, number.n_runs, sample))


def noise(published_sd: float | None, n_published: int, sample: Sample) -> float:
    """The largest difference in points that is within noise (``VERDICT_RULE``)."""
    n = len(sample.values)
    other = sample.sd if published_sd is None else published_sd
    terms = [(other**2 / n_published, n_published - 1), (sample.sd**2 / n, max(n - 1, 1))]
    variance = math.fsum(term for term, _ in terms)
    if variance == 0:
        return TOLERANCE
    freedom = variance**2 / math.fsum(term**2 / free for term, free in terms)
    return float(student.ppf(0.975, freedom)) * math.sqrt(variance) + TOLERANCE


def verdict(difference: float, noise: float) -> str:
    """
    >>> verdict(0.4, 1.9), verdict(-2.5, 1.9)
    ('within noise', 'worse')
    """
    if abs(difference) <= noise:
        return WITHIN_NOISE
    return BETTER if difference > 0 else WORSE


# -- random splits ----------------------------------------------------------------------------


@dataclass(frozen=True)
class PairedComparison:
    """The difference of two results, run by run on the same random splits."""

    first: Result
    second: Result
    means: tuple[float, float]
    difference: Sample

    @property
    def verdict(self) -> str:
        interval = self.difference.interval()
        if interval is None or interval[0] <= 0 <= interval[1]:
            return WITHIN_NOISE
        return BETTER if interval[0] > 0 else WORSE


def paired_comparisons(results: Iterable[Result]) -> list[PairedComparison]:
    """Differences between rows of the experiment with random splits."""
    by_row = {result.row: result for result in results if result.row.experiment == "random"}
    found = []
    for row, first in by_row.items():
        for second in filter(None, (by_row.get(partner) for partner in _partners(row))):
            values = [dict(zip(one.runs, one.values, strict=True)) for one in (first, second)]
            common = [run for run in values[0] if run in values[1]]  # others failed on one side
            if common:
                samples = [[of[run] for run in common] for of in values]
                means = statistics.fmean(samples[0]), statistics.fmean(samples[1])
                found.append(PairedComparison(first, second, means, paired(*samples)))
    return found


def _partners(row: Row) -> list[Row]:
    """The rows that a row is compared with."""
    if row.supervised:
        return [replace(row, supervised=False)]
    if row.method == "gpca":  # every protocol is compared with the paper's GCN
        return [replace(row, method="gcn", protocol="paper")]
    if row.init == "gpca":
        return [replace(row, init=init) for init in INITS if init != "gpca"]
    return []
