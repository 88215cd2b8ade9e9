"""Saved models and networks, and the features and nodes to which they are applied."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from ..datasets import Dataset
from ..errors import InputError, UnknownNodeError
from ..estimators.classifier import GPCAClassifier
from ..estimators.gpca import GPCA
from ..estimators.regressor import GPCARegressor
from ..estimators.serialization import NETWORK, Estimator, load_model
from ..estimators.training_nodes import TrainingNodes
from ..files.categories import categories_of_features
from ..utils.tensor_file import stated_kind
from .console import Console
from .missing_features import fill_new_nodes
from .models import Model
from .options import Input

if TYPE_CHECKING:
    from ..nn import TrainedNetwork

#: The command that applies a saved model.
COMMANDS: dict[type, str] = {GPCA: "embed", GPCAClassifier: "classify", GPCARegressor: "regress"}


def is_network_file(path: Path) -> bool:
    return stated_kind(path) == NETWORK


def load_estimator(path: Path, kind: type[Model], memory_limit: str | None) -> Model:
    """A saved model of this kind, and its GPCAs, with the memory limit of the user."""
    if is_network_file(path):
        raise InputError(f"{path} is a network; use gpcanet classify")
    model: Any = load_model(path)
    if not isinstance(model, kind):
        command = COMMANDS.get(type(model))
        advice = "apply it in Python" if command is None else f"use gpcanet {command}"
        raise InputError(f"{path} is a {type(model).__name__}; {advice}")
    for estimator in (model, *getattr(model, "gpca_", ())):
        if estimator is not None:
            estimator.set_params(memory_limit=memory_limit)
    model.check_parameters()
    return model


# -- networks -----------------------------------------------------------------------------


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
        from ..nn import serialization
    return serialization.load_model(path)


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


# -- features and nodes -------------------------------------------------------------------


def load_for_model(
    model: Estimator, data: Input, console: Console, *, numeric_labels: bool = False
) -> tuple[Dataset, Any, dict[str, Any]]:
    """The dataset, X with the columns of the model, and graph and nodes to apply it to.

    If the model has kept its training nodes, the edges may name them.
    """
    training = model.training_nodes_
    if training is not None and training.X is None:
        training = None
    # Removed from the model: scikit-learn would warn that an array has no feature names.
    names = model.__dict__.pop("feature_names_in_", None)
    try:
        known = None if training is None else training.graph
        categories = categories_of_features(names)
        dataset = data.load(console, known, numeric_labels=numeric_labels, categories=categories)
    except UnknownNodeError as error:
        if training is None:
            error.hint += "; if it is a training node, save the model with --keep-training-nodes"
        raise
    X = select_columns(dataset, model.n_features_in_, names, console)
    place: dict[str, Any] = {"graph": dataset.graph, "nodes": None}
    if dataset.neighborhood is not None:
        place = {"graph": dataset.neighborhood, "nodes": np.arange(dataset.graph.n_nodes)}
    if data.impute and training is not None:
        with console.phase("filling in missing features"):
            X = fill_new_nodes(X, training, console, **place)
    return dataset, X, place


def evaluated_nodes(
    dataset: Dataset, noun: str, training: TrainingNodes | None = None
) -> tuple[np.ndarray, str]:
    """The nodes whose labels are compared with the predictions of a model, and their description.

    Without a split they may be nodes that the model was fitted on, unless it knows the ids of all.
    """
    if len(dataset.test):
        return dataset.test, "test nodes of the split"
    nodes = np.flatnonzero(dataset.y >= 0)
    own, known = dataset.graph.node_ids, None if training is None else training.graph.node_ids
    if own is not None and known is not None and set(known.tolist()).isdisjoint(own[nodes]):
        return nodes, noun
    return nodes, f"{noun}, which may include training nodes of the model"


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
    own = dataset.feature_names.tolist()
    if own == names.tolist():
        return X
    for given in (own, names.tolist()):
        name, n_columns = Counter(given).most_common(1)[0]
        if n_columns > 1:
            raise InputError(
                f"{dataset.name} has other features than the model, or in another order, and "
                f"{name!r} names {n_columns} of them; make the names unique"
            )
    column = {name: i for i, name in enumerate(own)}
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
    # Row-major again, which gives the same bits as a file with its columns in the right order.
    return sp.csr_array(X[:, order]) if sp.issparse(X) else np.ascontiguousarray(X[:, order])
