"""From cells to outcomes: what a worker does."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from .cells import Cell
from .data import Source

#: Points kept of a learning curve.
CURVE_POINTS = 25

Outcome = dict[str, Any]


def group_key(cell: Cell) -> tuple[Any, ...]:
    """Equal for cells that one worker should run, one after the other."""
    if cell.setup.method != "gpca":
        return (cell,)
    from .embeddings import embedding_key

    return ("gpca", *embedding_key(cell))


def outcomes(cells: list[Cell], source: Source) -> Iterator[tuple[Cell, Outcome]]:
    """Run cells of one group; one that raises has failed, and the others go on."""
    shared = _Shared(cells, source)
    for cell in cells:
        started = time.perf_counter()
        try:
            data = source.split(cell.setup.dataset, cell.split)
            started = time.perf_counter()  # reading or generating it is no part of the run
            if cell.setup.method == "gpca":
                from .heads import fit_head

                result = fit_head(shared.embedding(cell), data, cell.setup, cell.seed)
            else:
                from .networks import train_network

                result = train_network(cell, source)
            outcome: Outcome = {
                "status": "done",
                "accuracy": {name: round(value, 6) for name, value in result.accuracy.items()},
                "best_epoch": result.best_epoch,
                "epochs": result.epochs,
                "curve": essentials(result.curve),
            }
        except Exception as error:  # whatever it is, it belongs to this cell
            reason = " ".join(str(error).split())[:500]
            outcome = {"status": "failed", "reason": f"{type(error).__name__}: {reason}"}
        yield cell, {**outcome, "seconds": round(time.perf_counter() - started, 3)}


class _Shared:
    """The embeddings of some cells, made when the first is asked for, and once if it fails."""

    def __init__(self, cells: list[Cell], source: Source) -> None:
        self._cells, self._source = cells, source
        self._made: Any = None

    def embedding(self, cell: Cell) -> np.ndarray:
        if self._made is None:
            from .embeddings import Embeddings

            try:
                self._made = Embeddings(self._cells, self._source)
            except Exception as error:
                self._made = error
        if isinstance(self._made, Exception):
            raise self._made
        return self._made.of(cell)


def essentials(curve: list[dict[str, float]]) -> list[list[float]]:
    """Epoch, loss and validation accuracy of a few looks, closer together at the beginning."""
    looks = [look for look in curve if "loss" in look]
    if not looks:
        return []
    last = len(looks) - 1
    steps = {round(last * (i / (CURVE_POINTS - 1)) ** 2) for i in range(CURVE_POINTS)}
    chosen = [looks[step] for step in sorted(steps)]
    return [
        [look["epoch"], round(look["loss"], 4), round(look["validation"], 4)] for look in chosen
    ]
