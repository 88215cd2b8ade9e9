"""Seconds of ``gpcanet embed`` from a shell, compared with importing its dependencies."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from .config import Config, GraphShape
from .graphs import generate, published
from .timing import Outcome, time_interleaved

IMPORTS = """
import numpy, scipy.sparse.linalg, scipy.sparse.csgraph, scipy.io, scipy.special
import sklearn.linear_model, sklearn.neighbors, sklearn.feature_extraction.text, sklearn.datasets
import pyarrow.csv, pyarrow.compute, pyarrow.parquet, safetensors.numpy
import typer, rich.table, rich.console, filelock, platformdirs
"""

#: Maximum number of repeats of a command.
MAX_REPEATS = 5


def run(config: Config) -> dict[str, Any]:
    with embed_commands(config) as (commands, results):
        for name, command in commands.items():
            config.log(f"gpcanet embed of {name}")
            results[name] = _measure(command, config.repeats)
    return {"graphs": results}


def _measure(command: list[str], repeats: int) -> Outcome:
    tasks: dict[str, Callable[[], None]] = {
        "embed": partial(run_python, command),
        "imports": partial(run_python, ["-c", IMPORTS]),
    }
    outcomes = time_interleaved(tasks, min(repeats, MAX_REPEATS))
    for outcome in outcomes.values():
        if "failed" in outcome:
            return outcome
    embed = outcomes["embed"]
    return {
        "seconds": embed["seconds"],
        "imports": outcomes["imports"]["seconds"],
        "repeats": embed["repeats"],
    }


@contextmanager
def embed_commands(config: Config) -> Iterator[tuple[dict[str, list[str]], dict[str, Outcome]]]:
    """Commands that embed the citation graphs and a generated graph, and the skipped graphs."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        found, skipped = published(config)
        data_dir = [] if config.data_dir is None else ["--data-dir", str(config.data_dir)]
        inputs = {data.name: [data.name, *data_dir] for data in found}
        inputs["generated"] = write_parquet(config.size.arxiv_size, folder)
        output = ["-k", "64", "--quiet", "--json", "--force", "-o", str(folder / "z.parquet")]
        commands = {
            name: ["-m", "gpcanet", "embed", *arguments, *output]
            for name, arguments in inputs.items()
        }
        yield commands, dict(skipped)


def run_python(arguments: list[str], kernel_cache: str | None = None) -> None:
    """Run Python with these arguments; ``kernel_cache`` is a folder for compiled kernels."""
    environment = os.environ | ({"NUMBA_CACHE_DIR": kernel_cache} if kernel_cache else {})
    command = [sys.executable, *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError((done.stderr.strip().splitlines() or ["no message"])[-1])


def write_parquet(shape: GraphShape, folder: Path) -> list[str]:
    """Write a generated graph to Parquet files; returns the options that read them."""
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
