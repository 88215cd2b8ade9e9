"""Store: a graph with features in files that all workers map into memory."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ..datasets import Dataset
from ..errors import DataError
from ..graph import Graph
from ..graph.stored import STORE, stored_ids
from ..linalg import extreme_exponent
from ..utils.array_files import damaged_shard, n_shards, open_array, read_manifest
from ..utils.labels import SPLIT


@dataclass(frozen=True)
class Store:
    """A folder with a graph and its features, mapped from files.

    ``Store.open`` reads the manifest only. ``write_dataset`` and ``build_store`` create stores.

    Parameters
    ----------
    folder : Path
    manifest : dict
        Shape, dtype, size and checksums of every array, and statistics of the features.

    Examples
    --------
    >>> import tempfile
    >>> from gpcanet.datasets.synthetic import block_model
    >>> from gpcanet.distributed.writing import write_dataset
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = write_dataset(block_model(50, 200, n_features=6), f"{folder}/store")
    ...     (store.n_nodes, store.n_features)
    (50, 6)
    """

    folder: Path
    manifest: dict[str, Any]

    @classmethod
    def open(cls, folder: str | os.PathLike[str]) -> Store:
        """Open a store; raise if it has no valid manifest."""
        return cls(Path(folder), read_manifest(Path(folder), STORE))

    # -- sizes ----------------------------------------------------------------------------

    @property
    def arrays(self) -> dict[str, Any]:
        """The entries of all arrays."""
        return self.manifest["arrays"]

    @property
    def digest(self) -> str:
        """Digest of the manifest, and so of the checksums of all arrays."""
        return self.manifest["sha256"]

    @property
    def n_nodes(self) -> int:
        return int(self.arrays["indptr"]["shape"][0]) - 1

    @property
    def n_entries(self) -> int:
        """Number of entries of the adjacency matrix: two per edge."""
        return int(self.arrays["indices"]["shape"][0])

    @property
    def n_features(self) -> int:
        return len(self.mean)

    @property
    def is_weighted(self) -> bool:
        return "weights" in self.arrays

    @property
    def stored_dtype(self) -> np.dtype:
        """Precision in which the features are stored: float16, float32 or float64."""
        return np.dtype(self.arrays["X0"]["dtype"])

    @property
    def dtype(self) -> np.dtype:
        """Precision of the computation and the results: float32 or float64."""
        return np.result_type(self.stored_dtype, np.float32)

    @property
    def n_bytes(self) -> int:
        """Size of all arrays."""
        return sum(entry["bytes"] for entry in self.arrays.values())

    # -- features -------------------------------------------------------------------------

    @cached_property
    def mean(self) -> np.ndarray:
        """Column means of the features, in float64."""
        return np.array(self.manifest["mean"], np.float64)

    @cached_property
    def blocks(self) -> list[slice]:
        """The columns of each block of features."""
        widths: list[int] = []
        while (name := f"X{len(widths)}") in self.arrays:
            widths.append(self.arrays[name]["shape"][1])
        return [slice(a, b) for a, b in itertools.pairwise(np.cumsum([0, *widths]).tolist())]

    def block(self, number: int) -> np.ndarray:
        """A block of columns of the features, mapped."""
        return open_array(self.folder, self.arrays[f"X{number}"])

    def exponent(self, mean: np.ndarray, dtype: np.dtype) -> int:
        """The exponent e for which the squares of X / 2**e are in the range of the dtype."""
        return extreme_exponent(np.array(self.manifest["largest"]), dtype, mean)

    @property
    def feature_names(self) -> np.ndarray | None:
        names = self.manifest["feature_names"]
        return None if names is None else np.array(names, object)

    # -- nodes ----------------------------------------------------------------------------

    def graph(self) -> Graph:
        """The graph, mapped, without node ids, which may be large."""
        arrays = self.arrays
        weights = open_array(self.folder, arrays["weights"]) if self.is_weighted else None
        indptr, indices = (open_array(self.folder, arrays[name]) for name in ("indptr", "indices"))
        return Graph.from_csr(indptr, indices, weights, validate=False)

    def ids(self, rows: slice) -> np.ndarray:
        """Ids of some nodes; their positions if the store has no ids."""
        ids = stored_ids(self.folder, self.arrays, rows)
        return np.arange(*rows.indices(self.n_nodes)) if ids is None else ids

    def labels(self) -> np.ndarray | None:
        """Class codes for ghost edges, -1 if unlabelled; with a split, only of training nodes."""
        if "labels" not in self.arrays:
            return None
        codes = open_array(self.folder, self.arrays["labels"])
        if "split" not in self.arrays:
            return codes
        train = open_array(self.folder, self.arrays["split"]) == SPLIT.index("train")
        return np.where(train, codes, -1)

    # -- as a whole -----------------------------------------------------------------------

    def dataset(self) -> Dataset:
        """The store as a Dataset. The graph is mapped, and so are features stored in one block."""
        blocks = [self.block(number) for number in range(len(self.blocks))]
        X = blocks[0] if len(blocks) == 1 else np.hstack(blocks)
        y, split = np.full(self.n_nodes, -1), np.full(self.n_nodes, -1)
        if "labels" in self.arrays:
            y = np.array(open_array(self.folder, self.arrays["labels"]))
        if "split" in self.arrays:
            split = open_array(self.folder, self.arrays["split"])
        names = self.manifest["class_names"]
        parts: dict[str, Any] = {name: np.flatnonzero(split == i) for i, name in enumerate(SPLIT)}
        return Dataset(
            name=self.manifest["name"],
            graph=Graph.open(self.folder),
            X=X.astype(self.dtype, copy=False),
            y=y,
            class_names=None if names is None else np.array(names),
            feature_names=self.feature_names,
            notes=tuple(self.manifest["notes"]),
            **parts,
        )

    def shards(self) -> Iterator[tuple[str, int]]:
        """Array name and number of each part of the store that has a checksum."""
        for name, entry in self.arrays.items():
            for number in range(n_shards(entry)):
                yield name, number

    def verify(self, shards: list[tuple[str, int]] | None = None) -> None:
        """Raise a DataError that names the first damaged file; by default all are checked."""
        for name, number in self.shards() if shards is None else shards:
            problem = damaged_shard(self.folder, self.arrays[name], number)
            if problem is not None:
                raise DataError(f"{problem}; build the store again")
