"""The generated tissue, and what is measured on it."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from benchmarks import child, tissue
from benchmarks.config import SIZES, Config


def test_domains_are_connected_regions_with_their_own_rates():
    data = tissue.generate(900)
    assert sp.issparse(data.X)
    assert data.X.dtype == np.float32
    assert set(data.y) <= set(range(tissue.N_DOMAINS))
    assert len(set(data.y)) > 4
    rows, columns = data.graph.adjacency.nonzero()
    assert np.mean(data.y[rows] == data.y[columns]) > 0.75
    assert np.median(np.diff(data.graph.indptr)) == 6
    again = tissue.generate(900)
    assert (again.X != data.X).nnz == 0


def test_graph_helps_to_find_the_domains():
    pytest.importorskip("anndata")
    found = {name: tissue.measure(name, 900) for name in ("gpca(adata)", "PCA")}
    assert found["gpca(adata)"]["agreement"] > 0.4 > 0.2 > found["PCA"]["agreement"]
    assert all(one["seconds"] > 0 and one["cpu_seconds"] > 0 for one in found.values())


def test_run_has_a_time_limit_and_skips_the_dense_inverse(tmp_path, monkeypatch):
    seen = []

    def run_in_process(job, *, timeout, method, n_spots):
        seen.append((job, timeout, method, n_spots))
        return {"seconds": 1.0}

    monkeypatch.setattr(child, "run_in_process", run_in_process)
    size = replace(SIZES["quick"], tissue_spots=(300, 20_000))
    found = tissue.run(Config(size, 1, tmp_path, lambda text: None))
    assert [one["spots"] for one in found["tissues"]] == [300, 20_000]
    large = found["tissues"][1]["methods"]["st-graphpca, exact"]
    assert large == {"skipped": "inverts a dense matrix of 3 GiB"}
    assert len(seen) == 2 * len(tissue.METHODS) - 1
    assert {(job, limit) for job, limit, *_ in seen} == {("tissue.measure", tissue.TIME_LIMIT)}
