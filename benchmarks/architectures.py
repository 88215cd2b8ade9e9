"""Accuracy of ten architectures by depth with their own initial weights and other ones.

64 hidden units, Adam with learning rate 0.001, weight decay 0.0005 and no dropout, at most 40
epochs; the epoch is selected by validation accuracy.
"""

from __future__ import annotations

import os
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import torch
import torch_geometric.nn as pyg
from torch import Tensor

from gpcanet.datasets import Dataset, load, names
from gpcanet.errors import InputError

from .cells import train_cells
from .config import Config
from .prediction import FOLDER_VARIABLE, few_labels, read
from .timing import Outcome

HIDDEN, EPOCHS, PATIENCE = 64, 40, 20

INITS = ("default", "orthogonal", "gpca")

#: Output layers of the initialisations by ``gpca_init_``.
HEADS = {"gpca": "ridge", "gpca, logistic": "logistic"}


class Stack(torch.nn.Module):
    """Convolutions with ReLU after a linear layer, and a linear output layer."""

    def __init__(self, make: Any, n_in: int, n_out: int, layers: int, *, initial: bool) -> None:
        super().__init__()
        self.first = torch.nn.Linear(n_in, HIDDEN)
        self.convs = torch.nn.ModuleList(make(layer) for layer in range(layers))
        self.last = torch.nn.Linear(HIDDEN, n_out)
        self.initial = initial

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        x = initial = self.first(x).relu()
        for conv in self.convs:
            x = (conv(x, initial, edge_index) if self.initial else conv(x, edge_index)).relu()
        return self.last(x)


class Propagated(torch.nn.Module):
    """Multi-layer perceptron whose output is propagated."""

    def __init__(self, n_in: int, n_out: int, layers: int) -> None:
        super().__init__()
        self.mlp = pyg.MLP([n_in, *[HIDDEN] * (layers - 1), n_out], norm=None, dropout=0.0)
        self.propagate = pyg.APPNP(10, 0.1)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.propagate(self.mlp(x), edge_index)


def _residual(layer: int) -> torch.nn.Module:
    return pyg.DeepGCNLayer(
        pyg.GCNConv(HIDDEN, HIDDEN), torch.nn.LayerNorm(HIDDEN), torch.nn.ReLU(), block="res+",
        dropout=0.0,
    )  # fmt: skip


def _transformer(layer: int) -> torch.nn.Module:
    return pyg.TransformerConv(HIDDEN, HIDDEN)


def _gcnii(layer: int) -> torch.nn.Module:
    return pyg.GCN2Conv(HIDDEN, alpha=0.1, theta=0.5, layer=layer + 1)


def _gps(layer: int) -> torch.nn.Module:
    # The attention between all pairs of nodes is linear in their number.
    return pyg.GPSConv(HIDDEN, pyg.GCNConv(HIDDEN, HIDDEN), attn_type="performer")


def _basic(kind: Any, **kwargs: Any) -> Any:
    return lambda n_in, n_out, layers: kind(n_in, HIDDEN, layers, n_out, **kwargs)


def _stack(make: Any, *, initial: bool = False) -> Any:
    return lambda n_in, n_out, layers: Stack(make, n_in, n_out, layers, initial=initial)


#: Called with the numbers of features, classes and layers.
ARCHITECTURES: dict[str, Any] = {
    "GCN": _basic(pyg.GCN),
    "GraphSAGE": _basic(pyg.GraphSAGE),
    "GAT": _basic(pyg.GAT),
    "GATv2": _basic(pyg.GAT, v2=True),
    "GIN": _basic(pyg.GIN),
    "GCNII": _stack(_gcnii, initial=True),
    "ResGCN, layer norm": _stack(_residual),
    "Transformer": _stack(_transformer),
    "APPNP": Propagated,
    "GPS": _stack(_gps),
}


def run(config: Config) -> dict[str, Any]:
    """Train all networks; see ``train_cells``."""
    rounds = [
        (
            [
                {"dataset": dataset, "method": name, "layers": layers, "init": init}
                for dataset, layers, name, init in product(
                    datasets, config.size.architecture_depths, ARCHITECTURES, INITS
                )
            ],
            seeds,
        )
        for datasets, seeds in config.size.architectures
    ]
    return train_cells("architectures.train_one", rounds, config)


def train_one(
    dataset: str,
    method: str,
    layers: int,
    init: str,
    seeds: int,
    earlier: Outcome | None,
    data_dir: str | None,
    offline: bool | None,
) -> Outcome:
    """Train one architecture with the seeds that are missing, in this process."""
    from gpcanet.nn import NodeData, Settings, gpca_init_, orthogonal_init_, train

    torch.set_num_threads(1)
    data = NodeData.of(_load(dataset, data_dir, offline))
    data = replace(data, x=data.x.to_dense())
    runs, layers_set = ([], "") if earlier is None else (earlier["runs"], earlier["layers_set"])
    for seed in range(len(runs), seeds):
        torch.manual_seed(seed)
        model = ARCHITECTURES[method](data.x.shape[1], data.n_classes, layers)
        if init == "orthogonal":
            report = orthogonal_init_(model, data.x, data.edge_index, seed=seed)
        elif init in HEADS:
            report = gpca_init_(
                model, data.x, data.edge_index, head=HEADS[init], y=data.y, train_mask=data.train,
                val_mask=data.validation, seed=seed,
            )  # fmt: skip
        if init != "default":
            layers_set = f"{report.n_set} of {len(report)}"
        result = train(model, data, Settings(epochs=EPOCHS, patience=PATIENCE, seed=seed))
        runs.append({
            "test": result.accuracy["test"],
            "first": result.curve[0]["test"],
            "best_epoch": result.best_epoch,
            "seconds": round(result.seconds, 1),
        })  # fmt: skip
    return {"layers_set": layers_set, "runs": runs}


def _load(dataset: str, data_dir: str | None, offline: bool | None) -> Dataset:
    """A named dataset with its public split, or a graph in a file with a random split."""
    if dataset in names():
        return load(dataset, data_dir, offline=offline)
    folder = os.environ.get(FOLDER_VARIABLE)
    if folder is None:
        raise InputError(f"{FOLDER_VARIABLE} is not set")
    return few_labels(read(Path(folder) / f"{dataset}.npz")[0], seed=0)
