"""Checks of tensors that users pass in, before torch fails on them inside a kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..errors import InputError, InputTypeError
from .tensors import values_of


def check_layer_input(x: Any, weight: Tensor, n_features: int) -> None:
    """Raise unless x is a block of features for a layer with this weight."""
    if not isinstance(x, Tensor):
        raise InputTypeError(f"x is a {type(x).__name__}; give a tensor of features")
    if x.dim() != 2 or x.shape[1] != n_features:
        raise InputError(
            f"features of shape {tuple(x.shape)} for a layer of {n_features} in_channels; give "
            f"(nodes, {n_features})"
        )
    check_same_device(x, weight)
    check_same_dtype(x, weight, "the layer")


def check_same_device(x: Tensor, weight: Tensor) -> None:
    if x.device != weight.device:
        raise InputError(
            f"x is on device {x.device} and the model on {weight.device}; move one of them, as "
            f"x.to({str(weight.device)!r})"
        )


def check_same_dtype(x: Tensor, weight: Tensor, holder: str) -> None:
    if x.dtype != weight.dtype and not torch.is_autocast_enabled(x.device.type):
        raise InputError(
            f"{holder} has weights of dtype {_short(weight.dtype)} and gets features of dtype "
            f"{_short(x.dtype)}; convert one of them, as x.to(torch.{_short(weight.dtype)})"
        )


def check_finite_features(x: Tensor) -> None:
    if not bool(torch.isfinite(values_of(x)).all()):
        raise InputError("x has values that are NaN or infinite; fill them in first")


def check_edge_index(edge_index: Tensor, edge_weight: Any, n_nodes: int) -> None:
    """Raise unless these are edges, and weights if given, of a graph of ``n_nodes`` nodes."""
    if edge_index.dim() != 2 or edge_index.shape[0] != 2:
        raise InputError(
            f"edge_index of shape {tuple(edge_index.shape)} must have shape (2, n_edges); "
            f"transpose a list of pairs"
        )
    if edge_index.is_floating_point() or edge_index.is_complex() or edge_index.dtype == torch.bool:
        raise InputTypeError(
            f"edge_index of dtype {_short(edge_index.dtype)} must hold integers, the positions of "
            f"nodes; convert it by edge_index.long()"
        )
    if edge_index.numel() == 0:
        raise InputError(
            "edge_index has no edges, so there is nothing to aggregate; give those of the graph, "
            "or for a model without convolutions edge_index=None"
        )
    least, largest = int(edge_index.min()), int(edge_index.max())
    if least < 0 or largest >= n_nodes:
        raise InputError(
            f"edge_index names node {least if least < 0 else largest} and x has {n_nodes} rows; "
            f"positions go from 0 to {n_nodes - 1}, so give the features of all nodes, not those "
            f"of a mini-batch"
        )
    if edge_weight is None:
        return
    if not isinstance(edge_weight, Tensor) or edge_weight.shape != edge_index.shape[1:]:
        shape = tuple(getattr(edge_weight, "shape", ())) or type(edge_weight).__name__
        raise InputError(
            f"edge_weight of shape {shape} for {edge_index.shape[1]} edges; give a tensor with "
            f"one weight per edge"
        )
    if not bool(torch.isfinite(edge_weight).all()):
        raise InputError("edge_weight has values that are NaN or infinite; fill them in first")


def class_codes(y: Any) -> Tensor:
    """Labels as one integer per node; whole numbers of any type are accepted."""
    if y is None:
        raise InputError("the data have no y; give a class code per node, -1 where unknown")
    if not isinstance(y, Tensor):
        values = np.asarray(y)
        if values.dtype.kind not in "biuf":
            raise InputTypeError(
                f"y of dtype {values.dtype} must hold integer class codes; np.unique(y, "
                f"return_inverse=True) makes codes of names"
            )
        y = torch.from_numpy(values)
    if y.shape[1:] == (1,):  # as OGB has it
        y = y.flatten()
    if y.dim() != 1:
        raise InputError(
            f"y of shape {tuple(y.shape)} has several values per node; give one class code per "
            f"node, as y.argmax(1) does for one-hot labels"
        )
    if y.is_complex():
        raise InputTypeError("y of complex numbers cannot be labels; give integer class codes")
    if y.is_floating_point():
        wrong = ~torch.isfinite(y) | (y != y.floor())
        if bool(wrong.any()):
            node = int(wrong.nonzero()[0])
            raise InputError(
                f"y is {y[node]:g} at node {node}, which is no class code; node regression is not "
                f"supported by train, so give integer class codes, -1 where unknown"
            )
    return y.long()


def positions(nodes: Any, n_nodes: int, name: str) -> Tensor:
    """Positions of nodes in a split as integers."""
    nodes = nodes if isinstance(nodes, Tensor) else torch.from_numpy(np.asarray(nodes))
    if nodes.dim() != 1 or (
        len(nodes) and (nodes.is_floating_point() or nodes.dtype == torch.bool)
    ):
        raise InputTypeError(
            f"{name} of shape {tuple(nodes.shape)} and dtype {_short(nodes.dtype)} must be a list "
            f"of integer positions; np.flatnonzero makes positions of a mask"
        )
    if len(nodes) and not 0 <= int(nodes.min()) <= int(nodes.max()) < n_nodes:
        worst = int(nodes.min()) if int(nodes.min()) < 0 else int(nodes.max())
        raise InputError(
            f"{name} names node {worst}, and there are {n_nodes} nodes; positions go from 0 to "
            f"{n_nodes - 1}"
        )
    return nodes.long()


def _short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
