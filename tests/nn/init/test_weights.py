"""From eigenvectors to weights of any width."""

import numpy as np
import pytest

from gpcanet.nn.init.weights import eigenvectors_needed, mixing


@pytest.mark.parametrize("width", [1, 2, 5, 8, 9, 30])
@pytest.mark.parametrize("n_features", [1, 4, 8])
@pytest.mark.parametrize("pairs", [True, False])
def test_exact_width_unit_columns_and_pairs(width, n_features, pairs):
    k = eigenvectors_needed(width, n_features, pairs=pairs)
    C = mixing(k, width, pairs=pairs)
    assert C.shape == (k, width)
    np.testing.assert_allclose(np.linalg.norm(C, axis=0), 1)
    wanted = (width + 1) // 2 if pairs else width
    assert k == min(wanted, n_features)
    np.testing.assert_array_equal(C[:, : min(wanted, k)], np.eye(k)[:, :wanted])
    if pairs:  # the second half is the first one turned round; an odd width lacks the last
        np.testing.assert_array_equal(C[:, wanted:], -C[:, : width - wanted])


def test_fillers_are_drawn_by_seed_and_differ():
    first, again, other = (mixing(3, 9, pairs=False, seed=seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert not np.allclose(first[:, 3:], other[:, 3:])
    assert np.linalg.matrix_rank(first[:, 3:6]) == 3


def test_a_relu_of_pairs_loses_nothing():
    Z = np.random.default_rng(0).standard_normal((20, 4))
    hidden = np.maximum(Z @ mixing(4, 8, pairs=True), 0)
    np.testing.assert_allclose(hidden[:, :4] - hidden[:, 4:], Z)
