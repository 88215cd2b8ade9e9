"""Embeddings with 64 components: seconds, and accuracy on the citation graphs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gpcanet.datasets import Dataset, random_split
from gpcanet.estimators.classifier import GPCAClassifier
from gpcanet.estimators.heads import Head

from .config import Config
from .graphs import generate, published
from .peers import LARGE_METHODS, METHODS
from .timing import Outcome, in_order, prepare, time_interleaved

#: Inverse penalties of the logistic head.
INVERSE_PENALTIES = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)


def run(config: Config) -> dict[str, Any]:
    graphs, skipped = published(config)
    results: dict[str, Any] = dict(skipped)
    for data in graphs:
        config.log(f"{data.name}: embedding by {len(METHODS)} methods")
        results[data.name] = _compare(data, config)
    config.log(f"generated graph: embedding by {len(LARGE_METHODS)} methods")
    data = generate(config.size.arxiv_size)
    tasks, omitted = prepare(LARGE_METHODS, data)
    outcomes = time_interleaved(tasks, config.repeats)
    results["generated"] = _sizes(data) | {"methods": in_order(LARGE_METHODS, omitted, outcomes)}
    return {"graphs": results}


def _compare(data: Dataset, config: Config) -> dict[str, Any]:
    found: dict[str, np.ndarray] = {}
    tasks, omitted = prepare(METHODS, data)
    keeping = {name: _keeping(found, name, task) for name, task in tasks.items()}
    outcomes = time_interleaved(keeping, config.repeats)
    config.log(f"{data.name}: heads on {len(found)} embeddings")
    splits = [random_split(data, seed) for seed in range(config.size.random_splits)]
    for name, Z in found.items():
        if "failed" not in outcomes[name]:
            outcomes[name]["accuracy"] = head_accuracy(data, Z)
            outcomes[name]["random_accuracies"] = [head_accuracy(split, Z) for split in splits]
    return _sizes(data) | {
        "methods": in_order(METHODS, omitted, outcomes),
        "classifier": _classifier(data, config.repeats),
    }


def _keeping(
    found: dict[str, np.ndarray], name: str, task: Callable[[], np.ndarray]
) -> Callable[[], None]:
    def run() -> None:
        found[name] = task()

    return run


def _classifier(data: Dataset, repeats: int) -> Outcome:
    """GPCAClassifier with its defaults, which selects its settings itself."""
    accuracies: list[float] = []

    def run() -> None:
        y = data.visible_labels()
        model = GPCAClassifier().fit(data.X, y, graph=data.graph, validation=data.validation)
        accuracies.append(float(np.mean(model.transduction_[data.test] == data.y[data.test])))

    outcome = time_interleaved({"": run}, repeats)[""]
    return outcome | ({"accuracy": accuracies[-1]} if "failed" not in outcome else {})


def head_accuracy(data: Dataset, Z: np.ndarray) -> float:
    """Test accuracy of the logistic head with the best validation accuracy."""
    best = (-1.0, -1.0)
    for unit_rows in (False, True):
        for C in INVERSE_PENALTIES:
            head = Head(C, unit_rows=unit_rows).fit(Z[data.train], data.y[data.train])
            accuracies = [
                float(np.mean(head.predict_proba(Z[part]).argmax(axis=1) == data.y[part]))
                for part in (data.validation, data.test)
            ]
            if accuracies[0] > best[0]:
                best = (accuracies[0], accuracies[1])
    return best[1]


def _sizes(data: Dataset) -> dict[str, int]:
    return {
        "nodes": data.graph.n_nodes,
        "edges": data.graph.n_edges,
        "features": int(data.X.shape[1]),
    }
