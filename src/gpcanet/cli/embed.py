"""The command ``gpcanet embed``."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from ..datasets import Dataset
from ..errors import InputError
from ..estimators.gpca import GPCA
from ..estimators.serialization import load_model, save_model
from ..files import write_embedding
from .cluster_options import ClusterOptions
from .console import Console
from .feature_names import store_feature_names
from .holdout import check_labelled
from .memory import choose_memory_limit
from .method_options import EmbedSettings
from .new_nodes import load_for_model
from .option_groups import given_options, option_names
from .options import Input
from .output_options import ModelFiles


def run(
    console: Console,
    data: Input,
    settings: EmbedSettings,
    files: ModelFiles,
    cluster: ClusterOptions,
) -> None:
    cluster.check()
    if cluster.is_distributed:
        from .distributed_embed import run as run_distributed

        run_distributed(console, data, parameters_of(settings), files, cluster)
        return
    if not files.written:
        raise InputError("nothing to write: give --output, --save-model or both")
    given = given_options(settings)
    files.check_model_files(data, [option_names(EmbedSettings)[name] for name in given])
    keep, parameters = files.keep_training_nodes, parameters_of(settings)
    model = (
        GPCA(**parameters, keep_training_nodes=keep)
        if files.model is None
        else load_model(files.model)
    )
    if not isinstance(model, GPCA):
        raise InputError(f"{files.model} is a {type(model).__name__}; use gpcanet classify")
    model.set_params(memory_limit=files.memory_limit)
    model.check_parameters()

    if files.model is not None:
        if cluster.store is not None:
            raise InputError("--model applies to a dataset or files; leave out --store")
        dataset, X, place = load_for_model(model, data, console)
    else:
        dataset = data.load(console) if cluster.store is None else _load_store(cluster.store, data)
        model.set_params(memory_limit=choose_memory_limit(console, model, dataset))
        if model.beta:
            check_labelled(dataset)
    fit_results: dict[str, float] = {}
    with console.phase("embedding"):
        if files.model is not None:
            Z = model.transform(X, **place)
        else:
            # Validation labels in the embedding would bias a model selection that uses them.
            y = dataset.visible_labels(validation=False) if dataset.has_split else dataset.y
            Z = model.fit_transform(dataset.X, y, graph=dataset.graph)
            if files.save_model is not None:  # so that --model later gives the same bytes
                Z = model.transform(dataset.X, graph=dataset.graph)
            fit_results = {"iterations": int(model.n_iter_)}
            if not math.isnan(model.residual_):  # NaN for a fixed number of iterations
                fit_results |= {"residual": model.residual_, "objective": model.objective_}
    with console.phase("writing"):
        if files.output is not None:
            write_embedding(
                files.output,
                dataset.graph,
                Z,
                id_name=data.id_name,
                overwrite=files.force,
                source=data.files["features"],
            )
        if files.save_model is not None:
            store_feature_names(model, dataset)
            save_model(model, files.save_model, overwrite=files.force)
    console.result(
        {
            "nodes": dataset.graph.n_nodes,
            "edges": dataset.graph.n_edges,
            "features": dataset.X.shape[1],
            "components": Z.shape[1],
            "alpha": float(model.alpha),
            "beta": float(model.beta),
            **fit_results,
            "notes": list(dataset.notes),
            "seconds": console.seconds,
            "written": files.written,
        },
        f"{dataset.graph.n_nodes:,} nodes in {Z.shape[1]} dimensions: {', '.join(files.written)}"
        f" ({sum(console.seconds.values()):.1f} s)",
    )


def parameters_of(settings: EmbedSettings) -> dict[str, Any]:
    """The parameters of GPCA that the user has set."""
    given = given_options(settings)
    return {**given, "solver": "fixed-point"} if "n_iter" in given else given


def _load_store(folder: Path, data: Input) -> Dataset:
    try:
        from ..distributed.store import Store
    except ImportError:
        raise InputError("stores need dask; pip install 'gpcanet[distributed]'") from None
    if data.dataset is not None or any(path is not None for path in data.files.values()):
        raise InputError(f"give --store {folder}, a dataset or files, not several")
    return Store.open(folder).dataset()
