"""The command ``gpcanet embed``."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from ..datasets import Dataset
from ..errors import InputError
from ..estimators.gpca import GPCA
from ..files import write_embedding
from .cluster_options import ClusterOptions
from .console import Console
from .method_options import EmbedSettings
from .models import check_labelled, choose_memory_limit, load_estimator, save_estimator
from .new_nodes import load_for_model
from .option_groups import given_names, given_options
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
    files.check_model_files(data, given_names(settings))
    if files.model is not None:
        model = load_estimator(files.model, GPCA, files.memory_limit)
        if cluster.store is not None:
            raise InputError("--model applies to a dataset or files; leave out --store")
        dataset, X, place = load_for_model(model, data, console)
    else:
        model = GPCA(
            **parameters_of(settings),
            memory_limit=files.memory_limit,
            keep_training_nodes=files.keep_training_nodes,
        )
        model.check_parameters()
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
            write_embedding(files.output, dataset.graph, Z, **files.result_options(data))
        save_estimator(model, dataset, files)
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
