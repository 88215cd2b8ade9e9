"""Features in different units: a note on their variances, and the option --standardize."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from ..datasets import Dataset
from ..errors import InputError
from ..estimators.feature_scaler import FeatureScaler
from ..graph.neighbors import neighbor_graph
from ..linalg import column_variances, extreme_exponent, times_power_of_two
from .console import Console
from .method_options import Scaling
from .options import Input
from .output_options import OutputFiles

#: Share of the variance above which a single column decides the embedding.
LARGEST_SHARE = 0.99


def check_scaling(scaling: Scaling, files: OutputFiles) -> None:
    """Raise if features are to be scaled for a model that would be saved without the scaling."""
    if scaling.standardize and files.save_model is not None:
        raise InputError(
            "--standardize and --save-model exclude each other, because a saved model does not "
            "scale new data; scale the table first, or use a pipeline of scikit-learn in Python"
        )


def scale_features(console: Console, data: Input, dataset: Dataset, scaling: Scaling) -> Dataset:
    """The dataset with columns of unit variance, or with a note if one column has nearly all."""
    # Squares of very large and very small numbers leave the range of floats.
    X: Any = times_power_of_two(dataset.X, -extreme_exponent(dataset.X, np.float64))
    graph = dataset.graph
    if scaling.standardize:
        X = FeatureScaler("standard").fit(X).transform(X)
        note: str | None = "columns of features are scaled to unit variance"
        if data.neighbors is not None:
            graph = neighbor_graph(X, data.neighbors, node_ids=graph.node_ids)
            note = f"{note} before neighbours are found: {graph.summary()}"
    else:
        X, note = dataset.X, _variance_note(dataset, column_variances(X))
    if note is None:
        return dataset
    console.note(note)
    return replace(dataset, X=X, graph=graph, notes=(*dataset.notes, note))


def _variance_note(dataset: Dataset, variances: np.ndarray) -> str | None:
    """A sentence if one column has nearly all of the variance, and others have some."""
    column = int(variances.argmax())
    others = np.delete(variances, column).sum()
    share = variances[column] / (variances[column] + others) if others > 0 else 0.0
    if share <= LARGEST_SHARE:
        return None
    name = column if dataset.feature_names is None else repr(dataset.feature_names[column])
    percent = math.floor(1e4 * share) / 100  # 100 would be false
    return (
        f"column {name} has {percent:.2f} % of the variance of all features; --standardize scales "
        f"all columns to unit variance"
    )
