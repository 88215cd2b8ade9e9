"""Generated graphs have the sizes, classes and neighbours they were asked for."""

import numpy as np
import pytest

from gpcanet.datasets import block_model, synthetic


def test_block_model_has_the_requested_homophily():
    data = block_model(3000, 30_000, n_classes=5, homophily=0.6, seed=1)
    rows, columns = data.graph.adjacency.nonzero()
    # An edge not drawn within its class falls there by chance, too.
    sizes = np.bincount(data.y) / 3000
    expected = 0.6 + 0.4 * (sizes**2).sum()
    assert np.mean(data.y[rows] == data.y[columns]) == pytest.approx(expected, abs=0.03)
    assert data.graph.n_edges == pytest.approx(30_000, rel=0.05)


@pytest.fixture(params=["one draw", "many draws"])
def draws(request, monkeypatch):
    """Edges drawn all at once, or in parts of a size that does not divide their number."""
    if request.param == "many draws":
        monkeypatch.setattr(synthetic, "EDGES_PER_DRAW", 999)


@pytest.mark.parametrize("homophily", [0.0, 0.6, 1.0])
def test_nodes_and_classes_are_drawn_by_expected_degree(draws, homophily):
    rng = np.random.default_rng(2)
    y, degrees = rng.integers(3, size=20), rng.pareto(2.0, 20) + 1
    n_edges = 50_000
    pairs = synthetic._draw_edges(rng, n_edges, y, 3, degrees, homophily)
    share, same = degrees / degrees.sum(), y[:, None] == y
    within = same * degrees / (same @ degrees)[:, None]
    expected = n_edges * share[:, None] * (homophily * within + (1 - homophily) * share)
    drawn = np.zeros((20, 20))
    np.add.at(drawn, tuple(pairs), 1)
    # Counts are Poisson but for their sum: five times their spread is left by 1 in a million.
    assert np.all(np.abs(drawn - expected) <= 5 * np.sqrt(expected) + 1)


@pytest.mark.parametrize("seed", range(10))
def test_classes_may_be_empty(seed):
    data = block_model(12, 60, n_classes=8, homophily=1.0, seed=seed)
    rows, columns = data.graph.adjacency.nonzero()
    assert len(rows) > 0
    np.testing.assert_array_equal(data.y[rows], data.y[columns])


def test_block_model_may_have_no_edges():
    assert block_model(10, 0).graph.n_edges == 0


def test_features_are_centred_by_class():
    data = block_model(4000, 1000, n_features=10, n_classes=2, feature_noise=2.0)
    spread = [data.X[data.y == c].std(axis=0) for c in (0, 1)]
    np.testing.assert_allclose(spread, 2.0, rtol=0.1)
    centers = [data.X[data.y == c].mean(axis=0) for c in (0, 1)]
    assert np.linalg.norm(centers[0] - centers[1]) > 1


def test_same_seed_gives_the_same_bytes_and_another_does_not(draws):
    first, again, other = (block_model(200, 600, seed=seed) for seed in (4, 4, 5))
    assert first.graph == again.graph
    assert first.X.tobytes() == again.X.tobytes()
    assert first.graph != other.graph


def test_split_covers_every_node_once():
    data = block_model(203, 600)
    parts = np.concatenate([data.train, data.validation, data.test])
    np.testing.assert_array_equal(np.sort(parts), np.arange(203))
    visible = data.visible_labels(validation=False)
    assert np.flatnonzero(visible >= 0).tolist() == sorted(data.train)
