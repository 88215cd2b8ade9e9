"""Held-out labels for datasets without a split."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ..datasets import Dataset
from ..errors import InputError
from ..utils.training_result import SPLIT

#: Shares of the labelled nodes of every class that are held out for validation and for the test.
VALIDATION_SHARE, TEST_SHARE = 0.1, 0.2


def check_labelled(dataset: Dataset) -> None:
    if not np.any(dataset.y >= 0):
        raise InputError("no node has a label; give --labels, or --label with a column of features")


def hold_out_values(dataset: Dataset, seed: int, *, test: float) -> Dataset:
    """Split the nodes with known numbers at random by the given share; at least one trains."""
    nodes = np.random.default_rng(seed).permutation(np.flatnonzero(dataset.y >= 0))
    n_test = min(round(test * len(nodes)), len(nodes) - 1)
    return replace(dataset, train=nodes[n_test:], test=nodes[:n_test])


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
