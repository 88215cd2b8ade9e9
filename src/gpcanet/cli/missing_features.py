"""Missing features of files, filled in from the neighbours of their nodes: the option --impute."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..datasets import Dataset
from ..errors import InputError
from ..estimators.imputer import GraphImputer
from ..estimators.training_nodes import TrainingNodes
from ..graph.assembly import count_of
from .console import Console


def fill_missing(dataset: Dataset) -> Dataset:
    """The dataset with its missing features filled in, and a note on how many."""
    X: Any = dataset.X
    if count_missing(X) == 0:
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


def fill_new_nodes(X: Any, training: TrainingNodes, console: Console, **place: Any) -> Any:
    """X with its missing features filled in; training nodes are neighbours and give the means."""
    n_missing = count_missing(X)
    if n_missing == 0:
        console.note("no feature is missing")
        return X
    imputer = GraphImputer(keep_training_nodes=True)
    imputer.fit(training.X, graph=training.graph, nodes=training.nodes)
    console.note(f"{count_of(n_missing, 'missing feature')} filled in from neighbours")
    return imputer.transform(X, **place)


def count_missing(X: Any) -> int:
    return int(np.isnan(X.data if sp.issparse(X) else X).sum())
