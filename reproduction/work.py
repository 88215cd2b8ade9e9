"""Runs cells in this process: what a worker does."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from .cells import Cell
from .loading import DatasetLoader

#: Number of points kept of a learning curve.
CURVE_POINTS = 25

Outcome = dict[str, Any]


def group_key(cell: Cell) -> tuple[Any, ...]:
    """Equal for cells that one worker should run together, because they share an embedding."""
    if cell.setup.method != "gpca":
        return (cell,)
    from .embeddings import embedding_key

    return ("gpca", *embedding_key(cell))


def outcomes(cells: list[Cell], loader: DatasetLoader) -> Iterator[tuple[Cell, Outcome]]:
    """Run the cells of one group. An exception is recorded as the failure of its cell."""
    shared = _SharedEmbeddings(cells, loader)
    for cell in cells:
        started = time.perf_counter()
        try:
            data = loader.split(cell.setup.dataset, cell.split)
            started = time.perf_counter()  # loading the data is not part of the run
            if cell.setup.method == "gpca":
                from .heads import fit_head

                result = fit_head(shared.embedding(cell), data, cell.setup, cell.seed)
            else:
                from .networks import train_network

                result = train_network(cell, loader)
            outcome: Outcome = {
                "status": "done",
                "accuracy": {name: round(value, 6) for name, value in result.accuracy.items()},
                "best_epoch": result.best_epoch,
                "epochs": result.epochs,
                "curve": thinned_curve(result.curve),
            }
        except Exception as error:
            reason = " ".join(str(error).split())[:500]
            outcome = {"status": "failed", "reason": f"{type(error).__name__}: {reason}"}
        yield cell, {**outcome, "seconds": round(time.perf_counter() - started, 3)}


class _SharedEmbeddings:
    """The embeddings of a group of cells, computed at first use; a failure is kept as well."""

    def __init__(self, cells: list[Cell], loader: DatasetLoader) -> None:
        self._cells, self._loader = cells, loader
        self._computed: Any = None

    def embedding(self, cell: Cell) -> np.ndarray:
        if self._computed is None:
            from .embeddings import Embeddings

            try:
                self._computed = Embeddings(self._cells, self._loader)
            except Exception as error:
                self._computed = error
        if isinstance(self._computed, Exception):
            raise self._computed
        return self._computed.embedding(cell)


def thinned_curve(curve: list[dict[str, float]]) -> list[list[float]]:
    """Epoch, loss and validation accuracy of a few evaluations, denser at the start."""
    evaluations = [evaluation for evaluation in curve if "loss" in evaluation]
    if not evaluations:
        return []
    last = len(evaluations) - 1
    steps = {round(last * (i / (CURVE_POINTS - 1)) ** 2) for i in range(CURVE_POINTS)}
    return [
        [e["epoch"], round(e["loss"], 4), round(e["validation"], 4)]
        for e in (evaluations[step] for step in sorted(steps))
    ]
