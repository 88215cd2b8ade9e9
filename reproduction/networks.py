"""Training of GCN and GPCANet by the settings of a cell."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch

from gpcanet.nn.dropout import Dropout
from gpcanet.nn.init.eigenvectors import mixing_matrix
from gpcanet.nn.models import GPCANet
from gpcanet.nn.propagation import GraphPropagation
from gpcanet.nn.tensors import is_sparse
from gpcanet.nn.training.data import NodeData, prepare_edges
from gpcanet.nn.training.loop import train
from gpcanet.nn.training.registry import build_initialized_model
from gpcanet.nn.training.settings import Settings
from gpcanet.utils.training_result import TrainingResult

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


def train_network(cell: Cell, loader: DatasetLoader) -> TrainingResult:
    """Build, initialise and train the model of a cell."""
    setup, seed = cell.setup, cell.seed
    data = _node_data(setup.dataset, cell.split, loader)
    model, _ = build_initialized_model(
        setup.method,
        data,
        init=setup.get("init", "gpca"),
        spectrum="paper",
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
    P: GraphPropagation = prepare_edges(model, data).edge_index
    x = data.x
    for layer in model.convs:
        conv: Any = layer
        H = (x.to_dense() if is_sparse(x) else x).double()
        H = H - H.mean(0)
        F = conv.aggregate(P, H.float()).double()
        C = mixing_matrix(conv.in_channels, conv.out_channels, pairs=True, seed=seed)
        vectors = upper_triangle_vectors((H.T @ F).numpy(), len(C))
        conv.weight.copy_(torch.from_numpy(vectors @ C))
        conv.reset_mean()
        x = torch.relu(conv(x, P))
