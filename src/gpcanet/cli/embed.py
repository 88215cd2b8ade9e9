"""gpcanet embed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..files import write_embedding
from ..gpca import GPCA
from ..memory import tell_memory
from ..persistence import load_model, save_model
from .console import Console
from .options import Input, check_outputs


def run(
    console: Console,
    data: Input,
    parameters: dict[str, Any],
    *,
    output: Path | None,
    model_path: Path | None,
    save_path: Path | None,
    force: bool,
) -> None:
    if output is None and save_path is None:
        raise ValueError("nothing to write: give --output, --save-model or both")
    if model_path is not None and save_path is not None:
        raise ValueError("--model applies a saved model and --save-model keeps a new one; give one")
    # What cannot be written or done is found out before the work, not after it.
    check_outputs(output, save_path, force=force)
    model = GPCA(**parameters) if model_path is None else load_model(model_path)
    if not isinstance(model, GPCA):
        raise ValueError(f"{model_path} is a {type(model).__name__}; use gpcanet classify")
    model._check_parameters()

    dataset = data.load(console)
    console.note(tell_memory(model, dataset.graph, dataset.X))
    with console.phase("embedding"):
        if model_path is not None:
            Z = model.transform(dataset.X, graph=dataset.graph)
        else:
            y = dataset.visible_labels() if len(dataset.train) else dataset.y
            Z = model.fit_transform(dataset.X, y, graph=dataset.graph)
            if save_path is not None:  # so that --model gives the same bytes later
                Z = model.transform(dataset.X, graph=dataset.graph)
    with console.phase("writing"):
        if output is not None:
            write_embedding(output, dataset.graph, Z, id_name=data.id_name, overwrite=force)
        if save_path is not None:
            save_model(model, save_path, overwrite=force)
    written = [str(path) for path in (output, save_path) if path is not None]
    console.result(
        {
            "nodes": dataset.graph.n_nodes,
            "edges": dataset.graph.n_edges,
            "features": dataset.X.shape[1],
            "components": Z.shape[1],
            "alpha": float(model.alpha),
            "beta": float(model.beta),
            "iterations": int(model.n_iter_),
            "residual": float(model.residual_),
            "objective": float(model.objective_),
            "seconds": console.seconds,
            "written": written,
        },
        f"{dataset.graph.n_nodes:,} nodes in {Z.shape[1]} dimensions: {', '.join(written)}"
        f" ({sum(console.seconds.values()):.1f} s)",
    )
