"""Head against scikit-learn."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from properties import examples
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import normalize
from truth import random_features

from gpcanet.estimators.heads import (
    Head,
    expected_calibration_error,
    fit_temperature,
    with_temperature,
)

X = random_features()
COUNTS = np.abs(X).round()


@pytest.mark.parametrize("n_classes", [2, 3, 5])
@pytest.mark.parametrize("unit_rows", [False, True])
@pytest.mark.parametrize("others", [None, COUNTS, sp.csr_array(COUNTS)])
def test_head_equals_logistic_regression_of_scikit_learn(n_classes, unit_rows, others):
    codes = np.arange(40) % n_classes
    weights = np.random.default_rng(0).random(40)
    head = Head(0.7, unit_rows=unit_rows).fit(X, codes, weights, others=others, tol=1e-9)
    rows = normalize(X) if unit_rows else X / np.sqrt((X**2).sum(axis=1).mean())
    if others is not None:
        rows = np.hstack([rows, COUNTS / np.sqrt((COUNTS**2).sum(axis=1).mean())])
    regression = LogisticRegression(C=0.7, max_iter=10_000, tol=1e-9).fit(rows, codes, weights)
    expected = regression.predict_proba(rows)
    np.testing.assert_allclose(head.predict_proba(X, others), expected, rtol=1e-5)
    again = Head(0.7, unit_rows=unit_rows)
    again.fit(X, codes, weights, others=others, start=head, tol=1e-9)
    np.testing.assert_allclose(again.predict_proba(X, others), expected, rtol=1e-5)


def test_temperature_has_the_largest_likelihood():
    rng = np.random.default_rng(0)
    probabilities = rng.dirichlet(np.ones(4), 5000)
    sharp = probabilities**2 / np.sum(probabilities**2, axis=1, keepdims=True)
    codes = np.array([rng.choice(4, p=row) for row in sharp])
    temperature = fit_temperature(probabilities, codes)
    assert temperature == pytest.approx(0.5, abs=0.03)
    np.testing.assert_allclose(with_temperature(probabilities, 0.5), sharp, atol=1e-9)


@pytest.mark.parametrize("unit_rows", [False, True])
def test_head_keeps_float32(unit_rows):
    head = Head(0.7, unit_rows=unit_rows).fit(X, np.arange(40) % 3)
    assert type(head.scale) is float
    assert head.scale_rows(X.astype(np.float32)).dtype == np.float32


@examples(30)
@given(seed=st.integers(0, 10**6), weighted=st.booleans())
def test_calibration_error_is_the_weighted_mean_over_bins(seed, weighted):
    rng = np.random.default_rng(seed)
    P = rng.dirichlet([0.5, 0.5, 0.5], 60)
    codes = rng.integers(0, 3, 60)
    weights = rng.random(60) if weighted else np.ones(60)
    expected = 0.0
    for low in range(15):
        rows = (P.max(axis=1) >= low / 15) & (P.max(axis=1) < (low + 1) / 15)
        if rows.any():
            confidence = np.average(P[rows].max(axis=1), weights=weights[rows])
            accuracy = np.average(P[rows].argmax(axis=1) == codes[rows], weights=weights[rows])
            expected += weights[rows].sum() / weights.sum() * abs(confidence - accuracy)
    correct = P.argmax(axis=1) == codes
    found = expected_calibration_error(P.max(axis=1), correct, weights if weighted else None)
    assert found == pytest.approx(expected)


def test_certain_and_right_predictions_have_no_calibration_error():
    assert expected_calibration_error(np.ones(3), np.ones(3, bool)) == 0
    assert expected_calibration_error(np.ones(3), np.zeros(3, bool)) == 1
