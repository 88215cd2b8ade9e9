"""Settings of a training."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ...errors import InputError
from ...utils.checks import check_number
from ...utils.messages import first_line
from ..tensors import check_seed


@dataclass(frozen=True)
class Settings:
    """Settings of a training; the defaults are those of the paper.

    Parameters
    ----------
    epochs : int
        Number of epochs.
    lr : float
        Learning rate of Adam.
    weight_decay : float
        Weight decay of Adam, added to the gradient.
    patience : int, optional
        Stop if the validation accuracy has not improved for this number of epochs. None disables
        early stopping.
    eval_every : int
        Number of epochs between two evaluations.
    later_of_ties : bool
        Of several epochs with the best validation accuracy, keep the last one, not the first.
    parts : int
        Number of parts of the graph; 1 trains on the whole graph.
    parts_per_batch : int
        Number of parts in a mini-batch, with the edges between them.
    seed : int
        Random seed of dropout, the partition and the order of the parts.
    device : str
        Device of torch. ``"auto"`` uses a GPU if there is one.

    Examples
    --------
    >>> settings = Settings(epochs=200, lr=0.01, patience=50)
    >>> settings.epochs, settings.weight_decay
    (200, 0.0005)
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
        check_seed(self.seed)
        counts = ["epochs", "eval_every", "parts", "parts_per_batch"]
        counts += [] if self.patience is None else ["patience"]
        for name in counts:
            check_number(name, getattr(self, name), 1, advice="give a whole number", integer=True)
        for name in (*counts, "seed"):
            object.__setattr__(self, name, int(getattr(self, name)))  # JSON has no numpy integers
        for name in ("lr", "weight_decay"):
            check_number(name, getattr(self, name), 0, advice="1e-3 and 5e-4 are usual")
            object.__setattr__(self, name, float(getattr(self, name)))
        if self.parts_per_batch > self.parts:
            raise InputError(
                f"parts_per_batch={self.parts_per_batch} must be at most parts={self.parts}; use "
                f"more parts, or fewer per batch"
            )
        self.torch_device()

    def torch_device(self) -> torch.device:
        """Return the device, or raise an error if it is not available."""
        if self.device == "auto":
            return torch.device("cuda" if torch.cuda.is_available() else "cpu")
        try:
            return torch.empty(0, device=self.device).device
        except (RuntimeError, AssertionError) as error:
            raise InputError(
                f"device={self.device!r} cannot be used here: {first_line(error)}"
            ) from None
