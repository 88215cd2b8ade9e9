"""Neighbourhood statistics against loops over the neighbours, and trees against scikit-learn."""

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier
from truth import random_features

from gpcanet.estimators import _boosting
from gpcanet.estimators._boosting import BoostedTrees
from gpcanet.estimators._node_statistics import NodeStatistics, node_statistics


def test_statistics_equal_loops_over_the_neighbours(graph):
    X = random_features()
    A = graph.adjacency.toarray()
    expected = np.zeros((40, 2 + 5 * X.shape[1]))

    def mean(values, node):
        return A[node] @ values / A[node].sum() if A[node].any() else 0 * values[0]

    near = np.array([mean(X, node) for node in range(40)])
    logs = np.log1p(A.sum(axis=1))
    for node in range(40):
        rows = X[np.flatnonzero(A[node])]
        some = len(rows) > 0
        deviation = mean((X - near[node]) ** 2, node) ** 0.5
        extremes = [rows.max(axis=0), rows.min(axis=0)] if some else [0 * X[0]] * 2
        expected[node] = np.concatenate(
            [[logs[node], mean(logs, node)], near[node], mean(near, node), *extremes, deviation]
        )
    np.testing.assert_allclose(node_statistics(graph, X), expected, atol=1e-7)
    table = NodeStatistics().fit(graph, X).transform(graph, X)
    np.testing.assert_allclose(table.mean(axis=0), 0, atol=1e-9)
    spread = table.std(axis=0)
    np.testing.assert_allclose(spread[spread > 1e-6], 1)
    for exponent in (520, -700):
        scaled = np.ldexp(X, exponent)
        found = NodeStatistics().fit(graph, scaled).transform(graph, scaled)
        np.testing.assert_allclose(found, table, atol=1e-6)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_trees_equal_those_of_scikit_learn(n_classes, monkeypatch):
    monkeypatch.setattr(_boosting, "ITERATIONS", 15)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    codes = (X[:, 0] * X[:, 1] > 0).astype(int) + (n_classes - 2) * (X[:, 2] > 0.5)
    weights = rng.random(300)
    found = BoostedTrees.fit_classes(X, codes, weights).predict_proba(X)
    model = HistGradientBoostingClassifier(
        max_iter=15, learning_rate=_boosting.LEARNING_RATE, early_stopping=False,
        l2_regularization=_boosting.PENALTY, random_state=0,
    ).fit(X, codes, weights)  # fmt: skip
    np.testing.assert_allclose(found, model.predict_proba(X), rtol=1e-9)
    assert np.mean(found.argmax(axis=1) == codes) > 0.9
