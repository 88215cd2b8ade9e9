"""From the eigenvectors of a layer to weights of any width."""

import numpy as np
import pytest

from gpcanet.nn.init.eigenvectors import mixing_matrix


@pytest.mark.parametrize("width", [1, 2, 5, 8, 9, 30])
@pytest.mark.parametrize("n_eigenvectors", [1, 4, 8])
@pytest.mark.parametrize("pairs", [True, False])
def test_mixing_matrix_has_requested_width_unit_columns_and_pairs(width, n_eigenvectors, pairs):
    C = mixing_matrix(n_eigenvectors, width, pairs=pairs)
    wanted = (width + 1) // 2 if pairs else width
    k = min(wanted, n_eigenvectors)
    assert C.shape == (k, width)
    np.testing.assert_allclose(np.linalg.norm(C, axis=0), 1)
    np.testing.assert_array_equal(C[:, :k], np.eye(k))
    if pairs:  # an odd width has no pair of the last column
        np.testing.assert_array_equal(C[:, wanted:], -C[:, : width - wanted])


@pytest.mark.parametrize("pairs", [True, False])
@pytest.mark.parametrize("n_eigenvectors", [2, 7, 12])
def test_towers_share_columns_of_one_matrix(n_eigenvectors, pairs):
    n_towers, width = 3, 4
    n_columns = width // 2 if pairs else width
    whole = mixing_matrix(n_eigenvectors, n_towers * n_columns, pairs=False, seed=5)
    for tower in range(n_towers):
        C = mixing_matrix(
            n_eigenvectors, width, pairs=pairs, seed=5, tower=tower, n_towers=n_towers
        )
        expected = whole[:, tower * n_columns : (tower + 1) * n_columns]
        np.testing.assert_array_equal(C[:, :n_columns], expected)


def test_additional_columns_depend_on_seed():
    first, again, other = (mixing_matrix(3, 9, pairs=False, seed=seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert not np.allclose(first[:, 3:], other[:, 3:])
    assert np.linalg.matrix_rank(first[:, 3:6]) == 3


def test_relu_of_pairs_loses_no_information():
    Z = np.random.default_rng(0).standard_normal((20, 4))
    hidden = np.maximum(Z @ mixing_matrix(4, 8, pairs=True), 0)
    np.testing.assert_allclose(hidden[:, :4] - hidden[:, 4:], Z)
