"""GPCA initialisation: one forward pass sets the weights of a GNN (section 4.2 of the paper)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch
from torch import Tensor
from torch_geometric.data.data import BaseData

from ...errors import InputError, InputTypeError
from ...linalg import GhostForm, Normalization
from ...utils.checks import check_number
from ..propagation import EdgeInput, GraphPropagation, missing_labels_error
from ..tensors import check_seed, is_sparse
from .effective_rank import recorded_ranks
from .forward_pass import (
    check_arguments,
    check_one_graph,
    preserved_state,
    restored_on_error,
    run_model,
)
from .head import HeadKind, OutputHead, to_rows
from .linear_part import LinearPart
from .model_input import Forward
from .outputs import find_output_layers
from .report import InitReport
from .rules import WITHOUT_EDGES, unwrap
from .setter import LayerSetter


@torch.no_grad()
def gpca_init_(
    model: torch.nn.Module,
    x: Tensor | BaseData | Mapping[str, Tensor] | None = None,
    edge_index: EdgeInput | Mapping[tuple[str, str, str], EdgeInput] = None,
    edge_weight: Tensor | None = None,
    *,
    alpha: float = 1.0,
    n_iter: int | Literal["gcn"] = "gcn",
    beta: float = 0.0,
    y: Tensor | None = None,
    normalization: Normalization = "sym",
    ghost: GhostForm = "balanced",
    pairs: bool = True,
    spectrum: float | Literal["auto", "paper"] = "auto",
    head: HeadKind | None = None,
    train_mask: Tensor | None = None,
    val_mask: Tensor | None = None,
    last: bool = False,
    skip: Collection[str] = (),
    seed: int = 0,
    forward: Forward | None = None,
) -> InitReport:
    """Set the weights of a model in place by one forward pass over its graph.

    Before a layer runs on its input H, its weights are set to the leading eigenvectors of H^T F,
    where F is what the layer aggregates from H.

    Parameters
    ----------
    model : torch.nn.Module
        A model of PyG's convolutions and linear layers. Add others by ``register_layer``.
    x : Tensor of shape (n_nodes, n_features), or PyG's Data
        Features of all nodes, dense or sparse. Use the whole graph also for a model that is
        trained on mini-batches. The attributes of a ``Data``, ``Batch`` or ``HeteroData`` are
        passed to the parameters of ``model.forward`` with the same names. A dictionary by node
        type for a heterogeneous model. None if ``forward`` is given.
    edge_index : Tensor, Graph or GraphPropagation, optional
        Edges in a form that the model takes. None for a model that takes x only.
    edge_weight : Tensor, optional
        Edge weights; passed to the model if given.
    alpha : float
        Strength of the aggregation. With ``n_iter="gcn"``, F is (1 - alpha) H plus alpha times
        the aggregation of the layer. With a number of steps, as in ``GPCAConv``.
    n_iter : "gcn" or int
        ``"gcn"`` uses the aggregation of each layer (section 4.2 of the paper). A number uses that
        many fixed-point steps on centred H in place of the aggregation of a convolution.
    beta : float
        Share of ghost edges between nodes of equal label in F. If positive, ``y`` is required.
    y : Tensor of shape (n_nodes,) or (n_nodes, n_outputs), optional
        Labels, for ``beta`` and ``head``: integer class codes, -1 where unknown. For ``head``
        alone also a matrix of zeros and ones (multi-label) or continuous values (regression).
    normalization : {"sym", "rw"}
        Normalisation of the fixed-point steps and of the ghost edges.
    ghost : {"balanced", "paper"}
        Form of the ghost edges, as in ``GPCA``.
    pairs : bool
        Use each eigenvector with both signs. Use False for a model without ReLU or a similar
        activation.
    spectrum : "auto", "paper" or float
        Scale of the directions of a layer. A number t in [0, 1] divides eigenvector v_i by the
        power t of the standard deviation of F v_i: 0 keeps the proportions of the paper, 1 makes
        all directions equally strong (white). ``"auto"`` is 0, or 0.5 for a layer that does not
        use differences (see Notes) and whose F has an effective rank below a quarter of the
        number of directions. ``"paper"`` is the initialisation of the paper: orthonormal weights,
        no differences, biases unchanged.
    head : {"ridge", "logistic"}, optional
        Set the output layer to a ridge or logistic regression from its input to the labels of the
        training nodes, so that the model predicts before the first epoch. A ridge regression
        leaves more to the training. A hidden layer with fewer directions than the labels have
        classes is set by the same regression.
    train_mask : Tensor of shape (n_nodes,), optional
        Training nodes, as a mask or as positions. Required for ``head``; labels of other nodes are
        not used.
    val_mask : Tensor of shape (n_nodes,), optional
        Nodes on which the penalty of ``head`` is chosen. By default it is chosen by
        cross-validation on the training nodes.
    last : bool
        Set the output layers like the others: those whose result the model returns and no other
        layer uses.
    skip : collection of str
        Names of layers to leave alone, as in ``model.named_modules()``.
    seed : int
        Random seed of the columns of a layer that is wider than the number of eigenvectors.
    forward : callable, optional
        ``forward(model)`` runs the model, if it is not called as ``model(x, edge_index)``. ``x``
        and ``edge_index`` are then needed for ``n_iter`` and ``beta`` only.

    Returns
    -------
    InitReport
        One entry per layer. It is an error if no layer can be set.

    Notes
    -----
    Nothing but the weights and biases of the layers changes. Except with ``spectrum="paper"``:

    - The biases are zero and each layer is divided by one number, so that the entries of its output
      have root mean square 0.1.
    - With ``pairs``, an activation returns f(z) and f(-z). A later layer uses only the differences
      of such pairs, which are z again for ReLU, GELU and SiLU and a multiple of z for LeakyReLU.
      The network is therefore linear before training, and its hidden features do not collapse
      with depth as those of a nonlinear network do ("looks linear" initialisation, Balduzzi et
      al., ICML 2017).

    With ``spectrum="paper"``, if an aggregation increases the norm of the features, as a sum over
    neighbours does, the weights are divided by that factor.

    Examples
    --------
    >>> import torch_geometric.nn as pyg
    >>> x, edges = torch.eye(6, 4), torch.tensor([[0, 1, 2, 3, 4, 5], [1, 0, 3, 2, 5, 4]])
    >>> report = gpca_init_(pyg.GCN(4, 8, num_layers=3, out_channels=2), x, edges)
    >>> report.n_set, len(report)
    (2, 3)
    """
    given = check_arguments(model, x, edge_index, edge_weight, forward)
    model = unwrap(model)
    check_number("alpha", alpha, 0, 1e6, advice="use alpha=1 for a GCN")
    check_number("beta", beta, 0, 1, advice="use 0 to ignore labels")
    if n_iter != "gcn":
        check_number("n_iter", n_iter, 1, advice="or use n_iter='gcn'", integer=True)
    if spectrum not in ("auto", "paper"):
        check_number("spectrum", spectrum, 0, 1, advice="or use 'auto' or 'paper'")
    check_seed(seed)
    if isinstance(skip, str):
        raise InputTypeError(f"skip={skip!r} is a string; give a list of names, [{skip!r}]")
    if beta > 0 and y is None:
        raise missing_labels_error(beta)
    output_head = None if head is None else OutputHead.of(head, y, train_mask, val_mask)
    P = None
    if n_iter != "gcn" or beta > 0:
        check_one_graph(given, "n_iter and beta need", "use n_iter='gcn' and beta=0")
        # With "gcn", P consists of the ghost edges only and is added to the layer's aggregation.
        ghost_share = 1.0 if n_iter == "gcn" else beta
        P = GraphPropagation(
            given.edge_index, given.edge_weight, n_nodes=given.x.shape[0],
            normalization=normalization, y=_training_labels(y, train_mask), beta=ghost_share,
            ghost=ghost,
        )  # fmt: skip

    run = partial(run_model, model, given)
    setter = LayerSetter(
        model, _Aggregation(alpha, n_iter, beta, P), center=n_iter != "gcn", pairs=pairs,
        spectrum=spectrum, head=output_head, skip=skip, seed=seed,
        x=given.x if isinstance(given.x, Tensor) and not is_sparse(given.x) else None,
    )  # fmt: skip
    layers = setter.layers.values()
    with preserved_state(model):
        with setter.checking(), recorded_ranks(layers) as ranks_before:
            outputs = find_output_layers(model, run)
        if output_head is not None:
            _check_single_output(outputs, output_head)
        elif last:
            outputs = set()
        with (
            restored_on_error(layers),
            setter.setting(outputs),
            recorded_ranks(layers) as ranks_after,
        ):
            run()
    report = setter.report(ranks_before, ranks_after)
    report.raise_if_empty()
    return report


def _check_single_output(outputs: set[str], head: OutputHead) -> None:
    if len(outputs) != 1:
        found = f"the output layers {' and '.join(sorted(outputs))}" if outputs else "none"
        raise InputError(
            f"head={head.regression!r} sets one output layer, but the model has {found}; add a "
            f"linear layer that returns the scores, or use head=None"
        )


def _training_labels(y: Tensor | None, train_mask: Tensor | None) -> Tensor | None:
    """Labels of the training nodes, -1 for all other nodes."""
    if y is None or train_mask is None:
        return y
    y = torch.as_tensor(y)
    y = y if y.is_floating_point() else y.long()  # bool and uint8 have no -1
    train = torch.from_numpy(to_rows(train_mask, len(y), "train_mask")).to(y.device)
    labels = torch.full_like(y, -1)
    labels[train] = y[train]
    return labels


@dataclass(frozen=True)
class _Aggregation:
    """Computes F from columns of the input H of a layer."""

    alpha: float
    n_iter: int | Literal["gcn"]
    beta: float
    P: GraphPropagation | None

    def __call__(self, part: LinearPart, H: Tensor) -> Tensor:
        P = self.P
        if P is not None and H.shape[0] != P.n_nodes:
            P = None  # rows are edges or pooled nodes
        if self.n_iter != "gcn":
            if P is None or isinstance(part.layer.module, WITHOUT_EDGES):
                return part.aggregate(H)
            return P.fixed_point(H, self.alpha, self.n_iter)
        F = part.aggregate(H)
        F = F if self.alpha == 1 else (1 - self.alpha) * H + self.alpha * F
        return F if P is None else (1 - self.beta) * F + self.beta * (P @ H)
