"""Dataset: a graph with features, labels and a split, and what is to be known about it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import scipy.sparse as sp

from ..graph import Graph


@dataclass(frozen=True)
class About:
    """What one should know of a published dataset before and after using it."""

    name: str
    summary: str
    n_nodes: int
    n_edges: int
    n_features: int
    n_classes: int
    split: str
    source: str
    licence: str
    citation: str
    megabytes: float = 0.0  # to download


def _nobody() -> np.ndarray:
    return np.empty(0, np.int64)


@dataclass(frozen=True, repr=False)
class Dataset:
    """An attributed graph with labels; row i of X and entry i of y belong to node i.

    ``train``, ``validation`` and ``test`` are positions of nodes. A label of -1 is unknown;
    ``class_names[label]`` is what a label means, where that is known. ``notes`` are sentences
    about what a reader of files assumed or dropped.
    """

    name: str
    graph: Graph
    X: np.ndarray | sp.csr_array
    y: np.ndarray
    train: np.ndarray = field(default_factory=_nobody)
    validation: np.ndarray = field(default_factory=_nobody)
    test: np.ndarray = field(default_factory=_nobody)
    class_names: np.ndarray | None = None
    feature_names: np.ndarray | None = None
    notes: tuple[str, ...] = ()
    about: About | None = None

    def __repr__(self) -> str:
        """The name, the graph, and sizes; never the arrays themselves."""
        sizes = {part: len(getattr(self, part)) for part in ("train", "validation", "test")}
        split = ", ".join(f"{part}={n}" for part, n in sizes.items()) if self.has_split else "none"
        kind = "sparse " if sp.issparse(self.X) else ""
        return (
            f"Dataset({self.name!r}, {self.graph!r}, X={kind}{self.X.shape} {self.X.dtype}, "
            f"n_classes={self.n_classes}, split: {split})"
        )

    @property
    def n_classes(self) -> int:
        return int(self.y.max(initial=-1)) + 1

    @property
    def has_split(self) -> bool:
        return len(self.train) + len(self.validation) + len(self.test) > 0

    def visible_labels(self, *, validation: bool = True) -> np.ndarray:
        """y with -1 wherever a classifier must not look."""
        y = np.full_like(self.y, -1)
        y[self.train] = self.y[self.train]
        if validation:
            y[self.validation] = self.y[self.validation]
        return y
