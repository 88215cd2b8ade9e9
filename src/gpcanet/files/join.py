"""Edges, features and labels of the user, joined by node id into a Dataset."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from dataclasses import replace
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..datasets.dataset import Dataset
from ..datasets.synthetic import neighbor_graph
from ..errors import DataError, DataWarning
from ..graph import Graph
from .columns import Columns, check_distinct
from .edges import Edges, check_adjacency, read_edges
from .features import Features, read_features
from .ids import Ids, alike, check_unique
from .labels import PARTS, Labels, read_labels
from .tables import TEXT_SUFFIXES, Table, suffix_of


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
        without ids, node i is row i. See the notes on headers.
    edges : path, optional
        A row per edge: CSV, TSV or Parquet with the ids of both ends and perhaps a weight; npz
        (``edge_index``, or ``source`` and ``target``, or scipy's sparse); Matrix Market. An
        h5ad brings its own (``obsp["connectivities"]``).
    labels : path, optional
        A row per labelled node: CSV, TSV or Parquet with ids; npy or npz with a label per node.
    id_column : str, optional
        Column of node ids in features and labels (in a file without it, the default counts). By
        default "id", "node_id" or "node", in letters of either case, or the index that pandas
        wrote (in Parquet also a range, unless it is the default: 0, 1, 2, ...).
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
        Drop edges and labels of nodes that have no features, instead of raising. More than half
        of the edges or labels dropped is a DataWarning, all of them an error.

    Returns
    -------
    Dataset
        ``graph.node_ids`` are the ids of the files, ``class_names`` their labels; ``notes``
        says what was assumed or dropped.

    Notes
    -----
    The first row of a CSV or TSV is a header if any of its cells is not a number. If all are
    numbers, the rule depends on what the file holds:

    - Features: the row is a header if it is 0, 1, 2, ... for three columns or more, as pandas
      writes columns without names. One or two such columns, and other distinct integers above
      a row of fractions, may be either: an error asks for column names.
    - Edges: the row is an edge (with its weight in a third column). As the row 0, 1, 2 would
      also be the header that pandas writes, an error asks for column names.
    - Labels: the row is a node id and its label or, in a single column, the label of node 0.

    ``notes`` reports which it was, wherever the row is 0, 1, ... or the features have no header.
    """
    check_distinct(source=source, target=target, weight=weight)
    columns = Columns(id_column, label_column, split_column, tuple(ignore))
    told = None
    if labels is not None:
        told = read_labels(Path(labels), replace(columns, ignore=(), id_may_lack=True))
        columns = replace(columns, id_may_lack=told.ids.name == id_column)
    nodes = read_features(Path(features), columns, labels=told)
    found = None if edges is None else read_edges(Path(edges), source, target, weight)
    nodes, found, told = _with_ids_alike(nodes, found, nodes.labels)
    check_unique(nodes.ids)
    notes = _Notes()
    if nodes.has_numbered_header:
        notes.append(f"{nodes.path}: its first row (0, 1, 2, ...) is the header")
    elif not nodes.has_header:
        notes.append(f"{nodes.path} has no header: its first row is a node")
    if nodes.ids.are_rows:
        notes.append(f"{nodes.path} has no column of node ids: node i is row i, counted from 0")
    if told is not None and nodes.label_left_out is not None:
        notes.append(
            f"{nodes.path}: column {nodes.label_left_out!r} is called like the label, so it is no "
            f"feature; rename it if it is one"
        )
    if isinstance(found, Edges):
        notes += _first_row_notes(found.source.table, "an edge")
        notes += [found.note] if found.note else []
    if told is not None:
        notes += _first_row_notes(told.ids.table, "a label")
        notes += [f"labels: {told.note}"] if told.note else []
        if told.ids.are_rows and labels is not None:
            notes.append(f"{labels} has no column of node ids: label i is that of node i")
    where = nodes.path if edges is None else Path(edges)
    graph = _join_graph(nodes, found, where, neighbors, drop_unknown, notes)
    y, train, validation, test = _join_labels(nodes, told, drop_unknown, notes)
    for sentence in notes.warnings:
        warnings.warn(sentence, DataWarning, stacklevel=2)
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


class _Notes(list[str]):
    """Sentences about what was assumed or dropped; some of them are also warnings."""

    def __init__(self) -> None:
        super().__init__()
        self.warnings: list[str] = []

    def warn(self, sentence: str) -> None:
        self.append(sentence)
        self.warnings.append(sentence)


