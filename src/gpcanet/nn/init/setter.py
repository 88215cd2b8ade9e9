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
from .eigenvectors import layer_eigenvectors, mixing_matrix
from .linear_part import Features, LinearPart, check_finite, parts_of, read_features, row_norm
from .report import InitReport, LayerReport
from .rules import MODEL_NAME, LayerSkipped, Rule, Tower, find_layers, find_towers, find_weights


class _ContainerInput(NamedTuple):
    """Input of a layer whose weights are in layers inside it, such as GINConv."""

    prefix: str
    H: Tensor


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
        self.model = model
        self.layers, self.cannot_be_set = find_layers(model)
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
        checked = {name: layer for name, (layer, _) in self.layers.items()}
        for report in self.cannot_be_set:
            is_model = report.name == MODEL_NAME
            checked[report.name] = self.model if is_model else self.model.get_submodule(report.name)
        handles += [
            layer.register_forward_hook(partial(_check_output, name))
            for name, layer in checked.items()
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
        return InitReport("gpca", (*self.reports.values(), *not_reached, *self.cannot_be_set))

    def _restore(self, name: str) -> None:
        for weight, values in self.previous.pop(name, []):
            weight.copy_(values)

    def _hook(self, name: str, layer: Any, rule: Rule) -> Callable[..., None]:
        def set_before_run(_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            if args:
                first, args = args[0], args[1:]
            else:
                kwargs = dict(kwargs)
                first = kwargs.pop(next(iter(inspect.signature(layer.forward).parameters)), None)
            kind = type(layer).__name__
            if isinstance(first, Tensor | tuple | list):
                check_finite(first, f"layer {name} ({kind}) gets")
            try:
                features = read_features(first)
                if rule.is_container:
                    prefix = "" if name == MODEL_NAME else f"{name}."
                    self.container = _ContainerInput(prefix, parts_of(features)[-1])
                elif name not in self.reports:  # a layer that runs again keeps its first weights
                    self._set(name, layer, rule, features, args, kwargs)
            except LayerSkipped as error:
                if not rule.is_container:
                    self.reports[name] = LayerReport(name, kind, reason=str(error))

        return set_before_run

    def _set(
        self,
        name: str,
        layer: Any,
        rule: Rule,
        features: Features,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> None:
        if name in self.skip:
            raise LayerSkipped("skipped on request")
        if self.written & find_weights(layer, rule).keys():
            raise LayerSkipped("shares its weights with a layer that was set before")
        part = LinearPart(name, layer, rule, features, args, kwargs)
        values, kept = self._eigenvector_weights(name, layer, part, pairs=self.pairs and rule.pairs)
        self.previous[name] = [(view, view.clone()) for view in part.weights.values()]
        part.copy_(values)
        self.written |= part.weights.keys()
        self.reports[name] = LayerReport(
            name, type(layer).__name__, part.in_channels, part.out_channels, is_set=True, kept=kept
        )

    def _eigenvector_weights(
        self, name: str, layer: Any, part: LinearPart, *, pairs: bool
    ) -> tuple[np.ndarray, float]:
        """Return weights from the leading eigenvectors of H^T F, and the share of F they keep.

        The weights have shape (n_stacks, in_channels, width).
        """
        tower = self.towers.get(layer, Tower())
        # Towers with the same input would otherwise all have the same weights, and so would stacks.
        index, count = (tower.index, tower.count) if tower.same_input else (0, part.n_stacks)
        C = np.stack([
            mixing_matrix(
                part.H.shape[1], part.width, pairs=pairs, seed=self.seed, tower=index + stack,
                n_towers=count,
            )
            for stack in range(part.n_stacks)
        ])  # fmt: skip
        aggregate = partial(self.aggregate, layer, part.aggregate)
        found = layer_eigenvectors(part.H, aggregate, C.shape[1], center=self.center)
        gain = part.gain * found.gain * self._container_gain(name, part.H, tower)
        return found.vectors @ C / max(1.0, gain), found.kept

    def _container_gain(self, name: str, H: Tensor, tower: Tower) -> float:
        """Factor by which the layer around this one has increased the norm of its rows."""
        around = self.container
        if around is None or not name.startswith(around.prefix):
            return 1.0
        if H.shape[0] != around.H.shape[0]:
            return 1.0  # its rows are edges
        if H is around.H:
            return 1.0  # this layer runs before the aggregation, as those of GENConv do
        if tower.index == tower.count - 1:
            self.container = None  # layers further inside get the output of this one
        norm = row_norm(around.H)
        return row_norm(H) / norm if norm > 0 else 1.0


def _check_output(name: str, layer: Any, _: Any, output: Any) -> None:
    check_finite(output, f"layer {name} ({type(layer).__name__}) returns")
