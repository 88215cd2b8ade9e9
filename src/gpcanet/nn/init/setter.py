"""Set the weights of each layer in the forward pass of a model, just before the layer runs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.linalg import block_diag
from torch import Tensor

from ...errors import InputError
from ..tensors import is_sparse
from .effective_rank import effective_rank
from .eigenvectors import (
    OUTPUT_SIZE,
    are_pairs,
    layer_eigenvectors,
    mixing_matrix,
    pair_differences,
)
from .forward_pass import before_each_layer
from .head import OutputHead, Weights
from .linear_part import LinearPart, check_finite, check_input, read_features, row_norm
from .neighbors import parts_of
from .report import InitReport, LayerReport
from .rules import (
    MODEL_NAME,
    LayerSkipped,
    NamedLayer,
    Tower,
    concatenated_heads,
    find_biases,
    find_layers,
    find_towers,
    find_weights,
    get_layer,
    reports_of_idle_layers,
)

#: With ``spectrum="auto"``, effective rank below which a layer is collapsing, as a fraction of the
#: number of its directions.
COLLAPSE = 0.25

#: Power of the inverse standard deviations in a layer that is collapsing.
AUTO_POWER = 0.5


class _ContainerInput(NamedTuple):
    """Input of a layer whose weights are in layers inside it, such as GINConv."""

    prefix: str
    H: Tensor
    basis: np.ndarray | None


class LayerSetter:
    """Sets the layers of a model and reports what was done.

    ``aggregate(part, H)`` returns F for columns H of a layer's input. With ``center``, H is the
    centred input. ``spectrum`` is as in ``gpca_init_``. ``x`` is the dense input of the model, if
    known.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        aggregate: Callable[[LinearPart, Tensor], Tensor],
        *,
        center: bool,
        pairs: bool,
        spectrum: float | str,
        head: OutputHead | None,
        skip: Collection[str],
        seed: int,
        x: Tensor | None,
    ) -> None:
        self.aggregate, self.center, self.pairs, self.seed = aggregate, center, pairs, seed
        self.spectrum, self.head, self.x = spectrum, head, x
        self.outputs: Collection[str] = ()
        self.paired: set[tuple[int, int]] = set()  # widths and blocks of layers set in pairs
        self.model = model
        self.layers, self.cannot_be_set = find_layers(model)
        self.towers = find_towers(model)
        if unknown := set(skip) - set(self.layers):
            raise InputError(
                f"skip has {min(unknown)!r}, but the layers are {', '.join(self.layers)}"
            )
        self.skip = skip
        self.reports: dict[str, LayerReport] = {}
        self.written: set[torch.nn.Parameter] = set()
        self.container: _ContainerInput | None = None

    def checking(self) -> AbstractContextManager[None]:
        """Check the input of every layer that runs inside the block."""
        return self._before_each_layer(lambda layer, first, *_: check_input(layer, first))

    def setting(self, outputs: Collection[str]) -> AbstractContextManager[None]:
        """Set every layer that runs inside the block.

        The layers in ``outputs`` are set by the head, or left alone without one.
        """
        self.outputs = outputs
        return self._before_each_layer(self._set)

    @contextmanager
    def _before_each_layer(self, action: Callable[..., None]) -> Iterator[None]:
        """Call ``action(layer, first, args, kwargs)`` before each layer runs.

        Inputs and results that are not finite are errors.
        """

        def check_and_act(layer: NamedLayer, first: Any, args: Any, kwargs: Any) -> None:
            if isinstance(first, Tensor | tuple | list):
                check_finite(first, f"layer {layer.name} ({type(layer.module).__name__}) gets")
            action(layer, first, args, kwargs)

        with before_each_layer(self.layers.values(), check_and_act), ExitStack() as hooks:
            without_rule = [report.name for report in self.cannot_be_set]
            for name in [*self.layers, *without_rule]:
                layer = get_layer(self.model, name)
                hooks.enter_context(layer.register_forward_hook(partial(_check_output, name)))
            yield

    def report(self, before: Mapping[str, float], after: Mapping[str, float]) -> InitReport:
        """Return one entry per layer: those that ran, in their order, and then the others.

        ``before`` and ``after`` are the effective ranks of the outputs of the layers.
        """
        layers = [layer for layer in self.layers.values() if not layer.rule.is_container]
        not_reached = reports_of_idle_layers(layers, self.reports)
        reached = [
            replace(report, rank_before=before.get(name), rank_after=after.get(name))
            for name, report in self.reports.items()
        ]
        return InitReport("gpca", (*reached, *not_reached, *self.cannot_be_set))

    def _set(self, layer: NamedLayer, first: Any, args: tuple[Any, ...], kwargs: Any) -> None:
        name = layer.name
        if layer.rule.is_container:
            with suppress(LayerSkipped):
                H = parts_of(read_features(first))[-1]
                prefix = "" if name == MODEL_NAME else f"{name}."
                self.container = _ContainerInput(prefix, H, self._basis_of_differences(H))
        elif name not in self.reports:  # a layer that runs again keeps its first weights
            try:
                self.reports[name] = self._set_weights(layer, first, args, kwargs)
            except LayerSkipped as error:
                self.reports[name] = layer.report(reason=str(error))

    def _set_weights(
        self, layer: NamedLayer, first: Any, args: tuple[Any, ...], kwargs: Any
    ) -> LayerReport:
        if layer.name in self.skip:
            raise LayerSkipped("skipped on request")
        if self.written & find_weights(layer).keys():
            raise LayerSkipped("shares its weights with a layer that was set before")
        part = LinearPart(layer, read_features(first), args, kwargs)
        report = layer.report(in_channels=part.in_channels, out_channels=part.out_channels)
        is_output = layer.name in self.outputs
        if is_output and self.head is None:
            return replace(report, reason="an output layer; head='ridge' sets it from labels")
        biases, intercept = find_biases(layer), None
        if self.head is not None and (is_output or self._is_bottleneck(part, self.head)):
            biases.sort(key=lambda bias: bias.numel() != part.width)  # the first gets the intercept
            has_bias = bool(biases) and biases[0].numel() == part.width
            fit = self._fit_output if is_output else self._fit_bottleneck
            weight, fitted_intercept = fit(part, self.head, has_bias=has_bias)
            values, intercept = weight[None], fitted_intercept if has_bias else None
            note = "" if is_output else ", as it is too narrow for eigenvectors"
            report = replace(report, is_set=True, reason=f"{self.head.regression} regression{note}")
        else:
            values, kept = self._eigenvector_weights(part)
            biases = [] if self.spectrum == "paper" else biases
            report = replace(report, is_set=True, kept=kept)
        part.copy_(values)
        for bias in biases:
            bias.zero_()
        if intercept is not None:
            biases[0].copy_(torch.from_numpy(intercept))
        self.written |= part.weights.keys()
        return report

    def _is_bottleneck(self, part: LinearPart, head: OutputHead) -> bool:
        """Whether a hidden layer has fewer directions than the labels have columns.

        The leading eigenvectors, which do not depend on the labels, would then lose classes.
        """
        module, rule = part.layer.module, part.layer.rule
        is_single = rule.is_linear and part.n_stacks == concatenated_heads(module) == 1
        is_narrow = (part.width + 1) // 2 < head.n_outputs <= part.width
        has_pairs = self.pairs and rule.pairs and self.spectrum != "paper"
        return has_pairs and is_single and is_narrow and part.H.shape[0] == len(head.y)

    def _fit_output(self, part: LinearPart, head: OutputHead, *, has_bias: bool) -> Weights:
        """Return the regression of the labels as weights of an output layer."""
        name, module, rule = part.layer
        if not rule.is_linear:
            raise InputError(
                f"head={head.regression!r} sets a linear output layer, but layer {name} is a "
                f"{type(module).__name__}; add a linear layer after it or use head=None"
            )
        return head.fit(part, part.width, has_bias=has_bias)

    def _fit_bottleneck(self, part: LinearPart, head: OutputHead, *, has_bias: bool) -> Weights:
        """Return the regression of the labels as weights of a hidden layer.

        The scores are followed by as many of their negatives as fit, and have size OUTPUT_SIZE.
        """
        fitted = head.fit(part, head.n_outputs, has_bias=has_bias)
        scores = part.project(fitted.weight) + fitted.intercept
        size = np.sqrt(np.mean(np.square(scores))) / OUTPUT_SIZE or 1.0
        blocks = (np.concatenate([block, -block], axis=-1) for block in fitted)
        return Weights(*(block[..., : part.width] / size for block in blocks))

    def _eigenvector_weights(self, part: LinearPart) -> tuple[np.ndarray, float]:
        """Return weights from the leading eigenvectors of H^T F, and the share of F they keep.

        The weights have shape (n_stacks, in_channels, width).
        """
        name, module, rule = part.layer
        tower, blocks = self.towers.get(module, Tower()), concatenated_heads(module)
        # Towers with the same input would otherwise all have the same weights, and so would stacks.
        index, count = (tower.index, tower.count) if tower.same_input else (0, part.n_stacks)
        around = self._container_of(name, part.H, tower)
        basis = self._basis_of_sources(part) if around is None else around.basis
        pairs = self.pairs and rule.pairs
        C = np.stack([
            mixing_matrix(
                part.H.shape[1] if basis is None else basis.shape[1], part.width, pairs=pairs,
                n_blocks=blocks, seed=self.seed, tower=index + stack, n_towers=count,
            )
            for stack in range(part.n_stacks)
        ])  # fmt: skip
        aggregate = partial(self.aggregate, part)
        found = layer_eigenvectors(part.H, aggregate, C.shape[1], center=self.center, basis=basis)
        if pairs:
            n_results = rule.results(module)
            self.paired.add((part.width * n_results, blocks * n_results))
        if self.spectrum == "paper":
            gain = found.gain * part.gain
            if around is not None and row_norm(around.H) > 0:
                gain *= row_norm(part.H) / row_norm(around.H)
            return found.vectors @ C / max(1.0, gain), found.kept
        power = self.spectrum
        if power == "auto":
            is_collapsing = effective_rank(found.projected) < COLLAPSE * C.shape[1]
            power = AUTO_POWER if basis is None and is_collapsing else 0.0
        return found.weights(C, float(power)), found.kept

    def _basis_of_sources(self, part: LinearPart) -> np.ndarray | None:
        """Basis of the differences of paired columns in the features of all node sets."""
        bases = [self._basis_of_differences(source) for source in part.sources]
        if all(basis is None for basis in bases):
            return None
        return block_diag(*(
            np.eye(source.shape[1]) if basis is None else basis
            for source, basis in zip(part.sources, bases, strict=True)
        ))  # fmt: skip

    def _basis_of_differences(self, H: Tensor) -> np.ndarray | None:
        """Basis of the differences of paired columns, if H is the output of a layer in pairs."""
        if self.spectrum == "paper" or is_sparse(H):
            return None
        if self.x is not None and H.data_ptr() == self.x.data_ptr():
            return None  # features that look like pairs, such as one-hot codes
        for width, blocks in self.paired:
            if H.shape[-1] == width and are_pairs(H, blocks):
                return pair_differences(width, blocks)
        return None

    def _container_of(self, name: str, H: Tensor, tower: Tower) -> _ContainerInput | None:
        """Input of the layer around this one, if this one gets what that one aggregates."""
        around = self.container
        if around is None or not name.startswith(around.prefix):
            return None
        if H is around.H or H.shape[0] != around.H.shape[0]:
            return None  # it runs before the aggregation, as in GENConv, or its rows are edges
        if tower.index == tower.count - 1:
            self.container = None  # layers further inside get the output of this one
        if around.basis is not None and len(around.basis) != H.shape[1]:
            return around._replace(basis=None)
        return around


def _check_output(name: str, layer: Any, _: Any, output: Any) -> None:
    check_finite(output, f"layer {name} ({type(layer).__name__}) returns")