def _first_row_notes(table: Table, what: str) -> list[str]:
    """What a first row 0, 1, which pandas may have written as a header, was taken for."""
    if table.has_header or not table.starts_with_numbers:
        return []
    row = ", ".join(map(str, range(len(table.names))))
    if len(table.names) > 2:
        raise DataError(
            f"{table.path}: its first row ({row}) may be a header or {what}; add a first row with "
            f"names of the columns, or rename them"
        )
    return [f"{table.path} has no header: its first row ({row}) is {what}"]


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
    notes: _Notes,
) -> Graph:
    n_nodes = nodes.X.shape[0]
    node_ids = None if nodes.ids.are_rows else np.asarray(nodes.ids.values.to_numpy())
    if neighbors is not None:
        if edges is not None:
            raise DataError("edges and neighbors are both given; give one of them")
        if not isinstance(neighbors, Integral) or not 1 <= neighbors < n_nodes:
            raise DataError(
                f"neighbors={neighbors!r} must be an integer from 1 to {n_nodes - 1}: "
                f"{nodes.path} has {n_nodes} nodes"
            )
        _check_distances(nodes)
        return neighbor_graph(nodes.X, neighbors, node_ids=node_ids)
    goes_by_position = edges is not None and not (
        isinstance(edges, Edges) and not edges.source.are_rows
    )
    if goes_by_position and not nodes.ids.are_rows:
        _note_positions(where, nodes, notes)
    if isinstance(edges, Edges):
        both = edges.source, edges.target
        (rows, known_rows), (columns, known_columns) = _positions(both, nodes, drop_unknown)
        largest = max(rows.max(initial=-1), columns.max(initial=-1))
        if nodes.ids.are_rows and not nodes.has_header and 0 <= largest == n_nodes - 2:
            notes.append(
                f"{nodes.path} has one row more than the nodes of {where}; if its first row is a "
                f"header, rename its columns to anything but numbers"
            )
        known = known_rows & known_columns
        weights = edges.weights
        if not known.all():
            _report_dropped("edges", known, where, nodes, notes)
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


def _note_positions(where: Path, nodes: Features, notes: _Notes) -> None:
    """Edges by position meet features with ids: row i is node i, unless the ids say otherwise."""
    if not nodes.ids.is_text:
        ids = nodes.ids.values.to_numpy()
        numbers = np.arange(len(ids))
        if not np.array_equal(ids, numbers) and np.array_equal(np.sort(ids), numbers):
            raise DataError(
                f"{where} names nodes by position, but {nodes.path} has the ids 0, 1, ... in "
                f"another order; sort its rows by id, or give a table of edges with ids"
            )
    notes.append(f"{where} names nodes by position: node i is row i of {nodes.path}")


def _report_dropped(
    what: str, known: np.ndarray, where: Path, nodes: Features, notes: _Notes
) -> None:
    """A note on edges or labels dropped, a warning for more than half, an error for all of them."""
    n_dropped = int(np.sum(~known))
    if n_dropped == 0:
        return
    sentence = (
        f"{n_dropped:,} of {len(known):,} {what} of {where} dropped: their nodes are not in "
        f"{nodes.path}"
    )
    if n_dropped == len(known):
        raise DataError(f"{sentence}; check that both files use the same ids")
    if 2 * n_dropped > len(known):
        notes.warn(f"{sentence}; check the ids")
    else:
        notes.append(sentence)


def _join_labels(
    nodes: Features, labels: Labels | None, drop_unknown: bool, notes: _Notes
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The code of every node, and which of the labelled train, decide and test."""
    n_nodes = nodes.X.shape[0]
    y = np.full(n_nodes, -1)
    split = np.full(n_nodes, None, object) if nodes.split is None else nodes.split
    if labels is not None:
        check_unique(labels.ids)
        if labels.ids.are_rows and n_nodes != len(labels.codes):
            hint = ""
            if (
                suffix_of(labels.ids.table.path) in TEXT_SUFFIXES
                and len(labels.codes) == n_nodes + 1
            ):
                hint = ", and if the first row is a header, a name that is no number"
            raise DataError(
                f"{labels.ids.table.path} has {len(labels.codes)} labels and no node ids, but "
                f"{nodes.path} has {n_nodes} nodes; give one label per node{hint}"
            )
        [(rows, known)] = _positions([labels.ids], nodes, drop_unknown)
        y[rows[known]] = labels.codes[known]
        if labels.split is not None:
            split[rows[known]] = labels.split[known]
        _report_dropped("labels", known[labels.codes >= 0], labels.ids.table.path, nodes, notes)
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


def _positions(
    columns: Sequence[Ids], nodes: Features, drop_unknown: bool
) -> list[tuple[np.ndarray, np.ndarray]]:
    """For each column of ids of one file: rows of the features, and which ids have one."""
    found = []
    for ids in columns:
        rows = ids.positions_in(nodes.ids)
        known = rows >= 0
        if not known.all() and not drop_unknown:
            first = int(np.argmax(~known))
            raise DataError(
                f"{ids.show(first)} is not in {nodes.path} ({np.sum(~known)} such); add it there, "
                f"or have unknown nodes dropped{_off_by_one(columns, nodes)}"
            )
        found.append((rows, known))
    return found


def _off_by_one(columns: Sequence[Ids], nodes: Features) -> str:
    """A hint where positions go exactly one beyond the rows of the features."""
    if not (columns[0].are_rows or nodes.ids.are_rows):
        return ""
    positions = np.concatenate([ids.values.to_numpy() for ids in columns])
    n_nodes = nodes.X.shape[0]
    if positions.max() != n_nodes:
        return ""
    if positions.min() > 0:
        return f" (the {n_nodes} rows are nodes 0 to {n_nodes - 1}: do these ids count from 1?)"
    if nodes.has_numbered_header:
        return " (one row is missing: if the first row is no header, name the columns)"
    return " (exactly one row is missing)"
