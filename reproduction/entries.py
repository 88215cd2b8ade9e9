"""Tables and figures as lists of entries, an entry being one number and all it is chosen from."""

from __future__ import annotations

import itertools
import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Any

from gpcanet.utils.checks import check_choice

from .cells import Cell, Setup

POOLS = ("full", "lean")
PROTOCOLS = ("paper", "authors-code", "ours")
CITATION_GRAPHS = ("cora", "citeseer", "pubmed")
DATASETS = (*CITATION_GRAPHS, "ogbn-arxiv", "ogbn-products")

#: Generated graphs of the size of OGB's: how far it scales, and nothing about accuracy.
GENERATED = ("arxiv-size", "products-size")

PUBLIC = "public"

#: Nodes a class that the public splits of the citation graphs train on.
LABELS_OF_PUBLIC = 20
INIT_NAMES = {"xavier": "Xavier", "gpca": "GPCA", "he": "He", "orthogonal": "orthogonal"}

#: Where a protocol does not name its own.
SEEDS = [0, 1, 2, 3, 4]

#: What a protocol says of a method besides its options.
NO_OPTIONS = ("pool", "seeds", "alphas")

Run = tuple[str, int]  # a split and a seed


@dataclass(frozen=True)
class Entry:
    """One number: candidates, the runs they are compared by, and the runs that are reported.

    Candidates are compared by validation accuracy alone (``selection.choose``).
    """

    experiment: str
    protocol: str
    pool: str
    dataset: str
    row: str
    candidates: tuple[Setup, ...]
    select: tuple[Run, ...]
    runs: tuple[Run, ...]

    def cells_to_choose(self) -> list[Cell]:
        if len(self.candidates) == 1:
            return []
        return [setup.cell(*run) for setup in self.candidates for run in self.select]

    def cells_to_report(self, chosen: Setup) -> list[Cell]:
        return [chosen.cell(*run) for run in self.runs]


@cache
def read_toml(name: str) -> dict[str, Any]:
    return tomllib.loads((files(__package__) / f"{name}.toml").read_text("utf-8"))


@dataclass(frozen=True)
class Plan:
    """What makes entries: a protocol, a pool and a dataset."""

    protocol: str
    pool: str
    dataset: str

    # -- what the files say ---------------------------------------------------------------

    def values(self, name: str, default: Any = None) -> Any:
        """From the dataset's part of the pool; what lean does not name is as in full."""
        pools = read_toml("pools")
        for pool in (self.pool, "full"):
            for part in (pools[pool].get(self.dataset, {}), pools[pool]):
                if name in part:
                    return part[name]
        return default

    @property
    def depths(self) -> list[int]:
        """Of Table 4; the best GCN may be chosen from fewer."""
        return self.values("table4_layers") or self.values("layers")

    def how(self, method: str) -> dict[str, Any]:
        """The protocol's settings of a method, with those of the dataset over them."""
        protocol = self._protocol_of(method)
        special = protocol.get(self.dataset, {}).get(method, {})
        settings = {**protocol[method], **special}
        return {name: value for name, value in settings.items() if name not in NO_OPTIONS}

    def seeds(self, method: str) -> list[int]:
        return self._protocol_of(method)[method].get("seeds", SEEDS)

    def _protocol_of(self, method: str) -> dict[str, Any]:
        """A method that a protocol does not name is run as in the paper's text."""
        protocols = read_toml("protocols")
        own = protocols[self.protocol]
        return own if method in own else protocols["paper"]

    def entry(
        self,
        experiment: str,
        row: str,
        candidates: Sequence[Setup],
        runs: Sequence[Run] | None = None,
    ) -> Entry:
        select, report = self.values("select_seeds"), self.values("report_seeds")
        seeds = self.seeds(candidates[0].method)
        if candidates[0].method == "gpca":  # takes little time: never lean
            select = read_toml("pools")["full"]["select_seeds"]
        if candidates[0].get("head") == "logistic":  # no random numbers in it
            select = report = 1
        return Entry(
            experiment,
            self.protocol,
            self.pool,
            self.dataset,
            row,
            tuple(candidates),
            tuple((PUBLIC, seed) for seed in seeds[:select]),
            tuple(runs or [(PUBLIC, seed) for seed in seeds[:report]]),
        )

    # -- candidates -----------------------------------------------------------------------

    def gpca(self, alphas: Sequence[float], betas: Sequence[float]) -> list[Setup]:
        pool = read_toml("protocols")[self.protocol]["gpca"].get("pool")
        if pool is None:
            pool = Plan(self.protocol, "full", self.dataset)._widths_and_penalties()
        return self._setups("gpca", {"alpha": alphas, "beta": betas, **pool})

    def gcn(self, layers: Sequence[int], init: str) -> list[Setup]:
        grid = {"layers": layers, **self._widths_and_penalties()}
        return self._setups("gcn", grid, init=init)

    def gpcanet(self, pairs: Sequence[tuple[int, float]]) -> list[Setup]:
        pool = self._widths_and_penalties("gpcanet")
        return [
            setup
            for layers, alpha in pairs
            for setup in self._setups("gpcanet", pool, layers=layers, alpha=alpha)
        ]

    def _widths_and_penalties(self, method: str = "") -> dict[str, Any]:
        """The pool of a method where it has one of its own, else that of all."""
        names = ("hidden", "weight_decay", "dropout")
        return {name: self.values(f"{method}_{name}") or self.values(name) for name in names}

    def _setups(self, method: str, grid: dict[str, Any], **fixed: Any) -> list[Setup]:
        how = self.how(method)
        if method != "gpca":
            how = {"lr": self.values("lr"), **how, **self.values("training", {})}
        return [
            Setup.of(method, self.dataset, **how, **fixed, **dict(zip(grid, chosen, strict=True)))
            for chosen in itertools.product(*grid.values())
        ]


