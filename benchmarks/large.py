"""Fits on large graphs, each in a process of its own, the ways taking turns."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

from gpcanet.utils.atomic import atomic_folder

from .child import in_child
from .graphs import folder_of
from .measure import Outcome
from .setting import Setting, Shape

#: A fit that takes longer than this runs once.
LONG_SECONDS = 60.0

#: A process that takes longer than this, reading its graph included, is given up.
LONGEST_SECONDS = 1_200.0


def kept_graph(shape: Shape, setting: Setting) -> Path:
    """The folder of a generated graph, made by a process of its own unless it is there."""
    folder = folder_of(shape, setting.work_dir)
    if not folder.is_dir():
        setting.work_dir.mkdir(parents=True, exist_ok=True)
        setting.tell(f"generating {shape.n_nodes:,} nodes and {shape.n_edges:,} edges")
        # The folder is ours, not the child's, so that an interrupt leaves nothing of it.
        with atomic_folder(folder) as part:
            job = {"job": "write", "shape": asdict(shape), "folder": str(part)}
            if outcome := in_child(job, timeout=LONGEST_SECONDS):
                raise RuntimeError(f"the graph was not generated: {outcome}")
    return folder


def fits_in_turns(
    ways: Iterable[str], folder: Path, *, columns: int, components: int, setting: Setting
) -> dict[str, Outcome]:
    """Least seconds and largest memory of each way over a few rounds of processes."""
    rounds: dict[str, list[Outcome]] = {way: [] for way in ways}
    for _ in range(setting.size.rounds):
        for way, outcomes in rounds.items():
            if outcomes and outcomes[-1].get("seconds", LONG_SECONDS) >= LONG_SECONDS:
                continue
            job = {
                "job": "fit",
                "way": way,
                "folder": str(folder),
                "columns": columns,
                "components": components,
                "repeats": setting.repeats,
            }
            outcomes.append(in_child(job, timeout=LONGEST_SECONDS))
    return {way: merged(outcomes) for way, outcomes in rounds.items()}


def merged(outcomes: list[Outcome]) -> Outcome:
    """Several processes that did the same, as one; a single failure is a failure."""
    for outcome in outcomes:
        if "seconds" not in outcome:
            return outcome
    return outcomes[0] | {
        "seconds": min(outcome["seconds"] for outcome in outcomes),
        "repeats": sum(outcome["repeats"] for outcome in outcomes),
        "peak_bytes": max(outcome["peak_bytes"] for outcome in outcomes),
        "before_bytes": min(outcome["before_bytes"] for outcome in outcomes),
    }
