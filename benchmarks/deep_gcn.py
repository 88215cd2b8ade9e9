"""Accuracy of GCNs on Cora by depth and initialisation, with learning curves.

Adam with learning rate 0.001 and 128 hidden units on the public split; the epoch is selected by
validation accuracy. Dropout and weight decay depend only on the depth and are those of the paper's
pool with the best validation accuracy.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import product
from typing import Any

from gpcanet.linalg.parallel import available_cores

from . import child
from .config import Config
from .timing import Outcome

INITS = ("gpca", "xavier", "he", "orthogonal")

#: Epochs of two layers and of more layers.
SHALLOW_EPOCHS, DEEP_EPOCHS = 300, 500

#: Dropout and weight decay of two layers and of more layers.
SHALLOW, DEEP = (0.5, 5e-3), (0.0, 5e-4)

#: Epochs between two points of a learning curve.
CURVE_STEP = 5


def run(config: Config) -> dict[str, Any]:
    """Train all networks, one process per network and core."""
    size = config.size
    dataset = "cora" if "cora" in size.real else "digits"  # digits needs no download
    cells = list(product(size.depths, INITS, range(size.depth_seeds)))
    config.log(f"training {len(cells)} GCNs on {dataset}")

    def train_in_process(cell: tuple[int, str, int]) -> dict[str, Any]:
        layers, init, seed = cell
        outcome = child.run_in_process(
            "deep_gcn.train_one", dataset=dataset, layers=layers, init=init, seed=seed,
            data_dir=None if config.data_dir is None else str(config.data_dir),
            offline=config.offline,
        )  # fmt: skip
        return {"method": init, "layers": layers, "seed": seed, **outcome}

    with ThreadPoolExecutor(available_cores()) as pool:
        runs = list(pool.map(train_in_process, cells))
    return {"dataset": dataset, "runs": runs}


def train_one(
    dataset: str, layers: int, init: str, seed: int, data_dir: str | None, offline: bool | None
) -> Outcome:
    """Train one network in this process."""
    import torch

    from gpcanet.datasets import load
    from gpcanet.nn import NodeData, Settings, train
    from gpcanet.nn.training.registry import build_initialized_model

    torch.set_num_threads(1)
    data = NodeData.of(load(dataset, data_dir, offline=offline))
    dropout, decay = SHALLOW if layers == 2 else DEEP
    epochs = SHALLOW_EPOCHS if layers == 2 else DEEP_EPOCHS
    model, _ = build_initialized_model(
        "gcn", data, init=init, seed=seed, layers=layers, hidden=128, dropout=dropout
    )
    result = train(model, data, Settings(epochs=epochs, weight_decay=decay, seed=seed))
    return {
        "test": result.accuracy["test"],
        "validation": result.accuracy["validation"],
        "best_epoch": result.best_epoch,
        "epochs": result.epochs,
        "seconds": round(result.seconds, 1),
        "curve": [round(evaluation["test"], 4) for evaluation in result.curve[::CURVE_STEP]],
    }
