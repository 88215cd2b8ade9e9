"""The command ``gpcanet embed``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..datasets import Dataset
from ..errors import InputError
from ..estimators.gpca import GPCA
from ..files import write_embedding
from .cluster_options import ClusterOptions
from .console import Console
from .method_options import EmbedSettings, Scaling
from .models import (
    check_labelled,
    choose_memory_limit,
    new_estimator,
    save_estimator,
    show_embedding,
)
from .option_groups import given_names, given_options
from .options import Input
from .output_options import ModelFiles
from .saved_models import load_estimator, load_for_model
from .scaling import check_scaling, scale_features


def run(
    console: Console,
    data: Input,
    settings: EmbedSettings,
    scaling: Scaling,
    files: ModelFiles,
    cluster: ClusterOptions,
) -> None:
    cluster.check(data)
    check_scaling(scaling, files)
    if scaling.standardize and (cluster.is_distributed or cluster.store is not None):
        raise InputError("--standardize is for data in memory; leave it out, or scale the files")
    if not cluster.plan:
        files.check_any()
    if cluster.is_distributed:
        from .distributed_embed import run as run_distributed

        run_distributed(console, data, parameters_of(settings), files, cluster)
        return
    of_new_models = [*given_names(settings), *(["--standardize"] if scaling.standardize else [])]
    files.check_model_files(data, of_new_models)
    if files.model is not None:
        model = load_estimator(files.model, GPCA, files.memory_limit)
        if cluster.store is not None:
            raise InputError("--model applies to a dataset or files; leave out --store")
        dataset, X, place = load_for_model(model, data, console)
    else:
        model = new_estimator(GPCA, parameters_of(settings), files)
        if cluster.store is None:
            dataset = scale_features(console, data, data.load(console), scaling)
        else:
            dataset = _load_store(cluster.store)
        model.set_params(memory_limit=choose_memory_limit(console, model, dataset))
        if model.beta:
            check_labelled(dataset)
    with console.phase("embedding"):
        if files.model is not None:
            Z = model.transform(X, **place)
        else:
            # Validation labels in the embedding would bias a model selection that uses them.
            y = dataset.visible_labels(validation=False) if dataset.has_split else dataset.y
            Z = model.fit_transform(dataset.X, y, graph=dataset.graph)
            if files.save_model is not None:  # so that --model later gives the same bytes
                Z = model.transform(dataset.X, graph=dataset.graph)
    with console.phase("writing"):
        if files.output is not None:
            write_embedding(files.output, dataset.graph, Z, **files.result_options(data))
        save_estimator(model, dataset, files)
    sizes = {"nodes": dataset.graph.n_nodes, "edges": dataset.graph.n_edges}
    sizes["features"] = dataset.X.shape[1]
    show_embedding(console, files, model, sizes, dataset.notes)


def parameters_of(settings: EmbedSettings) -> dict[str, Any]:
    """The parameters of GPCA that the user has set."""
    given = given_options(settings)
    return {**given, "solver": "fixed-point"} if "n_iter" in given else given


def _load_store(folder: Path) -> Dataset:
    try:
        from ..distributed.store import Store
    except ImportError:
        raise InputError("stores need dask; pip install 'gpcanet[distributed]'") from None
    return Store.open(folder).dataset()
