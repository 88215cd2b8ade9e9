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
from ..estimators.regressor import GPCARegressor
from ..estimators.serialization import load_model, save_model
from ..files import write_predictions
from ..files.categories import categories_of_features
from .classification_report import ClassificationReport
from .console import Console
from .feature_names import store_feature_names
from .holdout import check_labelled
from .memory import choose_memory_limit
from .method_options import ClassifySettings, HoldOutSettings
from .metrics import CLASS_METRICS, check_metric, scores
from .networks import is_network_file, load_network, predict_by_network
from .new_nodes import load_for_model
from .option_groups import given_options, option_names
from .options import Input
from .output_options import ModelFiles

HELD_OUT_NODES = "nodes with held-out labels"


def run(
    console: Console,
    data: Input,
    settings: ClassifySettings,
    held_out: HoldOutSettings,
    metric: str,
    files: ModelFiles,
) -> None:
    check_metric(metric, CLASS_METRICS)
    parameters = given_options(settings)
    given = [option_names(ClassifySettings)[name] for name in parameters]
    given += [option_names(HoldOutSettings)[name] for name in given_options(held_out)]
    files.check_model_files(data, given)
    test_share = held_out.checked_share()
    if files.model is not None:
        _apply_saved_model(console, data, metric, files, files.model)
        return
    parameters["memory_limit"] = files.memory_limit
    parameters["keep_training_nodes"] = files.keep_training_nodes
    model = GPCAClassifier(**parameters)
    model.check_parameters()

    dataset = data.load(console)
    parameters["memory_limit"] = choose_memory_limit(console, model, dataset)
    check_labelled(dataset)
    split = dataset
    if not dataset.has_split:
        split = hold_out(dataset, held_out.seed or 0, test=test_share)
    model, report = _fit_and_evaluate(console, split, parameters, metric)
    if report is not None and not dataset.has_split and files.written:
        # The split was only for the report: results use all labels.
        with console.phase("fitting on all labels"):
            everything = np.flatnonzero(dataset.y >= 0)
            model = _fit(replace(dataset, train=everything), parameters)
    store_feature_names(model, dataset)
    with console.phase("writing"):
        _write(data, dataset, files, model.classes_, model.label_distributions_)
        if files.save_model is not None:
            save_model(model, files.save_model, overwrite=files.force)
    labels = "" if dataset.has_split else ", fitted on all labels"
    _show(console, dataset, files, report, _selected(model), f"written{labels}")


def _apply_saved_model(
    console: Console, data: Input, metric: str, files: ModelFiles, path: Path
) -> None:
    """Predict by a saved GPCAClassifier or network."""
    if is_network_file(path):
        if files.memory_limit is not None:
            raise InputError(f"--memory-limit is for GPCA; leave it out for the network {path}")
        network = load_network(path)
        names = () if network.feature_names is None else network.feature_names
        dataset = data.load(console, categories=categories_of_features(names))
        classes, probabilities = predict_by_network(network, dataset, console)
        details: dict[str, Any] = {"network": network.notes}
    else:
        model = load_model(path)
        if not isinstance(model, GPCAClassifier):
            command = "regress" if isinstance(model, GPCARegressor) else "embed"
            raise InputError(f"{path} is a {type(model).__name__}; use gpcanet {command}")
        estimators: list[Any] = [model, *model.gpca_]
        for estimator in estimators:
            estimator.set_params(memory_limit=files.memory_limit)
        model.check_parameters()
        dataset, X, place = load_for_model(model, data, console)
        with console.phase("predicting"):
            probabilities = model.predict_proba(X, **place)
        classes, details = model.classes_, _selected(model)
    nodes = dataset.test if len(dataset.test) else np.flatnonzero(dataset.y >= 0)
    description = "labelled nodes, which may include training nodes of the model"
    report = _evaluate(dataset, classes, probabilities, nodes, description, metric)
    with console.phase("writing"):
        _write(data, dataset, files, classes, probabilities)
    _show(console, dataset, files, report, details, "written")


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
        write_predictions(
            files.output, dataset.graph, classes, probabilities,
            id_name=data.id_name, overwrite=files.force,
            source=data.files["features"],
        )  # fmt: skip


def _show(
    console: Console,
    dataset: Dataset,
    files: ModelFiles,
    report: ClassificationReport | None,
    details: dict[str, Any],
    verb: str,
) -> None:
    values = {
        "nodes": dataset.graph.n_nodes,
        "edges": dataset.graph.n_edges,
        "features": dataset.X.shape[1],
        "labelled": int(np.sum(dataset.y >= 0)),
        "report": None if report is None else report.values(),
        **details,
        "notes": list(dataset.notes),
        "seconds": console.seconds,
        "written": files.written,
    }
    written = f"{verb}: {', '.join(files.written)} " if files.written else ""
    ending = f"\n{written}({sum(console.seconds.values()):.1f} s)"
    console.result(values, *([] if report is None else [report.to_table()]), ending)


def _fit_and_evaluate(
    console: Console, dataset: Dataset, parameters: dict[str, Any], metric: str
) -> tuple[GPCAClassifier, ClassificationReport | None]:
    if not len(dataset.train):
        raise InputError(
            "the split has no labelled training node; mark some as train, or leave that column out "
            "with --ignore"
        )
    with console.phase("fitting"):
        model = _fit(dataset, parameters)
    probabilities = model.label_distributions_
    report = _evaluate(dataset, model.classes_, probabilities, dataset.test, HELD_OUT_NODES, metric)
    if report is None:
        console.note("no report: no labels were held out")
    return model, report


def _fit(dataset: Dataset, parameters: dict[str, Any]) -> GPCAClassifier:
    y = _labels_by_name(dataset, dataset.visible_labels())
    validation = dataset.validation if len(dataset.validation) else None
    model = GPCAClassifier(**parameters)
    return model.fit(dataset.X, y, graph=dataset.graph, validation=validation)


def _labels_by_name(dataset: Dataset, codes: np.ndarray) -> np.ndarray:
    """Class names instead of codes, so that they become the ``classes_`` of a saved model."""
    if dataset.class_names is None or dataset.class_names.dtype.kind in "iu":
        names = np.arange(dataset.n_classes) if dataset.class_names is None else dataset.class_names
        return np.where(codes >= 0, names[codes], -1)
    y = np.full(len(codes), None, object)
    y[codes >= 0] = dataset.class_names[codes[codes >= 0]]
    return y


def _evaluate(
    dataset: Dataset,
    classes: np.ndarray,
    probabilities: np.ndarray,
    nodes: np.ndarray,
    description: str,
    metric: str,
) -> ClassificationReport | None:
    """Compare predictions with the labels of some nodes; None without nodes."""
    if len(nodes) == 0:
        return None
    codes = {name: code for code, name in enumerate(classes.tolist())}
    names = _labels_by_name(dataset, dataset.y)[nodes].tolist()
    for name in sorted(set(names) - set(codes), key=str):  # classes that the model does not know
        codes[name] = len(codes)
    truth = np.array([codes[name] for name in names])
    # Classes that the model does not know have probability 0.
    known = np.zeros((len(nodes), len(codes)))
    known[:, : len(classes)] = probabilities[nodes]
    predicted = known.argmax(axis=1)
    names = [str(name) for name in codes]
    return ClassificationReport(
        names,
        truth,
        predicted,
        description,
        confidence=known.max(axis=1),
        metric=metric,
        scores=scores(CLASS_METRICS, truth, known),
    )
