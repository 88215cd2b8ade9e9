"""Datasets by name: what there is, what is known of it, and that the numbers are true."""

import os

import numpy as np
import pytest

from gpcanet.datasets import About, Dataset, about, catalogue, load, names
from gpcanet.datasets.environment import DATA_DIR_VARIABLE
from gpcanet.datasets.planetoid_files import read_files

PLANETOID = ("cora", "citeseer", "pubmed")

real_data = [
    pytest.mark.real_data,
    pytest.mark.skipif(
        DATA_DIR_VARIABLE not in os.environ, reason=f"{DATA_DIR_VARIABLE} names no folder"
    ),
]


def test_documented_names_exist():
    assert {*PLANETOID, "digits"} <= set(names())
    assert len(set(names())) == len(names())


@pytest.mark.parametrize("name", names())
def test_every_dataset_has_source_licence_and_citation(name):
    known = about(name)
    assert isinstance(known, About)
    assert known.name == name
    for text in (known.summary, known.split, known.source, known.licence, known.citation):
        assert text.strip()
    assert min(known.n_nodes, known.n_edges, known.n_features, known.n_classes) > 0
    assert known.megabytes > 0 or name == "digits"


@pytest.mark.parametrize("ask", [load, about])
@pytest.mark.parametrize("name", ["karate", "Cora", "", "../cora"])
def test_unknown_name_lists_the_known_ones(ask, name):
    with pytest.raises(ValueError, match="is unknown; use one of") as caught:
        ask(name)
    assert repr(name) in str(caught.value)
    assert all(known in str(caught.value) for known in names())


def test_arguments_reach_the_loader(monkeypatch):
    calls = []

    def loader(*args, **kwargs):
        calls.append((args, kwargs))
        return "loaded"

    monkeypatch.setitem(catalogue._LOADERS, "cora", (loader, about("cora")))
    assert load("cora", "folder", offline=True) == "loaded"
    assert calls == [(("cora", "folder"), {"offline": True})]


@pytest.mark.parametrize(
    "name", ["digits", *(pytest.param(name, marks=real_data) for name in PLANETOID)]
)
def test_about_agrees_with_the_data(name):
    known, data = about(name), load(name, offline=True)
    assert isinstance(data, Dataset)
    assert (data.name, data.about) == (name, known)
    assert (known.n_nodes, known.n_features) == data.X.shape
    assert (known.n_nodes, known.n_edges) == (data.graph.n_nodes, data.graph.n_edges)
    assert known.n_classes == data.n_classes == len(data.class_names)
    assert data.y.shape == (known.n_nodes,)
    for part in (data.validation, data.test):
        assert f"{len(part):,} for" in known.split


@pytest.mark.parametrize("name", [pytest.param(name, marks=real_data) for name in PLANETOID])
def test_stated_megabytes_agree_with_the_files(name):
    n_bytes = sum(map(len, read_files(name, offline=True).values()))
    assert about(name).megabytes == pytest.approx(n_bytes / 1e6, abs=0.06)


def test_digits_are_deterministic_and_need_no_network():
    first, again = load("digits", offline=True), load("digits", offline=True)
    assert first.graph == again.graph
    np.testing.assert_array_equal(first.train, again.train)
    assert np.bincount(first.y[first.train]).tolist() == [5] * 10
    split = np.concatenate([first.train, first.validation, first.test])
    np.testing.assert_array_equal(np.sort(split), np.arange(1797))
    assert [len(first.validation), len(first.test)] == [300, 1447]


def test_dataset_is_printed_in_one_line():
    assert repr(load("digits", offline=True)) == (
        "Dataset('digits', Graph(n_nodes=1797, n_edges=12340, weighted=False), "
        "X=(1797, 64) float64, n_classes=10, split: train=50, validation=300, test=1447)"
    )


@pytest.mark.parametrize("name", [pytest.param("cora", marks=real_data)])
def test_sparse_dataset_is_printed_in_one_line(name):
    text = repr(load(name, offline=True))
    assert "X=sparse (2708, 1433) float32, n_classes=7, split: train=140," in text
    assert len(text) < 200
