"""Protocols and pools: the settings that each method is tried with, from the TOML files."""

from __future__ import annotations

import itertools
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Any

from gpcanet.datasets import ogb, planetoid

from .cells import Setup

POOLS = ("full", "lean")
PROTOCOLS = ("paper", "authors-code", "ours")
DATASETS = (*planetoid.CITATION_GRAPHS, *ogb.ABOUT)

#: Seeds of a protocol that names none.
SEEDS = [0, 1, 2, 3, 4]

#: Keys of a method's protocol that are not options of the method.
NOT_OPTIONS = ("pool", "seeds", "alphas")


@cache
def read_toml(name: str) -> dict[str, Any]:
    return tomllib.loads((files(__package__) / f"{name}.toml").read_text("utf-8"))


@dataclass(frozen=True)
class SettingPool:
    """The settings of one dataset in one pool, run by one protocol."""

    protocol: str
    pool: str
    dataset: str

    def values(self, name: str, default: Any = None) -> Any:
        """Values of a setting for the dataset; ``lean`` inherits from ``full``."""
        pools = read_toml("pools")
        for pool in (self.pool, "full"):
            for part in (pools[pool].get(self.dataset, {}), pools[pool]):
                if name in part:
                    return part[name]
        return default

    @property
    def depths(self) -> list[int]:
        """Numbers of layers in Table 4; the best GCN may be selected from fewer."""
        return self.values("table4_layers") or self.values("layers")

    @property
    def extreme_depths(self) -> list[int]:
        """The smallest and the largest number of layers."""
        layers = self.values("layers")
        return sorted({min(layers), max(layers)})

    def options(self, method: str) -> dict[str, Any]:
        """The protocol's options of a method; those of the dataset take precedence."""
        protocol = self._protocol_of(method)
        special = protocol.get(self.dataset, {}).get(method, {})
        settings = {**protocol[method], **special}
        return {name: value for name, value in settings.items() if name not in NOT_OPTIONS}

    def seeds(self, method: str) -> list[int]:
        return self._protocol_of(method)[method].get("seeds", SEEDS)

    def _protocol_of(self, method: str) -> dict[str, Any]:
        """A method that a protocol does not name follows the paper's text."""
        protocols = read_toml("protocols")
        own = protocols[self.protocol]
        return own if method in own else protocols["paper"]

    # -- candidates -----------------------------------------------------------------------

    def gpca(self, alphas: Sequence[float], betas: Sequence[float]) -> list[Setup]:
        pool = read_toml("protocols")[self.protocol]["gpca"].get("pool")
        if pool is None:
            pool = replace(self, pool="full").regularization()
        return self._setups("gpca", {"alpha": alphas, "beta": betas, **pool})

    def gcn(self, layers: Sequence[int], init: str) -> list[Setup]:
        return self._setups("gcn", {"layers": layers, **self.regularization()}, init=init)

    def gpcanet(self, pairs: Sequence[tuple[int, float]]) -> list[Setup]:
        """Candidates for pairs of a number of layers and an alpha."""
        grid = self.regularization("gpcanet")
        return [
            setup
            for layers, alpha in pairs
            for setup in self._setups("gpcanet", grid, layers=layers, alpha=alpha)
        ]

    def shallow_gpcanets(self) -> list[Setup]:
        """GPCANets of one to three layers, each with its own alphas."""
        own = read_toml("protocols")[self.protocol]["gpcanet"].get("alphas")
        alphas = self.values("gpcanet_alphas") if own is None else own
        count = self.values("gpcanet_alphas_each")
        return self.gpcanet(
            [(int(layers), a) for layers, values in alphas.items() for a in _middle(values, count)]
        )

    def regularization(self, method: str = "") -> dict[str, Any]:
        """Widths, weight decays and dropouts; those of the method if it has its own."""
        names = ("hidden", "weight_decay", "dropout")
        return {name: self.values(f"{method}_{name}") or self.values(name) for name in names}

    def _setups(self, method: str, grid: dict[str, Any], **fixed: Any) -> list[Setup]:
        options = self.options(method)
        if method != "gpca":
            options = {"lr": self.values("lr"), **options, **self.values("training", {})}
        return [
            Setup.of(
                method, self.dataset, **options, **fixed, **dict(zip(grid, point, strict=True))
            )
            for point in itertools.product(*grid.values())
        ]


def _middle(values: list[float], count: int | None) -> list[float]:
    """
    >>> _middle([10, 20, 30], 1), _middle([1, 2, 3, 5], None)
    ([20], [1, 2, 3, 5])
    """
    if count is None:
        return values
    start = (len(values) - count + 1) // 2
    return values[start : start + count]
