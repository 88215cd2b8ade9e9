"""Splits: as large as they say, apart from each other, and the same every time."""

import itertools
import os
from dataclasses import replace

import numpy as np
import pytest

import reproduction.data
from gpcanet.datasets import block_model
from gpcanet.datasets.environment import DATA_DIR_VARIABLE
from reproduction.data import Source, fewer_labels, random_split
from reproduction.entries import CITATION_GRAPHS

PARTS = ("train", "validation", "test")


@pytest.fixture(scope="module")
def data():
    """Twenty nodes a class, 500 and 1000, as in the public splits; some labels are unknown."""
    data = block_model(2500, 5000, n_features=4, n_classes=5, seed=1)
    order = np.random.default_rng(2).permutation(2500)
    train = np.concatenate([order[data.y[order] == label][:20] for label in range(5)])
    rest = order[~np.isin(order, train)]
    y = data.y.copy()
    y[rest[-40:]] = -1
    return replace(data, y=y, train=train, validation=rest[:500], test=rest[500:1500])


def assert_random_splits(data):
    splits = [random_split(data, seed) for seed in range(5)]
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
        again = random_split(data, seed)
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


def test_a_random_split_is_the_same_on_every_machine(data):
    split = random_split(data, 0)
    assert split.train[:5].tolist() == [17, 98, 104, 127, 135]
    assert split.validation[:5].tolist() == [4, 18, 27, 36, 41]
    assert split.test[:5].tolist() == [0, 8, 10, 12, 15]


def test_too_few_nodes_are_told(data):
    few = replace(data, validation=np.flatnonzero(np.arange(2500) % 2))
    with pytest.raises(ValueError, match=r"has \d+ nodes left for a random split, which takes 500"):
        random_split(few, 0)


@pytest.mark.parametrize("per_class", [1, 5, 20])
def test_fewer_labels_are_the_first_of_each_class(data, per_class):
    fewer = fewer_labels(data, per_class)
    expected = []
    for label in range(5):
        expected += [node for node in data.train if data.y[node] == label][:per_class]
    assert fewer.train.tolist() == sorted(expected)
    assert np.bincount(data.y[fewer.train]).tolist() == [per_class] * 5
    np.testing.assert_array_equal(fewer.validation, data.validation)
    np.testing.assert_array_equal(fewer.test, data.test)


def test_those_of_fewer_labels_are_among_those_of_more(data):
    sets = [set(fewer_labels(data, per_class).train) for per_class in (1, 2, 5, 10, 20)]
    assert all(few < more for few, more in itertools.pairwise(sets))
    assert sets[-1] == set(data.train)


# -- by name -------------------------------------------------------------------------------------


@pytest.fixture
def source(data, monkeypatch):
    monkeypatch.setattr(reproduction.data, "_load", lambda name, source: data)
    return Source()


def test_splits_by_name(source, data):
    assert source.split("blocks", "public") is data
    for name, expected in (
        ("random-3", random_split(data, 3)),
        ("random-12", random_split(data, 12)),
        ("fewer-5", fewer_labels(data, 5)),
    ):
        split = source.split("blocks", name)
        for part in PARTS:
            np.testing.assert_array_equal(getattr(split, part), getattr(expected, part))


@pytest.mark.parametrize(
    "split",
    ["", "public-1", "privat", "Random-1", "few-5", "random-", "random", "random-x", "random--1",
     "fewer-half"],
)  # fmt: skip
def test_splits_that_are_not_known(source, split):
    with pytest.raises(ValueError, match=f"split '{split}' is not known; there are public, random"):
        source.split("blocks", split)


def test_datasets_by_name_are_loaded_once():
    source = Source()
    assert source.dataset("digits") is source.dataset("digits") is source.split("digits", "public")
    with pytest.raises(ValueError, match="dataset 'nowhere' is not known"):
        source.dataset("nowhere")


def test_generated_graphs_have_a_split_of_all_their_nodes(monkeypatch):
    sizes = {"arxiv-size": (300, 900, 6, 4, (0.54, 0.18))}
    monkeypatch.setattr(reproduction.data, "SIZES", sizes)
    reproduction.data._load.cache_clear()
    data = Source().dataset("arxiv-size")
    reproduction.data._load.cache_clear()
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
    data = Source().dataset(name)
    assert_random_splits(data)
    counts = np.bincount(data.y[Source().split(name, "fewer-5").train])
    assert counts.tolist() == [5] * data.n_classes
