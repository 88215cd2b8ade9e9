"""What a fitted estimator keeps of its training nodes, and new nodes that are joined to them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from ..errors import InputError
from ..graph import Graph
from ..graph.node_ids import find_positions
from ..utils.labels import UNLABELED
from ._alignment import RowIndex, check_graph, row_subgraph
from .validation import check_features


class JoinedRows(NamedTuple):
    """Rows of X, then those training rows that are their neighbours.

    ``nodes`` are their positions in ``graph``; None if row i is node i. ``labels`` are those of
    ``fit``; None if the graph does not contain the training nodes.
    """

    X: Any
    graph: Graph
    nodes: np.ndarray | None
    labels: np.ndarray | None

    @property
    def row_graph(self) -> Graph:
        """The graph on these rows, in their order."""
        return row_subgraph(self.graph, self.nodes)


@dataclass(frozen=True)
class TrainingNodes:
    """Graph, node positions, features and labels of ``fit``.

    ``nodes`` is None if row i is node i; ``X`` is None if the rows of X were not kept.
    """

    graph: Graph
    nodes: np.ndarray | None
    X: Any
    labels: np.ndarray | None

    @classmethod
    def kept(
        cls,
        graph: Graph,
        nodes: np.ndarray | None,
        X: Any,
        labels: np.ndarray | None,
        *,
        keep: bool | None,
    ) -> TrainingNodes | None:
        """What ``keep_training_nodes=keep`` keeps; None if that is nothing.

        By default rows are kept if positions in the graph were given, as in cross-validation.
        """
        keep = nodes is not None if keep is None else keep
        if not keep and labels is None:
            return None
        return cls(graph, nodes, X if keep else None, labels)

    def in_graph(self, graph: Graph) -> TrainingNodes | None:
        """The training nodes with their positions in another graph that contains them.

        That is the graph of ``fit`` with further nodes and edges, or with its nodes in another
        order. Nodes are matched by id; without ids, the training nodes are the first ones. None if
        an edge of ``fit`` is missing, or if ``fit`` had no edges to recognise its graph by.
        """
        if graph.is_same(self.graph):
            return self
        n_nodes = self.graph.n_nodes
        if graph.n_nodes < n_nodes or self.graph.n_edges == 0:
            return None
        places = np.arange(n_nodes)
        if graph.node_ids is not None and self.graph.node_ids is not None:
            try:
                places = find_positions(graph.node_ids, self.graph.node_ids, "fit", "the graph")
            except InputError:
                return None
        if not _contains(graph.subgraph(places), self.graph):
            return None
        nodes = places if self.nodes is None else places[self.nodes]
        return replace(self, graph=graph, nodes=nodes)

    @property
    def positions(self) -> np.ndarray:
        """Positions of the training nodes in the graph."""
        return np.arange(self.graph.n_nodes) if self.nodes is None else self.nodes

    def labels_of_graph(self) -> np.ndarray:
        """Labels of all nodes of the graph; ``UNLABELED``, or NaN for targets, if unknown."""
        n_nodes = self.graph.n_nodes
        labels = np.full(n_nodes, UNLABELED)
        if self.labels is not None:
            if self.labels.ndim == 2:  # targets instead of class codes
                labels = np.full((n_nodes, self.labels.shape[1]), np.nan)
            labels[self.positions] = self.labels
        return labels

    def with_training_nodes(
        self, X: np.ndarray | sp.csr_array, nodes: np.ndarray | None
    ) -> tuple[np.ndarray | sp.csr_array, np.ndarray | None, np.ndarray]:
        """Return X, nodes and labels of the given rows, then of all other training rows."""
        labels = self.labels_of_graph()
        if nodes is None:
            return X, None, labels
        if self.X is not None:
            others = ~np.isin(self.positions, nodes)
            nodes = np.concatenate([nodes, self.positions[others]])
            rows = self.X[others].astype(X.dtype)
            if sp.issparse(X):
                X = sp.vstack([X, sp.csr_array(rows)], format="csr")
            else:
                X = np.vstack([X, rows.toarray() if sp.issparse(rows) else rows])
        return X, nodes, labels[nodes]

    def united_with(
        self, graph: Graph, nodes: np.ndarray
    ) -> tuple[TrainingNodes, Graph, np.ndarray]:
        """The training nodes in the union of their graph and another one with node ids.

        Also returns the union, and the positions of ``nodes`` of the other graph in it.
        """
        union = self.graph.union(graph)
        places = union.positions(graph.node_ids)
        return replace(self, graph=union, nodes=self.positions), union, places[nodes]


def check_keep(keep: Any) -> None:
    """Raise unless ``keep_training_nodes`` is True, False or None."""
    if keep is not None and not isinstance(keep, bool):
        raise InputError(
            f"keep_training_nodes={keep!r} must be True, False, or None to keep them if nodes= is "
            f"passed or rows have ids"
        )


def check_new_rows(
    fitted: Any, X: Any, graph: Any, nodes: Any, *, allow_nan: bool = False
) -> tuple[JoinedRows, int]:
    """Check the arguments of ``transform`` or ``predict`` of a fitted estimator.

    Returns the rows of X, completed by training rows, and the number of rows of X.
    """
    check_is_fitted(fitted)
    index = RowIndex.of(X)
    X = check_features(fitted, X, reset=False, allow_nan=allow_nan)
    graph, nodes = check_graph(graph, nodes, X.shape[0], index=index, fitted=fitted)
    return _join_training_rows(fitted.training_nodes_, X, graph, nodes), X.shape[0]


def _join_training_rows(
    training: TrainingNodes | None, X: Any, graph: Graph, nodes: np.ndarray | None
) -> JoinedRows:
    """Complete rows of X by the training rows that are their neighbours.

    If X has all nodes of the graph, nothing is added, and labels are those of the training nodes
    that the graph contains. Otherwise the other nodes must be training nodes whose rows were kept.
    The graph may lack edges between training nodes if all nodes have ids: those of ``fit`` are
    added.
    """
    known = None if training is None else training.in_graph(graph)
    if nodes is None or len(nodes) == graph.n_nodes:
        if known is None:
            return JoinedRows(X, graph, nodes, None)
        X, nodes, labels = known.with_training_nodes(X, nodes)
        return JoinedRows(X, graph, nodes, labels)
    shown = f"X has {X.shape[0]} of the {graph.n_nodes} nodes of the graph"
    if training is None or training.X is None:
        raise InputError(
            f"{shown}, and fit kept no training rows; pass all rows of X, or fit with "
            f"keep_training_nodes=True, or pass graph.subgraph(nodes) to use these nodes alone"
        )
    if known is None:
        if graph.node_ids is None or training.graph.node_ids is None:
            raise InputError(
                f"{shown}, which does not contain the graph of fit; without node ids its first "
                f"{training.graph.n_nodes} nodes must be those of fit with all their edges: pass "
                f"training_nodes_.graph.union(graph), or all rows of X"
            )
        known, graph, nodes = training.united_with(graph, nodes)
    _check_new_nodes(training, graph, nodes)
    X, nodes, labels = known.with_training_nodes(X, nodes)
    return JoinedRows(X, graph, nodes, labels)


def _check_new_nodes(training: TrainingNodes, graph: Graph, nodes: np.ndarray) -> None:
    """Raise if a node that is not in the graph of fit has no row."""
    if graph.n_nodes == training.graph.n_nodes:
        return
    has_row = np.zeros(graph.n_nodes, bool)
    has_row[nodes] = True
    if graph.node_ids is None or training.graph.node_ids is None:
        has_row[: training.graph.n_nodes] = True
    else:
        has_row[graph.positions(training.graph.node_ids)] = True
    if has_row.all():
        return
    first = int(np.argmin(has_row))
    name = first if graph.node_ids is None else graph.node_ids[[first]].tolist()[0]
    raise InputError(
        f"node {name!r} of the graph has no row in X and is not a node of fit; give its row, or "
        f"leave the node out of the graph"
    )


def _contains(graph: Graph, part: Graph) -> bool:
    """Whether a graph has all edges of another one on the same nodes, with their weights."""
    if graph.is_same(part):
        return True
    if graph.n_edges < part.n_edges:
        return False
    # Weights are compared in the lower of their precisions, as in Graph.is_same.
    dtypes = [one.weights.dtype for one in (graph, part) if one.weights is not None]
    dtype = min(dtypes, key=lambda dtype: dtype.itemsize, default=np.dtype(np.float64))
    edges = part.adjacency.astype(dtype)
    shared = graph.adjacency.astype(dtype).multiply(edges != 0)
    return shared.nnz == edges.nnz and bool((shared != edges).nnz == 0)
