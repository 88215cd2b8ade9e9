"""Datasets and splits by the names that cells have for them."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from gpcanet.datasets import Dataset, block_model, load
from gpcanet.errors import InputError

from .entries import LABELS_OF_PUBLIC, PUBLIC

#: Nodes of a random split, as many as in the public ones.
VALIDATION_NODES, TEST_NODES = 500, 1000

#: Generated graphs as large as OGB's: nodes, edges, features, classes, shares of the split.
SIZES = {
    "arxiv-size": (169_343, 1_166_243, 128, 40, (0.54, 0.18)),
    "products-size": (2_449_029, 61_859_140, 100, 47, (0.08, 0.02)),
}


@dataclass(frozen=True)
class Source:
    """Where datasets are looked for."""

    data_dir: str | os.PathLike[str] | None = None
    offline: bool | None = None

    def dataset(self, name: str) -> Dataset:
        return _load(name, self)

    def split(self, name: str, split: str) -> Dataset:
        """A dataset with one of its splits: public, random-<seed>, or fewer-<labels a class>."""
        data = self.dataset(name)
        if split == PUBLIC:
            return data
        kind, _, number = split.partition("-")
        if kind == "random" and number.isdecimal():
            return random_split(data, int(number))
        if kind == "fewer" and number.isdecimal():
            return fewer_labels(data, int(number))
        raise InputError(f"split {split!r} is not known; there are public, random-0, fewer-5, ...")


@lru_cache(maxsize=3)
def _load(name: str, source: Source) -> Dataset:
    if name not in SIZES:
        return load(name, source.data_dir, offline=source.offline)
    n_nodes, n_edges, n_features, n_classes, (train, validation) = SIZES[name]
    data = block_model(n_nodes, n_edges, n_features=n_features, n_classes=n_classes)
    order = np.random.default_rng(0).permutation(n_nodes)
    bounds = np.cumsum([int(train * n_nodes), int(validation * n_nodes)])
    parts = [np.sort(part) for part in np.split(order, bounds)]
    return replace(data, name=name, train=parts[0], validation=parts[1], test=parts[2])


def random_split(data: Dataset, seed: int) -> Dataset:
    """Twenty nodes a class to train on, 500 to select by, 1000 to test on.

    Drawn from nodes that the public split neither trains nor selects on: settings are chosen
    there, and no node they were chosen by may be tested on.
    """
    rng = np.random.default_rng(seed)
    free = np.ones(data.graph.n_nodes, bool)
    free[data.train] = free[data.validation] = False
    nodes = rng.permutation(np.flatnonzero(free & (data.y >= 0)))
    train = np.concatenate(
        [nodes[data.y[nodes] == label][:LABELS_OF_PUBLIC] for label in range(data.n_classes)]
    )
    others = nodes[~np.isin(nodes, train)]
    if len(others) < VALIDATION_NODES + TEST_NODES:
        raise InputError(
            f"{data.name} has {len(others)} nodes left for a random split, which takes "
            f"{VALIDATION_NODES} and {TEST_NODES}"
        )
    validation, test = np.split(others[: VALIDATION_NODES + TEST_NODES], [VALIDATION_NODES])
    return replace(data, train=np.sort(train), validation=np.sort(validation), test=np.sort(test))


def fewer_labels(data: Dataset, per_class: int) -> Dataset:
    """The public split with only the first so many of each class to train on."""
    labels = data.y[data.train]
    train = [data.train[labels == label][:per_class] for label in range(data.n_classes)]
    return replace(data, train=np.sort(np.concatenate(train)))
