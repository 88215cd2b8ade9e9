"""The one training loop: whole graphs or parts of them, any model."""

from __future__ import annotations

import inspect
import math
import os
import time
import warnings
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...errors import InputError, InputTypeError, TrainingDivergedError
from ...utils.atomic import check_target
from ...utils.checks import check_number
from ...utils.progress import report
from ...utils.training_result import SPLIT, TrainingResult
from ..conv import keeping_means
from .checkpoint import (
    architecture,
    as_json,
    check_same,
    checkpoint_lock,
    fingerprint,
    optimizer_tensors,
    random_state,
    read_checkpoint,
    restore_optimizer,
    restore_random_state,
    write_checkpoint,
)
from .data import NodeData, as_input_errors, edges_for, suited_to
from .partition import Batch, Batches

#: torch takes seeds of 64 bits.
MOST_SEED = 2**63 - 1

#: Seconds between two checkpoints.
CHECKPOINT_SECONDS = 30.0


@dataclass(frozen=True)
class Settings:
    """How to train; the defaults are the paper's.

    Parameters
    ----------
    epochs : int
    lr, weight_decay : float
        Of Adam; the decay is added to the gradient.
    patience : int, optional
        Stop when validation accuracy has not risen for so many epochs. None: never.
    eval_every : int
        Epochs between two looks at the accuracies.
    later_of_ties : bool
        Of epochs with equal validation accuracy keep the last one, not the first.
    parts : int
        Parts that the graph is cut into; 1 trains on it whole.
    parts_per_batch : int
        Parts that are joined, with the edges between them, for one step.
    seed : int
        Of dropout, the parts and their order.
    device : str
        ``"auto"`` is a GPU where there is one.
    """

    epochs: int = 1000
    lr: float = 1e-3
    weight_decay: float = 5e-4
    patience: int | None = None
    eval_every: int = 1
    later_of_ties: bool = False
    parts: int = 1
    parts_per_batch: int = 1
    seed: int = 0
    device: str = "auto"

    def __post_init__(self) -> None:
        for name in ("epochs", "eval_every", "parts", "parts_per_batch", "patience", "seed"):
            value, least = getattr(self, name), 0 if name == "seed" else 1
            if name == "patience" and value is None:
                continue
            most = MOST_SEED if name == "seed" else math.inf
            check_number(name, value, least, most, advice="give a whole number", integer=True)
            object.__setattr__(self, name, int(value))  # numpy's own do not go into JSON
        for name in ("lr", "weight_decay"):
            check_number(name, getattr(self, name), 0, advice="1e-3 and 5e-4 are usual")
            object.__setattr__(self, name, float(getattr(self, name)))
        if self.parts_per_batch > self.parts:
            raise InputError(
                f"parts_per_batch={self.parts_per_batch} of parts={self.parts}; cut the graph "
                f"into more parts, or join fewer"
            )
        self.torch_device()

    def torch_device(self) -> torch.device:
        if self.device == "auto":
            return torch.device("cuda" if torch.cuda.is_available() else "cpu")
        try:
            return torch.empty(0, device=self.device).device
        except (RuntimeError, AssertionError) as error:
            reason = str(error).splitlines()[0]
            raise InputError(f"device={self.device!r} cannot be used here: {reason}") from None


