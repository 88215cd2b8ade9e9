"""A cell is one training run: a method with all its settings on one dataset, split and seed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Self

Value = str | int | float | bool | None


@dataclass(frozen=True)
class Split:
    """A split of a dataset; without arguments, the public one.

    Parameters
    ----------
    random_seed : int, optional
        Draw a random split with this seed.
    labels_per_class : int, optional
        Keep only this many training nodes per class of the public split.
    """

    random_seed: int | None = None
    labels_per_class: int | None = None

    @property
    def kind(self) -> str:
        if self.random_seed is not None:
            return "random"
        return "public" if self.labels_per_class is None else "fewer labels"

    def to_json(self) -> dict[str, int]:
        return {name: value for name, value in vars(self).items() if value is not None}


PUBLIC = Split()


class Run(NamedTuple):
    """The split and the seed of a cell."""

    split: Split
    seed: int

    def to_json(self) -> dict[str, Any]:
        return {"split": self.split.to_json(), "seed": self.seed}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Self:
        return cls(Split(**values["split"]), int(values["seed"]))


@dataclass(frozen=True)
class Setup:
    """A method and its settings on a dataset, without the split and the seed.

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
        # 1 and 1.0 are the same setting and must give the same cell.
        plain = {
            name: int(value) if isinstance(value, float) and value.is_integer() else value
            for name, value in options.items()
        }
        return cls(method, dataset, tuple(sorted(plain.items())))

    def __getitem__(self, name: str) -> Any:
        return dict(self.options)[name]

    def __contains__(self, name: str) -> bool:
        return name in dict(self.options)

    def get(self, name: str, default: Any = None) -> Any:
        return dict(self.options).get(name, default)

    def subset(self, *names: str) -> dict[str, Any]:
        """The options with these names, as far as the setup has them."""
        return {name: value for name, value in self.options if name in names}

    def cell(self, split: Split, seed: int) -> Cell:
        return Cell(self, split, seed)


@dataclass(frozen=True)
class Cell:
    """One run. Equal cells have equal results, up to rounding on another machine."""

    setup: Setup
    split: Split
    seed: int

    def to_json(self) -> dict[str, Any]:
        return {
            "method": self.setup.method,
            "dataset": self.setup.dataset,
            "options": dict(self.setup.options),
            **Run(self.split, self.seed).to_json(),
        }

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Self:
        setup = Setup.of(values["method"], values["dataset"], **values["options"])
        return cls(setup, *Run.from_json(values))


def loading_cell(dataset: str) -> Cell:
    """The cell that records whether a dataset could be loaded, and if not, why."""
    return Setup.of("load", dataset).cell(PUBLIC, 0)
