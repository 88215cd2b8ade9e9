"""Features of a saved model, found by name in other files."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from ..datasets import Dataset
from ..errors import InputError
from ..estimators.serialization import Estimator
from .console import Console


def select_features(model: Estimator, dataset: Dataset, console: Console) -> Any:
    """X with the columns of the model, in the order of ``fit``."""
    # Removed from the model: scikit-learn would warn that an array has no feature names.
    fitted = getattr(model, "feature_names_in_", None)
    if fitted is not None:
        del model.feature_names_in_
    return select_columns(dataset, model.n_features_in_, fitted, console)


def select_columns(
    dataset: Dataset, n_features: int | None, names: np.ndarray | None, console: Console
) -> Any:
    """X with the columns of a model, found by name if both have feature names."""
    X: Any = dataset.X
    if names is None or dataset.feature_names is None:
        if X.shape[1] != n_features:
            raise InputError(
                f"{dataset.name} has {X.shape[1]} features, but the model was fitted with "
                f"{n_features}; give the same features"
            )
        console.note("features have no names: they are used in the order of the file")
        return X
    column = {name: i for i, name in enumerate(dataset.feature_names.tolist())}
    for name in names:
        if name not in column:
            raise InputError(
                f"{dataset.name} lacks the feature {name!r} that the model needs; add that column"
            )
    known = set(names.tolist())
    unknown = [name for name in column if name not in known]
    if unknown:
        raise InputError(
            f"{dataset.name} has a column {unknown[0]!r} that is not a feature of the model; leave "
            f"it out with --ignore"
        )
    order = np.array([column[name] for name in names])
    if np.array_equal(order, np.arange(X.shape[1])):
        return X
    # Row-major again, which gives the same bits as a file with its columns in the right order.
    return sp.csr_array(X[:, order]) if sp.issparse(X) else np.ascontiguousarray(X[:, order])
