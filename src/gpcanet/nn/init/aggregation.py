"""F of a layer: by the function of its rule, or by running it with identity matrices as weights."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
import torch_geometric.nn as pyg
from torch import Tensor
from torch.nn.functional import pad

from ...errors import UserError
from ..conv import GCNConv, GPCAConv
from ..propagation import GraphPropagation
from ..tensors import is_sparse
from .rules import LayerSkipped, Rule, find_roots, own_parameters, weight_attributes


class Pair(NamedTuple):
    """Features of the source and of the destination nodes of a layer."""

    source: Tensor
    root: Tensor | None


class Aggregation:
    """The aggregation of a layer, given its weights and the arguments after the features.

    It is called with columns of the input H and returns the same columns of F, which is the sum of
    what the weights multiply. ``stacked`` has what the weights of the neighbours and of the node
    itself multiply side by side instead.
    """

    def __init__(
        self,
        layer: Any,
        rule: Rule,
        weights: Mapping[torch.nn.Parameter, Tensor],
        n_nodes: int,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> None:
        if isinstance(layer, GCNConv | GPCAConv):
            args, kwargs = (_prepare_edges(layer, n_nodes, *args, **kwargs),), {}
        self.layer, self.rule, self.args, self.kwargs = layer, rule, args, kwargs
        roots = find_roots(layer, rule)
        rows = {parameter in roots: view.shape[-2] for parameter, view in weights.items()}
        self.n_source, self.n_root = rows.get(False, 0), rows.get(True, 0)

    def __call__(self, x: Tensor) -> Tensor:
        """Return F for columns of the layer's input."""
        if self.rule.aggregate is None:
            F = self._run(x, x.shape[1])
        else:
            F = self._of_neighbors(x)
            F = F + x if self.n_root else F
        return _check(F, x.shape[0], x.shape[1])

    def stacked(self, x: Tensor | Pair) -> Tensor:
        """Return the parts of F side by side: of the neighbours, and of the node itself."""
        root = x.root if isinstance(x, Pair) else x
        n_rows = None if root is None else root.shape[0]
        width = self.n_source + self.n_root
        if self.rule.aggregate is None:
            return _check(self._run(x, width, stack=True), n_rows, width)
        parts = [self._of_neighbors(x)] + ([root] if self.n_root and root is not None else [])
        return _check(torch.cat(parts, 1), n_rows, width)

    def _of_neighbors(self, x: Tensor | Pair) -> Tensor:
        assert self.rule.aggregate is not None
        reason = "its aggregation fails; correct the function aggregate= in register_layer"
        with _explained(reason, x):
            return self.rule.aggregate(self.layer, _argument(x), *self.args, **self.kwargs)

    def _run(self, x: Tensor | Pair, width: int, *, stack: bool = False) -> Tensor:
        names = ", ".join(self.rule.weights + self.rule.root)
        reason = (
            f"it does not run with identity matrices as its weights ({names}); give register_layer "
            f"a function aggregate= that computes what the layer aggregates"
        )
        with _explained(reason, x), self._identity_weights(width, stack):
            return self.layer.forward(_argument(x), *self.args, **self.kwargs)

    @contextmanager
    def _identity_weights(self, width: int, stack: bool) -> Iterator[None]:
        """Replace the weights by identity matrices, and the bias by none.

        With ``stack``, the identities of the neighbours and of the node itself have different
        columns.
        """
        layer = self.layer
        replaced: list[tuple[Any, str, Any]] = []

        def replace(owner: Any, name: str, value: Any) -> None:
            replaced.append((owner, name, getattr(owner, name)))
            setattr(owner, name, value)

        try:
            for owner, name, is_root in list(weight_attributes(layer, self.rule)):
                value = getattr(owner, name)
                n_rows = (self.n_root if is_root else self.n_source) if stack else width
                first = self.n_source if stack and is_root else 0
                if isinstance(value, torch.nn.Module):
                    columns = _Columns(first, width - first - n_rows)
                    replace(owner, name, columns if stack else torch.nn.Identity())
                else:
                    eye = torch.eye(width)[first : first + n_rows].to(value)
                    eye = eye.expand(*value.shape[:-2], -1, -1).contiguous()
                    replace(owner, name, torch.nn.Parameter(eye, requires_grad=False))
            if isinstance(layer, pyg.SAGEConv):  # normalises its rows after the projection
                replace(layer, "normalize", False)
            if "bias" in own_parameters(layer):
                replace(layer, "bias", None)
            if isinstance(getattr(layer, "out_channels", None), int):
                replace(layer, "out_channels", width)
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


def has_separate_parts(layer: Any) -> bool:
    """Whether F of a layer has other columns than its input.

    This is so for several aggregations side by side, a projection, and a learnt aggregation.
    """
    aggregation = getattr(layer, "aggr_module", None)
    return bool(
        getattr(layer, "project", False) is True
        or isinstance(aggregation, pyg.MultiAggregation)
        or (aggregation is not None and any(True for _ in aggregation.parameters()))
    )


def _argument(x: Tensor | Pair) -> Any:
    return tuple(x) if isinstance(x, Pair) else x


@contextmanager
def _explained(reason: str, x: Tensor | Pair) -> Iterator[None]:
    """Turn any error of a layer into a reason for the report."""
    try:
        yield
    except (UserError, LayerSkipped):
        raise
    except Exception as error:
        if isinstance(error, NotImplementedError) and isinstance(x, Tensor) and is_sparse(x):
            raise  # the pass explains that the model needs dense features
        first_line = str(error).split("\n")[0]
        raise LayerSkipped(f"{reason} ({type(error).__name__}: {first_line})") from error


def _check(F: Any, n_rows: int | None, width: int) -> Tensor:
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
