"""Fits by a Dask cluster against the dense formulas."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from gpcanet.datasets import Dataset
from gpcanet.distributed import GPCA, write_dataset

from .inputs import Rng, choose
from .truth import check_embedding, quietly, random_problem, random_solver, relative_error


@contextmanager
def thread_cluster(**settings: Any) -> Iterator[Any]:
    """A cluster whose worker is a thread of this process, so that it starts and ends with it."""
    import dask
    from distributed import Client, LocalCluster

    with (
        dask.config.set({"distributed.worker.profile.enabled": False}),
        LocalCluster(
            n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0",
            memory_limit=0, **settings,
        ) as cluster,
        Client(cluster) as client,
    ):  # fmt: skip
        yield client


#: Keeps the cluster open until the process ends.
_open = ExitStack()


@cache
def _client() -> Any:
    return _open.enter_context(thread_cluster())


def check_distributed(rng: Rng) -> str:
    """A fit and a transform of a store with random parameters, blocks and chunks."""
    problem = random_problem(rng)
    problem.options.update(random_solver(rng, problem))
    if problem.options["eigen_solver"] == "lanczos":
        problem.options["eigen_solver"] = "auto"
    X = problem.X if problem.X.dtype.kind == "f" else problem.X.astype(np.float64)
    data = Dataset("random", problem.graph, X, problem.labels)
    model = GPCA(**problem.options)
    with tempfile.TemporaryDirectory(prefix="campaign-") as name:
        folder = Path(name)
        store = write_dataset(
            data, folder / "store", columns_per_block=int(rng.integers(1, X.shape[1] + 1))
        )
        run: Any = {
            "client": _client(), "scratch": folder / "scratch",
            "format": choose(rng, "parquet", "npy"),
            "columns_per_task": choose(rng, None, int(rng.integers(1, X.shape[1] + 1))),
        }  # fmt: skip
        Z = quietly(model.fit_transform, store, output=folder / "fit", **run).read()
        again = quietly(model.transform, store, output=folder / "transform", **run).read()
    if model.residual_ > relative_error(problem, model):
        return "distributed, warned"
    check_embedding(problem, model, Z)
    check_embedding(problem, model, again)
    return "distributed"