# -- the experiments ------------------------------------------------------------------------


def _table1(plan: Plan) -> Iterator[Entry]:
    yield _best_gcn(plan, "table1")
    alphas = plan.values("alpha")
    yield plan.entry("table1", "GPCA, all alpha", plan.gpca(alphas, [0]))
    for alpha in alphas:
        yield plan.entry("table1", f"GPCA, alpha = {alpha}", plan.gpca([alpha], [0]))


def _table2(plan: Plan) -> Iterator[Entry]:
    alphas, betas = plan.values("alpha"), plan.values("beta")
    if not betas:
        return
    yield _best_gcn(plan, "table2")
    yield plan.entry("table2", "Unsupervised GPCA", plan.gpca(alphas, [0]))
    yield plan.entry("table2", "Supervised GPCA, all beta", plan.gpca(alphas, betas))
    for beta in betas:
        yield plan.entry("table2", f"Supervised GPCA, beta = {beta}", plan.gpca(alphas, [beta]))


def _table3(plan: Plan) -> Iterator[Entry]:
    yield _best_gcn(plan, "table3")
    yield plan.entry("table3", "GPCANet", _shallow_gpcanets(plan))


def _table4(plan: Plan) -> Iterator[Entry]:
    for layers, (init, name) in itertools.product(plan.depths, INIT_NAMES.items()):
        yield plan.entry("table4", f"{layers} layers, {name}", plan.gcn([layers], init))


def _random(plan: Plan) -> Iterator[Entry]:
    """The main comparisons on splits of their own, run for run on the same ones.

    GCNs are the paper's in every protocol.
    """
    if plan.dataset not in CITATION_GRAPHS:
        return  # their splits are part of the data: by time, by sales
    runs = [(f"random-{number}", number) for number in range(plan.values("random_splits"))]
    alphas, betas = plan.values("alpha"), plan.values("beta")
    yield plan.entry("random", "GPCA", plan.gpca(alphas, [0]), runs)
    yield plan.entry("random", "Supervised GPCA", plan.gpca(alphas, betas), runs)
    if plan.protocol != "paper":
        return
    yield plan.entry("random", "GCN", _best_gcn(plan, "random").candidates, runs)
    for layers in _shallowest_and_deepest(plan):
        for init, name in INIT_NAMES.items():
            yield plan.entry("random", f"{layers} layers, {name}", plan.gcn([layers], init), runs)


def _figure1(plan: Plan) -> Iterator[Entry]:
    grid = plan.values("figure1")
    runs = [(PUBLIC, seed) for seed in plan.seeds("gpcanet")[: grid["seeds"]]]
    for layers, alpha in itertools.product(grid["layers"], grid["alphas"]):
        candidates = [setup for setup in plan.gpcanet([(layers, alpha)]) if setup["hidden"] == 128]
        if plan.pool == "lean":
            candidates = candidates[:1]
        yield plan.entry("figure1", f"{layers} layers, alpha = {alpha}", candidates, runs)


