"""The weights of a model that an initialiser can set, one matrix at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..tensors import check_seed
from .forward_pass import before_each_layer
from .linear_part import LinearPart, read_features
from .report import InitReport, LayerReport
from .rules import LayerSkipped, Rule, find_layers, find_weights

#: Fills a tensor of shape (out_channels, in_channels), as the functions of torch.nn.init do.
Fill = Callable[..., Tensor]


@dataclass(frozen=True)
class LayerWeights:
    """A layer and its weights as matrices of shape (in_channels, out_channels)."""

    name: str
    layer: torch.nn.Module
    rule: Rule
    parameters: tuple[torch.nn.Parameter, ...]
    matrices: tuple[Tensor, ...]

    @property
    def in_channels(self) -> int:
        return self.matrices[0].shape[0]

    @property
    def out_channels(self) -> int:
        return self.matrices[0].shape[1]

    def draw_(self, fill: Fill, generator: torch.Generator) -> None:
        """Draw every matrix independently."""
        for matrix in self.matrices:
            n_in, n_out = matrix.shape
            # Drawn on the CPU, so that a seed gives the same weights on every device.
            matrix.copy_(fill(torch.empty(n_out, n_in), generator=generator).T)

    def report_set(self, reason: str = "") -> LayerReport:
        """Return the report of the layer after its weights were set."""
        kind = type(self.layer).__name__
        return LayerReport(
            self.name, kind, self.in_channels, self.out_channels, is_set=True, reason=reason
        )


def find_layer_weights(
    model: torch.nn.Module,
) -> tuple[dict[str, LayerWeights], list[LayerReport]]:
    """Return the layers whose weights can be set by name, and reports of all others."""
    layers, without_rule = find_layers(model)
    found: dict[str, LayerWeights] = {}
    skipped: list[LayerReport] = []
    taken: set[torch.nn.Parameter] = set()
    for name, (layer, rule) in layers.items():
        if rule.is_container:
            continue
        try:
            weights = find_weights(layer, rule)
            if taken & weights.keys():
                raise LayerSkipped("shares its weights with a layer that was set before")
        except LayerSkipped as error:
            skipped.append(LayerReport(name, type(layer).__name__, reason=str(error)))
            continue
        taken |= weights.keys()
        matrices = tuple(matrix for view in weights.values() for matrix in _split(view))
        found[name] = LayerWeights(name, layer, rule, tuple(weights), matrices)
    return found, [*skipped, *without_rule]


def seeded_generator(seed: int) -> torch.Generator:
    """Return a generator on the CPU."""
    check_seed(seed)
    return torch.Generator().manual_seed(int(seed))


@contextmanager
def before_each_run(
    layers: Mapping[str, LayerWeights],
    action: Callable[[LayerWeights, Any, tuple[Any, ...], Any], None],
) -> Iterator[None]:
    """Check the input of each layer that runs, and call ``action(layer, first, args, kwargs)``."""

    def check_and_act(name: str, first: Any, args: tuple[Any, ...], kwargs: Any) -> None:
        found = layers[name]
        with suppress(LayerSkipped):
            LinearPart(name, found.layer, found.rule, read_features(first))
        action(found, first, args, kwargs)

    with before_each_layer({name: layers[name].layer for name in layers}, check_and_act):
        yield


@contextmanager
def recorded_runs(layers: Mapping[str, LayerWeights]) -> Iterator[list[LayerWeights]]:
    """Record the layers that run inside the block, in their order."""
    runs: list[LayerWeights] = []
    with before_each_run(layers, lambda found, *_: runs.append(found)):
        yield runs


@contextmanager
def restored_on_error(layers: Mapping[str, LayerWeights]) -> Iterator[None]:
    """Restore the weights of these layers if the block raises an error."""
    before = [(weight, weight.clone()) for found in layers.values() for weight in found.parameters]
    try:
        yield
    except BaseException:
        for weight, values in before:
            weight.copy_(values)
        raise


def build_report(
    scheme: str,
    reports: Mapping[str, LayerReport],
    layers: Mapping[str, LayerWeights],
    others: Iterable[LayerReport],
) -> InitReport:
    """Return the report: layers that were set in their order, and then all others."""
    not_reached = [
        LayerReport(name, type(found.layer).__name__, reason="the forward pass did not reach it")
        for name, found in layers.items()
        if name not in reports
    ]
    report = InitReport(scheme, (*reports.values(), *not_reached, *others))
    report.raise_if_empty()
    return report


def _split(view: Tensor) -> Iterator[Tensor]:
    """The matrices of a weight that may have leading dimensions, such as one for relations."""
    if view.dim() == 2:
        yield view
    else:
        for part in view:
            yield from _split(part)
