"""A saved model meets other files: its features are found by name, not by place."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from ..datasets import Dataset
from ..errors import InputError
from ..estimators.classifier import GPCAClassifier
from ..estimators.gpca import GPCA
from .console import Console


def remember_columns(model: GPCA | GPCAClassifier, dataset: Dataset) -> None:
    """Have the model know the names of its features, as scikit-learn keeps them."""
    if dataset.feature_names is not None:
        model.feature_names_in_ = dataset.feature_names


def columns_as_learnt(model: GPCA | GPCAClassifier, dataset: Dataset, console: Console) -> Any:
    """X with the columns that the model has learnt from, in their order."""
    X: Any = dataset.X
    # Compared here, by name; scikit-learn would only warn that an array has no names.
    learnt = getattr(model, "feature_names_in_", None)
    if learnt is not None:
        del model.feature_names_in_
    if learnt is None or dataset.feature_names is None:
        if X.shape[1] != model.n_features_in_:
            raise InputError(
                f"{dataset.name} has {X.shape[1]} features, but the model has learnt from "
                f"{model.n_features_in_}"
            )
        console.note("features are taken in the order of the file: they have no names to go by")
        return X
    place = {name: i for i, name in enumerate(dataset.feature_names.tolist())}
    known = set(learnt.tolist())
    for name in learnt:
        if name not in place:
            raise InputError(f"{dataset.name} lacks the feature {name!r} that the model needs")
    for name in place:
        if name not in known:
            raise InputError(
                f"{dataset.name} has a column {name!r} that the model does not know; --ignore it"
            )
    order = np.array([place[name] for name in learnt])
    if np.array_equal(order, np.arange(X.shape[1])):
        return X
    # Laid out by rows again, which gives the same bits as the file in the right order.
    return sp.csr_array(X[:, order]) if sp.issparse(X) else np.ascontiguousarray(X[:, order])
