"""Training of a model for node classification, on the whole graph or on parts of it."""

from __future__ import annotations

import inspect
import math
import os
import time
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...errors import InputError, InputTypeError, TrainingDivergedError
from ...utils.atomic import check_target
from ...utils.checks import check_number
from ...utils.labels import SPLIT
from ...utils.messages import first_line
from ...utils.progress import report_progress
from ...utils.training_result import TrainingResult
from ..conv import storing_means
from ..tensors import check_module
from .checkpoint import (
    check_same,
    checkpoint_lock,
    copy_state,
    describe_model,
    fingerprint,
    read_checkpoint,
    restore_state,
    to_json,
    with_prefix,
    write_checkpoint,
)
from .data import (
    NodeData,
    check_output,
    densify_if_needed,
    initialize_lazy_layers,
    translating_torch_errors,
)
from .gcn_passes import GCNPasses, is_plain_gcn, one_torch_thread
from .partition import Batch, Batches
from .settings import Settings


def train(
    model: torch.nn.Module,
    data: Any,
    settings: Settings | None = None,
    *,
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_seconds: float = 30.0,
    notes: dict[str, Any] | None = None,
) -> TrainingResult:
    """Train a model for node classification.

    At the end the model has the weights of the epoch with the best validation accuracy. Epoch 0
    stands for the weights before training, which are the best ones if the output layer was set in
    closed form and training does not improve them.

    Parameters
    ----------
    model : torch.nn.Module
        Called as ``model(x, edge_index)``, for a weighted graph also with ``edge_weight``. The
        output has one column per class.
    data : Dataset, NodeData or torch_geometric.data.Data
        Graph, features, labels and split.
    settings : Settings, optional
        Settings of the training.
    checkpoint : path, optional
        File that is written regularly and when the training ends or is interrupted. If it exists,
        the training is resumed from it and gives the same result as without the interruption. A
        checkpoint of another model, other settings or other data is an error, and so is one that
        another training is using (it is locked by a file with the suffix ``.lock``).
    checkpoint_seconds : float
        Seconds between two writes of the checkpoint.
    notes : dict, optional
        JSON values that must be the same when the training is resumed, such as the name of the
        initialiser.

    Returns
    -------
    TrainingResult
        Accuracies of the best epoch, and the loss and accuracies of every evaluation.

    Examples
    --------
    >>> from gpcanet.datasets import block_model
    >>> from gpcanet.nn import GCN
    >>> data = block_model(200, 800, n_features=8, n_classes=2)
    >>> result = train(GCN(8, 16, 2, 2), data, Settings(epochs=5, lr=0.01))
    >>> sorted(result.accuracy)
    ['test', 'train', 'validation']
    """
    settings = settings or Settings()
    check_settings(settings)
    check_number("checkpoint_seconds", checkpoint_seconds, 0, advice="30 is usual")
    device = settings.torch_device()
    path = None if checkpoint is None else check_target(checkpoint, overwrite=True)
    check_model(model)
    model.to(device)
    nodes = densify_if_needed(model, NodeData.of(data, device))
    devices = [device] if device.type == "cuda" else []
    lock = nullcontext() if path is None else checkpoint_lock(path)
    with lock, torch.random.fork_rng(devices):  # keeps the random state of the caller
        torch.manual_seed(settings.seed)
        loop = TrainingLoop(model, nodes, settings, path, to_json(notes or {}))
        try:
            return loop.run(
                checkpoint_seconds,
                lambda epoch: report_progress("training", epoch, settings.epochs),
            )
        except RuntimeError as error:
            # On CPUs torch has no error type for this; the allocator names itself in the text.
            if isinstance(error, torch.OutOfMemoryError) or "DefaultCPUAllocator" in str(error):
                raise MemoryError(str(error)) from error
            raise


def check_settings(settings: Any) -> None:
    """Raise an error unless these are Settings."""
    if not isinstance(settings, Settings):
        raise InputTypeError(f"settings is a {type(settings).__name__}; give Settings(...)")


def check_model(model: Any) -> None:
    """Raise an error unless the model can be trained."""
    check_module(model)
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise InputError("the model has no parameter to train; unfreeze or add one")
    try:
        inspect.signature(model.forward).bind("x", "edge_index")
    except TypeError as error:
        raise InputTypeError(
            f"{type(model).__name__}.forward does not take (x, edge_index): {error}; wrap the "
            f"model in one that does"
        ) from None


