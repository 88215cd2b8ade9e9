"""A single product with P against the dense product."""

import numpy as np
import pytest
from truth import dense_P, propagation

from gpcanet.linalg import Product


@pytest.mark.usefixtures("either_path")
@pytest.mark.parametrize(("dtype", "atol"), [(np.float64, 1e-12), (np.float32, 2e-5)])
def test_product_equals_dense_product(any_graph, X, dtype, atol):
    product = Product(propagation(any_graph, dtype=dtype)) @ X.astype(dtype)
    assert product.dtype == dtype
    np.testing.assert_allclose(product, dense_P(any_graph) @ X, rtol=0, atol=atol)