def train(
    model: torch.nn.Module,
    data: Any,
    settings: Settings | None = None,
    *,
    checkpoint: str | os.PathLike[str] | None = None,
    notes: dict[str, Any] | None = None,
) -> TrainingResult:
    """Train a model for node classification; it ends with the weights best by validation.

    Parameters
    ----------
    model : torch.nn.Module
        Takes (x, edge_index), and edge_weight where the graph has some; its output has a column
        per class.
    data : Dataset, NodeData or torch_geometric.data.Data
    settings : Settings, optional
    checkpoint : path, optional
        A file that is written every half a minute and when the training is stopped. Where it
        exists, the training goes on from there, to the same end; a checkpoint of another model,
        other settings or other data is refused, and so is one that another training is using
        (a file of the same name and ``.lock`` stands beside it).
    notes : dict, optional
        What else a checkpoint has to agree in, such as how the model was initialised. Must be
        JSON.

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
    device = settings.torch_device()
    path = None if checkpoint is None else check_target(checkpoint, overwrite=True)
    _check_model(model)
    model.to(device)
    nodes = suited_to(model, NodeData.of(data, device))
    devices = [device] if device.type == "cuda" else []
    lock = nullcontext() if path is None else checkpoint_lock(path)
    with lock, torch.random.fork_rng(devices):  # the caller's random numbers stay as they are
        torch.manual_seed(settings.seed)
        return _Loop(model, nodes, settings, path, as_json(notes or {})).run()


def _check_model(model: Any) -> None:
    if not isinstance(model, torch.nn.Module):
        raise InputTypeError(f"model is a {type(model).__name__}; give a torch.nn.Module")
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise InputError("the model has no parameter to train; all are frozen, or there are none")
    try:
        inspect.signature(model.forward).bind("x", "edge_index")
    except TypeError as error:
        raise InputTypeError(
            f"{type(model).__name__}.forward does not take (x, edge_index): {error}; wrap the "
            f"model in one that does"
        ) from None


@torch.no_grad()
def probabilities_of(model: torch.nn.Module, data: Any) -> np.ndarray:
    """The model's probability of each class for every node, whole graph at once."""
    device = next(model.parameters()).device
    nodes = NodeData.of(data, device)
    model.eval()
    nodes = suited_to(model, nodes)
    return torch.softmax(edges_for(model, nodes).run(model, nodes.x), 1).cpu().numpy()


