"""The weights of a model that an initialiser can set, one matrix at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ...utils.checks import check_number
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
    check_number("seed", seed, 0, 2**63 - 1, advice="use seed=0", integer=True)
    return torch.Generator().manual_seed(int(seed))


@contextmanager
def before_each_run(
    layers: Mapping[str, LayerWeights], act: Callable[[LayerWeights, tuple[Any, ...], Any], None]
) -> Iterator[None]:
    """Call ``act(layer, args, kwargs)`` before each run of a layer inside the block."""

    def make_hook(found: LayerWeights) -> Callable[..., None]:
        def hook(_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            _check_features(found, first_argument(args, kwargs))
            act(found, args, kwargs)

        return hook

    handles = [
        found.layer.register_forward_pre_hook(make_hook(found), with_kwargs=True)
        for found in layers.values()
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


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


def first_argument(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Return the first argument of a call, which is the input of a layer."""
    return args[0] if args else next(iter(kwargs.values()), None)


def _split(view: Tensor) -> Iterator[Tensor]:
    """The matrices of a weight that may have leading dimensions, such as one for relations."""
    if view.dim() == 2:
        yield view
    else:
        for part in view:
            yield from _split(part)


def _check_features(found: LayerWeights, first: Any) -> None:
    with suppress(LayerSkipped):
        LinearPart(found.name, found.layer, found.rule, read_features(first))
