"""Accuracy and effective rank of plain GCNs by depth and initialisation.

Adam, 128 hidden units, public split; the epoch is selected by validation accuracy and may be 0, the
weights before training. Learning rate, dropout and weight decay are selected by validation accuracy
with the first seed, from the same candidates for every initialisation.
"""

from __future__ import annotations

from itertools import product
from typing import Any

from .cells import train_cells
from .config import Config
from .timing import Outcome

#: Initialiser of each method and its options.
METHODS: dict[str, dict[str, Any]] = {
    "gpca": {"init": "gpca", "head": "ridge"},
    "gpca, logistic": {"init": "gpca", "head": "logistic"},
    "gpca, random output layer": {"init": "gpca"},
    "gpca, paper": {"init": "gpca", "spectrum": "paper"},
    "xavier": {"init": "xavier"},
    "he": {"init": "he"},
    "orthogonal": {"init": "orthogonal"},
    "lsuv": {"init": "lsuv"},
    "virgo": {"init": "virgo"},
    "ginit": {"init": "ginit"},
}

#: Learning rates, and pairs of dropout and weight decay from the pool of the paper.
LEARNING_RATES = (1e-3, 1e-4)
REGULARIZATIONS = ((0.5, 5e-3), (0.0, 5e-4))

#: Largest number of epochs, and epochs without improvement after which a training stops.
EPOCHS, PATIENCE = 100, 40

HIDDEN = 128


def run(config: Config) -> dict[str, Any]:
    """Train all networks; see ``train_cells``."""
    rounds = [
        (
            [
                {"dataset": dataset, "layers": layers, "method": method}
                for dataset, of_dataset in depths.items()
                for layers, method in product(of_dataset, METHODS)
            ],
            seeds,
        )
        for depths, seeds in config.size.depths
    ]
    return train_cells("deep_gcn.train_cell", rounds, config)


def train_cell(
    dataset: str,
    layers: int,
    method: str,
    seeds: int,
    earlier: Outcome | None,
    data_dir: str | None,
    offline: bool | None,
) -> Outcome:
    """Select the settings with seed 0, and train with the other seeds, in this process."""
    import torch

    from gpcanet.datasets import load
    from gpcanet.nn import NodeData

    torch.set_num_threads(1)
    data = NodeData.of(load(dataset, data_dir, offline=offline))
    found = _select(data, layers, method) if earlier is None else earlier
    settings = (found["lr"], found["dropout"], found["weight_decay"])
    others = [
        _train(data, layers, method, *settings, seed) for seed in range(len(found["runs"]), seeds)
    ]
    return found | {"runs": [*found["runs"], *others]}


def _select(data: Any, layers: int, method: str) -> Outcome:
    """The settings with the best validation accuracy of seed 0, and its run."""
    ranks: list[float] = []
    candidates = [
        (_train(data, layers, method, lr, *regularization, 0, ranks), lr, *regularization)
        for lr, regularization in product(LEARNING_RATES, REGULARIZATIONS)
    ]
    first, lr, dropout, decay = max(candidates, key=lambda candidate: candidate[0]["validation"])
    return {
        "lr": lr,
        "dropout": dropout,
        "weight_decay": decay,
        "ranks": [round(rank, 2) for rank in ranks[: layers - 1]],
        "runs": [first],
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
