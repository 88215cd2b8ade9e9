"""The command ``gpcanet classify``."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ..datasets import Dataset
from ..errors import InputError
from ..estimators.classifier import GPCAClassifier
from ..estimators.memory_estimate import memory_note
from ..estimators.serialization import load_model, save_model
from ..files import write_predictions
from .classification_report import ClassificationReport
from .console import Console
from .feature_names import select_features, store_feature_names
from .holdout import check_labelled, hold_out
from .option_groups import given_options, option_names
from .options import ClassifySettings, HoldOutSettings, Input, ModelFiles

HELD_OUT_NODES = "nodes with held-out labels"


def run(
    console: Console,
    data: Input,
    settings: ClassifySettings,
    held_out: HoldOutSettings,
    files: ModelFiles,
) -> None:
    parameters = given_options(settings)
    given = [option_names(ClassifySettings)[name] for name in parameters]
    given += [option_names(HoldOutSettings)[name] for name in given_options(held_out)]
    files.check_model_files(data, given)
    test_share = 0.2 if held_out.test_share is None else held_out.test_share
    if not 0 <= test_share < 1:
        raise InputError(f"--test-share {test_share} must be at least 0 and less than 1")
    model = GPCAClassifier(**parameters) if files.model is None else load_model(files.model)
    if not isinstance(model, GPCAClassifier):
        raise InputError(f"{files.model} is a {type(model).__name__}; use gpcanet embed")
    parameters["memory_limit"] = files.memory_limit
    for estimator in (model, *getattr(model, "gpca_", ())):
        estimator.set_params(memory_limit=files.memory_limit)
    model.check_parameters()

    dataset = data.load(console)
    n_labelled = int(np.sum(dataset.y >= 0))
    if files.model is None:
        console.note(memory_note(model, dataset.graph, dataset.X, n_labelled))
        check_labelled(dataset)
        split = dataset
        if not dataset.has_split:
            split = hold_out(dataset, held_out.seed or 0, test=test_share)
        model, report = _fit_and_evaluate(console, split, parameters)
        if report is not None and not dataset.has_split and files.written:
            # The split was only for the report: results use all labels.
            with console.phase("fitting on all labels"):
                everything = np.flatnonzero(dataset.y >= 0)
                model = _fit(replace(dataset, train=everything), parameters)
        probabilities = model.label_distributions_
        store_feature_names(model, dataset)
    else:
        X = select_features(model, dataset, console)
        with console.phase("predicting"):
            probabilities = model.predict_proba(X, graph=dataset.graph)
        nodes = dataset.test if len(dataset.test) else np.flatnonzero(dataset.y >= 0)
        description = "labelled nodes, which may include training nodes of the model"
        report = _evaluate(dataset, model, probabilities, nodes, description)

    with console.phase("writing"):
        if files.output is not None:
            write_predictions(
                files.output, dataset.graph, model.classes_, probabilities,
                id_name=data.id_name, overwrite=files.force,
            )  # fmt: skip
        if files.save_model is not None:
            save_model(model, files.save_model, overwrite=files.force)
    values = {
        "nodes": dataset.graph.n_nodes,
        "edges": dataset.graph.n_edges,
        "features": dataset.X.shape[1],
        "labelled": n_labelled,
        "report": None if report is None else report.values(),
        "selected": {
            "alphas": list(model.alphas_),
            "feature_scaling": model.feature_scaling_,
            "normalize_embedding": model.normalize_embedding_,
            "C": model.C_,
            "correct_and_smooth": bool(model.correct_and_smooth_),
        },
        "notes": list(dataset.notes),
        "seconds": console.seconds,
        "written": files.written,
    }
    labels = "" if dataset.has_split or files.model else ", fitted on all labels"
    written = f"written{labels}: {', '.join(files.written)} " if files.written else ""
    ending = f"\n{written}({sum(console.seconds.values()):.1f} s)"
    console.result(values, *([] if report is None else [report.to_table()]), ending)


def _fit_and_evaluate(
    console: Console, dataset: Dataset, parameters: dict[str, Any]
) -> tuple[GPCAClassifier, ClassificationReport | None]:
    if not len(dataset.train):
        raise InputError(
            "the split has no labelled training node; mark some as train, or leave that column out "
            "with --ignore"
        )
    with console.phase("fitting"):
        model = _fit(dataset, parameters)
    probabilities = model.label_distributions_
    report = _evaluate(dataset, model, probabilities, dataset.test, HELD_OUT_NODES)
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
    model: GPCAClassifier,
    probabilities: np.ndarray,
    nodes: np.ndarray,
    description: str,
) -> ClassificationReport | None:
    """Compare predictions with the labels of some nodes; None without nodes."""
    if len(nodes) == 0:
        return None
    codes = {name: code for code, name in enumerate(model.classes_.tolist())}
    names = _labels_by_name(dataset, dataset.y)[nodes].tolist()
    for name in sorted(set(names) - set(codes), key=str):  # classes that the model does not know
        codes[name] = len(codes)
    truth = np.array([codes[name] for name in names])
    predicted = probabilities[nodes].argmax(axis=1)
    return ClassificationReport([str(name) for name in codes], truth, predicted, description)
