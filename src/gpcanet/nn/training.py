"""The one training loop: whole graphs or parts of them, any model."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..linalg import report
from ..validation import check_number
from .checkpoint import (
    architecture,
    check_same,
    optimizer_tensors,
    read_checkpoint,
    restore_optimizer,
    write_checkpoint,
)
from .data import NodeData, edges_for, suited_to
from .parts import partition

#: Seconds between two checkpoints.
CHECKPOINT_SECONDS = 30.0


class TrainingDiverged(ValueError):
    """The loss is no number any more."""


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
        for name in ("epochs", "eval_every", "parts", "parts_per_batch"):
            check_number(name, getattr(self, name), 1, advice="give a whole number", integer=True)
        if self.patience is not None:
            check_number("patience", self.patience, 1, advice="or use None", integer=True)
        for name in ("lr", "weight_decay"):
            check_number(name, getattr(self, name), 0, advice="1e-3 and 5e-4 are usual")
        if self.parts_per_batch > self.parts:
            raise ValueError(
                f"parts_per_batch={self.parts_per_batch} of parts={self.parts}; cut the graph "
                f"into more parts, or join fewer"
            )

    def torch_device(self) -> torch.device:
        if self.device != "auto":
            return torch.device(self.device)
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")


@dataclass
class Training:
    """How a training went. ``accuracy`` is that of the epoch best by validation."""

    accuracy: dict[str, float] = field(default_factory=dict)
    best_epoch: int = 0
    epochs: int = 0
    seconds: float = 0.0
    curve: list[dict[str, float]] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def train(
    model: torch.nn.Module,
    data: Any,
    settings: Settings | None = None,
    *,
    checkpoint: str | os.PathLike[str] | None = None,
) -> Training:
    """Train a model for node classification; it ends with the weights best by validation.

    Parameters
    ----------
    model : torch.nn.Module
        Takes (x, edge_index); its output has a column per class.
    data : Dataset, NodeData or torch_geometric.data.Data
    settings : Settings, optional
    checkpoint : path, optional
        A file that is written every half a minute and when the training is stopped. Where it
        exists, the training goes on from there, to the same end.

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
    model.to(device)
    nodes = suited_to(model, NodeData.of(data, device))
    loop = _Loop(model, nodes, settings, None if checkpoint is None else Path(checkpoint))
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices):  # the caller's random numbers stay as they are
        torch.manual_seed(settings.seed)
        return loop.run()


@torch.no_grad()
def probabilities_of(model: torch.nn.Module, data: Any) -> np.ndarray:
    """The model's probability of each class for every node, whole graph at once."""
    device = next(model.parameters()).device
    nodes = NodeData.of(data, device)
    model.eval()
    nodes = suited_to(model, nodes)
    return torch.softmax(model(nodes.x, *edges_for(model, nodes)), 1).cpu().numpy()


