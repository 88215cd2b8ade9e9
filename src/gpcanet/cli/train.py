"""gpcanet train."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError
from ..files import write_predictions
from .console import Console
from .options import Input, Results
from .report import Report
from .splits import check_labelled, hold_out

#: Without a split: shares of every class for validation and test.
VALIDATION_SHARE, TEST_SHARE = 0.1, 0.2


def run(
    console: Console,
    data: Input,
    *,
    model_name: str,
    init: str,
    shape: dict[str, Any],
    gpca: dict[str, Any],
    settings: dict[str, Any],
    results: Results,
    checkpoint: Path | None,
) -> None:
    results.check({}, data, checkpoint=checkpoint)
    try:
        from ..nn.training.data import NodeData
        from ..nn.training.loop import predict_proba, train
        from ..nn.training.settings import Settings
        from ..nn.training.zoo import build_initialized_model
    except ModuleNotFoundError as error:
        raise InputError(
            f"{error.name} is not installed; pip install 'gpcanet[nn]' brings what training needs"
        ) from None
    if settings["seed"] >= 2**64:
        raise InputError(f"--seed {settings['seed']} must be less than 2**64, as torch needs it")
    how = Settings(**settings)
    if len(gpca.get("alpha", ())) == 1:
        gpca = {**gpca, "alpha": gpca["alpha"][0]}
    dataset = data.load(console)
    check_labelled(dataset)
    if not dataset.has_split:
        dataset = hold_out(dataset, how.seed, test=TEST_SHARE, validation=VALIDATION_SHARE)
    nodes = NodeData.of(dataset)
    with console.phase("initialising"):
        model, told = build_initialized_model(
            model_name, nodes, init=init, seed=how.seed, **shape, **gpca
        )
    for line in str(told).splitlines():
        console.note(line)
    with console.phase("training"):
        notes = {"model": model_name, "init": init}
        try:
            result = train(model, nodes, how, checkpoint=checkpoint, notes=notes)
        except RuntimeError as error:  # torch has no MemoryError on a CPU
            if "memory" not in str(error):
                raise
            raise InputError(
                "not enough memory for the whole graph; --parts 100 trains on parts of it"
            ) from error
    console.note(
        f"best of {result.epochs} epochs by validation: epoch {result.best_epoch}, "
        f"{100 * result.accuracy['validation']:.1f} %"
    )

    probabilities = predict_proba(model, nodes)
    names = np.arange(dataset.n_classes) if dataset.class_names is None else dataset.class_names
    names = names[: probabilities.shape[1]]  # the last ones may have lost all their nodes
    if results.output is not None:
        with console.phase("writing"):
            write_predictions(
                results.output, dataset.graph, names, probabilities,
                id_name=data.id_name, overwrite=results.force,
            )  # fmt: skip
    report = None
    if len(dataset.test):
        report = Report(
            [str(name) for name in names],
            dataset.y[dataset.test],
            probabilities[dataset.test].argmax(axis=1),
            "nodes whose labels were kept back",
        )
    values = {
        "model": model_name,
        "init": init,
        "initialised": told.n_set,
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        **result.to_json(),
        "report": None if report is None else report.values(),
        "notes": list(dataset.notes),
        "phases": console.seconds,
        "written": results.written,
    }  # fmt: skip
    files = f"written: {', '.join(results.written)} " if results.written else ""
    ending = f"\n{files}({sum(console.seconds.values()):.1f} s)"
    console.result(values, *([] if report is None else [report.show()]), ending)
