"""Classification heads on a fixed embedding: trained by Adam as in the paper, or logistic.

A head has a few thousand weights, for which the overhead of torch would exceed the computation;
it is written in numpy instead.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from itertools import pairwise
from typing import Protocol

import numpy as np
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import normalize

from gpcanet.datasets import Dataset
from gpcanet.errors import TrainingDivergedError
from gpcanet.utils.labels import SPLIT
from gpcanet.utils.training_result import TrainingResult

from .cells import Setup

#: Adam's usual parameters.
FIRST_DECAY, SECOND_DECAY, EPSILON = 0.9, 0.999, 1e-8

Weights = list[np.ndarray]  # a matrix and a vector of biases for each layer


class Draws(Protocol):
    """Source of the random numbers of a head."""

    def weights(self, widths: list[int]) -> Weights:
        """Initial weights as in torch.nn.Linear: uniform within 1 / sqrt(n_in)."""

    def dropout_mask(self, shape: tuple[int, int]) -> np.ndarray | None:
        """0 with the dropout probability p, else 1 / (1 - p); None without dropout."""


class NumpyDraws:
    """Random numbers by numpy's SFC64, its fastest generator."""

    def __init__(self, seed: int, dropout: float = 0) -> None:
        self._rng, self._dropout = np.random.Generator(np.random.SFC64(seed)), dropout

    def weights(self, widths: list[int]) -> Weights:
        return [
            self._rng.uniform(-(n_in**-0.5), n_in**-0.5, shape).astype(np.float32)
            for n_in, n_out in pairwise(widths)
            for shape in ((n_in, n_out), (n_out,))
        ]

    def dropout_mask(self, shape: tuple[int, int]) -> np.ndarray | None:
        if not self._dropout:
            return None
        survives = self._rng.random(shape, np.float32) >= self._dropout
        return survives * np.float32(1 / (1 - self._dropout))


def fit_head(Z: np.ndarray, data: Dataset, setup: Setup, seed: int) -> TrainingResult:
    """Train the head of a setup on the training nodes and evaluate it on all parts of the split."""
    nodes = {name: getattr(data, name) for name in SPLIT}
    started = time.perf_counter()
    if setup["head"] == "logistic":
        # Rows of unit norm, each or on average, so that C has the same effect for every Z.
        norm = math.sqrt(np.mean(np.sum(np.square(Z[nodes["train"]]), axis=1))) or 1.0
        rows = normalize(Z) if setup["unit_rows"] else Z / norm
        head = LogisticRegression(C=setup["C"], max_iter=1000)
        head.fit(rows[nodes["train"]], data.y[nodes["train"]])
        result = TrainingResult(
            accuracy={
                name: _accuracy(head.predict(rows[part]) == data.y[part])
                for name, part in nodes.items()
            }
        )
    else:
        # Two successive dropouts equal one with a larger probability.
        dropout = 1 - (1 - setup["dropout"]) ** setup["dropouts"]
        draws: Draws = NumpyDraws(seed, dropout)
        if setup.get("draws") == "torch":
            from .torch_draws import TorchDraws

            n_nodes, n_features = data.X.shape
            draws = TorchDraws(
                seed, dropout, n_features=n_features, n_nodes=n_nodes, rows=nodes["train"]
            )
            Z = Z[:, ::-1]  # ascending, as their eigensolver returns them
        result = _train_by_adam(Z, data, nodes, setup, draws)
    result.seconds = time.perf_counter() - started
    return result


