"""The command ``gpcanet regress``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ..datasets import Dataset
from ..errors import InputError
from ..estimators.regressor import GPCARegressor
from ..files import write_values
from ..utils.checks import check_choice
from .console import Console
from .method_options import HoldOutSettings, RegressSettings
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
from .reports import NUMBER_METRICS, RegressionReport
from .saved_models import evaluated_nodes, load_estimator, load_for_model

HELD_OUT_NODES = "nodes with held-out values"


def run(
    console: Console,
    data: Input,
    settings: RegressSettings,
    held_out: HoldOutSettings,
    metric: str,
    files: ModelFiles,
) -> None:
    check_choice("metric", metric, tuple(NUMBER_METRICS))
    files.check_model_files(data, given_names(settings, held_out))
    test_share = held_out.checked_share()
    if files.model is not None:
        _apply_saved_model(console, data, metric, files, files.model)
        return
    model = new_estimator(GPCARegressor, given_options(settings), files)
    dataset = data.load(console, numeric_labels=True)
    _check_numbers(dataset)
    check_labelled(dataset)
    model.set_params(memory_limit=choose_memory_limit(console, model, dataset))
    split = dataset
    if not dataset.has_split:
        split = _hold_out(dataset, held_out.seed or 0, test=test_share)
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
    with console.phase("writing"):
        _write(data, dataset, files, model.fitted_values_)
        save_estimator(model, dataset, files)
    verb = "written" if dataset.has_split else "written, fitted on all values"
    show_report(console, dataset, files, report, graph_values(dataset) | _selected(model), verb)


def _hold_out(dataset: Dataset, seed: int, *, test: float) -> Dataset:
    """Split the nodes with known numbers at random by the given share; at least one trains."""
    nodes = np.random.default_rng(seed).permutation(np.flatnonzero(dataset.y >= 0))
    n_test = min(round(test * len(nodes)), len(nodes) - 1)
    return replace(dataset, train=nodes[n_test:], test=nodes[:n_test])


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
    model = load_estimator(path, GPCARegressor, files.memory_limit)
    dataset, X, place = load_for_model(model, data, console, numeric_labels=True)
    _check_numbers(dataset)
    with console.phase("predicting"):
        predicted = model.predict(X, **place)
    targets = _targets(dataset)
    nodes, description = evaluated_nodes(dataset, "nodes with values", model.training_nodes_)
    report = None
    if len(nodes):
        mean = float(np.mean(targets[nodes]))
        report = RegressionReport(targets[nodes], predicted[nodes], mean, description, metric)
    with console.phase("writing"):
        _write(data, dataset, files, predicted)
    show_report(console, dataset, files, report, graph_values(dataset) | _selected(model))


def _write(data: Input, dataset: Dataset, files: ModelFiles, predicted: np.ndarray) -> None:
    if files.output is not None:
        write_values(files.output, dataset.graph, predicted, **files.result_options(data))


def _selected(model: GPCARegressor) -> dict[str, Any]:
    """Settings that the regressor has chosen, for the JSON output."""
    kinds = [scaling.kind for scaling in model.feature_scalings_]
    members = [
        {"feature_scaling": kind, "alpha": alpha, "weight": float(weight)}
        for kind, alpha, weight in zip(kinds, model.alphas_, model.weights_[:, 0], strict=True)
    ]
    residuals = {"propagate_residuals": model.propagate_residuals_}
    return {"selected": {"members": members, "boosting": model.boosting_, **residuals}}
