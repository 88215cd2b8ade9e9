"""Held-out labels for datasets without a split."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..datasets import Dataset
from ..errors import InputError


def check_labelled(dataset: Dataset) -> None:
    if not np.any(dataset.y >= 0):
        raise InputError("no node has a label; give --labels, or --label with a column of features")


def hold_out_values(dataset: Dataset, seed: int, *, test: float) -> Dataset:
    """Split the nodes with known numbers at random by the given share; at least one trains."""
    nodes = np.random.default_rng(seed).permutation(np.flatnonzero(dataset.y >= 0))
    n_test = min(round(test * len(nodes)), len(nodes) - 1)
    return replace(dataset, train=nodes[n_test:], test=nodes[:n_test])