def _train_by_adam(
    Z: np.ndarray,
    data: Dataset,
    nodes: dict[str, np.ndarray],
    setup: Setup,
    draws: Draws,
) -> TrainingResult:
    hidden = [] if setup["head"] == "linear" else [Z.shape[1]]
    weights = draws.weights([Z.shape[1], *hidden, data.n_classes])
    adam = Adam(weights, setup["lr"], setup["weight_decay"])
    truth = np.eye(data.n_classes, dtype=np.float32)[data.y[nodes["train"]]]
    rows = {name: np.ascontiguousarray(Z[found], np.float32) for name, found in nodes.items()}
    result = TrainingResult()
    for epoch in range(1, setup["epochs"] + 1):
        loss, gradients = loss_and_gradients(weights, rows["train"], truth, draws)
        if not math.isfinite(loss):
            raise TrainingDivergedError(f"the loss is {loss} in epoch {epoch}")
        adam.step_(gradients)
        if epoch % setup["eval_every"] == setup.get("eval_at", 0):
            accuracy = _accuracies(weights, rows, data, nodes, ["validation"])
            if accuracy["validation"] >= result.accuracy.get("validation", 0):
                accuracy = _accuracies(weights, rows, data, nodes, SPLIT)  # possibly the best
            result.add_evaluation(epoch, loss, accuracy, later=setup["later_of_ties"])
    return result


def _accuracies(
    weights: Weights,
    rows: dict[str, np.ndarray],
    data: Dataset,
    nodes: dict[str, np.ndarray],
    wanted: Sequence[str],
) -> dict[str, float]:
    found = {name: _outputs(weights, rows[name]).argmax(1) for name in wanted}
    return {name: _accuracy(found[name] == data.y[nodes[name]]) for name in wanted}


def _accuracy(correct: np.ndarray) -> float:
    return float(np.count_nonzero(correct) / len(correct))


# -- linear layers with ReLU in between -------------------------------------------------------


def _outputs(weights: Weights, x: np.ndarray) -> np.ndarray:
    for layer in range(0, len(weights), 2):
        x = x @ weights[layer] + weights[layer + 1]
        if layer + 2 < len(weights):
            x = np.maximum(x, 0)
    return x


def loss_and_gradients(
    weights: Weights, x: np.ndarray, truth: np.ndarray, draws: Draws
) -> tuple[float, Weights]:
    """Mean cross-entropy and its gradients, with dropout on the input of every layer."""
    inputs, masks = [], []
    for layer in range(0, len(weights), 2):
        masks.append(draws.dropout_mask((x.shape[0], x.shape[1])))
        inputs.append(x if masks[-1] is None else x * masks[-1])
        x = inputs[-1] @ weights[layer] + weights[layer + 1]
        if layer + 2 < len(weights):
            x = np.maximum(x, 0)
    probabilities = softmax(x, axis=1)
    probability = np.maximum((probabilities * truth).sum(axis=1), np.finfo(np.float32).tiny)
    slope = (probabilities - truth) / np.float32(len(truth))
    gradients: Weights = []
    for layer in range(len(inputs) - 1, -1, -1):
        gradients[:0] = [inputs[layer].T @ slope, slope.sum(axis=0)]
        if layer:
            slope = slope @ weights[2 * layer].T
            mask = masks[layer]
            slope = slope if mask is None else slope * mask
            slope = slope * (inputs[layer] > 0)
    return float(-np.log(probability).mean()), gradients


class Adam:
    """torch.optim.Adam: weight decay is added to the gradient."""

    def __init__(self, weights: Weights, lr: float, weight_decay: float) -> None:
        self.weights, self.lr, self.weight_decay = weights, lr, weight_decay
        self.first = [np.zeros_like(weight) for weight in weights]
        self.second = [np.zeros_like(weight) for weight in weights]
        self.steps = 0

    def step_(self, gradients: Weights) -> None:
        self.steps += 1
        rate = np.float32(self.lr / (1 - FIRST_DECAY**self.steps))
        correction = np.float32((1 - SECOND_DECAY**self.steps) ** -0.5)
        moments = zip(self.weights, gradients, self.first, self.second, strict=True)
        for weight, gradient, first, second in moments:
            decayed = gradient + np.float32(self.weight_decay) * weight
            first += np.float32(1 - FIRST_DECAY) * (decayed - first)
            second *= np.float32(SECOND_DECAY)
            second += np.float32(1 - SECOND_DECAY) * decayed * decayed
            weight -= rate * first / (np.sqrt(second) * correction + np.float32(EPSILON))
