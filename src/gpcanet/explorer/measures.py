"""What the page shows for a pair of alpha and beta: predictions, scores, weights of features."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..datasets import Dataset
from ..estimators.heads import Head
from ..estimators.path import GPCAPath
from ..linalg import Propagation

#: Inverse penalty of the logistic regressions, the default of scikit-learn.
INVERSE_PENALTY = 1.0

#: Training labels that a logistic regression uses at most.
MAX_TRAINING_LABELS = 20_000

#: Components whose eigenvalues and features are shown, and features listed for each.
SHOWN_COMPONENTS, LISTED_FEATURES = 8, 10

#: Eigenvalues below this fraction of the largest are rounding errors.
ROUNDING_SHARE = 1e-9

#: Features that the page suggests to colour by.
SUGGESTED_FEATURES = 12


class Predictions(NamedTuple):
    """Class of every node and its probability, and the accuracy by part of the split."""

    codes: np.ndarray
    probabilities: np.ndarray
    accuracy: dict[str, float]


class Classifier:
    """Logistic regressions on the embeddings of a grid; each starts from the one before."""

    def __init__(self, data: Dataset) -> None:
        self.data = data
        rng = np.random.default_rng(0)
        train = data.train
        if len(train) > MAX_TRAINING_LABELS:
            train = rng.choice(train, MAX_TRAINING_LABELS, replace=False)
        self.train = train
        # A head knows only the classes of its training nodes.
        self.classes, self.codes = np.unique(data.y[train], return_inverse=True)
        self.head: Head | None = None

    def predict(self, Z: np.ndarray) -> Predictions:
        """Fit on the training nodes and predict all nodes."""
        n_nodes, data = len(Z), self.data
        if len(self.classes) < 2:
            codes, probabilities = np.repeat(self.classes, n_nodes), np.ones(n_nodes)
        else:
            head = Head(INVERSE_PENALTY, unit_rows=False)
            self.head = head.fit(Z[self.train], self.codes, start=self.head)
            found = head.predict_proba(Z)
            codes, probabilities = self.classes[found.argmax(axis=1)], found.max(axis=1)
        accuracy = {}
        for part in ("validation", "test"):
            nodes = getattr(data, part)
            nodes = nodes[data.y[nodes] >= 0]
            if len(nodes):
                accuracy[part] = float(np.mean(codes[nodes] == data.y[nodes]))
        return Predictions(codes, probabilities, accuracy)


def smoothness(Z: np.ndarray, P: Propagation) -> float:
    """tr(Z^T L Z) / tr(Z^T Z) with L = I - P; 0 if Z is constant on connected nodes."""
    total = float(np.vdot(Z, Z))
    return 1 - float(np.vdot(Z, P @ Z)) / total if total else 0.0


def shown_eigenvalues(values: np.ndarray) -> list[float]:
    """The first eigenvalues, with 0 for those that are rounding errors."""
    shown = values[:SHOWN_COMPONENTS]
    return np.where(shown > ROUNDING_SHARE * shown[0], shown, 0.0).tolist()


class FeatureWeights(NamedTuple):
    """Features that weigh most in the components of every pair."""

    features: np.ndarray  # of shape (n_pairs, n_components, n_listed)
    weights: np.ndarray
    relevant: np.ndarray  # features that the page suggests to colour by, most relevant first


def feature_weights(path: GPCAPath, pairs: list[tuple[float, float]]) -> FeatureWeights:
    """Largest weights in the first components of every pair, and the most relevant features.

    The relevance of a feature is the sum of its squared weights in these components, times the
    eigenvalues, as shares of their sum, over all pairs.
    """
    features, weights = [], []
    relevance = np.zeros(path.n_features_in_)
    n_listed = min(LISTED_FEATURES, path.n_features_in_)
    for alpha, beta in pairs:
        W = path.components(alpha, beta)[:SHOWN_COMPONENTS]
        values = path.eigenvalues(alpha, beta)[: len(W)]
        relevance += (values / (values.sum() or 1.0)) @ W.astype(np.float64) ** 2
        order = np.argsort(-np.abs(W), axis=1, kind="stable")[:, :n_listed]
        features.append(order)
        weights.append(np.take_along_axis(W, order, axis=1))
    relevant = np.argsort(-relevance, kind="stable")[:SUGGESTED_FEATURES]
    return FeatureWeights(np.array(features), np.array(weights), relevant)
