"""How a training went, whatever was trained."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

SPLIT = ("train", "validation", "test")


@dataclass
class Training:
    """How a training went. ``accuracy`` is that of the epoch best by validation.

    ``curve`` has epoch, loss and accuracies of every look; the first, before training, no loss.
    """

    accuracy: dict[str, float] = field(default_factory=dict)
    best_epoch: int = 0
    rose: int = 0  # epoch in which validation accuracy last rose
    epochs: int = 0
    seconds: float = 0.0
    curve: list[dict[str, float]] = field(default_factory=list)

    def take(self, epoch: int, loss: float, accuracy: dict[str, float], *, later: bool) -> bool:
        """Add a look to the curve; whether it is the best so far.

        With ``later``, the last of several epochs with the same validation accuracy is.
        """
        self.epochs = epoch
        self.curve.append({"epoch": epoch, "loss": loss, **accuracy})
        gain = accuracy["validation"] - self.accuracy.get("validation", -1.0)
        if gain > 0:
            self.rose = epoch
        is_best = gain > 0 or (gain == 0 and later)
        if is_best:
            self.accuracy, self.best_epoch = accuracy, epoch
        return is_best

    def to_json(self) -> dict[str, Any]:
        return asdict(self)
