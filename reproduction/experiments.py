"""The paper's tables and figures as lists of rows, and what has to be run for each row."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Self

from gpcanet.datasets.planetoid import CITATION_GRAPHS
from gpcanet.utils.checks import check_choice

from .cells import PUBLIC, Cell, Run, Setup, Split
from .pools import DATASETS, POOLS, PROTOCOLS, SettingPool, read_toml

#: Generated graphs, and the dataset of OGB whose settings and size each has. They test scaling;
#: their accuracies mean nothing.
GENERATED = {"arxiv-size": "ogbn-arxiv", "products-size": "ogbn-products"}

#: Training nodes per class in the public splits of the citation graphs.
PUBLIC_LABELS_PER_CLASS = 20

INITS = ("xavier", "gpca", "he", "orthogonal")


@dataclass(frozen=True)
class Row:
    """One row of a table or one point of a figure.

    A setting that is None is not fixed by the row: it is selected from the pool, or the method
    does not have it.
    """

    experiment: str
    protocol: str
    dataset: str
    method: str
    supervised: bool = False
    alpha: float | None = None
    beta: float | None = None
    layers: int | None = None
    init: str | None = None
    labels_per_class: int | None = None

    @property
    def table(self) -> tuple[str, str, str]:
        """Experiment, protocol and dataset."""
        return self.experiment, self.protocol, self.dataset

    @property
    def settings(self) -> tuple[Any, ...]:
        """What distinguishes the row from others of its table."""
        return tuple(getattr(self, field.name) for field in fields(self)[3:])

    def to_json(self) -> dict[str, Any]:
        present = vars(self).items()
        return {name: value for name, value in present if value is not None and value is not False}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Self:
        return cls(**values)


@dataclass(frozen=True)
class RowSpec:
    """What a row needs: candidates, the runs that select one, and the runs of the selected one.

    Candidates are compared by validation accuracy alone (``selection.select``).
    """

    row: Row
    pool: str
    candidates: tuple[Setup, ...]
    selection_runs: tuple[Run, ...]
    runs: tuple[Run, ...]

    def selection_cells(self) -> list[Cell]:
        if len(self.candidates) == 1:
            return []
        return [setup.cell(*run) for setup in self.candidates for run in self.selection_runs]

    def final_cells(self, selected: Setup) -> list[Cell]:
        return [selected.cell(*run) for run in self.runs]

    def fingerprint(self) -> str:
        """Equal for specs that select from the same runs and report the same runs."""
        candidates = [[setup.method, dict(setup.options)] for setup in self.candidates]
        runs = [[run.to_json() for run in part] for part in (self.selection_runs, self.runs)]
        text = json.dumps([candidates, *runs], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]


def public_runs(seeds: Sequence[int]) -> tuple[Run, ...]:
    return tuple(Run(PUBLIC, seed) for seed in seeds)


@dataclass(frozen=True)
class _Builder:
    """Builds the specs of one experiment."""

    experiment: str
    settings: SettingPool

    def spec(
        self, candidates: Sequence[Setup], runs: Sequence[Run] | None = None, **row: Any
    ) -> RowSpec:
        settings, first = self.settings, candidates[0]
        n_selection, n_final = settings.values("select_seeds"), settings.values("report_seeds")
        if first.method == "gpca":  # quick enough for all seeds in every pool
            n_selection = read_toml("pools")["full"]["select_seeds"]
        if first.get("head") == "logistic":  # deterministic
            n_selection = n_final = 1
        seeds = settings.seeds(first.method)
        return RowSpec(
            Row(self.experiment, settings.protocol, settings.dataset, first.method, **row),
            settings.pool,
            tuple(candidates),
            public_runs(seeds[:n_selection]),
            tuple(runs or public_runs(seeds[:n_final])),
        )

    def best_gcn(self, runs: Sequence[Run] | None = None) -> RowSpec:
        """GCN with Xavier weights, its depth selected too; ``ours`` has the paper's GCN."""
        settings = self.settings
        if settings.protocol == "ours":
            settings = replace(settings, protocol="paper")
        candidates = settings.gcn(settings.values("layers"), "xavier")
        return _Builder(self.experiment, settings).spec(candidates, runs)

    def gcn(self, layers: int, init: str, runs: Sequence[Run] | None = None, **row: Any) -> RowSpec:
        return self.spec(self.settings.gcn([layers], init), runs, layers=layers, init=init, **row)


# -- the experiments ------------------------------------------------------------------------


def _table1(build: _Builder) -> Iterator[RowSpec]:
    settings = build.settings
    alphas = settings.values("alpha")
    yield build.best_gcn()
    yield build.spec(settings.gpca(alphas, [0]))
    for alpha in alphas:
        yield build.spec(settings.gpca([alpha], [0]), alpha=alpha)


def _table2(build: _Builder) -> Iterator[RowSpec]:
    settings = build.settings
    alphas, betas = settings.values("alpha"), settings.values("beta")
    if not betas:
        return
    yield build.best_gcn()
    yield build.spec(settings.gpca(alphas, [0]))
    yield build.spec(settings.gpca(alphas, betas), supervised=True)
    for beta in betas:
        yield build.spec(settings.gpca(alphas, [beta]), supervised=True, beta=beta)


