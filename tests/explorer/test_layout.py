"""Layouts keep distances, are aligned, and are rounded within half a step."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from properties import examples
from scipy.spatial.distance import pdist, squareform

from gpcanet.explorer.layout import (
    AUTO_TSNE_NODES,
    LEVELS,
    MAX_TSNE_NODES,
    align,
    choose_layout,
    lay_out,
    quantize,
    standardize,
)

numbers = st.floats(-1e6, 1e6, width=32)
clouds = arrays(np.float64, st.tuples(st.integers(2, 30), st.just(2)), elements=numbers)


def largest(points):
    return float(np.abs(points).max(initial=0))


@examples(50)
@given(points=clouds, seed=st.integers(0, 99))
def test_alignment_keeps_distances(points, seed):
    reference = np.random.default_rng(seed).normal(size=points.shape)
    aligned = align(points, reference)
    # Rounding of a product with an orthogonal 2 x 2 matrix.
    np.testing.assert_allclose(pdist(aligned), pdist(points), rtol=0, atol=1e-14 * largest(points))
    before, after = (np.linalg.norm(cloud - reference) for cloud in (points, aligned))
    assert after <= before * (1 + 1e-12)


@examples(50)
@given(angle=st.floats(0, 7), mirrored=st.booleans(), seed=st.integers(0, 99))
def test_alignment_undoes_rotation_and_reflection(angle, mirrored, seed):
    points = np.random.default_rng(seed).normal(size=(20, 2))
    cos, sin = np.cos(angle), np.sin(angle)
    turn = np.array([[cos, -sin], [sin, cos]]) @ np.diag([1, -1 if mirrored else 1])
    np.testing.assert_allclose(align(points @ turn, points), points, atol=1e-12)


@examples(50)
@given(points=clouds)
def test_standardised_points_have_unit_spread_and_the_same_shape(points):
    scaled = standardize(points)
    # Centring cancels digits of points that are far from 0 compared with their spread.
    lost = 1e-12 * largest(points) / (pdist(points).max() or 1)
    np.testing.assert_allclose(scaled.mean(axis=0), 0, atol=1e-12 + lost)
    spread = np.sqrt(np.mean(np.sum(scaled**2, axis=1)))
    if pdist(points).max() > 1e-6 * largest(points):
        assert spread == pytest.approx(1)
        ratio = pdist(scaled).max() / pdist(points).max()
        np.testing.assert_allclose(pdist(scaled), ratio * pdist(points), atol=1e-9 + lost)


@examples(50)
@given(
    positions=arrays(
        np.float64,
        st.tuples(st.integers(1, 3), st.integers(1, 20), st.just(2)),
        elements=st.floats(-1e9, 1e9),
    )
)
def test_rounding_error_is_at_most_half_a_step(positions):
    levels, low, step = quantize(positions)
    assert levels.dtype == np.uint16
    # The last term is the rounding of the subtraction of low in float64.
    allowed = step / 2 * (1 + 1e-9) + 1e-15 * largest(positions)
    assert largest(low + step * levels - positions) <= allowed
    extent = (positions.max(axis=(0, 1)) - positions.min(axis=(0, 1))).max()
    assert step == pytest.approx(extent / LEVELS if extent else 1.0)


def random_embeddings(n_betas, n_alphas, n_nodes, n_components=5, seed=0):
    """Embeddings that change little from pair to pair, apart from the signs of components."""
    rng = np.random.default_rng(seed)
    common = rng.normal(size=(n_nodes, n_components)) * np.linspace(3, 1, n_components)
    return {
        (beta, alpha): (common + 0.1 * rng.normal(size=common.shape)) * rng.choice([-1, 1], 5)
        for beta in range(n_betas)
        for alpha in range(n_alphas)
    }


def test_layouts_of_components_differ_little_though_their_signs_do():
    embeddings = random_embeddings(2, 4, 50)
    positions = lay_out(embeddings, "pca")
    assert positions.shape == (2, 4, 50, 2)
    for place, Z in embeddings.items():
        ratio = pdist(positions[place]) / pdist(Z[:, :2])
        np.testing.assert_allclose(ratio, ratio[0], rtol=1e-9)
    for first, second in ((np.s_[:, 1:], np.s_[:, :-1]), (np.s_[1:], np.s_[:-1])):
        moved = np.linalg.norm(positions[first] - positions[second], axis=-1)
        assert moved.mean() < 0.1  # the spread of a layout is 1


def test_tsne_starts_from_the_neighbouring_layout():
    embeddings = random_embeddings(2, 3, 80)
    positions = lay_out(embeddings, "tsne")
    assert np.isfinite(positions).all()
    moved = np.linalg.norm(np.diff(positions, axis=1), axis=-1)
    alone = [lay_out({(0, 0): embeddings[0, alpha]}, "tsne")[0, 0] for alpha in (1, 2)]
    assert moved.mean() < 0.6 * np.linalg.norm(alone[1] - alone[0], axis=-1).mean()


def test_tsne_shows_no_clusters_of_the_neighbouring_embedding():
    """The second embedding is in clusters, the first one is noise and starts from its layout."""
    rng = np.random.default_rng(0)
    classes = np.repeat(np.arange(4), 60)
    noise = rng.normal(size=(240, 6))
    clusters = 20 * np.eye(6)[classes] + rng.normal(size=(240, 6))
    positions = lay_out({(0, 0): noise, (0, 1): clusters}, "tsne")[0]

    def agreement(points):
        """Share of the ten nearest neighbours that have the class of the node."""
        order = np.argsort(squareform(pdist(points)), axis=1)[:, 1:11]
        return np.mean(classes[order] == classes[:, None])

    assert agreement(positions[1]) > 0.95
    # By chance it is a quarter, with a standard deviation below 0.02.
    assert agreement(positions[0]) < agreement(noise) + 0.08


def test_one_component_and_few_nodes_have_a_layout():
    Z = np.array([[1.0], [2.0], [4.0]])
    for kind in ("pca", "tsne"):
        positions = lay_out({(0, 0): Z}, kind)[0, 0]
        np.testing.assert_allclose(positions[:, 1], 0, atol=1e-12)
        assert len(np.unique(positions[:, 0])) == 3


def test_layout_depends_on_the_number_of_nodes():
    assert choose_layout("auto", AUTO_TSNE_NODES) == "tsne"
    assert choose_layout("auto", AUTO_TSNE_NODES + 1) == "pca"
    assert choose_layout("tsne", MAX_TSNE_NODES) == "tsne"
    with pytest.raises(ValueError, match=r"20,001 nodes .* show a sample"):
        choose_layout("tsne", MAX_TSNE_NODES + 1)
    with pytest.raises(ValueError, match="layout='umap' must be one of 'auto', 'pca', 'tsne'"):
        choose_layout("umap", 10)
