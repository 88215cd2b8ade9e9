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
from torch.nn.functional import pad

from ...errors import InputError
from ..tensors import check_same_dtype, stored_values
from .aggregation import Aggregation, Pair, has_separate_parts
from .eigenvectors import layer_eigenvectors, mixing_matrix
from .outputs import tensors_in
from .report import InitReport, LayerReport
from .rules import (
    LINEAR,
    MODEL_NAME,
    LayerSkipped,
    Rule,
    Tower,
    find_layers,
    find_roots,
    find_towers,
    find_weights,
)


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
                _check_finite(first, f"layer {name} ({kind}) gets")
            try:
                H = _features(first)
                if rule.is_container:
                    prefix = "" if name == MODEL_NAME else f"{name}."
                    self.container = _ContainerInput(prefix, _parts(H)[-1])
                elif name not in self.reports:  # a layer that runs again keeps its first weights
                    self._set(name, layer, rule, H, args, kwargs)
            except LayerSkipped as error:
                if not rule.is_container:
                    self.reports[name] = LayerReport(name, kind, reason=str(error))

        return set_before_run

    def _set(
        self,
        name: str,
        layer: Any,
        rule: Rule,
        H: Tensor | Pair,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> None:
        if name in self.skip:
            raise LayerSkipped("skipped on request")
        weights, roots = find_weights(layer, rule), find_roots(layer, rule)
        if self.written & weights.keys():
            raise LayerSkipped("shares its weights with a layer that was set before")
        if isinstance(H, Pair) and H.root is None:
            weights = {key: view for key, view in weights.items() if key not in roots}
        if isinstance(H, Tensor):
            H = _as_matrix(layer, rule, H, next(iter(weights.values())).shape[-2])
        n_in, n_out = _parts(H)[0].shape[1], max(view.shape[-1] for view in weights.values())
        for parameter, view in weights.items():
            _check_columns(name, layer, H, view, is_root=parameter in roots)
        own = Aggregation(layer, rule, weights, _parts(H)[0].shape[0], args, kwargs)
        n_stacks, width, gain = rule.stacks(layer), n_out // rule.copies(layer), 1.0
        is_stacked = isinstance(H, Pair) or has_separate_parts(layer)
        if is_stacked:
            F, norm = own.stacked(H), _row_norm(*_parts(H))
            gain = _row_norm(F) / norm if norm > 0 else 1.0
        values, kept = self._eigenvector_weights(
            name, layer, F if is_stacked else H, _same if is_stacked else own, width,
            pairs=self.pairs and rule.pairs, n_stacks=n_stacks, gain=gain,
        )  # fmt: skip
        self.previous[name] = [(view, view.clone()) for view in weights.values()]
        for parameter, view in weights.items():
            rows = torch.from_numpy(values)
            if is_stacked:
                rows = rows[:, own.n_source :] if parameter in roots else rows[:, : own.n_source]
            rows = rows.repeat(1, 1, view.shape[-1] // width)
            view.copy_(rows if n_stacks > 1 else rows[0])
        self.written |= weights.keys()
        self.reports[name] = LayerReport(
            name, type(layer).__name__, n_in, n_out, is_set=True, kept=kept
        )

    def _eigenvector_weights(
        self,
        name: str,
        layer: Any,
        H: Tensor,
        own: Callable[[Tensor], Tensor],
        width: int,
        *,
        pairs: bool,
        n_stacks: int,
        gain: float,
    ) -> tuple[np.ndarray, float]:
        """Return weights from the leading eigenvectors of H^T F, and the share of F they keep.

        The weights have shape (n_stacks, in_channels, width).
        """
        tower = self.towers.get(layer, Tower())
        # Towers with the same input would otherwise all have the same weights, and so would stacks.
        index, count = (tower.index, tower.count) if tower.same_input else (0, n_stacks)
        C = np.stack([
            mixing_matrix(
                H.shape[1], width, pairs=pairs, seed=self.seed, tower=index + stack, n_towers=count
            )
            for stack in range(n_stacks)
        ])  # fmt: skip
        aggregate = partial(self.aggregate, layer, own)
        found = layer_eigenvectors(H, aggregate, C.shape[1], center=self.center)
        gain *= found.gain * self._container_gain(name, H, tower)
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
        norm = _row_norm(around.H)
        return _row_norm(H) / norm if norm > 0 else 1.0


def _features(first: Any) -> Tensor | Pair:
    """Check the first argument of a layer: features, or those of source and destination nodes."""
    if isinstance(first, tuple | list) and len(first) == 2:
        source, root = first
        if isinstance(source, Tensor) and (root is None or isinstance(root, Tensor)):
            first = source if root is source else Pair(source, root)
    for part in _parts(first) if isinstance(first, Tensor | Pair) else [first]:
        if not isinstance(part, Tensor):
            raise LayerSkipped(f"its first argument is a {type(part).__name__} and not features")
        if part.dim() == 1 and not part.is_floating_point():
            raise LayerSkipped("its input are node indices, so its weight is an embedding")
    return first


def _parts(H: Tensor | Pair) -> list[Tensor]:
    return [H] if isinstance(H, Tensor) else [part for part in H if part is not None]


def _same(F: Tensor) -> Tensor:
    return F


def _as_matrix(layer: Any, rule: Rule, H: Tensor, n_in: int) -> Tensor:
    """Two-dimensional input of a layer, with the zeros that the layer appends to it."""
    if H.dim() != 2:
        if not isinstance(layer, LINEAR):
            raise LayerSkipped(f"its input has {H.dim()} dimensions")
        H = H.reshape(-1, H.shape[-1])
    return pad(H, (0, n_in - H.shape[1])) if rule.pads_input and H.shape[1] < n_in else H


def _check_columns(name: str, layer: Any, H: Tensor | Pair, view: Tensor, *, is_root: bool) -> None:
    part = _parts(H)[-1 if is_root else 0]
    n_in = view.shape[-2]
    if part.shape[-1] != n_in and (is_root or not has_separate_parts(layer)):
        raise InputError(
            f"layer {name} has {n_in} input features but gets {part.shape[-1]}; give x with the "
            f"features that the model expects"
        )
    check_same_dtype(part, view, f"layer {name}")


def _check_output(name: str, layer: Any, _: Any, output: Any) -> None:
    _check_finite(output, f"layer {name} ({type(layer).__name__}) returns")


def _check_finite(value: Any, what: str) -> None:
    for tensor in tensors_in(value):
        if not bool(torch.isfinite(stored_values(tensor)).all()):
            raise InputError(
                f"{what} NaN or infinite values; check the features and the parameters of the "
                f"layers up to it"
            )


def _row_norm(*blocks: Tensor) -> float:
    """Root mean square of the norms of the rows."""
    total = sum(float(stored_values(H).double().square().sum()) for H in blocks)
    return (total / max(1, sum(H.shape[0] for H in blocks))) ** 0.5
