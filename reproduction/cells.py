"""A run as a value: a method with all its settings, on one dataset, split and seed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

Value = str | int | float | bool | None


@dataclass(frozen=True)
class Setup:
    """A method and its settings on a dataset; everything but the split and the seed.

    Examples
    --------
    >>> setup = Setup.of("gcn", "cora", layers=2, dropout=0.5)
    >>> setup["layers"], setup.get("alpha", 1.0)
    (2, 1.0)
    >>> setup == Setup.of("gcn", "cora", dropout=0.5, layers=2)
    True
    """

    method: str
    dataset: str
    options: tuple[tuple[str, Value], ...]

    @classmethod
    def of(cls, method: str, dataset: str, **options: Value) -> Self:
        # A number is one value, however it is written: 1 and 1.0 make the same cell.
        plain = {
            name: int(value) if isinstance(value, float) and value.is_integer() else value
            for name, value in options.items()
        }
        return cls(method, dataset, tuple(sorted(plain.items())))

    def __getitem__(self, name: str) -> Any:
        return dict(self.options)[name]

    def get(self, name: str, default: Any = None) -> Any:
        return dict(self.options).get(name, default)

    def some(self, *names: str) -> dict[str, Any]:
        """Those of the options that are among these names."""
        return {name: value for name, value in self.options if name in names}

    def cell(self, split: str, seed: int) -> Cell:
        return Cell(self, split, seed)


@dataclass(frozen=True)
class Cell:
    """One run. Equal cells have equal results, but for rounding on another machine."""

    setup: Setup
    split: str
    seed: int

    def to_json(self) -> dict[str, Any]:
        setup = self.setup
        return {
            "method": setup.method,
            "dataset": setup.dataset,
            "split": self.split,
            "seed": self.seed,
            "options": dict(setup.options),
        }

    @classmethod
    def from_json(cls, told: dict[str, Any]) -> Self:
        setup = Setup.of(told["method"], told["dataset"], **told["options"])
        return cls(setup, str(told["split"]), int(told["seed"]))


def loading(dataset: str) -> Cell:
    """A cell that stands for having the data at all; its failure says why there are no others."""
    return Setup.of("load", dataset).cell("public", 0)
