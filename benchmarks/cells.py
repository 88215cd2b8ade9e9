"""Trainings with several seeds, one process each, that go on from earlier results.

A cell is one combination of data, model and initialisation, and has a run for every seed. Cells
with enough runs are not trained again, others train the missing seeds only. The results are written
after every cell. To train a cell again, delete it from the JSON file.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any

from gpcanet.linalg.parallel import available_cores

from . import child
from .config import Config
from .timing import Outcome

#: Reason of a cell that has not been trained.
NOT_MEASURED = "not measured yet"

#: Seconds after which a process is stopped.
TIMEOUT = 7200.0

#: What identifies a cell, such as {"dataset": "cora", "layers": 2, "method": "he"}.
Key = dict[str, Any]


def train_cells(
    job: str, rounds: Sequence[tuple[Sequence[Key], int]], config: Config
) -> dict[str, Any]:
    """Train all cells, round by round; a round has cells and their number of seeds.

    ``job`` names a function of this package. It is called with the key of a cell, the number of
    seeds and the earlier outcome of the cell, and returns the outcome with all ``runs``.
    """
    keys = list({tuple(key.items()): key for wanted, _ in rounds for key in wanted}.values())
    earlier = config.earlier.get("cells", [])
    kept = [cell for cell in earlier if not any(_has_key(cell, key) for key in keys)]
    outcomes = [_outcome(earlier, key) for key in keys]

    def results() -> dict[str, Any]:
        pairs = zip(keys, outcomes, strict=True)
        return {"cells": [key | outcome for key, outcome in pairs] + kept}

    for wanted, seeds in rounds:
        missing = [
            index
            for index in map(keys.index, wanted)
            if len(outcomes[index].get("runs", ())) < seeds
        ]
        config.log(f"{len(missing)} of {len(wanted)} networks to train with {seeds} seeds")
        with ThreadPoolExecutor(config.jobs or available_cores()) as pool:
            started = {
                pool.submit(_train, job, keys[index], outcomes[index], seeds, config): index
                for index in missing
            }
            try:
                for done in as_completed(started):
                    index, outcome = started[done], done.result()
                    # A failure does not replace the runs of fewer seeds.
                    if "runs" in outcome or "runs" not in outcomes[index]:
                        outcomes[index] = outcome
                    config.log(f"{', '.join(map(str, keys[index].values()))}: {_summary(outcome)}")
                    config.save(results())
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
    return results()


def _train(job: str, key: Key, outcome: Outcome, seeds: int, config: Config) -> Outcome:
    return child.run_in_process(
        job, timeout=TIMEOUT, **key, seeds=seeds, earlier=outcome if "runs" in outcome else None,
        data_dir=None if config.data_dir is None else str(config.data_dir), offline=config.offline,
    )  # fmt: skip


def _has_key(cell: dict[str, Any], key: Key) -> bool:
    return all(cell.get(name) == value for name, value in key.items())


def _outcome(cells: list[dict[str, Any]], key: Key) -> Outcome:
    """The earlier outcome of a cell, without its key."""
    for cell in cells:
        if _has_key(cell, key):
            return {name: value for name, value in cell.items() if name not in key}
    return {"skipped": NOT_MEASURED}


def _summary(outcome: Outcome) -> str:
    if "runs" not in outcome:
        return str(outcome)
    return ", ".join(f"{run['test']:.3f}" for run in outcome["runs"])
