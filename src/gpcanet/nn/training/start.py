"""A model ready to train: built, and its weights set."""

from __future__ import annotations

from typing import Any

import torch

from ...utils.checks import check_choice
from ..init.gpca import gpca_init_
from ..init.passes import layers_of
from ..init.report import InitReport
from ..models import GPCANet
from .data import NodeData, edges_for, suited_to
from .zoo import INITS, build_model


def starting_model(
    name: str, data: NodeData, *, init: str = "xavier", seed: int = 0, **shape: Any
) -> tuple[torch.nn.Module, InitReport]:
    """A model by name for some data, initialised one way; the same seed gives the same weights.

    For GPCANet, "gpca" is its own pre-training; of a model with a single layer it sets that one.
    """
    check_choice("init", init, tuple(INITS))
    with torch.random.fork_rng([]):
        torch.manual_seed(seed)  # of what no initialiser sets: biases, attention, norms
        model = build_model(name, data.x.shape[1], data.n_classes, **shape)
    data = suited_to(model, data)
    edges = edges_for(model, data)
    if init != "gpca":
        return model, INITS[init](model, data.x, edges.edge_index, seed=seed)
    # What gpca leaves alone, the output layer, starts like everybody's.
    INITS["xavier"](model, data.x, edges.edge_index, seed=seed)
    if isinstance(model, GPCANet):
        return model, model.pretrain_(data.x, edges.edge_index, seed=seed)
    layers, _ = layers_of(model)
    alone = sum(not rule.passes_on for _, rule in layers.values()) == 1
    return model, gpca_init_(model, data.x, *edges, last=alone, seed=seed)
