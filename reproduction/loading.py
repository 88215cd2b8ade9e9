"""Datasets and their splits, as cells name them."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from gpcanet.datasets import Dataset, block_model, first_per_class, load, random_split
from gpcanet.datasets.ogb import ABOUT, LAYOUTS

from .cells import Split
from .experiments import GENERATED, PUBLIC_LABELS_PER_CLASS

#: Number of validation and test nodes of a random split, as in the public splits.
N_VALIDATION, N_TEST = 500, 1000


@dataclass(frozen=True)
class GeneratedSize:
    """Size of a generated graph, and the shares of nodes for training and validation."""

    n_nodes: int
    n_edges: int
    n_features: int
    n_classes: int
    train: float
    validation: float


def _size(name: str, train: float, validation: float) -> GeneratedSize:
    about, layout = ABOUT[GENERATED[name]], LAYOUTS[GENERATED[name]]
    return GeneratedSize(
        n_nodes=about.n_nodes,
        n_edges=layout.n_listed_edges,
        n_features=about.n_features,
        n_classes=about.n_classes,
        train=train,
        validation=validation,
    )


SIZES = {
    "arxiv-size": _size("arxiv-size", train=0.54, validation=0.18),
    "products-size": _size("products-size", train=0.08, validation=0.02),
}


@dataclass(frozen=True)
class DatasetLoader:
    """Loads datasets by name, and keeps the last ones in memory."""

    data_dir: str | os.PathLike[str] | None = None
    offline: bool | None = None

    def dataset(self, name: str) -> Dataset:
        return _load(name, self)

    def split(self, name: str, split: Split) -> Dataset:
        """A dataset with the given split."""
        data = self.dataset(name)
        if split.random_seed is not None:
            # Settings are selected on the public split, so its training and validation nodes
            # must not be tested on.
            return random_split(
                data,
                split.random_seed,
                n_per_class=PUBLIC_LABELS_PER_CLASS,
                n_validation=N_VALIDATION,
                n_test=N_TEST,
                exclude=np.concatenate([data.train, data.validation]),
            )
        if split.labels_per_class is not None:
            return replace(data, train=first_per_class(data.train, data.y, split.labels_per_class))
        return data


@lru_cache(maxsize=3)
def _load(name: str, loader: DatasetLoader) -> Dataset:
    if name not in SIZES:
        return load(name, loader.data_dir, offline=loader.offline)
    size = SIZES[name]
    data = block_model(
        size.n_nodes, size.n_edges, n_features=size.n_features, n_classes=size.n_classes
    )
    order = np.random.default_rng(0).permutation(size.n_nodes)
    shares = size.train, size.validation
    parts = np.split(order, np.cumsum([int(share * size.n_nodes) for share in shares]))
    train, validation, test = (np.sort(part) for part in parts)
    return replace(data, name=name, train=train, validation=validation, test=test)
