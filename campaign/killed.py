"""The commands and functions that the part *faults* disturbs, and the files that they write."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from gpcanet.datasets import block_model

from .distributed import thread_cluster

INPUTS = ["-e", "edges.csv", "-f", "features.csv"]

#: Environment variable with the address of the archive to download.
URL_VARIABLE = "CAMPAIGN_URL"

#: Content of the archive.
ARCHIVE = np.random.default_rng(0).bytes(3 << 20)

#: Faults that are possible everywhere, and those without the limit on files, which Dask's own
#: files exceed.
ALL_FAULTS = ("SIGKILL", "SIGKILL", "SIGINT", "SIGTERM", "disk")
SIGNALS = ("SIGKILL", "SIGKILL", "SIGINT", "SIGTERM")


class Task(NamedTuple):
    """Runs in a folder with the inputs and writes the outputs, files or folders.

    ``resumes``: a second run uses what the first one has left.
    """

    run: Callable[[], None]
    outputs: list[str]
    arguments: list[str] | None = None
    faults: tuple[str, ...] = ALL_FAULTS
    resumes: bool = False
    makes_folder: bool = False


def _command(arguments: list[str], outputs: list[str]) -> Task:
    arguments = [*arguments, "--force", "-q"]

    def run() -> None:
        from gpcanet.cli import main

        sys.argv = ["gpcanet", *arguments]
        main()

    return Task(run, outputs, arguments)


def _write_store() -> None:
    from gpcanet.distributed import write_dataset

    write_dataset(block_model(150, 500, n_features=8, n_classes=3), "store", columns_per_block=2)


def _build_store() -> None:
    from gpcanet.distributed import build_store

    with thread_cluster(local_directory="dask") as client:
        build_store("built", "features.parquet", "edges.parquet", client=client)


def _embed_store() -> None:
    from gpcanet.distributed import GPCA

    with thread_cluster(local_directory="dask") as client:
        GPCA(3).fit_transform(
            "given", client=client, scratch="scratch", output="parts", resume=True
        )


def _download() -> None:
    from gpcanet.datasets.download import download

    digest = hashlib.sha256(ARCHIVE).hexdigest()
    download(os.environ[URL_VARIABLE], Path("archive.zip"), sha256=digest)


TASKS = {
    "embed": _command(
        ["embed", *INPUTS, "-k", "6", "-o", "z.parquet", "--save-model", "z.safetensors"],
        ["z.parquet", "z.safetensors"],
    ),
    "embed csv": _command(["embed", *INPUTS, "-k", "8", "-o", "z.csv"], ["z.csv"]),
    "classify": _command(
        ["classify", *INPUTS, "-l", "labels.csv", "-k", "6", "-a", "5", "-o", "classes.csv",
         "--save-model", "c.safetensors"],
        ["classes.csv", "c.safetensors"],
    ),
    "regress": _command(
        ["regress", *INPUTS, "-l", "numbers.csv", "-k", "6", "-a", "5", "-o", "numbers.npz"],
        ["numbers.npz"],
    ),
    "train": _command(
        ["train", *INPUTS, "-l", "labels.csv", "--hidden", "8", "--epochs", "20", "-o",
         "net.csv", "--save-model", "net.safetensors", "--checkpoint", "state.safetensors"],
        ["net.csv", "net.safetensors"],
    ),
    "store": Task(_write_store, ["store"], makes_folder=True),
    "build": Task(_build_store, ["built"], faults=SIGNALS, resumes=True, makes_folder=True),
    "cluster run": Task(
        _embed_store, ["parts"], faults=SIGNALS, resumes=True, makes_folder=True
    ),
    "download": Task(_download, ["archive.zip"], resumes=True),
}  # fmt: skip


def write_inputs(folder: Path) -> None:
    """Edges, features, classes and numbers of a small generated graph, and a store of it."""
    from gpcanet.distributed import write_dataset

    data = block_model(150, 500, n_features=8, n_classes=3)
    coo = data.graph.adjacency.tocoo()
    pairs = np.stack([coo.row, coo.col])[:, coo.row < coo.col].T
    np.savetxt(
        folder / "edges.csv", pairs, "%d", delimiter=",", header="source,target", comments=""
    )
    names = ",".join(["id", *(f"x{j}" for j in range(data.X.shape[1]))])
    table = np.column_stack([np.arange(150), data.X])
    np.savetxt(folder / "features.csv", table, "%.6g", delimiter=",", header=names, comments="")
    classes = "".join(f"{i},class {y}\n" for i, y in enumerate(data.y[:90]))
    (folder / "labels.csv").write_text("id,label\n" + classes)
    numbers = "".join(f"{i},{x:.4f}\n" for i, x in enumerate(data.X[:90, 0]))
    (folder / "numbers.csv").write_text("id,label\n" + numbers)
    features = {"id": np.arange(150)} | {f"x{j}": x for j, x in enumerate(data.X.T)}
    edges = {"source": pairs[:, 0], "target": pairs[:, 1]}
    for name, columns in (("features", features), ("edges", edges)):
        pyarrow.parquet.write_table(pa.table(columns), folder / f"{name}.parquet")
    write_dataset(data, folder / "given", columns_per_block=3)


def contents(path: Path) -> dict[str, bytes] | bytes | None:
    """The bytes of a file, or of all files in a folder; None if there is nothing."""
    if path.is_dir():
        return {str(p.relative_to(path)): p.read_bytes() for p in path.rglob("*") if p.is_file()}
    return path.read_bytes() if path.exists() else None
