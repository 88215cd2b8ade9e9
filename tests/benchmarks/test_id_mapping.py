"""Both ways to map ids find the same positions."""

from contextlib import nullcontext

import numpy as np
import pyarrow.parquet as pq
import pytest

from benchmarks import child, id_mapping
from benchmarks.config import SIZES, Config
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


@pytest.mark.parametrize(("checksums", "is_error"), [((7, 7), False), ((7, 8), True)])
def test_different_positions_are_an_error(tmp_path, monkeypatch, checksums, is_error):
    found = iter(checksums)
    monkeypatch.setattr(child, "run_in_process", lambda *_, **__: {"checksum": next(found)})
    config = Config(SIZES["quick"], repeats=1, work_dir=tmp_path, log=lambda _: None)
    with pytest.raises(RuntimeError, match="positions") if is_error else nullcontext():
        id_mapping.run(config)
