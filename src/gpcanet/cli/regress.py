"""The command ``gpcanet regress``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ..datasets import Dataset
from ..errors import InputError
from ..estimators.regressor import GPCARegressor
from ..estimators.serialization import load_model, save_model
from ..files import write_values
from .console import Console
from .feature_names import store_feature_names
from .holdout import check_labelled, hold_out_values
from .memory import choose_memory_limit
from .method_options import HoldOutSettings, RegressSettings
from .metrics import NUMBER_METRICS, check_metric
from .networks import is_network_file
from .new_nodes import load_for_model
from .option_groups import given_options, option_names
from .options import Input
from .output_options import ModelFiles
from .regression_report import RegressionReport

HELD_OUT_NODES = "nodes with held-out values"


def run(
    console: Console,
    data: Input,
    settings: RegressSettings,
    held_out: HoldOutSettings,
    metric: str,
    files: ModelFiles,
) -> None:
    check_metric(metric, NUMBER_METRICS)
    parameters = given_options(settings)
    given = [option_names(RegressSettings)[name] for name in parameters]
    given += [option_names(HoldOutSettings)[name] for name in given_options(held_out)]
    files.check_model_files(data, given)
    test_share = held_out.checked_share()
    if files.model is not None:
        _apply_saved_model(console, data, metric, files, files.model)
        return
    parameters["memory_limit"] = files.memory_limit
    parameters["keep_training_nodes"] = files.keep_training_nodes
    model = GPCARegressor(**parameters)
    model.check_parameters()

    dataset = data.load(console, numeric_labels=True)
    _check_numbers(dataset)
    check_labelled(dataset)
    model.set_params(memory_limit=choose_memory_limit(console, model, dataset))
    split = dataset
    if not dataset.has_split:
        split = hold_out_values(dataset, held_out.seed or 0, test=test_share)
    known = np.concatenate([split.train, split.validation])
    if not len(known):
        raise InputError(
            "the split has no training node with a value; mark some as train, or leave that column "
            "out with --ignore"
        )
    targets = _targets(dataset)
    with console.phase("fitting"):
        _fit(model, dataset, targets, known)
    report = None
    if len(split.test):
        truth, predicted = targets[split.test], model.fitted_values_[split.test]
        mean = float(np.mean(targets[known]))
        report = RegressionReport(truth, predicted, mean, HELD_OUT_NODES, metric)
    else:
        console.note("no report: no values were held out")
    if report is not None and not dataset.has_split and files.written:
        # The split was only for the report: results use all values.
        with console.phase("fitting on all values"):
            _fit(model, dataset, targets, np.flatnonzero(dataset.y >= 0))
    store_feature_names(model, dataset)
    with console.phase("writing"):
        _write(data, dataset, files, model.fitted_values_)
        if files.save_model is not None:
            save_model(model, files.save_model, overwrite=files.force)
    note = "" if dataset.has_split else ", fitted on all values"
    _show(console, dataset, files, report, model, f"written{note}")


def _check_numbers(dataset: Dataset) -> None:
    if dataset.class_names is not None and dataset.class_names.dtype.kind != "f":
        raise InputError(f"{dataset.name} has classes, not numbers; use gpcanet classify")


def _targets(dataset: Dataset) -> np.ndarray:
    targets = dataset.targets
    return np.full(dataset.graph.n_nodes, np.nan) if targets is None else targets


def _fit(model: GPCARegressor, dataset: Dataset, targets: np.ndarray, known: np.ndarray) -> None:
    y = np.full(len(targets), np.nan)
    y[known] = targets[known]
    model.fit(dataset.X, y, graph=dataset.graph)


def _apply_saved_model(
    console: Console, data: Input, metric: str, files: ModelFiles, path: Path
) -> None:
    if is_network_file(path):
        raise InputError(f"{path} is a network; use gpcanet classify")
    model = load_model(path)
    if not isinstance(model, GPCARegressor):
        command = "embed" if type(model).__name__ == "GPCA" else "classify"
        raise InputError(f"{path} is a {type(model).__name__}; use gpcanet {command}")
    estimators: list[Any] = [model, *(gpca for gpca in model.gpca_ if gpca is not None)]
    for estimator in estimators:
        estimator.set_params(memory_limit=files.memory_limit)
    model.check_parameters()
    dataset, X, place = load_for_model(model, data, console, numeric_labels=True)
    _check_numbers(dataset)
    with console.phase("predicting"):
        predicted = model.predict(X, **place)
    targets = _targets(dataset)
    nodes = dataset.test if len(dataset.test) else np.flatnonzero(dataset.y >= 0)
    report = None
    if len(nodes):
        description = "nodes with values, which may include training nodes of the model"
        mean = float(np.mean(targets[nodes]))
        report = RegressionReport(targets[nodes], predicted[nodes], mean, description, metric)
    with console.phase("writing"):
        _write(data, dataset, files, predicted)
    _show(console, dataset, files, report, model, "written")


def _write(data: Input, dataset: Dataset, files: ModelFiles, predicted: np.ndarray) -> None:
    if files.output is not None:
        write_values(
            files.output,
            dataset.graph,
            predicted,
            id_name=data.id_name,
            overwrite=files.force,
            source=data.files["features"],
        )


def _show(
    console: Console,
    dataset: Dataset,
    files: ModelFiles,
    report: RegressionReport | None,
    model: GPCARegressor,
    verb: str,
) -> None:
    kinds = [scaling.kind for scaling in model.feature_scalings_]
    members = [
        {"feature_scaling": kind, "alpha": alpha, "weight": float(weight)}
        for kind, alpha, weight in zip(kinds, model.alphas_, model.weights_[:, 0], strict=True)
    ]
    values = {
        "nodes": dataset.graph.n_nodes,
        "edges": dataset.graph.n_edges,
        "features": dataset.X.shape[1],
        "labelled": int(np.sum(dataset.y >= 0)),
        "report": None if report is None else report.values(),
        "selected": {
            "members": members,
            "boosting": model.boosting_,
            "propagate_residuals": model.propagate_residuals_,
        },
        "notes": list(dataset.notes),
        "seconds": console.seconds,
        "written": files.written,
    }
    written = f"{verb}: {', '.join(files.written)} " if files.written else ""
    ending = f"\n{written}({sum(console.seconds.values()):.1f} s)"
    console.result(values, *([] if report is None else [report.to_table()]), ending)
