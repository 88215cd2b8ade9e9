"""Time to train deep GCNs with several seeds: fused passes, and layer by layer in torch.

Every method trains the same networks from the same weights. The first two use one thread; the
third trains one network per core.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import product
from typing import Any

from . import child
from .config import Config
from .timing import Outcome, time_interleaved

NETWORKS, HIDDEN = 5, 128

#: Layers times epochs of a network; at least two epochs.
LAYER_EPOCHS = 75

#: Seconds after which a method is not repeated.
PATIENCE = 10.0

DROPOUT = (0.0, 0.5)

#: Graphs of the size "quick" need no download.
GRAPHS = ("cora", "pubmed")

LAYERS, FUSED, MANY = METHODS = ("layer by layer", "train", "train_many")


def run(config: Config) -> dict[str, Any]:
    size = config.size
    graphs = [name for name in GRAPHS if name in size.real] or ["digits"]
    results: dict[str, Any] = {"networks": NETWORKS, "hidden": HIDDEN}
    results["graphs"] = {}
    for dataset, layers, dropout in product(graphs, size.trained_depths, DROPOUT):
        name = f"{dataset}, {layers} layers, dropout {dropout:g}"
        config.log(f"training {NETWORKS} GCNs: {name}")
        results["graphs"][name] = child.run_in_process(
            "training.measure", dataset=dataset, layers=layers, dropout=dropout,
            repeats=config.repeats, offline=config.offline,
            data_dir=None if config.data_dir is None else str(config.data_dir),
        )  # fmt: skip
    return results


def measure(
    dataset: str, layers: int, dropout: float, repeats: int, data_dir: str | None,
    offline: bool | None,
) -> Outcome:  # fmt: skip
    """Seconds of each method in this process, and the largest difference of their losses."""
    import torch

    from gpcanet.datasets import load
    from gpcanet.linalg.parallel import available_cores, one_blas_thread
    from gpcanet.nn import GCN, NodeData, Settings, train, train_many

    class LayerByLayer(GCN):
        """A subclass of GCN, which may change anything, is called by torch."""

    data = NodeData.of(load(dataset, data_dir, offline=offline))
    epochs = max(2, LAYER_EPOCHS // layers)
    settings = [Settings(epochs=epochs, seed=seed) for seed in range(NETWORKS)]
    losses: dict[str, list[float]] = {}

    def task(name: str, kind: Any, n_threads: int, train_all: Callable[..., Any]) -> Any:
        def work() -> None:
            torch.manual_seed(0)
            sizes = data.x.shape[1], HIDDEN, layers, data.n_classes
            models = [kind(*sizes, dropout=dropout) for _ in range(NETWORKS)]
            os.environ["OMP_NUM_THREADS"] = str(n_threads)  # read by our kernels
            torch.set_num_threads(1)
            with one_blas_thread():
                results = train_all(models)
            losses[name] = [result.curve[-1]["loss"] for result in results]

        return work

    def one_by_one(models: list[torch.nn.Module]) -> Any:
        return [train(model, data, own) for model, own in zip(models, settings, strict=True)]

    methods = time_interleaved(
        {
            LAYERS: task(LAYERS, LayerByLayer, 1, one_by_one),
            FUSED: task(FUSED, GCN, 1, one_by_one),
            MANY: task(MANY, GCN, available_cores(), lambda m: train_many(m, data, settings)),
        },
        repeats,
        patience=PATIENCE,
    )
    expected = losses.get(LAYERS, [])
    differences = [
        abs(a - b) for found in losses.values() for a, b in zip(found, expected, strict=True)
    ]
    difference = max(differences, default=None)
    return {"epochs": epochs, "methods": methods, "largest_difference": difference}