def _histograms(plan: Plan) -> Iterator[Entry]:
    runs = [(PUBLIC, seed) for seed in range(plan.values("histogram_seeds"))]
    for layers in _shallowest_and_deepest(plan):
        for init in ("xavier", "gpca"):
            row = f"{layers} layers, {INIT_NAMES[init]}"
            yield plan.entry("histograms", row, plan.gcn([layers], init), runs)


def _fewer(plan: Plan) -> Iterator[Entry]:
    if plan.dataset not in CITATION_GRAPHS:
        return
    grid = plan.values("fewer")
    for layers, labels in itertools.product(grid["layers"], grid["labels"]):
        split = PUBLIC if labels == LABELS_OF_PUBLIC else f"fewer-{labels}"
        runs = [(split, seed) for seed in plan.seeds("gcn")]
        for init in ("xavier", "gpca"):
            row = f"{layers} layers, {INIT_NAMES[init]}, {labels} labels a class"
            yield plan.entry("fewer", row, plan.gcn([layers], init), runs)


def _shallowest_and_deepest(plan: Plan) -> list[int]:
    layers = plan.values("layers")
    return sorted({min(layers), max(layers)})


def _scale(plan: Plan) -> Iterator[Entry]:
    """On generated graphs, few epochs: that it runs at this size and what it takes, no more."""
    how = Plan("paper", "full", f"ogbn-{plan.dataset.removesuffix('-size')}").how("gpca")
    how |= {"lr": 0.01, "epochs": 50, "eval_every": 10, "hidden": 64, "dropout": 0}
    gpca = Setup.of("gpca", plan.dataset, **how, alpha=10, beta=0, weight_decay=0)
    yield _single(plan, "GPCA, alpha = 10", gpca)
    if plan.dataset == "arxiv-size":
        few = {"lr": 0.005, "epochs": 5, "eval_every": 5, "dropout": 0, "weight_decay": 0}
        for init in ("xavier", "gpca"):
            gcn = Setup.of("gcn", plan.dataset, **few, layers=3, hidden=128, init=init)
            yield _single(plan, f"GCN, 3 layers, {INIT_NAMES[init]}, 5 epochs", gcn)


def _single(plan: Plan, row: str, setup: Setup) -> Entry:
    runs = ((PUBLIC, 0),)
    return Entry("scale", plan.protocol, plan.pool, plan.dataset, row, (setup,), runs, runs)


def _best_gcn(plan: Plan, experiment: str) -> Entry:
    """GCN as in Table 4 with Xavier, its depth chosen as well; ours is the paper's."""
    plan = replace(plan, protocol="paper") if plan.protocol == "ours" else plan
    return plan.entry(experiment, "GCN", plan.gcn(plan.values("layers"), "xavier"))


def _shallow_gpcanets(plan: Plan) -> list[Setup]:
    own = read_toml("protocols")[plan.protocol]["gpcanet"].get("alphas")
    alphas = plan.values("gpcanet_alphas") if own is None else own
    each = plan.values("gpcanet_alphas_each")
    return plan.gpcanet(
        [(int(layers), alpha) for layers, pool in alphas.items() for alpha in _middle(pool, each)]
    )


def _middle(pool: list[float], count: int | None) -> list[float]:
    """
    >>> _middle([10, 20, 30], 1), _middle([1, 2, 3, 5], None)
    ([20], [1, 2, 3, 5])
    """
    start = 0 if count is None else (len(pool) - count + 1) // 2
    return pool[start : None if count is None else start + count]


EXPERIMENTS: dict[str, Callable[[Plan], Iterator[Entry]]] = {
    "table1": _table1,
    "table2": _table2,
    "table3": _table3,
    "table4": _table4,
    "random": _random,
    "figure1": _figure1,
    "histograms": _histograms,
    "fewer": _fewer,
    "scale": _scale,
}

#: Run as the paper's text has it, whatever protocol is asked for.
OF_ONE_PROTOCOL = ("table4", "figure1", "histograms", "fewer", "scale")


def entries_of(experiment: str, protocol: str, pool: str, dataset: str) -> list[Entry]:
    """All numbers of a table or figure.

    Examples
    --------
    >>> [entry.row for entry in entries_of("table3", "paper", "full", "cora")]
    ['GCN', 'GPCANet']
    """
    check_choice("experiment", experiment, tuple(EXPERIMENTS))
    check_choice("protocol", protocol, PROTOCOLS)
    check_choice("pool", pool, POOLS)
    check_choice("dataset", dataset, GENERATED if experiment == "scale" else DATASETS)
    return list(EXPERIMENTS[experiment](Plan(protocol, pool, dataset)))
