"""Set the weights of each layer in the forward pass of a model, just before the layer runs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ...errors import InputError
from ..tensors import check_same_dtype, is_sparse, stored_values
from .effective_rank import effective_rank
from .eigenvectors import are_pairs, layer_eigenvectors, mixing_matrix, pair_differences
from .head import OutputHead
from .report import InitReport, LayerReport
from .rules import (
    LINEAR,
    MODEL_NAME,
    LayerSkipped,
    Rule,
    Tower,
    bind_aggregation,
    concatenated_heads,
    find_biases,
    find_layers,
    find_towers,
    find_weights,
)

#: With ``spectrum="auto"``, effective rank below which a layer is collapsing, as a fraction of the
#: number of its directions.
COLLAPSE = 0.25

#: Power of the inverse standard deviations in a layer that is collapsing.
AUTO_POWER = 0.5


class _ContainerInput(NamedTuple):
    """Input of a layer whose weights are in layers inside it, such as GINConv."""

    prefix: str
    n_rows: int
    row_norm: float
    basis: np.ndarray | None


class LayerSetter:
    """Sets the layers of a model, keeps their previous weights, and reports what was done.

    ``aggregate(layer, own, H)`` returns F for columns H of a layer's input; ``own`` is the
    aggregation of the layer itself. With ``center``, H is the centred input. ``spectrum`` is as in
    ``gpca_init_``.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        aggregate: Callable[[Any, Callable[[Tensor], Tensor], Tensor], Tensor],
        *,
        center: bool,
        pairs: bool,
        spectrum: float | str,
        head: OutputHead | None,
        skip: Collection[str],
        seed: int,
    ) -> None:
        self.aggregate, self.center, self.pairs, self.seed = aggregate, center, pairs, seed
        self.spectrum, self.head = spectrum, head
        self.outputs: Collection[str] = ()
        self.paired: set[tuple[int, int]] = set()  # widths and blocks of layers set in pairs
        self.layers, self.without_rule = find_layers(model)
        self.towers = find_towers(model)
        if unknown := set(skip) - set(self.layers):
            raise InputError(
                f"skip has {min(unknown)!r}, but the layers are {', '.join(self.layers)}"
            )
        self.skip = skip
        self.previous: list[tuple[Tensor, Tensor]] = []  # weights and their previous values
        self.reports: dict[str, LayerReport] = {}
        self.written: set[torch.nn.Parameter] = set()
        self.container: _ContainerInput | None = None

    @contextmanager
    def checking(self) -> Iterator[None]:
        """Check the input of every layer that runs inside the block."""
        with self._before_each_layer(self._check):
            yield

    @contextmanager
    def setting(self, outputs: Collection[str]) -> Iterator[None]:
        """Set every layer that runs inside the block; restore all of them on an error.

        The layers in ``outputs`` are set by the head, or left alone without one.
        """
        self.outputs = outputs
        try:
            with self._before_each_layer(self._set):
                yield
        except BaseException:
            for tensor, values in reversed(self.previous):
                tensor.copy_(values)
            raise

    @contextmanager
    def _before_each_layer(self, action: Callable[..., None]) -> Iterator[None]:
        """Call ``action(name, layer, rule, H, args, kwargs)`` before each layer runs."""

        def hook(name: str, layer: Any, rule: Rule) -> Callable[..., None]:
            def call(_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
                H, args, kwargs = _split_input(layer, args, kwargs)
                action(name, layer, rule, H, args, kwargs)

            return call

        handles = [
            layer.register_forward_pre_hook(hook(name, layer, rule), with_kwargs=True)
            for name, (layer, rule) in self.layers.items()
        ]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def report(self, before: Mapping[str, float], after: Mapping[str, float]) -> InitReport:
        """Return one entry per layer: those that ran, in their order, and then the others.

        ``before`` and ``after`` are the effective ranks of the outputs of the layers.
        """
        not_reached = [
            LayerReport(name, type(layer).__name__, reason="the forward pass did not reach it")
            for name, (layer, rule) in self.layers.items()
            if name not in self.reports and not rule.is_container
        ]
        reached = [
            replace(report, rank_before=before.get(name), rank_after=after.get(name))
            for name, report in self.reports.items()
        ]
        return InitReport("gpca", (*reached, *not_reached, *self.without_rule))

    def _check(
        self, name: str, layer: Any, rule: Rule, H: Any, args: tuple[Any, ...], kwargs: Any
    ) -> None:
        H = _check_input(name, layer, H)
        if rule.is_container:
            return
        try:
            matrix = next(iter(find_weights(layer, rule).values()))
        except LayerSkipped:
            return
        if H.shape[-1] != matrix.shape[0]:
            raise InputError(
                f"layer {name} has {matrix.shape[0]} input features but gets {H.shape[-1]}; give x "
                f"with the features that the model expects"
            )
        check_same_dtype(H, matrix, f"layer {name}")

    def _set(
        self, name: str, layer: Any, rule: Rule, H: Tensor, args: tuple[Any, ...], kwargs: Any
    ) -> None:
        if rule.is_container:
            prefix = "" if name == MODEL_NAME else f"{name}."
            basis = self._basis_of_differences(H)
            self.container = _ContainerInput(prefix, H.shape[0], _row_norm(H), basis)
        elif name not in self.reports:  # a layer that runs again keeps its first weights
            try:
                self.reports[name] = self._set_weights(name, layer, rule, H, args, kwargs)
            except LayerSkipped as error:
                self.reports[name] = LayerReport(name, type(layer).__name__, reason=str(error))

    def _set_weights(
        self, name: str, layer: Any, rule: Rule, H: Tensor, args: tuple[Any, ...], kwargs: Any
    ) -> LayerReport:
        if name in self.skip:
            raise LayerSkipped("skipped on request")
        weights = find_weights(layer, rule)
        if self.written & weights.keys():
            raise LayerSkipped("shares its weights with a layer that was set before")
        matrices = list(weights.values())
        n_in, n_out = matrices[0].shape
        if H.dim() != 2:
            if not isinstance(layer, LINEAR):
                raise LayerSkipped(f"its input has {H.dim()} dimensions")
            H = H.reshape(-1, n_in)
        report = LayerReport(name, type(layer).__name__, n_in, n_out)
        if name in self.outputs and self.head is None:
            return replace(report, reason="an output layer; head='logistic' sets it from labels")
        own = bind_aggregation(layer, rule, H.shape[0], args, kwargs)
        copies = rule.copies(layer)
        biases = find_biases(layer, rule)
        if name in self.outputs and self.head is not None:
            values, intercept = self.head.fit(name, own(H), n_out // copies, has_bias=bool(biases))
            report = replace(report, is_set=True, reason=f"{self.head.regression} regression")
        else:
            values, kept = self._eigenvector_weights(name, layer, H, own, n_out // copies)
            intercept = np.zeros(n_out // copies)
            biases = [] if self.spectrum == "paper" else biases
            report = replace(report, is_set=True, kept=kept)
        self.previous += [(tensor, tensor.clone()) for tensor in (*matrices, *biases)]
        for matrix in matrices:
            matrix.copy_(torch.from_numpy(np.tile(values, copies)))
        for bias in biases:
            bias.zero_()
        if biases:
            biases[0].copy_(torch.from_numpy(intercept))
        self.written |= weights.keys()
        return report

    def _eigenvector_weights(
        self, name: str, layer: Any, H: Tensor, own: Callable[[Tensor], Tensor], width: int
    ) -> tuple[np.ndarray, float]:
        """Return weights from the leading eigenvectors of H^T F, and the share of F they keep."""
        tower, blocks = self.towers.get(layer, Tower()), concatenated_heads(layer)
        # Towers with the same input would otherwise all have the same weights.
        index, count = (tower.index, tower.count) if tower.same_input else (0, 1)
        around = self._container_of(name, H, tower)
        basis = self._basis_of_differences(H) if around is None else around.basis
        C = mixing_matrix(
            H.shape[1] if basis is None else basis.shape[1], width, pairs=self.pairs,
            n_blocks=blocks, seed=self.seed, tower=index, n_towers=count,
        )  # fmt: skip
        found = layer_eigenvectors(
            H, partial(self.aggregate, layer, own), len(C), center=self.center, basis=basis
        )
        if self.pairs:
            self.paired.add((width, blocks))
        if self.spectrum == "paper":
            around_gain = 1.0
            if around is not None and around.row_norm > 0:
                around_gain = _row_norm(H) / around.row_norm
            return found.vectors @ C / max(1.0, found.gain * around_gain), found.kept
        power = self.spectrum
        if power == "auto":
            is_collapsing = effective_rank(found.projected) < COLLAPSE * len(C)
            power = AUTO_POWER if basis is None and is_collapsing else 0.0
        return found.weights(C, float(power)), found.kept

    def _basis_of_differences(self, H: Tensor) -> np.ndarray | None:
        """Basis of the differences of paired columns, if H is the output of a layer in pairs."""
        if self.spectrum == "paper" or is_sparse(H):
            return None
        for width, blocks in self.paired:
            if H.shape[-1] == width and are_pairs(H, blocks):
                return pair_differences(width, blocks)
        return None

    def _container_of(self, name: str, H: Tensor, tower: Tower) -> _ContainerInput | None:
        """Input of the layer around this one, if this one gets what that one aggregates."""
        around = self.container
        if around is None or not name.startswith(around.prefix) or H.shape[0] != around.n_rows:
            return None
        if tower.index == tower.count - 1:
            self.container = None  # layers further inside get the output of this one
        if around.basis is not None and len(around.basis) != H.shape[1]:
            return around._replace(basis=None)
        return around


def _split_input(
    layer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """Separate the first argument of a layer from the others."""
    if args:
        return args[0], args[1:], kwargs
    kwargs = dict(kwargs)
    first = next(iter(inspect.signature(layer.forward).parameters))
    return kwargs.pop(first, None), (), kwargs


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
