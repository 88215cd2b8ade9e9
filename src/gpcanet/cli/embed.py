"""gpcanet embed."""

from __future__ import annotations

import math
from typing import Any

from ..errors import InputError
from ..estimators.gpca import GPCA
from ..estimators.memory import memory_note
from ..estimators.serialization import load_model, save_model
from ..files import write_embedding
from .console import Console
from .learnt import columns_as_learnt, remember_columns
from .options import Input, Results


def run(console: Console, data: Input, settings: dict[str, Any], results: Results) -> None:
    if not results.written:
        raise InputError("nothing to write: give --output, --save-model or both")
    results.check(settings, data)
    model = GPCA(**settings) if results.model is None else load_model(results.model)
    if not isinstance(model, GPCA):
        raise InputError(f"{results.model} is a {type(model).__name__}; use gpcanet classify")
    model.set_params(memory_limit=results.memory_limit)
    model.check_parameters()

    dataset = data.load(console)
    if results.model is None:
        console.note(memory_note(model, dataset.graph, dataset.X))
    fitted: dict[str, float] = {}
    with console.phase("embedding"):
        if results.model is not None:
            Z = model.transform(columns_as_learnt(model, dataset, console), graph=dataset.graph)
        else:
            # Validation labels in the embedding would bias every choice made by them later.
            y = dataset.visible_labels(validation=False) if dataset.has_split else dataset.y
            Z = model.fit_transform(dataset.X, y, graph=dataset.graph)
            if results.save_model is not None:  # so that --model gives the same bytes later
                Z = model.transform(dataset.X, graph=dataset.graph)
            fitted = {"iterations": int(model.n_iter_)}
            if not math.isnan(model.residual_):  # measured, as it is not after so many steps
                fitted |= {"residual": model.residual_, "objective": model.objective_}
    with console.phase("writing"):
        if results.output is not None:
            write_embedding(
                results.output, dataset.graph, Z, id_name=data.id_name, overwrite=results.force
            )
        if results.save_model is not None:
            remember_columns(model, dataset)
            save_model(model, results.save_model, overwrite=results.force)
    console.result(
        {
            "nodes": dataset.graph.n_nodes,
            "edges": dataset.graph.n_edges,
            "features": dataset.X.shape[1],
            "components": Z.shape[1],
            "alpha": float(model.alpha),
            "beta": float(model.beta),
            **fitted,
            "notes": list(dataset.notes),
            "seconds": console.seconds,
            "written": results.written,
        },
        f"{dataset.graph.n_nodes:,} nodes in {Z.shape[1]} dimensions: {', '.join(results.written)}"
        f" ({sum(console.seconds.values()):.1f} s)",
    )
