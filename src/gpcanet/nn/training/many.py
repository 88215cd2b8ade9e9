"""Training of several models on the same data, one per core."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from typing import Any

import torch

from ...errors import InputError, TrainingDivergedError
from ...linalg.parallel import parallel_map
from ...utils.progress import report_progress
from ...utils.training_result import TrainingResult
from .data import NodeData, densify_if_needed
from .gcn_passes import is_plain_gcn, one_torch_thread
from .loop import TrainingLoop, check_model, check_settings
from .settings import Settings


def train_many(
    models: Sequence[torch.nn.Module],
    data: Any,
    settings: Settings | Sequence[Settings] | None = None,
) -> list[TrainingResult]:
    """Train several models on the same data, for example with different seeds or settings.

    The result of each model is that of ``train``. Plain GCNs on a CPU (ReLU, dropout, no
    normalisation layers) are trained in threads, one per core; OMP_NUM_THREADS limits their number.
    Other models are trained one after the other. There are no checkpoints.

    Parameters
    ----------
    models : list of torch.nn.Module
        Models as for ``train``. At the end each model has the weights of its best epoch.
    data : Dataset, NodeData or torch_geometric.data.Data
        Graph, features, labels and split.
    settings : Settings or list of Settings, optional
        Settings of all models, or of each model.

    Returns
    -------
    list of TrainingResult
        One result per model. A training that diverges does not stop the others: the attribute
        ``diverged`` of its result has the reason, and the other attributes describe the training
        up to there.

    Examples
    --------
    >>> from gpcanet.datasets import block_model
    >>> from gpcanet.nn import GCN
    >>> data = block_model(200, 800, n_features=8, n_classes=2)
    >>> models = [GCN(8, 16, 2, 2) for _ in range(3)]
    >>> settings = [Settings(epochs=5, lr=0.01, seed=seed) for seed in range(3)]
    >>> [result.epochs for result in train_many(models, data, settings)]
    [5, 5, 5]
    """
    models = list(models)
    if settings is None or isinstance(settings, Settings):
        settings = [settings or Settings()] * len(models)
    if len(settings) != len(models):
        raise InputError(
            f"{len(models)} models and {len(settings)} settings; give one Settings per model, or "
            f"one for all"
        )
    if len({id(model) for model in models}) < len(models):
        raise InputError("a model occurs more than once in models; copy it by copy.deepcopy")
    for setting in settings:
        check_settings(setting)
    nodes: dict[torch.device, NodeData] = {}
    for model, setting in zip(models, settings, strict=True):
        check_model(model)
        device = setting.torch_device()
        model.to(device)
        if device not in nodes:
            nodes[device] = NodeData.of(data, device)
    progress = _Progress([setting.epochs for setting in settings])

    def train_one(number: int) -> TrainingResult:
        model, setting = models[number], settings[number]
        own_data, generator = nodes[setting.torch_device()], None
        if use_threads:
            torch.set_num_threads(1)
            generator = torch.Generator().manual_seed(setting.seed)
        else:
            torch.manual_seed(setting.seed)
            own_data = densify_if_needed(model, own_data)
        loop = TrainingLoop(model, own_data, setting, generator=generator)
        try:
            loop.run(report=lambda epoch: progress.update(number, epoch))
        except TrainingDivergedError as error:
            loop.result.diverged = str(error)
        progress.update(number, setting.epochs)  # early stopping may have left out some
        return loop.result

    # Other models may use the global random state, which threads cannot share.
    use_threads = len(models) > 1 and all(
        setting.parts == 1 and is_plain_gcn(model, nodes[setting.torch_device()])
        for model, setting in zip(models, settings, strict=True)
    )
    if use_threads:
        with one_torch_thread():
            return parallel_map(train_one, range(len(models)))
    with torch.random.fork_rng([device for device in nodes if device.type == "cuda"]):
        return [train_one(number) for number in range(len(models))]


class _Progress:
    """Reports the epochs of all models together."""

    def __init__(self, epochs: list[int]) -> None:
        self.total, self.done, self.lock = sum(epochs), [0] * len(epochs), Lock()

    def update(self, number: int, epoch: int) -> None:
        with self.lock:
            if epoch > self.done[number]:
                self.done[number] = epoch
                report_progress("training", sum(self.done), self.total)
