"""Cora, CiteSeer and PubMed from the raw Planetoid files.

The files are Python 2 pickles. They are read by an unpickler that knows exactly the six globals
they need and turns anything else down, so that a tampered file cannot run code.
"""

from __future__ import annotations

import os
import pickle
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy._core.multiarray import _reconstruct

from ..graph import Graph
from .dataset import Dataset

#: Environment variable with the folder in which datasets are looked for.
DATA_DIR_VARIABLE = "GPCANET_DATA_DIR"

NAMES = ("cora", "citeseer", "pubmed")

N_VALIDATION = 500


def load_planetoid(name: str, data_dir: str | os.PathLike[str] | None = None) -> Dataset:
    """A citation graph with its public split.

    Parameters
    ----------
    name : {"cora", "citeseer", "pubmed"}
    data_dir : path, optional
        Folder that holds ``planetoid/<name>/ind.<name>.*``. By default the one named by the
        environment variable GPCANET_DATA_DIR.
    """
    if name not in NAMES:
        raise ValueError(f"dataset {name!r} must be one of {', '.join(map(repr, NAMES))}")
    root = data_dir or os.environ.get(DATA_DIR_VARIABLE)
    if not root:
        raise FileNotFoundError(
            f"{name} is looked for in data_dir or in the folder that {DATA_DIR_VARIABLE} names; "
            f"neither is set"
        )
    folder = Path(root) / "planetoid" / name
    parts = {
        part: _read_pickle(folder / f"ind.{name}.{part}")
        for part in ("x", "tx", "allx", "y", "ty", "ally", "graph")
    }
    test = np.loadtxt(folder / f"ind.{name}.test.index", dtype=np.int64)

    n_nodes = int(test.max()) + 1  # CiteSeer skips some: nodes without features, labels and split
    n_known = parts["allx"].shape[0]
    order = np.concatenate([np.arange(n_known), test])
    # Moves the rows of allx and tx to their nodes, leaving rows of zeros where there are none.
    place = sp.csr_array((np.ones(len(order)), (order, np.arange(len(order)))))
    X = place @ sp.vstack([parts["allx"], parts["tx"]], format="csr")
    one_hot = place @ np.vstack([parts["ally"], parts["ty"]])
    y = np.where(one_hot.any(axis=1), one_hot.argmax(axis=1), -1)

    sources = np.repeat(list(parts["graph"]), [len(ends) for ends in parts["graph"].values()])
    targets = np.concatenate(list(parts["graph"].values()))
    graph = Graph.from_edge_index(np.stack([sources, targets]), n_nodes=n_nodes, each_once=True)
    n_train = parts["x"].shape[0]
    return Dataset(
        name=name,
        graph=graph,
        X=X.astype(np.float32),
        y=y,
        train=np.arange(n_train),
        validation=np.arange(n_train, n_train + N_VALIDATION),
        test=np.sort(test),
    )


class _PickledMatrix:
    """Stands in for scipy's csr_matrix; takes its arrays and nothing else."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.state = state

    def to_csr(self) -> sp.csr_array:
        return sp.csr_array(
            tuple(self.state[name] for name in ("data", "indices", "indptr")),
            shape=self.state["_shape"],
        )


class _PlanetoidUnpickler(pickle.Unpickler):
    ADMITTED = {
        ("__builtin__", "list"): list,
        ("collections", "defaultdict"): defaultdict,
        ("numpy", "dtype"): np.dtype,
        ("numpy", "ndarray"): np.ndarray,
        ("numpy.core.multiarray", "_reconstruct"): _reconstruct,
        ("scipy.sparse.csr", "csr_matrix"): _PickledMatrix,
    }

    def find_class(self, module: str, name: str) -> Any:
        try:
            return self.ADMITTED[module, name]
        except KeyError:
            raise pickle.UnpicklingError(
                f"{module}.{name} does not belong in a Planetoid file; the file was not loaded"
            ) from None


def _read_pickle(path: Path) -> Any:
    with path.open("rb") as file:
        content = _PlanetoidUnpickler(file, encoding="latin1").load()
    return content.to_csr() if isinstance(content, _PickledMatrix) else content
