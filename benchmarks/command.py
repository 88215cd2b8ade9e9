"""Seconds that ``gpcanet embed`` takes from a shell, Python's start and imports included.

Beside it, the seconds that importing the same dependencies takes alone. Cold: an empty kernel
cache, as at the first use on a machine. Warm: kernels compiled before.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from .graphs import generate, published
from .measure import interleaved
from .setting import Setting, Shape

IMPORTS = """
import numpy, scipy.sparse.linalg, scipy.sparse.csgraph, scipy.io, scipy.special
import sklearn.linear_model, sklearn.neighbors, sklearn.feature_extraction.text, sklearn.datasets
import pyarrow.csv, pyarrow.compute, pyarrow.parquet, safetensors.numpy
import typer, rich.table, rich.console, filelock, platformdirs
"""


def run(setting: Setting) -> dict[str, Any]:
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        found, skipped = published(setting)
        sources = {data.name: [data.name, *_data_dir(setting)] for data in found}
        sources["generated, Parquet"] = _write_parquet(setting.size.arxiv, folder)
        for source, options in sources.items():
            setting.tell(f"gpcanet embed of {source}, from the shell")
            command = ["-m", "gpcanet", "embed", *options, "-k", "64", "--quiet", "--json"]
            command += ["--force", "-o", str(folder / "z.parquet")]
            cache = str(folder / f"kernels of {source}")
            results[source] = _measure(partial(_python, command, cache), setting.repeats)
    return {"graphs": {**skipped, **results}}


def _measure(embed: Callable[[], None], repeats: int) -> dict[str, Any]:
    imports = partial(_python, ["-c", IMPORTS], "")
    tasks: dict[str, Callable[[], None]] = {"embed": embed, "imports": imports}
    outcomes = interleaved(tasks, min(repeats, 5))
    for outcome in outcomes.values():
        if "failed" in outcome:
            return outcome
    embedded, imported = outcomes["embed"], outcomes["imports"]
    return {
        "cold": embedded["first"],
        "warm": embedded["seconds"],
        "imports": imported["seconds"],
        "repeats": embedded["repeats"],
    }


def _python(arguments: list[str], kernel_cache: str) -> None:
    environment = os.environ | ({"NUMBA_CACHE_DIR": kernel_cache} if kernel_cache else {})
    command = [sys.executable, *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError((done.stderr.strip().splitlines() or ["no message"])[-1])


def _data_dir(setting: Setting) -> list[str]:
    return [] if setting.data_dir is None else ["--data-dir", str(setting.data_dir)]


def _write_parquet(shape: Shape, folder: Path) -> list[str]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    data = generate(shape)
    pairs = data.graph.adjacency.tocoo()
    once = pairs.row < pairs.col
    edges = {"source": pairs.row[once], "target": pairs.col[once]}
    features = {f"f{i}": column for i, column in enumerate(np.asarray(data.X).T)}
    ids = {"id": np.arange(data.graph.n_nodes)}
    pq.write_table(pa.table(edges), folder / "edges.parquet")
    pq.write_table(pa.table(ids | features), folder / "features.parquet")
    return ["--edges", f"{folder}/edges.parquet", "--features", f"{folder}/features.parquet"]
