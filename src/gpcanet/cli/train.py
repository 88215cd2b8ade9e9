"""The command ``gpcanet train``."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

from ..datasets import Dataset
from ..datasets.splits import TEST_SHARE, VALIDATION_SHARE, hold_out
from ..errors import InputError
from ..files import write_predictions
from ..utils.available_memory import available_bytes
from ..utils.checks import check_choice
from .console import Console
from .method_options import NetworkSettings, PropagationSettings, Scaling, TrainingSettings
from .models import check_labelled, show_report
from .option_groups import given_options, option_names
from .options import Input
from .output_options import TrainingFiles
from .reports import ClassificationReport
from .saved_models import explaining_missing_packages
from .scaling import check_scaling, scale_features


def run(
    console: Console,
    data: Input,
    network: NetworkSettings,
    propagation: PropagationSettings,
    training: TrainingSettings,
    scaling: Scaling,
    files: TrainingFiles,
) -> None:
    check_scaling(scaling, files)
    files.check_training_files(data)
    with explaining_missing_packages():
        from ..nn.serialization import save_model
        from ..nn.trained_network import TrainedNetwork
        from ..nn.training.data import NodeData
        from ..nn.training.loop import train
        from ..nn.training.registry import build_initialized_model
        from ..nn.training.settings import Settings
    settings = Settings(**given_options(training))
    model_settings = _model_settings(network, propagation)
    dataset = scale_features(console, data, data.load(console), scaling)
    check_labelled(dataset)
    if not dataset.has_split:
        dataset = hold_out(dataset, settings.seed, test=TEST_SHARE, validation=VALIDATION_SHARE)
    nodes = NodeData.of(dataset)
    if settings.parts == 1:
        console.note(_memory_note(dataset, network))
    with console.phase("initialising"):
        model, initialisation = build_initialized_model(
            network.model,
            nodes,
            init=network.init,
            seed=settings.seed,
            **_init_settings(network),
            **model_settings,
        )
    for line in str(initialisation).splitlines():
        console.note(line)
    with console.phase("training"), console.counting("epoch"):
        notes: dict[str, object] = {"model": network.model, "init": network.init}
        if network.init == "gpca":
            notes |= {"spectrum": network.spectrum, "head": network.head}
        try:
            result = train(model, nodes, settings, checkpoint=files.checkpoint, notes=notes)
        except MemoryError as error:
            raise InputError(
                "not enough memory; use --parts 100 to train on partitions of the graph"
            ) from error
    console.note(
        f"best of {result.epochs} epochs by validation: epoch {result.best_epoch}, "
        f"{100 * result.accuracy['validation']:.1f} %"
    )

    outcome = result.to_json()
    del outcome["curve"], outcome["seconds"]  # the same training writes the same file
    notes |= {"settings": asdict(settings), "result": outcome}
    trained = TrainedNetwork.of(model, dataset, notes).calibrated(nodes)
    probabilities = trained.predict_proba(nodes)
    names = np.arange(probabilities.shape[1]) if trained.classes is None else trained.classes
    with console.phase("writing"):
        if files.output is not None:
            how = files.result_options(data)
            write_predictions(files.output, dataset.graph, names, probabilities, **how)
        if files.save_model is not None:
            save_model(trained, files.save_model, overwrite=files.force)
    report = None
    if len(dataset.test):
        report = ClassificationReport(
            [str(name) for name in names],
            dataset.y[dataset.test],
            probabilities[dataset.test],
            "nodes with held-out labels",
        )
    values = {
        "model": network.model,
        "init": network.init,
        "initialised": initialisation.n_set,
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        **outcome,
        "curve": result.curve,
        "training_seconds": result.seconds,  # with those before a resumed training
    }
    show_report(console, dataset, files, report, values)


def _init_settings(network: NetworkSettings) -> dict[str, Any]:
    """Settings of ``gpca_init_``; raise if they are set for another initialiser."""
    for name in ("spectrum", "head"):
        if network.init != "gpca" and getattr(network, name) != getattr(NetworkSettings, name):
            option = option_names(NetworkSettings)[name]
            raise InputError(f"{option} is for --init gpca; leave it out for {network.init}")
    check_choice("head", network.head, ("ridge", "logistic", "none"))
    spectrum: str | float = network.spectrum
    if spectrum not in ("auto", "paper"):
        try:
            spectrum = float(spectrum)
        except ValueError:
            raise InputError(
                f"--spectrum {spectrum} must be auto, paper or a number in [0, 1]"
            ) from None
    return {"spectrum": spectrum, "head": None if network.head == "none" else network.head}


def _memory_note(dataset: Dataset, network: NetworkSettings) -> str | None:
    """A sentence if features and activations in float32 alone exceed the free memory."""
    width = dataset.X.shape[1] + network.layers * network.hidden
    needed, free = 4 * dataset.graph.n_nodes * width, available_bytes()
    if free is None or needed <= free:
        return None
    return (
        f"training on the whole graph takes more than {needed / 2**30:.1f} GiB of memory, but "
        f"{free / 2**30:.1f} GiB are free; use --parts 100 to train on partitions"
    )


def _model_settings(network: NetworkSettings, propagation: PropagationSettings) -> dict[str, Any]:
    """Shape and propagation of the model; raise if the model has no such setting."""
    given = given_options(propagation)
    for name in given:
        models = ("gpcanet", "gcn") if name == "normalization" else ("gpcanet",)
        if network.model not in models:
            option = option_names(PropagationSettings)[name]
            raise InputError(
                f"{option} is for the model {' or '.join(models)}; leave it out for {network.model}"
            )
    if len(given.get("alpha", ())) == 1:
        given["alpha"] = given["alpha"][0]
    shape = {"layers": network.layers, "hidden": network.hidden, "dropout": network.dropout}
    return shape | given
