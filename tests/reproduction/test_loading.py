"""Random splits and reduced training sets: sizes, disjointness and reproducibility."""

import itertools
import os
from dataclasses import replace

import numpy as np
import pytest

import reproduction.loading
from gpcanet.datasets import block_model, first_per_class, random_split
from gpcanet.datasets.environment import DATA_DIR_VARIABLE
from gpcanet.datasets.planetoid import CITATION_GRAPHS
from reproduction.cells import PUBLIC, Split
from reproduction.loading import DatasetLoader, GeneratedSize

PARTS = ("train", "validation", "test")


@pytest.fixture(scope="module")
def data():
    """A dataset with a split like the public ones; some labels are unknown."""
    data = block_model(2500, 5000, n_features=4, n_classes=5, seed=1)
    order = np.random.default_rng(2).permutation(2500)
    train = np.concatenate([order[data.y[order] == label][:20] for label in range(5)])
    rest = order[~np.isin(order, train)]
    y = data.y.copy()
    y[rest[-40:]] = -1
    return replace(data, y=y, train=train, validation=rest[:500], test=rest[500:1500])


def drawn(data, seed):
    return random_split(data, seed, exclude=np.concatenate([data.train, data.validation]))


def reduced(data, per_class):
    return replace(data, train=first_per_class(data.train, data.y, per_class))


def assert_random_splits(data):
    splits = [drawn(data, seed) for seed in range(5)]
    for split in splits:
        counts = np.bincount(data.y[split.train], minlength=data.n_classes)
        assert counts.tolist() == [20] * data.n_classes
        assert (len(split.validation), len(split.test)) == (500, 1000)
        nodes = np.concatenate([getattr(split, part) for part in PARTS])
        assert len(np.unique(nodes)) == len(nodes)
        assert not np.isin(nodes, data.train).any()
        assert not np.isin(nodes, data.validation).any()
        assert (data.y[nodes] >= 0).all()
        assert split.graph is data.graph
        assert split.X is data.X
    for seed, split in enumerate(splits):
        again = drawn(data, seed)
        for part in PARTS:
            np.testing.assert_array_equal(getattr(again, part), getattr(split, part))
        for other in splits[:seed]:
            for part in PARTS:
                assert not np.array_equal(getattr(other, part), getattr(split, part))


def test_random_splits(data):
    before = [getattr(data, part).copy() for part in PARTS]
    assert_random_splits(data)
    for part, nodes in zip(PARTS, before, strict=True):
        np.testing.assert_array_equal(getattr(data, part), nodes)


def test_random_split_has_fixed_values(data):
    split = drawn(data, 0)
    assert split.train[:5].tolist() == [17, 98, 104, 127, 135]
    assert split.validation[:5].tolist() == [4, 18, 27, 36, 41]
    assert split.test[:5].tolist() == [0, 8, 10, 12, 15]


def test_too_few_nodes_raise(data):
    few = replace(data, validation=np.flatnonzero(np.arange(2500) % 2))
    with pytest.raises(ValueError, match=r"has \d+ labelled nodes left for validation and test"):
        drawn(few, 0)


@pytest.mark.parametrize("per_class", [1, 5, 20])
def test_reduced_training_set_has_the_first_nodes_of_each_class(data, per_class):
    fewer = reduced(data, per_class)
    expected = []
    for label in range(5):
        expected += [node for node in data.train if data.y[node] == label][:per_class]
    assert fewer.train.tolist() == sorted(expected)
    assert np.bincount(data.y[fewer.train]).tolist() == [per_class] * 5
    np.testing.assert_array_equal(fewer.validation, data.validation)
    np.testing.assert_array_equal(fewer.test, data.test)


def test_smaller_training_sets_are_subsets_of_larger_ones(data):
    sets = [set(reduced(data, per_class).train) for per_class in (1, 2, 5, 10, 20)]
    assert all(few < more for few, more in itertools.pairwise(sets))
    assert sets[-1] == set(data.train)


# -- by name -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("split", "expected"),
    [
        (PUBLIC, lambda data: data),
        (Split(random_seed=3), lambda data: drawn(data, 3)),
        (Split(random_seed=12), lambda data: drawn(data, 12)),
        (Split(labels_per_class=5), lambda data: reduced(data, 5)),
    ],
)
def test_loader_applies_the_split(data, monkeypatch, split, expected):
    monkeypatch.setattr(reproduction.loading, "_load", lambda name, loader: data)
    found, wanted = DatasetLoader().split("blocks", split), expected(data)
    for part in PARTS:
        np.testing.assert_array_equal(getattr(found, part), getattr(wanted, part))


def test_datasets_are_loaded_once():
    loader = DatasetLoader()
    assert loader.dataset("digits") is loader.dataset("digits") is loader.split("digits", PUBLIC)
    with pytest.raises(ValueError, match="dataset 'nowhere' is unknown"):
        loader.dataset("nowhere")


def test_split_of_a_generated_graph_has_all_nodes(monkeypatch):
    sizes = {"arxiv-size": GeneratedSize(300, 900, 6, 4, 0.54, 0.18)}
    monkeypatch.setattr(reproduction.loading, "SIZES", sizes)
    reproduction.loading._load.cache_clear()
    data = DatasetLoader().dataset("arxiv-size")
    reproduction.loading._load.cache_clear()
    assert data.name == "arxiv-size"
    assert [len(getattr(data, part)) for part in PARTS] == [162, 54, 84]
    nodes = np.concatenate([getattr(data, part) for part in PARTS])
    assert sorted(nodes) == list(range(300))


# -- real data -----------------------------------------------------------------------------------


@pytest.mark.real_data
@pytest.mark.skipif(
    DATA_DIR_VARIABLE not in os.environ, reason=f"{DATA_DIR_VARIABLE} names no folder"
)
@pytest.mark.parametrize("name", CITATION_GRAPHS)
def test_splits_of_the_citation_graphs(name):
    data = DatasetLoader().dataset(name)
    assert_random_splits(data)
    counts = np.bincount(data.y[DatasetLoader().split(name, Split(labels_per_class=5)).train])
    assert counts.tolist() == [5] * data.n_classes
