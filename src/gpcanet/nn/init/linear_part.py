"""The linear part F W of a layer on its input: checks the input, finds F, and copies W."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from typing import Any

import numpy as np
import torch
import torch_geometric.nn as pyg
from torch import Tensor
from torch.nn.functional import pad

from ...errors import InputError, UserError
from ...utils.messages import first_line
from ..conv import GCNConv, GPCAConv
from ..propagation import GraphPropagation
from ..tensors import check_same_dtype, dense_blocks, is_sparse, stored_values
from .neighbors import Features, Pair, parts_of
from .outputs import tensors_in
from .rules import (
    LINEAR,
    LayerSkipped,
    NamedLayer,
    WeightMatrix,
    find_weights,
    own_parameters,
    weight_attributes,
)


class LinearPart:
    """F and the weights of a layer for one input.

    The weights are parts of W, of which there are ``n_stacks`` with ``width`` columns. If they are
    different blocks of rows of W (pairs of node sets, several aggregations), then F has the
    corresponding columns side by side, and takes the place of H.
    """

    def __init__(
        self,
        layer: NamedLayer,
        features: Features,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> None:
        self.weights = find_weights(layer)
        if isinstance(features, Pair) and features.root is None:
            self.weights = {key: w for key, w in self.weights.items() if not w.is_root}
        if isinstance(features, Tensor):
            features = _as_matrix(layer, features, next(iter(self.weights.values())))
        for weight in self.weights.values():
            _check_columns(layer, features, weight)
        self.in_channels = parts_of(features)[0].shape[1]
        self.out_channels = max(matrix.shape[-1] for matrix, _ in self.weights.values())
        self.width = self.out_channels // layer.rule.copies(layer.module)
        self.n_stacks = layer.rule.stacks(layer.module)
        self.is_stacked = isinstance(features, Pair) or _has_separate_parts(layer.module)
        n_rows = {is_root: matrix.shape[-2] for matrix, is_root in self.weights.values()}
        self._n_source, self._n_root = n_rows.get(False, 0), n_rows.get(True, 0)
        self.layer, self._features, self._args, self._kwargs = layer, features, args, kwargs or {}

    @property
    def gain(self) -> float:
        """Factor by which the rows of H are larger than those of the layer's input."""
        norm = row_norm(*parts_of(self._features)) if self.is_stacked else 0.0
        return row_norm(self.H) / norm if norm > 0 else 1.0

    @property
    def sources(self) -> list[Tensor]:
        """The features that the columns of H are linear functions of, in their order."""
        if _has_separate_parts(self.layer.module):
            return []
        return parts_of(self._features)[: 1 if self._n_root == 0 else None]

    def copy_(self, values: np.ndarray) -> None:
        """Copy W, of shape (n_stacks, in_channels, width), into the weights."""
        for matrix, is_root in self.weights.values():
            rows = torch.from_numpy(values)
            if self.is_stacked:
                first, last = rows.tensor_split([self._n_source], dim=1)
                rows = last if is_root else first
            rows = rows.repeat(1, 1, matrix.shape[-1] // self.width)
            matrix.copy_(rows if self.n_stacks > 1 else rows[0])

    # -- F: by the function of the rule, or by running the layer with identity matrices --------

    @cached_property
    def H(self) -> Tensor:
        """Input of the layer, or F itself if it has columns side by side."""
        x = self._features
        if isinstance(x, Tensor) and not self.is_stacked:
            return x
        root = x.root if isinstance(x, Pair) else x
        n_rows = None if root is None else root.shape[0]
        width = self._n_source + self._n_root
        if self.layer.rule.aggregate is None:
            F = self._run(x, width, stack=True)
        else:
            has_root = self._n_root > 0 and root is not None
            F = torch.cat([self._of_neighbors(x), *([root] if has_root else [])], 1)
        return _check_shape(F, n_rows, width)

    def aggregate(self, H: Tensor) -> Tensor:
        """Return the columns of F for columns of H."""
        if self.is_stacked:
            return H
        if self.layer.rule.aggregate is None:
            F = self._run(H, H.shape[1])
        else:
            F = self._of_neighbors(H)
            F = F + H if self._n_root else F
        return _check_shape(F, H.shape[0], H.shape[1])

    def aggregated_rows(self, rows: np.ndarray) -> np.ndarray:
        """Return some rows of F, dense also for a sparse H."""
        where = torch.from_numpy(rows).to(self.H.device)
        blocks = [self.aggregate(block)[where] for _, block in dense_blocks(self.H)]
        return torch.cat(blocks, 1).double().cpu().numpy()

    def project(self, W: np.ndarray) -> np.ndarray:
        """Return F W."""
        H = self.H
        if not is_sparse(H):  # an aggregation such as "max" is not linear
            return self.aggregate(H).double().cpu().numpy() @ W
        projected = H @ torch.from_numpy(W).to(H.device, H.dtype)
        return self.aggregate(projected).double().cpu().numpy()

    @cached_property
    def _arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Arguments of the layer after its features; the edges are prepared only once."""
        if not isinstance(self.layer.module, GCNConv | GPCAConv):
            return self._args, self._kwargs
        n_nodes = parts_of(self._features)[0].shape[0]
        return (_prepare_edges(self.layer.module, n_nodes, *self._args, **self._kwargs),), {}

    def _of_neighbors(self, x: Features) -> Tensor:
        assert self.layer.rule.aggregate is not None
        reason = "its aggregation fails; correct the function aggregate= in register_layer"
        args, kwargs = self._arguments
        with _explained(reason, x):
            return self.layer.rule.aggregate(self.layer.module, x, *args, **kwargs)

    def _run(self, x: Features, width: int, *, stack: bool = False) -> Tensor:
        names = ", ".join(self.layer.rule.weights + self.layer.rule.root)
        reason = (
            f"it does not run with identity matrices as its weights ({names}); give register_layer "
            f"a function aggregate= that computes what the layer aggregates"
        )
        args, kwargs = self._arguments
        with _explained(reason, x), self._identity_weights(width, stack):
            return self.layer.module.forward(x, *args, **kwargs)

    @contextmanager
    def _identity_weights(self, width: int, stack: bool) -> Iterator[None]:
        """Replace the weights by identity matrices, and the bias by none.

        With ``stack``, the identities of the neighbours and of the node itself have different
        columns.
        """
        module = self.layer.module
        replaced: list[tuple[Any, str, Any]] = []

        def replace(owner: Any, name: str, value: Any) -> None:
            replaced.append((owner, name, getattr(owner, name)))
            setattr(owner, name, value)

        try:
            for owner, name, is_root in list(weight_attributes(self.layer)):
                value = getattr(owner, name)
                n_rows = (self._n_root if is_root else self._n_source) if stack else width
                first = self._n_source if stack and is_root else 0
                if isinstance(value, torch.nn.Module):
                    columns = _Columns(first, width - first - n_rows)
                    replace(owner, name, columns if stack else torch.nn.Identity())
                else:
                    eye = torch.eye(width)[first : first + n_rows].to(value)
                    eye = eye.expand(*value.shape[:-2], -1, -1).contiguous()
                    replace(owner, name, torch.nn.Parameter(eye, requires_grad=False))
            if isinstance(module, pyg.SAGEConv):  # normalises its rows after the projection
                replace(module, "normalize", False)
            if "bias" in own_parameters(module):
                replace(module, "bias", None)
            if isinstance(getattr(module, "out_channels", None), int):
                replace(module, "out_channels", width)
            yield
        finally:
            for owner, name, value in reversed(replaced):
                setattr(owner, name, value)


class _Columns(torch.nn.Module):
    """Identity with columns of zeros before and after it."""

    def __init__(self, before: int, after: int) -> None:
        super().__init__()
        self.before, self.after = before, after

    def forward(self, x: Tensor) -> Tensor:
        return pad(x, (self.before, self.after))


def check_input(layer: NamedLayer, first: Any) -> None:
    """Raise an error if the first argument of a layer does not fit its weights."""
    if not layer.rule.is_container:
        with suppress(LayerSkipped):
            LinearPart(layer, read_features(first))


def read_features(first: Any) -> Features:
    """Check the first argument of a layer: features, or those of source and destination nodes."""
    if isinstance(first, tuple | list) and len(first) == 2:
        source, root = first
        if isinstance(source, Tensor) and (root is None or isinstance(root, Tensor)):
            first = source if root is source else Pair(source, root)
    if not isinstance(first, Tensor | Pair):
        raise LayerSkipped(f"its first argument is a {type(first).__name__} and not features")
    if any(part.dim() == 1 and not part.is_floating_point() for part in parts_of(first)):
        raise LayerSkipped("its input are node indices, so its weight is an embedding")
    return first


def check_finite(value: Any, what: str) -> None:
    """Raise an error if a tensor in the input or the result of a layer is not finite."""
    for tensor in tensors_in(value):
        if not bool(torch.isfinite(stored_values(tensor)).all()):
            raise InputError(
                f"{what} NaN or infinite values; check the features and the parameters of the "
                f"layers up to it"
            )


def row_norm(*blocks: Tensor) -> float:
    """Root mean square of the norms of the rows."""
    total = sum(float(stored_values(H).double().square().sum()) for H in blocks)
    return (total / max(1, sum(H.shape[0] for H in blocks))) ** 0.5


def _as_matrix(layer: NamedLayer, H: Tensor, weight: WeightMatrix) -> Tensor:
    """Two-dimensional input of a layer, with the zeros that the layer appends to it."""
    if H.dim() != 2:
        if not isinstance(layer.module, LINEAR):
            raise LayerSkipped(f"its input has {H.dim()} dimensions")
        H = H.reshape(-1, H.shape[-1])
    missing = weight.matrix.shape[-2] - H.shape[1]
    return pad(H, (0, missing)) if layer.rule.pads_input and missing > 0 else H


def _check_columns(layer: NamedLayer, H: Features, weight: WeightMatrix) -> None:
    part = parts_of(H)[-1 if weight.is_root else 0]
    n_in = weight.matrix.shape[-2]
    if part.shape[-1] != n_in and (weight.is_root or not _has_separate_parts(layer.module)):
        raise InputError(
            f"layer {layer.name} has {n_in} input features but gets {part.shape[-1]}; give x with "
            f"the features that the model expects"
        )
    check_same_dtype(part, weight.matrix, f"layer {layer.name}")


def _has_separate_parts(layer: Any) -> bool:
    """Whether F of a layer has other columns than its input.

    This is so for several aggregations side by side, a projection, and a learnt aggregation.
    """
    aggregation = getattr(layer, "aggr_module", None)
    return bool(
        getattr(layer, "project", False) is True
        or isinstance(aggregation, pyg.MultiAggregation)
        or (aggregation is not None and any(True for _ in aggregation.parameters()))
    )


@contextmanager
def _explained(reason: str, x: Features) -> Iterator[None]:
    """Turn any error of a layer into a reason for the report."""
    try:
        yield
    except (UserError, LayerSkipped):
        raise
    except Exception as error:
        if isinstance(error, NotImplementedError) and isinstance(x, Tensor) and is_sparse(x):
            raise  # the pass explains that the model needs dense features
        raise LayerSkipped(f"{reason} ({type(error).__name__}: {first_line(error)})") from error


def _check_shape(F: Any, n_rows: int | None, width: int) -> Tensor:
    if isinstance(F, tuple) and F:
        F = F[0]  # attention coefficients are returned after the features
    if not isinstance(F, Tensor) or F.dim() != 2 or F.shape != (n_rows or F.shape[0], width):
        shape = tuple(F.shape) if isinstance(F, Tensor) else type(F).__name__
        raise LayerSkipped(
            f"its aggregation has shape {shape} in place of ({n_rows or 'n_nodes'}, {width}); "
            f"correct the names of the weights or the function aggregate= in register_layer"
        )
    return F


def _prepare_edges(
    layer: Any, n_nodes: int, edge_index: Any, edge_weight: Any = None, *y: Any, **kwargs: Any
) -> GraphPropagation:
    return layer.propagation(edge_index, edge_weight, n_nodes, *y, **kwargs)
