"""Artificial records, for tests of all that reads records."""

import json
import random

from reproduction.experiments import EXPERIMENTS, datasets_of, protocols_of, row_specs
from reproduction.pools import DATASETS
from reproduction.selection import missing_cells

CITATION = ("cora", "citeseer")


def artificial_record(cell, status="done"):
    if status == "failed":
        return {"status": "failed", "reason": "ValueError: artificial", "seconds": 0.1}
    rng = random.Random(json.dumps(cell.to_json(), sort_keys=True))
    best = rng.choice((5, 40, 200))
    level = rng.gauss(0.8, 0.01) - 0.01 * cell.setup.get("layers", 1)
    return {
        "status": "done",
        "accuracy": {
            "train": 1.0,
            "validation": round(level, 3),
            "test": round(level + rng.gauss(0, 0.005), 3),
        },
        "best_epoch": best,
        "epochs": best + 100,
        "curve": [[1, 1.9, 0.3], [best, 0.5, level], [best + 100, 0.4, level - 0.01]],
        "seconds": round(rng.uniform(0.1, 3), 2),
        "versions": {"gpcanet": "0"},
    }


def artificial_records(experiments=tuple(EXPERIMENTS), datasets=CITATION, pool="lean"):
    """A record for every cell that these experiments need, of the selection and after it."""
    assert set(datasets) <= set(DATASETS)
    records = {}
    for experiment in experiments:
        for protocol in protocols_of(experiment):
            for dataset in datasets_of(experiment) if experiment == "scale" else datasets:
                for spec in row_specs(experiment, protocol, pool, dataset):
                    while cells := missing_cells(spec, records):
                        records.update({cell: artificial_record(cell) for cell in cells})
    return records
