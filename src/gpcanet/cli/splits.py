"""Labels kept back where a dataset has no split of its own."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..datasets import Dataset
from ..errors import InputError


def check_labelled(dataset: Dataset) -> None:
    if not np.any(dataset.y >= 0):
        raise InputError("no node has a label; give --labels, or --label with a column of features")


def hold_out(dataset: Dataset, seed: int, *, test: float, validation: float = 0.0) -> Dataset:
    """Shares of every class for test and validation; each keeps at least one label to learn from.

    Where a share is wanted for validation, every class that can spare one gives at least one.
    """
    rng = np.random.default_rng(seed)
    parts: dict[str, list[np.ndarray]] = {"train": [], "validation": [], "test": []}
    for code in range(dataset.n_classes):
        members = rng.permutation(np.flatnonzero(dataset.y == code))
        n_test = min(round(test * len(members)), len(members) - 1)
        spare = len(members) - 1 - n_test
        n_validation = min(max(1, round(validation * len(members))), spare) if validation else 0
        parts["test"].append(members[:n_test])
        parts["validation"].append(members[n_test : n_test + n_validation])
        parts["train"].append(members[n_test + n_validation :])
    train, held, judged = (np.concatenate(chosen) for chosen in parts.values())
    return replace(dataset, train=train, validation=held, test=judged)
