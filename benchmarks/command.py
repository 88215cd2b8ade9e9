"""Seconds that ``gpcanet embed`` takes from a shell, Python's start and imports included.

Citation graphs by name, and a generated graph of ogbn-arxiv's size from Parquet files. Beside it,
the seconds that importing the same dependencies takes alone. Cold: an empty kernel cache, as at
the first use on a machine. Warm: kernels compiled before. Needs the Planetoid files. Run with
``make bench``, or alone: ``python benchmarks/command.py``.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from measure import arguments, real_graphs, save

from gpcanet.datasets import block_model

IMPORTS = """
import numpy, scipy.sparse.linalg, scipy.sparse.csgraph, scipy.io, scipy.special
import sklearn.linear_model, sklearn.neighbors, sklearn.feature_extraction.text, sklearn.datasets
import pyarrow.csv, pyarrow.compute, pyarrow.parquet, safetensors.numpy
import typer, rich.table, rich.console, filelock, platformdirs
"""
ARXIV = {"n_nodes": 169_343, "n_edges": 1_166_243, "n_features": 128, "n_classes": 40}
REPEATS = 5


def seconds(arguments: list[str], kernel_cache: str) -> float:
    start = time.perf_counter()
    environment = {**os.environ, "NUMBA_CACHE_DIR": kernel_cache}
    subprocess.run(
        [sys.executable, *arguments], check=True, env=environment, stdout=subprocess.DEVNULL
    )
    return time.perf_counter() - start


def write_arxiv_sized(folder: Path) -> list[str]:
    data = block_model(**ARXIV)
    pairs = data.graph.adjacency.tocoo()
    once = pairs.row < pairs.col
    edges = {"source": pairs.row[once], "target": pairs.col[once]}
    features = {f"f{i}": data.X[:, i] for i in range(data.X.shape[1])}
    pq.write_table(pa.table(edges), folder / "edges.parquet")
    pq.write_table(
        pa.table({"id": np.arange(data.graph.n_nodes), **features}), folder / "features.parquet"
    )
    return ["--edges", f"{folder}/edges.parquet", "--features", f"{folder}/features.parquet"]


def main() -> None:
    options = arguments(__doc__)
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        sources = {data.name: [data.name] for data in real_graphs()}
        sources["arxiv size, Parquet"] = write_arxiv_sized(Path(folder))
        for name, source in sources.items():
            command = [
                "-m",
                "gpcanet",
                "embed",
                *source,
                "-k",
                "64",
                "--quiet",
                "--json",
                "--force",
            ]
            command += ["-o", f"{folder}/z.parquet"]
            cache = f"{folder}/kernels of {name}"
            cold = seconds(command, cache)
            imports, warm = [], []
            for _ in range(REPEATS):  # in turns, so that noise meets both
                imports.append(seconds(["-c", IMPORTS], cache))
                warm.append(seconds(command, cache))
            results[name] = {"cold": cold, "warm": min(warm), "imports": min(imports)}
            shown = "   ".join(f"{what} {value:5.2f} s" for what, value in results[name].items())
            print(f"{name:20s} {shown}", flush=True)
    if options.save:
        save("command", results)


if __name__ == "__main__":
    main()
