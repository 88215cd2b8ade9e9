"""GCN and GPCANet as cells want them."""

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
from gpcanet.utils.training_result import TrainingResult

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


def train_network(cell: Cell, source: Source) -> TrainingResult:
    """Build, initialise and train what a cell describes."""
    setup, seed = cell.setup, cell.seed
    data = _nodes(setup.dataset, cell.split, source)
    model, _ = starting_model(
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
