"""Which cells to run next, and how much of a reproduction is done."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from .cells import Cell, Run, Setup
from .experiments import RowSpec
from .selection import Records, is_decided, missing_cells, select
from .work import group_key

#: Maximum number of cells given to a worker at once.
MAX_CELLS = 120


@dataclass
class Progress:
    """Number of cells done, in total and failed, and an estimate of the remaining seconds."""

    done: int
    total: int
    failed: int
    seconds_left: float | None


def next_group(specs: Iterable[RowSpec], records: Records, running: set[Cell]) -> list[Cell]:
    """The next cells for one worker: cells of the first incomplete row that share an embedding."""
    for spec in specs:
        missing = dict.fromkeys(missing_cells(spec, records))
        cells = [cell for cell in missing if cell not in running]
        if cells:
            key = group_key(cells[0])
            return [cell for cell in cells if group_key(cell) == key][:MAX_CELLS]
    return []


def progress_of(specs: Iterable[RowSpec], records: Records, jobs: int) -> Progress:
    """How many cells are done, and an estimate of the time for the others."""
    cells: dict[Cell, None] = {}
    # Before the selection, the cells of the first candidate stand for those of the selected one.
    undecided: dict[tuple[tuple[Setup, ...], Run], Cell] = {}
    for spec in specs:
        cells.update(dict.fromkeys(spec.selection_cells()))
        selected = select(spec, records)
        if selected is not None:
            cells.update(dict.fromkeys(spec.final_cells(selected)))
        elif not is_decided(spec, records):
            for run in spec.runs:
                if run not in spec.selection_runs:
                    undecided[spec.candidates, run] = spec.candidates[0].cell(*run)
    done = [cell for cell in cells if cell in records]
    left = [cell for cell in cells if cell not in records] + list(undecided.values())
    failed = sum(records[cell]["status"] == "failed" for cell in done)
    seconds = _expected_seconds(done, left, records)
    return Progress(
        len(done), len(done) + len(left), failed, None if seconds is None else seconds / jobs
    )


def _expected_seconds(done: list[Cell], left: list[Cell], records: Records) -> float | None:
    """Worker time for cells, by the mean time of similar ones."""
    seconds: dict[Any, list[float]] = {}
    for cell in done:
        if records[cell]["status"] == "done":
            for kind in _similarity_keys(cell):
                seconds.setdefault(kind, []).append(records[cell]["seconds"])
    if not seconds:
        return None
    means = {kind: sum(times) / len(times) for kind, times in seconds.items()}
    return sum(
        next(means[kind] for kind in _similarity_keys(cell) if kind in means) for cell in left
    )


def _similarity_keys(cell: Cell) -> Iterator[Any]:
    """Keys that similar cells share, the most specific first."""
    setup = cell.setup
    yield setup.method, setup.dataset, setup.get("layers"), setup.get("init")
    yield setup.method, setup.dataset, setup.get("layers")
    yield setup.method, setup.dataset
    yield setup.method
    yield "any"
