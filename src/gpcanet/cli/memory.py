"""Memory of a fit: what it takes, and a limit if the machine or the container has less."""

from __future__ import annotations

import numpy as np

from ..datasets import Dataset
from ..estimators.classifier import GPCAClassifier
from ..estimators.gpca import GPCA
from ..estimators.memory_estimate import memory_note, necessary_limit
from ..estimators.regressor import GPCARegressor
from .console import Console


def choose_memory_limit(
    console: Console, model: GPCA | GPCAClassifier | GPCARegressor, dataset: Dataset
) -> int | str | None:
    """The memory limit of the user, or one that the free memory requires, with a note."""
    n_labeled = int(np.sum(dataset.y >= 0))
    limit = necessary_limit(model, dataset.graph, dataset.X, n_labeled)
    if limit is None:
        console.note(memory_note(model, dataset.graph, dataset.X, n_labeled))
        return model.memory_limit
    console.note(
        f"the free memory is too small for a fit in one piece: memory is limited to "
        f"{limit / 2**20:,.0f} MiB beyond graph and features; --memory-limit sets another limit"
    )
    return limit
