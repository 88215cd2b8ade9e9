"""GPCANet-initialisation: one forward pass sets the weights of any GNN (paper, section 4.2)."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from ...errors import InputError
from ...linalg import GhostForm, Normalization
from ...utils.checks import check_number
from ..checks import check_same_dtype
from ..propagation import Edges, GraphPropagation, missing_labels
from ..tensors import values_of
from .directions import leading_directions
from .layers import LINEAR, LayerUnset, Rule, Tower, aggregation, towers_of, weights_of
from .outputs import output_layers
from .passes import THE_MODEL, Forward, as_it_was, check_arguments, layers_of, run
from .report import InitReport, LayerReport
from .weights import eigenvectors_needed, mixing


@torch.no_grad()
def gpca_init_(
    model: torch.nn.Module,
    x: Tensor,
    edge_index: Edges = None,
    edge_weight: Tensor | None = None,
    *,
    alpha: float = 1.0,
    n_iter: int | Literal["gcn"] = "gcn",
    beta: float = 0.0,
    y: Tensor | None = None,
    normalization: Normalization = "sym",
    ghost: GhostForm = "balanced",
    pairs: bool = True,
    last: bool = False,
    skip: Collection[str] = (),
    seed: int = 0,
    forward: Forward | None = None,
) -> InitReport:
    """Set the weights of a model by one forward pass over its graph, in place.

    Before each layer runs, its input H is caught, F is what the layer aggregates of it, and its
    weights become the leading eigenvectors of H^T F; then the pass goes on.

    Parameters
    ----------
    model : torch.nn.Module
        Any model of PyG's convolutions and linear layers. Others: ``register_layer``.
    x : Tensor of shape (n_nodes, n_features)
        Dense or sparse, all nodes: the model is initialised on the whole graph even if it is
        trained on parts of it.
    edge_index : Tensor, Graph or GraphPropagation, optional
        Whatever the model takes. None for a model that takes x alone.
    edge_weight : Tensor, optional
        Handed to the model if given.
    alpha : float
        With ``n_iter="gcn"``, F = (1 - alpha) H + alpha times the layer's own aggregation, which
        for ``alpha=1`` is that aggregation. With a number of steps, as in ``GPCAConv``.
    n_iter : "gcn" or int
        ``"gcn"`` follows section 4.2 of the paper. A number takes that many steps of the fixed
        point on centred H instead of the aggregation of a convolution.
    beta : float
        Share of ghost edges between nodes of equal label in F; needs ``y``.
    y : Tensor, optional
        Labels that may be used, -1 elsewhere.
    normalization, ghost
        Of the fixed point and of the ghost edges.
    pairs : bool
        Set columns to plus and minus an eigenvector, for models whose activation is a ReLU or
        like one. Without a ReLU, False.
    last : bool
        Set the output layers, too: those whose result the model returns and no other layer uses.
        They compute classes, not features, and stay as they are by default.
    skip : collection of str
        Names of layers to leave alone, as in ``model.named_modules()``.
    seed : int
        Of the random directions that fill a layer wider than its input has eigenvectors.
    forward : callable, optional
        ``forward(model)`` runs the model, where ``model(x, edge_index)`` does not.

    Returns
    -------
    InitReport
        A line per layer. That no layer could be set is an error.

    Notes
    -----
    Only weights change. Where an aggregation makes features larger (a sum over neighbours), the
    eigenvectors are divided by that factor, so that depth does not multiply it.

    Examples
    --------
    >>> import torch_geometric.nn as pyg
    >>> x, edges = torch.eye(6, 4), torch.tensor([[0, 1, 2, 3, 4, 5], [1, 0, 3, 2, 5, 4]])
    >>> report = gpca_init_(pyg.GCN(4, 8, num_layers=3, out_channels=2), x, edges)
    >>> report.n_set, len(report)
    (2, 3)
    """
    check_arguments(model, x, edge_index, edge_weight, forward)
    check_number("alpha", alpha, 0, 1e6, advice="1 is a GCN's")
    check_number("beta", beta, 0, 1, advice="use beta=0 to ignore labels")
    if n_iter != "gcn":
        check_number("n_iter", n_iter, 1, advice="or use n_iter='gcn'", integer=True)
    if beta > 0 and y is None:
        raise missing_labels(beta)
    P = None
    if n_iter != "gcn" or beta > 0:
        # With "gcn" only the ghost edges are wanted of it: the rest is the layer's own.
        share = 1.0 if n_iter == "gcn" else beta
        P = GraphPropagation(
            edge_index, edge_weight, n_nodes=x.shape[0], normalization=normalization,
            y=y, beta=share if beta > 0 else 0.0, ghost=ghost,
        )  # fmt: skip

    def mixed(layer: Any, own: Callable[[Tensor], Tensor], H: Tensor) -> Tensor:
        """F of some columns of H."""
        if n_iter != "gcn":
            assert P is not None
            if isinstance(layer, LINEAR) or H.shape[0] != P.n_nodes:
                return own(H)
            return P.fixed_point(H, alpha, n_iter)
        F = own(H) if alpha == 1 else (1 - alpha) * H + alpha * own(H)
        if P is None or H.shape[0] != P.n_nodes:  # rows of edges, or of pooled nodes
            return F
        return (1 - beta) * F + beta * (P @ H)

    setter = _Setter(model, mixed, skip=skip, centre=n_iter != "gcn", pairs=pairs, seed=seed)
    outputs: set[str] = set()
    with as_it_was(model), setter.undone_on_error():
        with setter.setting():
            run(model, x, edge_index, edge_weight, forward)
        if not last:
            outputs = output_layers(model, lambda: run(model, x, edge_index, edge_weight, forward))
    return setter.finish(outputs)


class _Setter:
    """Sets each layer when its turn in a forward pass comes."""

    def __init__(
        self,
        model: torch.nn.Module,
        mixed: Callable[[Any, Callable[[Tensor], Tensor], Tensor], Tensor],
        *,
        skip: Collection[str],
        centre: bool,
        pairs: bool,
        seed: int,
    ) -> None:
        self.mixed, self.centre, self.pairs, self.seed = mixed, centre, pairs, seed
        self.layers, self.left = layers_of(model)
        self.towers = towers_of(model)
        if unknown := set(skip) - set(self.layers):
            raise InputError(f"skip names {min(unknown)!r}; layers are {', '.join(self.layers)}")
        self.skip = skip
        self.before: dict[str, list[tuple[Tensor, Tensor]]] = {}  # weights and what they were
        self.reports: dict[str, LayerReport] = {}
        self.written: set[int] = set()  # ids of parameters
        self.around: tuple[str, int, float] | None = None  # a layer with layers inside: its input

    @contextmanager
    def setting(self) -> Iterator[None]:
        """Set every layer that runs inside."""
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
    def undone_on_error(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            for weights in reversed(self.before.values()):
                _restore(weights)
            raise

    def _hook(self, name: str, layer: Any, rule: Rule) -> Callable[..., None]:
        def before_it_runs(_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            if args:
                H, args = args[0], args[1:]
            else:
                kwargs = dict(kwargs)
                H = kwargs.pop(next(iter(inspect.signature(layer.forward).parameters)), None)
            H = _checked_input(name, layer, H)
            if rule.passes_on:
                prefix = "" if name == THE_MODEL else f"{name}."
                self.around = (prefix, H.shape[0], _row_size(H))
            elif name not in self.reports:  # else it runs again, and was set for its first input
                try:
                    self._set(name, layer, rule, H, args, kwargs)
                except LayerUnset as error:
                    self.reports[name] = LayerReport(name, type(layer).__name__, reason=str(error))

        return before_it_runs

    def _set(
        self, name: str, layer: Any, rule: Rule, H: Tensor, args: tuple[Any, ...], kwargs: Any
    ) -> None:
        if name in self.skip:
            raise LayerUnset("skipped on request")
        weights = weights_of(layer, rule)
        if self.written & {id(weight.parameter) for weight in weights}:
            raise LayerUnset("shares its weights with a layer that was set before")
        n_in, n_out = weights[0].matrix.shape
        if H.shape[-1] != n_in:
            raise InputError(
                f"layer {name} takes {n_in} features and gets {H.shape[-1]}; give x as the model "
                f"expects it"
            )
        check_same_dtype(H, weights[0].matrix, f"layer {name}")
        if H.dim() != 2 and not isinstance(layer, LINEAR):
            raise LayerUnset(f"its input has {H.dim()} dimensions")
        H = H if H.dim() == 2 else H.reshape(-1, n_in)
        copies = rule.copies(layer)
        width = n_out // copies
        tower = self.towers.get(layer, Tower())
        C = self._columns(n_in, width, tower)
        own = aggregation(layer, rule, H.shape[0], args, kwargs)
        found = leading_directions(H, partial(self.mixed, layer, own), len(C), centre=self.centre)
        gain = max(1.0, found.gain * self._gain_around(name, H, tower))
        W = found.vectors @ C / gain
        values = torch.from_numpy(np.tile(W, copies))
        self.before[name] = [(w.matrix, w.matrix.clone()) for w in weights]
        for weight in weights:
            weight.matrix.copy_(values)
            self.written.add(id(weight.parameter))
        self.reports[name] = LayerReport(
            name, type(layer).__name__, n_in, n_out, is_set=True, kept=found.kept
        )

    def _columns(self, n_in: int, width: int, tower: Tower) -> np.ndarray:
        """C such that V C are the weights of a layer, V being eigenvectors of its input.

        Towers with the same input get different eigenvectors, else they would all be equal.
        """
        number, of = (tower.number, tower.of) if tower.same_input else (0, 1)
        used = (width + 1) // 2 if self.pairs else width
        k = eigenvectors_needed(used * of, n_in, pairs=False)
        C = mixing(k, used * of, pairs=False, seed=self.seed)[:, number * used :][:, :used]
        return np.hstack([C, -C])[:, :width] if self.pairs else C

    def _gain_around(self, name: str, H: Tensor, tower: Tower) -> float:
        """How much larger the layer around this one, say GINConv, has made its rows by now."""
        if self.around is None:
            return 1.0
        prefix, rows, size = self.around
        if not name.startswith(prefix) or H.shape[0] != rows:
            return 1.0
        if tower.number == tower.of - 1:
            self.around = None  # later layers inside go on from what this one makes of it
        return _row_size(H) / size if size > 0 else 1.0

    def finish(self, outputs: set[str]) -> InitReport:
        """The report, after the weights of output layers have been restored."""
        article = "the" if len(outputs) == 1 else "an"
        for name in outputs & self.reports.keys():
            _restore(self.before.pop(name, []))
            if self.reports[name].is_set:
                reason = f"{article} output layer; last=True sets it, too"
                self.reports[name] = replace(
                    self.reports[name], is_set=False, kept=None, reason=reason
                )
        unreached = [
            LayerReport(name, type(layer).__name__, reason="the forward pass did not reach it")
            for name, (layer, rule) in self.layers.items()
            if name not in self.reports and not rule.passes_on
        ]
        report = InitReport("gpca", (*self.reports.values(), *unreached, *self.left))
        return report.unless_nothing()


def _checked_input(name: str, layer: Any, H: Any) -> Tensor:
    if isinstance(H, tuple | list):
        raise InputError(
            f"layer {name} ({type(layer).__name__}) gets two sets of nodes; initialisation knows "
            f"one, so give the graph as one set (PyG: to_homogeneous()), not a bipartite graph or "
            f"a sampled mini-batch"
        )
    if not isinstance(H, Tensor):
        raise InputError(
            f"layer {name} ({type(layer).__name__}) gets no tensor of features as its first "
            f"argument; call it as layer(x, edge_index)"
        )
    return H


def _restore(weights: list[tuple[Tensor, Tensor]]) -> None:
    for weight, before in weights:
        weight.copy_(before)


def _row_size(H: Tensor) -> float:
    return float(values_of(H).double().square().sum() / max(1, H.shape[0])) ** 0.5
