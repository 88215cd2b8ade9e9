"""Missing features of files, filled in from the neighbours of their nodes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..datasets import Dataset
from ..errors import InputError
from ..estimators.imputer import GraphImputer
from ..graph.assembly import count_of


def fill_missing(dataset: Dataset) -> Dataset:
    """The dataset with its missing features filled in, and a note on how many."""
    X: Any = dataset.X
    if not np.isnan(X.data if sp.issparse(X) else X).any():
        return replace(dataset, notes=(*dataset.notes, "no feature is missing"))
    if not sp.issparse(X):
        for column in np.flatnonzero(np.isnan(X).all(axis=0)):
            names = dataset.feature_names
            name = int(column) if names is None else names[column]
            raise InputError(
                f"{dataset.name}: column {name!r} has no number at all; leave it out with --ignore"
            )
    imputer = GraphImputer()
    filled = imputer.fit_transform(X, graph=dataset.graph)
    note = f"{count_of(imputer.n_missing_, 'missing feature')} filled in from neighbours"
    if imputer.n_unreachable_:
        note += (
            f", {imputer.n_unreachable_:,} of them by the mean of their column, since no node of "
            f"their component has a value"
        )
    return replace(dataset, X=filled, notes=(*dataset.notes, note))