def _table3(build: _Builder) -> Iterator[RowSpec]:
    yield build.best_gcn()
    yield build.spec(build.settings.shallow_gpcanets())


def _table4(build: _Builder) -> Iterator[RowSpec]:
    for layers, init in itertools.product(build.settings.depths, INITS):
        yield build.gcn(layers, init)


def _random(build: _Builder) -> Iterator[RowSpec]:
    """The main comparisons on random splits, the same splits for every row.

    GCNs are the paper's in every protocol.
    """
    settings = build.settings
    if settings.dataset not in CITATION_GRAPHS:
        return  # OGB's splits are part of the data: by time, by sales
    runs = [Run(Split(random_seed=seed), seed) for seed in range(settings.values("random_splits"))]
    alphas, betas = settings.values("alpha"), settings.values("beta")
    yield build.spec(settings.gpca(alphas, [0]), runs)
    yield build.spec(settings.gpca(alphas, betas), runs, supervised=True)
    if settings.protocol != "paper":
        return
    yield build.best_gcn(runs)
    for layers, init in itertools.product(settings.extreme_depths, INITS):
        yield build.gcn(layers, init, runs)


def _figure1(build: _Builder) -> Iterator[RowSpec]:
    settings = build.settings
    grid = settings.values("figure1")
    runs = public_runs(settings.seeds("gpcanet")[: grid["seeds"]])
    for layers, alpha in itertools.product(grid["layers"], grid["alphas"]):
        candidates = [s for s in settings.gpcanet([(layers, alpha)]) if s["hidden"] == 128]
        if settings.pool == "lean":
            candidates = candidates[:1]
        yield build.spec(candidates, runs, layers=layers, alpha=alpha)


def _histograms(build: _Builder) -> Iterator[RowSpec]:
    runs = public_runs(range(build.settings.values("histogram_seeds")))
    for layers, init in itertools.product(build.settings.extreme_depths, ("xavier", "gpca")):
        yield build.gcn(layers, init, runs)


def _fewer(build: _Builder) -> Iterator[RowSpec]:
    settings = build.settings
    if settings.dataset not in CITATION_GRAPHS:
        return
    grid = settings.values("fewer")
    for layers, labels in itertools.product(grid["layers"], grid["labels"]):
        split = PUBLIC if labels == PUBLIC_LABELS_PER_CLASS else Split(labels_per_class=labels)
        runs = [Run(split, seed) for seed in settings.seeds("gcn")]
        for init in ("xavier", "gpca"):
            yield build.gcn(layers, init, runs, labels_per_class=labels)


def _scale(build: _Builder) -> Iterator[RowSpec]:
    """A few epochs on generated graphs, to show that this size runs and how long it takes."""
    dataset = build.settings.dataset
    options = SettingPool("paper", "full", GENERATED[dataset]).options("gpca")
    options |= {"lr": 0.01, "epochs": 50, "eval_every": 10, "hidden": 64, "dropout": 0}
    gpca = Setup.of("gpca", dataset, **options, alpha=10, beta=0, weight_decay=0)
    yield _single_run(build, gpca, alpha=10)
    if dataset == "arxiv-size":
        few = {"lr": 0.005, "epochs": 5, "eval_every": 5, "dropout": 0, "weight_decay": 0}
        for init in ("xavier", "gpca"):
            gcn = Setup.of("gcn", dataset, **few, layers=3, hidden=128, init=init)
            yield _single_run(build, gcn, layers=3, init=init)


def _single_run(build: _Builder, setup: Setup, **row: Any) -> RowSpec:
    runs = public_runs([0])
    key = Row("scale", build.settings.protocol, build.settings.dataset, setup.method, **row)
    return RowSpec(key, build.settings.pool, (setup,), runs, runs)


EXPERIMENTS: dict[str, Callable[[_Builder], Iterator[RowSpec]]] = {
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

#: Protocols of the experiments that do not run under all of them.
LIMITED_PROTOCOLS = {
    "table4": ("paper", "authors-code"),
    **dict.fromkeys(("figure1", "histograms", "fewer", "scale"), ("paper",)),
}


def row_specs(experiment: str, protocol: str, pool: str, dataset: str) -> list[RowSpec]:
    """All rows of a table or figure.

    Examples
    --------
    >>> [spec.row.method for spec in row_specs("table3", "paper", "full", "cora")]
    ['gcn', 'gpcanet']
    """
    check_choice("experiment", experiment, tuple(EXPERIMENTS))
    check_choice("protocol", protocol, PROTOCOLS)
    check_choice("pool", pool, POOLS)
    check_choice("dataset", dataset, datasets_of(experiment))
    return list(EXPERIMENTS[experiment](_Builder(experiment, SettingPool(protocol, pool, dataset))))


def datasets_of(experiment: str) -> tuple[str, ...]:
    return tuple(GENERATED) if experiment == "scale" else DATASETS


def protocols_of(experiment: str) -> tuple[str, ...]:
    return LIMITED_PROTOCOLS.get(experiment, PROTOCOLS)


def all_row_specs() -> Iterator[RowSpec]:
    """Every row of every experiment, the full pool before the lean one."""
    for experiment in EXPERIMENTS:
        for protocol in protocols_of(experiment):
            for dataset in datasets_of(experiment):
                for pool in POOLS:
                    yield from row_specs(experiment, protocol, pool, dataset)
