"""Embeddings of width 64: seconds on citation graphs and a large one, accuracy beside them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from gpcanet.datasets import Dataset
from gpcanet.estimators._heads import Head
from gpcanet.estimators.classifier import GPCAClassifier

from .graphs import generate, published
from .measure import Outcome, in_order, interleaved, prepare
from .peers import LARGE_WAYS, WAYS
from .setting import Setting

INVERSE_PENALTIES = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)

LABELS_PER_CLASS, N_VALIDATION, N_TEST = 20, 500, 1_000


def run(setting: Setting) -> dict[str, Any]:
    graphs, skipped = published(setting)
    results: dict[str, Any] = dict(skipped)
    for data in graphs:
        setting.tell(f"{data.name}: embedding in {len(WAYS)} ways, in turns")
        results[data.name] = _compare(data, setting)
    setting.tell(f"a generated graph: embedding in {len(LARGE_WAYS)} ways, in turns")
    data = generate(setting.size.arxiv)
    tasks, left_out = prepare(LARGE_WAYS, data)
    outcomes = interleaved(tasks, setting.repeats)
    results["generated"] = _sizes(data) | {"ways": in_order(LARGE_WAYS, left_out, outcomes)}
    return {"graphs": results}


def _compare(data: Dataset, setting: Setting) -> dict[str, Any]:
    found: dict[str, np.ndarray] = {}
    tasks, left_out = prepare(WAYS, data)
    keeping = {name: _keeping(found, name, task) for name, task in tasks.items()}
    outcomes = interleaved(keeping, setting.repeats)
    setting.tell(f"{data.name}: heads on {len(found)} embeddings")
    splits = [random_split(data, seed) for seed in range(setting.size.random_splits)]
    for name, Z in found.items():
        if "failed" not in outcomes[name]:
            outcomes[name]["accuracy"] = head_accuracy(data, Z)
            outcomes[name]["random_accuracies"] = [head_accuracy(split, Z) for split in splits]
    return _sizes(data) | {
        "ways": in_order(WAYS, left_out, outcomes),
        "classifier": _classifier(data, setting.repeats),
    }


def _keeping(
    found: dict[str, np.ndarray], name: str, task: Callable[[], np.ndarray]
) -> Callable[[], None]:
    def run() -> None:
        found[name] = task()

    return run


def _classifier(data: Dataset, repeats: int) -> Outcome:
    """GPCAClassifier as it comes, which decides more for itself, heads included."""
    accuracies: list[float] = []

    def run() -> None:
        y = data.visible_labels()
        model = GPCAClassifier().fit(data.X, y, graph=data.graph, validation=data.validation)
        accuracies.append(float(np.mean(model.transduction_[data.test] == data.y[data.test])))

    outcome = interleaved({"": run}, repeats)[""]
    return outcome | ({"accuracy": accuracies[-1]} if "failed" not in outcome else {})


def head_accuracy(data: Dataset, Z: np.ndarray) -> float:
    """Test accuracy of the logistic head that does best on the validation nodes."""
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


def random_split(data: Dataset, seed: int) -> Dataset:
    """As many labels a class to learn from as in the public splits."""
    order = np.random.default_rng(seed).permutation(np.flatnonzero(data.y >= 0))
    train = np.concatenate(
        [order[data.y[order] == c][:LABELS_PER_CLASS] for c in range(data.n_classes)]
    )
    rest = order[~np.isin(order, train)]
    return replace(
        data,
        train=train,
        validation=rest[:N_VALIDATION],
        test=rest[N_VALIDATION : N_VALIDATION + N_TEST],
    )


def _sizes(data: Dataset) -> dict[str, int]:
    return {
        "nodes": data.graph.n_nodes,
        "edges": data.graph.n_edges,
        "features": int(data.X.shape[1]),
    }
