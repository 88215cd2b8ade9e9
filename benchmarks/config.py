"""Sizes and configuration of the benchmarks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpcanet.datasets.ogb import ABOUT, LAYOUTS
from gpcanet.datasets.planetoid import CITATION_GRAPHS


@dataclass(frozen=True)
class GraphShape:
    """Size of a generated graph."""

    n_nodes: int
    n_edges: int
    n_features: int
    n_classes: int = 8

    @classmethod
    def of_ogb(cls, name: str) -> GraphShape:
        """The size of a dataset of OGB, with as many edges as its file lists."""
        about, n_edges = ABOUT[name], LAYOUTS[name].n_listed_edges
        return cls(about.n_nodes, n_edges, about.n_features, about.n_classes)


@dataclass(frozen=True)
class Size:
    """Sizes of the data, number of repeats within a process and number of processes."""

    repeats: int
    rounds: int
    arxiv_size: GraphShape
    products_size: GraphShape
    real: tuple[str, ...]
    random_splits: int
    grown_edges: tuple[int, ...]
    columns: tuple[int, ...]
    columns_edges: int
    triad_numbers: int
    cluster_nodes: int
    # Rounds in order of importance: depths of each dataset, or datasets, and number of seeds.
    depths: tuple[tuple[Mapping[str, tuple[int, ...]], int], ...]
    trained_depths: tuple[int, ...]
    architectures: tuple[tuple[tuple[str, ...], int], ...]
    architecture_depths: tuple[int, ...]
    tissue_spots: tuple[int, ...]
    explored_nodes: tuple[int, ...]
    distributed_size: GraphShape
    workers_size: GraphShape
    worker_memory_size: GraphShape
    id_mapping_size: tuple[int, int]  # nodes, edges


DEPTHS = {"cora": (2, 5, 15, 32, 64), "citeseer": (2, 5, 15, 32, 64), "pubmed": (2, 5, 15)}
#: These take hours.
VERY_DEEP = {"pubmed": (32, 64)}

SIZES = {
    "quick": Size(
        repeats=1,
        rounds=1,
        arxiv_size=GraphShape(600, 3_000, 80),
        products_size=GraphShape(800, 8_000, 70),
        real=(),
        random_splits=1,
        grown_edges=(2_000,),
        columns=(16,),
        columns_edges=2_000,
        triad_numbers=200_000,
        cluster_nodes=2_000,
        depths=(({"digits": (2,)}, 1),),  # digits needs no download
        trained_depths=(3,),
        architectures=((("digits",), 1),),
        architecture_depths=(2,),
        tissue_spots=(400,),
        explored_nodes=(200,),
        distributed_size=GraphShape(2_000, 20_000, 32),
        workers_size=GraphShape(1_000, 5_000, 40),
        worker_memory_size=GraphShape(2_000, 10_000, 32),
        id_mapping_size=(1_000, 4_000),
    ),
    "small": Size(
        repeats=3,
        rounds=1,
        arxiv_size=GraphShape(40_000, 275_000, 128, 40),
        products_size=GraphShape(49_000, 1_237_000, 100, 47),
        real=CITATION_GRAPHS,
        random_splits=3,
        grown_edges=(10_000, 100_000, 1_000_000, 4_000_000),
        columns=(8, 32, 128),
        columns_edges=1_000_000,
        triad_numbers=20_000_000,
        cluster_nodes=50_000,
        depths=(({"cora": (2, 15)}, 1),),
        trained_depths=(15,),
        architectures=((("cora",), 1),),
        architecture_depths=(2, 8),
        tissue_spots=(3_000, 10_000),
        explored_nodes=(3_000,),
        distributed_size=GraphShape(1_000_000, 25_000_000, 32),
        workers_size=GraphShape(50_000, 500_000, 64),
        worker_memory_size=GraphShape(200_000, 1_000_000, 256),
        id_mapping_size=(100_000, 400_000),
    ),
    "full": Size(
        repeats=7,
        rounds=2,
        arxiv_size=GraphShape.of_ogb("ogbn-arxiv"),
        products_size=GraphShape.of_ogb("ogbn-products"),
        real=CITATION_GRAPHS,
        random_splits=10,
        grown_edges=(
            10_000, 30_000, 100_000, 300_000, 1_000_000,
            3_000_000, 10_000_000, 30_000_000, 100_000_000,
        ),
        columns=(8, 16, 32, 64, 128),
        columns_edges=3_000_000,
        triad_numbers=40_000_000,
        cluster_nodes=500_000,
        depths=((DEPTHS, 3), (VERY_DEEP, 1), (VERY_DEEP, 3), (DEPTHS, 5), (VERY_DEEP, 5)),
        trained_depths=(15, 32, 64),
        architectures=((("cora", "acm"), 1), (("cora", "acm"), 3)),
        architecture_depths=(2, 8, 16),
        tissue_spots=(3_000, 10_000, 30_000, 100_000),
        explored_nodes=(3_000, 20_000, 200_000),
        distributed_size=GraphShape(40_000_000, 1_000_000_000, 32),
        workers_size=GraphShape(200_000, 2_000_000, 64),
        worker_memory_size=GraphShape(1_000_000, 5_000_000, 768),
        id_mapping_size=(1_000_000, 4_000_000),
    ),
}  # fmt: skip


#: Stages of the part prediction.
STAGES = ("scores", "seconds")


@dataclass(frozen=True)
class Config:
    """Configuration of a run: ``work_dir`` keeps generated graphs, ``log`` shows a message."""

    size: Size
    repeats: int
    work_dir: Path
    log: Callable[[str], None]
    data_dir: Path | None = None
    offline: bool | None = None
    # The part prediction: graphs and methods (all if empty), stages, whether to measure again what
    # earlier results have.
    datasets: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    stages: tuple[str, ...] = STAGES
    again: bool = False
    # Parts that go on from earlier results: these results, what stores those so far, and the
    # number of trainings at a time, by default one per core.
    earlier: Mapping[str, Any] = field(default_factory=dict)
    save: Callable[[dict[str, Any]], None] = lambda results: None
    jobs: int | None = None
