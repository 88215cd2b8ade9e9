"""The Planetoid reader: real files where they are, and hostile ones everywhere."""

import os
import pickle

import numpy as np
import pytest

from gpcanet.datasets import load_planetoid
from gpcanet.datasets.planetoid import DATA_DIR_VARIABLE, _read_pickle

SIZES = {  # nodes, edges, features, classes, training labels, isolated nodes
    "cora": (2708, 5278, 1433, 7, 140, 0),
    "citeseer": (3327, 4552, 3703, 6, 120, 48),
    "pubmed": (19717, 44324, 500, 3, 60, 0),
}


@pytest.mark.real_data
@pytest.mark.skipif(
    DATA_DIR_VARIABLE not in os.environ, reason=f"{DATA_DIR_VARIABLE} names no folder"
)
@pytest.mark.parametrize("name", SIZES)
def test_sizes_and_split_of_the_real_graphs(name):
    data = load_planetoid(name)
    nodes, edges, features, classes, train, isolated = SIZES[name]
    assert (data.graph.n_nodes, data.graph.n_edges, data.graph.n_isolated) == (
        nodes,
        edges,
        isolated,
    )
    assert data.X.shape == (nodes, features)
    assert data.y.max() + 1 == classes
    assert [len(part) for part in (data.train, data.validation, data.test)] == [train, 500, 1000]
    assert np.bincount(data.y[data.train]).tolist() == [20] * classes
    assert not set(data.test) & set(data.train) | set(data.test) & set(data.validation)
    assert np.all(data.y[data.test] >= 0)


class _RunsCode:
    def __reduce__(self):
        return os.system, ("echo this must not run",)


def test_a_pickle_that_wants_to_run_code_is_turned_down(tmp_path, capfd):
    path = tmp_path / "ind.cora.x"
    path.write_bytes(pickle.dumps(_RunsCode()))
    with pytest.raises(pickle.UnpicklingError, match=r"system does not belong in a Planetoid"):
        _read_pickle(path)
    assert capfd.readouterr().out == ""


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(ValueError, match="'karate' must be one of 'cora', 'citeseer', 'pubmed'"):
        load_planetoid("karate")


def test_without_a_folder_it_says_where_it_looks(monkeypatch):
    monkeypatch.delenv(DATA_DIR_VARIABLE, raising=False)
    with pytest.raises(FileNotFoundError, match=DATA_DIR_VARIABLE):
        load_planetoid("cora")
