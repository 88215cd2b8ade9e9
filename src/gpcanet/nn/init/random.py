"""Random initialisers with the interface of ``gpca_init_``, for comparison.

They set all weights that ``gpca_init_`` can set, those of output layers as well. ``x`` and the
edges are needed only for a model with lazy layers, and are checked if they are given.
"""

from __future__ import annotations

import math
from functools import partial

import torch
from torch import Tensor
from torch.nn.parameter import is_lazy

from ..propagation import EdgeInput
from ..tensors import check_module
from .forward_pass import check_arguments
from .layer_weights import Fill, ModelWeights
from .report import InitReport

#: Glorot's uniform distribution.
XAVIER: Fill = torch.nn.init.xavier_uniform_

#: He's uniform distribution for ReLU.
HE: Fill = partial(torch.nn.init.kaiming_uniform_, nonlinearity="relu")

#: Constant d of G-Init.
G_INIT_CONSTANT = 2.0


def _draw_g_init(tensor: Tensor, *, generator: torch.Generator) -> Tensor:
    """Normal distribution of G-Init."""
    deviation = math.sqrt(2 * G_INIT_CONSTANT / tensor.shape[1])
    return torch.nn.init.normal_(tensor, std=deviation, generator=generator)


def xavier_init_(
    model: torch.nn.Module,
    x: Tensor | None = None,
    edge_index: EdgeInput = None,
    edge_weight: Tensor | None = None,
    *,
    seed: int = 0,
) -> InitReport:
    """Set the weights of all layers by Glorot's uniform distribution (Glorot, Bengio, 2010).

    Examples
    --------
    >>> import torch_geometric.nn as pyg
    >>> model = pyg.GCN(4, 8, num_layers=3, out_channels=2)
    >>> xavier_init_(model).n_set
    3
    """
    return _random_init_("xavier", XAVIER, model, x, edge_index, edge_weight, seed)


def he_init_(
    model: torch.nn.Module,
    x: Tensor | None = None,
    edge_index: EdgeInput = None,
    edge_weight: Tensor | None = None,
    *,
    seed: int = 0,
) -> InitReport:
    """Set the weights of all layers by He's uniform distribution for ReLU (He et al., 2015).

    Examples
    --------
    >>> import torch_geometric.nn as pyg
    >>> model = pyg.GCN(4, 8, num_layers=3, out_channels=2)
    >>> he_init_(model).n_set
    3
    """
    return _random_init_("he", HE, model, x, edge_index, edge_weight, seed)


def orthogonal_init_(
    model: torch.nn.Module,
    x: Tensor | None = None,
    edge_index: EdgeInput = None,
    edge_weight: Tensor | None = None,
    *,
    seed: int = 0,
) -> InitReport:
    """Set the weights of all layers to random orthogonal matrices times sqrt(2) (Saxe, 2014).

    Examples
    --------
    >>> import torch_geometric.nn as pyg
    >>> model = pyg.GCN(4, 8, num_layers=3, out_channels=2)
    >>> orthogonal_init_(model).n_set
    3
    """
    fill = partial(torch.nn.init.orthogonal_, gain=math.sqrt(2))
    return _random_init_("orthogonal", fill, model, x, edge_index, edge_weight, seed)


def g_init_(
    model: torch.nn.Module,
    x: Tensor | None = None,
    edge_index: EdgeInput = None,
    edge_weight: Tensor | None = None,
    *,
    seed: int = 0,
) -> InitReport:
    """Set the weights of all layers by a normal distribution of variance 4 / in_channels (G-Init).

    Source: D. Kelesis, D. Fotakis, G. Paliouras, "Reducing oversmoothing through informed weight
    initialization in graph neural networks", Applied Intelligence 2025. Its variance is
    2 d / in_channels with a constant d, which is 2 for most graphs: twice that of He. The rule is
    that of a reimplementation; it has not been compared with the authors' code.

    Examples
    --------
    >>> from gpcanet.nn import GCN, g_init_
    >>> g_init_(GCN(5, hidden_channels=4, num_layers=2, out_channels=3)).n_set
    2
    """
    return _random_init_("ginit", _draw_g_init, model, x, edge_index, edge_weight, seed)


@torch.no_grad()
def _random_init_(
    scheme: str,
    fill: Fill,
    model: torch.nn.Module,
    x: Tensor | None,
    edge_index: EdgeInput,
    edge_weight: Tensor | None,
    seed: int,
) -> InitReport:
    check_module(model)
    if x is not None or any(is_lazy(parameter) for parameter in model.parameters()):
        check_arguments(model, x, edge_index, edge_weight, None)
    weights = ModelWeights(scheme, model, seed)
    with weights.restored_on_error():
        for found in weights.layers.values():
            weights.draw_(found, fill)
    return weights.report()
