"""Edges, features and labels of the user, joined by node id into a Dataset."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..datasets.dataset import Dataset
from ..datasets.synthetic import neighbor_graph
from ..errors import DataError
from ..graph import Graph
from .columns import Columns
from .edges import Edges, check_adjacency, read_edges
from .features import Features, read_features
from .ids import Ids, alike, check_unique
from .labels import PARTS, Labels, read_labels


def load_files(
    features: str | os.PathLike[str],
    edges: str | os.PathLike[str] | None = None,
    labels: str | os.PathLike[str] | None = None,
    *,
    id_column: str | None = None,
    source: str = "source",
    target: str = "target",
    weight: str | None = None,
    label_column: str | None = None,
    split_column: str | None = None,
    ignore: Sequence[str] = (),
    neighbors: int | None = None,
    drop_unknown: bool = False,
) -> Dataset:
    """A dataset from the user's own files, its nodes those of the features, in their order.

    Parameters
    ----------
    features : path
        A row per node: CSV, TSV or Parquet with a column of node ids; npy; npz, dense (with
        ``node_ids`` if there are any) or scipy's sparse; Matrix Market; h5ad. In a file
        without ids, node i is row i.
    edges : path, optional
        A row per edge: CSV, TSV or Parquet with the ids of both ends and perhaps a weight; npz
        (``edge_index``, or ``source`` and ``target``, or scipy's sparse); Matrix Market. An
        h5ad brings its own (``obsp["connectivities"]``).
    labels : path, optional
        A row per labelled node: CSV, TSV or Parquet with ids; npy or npz with a label per node.
    id_column : str, optional
        Column of node ids in features and labels (in a file without it, the default counts). By
        default "id", "node_id" or "node", in letters of either case, or the index that pandas
        wrote.
    source, target, weight : str
        Columns of the edges. ``weight`` is by default "weight", if there is one.
    label_column : str, optional
        Column of labels, in ``labels`` if that is given and else in ``features``. By default
        "label", or the only column of ``labels``. Empty, NA and the like, and -1 mean
        unlabelled.
    split_column : str, optional
        Column of either file with "train", "validation" or "test". By default "split", if
        there is one.
    ignore : sequence of str
        Columns of ``features`` that are no features.
    neighbors : int, optional
        Instead of edges: join each node to this many of most similar features.
    drop_unknown : bool
        Drop edges and labels of nodes that have no features, instead of raising.

    Returns
    -------
    Dataset
        ``graph.node_ids`` are the ids of the files, ``class_names`` their labels; ``notes``
        says what was assumed or dropped.
    """
    columns = Columns(id_column, label_column, split_column, tuple(ignore))
    told = None
    if labels is not None:
        told = read_labels(Path(labels), replace(columns, ignore=(), id_may_lack=True))
        columns = replace(columns, id_may_lack=told.ids.name == id_column)
    nodes = read_features(Path(features), columns, labels=told)
    found = None if edges is None else read_edges(Path(edges), source, target, weight)
    nodes, found, told = _with_ids_alike(nodes, found, nodes.labels)
    check_unique(nodes.ids)
    notes: list[str] = []
    if nodes.ids.are_rows:
        notes.append(f"{nodes.path} has no column of node ids: node i is row i, counted from 0")
    where = nodes.path if edges is None else Path(edges)
    graph = _join_graph(nodes, found, where, neighbors, drop_unknown, notes)
    y, train, validation, test = _join_labels(nodes, told, drop_unknown, notes)
    return Dataset(
        name=Path(features).stem,
        graph=graph,
        X=nodes.X,
        y=y,
        train=train,
        validation=validation,
        test=test,
        class_names=None if told is None else told.class_names,
        feature_names=nodes.names,
        notes=tuple(notes),
    )


def _with_ids_alike(
    nodes: Features, edges: Edges | sp.csr_array | None, labels: Labels | None
) -> tuple[Features, Any, Labels | None]:
    """Numbers of rows stay what they are; they are no ids to compare."""
    columns = [nodes.ids]
    if isinstance(edges, Edges) and not edges.source.are_rows:
        columns += [edges.source, edges.target]
    if labels is not None and not labels.ids.are_rows:
        columns.append(labels.ids)
    first, *others = alike(columns)
    nodes = replace(nodes, ids=first)
    if isinstance(edges, Edges) and not edges.source.are_rows:
        edges = replace(edges, source=others[0], target=others[1])
    if labels is not None and not labels.ids.are_rows:
        labels = replace(labels, ids=others[-1])
    return nodes, edges, labels


def _join_graph(
    nodes: Features,
    edges: Any,
    where: Path,
    neighbors: int | None,
    drop_unknown: bool,
    notes: list[str],
) -> Graph:
    n_nodes = nodes.X.shape[0]
    node_ids = None if nodes.ids.are_rows else np.asarray(nodes.ids.values.to_numpy())
    if neighbors is not None:
        if edges is not None:
            raise DataError("edges and neighbors are both given; give one of them")
        if not 1 <= neighbors < n_nodes or neighbors != int(neighbors):
            raise DataError(
                f"neighbors={neighbors} must be an integer from 1 to {n_nodes - 1}: "
                f"{nodes.path} has {n_nodes} nodes"
            )
        _check_distances(nodes)
        return neighbor_graph(nodes.X, neighbors, node_ids=node_ids)
    if isinstance(edges, Edges):
        rows, known_rows = _positions(edges.source, nodes, drop_unknown)
        columns, known_columns = _positions(edges.target, nodes, drop_unknown)
        known = known_rows & known_columns
        weights = edges.weights
        if not known.all():
            if not known.any():
                raise DataError(f"no edge of {where} joins two nodes of {nodes.path}; see the ids")
            notes.append(f"{np.sum(~known):,} edges to unknown nodes dropped")
            rows, columns = rows[known], columns[known]
            weights = None if weights is None else weights[known]
        return Graph.from_edge_index(
            (rows, columns), weights, n_nodes=n_nodes, node_ids=node_ids, each_once=True
        )
    matrix = nodes.adjacency if edges is None else edges
    if matrix is None:
        raise DataError("there are no edges; give a file of them, or a number of neighbors")
    if matrix.shape[0] != n_nodes:
        raise DataError(
            f"{where}: the adjacency has {matrix.shape[0]} rows, but {nodes.path} has {n_nodes} "
            f"nodes"
        )
    check_adjacency(where, matrix)
    return Graph(matrix, node_ids=node_ids)


def _join_labels(
    nodes: Features, labels: Labels | None, drop_unknown: bool, notes: list[str]
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The code of every node, and which of the labelled train, decide and test."""
    n_nodes = nodes.X.shape[0]
    y = np.full(n_nodes, -1)
    split = np.full(n_nodes, None, object) if nodes.split is None else nodes.split
    if labels is not None:
        check_unique(labels.ids)
        if labels.ids.are_rows and n_nodes != len(labels.codes):
            raise DataError(
                f"{labels.ids.table.path} has {len(labels.codes)} labels and no node ids, but "
                f"{nodes.path} has {n_nodes} nodes; give one label per node"
            )
        rows, known = _positions(labels.ids, nodes, drop_unknown)
        y[rows[known]] = labels.codes[known]
        if labels.split is not None:
            split[rows[known]] = labels.split[known]
        if not known.all():
            notes.append(f"{np.sum(~known):,} labels of unknown nodes dropped")
        n_labelled = int(np.sum(y >= 0))
        notes.append(f"{n_labelled:,} nodes labelled, in {len(labels.class_names):,} classes")
    train, validation, test = (np.flatnonzero((split == part) & (y >= 0)) for part in PARTS)
    unused = int(np.sum(y >= 0)) - len(train) - len(validation) - len(test)
    if unused and len(train) + len(validation) + len(test):
        notes.append(f"{unused:,} labelled nodes are in no part of the split, and not used")
    return y, train, validation, test


def _check_distances(nodes: Features) -> None:
    """Raise where a feature is not finite, or so large that distances would not be."""
    X: Any = nodes.X
    largest = np.sqrt(np.finfo(X.dtype).max / (4 * X.shape[1]))
    fine = np.abs(X.data if sp.issparse(X) else X) < largest  # False for NaN
    wrong = ~fine if sp.issparse(X) else ~fine.all(axis=1)
    if wrong.any():
        first = np.argmax(wrong)
        row = int(X.tocoo().row[first] if sp.issparse(X) else first)
        raise DataError(
            f"{nodes.ids.table.place(row)}: features must be finite, and less than {largest:.0e}, "
            f"to have neighbors"
        )


def _positions(ids: Ids, nodes: Features, drop_unknown: bool) -> tuple[np.ndarray, np.ndarray]:
    """Rows of the features, and which ids have one."""
    rows = ids.positions_in(nodes.ids)
    known = rows >= 0
    if not known.all() and not drop_unknown:
        first = int(np.argmax(~known))
        raise DataError(
            f"{ids.show(first)} is not in {nodes.path} ({np.sum(~known)} such); add it there, or "
            f"have unknown nodes dropped"
        )
    return rows, known
