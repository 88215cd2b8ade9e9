"""Both ways to map ids find the same positions."""

import numpy as np
import pyarrow.parquet as pq
import pytest

from benchmarks import id_mapping
from gpcanet.distributed import local_cluster


def test_all_methods_find_the_positions(tmp_path):
    pytest.importorskip("dask.dataframe")
    id_mapping.write_tables(tmp_path, 300, 800)
    nodes, edges = (pq.read_table(sorted(tmp_path.glob(f"{x}-*"))) for x in ("nodes", "edges"))
    ids = nodes["id"].to_pylist()
    ends = [[ids.index(name) for name in edges[end].to_pylist()] for end in ("source", "target")]
    with local_cluster(1) as client:
        for method in id_mapping.METHODS.values():
            assert method(client, tmp_path) == np.dot(*ends)
