"""Node classifiers to compare GPCAClassifier with: GCN, APPNP, SGC and logistic regression."""

from __future__ import annotations

import time
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import normalize

from gpcanet.datasets import Dataset
from gpcanet.estimators.heads import expected_calibration_error

from .baselines import scipy_propagation

#: Settings tried for the networks; the one with the best validation score is used.
LEARNING_RATES, DROPOUTS = (0.01, 0.05), (0.5, 0.8)

#: Values of C tried for the logistic regressions.
INVERSE_PENALTIES = (0.1, 1.0, 10.0, 100.0)

HIDDEN, WEIGHT_DECAY, EPOCHS, PATIENCE = 64, 5e-4, 300, 100

#: Steps and restart probability of APPNP.
APPNP_STEPS, APPNP_RESTART = 10, 0.1


class Result(NamedTuple):
    """Scores on validation and test nodes, the calibration error on the latter, and seconds."""

    validation: float
    test: float
    calibration_error: float
    seconds: float


def score(y: np.ndarray, probabilities: np.ndarray, metric: str) -> float:
    """Accuracy, or the area under the ROC curve of two classes."""
    if metric == "roc_auc":
        return float(roc_auc_score(y, probabilities[:, 1]))
    return float(np.mean(probabilities.argmax(axis=1) == y))


def make_result(data: Dataset, metric: str, probabilities: np.ndarray, seconds: float) -> Result:
    validation, test = (
        score(data.y[nodes], probabilities[nodes], metric) for nodes in (data.validation, data.test)
    )
    correct = probabilities[data.test].argmax(axis=1) == data.y[data.test]
    error = expected_calibration_error(probabilities[data.test].max(axis=1), correct)
    return Result(validation, test, error, seconds)


def logistic_regression(
    data: Dataset, metric: str, *, tuned: bool = True, features: Any = None
) -> Result:
    """Logistic regression on X with rows of unit length, or on other features.

    Its seconds are those of all values of C.
    """
    start = time.perf_counter()
    X = normalize(data.X) if features is None else features
    results = []
    for C in INVERSE_PENALTIES:
        model = LogisticRegression(C=C, max_iter=500, tol=1e-3)
        model.fit(X[data.train], data.y[data.train])
        results.append(make_result(data, metric, model.predict_proba(X), 0.0))
    seconds = time.perf_counter() - start
    return max(results, key=lambda result: result.validation)._replace(seconds=seconds)


def sgc(data: Dataset, metric: str, *, tuned: bool = True) -> Result:
    """Logistic regression on P^2 X."""
    start = time.perf_counter()
    P = scipy_propagation(data.graph.indptr, data.graph.indices)
    X = P @ (P @ normalize(data.X).astype(np.float32))
    X = sp.csr_array(X) if sp.issparse(X) else np.asarray(X)
    before = time.perf_counter() - start
    result = logistic_regression(data, metric, features=X)
    return result._replace(seconds=result.seconds + before)


def network(data: Dataset, metric: str, kind: str, *, tuned: bool = True) -> Result:
    """A GCN or an APPNP of two layers, tuned on the validation nodes; seconds of one training."""
    settings = list(product(LEARNING_RATES, DROPOUTS))[: None if tuned else 1]
    runs = [_train(data, metric, kind, lr, dropout) for lr, dropout in settings]
    seconds = float(np.mean([run.seconds for run in runs]))
    return max(runs, key=lambda run: run.validation)._replace(seconds=seconds)


def _train(data: Dataset, metric: str, kind: str, lr: float, dropout: float) -> Result:
    """Train with early stopping and keep the epoch with the best validation score."""
    import torch

    from gpcanet.nn import GraphPropagation
    from gpcanet.nn.tensors import to_feature_tensor

    torch.manual_seed(0)
    start = time.perf_counter()
    x, P = to_feature_tensor(normalize(data.X).astype(np.float32)), GraphPropagation(data.graph)
    first = torch.nn.Linear(data.X.shape[1], HIDDEN)
    second = torch.nn.Linear(HIDDEN, data.n_classes)
    for layer in (first, second):  # as in PyG
        torch.nn.init.xavier_uniform_(layer.weight)
        torch.nn.init.zeros_(layer.bias)
    parameters = [
        {"params": first.parameters(), "weight_decay": WEIGHT_DECAY},
        {"params": second.parameters()},
    ]
    optimizer = torch.optim.Adam(parameters, lr=lr)
    y, train = torch.from_numpy(data.y), torch.from_numpy(data.train)

    def drop_inputs() -> Any:
        if x.layout == torch.strided:
            return torch.nn.functional.dropout(x, dropout)
        values = torch.nn.functional.dropout(x.values(), dropout)
        structure = x.crow_indices(), x.col_indices()
        return torch.sparse_csr_tensor(*structure, values, x.shape, check_invariants=False)

    def forward(*, training: bool) -> Any:
        h = (drop_inputs() if training else x) @ first.weight.T
        h = torch.relu((P @ h if kind == "gcn" else h) + first.bias)
        h = second(torch.nn.functional.dropout(h, dropout, training))
        if kind == "gcn":
            return P @ h
        z = h
        for _ in range(APPNP_STEPS):
            z = (1 - APPNP_RESTART) * (P @ z) + APPNP_RESTART * h
        return z

    best, waited = (-1.0, 0.0), 0
    kept = np.empty(0)
    for _ in range(EPOCHS):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(forward(training=True)[train], y[train]).backward()
        optimizer.step()
        with torch.no_grad():
            probabilities = forward(training=False).softmax(1).numpy()
        held_out = probabilities[data.validation]
        likelihood = np.log(held_out[np.arange(len(held_out)), data.y[data.validation]] + 1e-9)
        found = score(data.y[data.validation], held_out, metric), float(likelihood.mean())
        waited = 0 if found > best else waited + 1
        if found > best:
            best, kept = found, probabilities
        if waited >= PATIENCE:
            break
    return make_result(data, metric, kept, time.perf_counter() - start)


PEERS: dict[str, Any] = {
    "GCN": partial(network, kind="gcn"),
    "APPNP": partial(network, kind="appnp"),
    "SGC": sgc,
    "logistic regression": logistic_regression,
}
