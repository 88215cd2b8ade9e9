"""Splits with a fixed number of training nodes per class."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpcanet.datasets import block_model, first_per_class, random_split
from gpcanet.errors import InputError


@pytest.fixture(scope="module")
def data():
    return block_model(200, 400, n_classes=4, seed=1)


@settings(deadline=None)
@given(st.lists(st.integers(0, 3), max_size=30), st.integers(0, 5), st.randoms())
def test_first_nodes_of_each_class_are_kept(labels, n_per_class, random):
    nodes = list(range(len(labels)))
    random.shuffle(nodes)
    found = first_per_class(np.array(nodes, np.int64), np.array(labels, np.int64), n_per_class)
    expected = []
    for label in range(4):
        expected += [node for node in nodes if labels[node] == label][:n_per_class]
    assert found.tolist() == sorted(expected)


def test_none_takes_all_remaining_nodes_for_test(data):
    split = random_split(data, 0, n_per_class=3, n_validation=10, n_test=None)
    assert [len(part) for part in (split.train, split.validation, split.test)] == [12, 10, 178]
    nodes = np.concatenate([split.train, split.validation, split.test])
    assert sorted(nodes) == list(range(200))


def test_excluded_nodes_are_in_no_part(data):
    exclude = np.arange(0, 200, 2)
    split = random_split(data, 0, n_per_class=3, n_validation=10, n_test=50, exclude=exclude)
    nodes = np.concatenate([split.train, split.validation, split.test])
    assert np.all(nodes % 2 == 1)


def test_too_few_nodes_raise(data):
    with pytest.raises(InputError, match=r"has 188 labelled nodes left .* the split needs 1500"):
        random_split(data, 0, n_per_class=3)
