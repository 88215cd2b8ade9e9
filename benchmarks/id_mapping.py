"""Positions of the nodes of edges: by sorted keys in a mapped file, and by Dask DataFrame."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gpcanet.distributed.id_index import find_positions, keys_of, write_index
from gpcanet.distributed.writing import write_whole
from gpcanet.files.edges import Edges, read_edges
from gpcanet.utils.array_files import Entry

from . import child
from .config import Config
from .distributed import worker_memory
from .timing import Outcome

WORKERS, PARTS = 2, 8

#: One run of each takes a minute.
REPEATS = 1


def run(config: Config) -> dict[str, Any]:
    n_nodes, n_edges = config.size.id_mapping_size
    config.log(f"mapping the ids of {n_edges:,} edges")
    config.work_dir.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(dir=config.work_dir))
    try:
        write_tables(folder, n_nodes, n_edges)
        methods = {
            name: child.run_in_process("id_mapping.measure", folder=str(folder), method=name)
            for name in METHODS
        }
    finally:
        shutil.rmtree(folder)
    checksums = {name: found["checksum"] for name, found in methods.items() if "checksum" in found}
    if len(set(checksums.values())) > 1:
        raise RuntimeError(f"the methods found different positions: {checksums}")
    return {"nodes": n_nodes, "edges": n_edges, "workers": WORKERS, "methods": methods}


def write_tables(folder: Path, n_nodes: int, n_edges: int) -> None:
    """Parquet files with the text ids and positions of nodes, and with the ids of random edges."""
    rng = np.random.default_rng(0)
    ids = rng.permutation(n_nodes)
    for number, positions in enumerate(np.array_split(np.arange(n_nodes), PARTS)):
        table = pa.table({"id": texts(ids[positions]), "position": positions})
        pq.write_table(table, folder / f"nodes-{number}.parquet")
    for number in range(PARTS):
        ends = rng.integers(0, n_nodes, (2, n_edges // PARTS))
        table = pa.table({"source": texts(ends[0]), "target": texts(ends[1])})
        pq.write_table(table, folder / f"edges-{number}.parquet")


def texts(numbers: np.ndarray) -> pa.Array:
    return pa.array([f"node number {number}" for number in numbers.tolist()])


def measure(folder: str, method: str) -> Outcome:
    """Time and memory of a method, and the sum of the products of the positions of the ends."""
    from gpcanet.distributed import local_cluster

    with local_cluster(WORKERS) as client:
        client.run(time.process_time)
        cpu, start = sum(client.run(time.process_time).values()), time.perf_counter()
        with worker_memory(list(client.run(os.getpid).values())) as peaks:
            checksum = METHODS[method](client, Path(folder))
        seconds = time.perf_counter() - start
        cpu = sum(client.run(time.process_time).values()) - cpu
    return {"seconds": seconds, "cpu_seconds": cpu, "peaks": peaks, "checksum": checksum}


def by_sorted_keys(client: Any, folder: Path) -> int:
    """As in ``gpcanet.distributed.build_store``: an index of all nodes, then one file each."""
    parts = client.gather(client.map(_write_keys, [folder] * PARTS, range(PARTS)))
    index, _ = client.submit(write_index, folder, parts).result()
    found = client.map(_products, [folder] * PARTS, range(PARTS), index={**index, "is_text": True})
    return sum(client.gather(found))


def _write_keys(folder: Path, number: int) -> Entry:
    ids = pq.read_table(folder / f"nodes-{number}.parquet", columns=["id"])["id"]
    return write_whole(folder / f"keys-{number}.npy", keys_of(ids))


def _products(folder: Path, number: int, index: dict[str, Any]) -> int:
    edges = read_edges(folder / f"edges-{number}.parquet", "source", "target", None)
    assert isinstance(edges, Edges)
    ends = [find_positions(folder, index, ids, 0) for ids in (edges.source, edges.target)]
    return int(np.dot(*ends))


def by_dataframe(client: Any, folder: Path) -> int:
    """Two merges, for which Dask chooses the method."""
    import dask.dataframe as dd

    with client.as_current():
        nodes, edges = (dd.read_parquet(folder / f"{x}-*.parquet") for x in ("nodes", "edges"))
        for end in ("source", "target"):
            named = nodes.rename(columns={"id": end, "position": f"{end}_position"})
            edges = edges.merge(named, on=end)
        return int((edges["source_position"] * edges["target_position"]).sum().compute())


METHODS: dict[str, Callable[[Any, Path], int]] = {
    "sorted keys": by_sorted_keys,
    "Dask DataFrame": by_dataframe,
}