class _Loop:
    def __init__(
        self, model: torch.nn.Module, data: NodeData, settings: Settings, checkpoint: Path | None
    ) -> None:
        self.model, self.data, self.settings, self.path = model, data, settings, checkpoint
        self.whole = (data.x, *edges_for(model, data))
        self.optimizer = torch.optim.Adam(
            [parameter for parameter in model.parameters() if parameter.requires_grad],
            lr=settings.lr,
            weight_decay=settings.weight_decay,
        )
        self.result = Training()
        self.best: dict[str, Tensor] = {}
        self.kept: tuple[dict[str, Tensor], dict[str, Any]] = ({}, {})
        self.batches = _Batches(model, data, settings) if settings.parts > 1 else None

    def run(self) -> Training:
        if self.path is not None and self.path.exists():
            self._resume(self.path)
        else:
            self._look(math.nan)  # where the initialisation stands; never chosen
        started, written = time.perf_counter() - self.result.seconds, time.perf_counter()
        self._keep()
        try:
            while not self._is_over():
                loss = self._epoch(self.result.epochs + 1)
                self.result.epochs += 1
                if self.result.epochs % self.settings.eval_every == 0:
                    self._look(loss)
                self.result.seconds = time.perf_counter() - started
                report("training", self.result.epochs, self.settings.epochs)
                self._keep()
                if time.perf_counter() - written > CHECKPOINT_SECONDS:
                    self._write()
                    written = time.perf_counter()
        finally:
            self._write()
        if self.best:
            self.model.load_state_dict(self.best)
        return self.result

    def _is_over(self) -> bool:
        result, patience = self.result, self.settings.patience
        if result.epochs >= self.settings.epochs:
            return True
        waited = result.epochs - result.best_epoch
        return patience is not None and bool(self.best) and waited >= patience

    # -- an epoch -------------------------------------------------------------------------

    def _epoch(self, epoch: int) -> float:
        self.model.train()
        if self.batches is None:
            return self._step(self.whole, self.data.train, self.data.y[self.data.train], epoch)
        losses = [self._step(inputs, rows, y, epoch) for inputs, rows, y in self.batches.of(epoch)]
        return float(np.mean(losses))

    def _step(self, inputs: tuple[Any, ...], rows: Tensor, y: Tensor, epoch: int) -> float:
        self.optimizer.zero_grad(set_to_none=True)
        loss = torch.nn.functional.cross_entropy(self.model(*inputs)[rows], y)
        value = float(loss.detach())
        if not math.isfinite(value):
            raise TrainingDiverged(
                f"the loss is {value} in epoch {epoch}; use a smaller lr than "
                f"{self.settings.lr:g}, or scale the features"
            )
        loss.backward()
        self.optimizer.step()
        return value

    @torch.no_grad()
    def _look(self, loss: float) -> None:
        self.model.eval()
        predicted = self.model(*self.whole).argmax(1)
        accuracy = {
            name: float((predicted[nodes] == self.data.y[nodes]).double().mean())
            for name in ("train", "validation", "test")
            if len(nodes := getattr(self.data, name))
        }
        result = self.result
        result.curve.append({"epoch": result.epochs, "loss": loss, **accuracy})
        if result.epochs == 0:
            return
        gain = accuracy["validation"] - result.accuracy.get("validation", -1.0)
        if gain > 0 or (gain == 0 and self.settings.later_of_ties):
            result.accuracy, result.best_epoch = accuracy, result.epochs
            self.best = {name: value.clone() for name, value in self.model.state_dict().items()}

    # -- where it stands ------------------------------------------------------------------

    def _notes(self) -> dict[str, Any]:
        settings = asdict(self.settings)
        for free in ("device", "epochs"):  # a training may go on elsewhere, and for longer
            del settings[free]
        sizes = {"nodes": self.data.graph.n_nodes, "edges": self.data.graph.n_edges}
        return {
            "model": architecture(self.model),
            "settings": settings,
            "data": {**sizes, "features": self.data.x.shape[1], "train": len(self.data.train)},
        }

    def _keep(self) -> None:
        """Note where things stand between two epochs: an interrupt may come in the midst of one."""
        if self.path is None:
            return
        tensors = {f"model.{name}": value for name, value in self.model.state_dict().items()}
        tensors |= optimizer_tensors(self.optimizer)
        tensors["random"] = torch.get_rng_state()
        tensors = {name: tensor.clone() for name, tensor in tensors.items()}
        tensors |= {f"best.{name}": value for name, value in self.best.items()}
        self.kept = tensors, {**self._notes(), "result": _without_nan(self.result.to_json())}

    def _write(self) -> None:
        if self.path is not None:
            write_checkpoint(self.path, *self.kept)

    def _resume(self, path: Path) -> None:
        tensors, notes = read_checkpoint(path)
        for what, wanted in self._notes().items():
            check_same(path, what, notes[what], wanted)
        self.model.load_state_dict(_under("model.", tensors))
        self.best = _under("best.", tensors)
        restore_optimizer(self.optimizer, tensors)
        torch.set_rng_state(tensors["random"])
        self.result = Training(**notes["result"])
        for look in self.result.curve:
            look["loss"] = math.nan if look["loss"] is None else look["loss"]


def _under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {
        name.removeprefix(prefix): tensor
        for name, tensor in tensors.items()
        if name.startswith(prefix)
    }


def _without_nan(result: dict[str, Any]) -> dict[str, Any]:
    """JSON knows no NaN."""
    curve = [{k: None if v != v else v for k, v in look.items()} for look in result["curve"]]
    return {**result, "curve": curve}


#: What the model takes, the rows that have a loss, and their labels.
Batch = tuple[tuple[Any, ...], Tensor, Tensor]


class _Batches:
    """Parts of the graph, joined at random anew for each epoch."""

    def __init__(self, model: torch.nn.Module, data: NodeData, settings: Settings) -> None:
        self.model, self.data, self.settings = model, data, settings
        self.parts = partition(data.graph, settings.parts, seed=settings.seed)
        self._kept: dict[int, Batch] = {}

    def of(self, epoch: int) -> Iterator[Batch]:
        # Seeded by the epoch, so that a resumed training sees the same parts in the same order.
        order = np.random.default_rng([self.settings.seed, epoch]).permutation(len(self.parts))
        for start in range(0, len(order), self.settings.parts_per_batch):
            chosen = order[start : start + self.settings.parts_per_batch]
            batch = self._batch(chosen)
            if len(batch[1]):
                yield batch

    def _batch(self, chosen: np.ndarray) -> Batch:
        key = int(chosen[0])
        if len(chosen) == 1 and key in self._kept:
            return self._kept[key]
        part = self.data.part(np.sort(np.concatenate([self.parts[i] for i in chosen])))
        batch = (part.x, *edges_for(self.model, part)), part.train, part.y[part.train]
        if len(chosen) == 1:
            self._kept[key] = batch
        return batch
