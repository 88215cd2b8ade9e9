"""Features in different units: a note on their variances, and the option --standardize."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..datasets import Dataset
from ..errors import InputError
from ..estimators.feature_scaler import FeatureScaler
from ..graph.neighbors import neighbor_graph
from ..linalg.features import extreme_exponent, row_chunks, times_power_of_two
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
    X: Any = times_power_of_two(dataset.X, -extreme_exponent(dataset.X, np.float64))
    variances = column_variances(X)
    graph = dataset.graph
    if scaling.standardize:
        deviations = np.sqrt(np.where(variances > 0, variances, 1.0))
        X = FeatureScaler("standard", 1 / deviations).transform(X)
        note: str | None = "columns of features are scaled to unit variance"
        if data.neighbors is not None:
            graph = neighbor_graph(X, data.neighbors, node_ids=graph.node_ids)
            note = f"{note} before neighbours are found: {graph.summary()}"
    else:
        X, note = dataset.X, _variance_note(dataset, variances)
    if note is None:
        return dataset
    console.note(note)
    return replace(dataset, X=X, graph=graph, notes=(*dataset.notes, note))


def column_variances(X: Any) -> np.ndarray:
    """Variances of the columns of a dense or sparse X, in float64; exactly 0 for constants."""
    n, d = X.shape
    if sp.issparse(X):
        mean = np.bincount(X.indices, weights=X.data, minlength=d) / n
        squares = np.bincount(X.indices, (X.data - mean[X.indices]) ** 2, d)
        squares += (n - np.bincount(X.indices, minlength=d)) * mean**2
    else:
        mean = X.mean(axis=0, dtype=np.float64)
        squares = np.zeros(d)
        for rows in row_chunks(n, d, np.float64):
            squares += ((X[rows] - mean) ** 2).sum(axis=0)
    rounding = (n * np.finfo(np.float64).eps * mean) ** 2
    return np.where(squares / n > rounding, squares / n, 0.0)


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
