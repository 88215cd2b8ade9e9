"""The linear part F W of a layer on its input: checks the input, finds F, and copies W."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from ...errors import InputError
from ..tensors import check_same_dtype, stored_values
from .aggregation import Aggregation, Pair, has_separate_parts
from .outputs import tensors_in
from .rules import LINEAR, LayerSkipped, Rule, find_roots, find_weights

Features: TypeAlias = Tensor | Pair


class LinearPart:
    """F and the weights of a layer for one input.

    The weights are parts of W, of which there are ``n_stacks`` with ``width`` columns. If they are
    different blocks of rows of W (pairs of node sets, several aggregations), then F has the
    corresponding columns side by side.
    """

    def __init__(
        self,
        name: str,
        layer: Any,
        rule: Rule,
        features: Features,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> None:
        self.weights, self._roots = find_weights(layer, rule), find_roots(layer, rule)
        if isinstance(features, Pair) and features.root is None:
            self.weights = {key: w for key, w in self.weights.items() if key not in self._roots}
        if isinstance(features, Tensor):
            features = _as_matrix(layer, rule, features, next(iter(self.weights.values())))
        for parameter, view in self.weights.items():
            _check_columns(name, layer, features, view, is_root=parameter in self._roots)
        self.in_channels = parts_of(features)[0].shape[1]
        self.out_channels = max(view.shape[-1] for view in self.weights.values())
        self.width = self.out_channels // rule.copies(layer)
        self.n_stacks = rule.stacks(layer)
        self._layer, self._rule, self._features = layer, rule, features
        self._args, self._kwargs = args, kwargs or {}
        self.is_stacked = isinstance(features, Pair) or has_separate_parts(layer)

    @cached_property
    def _own(self) -> Aggregation:
        n_nodes = parts_of(self._features)[0].shape[0]
        weights = self.weights
        return Aggregation(self._layer, self._rule, weights, n_nodes, self._args, self._kwargs)

    @cached_property
    def H(self) -> Tensor:
        """Input of the layer, or F itself if it has columns side by side."""
        if isinstance(self._features, Tensor) and not self.is_stacked:
            return self._features
        return self._own.stacked(self._features)

    @property
    def aggregate(self) -> Callable[[Tensor], Tensor]:
        """Function from columns of H to columns of F."""
        return (lambda F: F) if self.is_stacked else self._own

    @property
    def gain(self) -> float:
        """Factor by which the rows of H are larger than those of the layer's input."""
        norm = row_norm(*parts_of(self._features)) if self.is_stacked else 0.0
        return row_norm(self.H) / norm if norm > 0 else 1.0

    @property
    def sources(self) -> list[Tensor]:
        """The features that the columns of H are linear functions of, in their order."""
        if has_separate_parts(self._layer):
            return []
        return parts_of(self._features)[: 1 if self._own.n_root == 0 else None]

    def copy_(self, values: np.ndarray) -> None:
        """Copy W, of shape (n_stacks, in_channels, width), into the weights."""
        for parameter, view in self.weights.items():
            rows = torch.from_numpy(values)
            if self.is_stacked:
                first, last = rows.tensor_split([self._own.n_source], dim=1)
                rows = last if parameter in self._roots else first
            rows = rows.repeat(1, 1, view.shape[-1] // self.width)
            view.copy_(rows if self.n_stacks > 1 else rows[0])


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


def parts_of(features: Features) -> list[Tensor]:
    """The features of the node sets."""
    if isinstance(features, Tensor):
        return [features]
    return [part for part in features if part is not None]


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


def _as_matrix(layer: Any, rule: Rule, H: Tensor, weight: Tensor) -> Tensor:
    """Two-dimensional input of a layer, with the zeros that the layer appends to it."""
    if H.dim() != 2:
        if not isinstance(layer, LINEAR):
            raise LayerSkipped(f"its input has {H.dim()} dimensions")
        H = H.reshape(-1, H.shape[-1])
    missing = weight.shape[-2] - H.shape[1]
    return pad(H, (0, missing)) if rule.pads_input and missing > 0 else H


def _check_columns(name: str, layer: Any, H: Features, view: Tensor, *, is_root: bool) -> None:
    part = parts_of(H)[-1 if is_root else 0]
    n_in = view.shape[-2]
    if part.shape[-1] != n_in and (is_root or not has_separate_parts(layer)):
        raise InputError(
            f"layer {name} has {n_in} input features but gets {part.shape[-1]}; give x with the "
            f"features that the model expects"
        )
    check_same_dtype(part, view, f"layer {name}")
