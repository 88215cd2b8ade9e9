"""Splits by number of nodes, as in Planetoid's public splits, and by shares of every class."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ..errors import InputError
from ..utils.labels import SPLIT
from .dataset import Dataset

#: Shares of the labelled nodes of every class that are held out for validation and for the test.
VALIDATION_SHARE, TEST_SHARE = 0.1, 0.2


def first_per_class(nodes: np.ndarray, y: np.ndarray, n_per_class: int) -> np.ndarray:
    """The first ``n_per_class`` of the nodes of each class, sorted.

    Examples
    --------
    >>> y = np.array([0, 0, 0, 1, 1, 1])
    >>> first_per_class(np.array([5, 1, 0, 3, 2, 4]), y, n_per_class=2).tolist()
    [0, 1, 3, 5]
    """
    labels = y[nodes]
    chosen = [nodes[labels == label][:n_per_class] for label in np.unique(labels)]
    return np.sort(np.concatenate(chosen)) if chosen else nodes[:0]


def random_split(
    dataset: Dataset,
    seed: int,
    *,
    n_per_class: int = 20,
    n_validation: int = 500,
    n_test: int | None = 1000,
    exclude: np.ndarray | None = None,
) -> Dataset:
    """The dataset with a random split.

    Parameters
    ----------
    dataset : Dataset
    seed : int
    n_per_class : int
        Number of training nodes per class.
    n_validation : int
        Number of validation nodes.
    n_test : int or None
        Number of test nodes; None takes all remaining labelled nodes.
    exclude : ndarray, optional
        Nodes that belong to no part of the split.

    Examples
    --------
    >>> from gpcanet.datasets import load
    >>> data = random_split(load("digits"), seed=1, n_per_class=3, n_validation=200)
    >>> len(data.train), len(data.validation), len(data.test)
    (30, 200, 1000)
    """
    allowed = dataset.y >= 0
    if exclude is not None:
        allowed[exclude] = False
    nodes = np.random.default_rng(seed).permutation(np.flatnonzero(allowed))
    train = first_per_class(nodes, dataset.y, n_per_class)
    others = nodes[~np.isin(nodes, train)]
    n_wanted = n_validation + (n_test or 0)
    if len(others) < n_wanted:
        raise InputError(
            f"{dataset.name} has {len(others)} labelled nodes left for validation and test, and "
            f"the split needs {n_wanted}; use fewer nodes for validation or test"
        )
    validation, test = np.split(others if n_test is None else others[:n_wanted], [n_validation])
    return replace(dataset, train=train, validation=np.sort(validation), test=np.sort(test))


def hold_out(dataset: Dataset, seed: int, *, test: float, validation: float = 0.0) -> Dataset:
    """Split the labelled nodes of every class at random by the given shares.

    Every class keeps at least one training node. With a validation share, every class that has
    nodes left gets at least one validation node.
    """
    # StratifiedShuffleSplit of scikit-learn does not accept classes with a single node.
    rng = np.random.default_rng(seed)
    parts: dict[str, list[np.ndarray]] = {part: [] for part in SPLIT}
    for label in range(dataset.n_classes):
        nodes = rng.permutation(np.flatnonzero(dataset.y == label))
        n_test = min(round(test * len(nodes)), len(nodes) - 1)
        n_spare = len(nodes) - 1 - n_test
        n_validation = min(max(1, round(validation * len(nodes))), n_spare) if validation else 0
        parts["test"].append(nodes[:n_test])
        parts["validation"].append(nodes[n_test : n_test + n_validation])
        parts["train"].append(nodes[n_test + n_validation :])
    split: dict[str, Any] = {part: np.concatenate(nodes) for part, nodes in parts.items()}
    return replace(dataset, **split)
