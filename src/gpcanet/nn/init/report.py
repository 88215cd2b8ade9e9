"""What an initialiser did to each layer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

from ...errors import InputError


@dataclass(frozen=True)
class LayerReport:
    """One layer: set, or left alone and why.

    ``kept`` is the share of the squared size of what the layer aggregates that its weights pass
    on, for towers of a ``PNAConv`` all of them together; None where weights do not depend on data.
    """

    name: str
    kind: str
    in_channels: int | None = None
    out_channels: int | None = None
    is_set: bool = False
    reason: str = ""
    kept: float | None = None

    def __str__(self) -> str:
        size = f"{self.in_channels} -> {self.out_channels}" if self.in_channels else ""
        done = "set" if self.is_set else "left alone"
        kept = "" if self.kept is None else f", keeps {self.kept:.1%}"
        reason = f": {self.reason}" if self.reason else ""
        return f"{self.name:<24} {self.kind:<14} {size:<14} {done}{kept}{reason}"


@dataclass(frozen=True)
class InitReport:
    """A line per layer, in the order in which they ran."""

    scheme: str
    layers: tuple[LayerReport, ...]

    @property
    def n_set(self) -> int:
        return sum(layer.is_set for layer in self.layers)

    def __iter__(self) -> Iterator[LayerReport]:
        return iter(self.layers)

    def __len__(self) -> int:
        return len(self.layers)

    def __getitem__(self, name: str) -> LayerReport:
        for layer in self.layers:
            if layer.name == name:
                return layer
        names = ", ".join(layer.name for layer in self.layers)
        raise KeyError(f"no layer {name!r}; there are {names}")

    def unless_nothing(self) -> Self:
        """The report itself; an error if it tells of no layer that was set."""
        if self.n_set == 0:
            lines = "; ".join(f"{layer.name} ({layer.kind}): {layer.reason}" for layer in self)
            raise InputError(f"no layer of the model was set: {lines or 'it has no weights'}")
        return self

    def __str__(self) -> str:
        head = f"{self.scheme}: {self.n_set} of {len(self.layers)} layers set"
        return "\n".join([head, *map(str, self.layers)])
