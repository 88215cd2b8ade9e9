"""Training of GCN and GPCANet by the settings of a cell."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch

from gpcanet.nn.dropout import Dropout
from gpcanet.nn.init.weights import eigenvectors_needed, mixing
from gpcanet.nn.models import GPCANet
from gpcanet.nn.propagation import GraphPropagation
from gpcanet.nn.tensors import is_sparse
from gpcanet.nn.training.data import NodeData, edges_for
from gpcanet.nn.training.loop import Settings, train
from gpcanet.nn.training.start import starting_model
from gpcanet.utils.outcome import Training

from .cells import Cell, Split
from .embeddings import upper_triangle_vectors
from .loading import DatasetLoader

#: Options of a setup that the model takes.
MODEL_OPTIONS = ("layers", "hidden", "dropout", "alpha", "n_iter", "normalization")

#: Options of a setup that the training takes.
TRAINING_OPTIONS = (
    "epochs", "lr", "weight_decay", "patience", "eval_every", "later_of_ties",
    "parts", "parts_per_batch",
)  # fmt: skip


@lru_cache(maxsize=2)
def _node_data(dataset: str, split: Split, loader: DatasetLoader) -> NodeData:
    return NodeData.of(loader.split(dataset, split))


def train_network(cell: Cell, loader: DatasetLoader) -> Training:
    """Build, initialise and train the model of a cell."""
    setup, seed = cell.setup, cell.seed
    data = _node_data(setup.dataset, cell.split, loader)
    model, _ = starting_model(
        setup.method,
        data,
        init=setup.get("init", "gpca"),
        seed=seed,
        **setup.subset(*MODEL_OPTIONS),
    )
    if isinstance(model, GPCANet):
        if setup["triangle"] == "upper":
            _pretrain_by_one_triangle_(model, data, seed)
        if setup["dropouts"] == 2 and setup["dropout"]:
            last: Any = model.head[-1]
            model.head[-1] = torch.nn.Sequential(Dropout(setup["dropout"]), last)
    settings = Settings(**setup.subset(*TRAINING_OPTIONS), seed=seed)
    return train(model, data, settings)


@torch.no_grad()
def _pretrain_by_one_triangle_(model: GPCANet, data: NodeData, seed: int) -> None:
    """Pretrain as the authors' code does (``embeddings.one_triangle_embedding``)."""
    P: GraphPropagation = edges_for(model, data).edge_index
    x = data.x
    for layer in model.convs:
        conv: Any = layer
        H = (x.to_dense() if is_sparse(x) else x).double()
        H = H - H.mean(0)
        F = conv._propagate(P, H.float()).double()
        k = eigenvectors_needed(conv.out_channels, conv.in_channels, pairs=True)
        vectors = upper_triangle_vectors((H.T @ F).numpy(), k)
        weight = vectors @ mixing(k, conv.out_channels, pairs=True, seed=seed)
        conv.weight.copy_(torch.from_numpy(weight))
        conv.seen.zero_()
        x = torch.relu(conv(x, P))
