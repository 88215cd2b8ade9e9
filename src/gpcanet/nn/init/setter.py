"""Set the weights of each layer in the forward pass of a model, just before the layer runs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ...errors import InputError
from ..tensors import check_same_dtype, stored_values
from .eigenvectors import layer_eigenvectors, mixing_matrix
from .report import InitReport, LayerReport
from .rules import (
    LINEAR,
    MODEL_NAME,
    LayerSkipped,
    Rule,
    Tower,
    bind_aggregation,
    find_layers,
    find_towers,
    find_weights,
)


class _ContainerInput(NamedTuple):
    """Input of a layer whose weights are in layers inside it, such as GINConv."""

    prefix: str
    n_rows: int
    row_norm: float


class LayerSetter:
    """Sets the layers of a model, keeps their previous weights, and reports what was done.

    ``aggregate(layer, own, H)`` returns F for columns H of a layer's input; ``own`` is the
    aggregation of the layer itself. With ``center``, H is the centred input.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        aggregate: Callable[[Any, Callable[[Tensor], Tensor], Tensor], Tensor],
        *,
        center: bool,
        pairs: bool,
        skip: Collection[str],
        seed: int,
    ) -> None:
        self.aggregate, self.center, self.pairs, self.seed = aggregate, center, pairs, seed
        self.layers, self.without_rule = find_layers(model)
        self.towers = find_towers(model)
        if unknown := set(skip) - set(self.layers):
            raise InputError(
                f"skip has {min(unknown)!r}, but the layers are {', '.join(self.layers)}"
            )
        self.skip = skip
        self.previous: dict[str, list[tuple[Tensor, Tensor]]] = {}  # weights and their old values
        self.reports: dict[str, LayerReport] = {}
        self.written: set[torch.nn.Parameter] = set()
        self.container: _ContainerInput | None = None

    @contextmanager
    def hooked(self) -> Iterator[None]:
        """Set every layer that runs inside the block."""
        handles = [
            layer.register_forward_pre_hook(self._hook(name, layer, rule), with_kwargs=True)
            for name, (layer, rule) in self.layers.items()
        ]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    @contextmanager
    def restoring_on_error(self) -> Iterator[None]:
        """Restore all weights if the block raises an error."""
        try:
            yield
        except BaseException:
            for name in reversed(list(self.previous)):
                self._restore(name)
            raise

    def restore_output_layers(self, outputs: set[str]) -> None:
        """Restore the weights of output layers and report them as not set."""
        article = "the" if len(outputs) == 1 else "an"
        reason = f"{article} output layer; last=True sets it, too"
        for name in outputs & self.reports.keys():
            self._restore(name)
            if self.reports[name].is_set:
                self.reports[name] = replace(
                    self.reports[name], is_set=False, kept=None, reason=reason
                )

    def report(self) -> InitReport:
        """Return one entry per layer: those that ran, in their order, and then the others."""
        not_reached = [
            LayerReport(name, type(layer).__name__, reason="the forward pass did not reach it")
            for name, (layer, rule) in self.layers.items()
            if name not in self.reports and not rule.is_container
        ]
        return InitReport("gpca", (*self.reports.values(), *not_reached, *self.without_rule))

    def _restore(self, name: str) -> None:
        for weight, values in self.previous.pop(name, []):
            weight.copy_(values)

    def _hook(self, name: str, layer: Any, rule: Rule) -> Callable[..., None]:
        def set_before_run(_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            if args:
                H, args = args[0], args[1:]
            else:
                kwargs = dict(kwargs)
                H = kwargs.pop(next(iter(inspect.signature(layer.forward).parameters)), None)
            H = _check_input(name, layer, H)
            if rule.is_container:
                prefix = "" if name == MODEL_NAME else f"{name}."
                self.container = _ContainerInput(prefix, H.shape[0], _row_norm(H))
            elif name not in self.reports:  # a layer that runs again keeps its first weights
                try:
                    self._set(name, layer, rule, H, args, kwargs)
                except LayerSkipped as error:
                    self.reports[name] = LayerReport(name, type(layer).__name__, reason=str(error))

        return set_before_run

    def _set(
        self, name: str, layer: Any, rule: Rule, H: Tensor, args: tuple[Any, ...], kwargs: Any
    ) -> None:
        if name in self.skip:
            raise LayerSkipped("skipped on request")
        weights = find_weights(layer, rule)
        if self.written & weights.keys():
            raise LayerSkipped("shares its weights with a layer that was set before")
        matrices = list(weights.values())
        n_in, n_out = matrices[0].shape
        if H.shape[-1] != n_in:
            raise InputError(
                f"layer {name} has {n_in} input features but gets {H.shape[-1]}; give x with the "
                f"features that the model expects"
            )
        check_same_dtype(H, matrices[0], f"layer {name}")
        if H.dim() != 2:
            if not isinstance(layer, LINEAR):
                raise LayerSkipped(f"its input has {H.dim()} dimensions")
            H = H.reshape(-1, n_in)
        copies = rule.copies(layer)
        tower = self.towers.get(layer, Tower())
        # Towers with the same input would otherwise all have the same weights.
        index, count = (tower.index, tower.count) if tower.same_input else (0, 1)
        C = mixing_matrix(
            n_in, n_out // copies, pairs=self.pairs, seed=self.seed, tower=index, n_towers=count
        )
        own = bind_aggregation(layer, rule, H.shape[0], args, kwargs)
        aggregate = partial(self.aggregate, layer, own)
        found = layer_eigenvectors(H, aggregate, len(C), center=self.center)
        gain = max(1.0, found.gain * self._container_gain(name, H, tower))
        values = torch.from_numpy(np.tile(found.vectors @ C / gain, copies))
        self.previous[name] = [(matrix, matrix.clone()) for matrix in matrices]
        for matrix in matrices:
            matrix.copy_(values)
        self.written |= weights.keys()
        self.reports[name] = LayerReport(
            name, type(layer).__name__, n_in, n_out, is_set=True, kept=found.kept
        )

    def _container_gain(self, name: str, H: Tensor, tower: Tower) -> float:
        """Factor by which the layer around this one has increased the norm of its rows."""
        around = self.container
        if around is None or not name.startswith(around.prefix) or H.shape[0] != around.n_rows:
            return 1.0
        if tower.index == tower.count - 1:
            self.container = None  # layers further inside get the output of this one
        return _row_norm(H) / around.row_norm if around.row_norm > 0 else 1.0


def _check_input(name: str, layer: Any, H: Any) -> Tensor:
    if isinstance(H, tuple | list):
        raise InputError(
            f"layer {name} ({type(layer).__name__}) gets two sets of nodes; initialisation needs a "
            f"graph with one set (PyG: to_homogeneous()), not a bipartite graph or a sampled "
            f"mini-batch"
        )
    if not isinstance(H, Tensor):
        raise InputError(
            f"the first argument of layer {name} ({type(layer).__name__}) is a "
            f"{type(H).__name__}; call the layer as layer(x, edge_index)"
        )
    return H


def _row_norm(H: Tensor) -> float:
    """Root mean square of the norms of the rows."""
    return float(stored_values(H).double().square().sum() / max(1, H.shape[0])) ** 0.5
