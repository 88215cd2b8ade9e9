"""The result of a training run."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass
class TrainingResult:
    """Accuracies and course of a training run.

    Attributes
    ----------
    accuracy : dict
        Accuracies of the best epoch by validation.
    best_epoch : int
        The best epoch; 0 stands for the weights before training.
    last_improvement : int
        Last epoch in which the validation accuracy improved.
    epochs : int
        Number of epochs.
    seconds : float
        Duration.
    curve : list of dict
        Epoch, loss and accuracies of every evaluation; the first one, before training, has no
        loss.
    diverged : str or None
        Why the training diverged, in results of ``train_many``; None if it did not.

    Examples
    --------
    >>> from gpcanet.datasets import block_model
    >>> from gpcanet.nn import GCN, Settings, train
    >>> data = block_model(200, 800, n_features=8, n_classes=2)
    >>> result = train(GCN(8, 16, num_layers=2, out_channels=2), data, Settings(epochs=5))
    >>> result.epochs, sorted(result.accuracy)
    (5, ['test', 'train', 'validation'])
    """

    accuracy: dict[str, float] = field(default_factory=dict)
    best_epoch: int = 0
    last_improvement: int = 0
    epochs: int = 0
    seconds: float = 0.0
    curve: list[dict[str, float]] = field(default_factory=list)
    diverged: str | None = None

    def add_evaluation(
        self, epoch: int, loss: float | None, accuracy: dict[str, float], *, later: bool
    ) -> bool:
        """Append an evaluation and return whether it is the best one so far.

        If ``later``, the last of several epochs with equal validation accuracy is the best one,
        otherwise the first.
        """
        self.epochs = epoch
        self.curve.append({"epoch": epoch, **({} if loss is None else {"loss": loss}), **accuracy})
        gain = accuracy["validation"] - self.accuracy.get("validation", -1.0)
        if gain > 0:
            self.last_improvement = epoch
        is_best = gain > 0 or (gain == 0 and later)
        if is_best:
            self.accuracy, self.best_epoch = accuracy, epoch
        return is_best

    def to_json(self) -> dict[str, Any]:
        return asdict(self)
