"""Virgo: variances that balance forward and backward propagation over a graph (Li et al., 2023)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import numpy as np
import torch
import torch_geometric.nn as pyg
from torch import Tensor

from ...errors import InputError
from ..propagation import EdgeInput, GraphPropagation, to_graph
from ..tensors import to_numpy_or_scipy
from .forward_pass import check_arguments, check_one_graph, preserved_state, run_model
from .layer_weights import ModelWeights
from .model_input import Forward
from .random import HE
from .report import InitReport

#: Convolutions to which the authors apply the rule, with the propagation matrix of a GCN.
CONVOLUTIONS = (pyg.GCNConv, pyg.SAGEConv, pyg.GATConv)


@torch.no_grad()
def virgo_init_(
    model: torch.nn.Module,
    x: Tensor,
    edge_index: EdgeInput = None,
    edge_weight: Tensor | None = None,
    *,
    seed: int = 0,
    forward: Forward | None = None,
) -> InitReport:
    """Set uniform weights whose variance depends on the layer's position and on the graph.

    Source: J. Li, Y. Song, X. Song, D. Wipf, "On the Initialization of Graph Neural Networks",
    ICML 2023, as in the authors' code (github.com/LspongebobJH/virgo_icml2023, ``utils.py``) with
    its default, the harmonic mean. P is the propagation matrix of a GCN, m the mean feature of
    each node, and 1 a vector of ones. Layer l of L convolutions has variance 2 / (1/f_l + 1/b_l):

    - ``f_1 = 2 / in_channels``, and ``f_l = 2 / in_channels * |P^(l-1) m|^2 / |P^l m|^2``
    - ``b_L = n_nodes / ((out_channels - 1) |P 1|^2)``, and
      ``b_l = 2 / out_channels * |P^(L-l) 1|^2 / |P^(L-l+1) 1|^2``

    The rule applies to GCNConv, SAGEConv and GATConv, in the order in which they run. All other
    layers that ``gpca_init_`` can set get He's weights, and the report states it. Output layers
    are set as well; biases are left alone.

    Parameters
    ----------
    model, x, edge_index, edge_weight, forward
        As in ``gpca_init_``. Edge weights are part of P, and edges count in both directions.
    seed : int
        Random seed of the weights.

    Examples
    --------
    >>> x, edges = torch.eye(6, 4), torch.tensor([[0, 1, 2, 3, 4, 5], [1, 0, 3, 2, 5, 4]])
    >>> print(virgo_init_(pyg.GCN(4, 8, num_layers=3, out_channels=2), x, edges).n_set)
    3
    """
    given = check_arguments(model, x, edge_index, edge_weight, forward)
    check_one_graph(given, "Virgo needs", "use another initialiser")
    weights = ModelWeights("virgo", model, seed)
    with preserved_state(model), weights.recorded_runs() as runs:
        run_model(model, given)
    order = {found.name: found for found in runs}
    convolutions = [
        found for found in order.values() if isinstance(found.layer.module, CONVOLUTIONS)
    ]
    variances = {}
    if convolutions:
        graph = to_graph(given.edge_index, given.edge_weight, given.x.shape[0])
        widths = [(found.in_channels, found.out_channels) for found in convolutions]
        values = _variances(GraphPropagation(graph), _row_means(given.x), widths)
        variances = {found.name: value for found, value in zip(convolutions, values, strict=True)}
    with weights.restored_on_error():
        for name, found in order.items():
            if name in variances:
                bound = math.sqrt(3 * variances[name])
                weights.draw_(found, partial(torch.nn.init.uniform_, a=-bound, b=bound))
            else:
                weights.draw_(found, HE, "He's weights, as Virgo has no rule for it")
    return weights.report()


def _variances(
    P: GraphPropagation, means: np.ndarray, widths: Sequence[tuple[int, int]]
) -> list[float]:
    """The variance of each convolution; ``widths`` are their in_channels and out_channels."""
    n_layers = len(widths)
    of_means = _propagated_norms(P, means, n_layers)
    of_ones = _propagated_norms(P, np.ones(P.n_nodes), n_layers)
    if not of_means[-1] > 0:
        raise InputError(
            "the features of every node have mean 0, for which Virgo has no variance; use another "
            "initialiser, or features that are not centred by node"
        )
    variances = []
    for layer, (n_in, n_out) in enumerate(widths):
        after = n_layers - 1 - layer  # number of convolutions that follow
        forward = 2 / n_in * (of_means[layer - 1] / of_means[layer] if layer else 1)
        if after:
            backward = 2 / n_out * of_ones[after - 1] / of_ones[after]
        elif n_out > 1:
            backward = P.n_nodes / ((n_out - 1) * of_ones[0])
        else:
            backward = forward  # the rule needs two classes
        variances.append(2 / (1 / forward + 1 / backward))
    return variances


def _propagated_norms(P: GraphPropagation, vector: np.ndarray, n_steps: int) -> list[float]:
    """Squared norms of P v, P^2 v, ..."""
    v = torch.from_numpy(vector)[:, None]
    norms = []
    for _ in range(n_steps):
        v = P @ v
        norms.append(float(v.square().sum()))
    return norms


def _row_means(x: Tensor) -> np.ndarray:
    X = to_numpy_or_scipy(x)
    return np.asarray(X.sum(axis=1), dtype=float).ravel() / x.shape[1]
