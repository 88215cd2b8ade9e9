"""GCN and GPCANet as cells want them."""

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
from gpcanet.nn.training.settings import Settings
from gpcanet.nn.training.zoo import build_initialized_model
from gpcanet.utils.outcome import Training

from .cells import Cell
from .data import Source
from .embeddings import upper_triangle_vectors

OF_MODEL = ("layers", "hidden", "dropout", "alpha", "n_iter", "normalization")
OF_TRAINING = (
    "epochs", "lr", "weight_decay", "patience", "eval_every", "later_of_ties",
    "parts", "parts_per_batch",
)  # fmt: skip


@lru_cache(maxsize=2)
def _nodes(dataset: str, split: str, source: Source) -> NodeData:
    return NodeData.of(source.split(dataset, split))


def train_network(cell: Cell, source: Source) -> Training:
    """Build, initialise and train what a cell describes."""
    setup, seed = cell.setup, cell.seed
    data = _nodes(setup.dataset, cell.split, source)
    model, _ = build_initialized_model(
        setup.method, data, init=setup.get("init", "gpca"), seed=seed, **setup.some(*OF_MODEL)
    )
    if isinstance(model, GPCANet):
        if setup["triangle"] == "upper":
            _pretrain_by_one_triangle_(model, data, seed)
        if setup["dropouts"] == 2 and setup["dropout"]:
            last: Any = model.head[-1]
            model.head[-1] = torch.nn.Sequential(Dropout(setup["dropout"]), last)
    settings = Settings(**setup.some(*OF_TRAINING), seed=seed)
    return train(model, data, settings)


@torch.no_grad()
def _pretrain_by_one_triangle_(model: GPCANet, data: NodeData, seed: int) -> None:
    """``pretrain_`` as the authors' code does it (``embeddings.one_triangle_embedding``)."""
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
