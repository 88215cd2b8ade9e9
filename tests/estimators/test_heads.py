"""FeatureScaler and Head against scikit-learn."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import normalize
from truth import random_features

from gpcanet.estimators.heads import FeatureScaler, Head

X = random_features()
COUNTS = np.abs(X).round()


@pytest.mark.parametrize("n_classes", [2, 3, 5])
@pytest.mark.parametrize("unit_rows", [False, True])
def test_head_equals_logistic_regression_of_scikit_learn(n_classes, unit_rows):
    codes = np.arange(40) % n_classes
    head = Head(0.7, unit_rows=unit_rows).fit(X, codes)
    rows = normalize(X) if unit_rows else X / np.sqrt((X**2).sum(axis=1).mean())
    regression = LogisticRegression(C=0.7, max_iter=1000).fit(rows, codes)
    np.testing.assert_allclose(
        head.predict_proba(X), regression.predict_proba(rows), rtol=1e-9, atol=1e-12
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
def test_tfidf_equals_tfidf_transformer(make, dtype):
    counts = make(COUNTS.astype(dtype))
    found = FeatureScaler("tfidf").fit(counts).transform(counts)
    expected = TfidfTransformer().fit_transform(sp.csr_matrix(counts)).toarray()
    assert found.dtype == dtype
    np.testing.assert_allclose(found.toarray(), expected, rtol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(expected, axis=1), 1, rtol=1e-6)


@pytest.mark.parametrize("unit_rows", [False, True])
def test_head_keeps_float32(unit_rows):
    head = Head(0.7, unit_rows=unit_rows).fit(X, np.arange(40) % 3)
    assert type(head.scale) is float
    assert head.scale_rows(X.astype(np.float32)).dtype == np.float32