def _check_caches(model: torch.nn.Module, whole_graph: Batch) -> None:
    """Raise an error if a layer would use the edges of the whole graph for its parts."""
    is_cached = any(getattr(module, "cached", False) is True for module in model.modules())
    if is_cached and isinstance(whole_graph.edges.edge_index, Tensor):
        raise InputError(
            "layers with cached=True keep the edges of one graph, but parts > 1 trains on several; "
            "use cached=False"
        )


class TrainingLoop:
    """Training of one model, with a checkpoint at ``path``.

    Without a generator, dropout uses the global random numbers of torch. Only ``GCNPasses`` use a
    generator.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        data: NodeData,
        settings: Settings,
        path: Path | None = None,
        notes: dict[str, Any] | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        self.model, self.data, self.settings, self.path = model, data, settings, path
        initialize_lazy_layers(model, data)
        self.whole_graph = Batch.of(model, data)
        self.passes = None
        if settings.parts == 1 and is_plain_gcn(model, data):
            self.passes = GCNPasses(model, data, self.whole_graph.edges.edge_index, generator)
        self.optimizer = torch.optim.Adam(
            [parameter for parameter in model.parameters() if parameter.requires_grad],
            lr=settings.lr,
            weight_decay=settings.weight_decay,
            fused=self.passes is not None,
        )
        self.result = TrainingResult()
        self.best_weights: dict[str, Tensor] = {}
        self.identity = {} if path is None else self._identity() | {"notes": notes or {}}
        self.snapshot: tuple[dict[str, Tensor], TrainingResult] = ({}, self.result)
        self.batches = None
        if settings.parts > 1:
            _check_caches(model, self.whole_graph)
            self.batches = Batches(
                model, data, settings.parts, settings.parts_per_batch, settings.seed
            )

    def run(
        self, checkpoint_seconds: float = math.inf, report: Callable[[int], None] | None = None
    ) -> TrainingResult:
        """Train, and call ``report`` with the number of the epoch after each epoch."""
        threads = nullcontext() if self.passes is None else one_torch_thread()
        with threads, torch.enable_grad():
            return self._run(checkpoint_seconds, report)

    def _run(
        self, checkpoint_seconds: float, report: Callable[[int], None] | None
    ) -> TrainingResult:
        if self.path is not None and self.path.exists():
            self._resume(self.path)
        else:
            self._evaluate_initial_weights()
        started, written = time.perf_counter() - self.result.seconds, time.perf_counter()
        self._take_snapshot()
        try:
            while not self._is_finished():
                self._run_epoch(self.result.epochs + 1)
                self.result.seconds = time.perf_counter() - started
                if report is not None:
                    report(self.result.epochs)
                self._take_snapshot()
                if time.perf_counter() - written > checkpoint_seconds:
                    self._write_snapshot()
                    written = time.perf_counter()
        finally:
            self.model.eval()
            if self.best_weights:  # the model stays usable if the training diverged
                self.model.load_state_dict(self.best_weights)
            self._write_snapshot()
        return self.result

    def _is_finished(self) -> bool:
        result, settings = self.result, self.settings
        if result.epochs >= settings.epochs:
            return True
        if settings.patience is None or result.epochs % settings.eval_every:
            return False
        return result.epochs - result.last_improvement >= settings.patience

    # -- epochs and evaluations -----------------------------------------------------------

    def _run_epoch(self, epoch: int) -> None:
        self._set_mode(training=True)
        batches = [self.whole_graph] if self.batches is None else self.batches.epoch(epoch)
        loss = float(np.mean([self._step(batch, epoch) for batch in batches]))
        weights = torch.nn.utils.parameters_to_vector(self.model.parameters())
        if not math.isfinite(float(weights.detach().abs().max())):  # NaN is the largest
            raise self._diverged("a weight is not finite", epoch)
        self.result.epochs = epoch
        if epoch % self.settings.eval_every == 0 or epoch == self.settings.epochs:
            _, accuracy = self._evaluate()
            if self.result.add_evaluation(epoch, loss, accuracy, later=self.settings.later_of_ties):
                self._keep_weights()

    def _keep_weights(self) -> None:
        state = self.model.state_dict()
        self.best_weights = {name: value.clone() for name, value in state.items()}

    def _step(self, batch: Batch, epoch: int) -> float:
        self.optimizer.zero_grad(set_to_none=True)
        output = self._run_model(batch)
        loss = torch.nn.functional.cross_entropy(output[batch.rows], batch.y)
        value = float(loss.detach())
        if not math.isfinite(value):
            raise self._diverged(f"the loss is {value}", epoch)
        loss.backward()
        self.optimizer.step()
        if self.passes is not None:
            self.passes.forget()
        return value

    def _set_mode(self, *, training: bool) -> None:
        if self.passes is None:
            self.model.train(training)
        else:  # the modules are not called
            self.passes.training = training

    def _run_model(self, batch: Batch) -> Any:
        if self.passes is not None:
            return self.passes.run()
        return batch.edges.run(self.model, batch.x)

    def _diverged(self, reason: str, epoch: int) -> TrainingDivergedError:
        return TrainingDivergedError(
            f"{reason} in epoch {epoch}; use a smaller lr than {self.settings.lr:g}, or scale the "
            f"features"
        )

    def _evaluate_initial_weights(self) -> None:
        """Check that the model fits the data; these weights may be the best ones."""
        with translating_torch_errors(self.data):
            n_outputs, accuracy = self._evaluate()
        self.result.add_evaluation(0, None, accuracy, later=False)
        self._keep_weights()
        try:  # now rather than after the training
            self.model.load_state_dict(self.best_weights)
        except RuntimeError as error:
            raise InputError(
                f"the model cannot load its own state_dict ({first_line(error)}); train copies the "
                f"weights of the best epoch by it"
            ) from error
        if n_outputs < self.data.n_classes:
            raise InputError(
                f"the model has {n_outputs} outputs for {self.data.n_classes} classes; use one "
                f"output per class"
            )

    @torch.no_grad()
    def _evaluate(self) -> tuple[int, dict[str, float]]:
        """Return the number of outputs and the accuracy on each part of the split."""
        self._set_mode(training=False)
        with nullcontext() if self.passes is not None else storing_means(self.model):
            output = self._run_model(self.whole_graph)
        check_output(output, self.data.graph.n_nodes)
        if not bool(torch.isfinite(output).all()):
            raise self._diverged("an output is not finite", self.result.epochs)
        predicted = output.argmax(1)
        accuracy = {
            name: float((predicted[nodes] == self.data.y[nodes]).double().mean())
            for name in SPLIT
            if len(nodes := getattr(self.data, name))
        }
        return output.shape[1], accuracy

    # -- checkpoint -----------------------------------------------------------------------

    def _identity(self) -> dict[str, Any]:
        """What must be the same when the training is resumed."""
        settings = asdict(self.settings)
        for name in ("device", "epochs", "lr"):  # these may change
            del settings[name]
        return {
            "model": describe_model(self.model),
            "settings": settings,
            "data": fingerprint(self.data),
        }

    def _take_snapshot(self) -> None:
        """Copy the state between two epochs; an interrupt may come in the middle of one."""
        if self.path is None:
            return
        tensors = copy_state(self.model, self.optimizer, self.data.x.device)
        tensors |= {f"best.{name}": value for name, value in self.best_weights.items()}
        self.snapshot = tensors, replace(self.result, curve=self.result.curve[:])

    def _write_snapshot(self) -> None:
        if self.path is None:
            return
        tensors, result = self.snapshot
        try:
            write_checkpoint(self.path, tensors, {**self.identity, "result": result.to_json()})
        except OSError as error:
            warnings.warn(
                f"{self.path} could not be written ({error}); the training continues without a "
                f"checkpoint",
                stacklevel=2,
            )

    def _resume(self, path: Path) -> None:
        tensors, notes = read_checkpoint(path)
        for part, expected in self.identity.items():
            check_same(path, part, notes[part], expected)
        restore_state(self.model, self.optimizer, self.data.x.device, tensors)
        self.best_weights = with_prefix("best.", tensors)
        self.result = TrainingResult(**notes["result"])
