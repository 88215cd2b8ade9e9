"""New nodes with edges to the training nodes of a saved model."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..datasets import Dataset
from ..errors import InputError, UnknownNodeError
from ..estimators.serialization import Estimator
from ..files.categories import categories_of_features
from .console import Console
from .feature_names import select_features
from .missing_features import fill_new_nodes
from .options import Input


def load_for_model(
    model: Estimator, data: Input, console: Console, *, numeric_labels: bool = False
) -> tuple[Dataset, Any, dict[str, Any]]:
    """The dataset, X with the columns of the model, and graph and nodes to apply it to.

    If the model has kept its training nodes, the edges may name them.
    """
    training = model.training_nodes_
    if training is not None and training.X is None:
        training = None
    try:
        known = None if training is None else training.graph
        categories = categories_of_features(getattr(model, "feature_names_in_", ()))
        dataset = data.load(console, known, numeric_labels=numeric_labels, categories=categories)
    except InputError as error:
        if training is not None or not isinstance(error.__cause__, UnknownNodeError):
            raise
        raise InputError(
            f"{error}; if it is a training node, save the model with --keep-training-nodes"
        ) from error
    X = select_features(model, dataset, console)
    place: dict[str, Any] = {"graph": dataset.graph, "nodes": None}
    if dataset.neighborhood is not None:
        place = {"graph": dataset.neighborhood, "nodes": np.arange(dataset.graph.n_nodes)}
    if data.impute and training is not None:
        with console.phase("filling in missing features"):
            X = fill_new_nodes(X, training, console, **place)
    return dataset, X, place
