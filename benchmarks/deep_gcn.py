"""Accuracy and effective rank of plain GCNs by depth and initialisation.

Adam, 128 hidden units, public split; the epoch is selected by validation accuracy and may be 0, the
weights before training. Learning rate, dropout and weight decay are selected by validation accuracy
with the first seed, from the same candidates for every initialisation.
"""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from typing import Any

from gpcanet.linalg.parallel import available_cores
from gpcanet.utils.atomic import atomic_file

from . import child
from .config import Config
from .timing import Outcome

#: Initialiser of each method and its options.
METHODS: dict[str, dict[str, Any]] = {
    "gpca": {"init": "gpca", "head": "logistic"},
    "gpca, random output layer": {"init": "gpca"},
    "gpca, paper": {"init": "gpca", "spectrum": "paper"},
    "xavier": {"init": "xavier"},
    "he": {"init": "he"},
    "orthogonal": {"init": "orthogonal"},
    "lsuv": {"init": "lsuv"},
    "virgo": {"init": "virgo"},
}

#: Learning rates, and pairs of dropout and weight decay from the pool of the paper.
LEARNING_RATES = (1e-3, 1e-4)
REGULARIZATIONS = ((0.5, 5e-3), (0.0, 5e-4))

#: Largest number of epochs, and epochs without improvement after which a training stops.
EPOCHS, PATIENCE = 100, 40

HIDDEN = 128

#: Seconds after which a process is stopped.
TIMEOUT = 7200.0


def run(config: Config) -> dict[str, Any]:
    """Train all networks, one process per network and core; finished cells are kept and reused."""
    size = config.size
    # digits needs no download
    depths = size.depths if size.real else {"digits": size.depths["cora"]}
    cells = [cell for dataset in depths for cell in product([dataset], depths[dataset], METHODS)]
    config.log(f"training GCNs: {len(cells)} depths and initialisations")
    folder = config.work_dir / "deep_gcn"
    folder.mkdir(parents=True, exist_ok=True)

    def train(cell: tuple[str, int, str]) -> Outcome:
        dataset, layers, method = cell
        path = folder / f"{dataset}-{layers}-{method.replace(', ', '-').replace(' ', '-')}.json"
        if path.exists():
            return dict(json.loads(path.read_text()))
        outcome = child.run_in_process(
            "deep_gcn.train_cell", timeout=TIMEOUT, dataset=dataset, layers=layers, method=method,
            seeds=size.depth_seeds,
            data_dir=None if config.data_dir is None else str(config.data_dir),
            offline=config.offline,
        )  # fmt: skip
        if "runs" in outcome:
            with atomic_file(path, overwrite=True) as file:
                file.write(json.dumps(outcome).encode())
        config.log(f"{dataset}, {layers} layers, {method}: {_summary(outcome)}")
        return outcome

    with ThreadPoolExecutor(available_cores()) as pool:
        outcomes = list(pool.map(train, cells))
    return {
        "cells": [
            {"dataset": dataset, "layers": layers, "method": method, **outcome}
            for (dataset, layers, method), outcome in zip(cells, outcomes, strict=True)
        ]
    }


def _summary(outcome: Outcome) -> str:
    if "runs" not in outcome:
        return str(outcome)
    return ", ".join(f"{run['test']:.3f}" for run in outcome["runs"])


def train_cell(
    dataset: str, layers: int, method: str, seeds: int, data_dir: str | None, offline: bool | None
) -> Outcome:
    """Select the settings with seed 0, and train with all seeds, in this process."""
    import torch

    from gpcanet.datasets import load
    from gpcanet.nn import NodeData

    torch.set_num_threads(1)
    data = NodeData.of(load(dataset, data_dir, offline=offline))
    ranks: list[float] = []
    candidates = [
        (_train(data, layers, method, lr, *regularization, 0, ranks), lr, *regularization)
        for lr, regularization in product(LEARNING_RATES, REGULARIZATIONS)
    ]
    first, lr, dropout, decay = max(candidates, key=lambda candidate: candidate[0]["validation"])
    others = [_train(data, layers, method, lr, dropout, decay, seed) for seed in range(1, seeds)]
    return {
        "lr": lr,
        "dropout": dropout,
        "weight_decay": decay,
        "ranks": [round(rank, 2) for rank in ranks[: layers - 1]],
        "runs": [first, *others],
    }


def _train(
    data: Any,
    layers: int,
    method: str,
    lr: float,
    dropout: float,
    decay: float,
    seed: int,
    ranks: list[float] | None = None,
) -> dict[str, Any]:
    import torch

    from gpcanet.nn import Settings, effective_rank, train
    from gpcanet.nn.training.data import prepare_edges
    from gpcanet.nn.training.registry import build_initialized_model

    model, _ = build_initialized_model(
        "gcn", data, seed=seed, layers=layers, hidden=HIDDEN, dropout=dropout, **METHODS[method]
    )
    if ranks is not None:
        convs: Any = model.convs
        handles = [
            conv.register_forward_hook(lambda *hooked: ranks.append(effective_rank(hooked[2])))
            for conv in convs
        ]
        model.eval()
        with torch.no_grad():
            prepare_edges(model, data).run(model, data.x)
        for handle in handles:
            handle.remove()
    result = train(
        model, data,
        Settings(epochs=EPOCHS, patience=PATIENCE, lr=lr, weight_decay=decay, seed=seed),
    )  # fmt: skip
    final = result.accuracy["test"]
    return {
        "test": final,
        "validation": result.accuracy["validation"],
        "best_epoch": result.best_epoch,
        "first": result.curve[0]["test"],
        # Epoch from which the test accuracy reached 95 % of its final value.
        "epoch_95": next(int(e["epoch"]) for e in result.curve if e["test"] >= 0.95 * final),
        "seconds": round(result.seconds, 1),
    }
