"""The weights of a model that an initialiser can set, one matrix at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..tensors import check_seed
from .forward_pass import before_each_layer, restored_on_error
from .linear_part import check_input
from .report import InitReport, LayerReport
from .rules import (
    LayerSkipped,
    NamedLayer,
    find_layers,
    find_weights,
    reports_of_idle_layers,
)

#: Fills a tensor of shape (out_channels, in_channels), as the functions of torch.nn.init do.
Fill = Callable[..., Tensor]


@dataclass(frozen=True)
class LayerWeights:
    """A layer and its weights as matrices of shape (in_channels, out_channels)."""

    layer: NamedLayer
    parameters: tuple[torch.nn.Parameter, ...]
    matrices: tuple[Tensor, ...]

    @property
    def name(self) -> str:
        return self.layer.name

    @property
    def in_channels(self) -> int:
        return self.matrices[0].shape[0]

    @property
    def out_channels(self) -> int:
        return self.matrices[0].shape[1]

    def copy_scaled_(self, values: list[Tensor], scale: float) -> None:
        """Set the matrices to these values times a scale."""
        for matrix, value in zip(self.matrices, values, strict=True):
            matrix.copy_(value * scale)


class ModelWeights:
    """The weights of a model that an initialiser sets, its random numbers, and its report.

    ``layers`` has the layers that can be set by name, and ``reasons`` those that were set, with
    what is special about them.
    """

    def __init__(self, scheme: str, model: torch.nn.Module, seed: int = 0) -> None:
        check_seed(seed)
        self.scheme, self.generator = scheme, torch.Generator().manual_seed(int(seed))
        self.layers: dict[str, LayerWeights] = {}
        self.reasons: dict[str, str] = {}
        self.skipped: list[LayerReport] = []
        layers, without_rule = find_layers(model)
        taken: set[torch.nn.Parameter] = set()
        for name, layer in layers.items():
            if layer.rule.is_container:
                continue
            try:
                weights = find_weights(layer)
                if taken & weights.keys():
                    raise LayerSkipped("shares its weights with a layer that was set before")
            except LayerSkipped as error:
                self.skipped.append(layer.report(reason=str(error)))
                continue
            taken |= weights.keys()
            # A weight may have leading dimensions, such as one for relations.
            matrices = [
                matrix
                for stack, _ in weights.values()
                for matrix in stack.view(-1, *stack.shape[-2:]).unbind()
            ]
            self.layers[name] = LayerWeights(layer, tuple(weights), tuple(matrices))
        self.skipped += without_rule

    def draw_(self, found: LayerWeights, fill: Fill, reason: str = "") -> None:
        """Draw every matrix of a layer independently."""
        self.reasons[found.name] = reason
        for matrix in found.matrices:
            n_in, n_out = matrix.shape
            # Drawn on the CPU, so that a seed gives the same weights on every device.
            matrix.copy_(fill(torch.empty(n_out, n_in), generator=self.generator).T)

    def before_each_run(
        self, action: Callable[[LayerWeights, Any, tuple[Any, ...], Any], None]
    ) -> AbstractContextManager[None]:
        """Check the input of each layer, and call ``action(layer, first, args, kwargs)``."""

        def check_and_act(layer: NamedLayer, first: Any, args: Any, kwargs: Any) -> None:
            check_input(layer, first)
            action(self.layers[layer.name], first, args, kwargs)

        return before_each_layer([found.layer for found in self.layers.values()], check_and_act)

    @contextmanager
    def recorded_runs(self) -> Iterator[list[LayerWeights]]:
        """Record the layers that run inside the block, in their order."""
        runs: list[LayerWeights] = []
        with self.before_each_run(lambda found, *_: runs.append(found)):
            yield runs

    def restored_on_error(self) -> AbstractContextManager[None]:
        """Restore all weights if the block raises an error."""
        return restored_on_error(found.layer for found in self.layers.values())

    def report(self) -> InitReport:
        """Return the report: layers that were set in their order, and then all others."""
        set_ones = []
        for name, reason in self.reasons.items():
            n_in, n_out = self.layers[name].matrices[0].shape
            set_ones.append(
                self.layers[name].layer.report(
                    in_channels=n_in, out_channels=n_out, is_set=True, reason=reason
                )
            )
        layers = [found.layer for found in self.layers.values()]
        not_reached = reports_of_idle_layers(layers, self.reasons)
        report = InitReport(self.scheme, (*set_ones, *not_reached, *self.skipped))
        report.raise_if_empty()
        return report
