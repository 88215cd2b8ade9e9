"""What commands with a model share: memory, saving, results."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, TypeVar

import numpy as np

from ..datasets import Dataset
from ..errors import InputError
from ..estimators.classifier import GPCAClassifier
from ..estimators.gpca import GPCA
from ..estimators.memory_estimate import memory_note, necessary_limit
from ..estimators.regressor import GPCARegressor
from ..estimators.serialization import Estimator, save_model
from .console import Console
from .output_options import ModelFiles, OutputFiles
from .reports import ClassificationReport, RegressionReport

#: An estimator of the command.
Model = TypeVar("Model", bound=GPCA | GPCAClassifier | GPCARegressor)


def new_estimator(kind: type[Model], given: dict[str, Any], files: ModelFiles) -> Model:
    """An estimator with the settings of the user, not fitted; raise if one of them is wrong."""
    model: Any = kind(
        **given, memory_limit=files.memory_limit, keep_training_nodes=files.keep_training_nodes
    )
    model.check_parameters()
    return model


def save_estimator(model: Estimator, dataset: Dataset, files: ModelFiles) -> None:
    """Save a model if the user wants it, with scikit-learn's attribute for names of features."""
    if dataset.feature_names is not None:
        model.feature_names_in_ = dataset.feature_names
    if files.save_model is not None:
        save_model(model, files.save_model, overwrite=files.force)


def check_labelled(dataset: Dataset) -> None:
    if not np.any(dataset.y >= 0):
        raise InputError(
            "no node has a label; give --labels, or name a column of the features by --label"
        )


def choose_memory_limit(
    console: Console, model: GPCA | GPCAClassifier | GPCARegressor, dataset: Dataset
) -> int | str | None:
    """The memory limit of the user, or one that the free memory requires, with a note."""
    n_labeled = int(np.sum(dataset.y >= 0))
    limit = necessary_limit(model, dataset.graph, dataset.X, n_labeled)
    if limit is None:
        console.note(memory_note(model, dataset.graph, dataset.X, n_labeled))
        return model.memory_limit
    console.note(
        f"the free memory is too small for a fit in one piece: memory is limited to "
        f"{limit / 2**20:,.0f} MiB beyond graph and features; --memory-limit sets another limit"
    )
    return limit


def graph_values(dataset: Dataset) -> dict[str, int]:
    """Sizes of a dataset for the JSON output."""
    sizes = {"nodes": dataset.graph.n_nodes, "edges": dataset.graph.n_edges}
    return {**sizes, "features": dataset.X.shape[1], "labelled": int(np.sum(dataset.y >= 0))}


def show_embedding(
    console: Console, files: ModelFiles, model: GPCA, sizes: dict[str, int], notes: Iterable[str]
) -> None:
    """Print the sizes of the data, the accuracy of the fit, and what was written."""
    fit_results: dict[str, float] = {}
    if files.model is None:
        fit_results = {"iterations": int(model.n_iter_)}
        if not math.isnan(model.residual_):  # NaN for a fixed number of iterations
            fit_results |= {"residual": model.residual_, "objective": model.objective_}
    k = model.n_components_
    console.result(
        {
            **sizes,
            "components": k,
            "alpha": float(model.alpha),
            "beta": float(model.beta),
            **fit_results,
            "notes": list(notes),
            "seconds": console.seconds,
            "written": files.written,
        },
        f"{sizes['nodes']:,} nodes in {k} dimensions: {', '.join(files.written)}"
        f" ({sum(console.seconds.values()):.1f} s)",
    )


def show_report(
    console: Console,
    dataset: Dataset,
    files: OutputFiles,
    report: ClassificationReport | RegressionReport | None,
    values: dict[str, Any],
    verb: str = "written",
) -> None:
    """Print the report and what was written; ``values`` are the others of the JSON output."""
    written = f"{verb}: {', '.join(files.written)} " if files.written else ""
    console.result(
        {
            **values,
            "report": None if report is None else report.values(),
            "notes": list(dataset.notes),
            "seconds": console.seconds,
            "written": files.written,
        },
        *([] if report is None else [report.to_table()]),
        f"\n{written}({sum(console.seconds.values()):.1f} s)",
    )
