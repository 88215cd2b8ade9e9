"""Accuracy of ten architectures by depth with their own initial weights and other ones.

64 hidden units, Adam with learning rate 0.001, weight decay 0.0005 and no dropout, at most 40
epochs; the epoch is selected by validation accuracy.
"""

from __future__ import annotations

import json
from itertools import product
from typing import Any

import torch
import torch_geometric.nn as pyg
from torch import Tensor

from gpcanet.utils.atomic import atomic_file

from . import child
from .config import Config
from .timing import Outcome

HIDDEN, EPOCHS, PATIENCE = 64, 40, 20

INITS = ("default", "orthogonal", "gpca")


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
    """Train all networks; finished ones are kept in the working folder and reused."""
    size = config.size
    dataset = size.real[0] if size.real else "digits"  # digits needs no download
    cells = list(product(ARCHITECTURES, size.architecture_depths, INITS))
    config.log(f"training {len(cells)} networks on {dataset}")
    folder = config.work_dir / "architectures"
    folder.mkdir(parents=True, exist_ok=True)
    found = []
    for name, layers, init in cells:
        path = (
            folder / f"{dataset}-{name.replace(', ', '-').replace(' ', '-')}-{layers}-{init}.json"
        )
        if path.exists():
            outcome = dict(json.loads(path.read_text()))
        else:
            outcome = child.run_in_process(
                "architectures.train_one", dataset=dataset, name=name, layers=layers, init=init,
                seeds=size.architecture_seeds, offline=config.offline,
                data_dir=None if config.data_dir is None else str(config.data_dir),
            )  # fmt: skip
            if "test" in outcome:
                with atomic_file(path, overwrite=True) as file:
                    file.write(json.dumps(outcome).encode())
        found.append({"method": name, "layers": layers, "init": init, **outcome})
    return {"dataset": dataset, "cells": found}


def train_one(
    dataset: str, name: str, layers: int, init: str, seeds: int, data_dir: str | None,
    offline: bool | None,
) -> Outcome:  # fmt: skip
    """Train one architecture with several seeds, in this process."""
    from dataclasses import replace

    from gpcanet.datasets import load
    from gpcanet.nn import NodeData, Settings, gpca_init_, orthogonal_init_, train

    torch.set_num_threads(1)
    data = NodeData.of(load(dataset, data_dir, offline=offline))
    data = replace(data, x=data.x.to_dense())
    results, n_set = [], ""
    for seed in range(seeds):
        torch.manual_seed(seed)
        model = ARCHITECTURES[name](data.x.shape[1], data.n_classes, layers)
        if init == "orthogonal":
            report = orthogonal_init_(model, data.x, data.edge_index, seed=seed)
        elif init == "gpca":
            report = gpca_init_(
                model, data.x, data.edge_index, head="logistic", y=data.y, train_mask=data.train,
                val_mask=data.validation, seed=seed,
            )  # fmt: skip
        if init != "default":
            n_set = f"{report.n_set} of {len(report)}"
        results.append(train(model, data, Settings(epochs=EPOCHS, patience=PATIENCE, seed=seed)))
    return {
        "test": [result.accuracy["test"] for result in results],
        "first": [result.curve[0]["test"] for result in results],
        "best_epoch": [result.best_epoch for result in results],
        "layers_set": n_set,
        "seconds": round(sum(result.seconds for result in results), 1),
    }
