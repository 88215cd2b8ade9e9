"""Dataset: a graph with features, labels and a split."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import scipy.sparse as sp

from ..graph import Graph
from ..utils.labels import SPLIT


@dataclass(frozen=True)
class About:
    """Size, source, licence and citation of a published dataset.

    Examples
    --------
    >>> from gpcanet.datasets import about
    >>> about("pubmed").n_nodes
    19717
    """

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
    megabytes: float = 0.0  # size of the download


def _no_nodes() -> np.ndarray:
    return np.empty(0, np.int64)


@dataclass(frozen=True, repr=False)
class Dataset:
    """An attributed graph with labels.

    Attributes
    ----------
    name : str
        Name of the dataset.
    graph : Graph
        The graph.
    X : {ndarray, csr_array} of shape (n_nodes, n_features)
        Features.
    y : ndarray of shape (n_nodes,)
        Labels; -1 for unlabelled nodes.
    train, validation, test : ndarray
        Positions of the nodes of the split; empty without a split.
    class_names, feature_names : ndarray or None
        Names of the classes and of the columns of X, if known. If the labels are numbers, the
        classes are the distinct ones.
    notes : tuple of str
        Sentences about what was assumed or dropped while reading files.
    about : About or None
        Source, licence and citation.
    neighborhood : Graph or None
        The graph with further nodes, after its own, that edges name and whose features are
        elsewhere: the training nodes of a model. None if there are none.

    Examples
    --------
    >>> from gpcanet import Graph
    >>> from gpcanet.datasets import Dataset
    >>> graph = Graph.from_edge_index([[0, 1], [1, 2]], each_once=True)
    >>> X, y = np.eye(3), np.array([0, 1, 1])
    >>> data = Dataset("three nodes", graph, X, y, train=np.array([0, 1]), test=np.array([2]))
    >>> data.n_classes, data.visible_labels().tolist()
    (2, [0, 1, -1])
    """

    name: str
    graph: Graph
    X: np.ndarray | sp.csr_array
    y: np.ndarray
    train: np.ndarray = field(default_factory=_no_nodes)
    validation: np.ndarray = field(default_factory=_no_nodes)
    test: np.ndarray = field(default_factory=_no_nodes)
    class_names: np.ndarray | None = None
    feature_names: np.ndarray | None = None
    notes: tuple[str, ...] = ()
    about: About | None = None
    neighborhood: Graph | None = None

    def __repr__(self) -> str:
        """The name, the graph and sizes, without the arrays."""
        sizes = {part: len(getattr(self, part)) for part in SPLIT}
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

    @property
    def targets(self) -> np.ndarray | None:
        """Labels that are numbers, NaN for unlabelled nodes; None if they are classes."""
        if self.class_names is None or self.class_names.dtype.kind != "f":
            return None
        targets = np.full(len(self.y), np.nan)
        targets[self.y >= 0] = self.class_names[self.y[self.y >= 0]]
        return targets

    def visible_labels(self, *, validation: bool = True) -> np.ndarray:
        """y with -1 for all nodes that are not in the training or validation set."""
        y = np.full_like(self.y, -1)
        y[self.train] = self.y[self.train]
        if validation:
            y[self.validation] = self.y[self.validation]
        return y
