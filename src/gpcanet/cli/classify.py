"""The command ``gpcanet classify``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ..datasets import Dataset
from ..datasets.splits import hold_out
from ..errors import InputError
from ..estimators.classifier import GPCAClassifier
from ..files import write_predictions
from ..files.categories import categories_of_features
from ..utils.checks import check_choice
from .console import Console
from .method_options import ClassifySettings, HoldOutSettings
from .models import (
    check_labelled,
    choose_memory_limit,
    graph_values,
    new_estimator,
    save_estimator,
    show_report,
)
from .option_groups import given_names, given_options
from .options import Input
from .output_options import ModelFiles
from .reports import CLASS_METRICS, ClassificationReport
from .saved_models import (
    evaluated_nodes,
    is_network_file,
    load_estimator,
    load_for_model,
    load_network,
    predict_by_network,
)

HELD_OUT_NODES = "nodes with held-out labels"


def run(
    console: Console,
    data: Input,
    settings: ClassifySettings,
    held_out: HoldOutSettings,
    metric: str,
    files: ModelFiles,
) -> None:
    check_choice("metric", metric, tuple(CLASS_METRICS))
    files.check_model_files(data, given_names(settings, held_out))
    test_share = held_out.checked_share()
    if files.model is not None:
        _apply_saved_model(console, data, metric, files, files.model)
        return
    model = new_estimator(GPCAClassifier, given_options(settings), files)
    dataset = data.load(console)
    model.set_params(memory_limit=choose_memory_limit(console, model, dataset))
    check_labelled(dataset)
    split = dataset
    if not dataset.has_split:
        split = hold_out(dataset, held_out.seed or 0, test=test_share)
    if not len(split.train):
        raise InputError(
            "the split has no labelled training node; mark some as train, or leave that column out "
            "with --ignore"
        )
    with console.phase("fitting"):
        _fit(model, split)
    probabilities = model.label_distributions_
    report = _evaluate(
        console, split, model.classes_, probabilities, split.test, HELD_OUT_NODES, metric
    )
    if len(split.test) == 0:
        console.note("no report: no labels were held out")
    elif not dataset.has_split and files.written:
        # The split was only for the report: results use all labels.
        with console.phase("fitting on all labels"):
            everything = np.flatnonzero(dataset.y >= 0)
            _fit(model, replace(dataset, train=everything))
    with console.phase("writing"):
        _write(data, dataset, files, model.classes_, model.label_distributions_)
        save_estimator(model, dataset, files)
    verb = "written" if dataset.has_split else "written, fitted on all labels"
    show_report(console, dataset, files, report, graph_values(dataset) | _selected(model), verb)


def _apply_saved_model(
    console: Console, data: Input, metric: str, files: ModelFiles, path: Path
) -> None:
    """Predict by a saved GPCAClassifier or network."""
    if is_network_file(path):
        if files.memory_limit is not None:
            raise InputError(f"--memory-limit is for GPCA; leave it out for the network {path}")
        network = load_network(path)
        categories = categories_of_features(network.feature_names)
        dataset = data.load(console, categories=categories)
        classes, probabilities = predict_by_network(network, dataset, console)
        training = None
        details: dict[str, Any] = {"network": network.notes}
    else:
        model = load_estimator(path, GPCAClassifier, files.memory_limit)
        dataset, X, place = load_for_model(model, data, console)
        with console.phase("predicting"):
            probabilities = model.predict_proba(X, **place)
        classes, details, training = model.classes_, _selected(model), model.training_nodes_
    nodes, description = evaluated_nodes(dataset, "labelled nodes", training)
    report = _evaluate(console, dataset, classes, probabilities, nodes, description, metric)
    with console.phase("writing"):
        _write(data, dataset, files, classes, probabilities)
    show_report(console, dataset, files, report, graph_values(dataset) | details)


def _selected(model: GPCAClassifier) -> dict[str, Any]:
    """Settings that the classifier has chosen, for the JSON output."""
    return {
        "selected": {
            "members": model.selected_,
            "used": list(model.used_),
            "temperature": model.temperature_,
        }
    }


def _write(
    data: Input,
    dataset: Dataset,
    files: ModelFiles,
    classes: np.ndarray,
    probabilities: np.ndarray,
) -> None:
    if files.output is not None:
        how = files.result_options(data)
        write_predictions(files.output, dataset.graph, classes, probabilities, **how)


def _fit(model: GPCAClassifier, dataset: Dataset) -> None:
    y = _labels_by_name(dataset, dataset.visible_labels())
    validation = dataset.validation if len(dataset.validation) else None
    model.fit(dataset.X, y, graph=dataset.graph, validation=validation)


def _labels_by_name(dataset: Dataset, codes: np.ndarray) -> np.ndarray:
    """Class names instead of codes, so that they become the ``classes_`` of a saved model."""
    if dataset.class_names is None or dataset.class_names.dtype.kind in "iu":
        names = np.arange(dataset.n_classes) if dataset.class_names is None else dataset.class_names
        return np.where(codes >= 0, names[codes], -1)
    y = np.full(len(codes), None, object)
    y[codes >= 0] = dataset.class_names[codes[codes >= 0]]
    return y


def _evaluate(
    console: Console,
    dataset: Dataset,
    classes: np.ndarray,
    probabilities: np.ndarray,
    nodes: np.ndarray,
    description: str,
    metric: str,
) -> ClassificationReport | None:
    """Compare predictions with the labels of some nodes; None if there are none."""
    if len(nodes) == 0:
        return None
    codes = {name: code for code, name in enumerate(classes.tolist())}
    names = _labels_by_name(dataset, dataset.y)[nodes].tolist()
    if set(names).isdisjoint(codes):  # of another type, such as the text "1" and the number 1
        codes = {str(name): code for name, code in codes.items()}
        names = [str(name) for name in names]
        if set(names).isdisjoint(codes):
            console.note(
                f"no report: no label, such as {names[0]!r}, is a class of the model, such as "
                f"{next(iter(codes))!r}"
            )
            return None
    for name in sorted(set(names) - set(codes), key=str):  # classes that the model does not know
        codes[name] = len(codes)
    truth = np.array([codes[name] for name in names])
    # Classes that the model does not know have probability 0.
    known = np.zeros((len(nodes), len(codes)))
    known[:, : len(classes)] = probabilities[nodes]
    return ClassificationReport([str(name) for name in codes], truth, known, description, metric)