class _Loop:
    def __init__(
        self,
        model: torch.nn.Module,
        data: NodeData,
        settings: Settings,
        path: Path | None,
        notes: dict[str, Any],
    ) -> None:
        self.model, self.data, self.settings, self.path = model, data, settings, path
        self.whole = Batch.of(model, data)
        self.optimizer = torch.optim.Adam(
            [parameter for parameter in model.parameters() if parameter.requires_grad],
            lr=settings.lr,
            weight_decay=settings.weight_decay,
        )
        self.result = TrainingResult()
        self.best: dict[str, Tensor] = {}
        self.identity = {} if path is None else self._identity() | {"start": notes}
        self.kept: tuple[dict[str, Tensor], TrainingResult] = ({}, self.result)
        self.batches = None
        if settings.parts > 1:
            self.batches = Batches(
                model, data, settings.parts, settings.parts_per_batch, settings.seed
            )

    def run(self) -> TrainingResult:
        if self.path is not None and self.path.exists():
            self._resume(self.path)
        else:
            self._first_look()
        started, written = time.perf_counter() - self.result.seconds, time.perf_counter()
        self._keep()
        try:
            while not self._is_over():
                self._epoch(self.result.epochs + 1)
                self.result.seconds = time.perf_counter() - started
                report("training", self.result.epochs, self.settings.epochs)
                self._keep()
                if time.perf_counter() - written > CHECKPOINT_SECONDS:
                    self._write()
                    written = time.perf_counter()
        finally:
            if self.best:  # also for who catches that it diverged
                self.model.load_state_dict(self.best)
            self._write()
        return self.result

    def _is_over(self) -> bool:
        result, settings = self.result, self.settings
        if result.epochs >= settings.epochs:
            return True
        if settings.patience is None or result.epochs % settings.eval_every:
            return False
        return result.epochs - result.rose >= settings.patience and bool(self.best)

    # -- an epoch -------------------------------------------------------------------------

    def _epoch(self, epoch: int) -> None:
        self.model.train()
        batches = [self.whole] if self.batches is None else self.batches.of(epoch)
        loss = float(np.mean([self._step(batch, epoch) for batch in batches]))
        if not all(bool(torch.isfinite(p).all()) for p in self.model.parameters()):
            raise self._diverged("a weight is no finite number", epoch)
        self.result.epochs = epoch
        if epoch % self.settings.eval_every == 0 or epoch == self.settings.epochs:
            self._look(loss)

    def _step(self, batch: Batch, epoch: int) -> float:
        self.optimizer.zero_grad(set_to_none=True)
        output = batch.edges.run(self.model, batch.x)
        loss = torch.nn.functional.cross_entropy(output[batch.rows], batch.y)
        value = float(loss.detach())
        if not math.isfinite(value):
            raise self._diverged(f"the loss is {value}", epoch)
        loss.backward()
        self.optimizer.step()
        return value

    def _diverged(self, what: str, epoch: int) -> TrainingDivergedError:
        return TrainingDivergedError(
            f"{what} in epoch {epoch}; use a smaller lr than {self.settings.lr:g}, or scale the "
            f"features"
        )

    def _first_look(self) -> None:
        """Where the initialisation stands, which is never chosen; and whether all fits."""
        with as_input_errors(self.data):
            columns = self._look(None)
        if columns < self.data.n_classes:
            raise InputError(
                f"the model has {columns} outputs for {self.data.n_classes} classes; give it one "
                f"per class"
            )

    @torch.no_grad()
    def _look(self, loss: float | None) -> int:
        self.model.eval()
        with keeping_means(self.model):
            output: Any = self.whole.edges.run(self.model, self.whole.x)
        n = self.data.graph.n_nodes
        if not isinstance(output, Tensor) or output.dim() != 2 or len(output) != n:
            came = getattr(output, "shape", type(output).__name__)
            raise InputError(
                f"the model returns {tuple(came) if isinstance(output, Tensor) else came}; train "
                f"needs one tensor of {n} rows with a score per class, so wrap the model"
            )
        if not bool(torch.isfinite(output).all()):
            raise self._diverged("an output is no finite number", self.result.epochs)
        predicted = output.argmax(1)
        accuracy = {
            name: float((predicted[nodes] == self.data.y[nodes]).double().mean())
            for name in SPLIT
            if len(nodes := getattr(self.data, name))
        }
        result = self.result
        if loss is None:
            result.curve.append({"epoch": 0, **accuracy})
        elif result.add_evaluation(
            result.epochs, loss, accuracy, later=self.settings.later_of_ties
        ):
            self.best = {name: value.clone() for name, value in self.model.state_dict().items()}
        return output.shape[1]

    # -- where it stands ------------------------------------------------------------------

    def _identity(self) -> dict[str, Any]:
        """What a checkpoint has to agree in to be gone on from."""
        settings = asdict(self.settings)
        for free in ("device", "epochs", "lr"):  # it may go on elsewhere, longer, more carefully
            del settings[free]
        return {
            "model": architecture(self.model),
            "settings": settings,
            "data": fingerprint(self.data),
        }

    def _keep(self) -> None:
        """Note where things stand between two epochs: an interrupt may come in the midst of one."""
        if self.path is None:
            return
        tensors = {f"model.{name}": value for name, value in self.model.state_dict().items()}
        tensors |= optimizer_tensors(self.optimizer)
        tensors |= random_state(self.data.x.device)
        tensors = {name: tensor.clone() for name, tensor in tensors.items()}
        tensors |= {f"best.{name}": value for name, value in self.best.items()}
        self.kept = tensors, replace(self.result, curve=self.result.curve[:])

    def _write(self) -> None:
        if self.path is None:
            return
        tensors, result = self.kept
        try:
            write_checkpoint(self.path, tensors, {**self.identity, "result": result.to_json()})
        except OSError as error:
            warnings.warn(
                f"{self.path} could not be written ({error}); the training goes on without it",
                stacklevel=2,
            )

    def _resume(self, path: Path) -> None:
        tensors, notes = read_checkpoint(path)
        for what, wanted in self.identity.items():
            check_same(path, what, notes[what], wanted)
        self.model.load_state_dict(_under("model.", tensors))
        self.best = _under("best.", tensors)
        restore_optimizer(self.optimizer, tensors)
        restore_random_state(tensors, self.data.x.device)
        self.result = TrainingResult(**notes["result"])


def _under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {
        name.removeprefix(prefix): tensor
        for name, tensor in tensors.items()
        if name.startswith(prefix)
    }
