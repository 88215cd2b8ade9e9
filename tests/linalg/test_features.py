"""Centred features: sparse and dense X give the same matrix X - 1 mean^T."""

import numpy as np
import pytest
import scipy.sparse as sp

import gpcanet.linalg.features
from gpcanet.linalg import CenteredFeatures, row_chunks

#: Sums of 30 float32 entries of size 1 have an error of a few times the epsilon of 1.2e-7.
TOLERANCE = {np.float64: 1e-13, np.float32: 5e-6}


@pytest.fixture(params=[np.float64, np.float32])
def dtype(request):
    return request.param


@pytest.fixture
def raw(dtype):
    rng = np.random.default_rng(0)
    return (rng.standard_normal((30, 7)) * (rng.random((30, 7)) < 0.3)).astype(dtype)


@pytest.fixture(params=["kept", "in chunks", "sparse"])
def centered(request, raw, monkeypatch):
    monkeypatch.setattr(gpcanet.linalg.features, "CHUNK_BYTES", 7 * 8 * 4)  # 4 or 8 rows
    if request.param == "sparse":
        return CenteredFeatures(sp.csr_array(raw))
    return CenteredFeatures(raw, keep=request.param == "kept")


@pytest.fixture
def expected(raw):
    """The centred matrix in float64."""
    return raw.astype(np.float64) - raw.mean(axis=0, dtype=np.float64)


def test_mean_shape_and_dtype(raw, centered, dtype):
    np.testing.assert_allclose(centered.mean, raw.mean(axis=0), atol=TOLERANCE[dtype])
    assert centered.mean.dtype == centered.dtype == dtype
    assert centered.shape == raw.shape
    assert centered.is_sparse == sp.issparse(centered.values)


def test_product_equals_dense_product(centered, expected, dtype):
    W = np.random.default_rng(1).standard_normal((7, 3)).astype(dtype)
    product = centered @ W
    assert product.dtype == dtype
    np.testing.assert_allclose(product, expected @ W, atol=TOLERANCE[dtype])


def test_transposed_product_equals_dense_product(centered, expected, dtype):
    F = np.random.default_rng(1).standard_normal((30, 3)).astype(dtype)
    for _ in range(2):  # the second one uses the stored transpose
        product = centered.transposed_dot(F)
        assert product.dtype == dtype
        np.testing.assert_allclose(product, expected.T @ F, atol=TOLERANCE[dtype])


@pytest.mark.parametrize(("begin", "end"), [(0, 7), (2, 5), (6, 7)])
def test_columns_equal_dense_columns(centered, expected, dtype, begin, end):
    block = centered.columns(slice(begin, end))
    assert isinstance(block, np.ndarray)
    assert block.dtype == dtype
    np.testing.assert_allclose(block, expected[:, begin:end], atol=TOLERANCE[dtype])


def test_squared_norm_with_and_without_weights(centered, expected, dtype):
    rtol = TOLERANCE[dtype]
    assert centered.squared_norm(None) == pytest.approx((expected**2).sum(), rel=rtol)
    weights = np.linspace(1, 9, 30).astype(dtype)
    explicit = (weights[:, None] * expected**2).sum()
    assert centered.squared_norm(weights) == pytest.approx(explicit, rel=rtol)


@pytest.mark.parametrize("offset", [1e4, 1e8])
@pytest.mark.parametrize("weighted", [False, True])
def test_squared_norm_of_sparse_rows_with_a_large_offset(offset, weighted):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 7)) * (rng.random((30, 7)) < 0.3)
    X[:, 0] = rng.standard_normal(30) + offset
    weights = rng.uniform(0.1, 3, 30) if weighted else None
    found = CenteredFeatures(sp.csr_array(X)).squared_norm(weights)
    centered = X - X.mean(axis=0)
    expected = ((1 if weights is None else weights[:, None]) * centered**2).sum()
    # The entries themselves are rounded to 1e-16 of the offset.
    assert found == pytest.approx(expected, rel=1e-15 * offset)


def test_mean_of_float32_rows_is_summed_in_float64():
    X = np.full((300_000, 1), 0.1, np.float32)
    for features in (CenteredFeatures(X), CenteredFeatures(sp.csr_array(X))):
        assert features.mean[0] == np.float32(0.1)


def test_sparse_float32_product_is_as_accurate_as_dense():
    """X^T F and mean * sum(F) nearly cancel, so both need accurate sums."""
    rng = np.random.default_rng(0)
    X = ((rng.random((200_000, 3)) < 0.5) + 0.5).astype(np.float32)
    F = rng.random((200_000, 2)).astype(np.float32)
    exact = CenteredFeatures(X.astype(np.float64)).transposed_dot(F.astype(np.float64))
    for features in (CenteredFeatures(X), CenteredFeatures(sp.csr_array(X))):
        error = np.abs(features.transposed_dot(F) - exact).max()
        # 1e-6 of the size before cancellation, a few times the epsilon of float32.
        assert error < 1e-6 * np.abs(X.T @ F).max()


def test_row_chunks_cover_all_rows_once():
    chunks = list(row_chunks(10, 2**20, np.float32))  # 4 MiB per row, two rows per chunk
    assert [(c.start, c.stop) for c in chunks] == [(0, 2), (2, 4), (4, 6), (6, 8), (8, 10)]
    assert list(row_chunks(3, 2**24, np.float64)) == [slice(0, 1), slice(1, 2), slice(2, 3)]


def test_x_is_not_copied_without_keep(raw):
    assert CenteredFeatures(raw, keep=False).values is raw


def test_input_is_not_modified(raw):
    original = raw.copy()
    CenteredFeatures(raw)
    np.testing.assert_array_equal(raw, original)
