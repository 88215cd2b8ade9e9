"""Sizes and configuration of the benchmarks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

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
    depths: Mapping[str, tuple[int, ...]]
    trained_depths: tuple[int, ...]
    depth_seeds: int
    architecture_depths: tuple[int, ...]
    architecture_seeds: int
    distributed_size: GraphShape
    workers_size: GraphShape


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
        depths={"cora": (2,)},
        trained_depths=(3,),
        depth_seeds=1,
        architecture_depths=(2,),
        architecture_seeds=1,
        distributed_size=GraphShape(2_000, 20_000, 32),
        workers_size=GraphShape(1_000, 5_000, 40),
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
        depths={"cora": (2, 15)},
        trained_depths=(15,),
        depth_seeds=1,
        architecture_depths=(2, 8),
        architecture_seeds=1,
        distributed_size=GraphShape(1_000_000, 25_000_000, 32),
        workers_size=GraphShape(50_000, 500_000, 64),
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
        # Deeper networks on PubMed take hours.
        depths={"cora": (2, 5, 15, 32, 64), "citeseer": (2, 5, 15, 32, 64), "pubmed": (2, 5, 15)},
        trained_depths=(15, 32, 64),
        depth_seeds=3,
        architecture_depths=(2, 8, 16),
        architecture_seeds=1,
        distributed_size=GraphShape(40_000_000, 1_000_000_000, 32),
        workers_size=GraphShape(200_000, 2_000_000, 64),
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Config:
    """Configuration of a run: ``work_dir`` keeps generated graphs, ``log`` shows a message."""

    size: Size
    repeats: int
    work_dir: Path
    log: Callable[[str], None]
    data_dir: Path | None = None
    offline: bool | None = None
    datasets: tuple[str, ...] = ()  # graphs of the part prediction; all if empty
