"""Typed records of what was reproduced, and their JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

from .cells import Cell, Run, Value
from .experiments import Row


class NearTies(NamedTuple):
    """Settings that are nearly as good as the selected one, and the range of their test means."""

    n_settings: int
    lowest: float
    highest: float


@dataclass(frozen=True)
class Result:
    """The accuracies of a row: those of its selected setting, in percent.

    ``selected`` has the settings in which the candidates differ. ``fingerprint`` identifies the
    candidates and runs (``RowSpec.fingerprint``). ``runs`` is given for random splits only,
    ``curves`` (epoch and validation accuracy of each run) for some rows of Table 4.
    """

    row: Row
    pool: str
    fingerprint: str
    values: tuple[float, ...]
    mean: float
    sd: float
    interval: tuple[float, float] | None
    validation: float
    selected: Mapping[str, Value]
    n_candidates: int
    n_selection_seeds: int
    best_epoch: float
    seconds_per_run: float
    n_failed: int = 0
    runs: tuple[Run, ...] = ()
    near_ties: NearTies | None = None
    curves: tuple[tuple[tuple[float, float], ...], ...] = ()

    def to_json(self) -> dict[str, Any]:
        values = {name: value for name, value in vars(self).items() if value not in (None, ())}
        values["row"] = self.row.to_json()
        if self.runs:
            values["runs"] = [run.to_json() for run in self.runs]
        return values

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Self:
        ties, interval = values.get("near_ties"), values.get("interval")
        converted = {
            "row": Row.from_json(values["row"]),
            "values": tuple(values["values"]),
            "interval": None if interval is None else (interval[0], interval[1]),
            "runs": tuple(Run.from_json(run) for run in values.get("runs", ())),
            "near_ties": None if ties is None else NearTies(*ties),
            "curves": tuple(tuple((e, a) for e, a in curve) for curve in values.get("curves", ())),
        }
        return cls(**{**values, **converted})


@dataclass(frozen=True)
class Failure:
    """A run that failed."""

    cell: Cell
    reason: str

    def to_json(self) -> dict[str, Any]:
        return {"cell": self.cell.to_json(), "reason": self.reason}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Self:
        return cls(Cell.from_json(values["cell"]), values["reason"])


@dataclass(frozen=True)
class Cost:
    """Runs and seconds of worker time behind a table."""

    experiment: str
    protocol: str
    dataset: str
    runs: int
    seconds: float

    @property
    def table(self) -> tuple[str, str, str]:
        return self.experiment, self.protocol, self.dataset


@dataclass(frozen=True)
class Summary:
    """All that a report shows."""

    results: tuple[Result, ...] = ()
    missing: tuple[Row, ...] = ()
    failed: tuple[Failure, ...] = ()
    unavailable: Mapping[str, str] = field(default_factory=dict)
    costs: tuple[Cost, ...] = ()
    n_runs: int = 0
    seconds: float = 0.0
    versions: tuple[Mapping[str, str], ...] = ()
    machines: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def of(self, experiment: str) -> list[Result]:
        return [result for result in self.results if result.row.experiment == experiment]

    def to_json(self) -> bytes:
        """One line per result, so that a change of one result is a change of one line."""
        values: dict[str, Any] = {
            **vars(self),
            "results": [result.to_json() for result in self.results],
            "missing": [row.to_json() for row in self.missing],
            "failed": [failure.to_json() for failure in self.failed],
            "costs": [vars(cost) for cost in self.costs],
        }
        parts = []
        for name, value in values.items():
            if isinstance(value, list | tuple) and value:
                lines = ",\n  ".join(json.dumps(item, sort_keys=True) for item in value)
                parts.append(f'"{name}": [\n  {lines}\n ]')
            else:
                parts.append(f'"{name}": {json.dumps(value, sort_keys=True)}')
        return ("{\n " + ",\n ".join(parts) + "\n}\n").encode()

    @classmethod
    def from_json(cls, content: bytes) -> Self:
        values = json.loads(content)
        converted = {
            "results": tuple(Result.from_json(item) for item in values["results"]),
            "missing": tuple(Row.from_json(item) for item in values["missing"]),
            "failed": tuple(Failure.from_json(item) for item in values["failed"]),
            "costs": tuple(Cost(**item) for item in values["costs"]),
            **{name: tuple(values[name]) for name in ("versions", "machines", "notes")},
        }
        return cls(**{**values, **converted})
