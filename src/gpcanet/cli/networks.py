"""Saved networks for ``classify``, and the error for missing packages."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..datasets import Dataset
from ..errors import InputError
from .console import Console
from .feature_names import select_columns

if TYPE_CHECKING:
    from ..nn import TrainedNetwork


@contextmanager
def explaining_missing_packages() -> Iterator[None]:
    """Raise an InputError that names the extra if a package for networks is not installed."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise InputError(
            f"{error.name} is not installed; install what networks need: pip install 'gpcanet[nn]'"
        ) from None


def load_network(path: Path) -> TrainedNetwork:
    with explaining_missing_packages():
        from ..nn.serialization import load_model
    return load_model(path)


def predict_by_network(
    network: TrainedNetwork, dataset: Dataset, console: Console
) -> tuple[np.ndarray, np.ndarray]:
    """Classes, and the probability of each for every node; features are matched as in ``fit``."""
    X = select_columns(dataset, network.n_features, network.feature_names, console)
    with console.phase("predicting"):
        probabilities = network.predict_proba(
            replace(dataset, X=X, feature_names=network.feature_names)
        )
    classes = network.classes
    return np.arange(probabilities.shape[1]) if classes is None else classes, probabilities
