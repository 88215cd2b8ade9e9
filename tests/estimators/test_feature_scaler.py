"""FeatureScaler against scikit-learn and formulas."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.feature_extraction.text import TfidfTransformer
from truth import random_features

from gpcanet.estimators.feature_scaler import FeatureScaler, scale_ratio
from gpcanet.linalg import column_variances

COUNTS = np.abs(random_features()).round()


@pytest.mark.parametrize("is_sparse", [False, True])
def test_columns_of_unit_variance_and_rows_of_unit_norm(is_sparse):
    X = np.random.default_rng(0).standard_normal((20, 3)) * [1, 100, 0.01] + [0, 5, 1]
    given_X = sp.csr_array(X) if is_sparse else X
    expected = {"standard": X / X.std(axis=0), "none": X}
    expected["l2"] = X / np.linalg.norm(X, axis=1, keepdims=True)
    for kind, scaled in expected.items():
        found = FeatureScaler(kind).fit(given_X).transform(given_X)
        assert sp.issparse(found) == is_sparse
        np.testing.assert_allclose(found.toarray() if is_sparse else found, scaled, rtol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
def test_tfidf_equals_tfidf_transformer(make, dtype):
    counts = make(COUNTS.astype(dtype))
    found = FeatureScaler("tfidf").fit(counts).transform(counts)
    expected = TfidfTransformer().fit_transform(sp.csr_matrix(counts)).toarray()
    assert found.dtype == dtype
    np.testing.assert_allclose(found.toarray(), expected, rtol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(expected, axis=1), 1, rtol=1e-6)


def test_ratio_of_standard_deviations():
    X = np.random.default_rng(0).standard_normal((20, 4)) * [1, 100, 0.01, 0] + [
        0,
        1e6,
        1,
        3,
    ]
    stds = X.std(axis=0)[:3]
    assert scale_ratio(X) == pytest.approx(stds.max() / stds.min(), rel=1e-6)
    assert scale_ratio(np.ones((5, 2))) == 1.0
    found = FeatureScaler("standard").fit(X).factors
    np.testing.assert_allclose(found, [*1 / stds, 1], rtol=1e-6)


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
@pytest.mark.parametrize(("dtype", "unit"), [(np.float32, 1e-41), (np.float64, 1e200)])
def test_columns_of_extreme_size_stay_finite(make, dtype, unit):
    X = np.random.default_rng(0).standard_normal((20, 3))
    extreme = make((X * [1, 1, unit]).astype(dtype))
    found = FeatureScaler("standard").fit(extreme).transform(extreme)
    assert np.isfinite(found.toarray() if sp.issparse(found) else found).all()
    assert np.isfinite(scale_ratio(extreme))


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
@pytest.mark.parametrize(
    ("dtype", "scale"),
    [(np.float32, 1e-24), (np.float32, 1e20), (np.float64, 1e-200), (np.float64, 1e200)],
)
def test_rows_of_any_size_have_unit_norm(make, dtype, scale):
    X = np.array([[1, 2, 0], [0, 0, 0], [1e-12, 0, 0], [3, 4, 12]]) * scale
    expected = [[0.2**0.5, 0.8**0.5, 0], [0, 0, 0], [1, 0, 0], [3 / 13, 4 / 13, 12 / 13]]
    X = make(X.astype(dtype))
    found = FeatureScaler("l2").fit(X).transform(X)
    assert found.dtype == dtype
    found = found.toarray() if sp.issparse(found) else found
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    scaled = FeatureScaler("standard").fit(X).transform(X)
    np.testing.assert_allclose(column_variances(scaled), 1, rtol=1e-5)
