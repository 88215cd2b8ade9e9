"""gpcanet classify."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ..datasets import Dataset
from ..errors import InputError
from ..estimators.classifier import GPCAClassifier
from ..estimators.memory import memory_note
from ..estimators.serialization import load_model, save_model
from ..files import write_predictions
from .console import Console
from .learnt import columns_as_learnt, remember_columns
from .options import Input, Results
from .report import Report
from .splits import check_labelled, hold_out


def run(
    console: Console,
    data: Input,
    settings: dict[str, Any],
    results: Results,
    holding_out: dict[str, Any],
) -> None:
    results.check({**settings, **holding_out}, data)
    test_share, seed = holding_out.get("test_share", 0.2), holding_out.get("seed", 0)
    if not 0 <= test_share < 1:
        raise InputError(f"--test-share {test_share} must be at least 0 and less than 1")
    model = GPCAClassifier(**settings) if results.model is None else load_model(results.model)
    if not isinstance(model, GPCAClassifier):
        raise InputError(f"{results.model} is a {type(model).__name__}; use gpcanet embed")
    settings = {**settings, "memory_limit": results.memory_limit}
    for part in (model, *getattr(model, "gpca_", ())):
        part.set_params(memory_limit=results.memory_limit)
    model.check_parameters()

    dataset = data.load(console)
    n_labelled = int(np.sum(dataset.y >= 0))
    if results.model is None:
        console.note(memory_note(model, dataset.graph, dataset.X, n_labelled))
        model, report, probabilities = _learn(
            console, dataset, settings, test_share, seed, is_kept=bool(results.written)
        )
        remember_columns(model, dataset)
    else:
        X = columns_as_learnt(model, dataset, console)
        with console.phase("predicting"):
            probabilities = model.predict_proba(X, graph=dataset.graph)
        judged = dataset.test if len(dataset.test) else np.flatnonzero(dataset.y >= 0)
        who = "labelled nodes, which the model may have learnt from"
        report = _report(dataset, model, probabilities, judged, who)

    with console.phase("writing"):
        if results.output is not None:
            write_predictions(
                results.output, dataset.graph, model.classes_, probabilities,
                id_name=data.id_name, overwrite=results.force,
            )  # fmt: skip
        if results.save_model is not None:
            save_model(model, results.save_model, overwrite=results.force)
    values = {
        "nodes": dataset.graph.n_nodes,
        "edges": dataset.graph.n_edges,
        "features": dataset.X.shape[1],
        "labelled": n_labelled,
        "report": None if report is None else report.values(),
        "decided": {
            "alphas": list(model.alphas_),
            "feature_scaling": model.feature_scaling_,
            "normalize_embedding": model.normalize_embedding_,
            "C": model.C_,
            "correct_and_smooth": bool(model.correct_and_smooth_),
        },
        "notes": list(dataset.notes),
        "seconds": console.seconds,
        "written": results.written,
    }
    learnt = "" if dataset.has_split or results.model else ", having learnt from all labels"
    files = f"written{learnt}: {', '.join(results.written)} " if results.written else ""
    ending = f"\n{files}({sum(console.seconds.values()):.1f} s)"
    console.result(values, *([] if report is None else [report.show()]), ending)


def _learn(
    console: Console,
    dataset: Dataset,
    settings: dict[str, Any],
    test_share: float,
    seed: int,
    *,
    is_kept: bool,
) -> tuple[GPCAClassifier, Report | None, np.ndarray]:
    """A model, what labels kept back say of it, and the probabilities of every node."""
    check_labelled(dataset)
    has_split = dataset.has_split
    if has_split and not len(dataset.train):
        raise InputError("the split has no labelled node for train; mark some, or drop that column")
    if not has_split:
        dataset = hold_out(dataset, seed, test=test_share)
    with console.phase("learning"):
        model = _fit(dataset, settings)
    report = _report(
        dataset,
        model,
        model.label_distributions_,
        dataset.test,
        "nodes whose labels were kept back",
    )
    if report is None:
        console.note("no report: no label was kept back to judge by")
    if has_split or report is None or not is_kept:
        return model, report, model.label_distributions_
    # The split was only for the report: what is written and kept has learnt from every label.
    with console.phase("learning from all labels"):
        model = _fit(replace(dataset, train=np.flatnonzero(dataset.y >= 0)), settings)
    return model, report, model.label_distributions_


def _fit(dataset: Dataset, parameters: dict[str, Any]) -> GPCAClassifier:
    y = _named(dataset, dataset.visible_labels())
    validation = dataset.validation if len(dataset.validation) else None
    model = GPCAClassifier(**parameters)
    return model.fit(dataset.X, y, graph=dataset.graph, validation=validation)


def _named(dataset: Dataset, codes: np.ndarray) -> np.ndarray:
    """Labels as the user calls them, so that a saved model speaks of these."""
    if dataset.class_names is None or dataset.class_names.dtype.kind in "iu":
        names = np.arange(dataset.n_classes) if dataset.class_names is None else dataset.class_names
        return np.where(codes >= 0, names[codes], -1)
    y = np.full(len(codes), None, object)
    y[codes >= 0] = dataset.class_names[codes[codes >= 0]]
    return y


def _report(
    dataset: Dataset,
    model: GPCAClassifier,
    probabilities: np.ndarray,
    judged: np.ndarray,
    who: str,
) -> Report | None:
    """None where no label was kept back."""
    if len(judged) == 0:
        return None
    codes = {name: code for code, name in enumerate(model.classes_.tolist())}
    names = _named(dataset, dataset.y)[judged].tolist()
    for name in sorted(set(names) - set(codes), key=str):  # never predicted, and so always missed
        codes[name] = len(codes)
    truth = np.array([codes[name] for name in names])
    predicted = probabilities[judged].argmax(axis=1)
    return Report([str(name) for name in codes], truth, predicted, who)
