"""Edges, features and labels in files, joined by node id into a Dataset."""

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
from ..errors import DataError, DataWarning, UnknownNodeError
from ..graph import Graph
from ..graph.neighbors import neighbor_graph
from ..utils.training_result import SPLIT
from .column_roles import ColumnRoles, check_distinct_columns
from .edges import Edges, check_adjacency, read_edges
from .features import AnnDataSlots, Features, read_features
from .id_columns import NodeIds, check_unique, to_common_type
from .known_nodes import append_known_nodes
from .labels import Labels, read_labels
from .paths import suffix_of
from .tables import TEXT_SUFFIXES, Table


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
    numeric_labels: bool = False,
    keep_missing: bool = False,
    known: Graph | None = None,
    layer: str | None = None,
    obsm: str | None = None,
    obsp: str | None = None,
) -> Dataset:
    """Load a dataset from files. Its nodes are the rows of the features, in their order.

    Parameters
    ----------
    features : path
        One row per node: CSV, TSV or Parquet with a column of node ids; npy; npz, dense (with
        ``node_ids`` if there are ids) or a sparse matrix of scipy; Matrix Market; h5ad. In a file
        without ids, node i is row i.
    edges : path, default=None
        One row per edge: CSV, TSV or Parquet with the ids of both nodes and optionally a weight;
        npz (``edge_index``, or ``source`` and ``target``, or a sparse matrix of scipy); Matrix
        Market. An h5ad file contains its own edges (``obsp``).
    labels : path, default=None
        One row per labelled node: CSV, TSV or Parquet with ids; npy or npz with one label per node.
    id_column : str, default=None
        Column of node ids in features and labels; in a file without it, the default is used. By
        default "id", "node_id" or "node", in upper or lower case, or the index that pandas wrote
        (in Parquet also a range other than 0, 1, 2, ...). In npz files also "index" or "nodes".
    source, target, weight : str
        Columns of the edges. ``weight`` is by default "weight", if there is such a column.
    label_column : str, default=None
        Column of labels, in ``labels`` if given, otherwise in ``features``. By default "label", or
        the only column of ``labels``. Empty cells, -1, NA and similar words mean unlabelled.
    split_column : str, default=None
        Column of either file with "train", "validation" or "test". By default "split", if there is
        such a column.
    ignore : sequence of str, default=()
        Columns of ``features`` that are not features.
    neighbors : int, default=None
        Number of nearest neighbours to connect to every node, instead of edges.
    drop_unknown : bool, default=False
        Whether to drop edges and labels of nodes without features, instead of raising an error. If
        more than half of the edges or labels are dropped, a DataWarning is issued; if all are, an
        error is raised.
    numeric_labels : bool, default=False
        Whether labels are numbers to predict: ``targets`` of the dataset has them, NaN for empty
        cells, NA and similar words. Then -1 is a number like any other.
    keep_missing : bool, default=False
        Whether missing features (empty cells, NaN) are NaN in X, instead of an error.
    known : Graph, default=None
        A graph whose nodes edges may name although they have no features here, for example the
        training nodes of a model. ``neighborhood`` of the result has these nodes.
    layer, obsm : str, default=None
        Layer or array of ``obsm`` of an h5ad file to use instead of X.
    obsp : str, default=None
        Graph in an h5ad file: a key of ``obsp``, or of ``uns`` as scanpy's ``neighbors_key``. By
        default "connectivities", or else "spatial_connectivities".

    Returns
    -------
    Dataset
        ``graph.node_ids`` are the ids of the files and ``class_names`` their labels. ``notes``
        states what was assumed or dropped.

    Notes
    -----
    The first row of a CSV or TSV is a header if any of its cells is not a number. If all are
    numbers, the rule depends on the file:

    - Features: the row is a header if it is 0, 1, 2, ... for three columns or more, as pandas
      writes columns without names. One or two such columns, and other distinct integers above
      a row of fractions, are ambiguous: an error asks for column names.
    - Edges: the row is an edge (with its weight in a third column). The row 0, 1, 2 could also be
      the header that pandas writes: an error asks for column names.
    - Labels: the row is a node id and its label or, in a single column, the label of node 0.

    ``notes`` states the decision if the row is 0, 1, ... or the features have no header.
    """
    check_distinct_columns({"source": source, "target": target, "weight": weight})
    roles = ColumnRoles(
        id_column, label_column, split_column, tuple(ignore), label_is_number=numeric_labels
    )
    node_labels = None
    if labels is not None:
        node_labels = read_labels(Path(labels), replace(roles, ignore=(), id_is_optional=True))
        roles = replace(roles, id_is_optional=node_labels.ids.name == id_column)
    nodes = read_features(
        Path(features),
        roles,
        labels=node_labels,
        keep_missing=keep_missing,
        slots=AnnDataSlots(layer, obsm, obsp),
    )
    links = None if edges is None else read_edges(Path(edges), source, target, weight)
    nodes, links, node_labels = _convert_ids(nodes, links, nodes.labels)
    check_unique(nodes.ids)
    notes = _Notes()
    if nodes.has_numbered_header:
        notes.append(f"{nodes.path}: the first row (0, 1, 2, ...) is the header")
    elif not nodes.has_header:
        notes.append(f"{nodes.path} has no header: the first row is a node")
    if nodes.ids.are_positions:
        notes.append(f"{nodes.path} has no column of node ids: node i is row i, counted from 0")
    if node_labels is not None and nodes.excluded_label is not None:
        notes.append(
            f"{nodes.path}: column {nodes.excluded_label!r} has the name of the label and is not a "
            f"feature; rename it if it is one"
        )
    if nodes.note is not None and edges is None and neighbors is None:
        notes.append(nodes.note)
    if isinstance(links, Edges):
        notes += _first_row_notes(links.source.table, "an edge")
        notes += [links.note] if links.note else []
    if node_labels is not None:
        notes += _first_row_notes(node_labels.ids.table, "a label")
        notes += [f"labels: {node_labels.note}"] if node_labels.note else []
        if node_labels.ids.are_positions and labels is not None:
            notes.append(f"{labels} has no column of node ids: label i belongs to node i")
    path = nodes.path if edges is None else Path(edges)
    combined, own_nodes = nodes, np.arange(nodes.X.shape[0])
    if known is not None and isinstance(links, Edges):
        combined = append_known_nodes(nodes, links, known, notes)
    graph = neighborhood = _join_graph(combined, links, path, neighbors, drop_unknown, notes)
    if combined is not nodes:
        graph = neighborhood.subgraph(own_nodes)
    y, train, validation, test = _join_labels(nodes, node_labels, drop_unknown, notes)
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
        class_names=None if node_labels is None else node_labels.class_names,
        feature_names=nodes.names,
        notes=tuple(notes),
        neighborhood=None if combined is nodes else neighborhood,
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
    """A note on a first row 0, 1, which pandas also writes as a header; an error if 0, 1, 2."""
    if table.has_header or not table.starts_with_numbers:
        return []
    row = ", ".join(map(str, range(len(table.names))))
    if len(table.names) > 2:
        raise DataError(
            f"{table.path}: the first row ({row}) may be a header or {what}; add a header with "
            f"names that are not numbers"
        )
    return [f"{table.path} has no header: the first row ({row}) is {what}"]


def _convert_ids(
    nodes: Features, edges: Edges | sp.csr_array | None, labels: Labels | None
) -> tuple[Features, Any, Labels | None]:
    """Convert the ids of all files to one type, except positions."""
    columns = [nodes.ids]
    if isinstance(edges, Edges) and not edges.source.are_positions:
        columns += [edges.source, edges.target]
    if labels is not None and not labels.ids.are_positions:
        columns.append(labels.ids)
    first, *others = to_common_type(columns)
    nodes = replace(nodes, ids=first)
    if isinstance(edges, Edges) and not edges.source.are_positions:
        edges = replace(edges, source=others[0], target=others[1])
    if labels is not None and not labels.ids.are_positions:
        labels = replace(labels, ids=others[-1])
    return nodes, edges, labels


def _join_graph(
    nodes: Features,
    edges: Any,
    path: Path,
    neighbors: int | None,
    drop_unknown: bool,
    notes: _Notes,
) -> Graph:
    n_nodes = len(nodes.ids.values)
    node_ids = None if nodes.ids.are_positions else np.asarray(nodes.ids.values.to_numpy())
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
    has_ids = isinstance(edges, Edges) and not edges.source.are_positions
    if edges is not None and not has_ids and not nodes.ids.are_positions:
        _note_positions(path, nodes, notes)
    if isinstance(edges, Edges):
        both = edges.source, edges.target
        (rows, known_rows), (columns, known_columns) = _positions(both, nodes, drop_unknown)
        largest = max(rows.max(initial=-1), columns.max(initial=-1))
        if nodes.ids.are_positions and not nodes.has_header and 0 <= largest == n_nodes - 2:
            notes.append(
                f"{nodes.path} has one row more than {path} has nodes; if the first row is a "
                f"header, use column names that are not numbers"
            )
        known = known_rows & known_columns
        weights = edges.weights
        if not known.all():
            _report_dropped("edges", known, path, nodes, notes)
            rows, columns = rows[known], columns[known]
            weights = None if weights is None else weights[known]
        return Graph.from_edge_index(
            (rows, columns), weights, n_nodes=n_nodes, node_ids=node_ids, each_once=True
        )
    matrix = nodes.adjacency if edges is None else edges
    if matrix is None:
        raise DataError(nodes.note or f"{nodes.path} has no edges; give edges or neighbors")
    if matrix.shape[0] != n_nodes:
        raise DataError(
            f"{path}: the adjacency matrix has {matrix.shape[0]} rows, but {nodes.path} has "
            f"{n_nodes} nodes; give one row per node"
        )
    check_adjacency(path, matrix)
    return Graph(matrix, node_ids=node_ids)


def _note_positions(path: Path, nodes: Features, notes: _Notes) -> None:
    """Note that edges use positions although nodes have ids; raise if the ids contradict them."""
    if not nodes.ids.is_text:
        ids = nodes.ids.values.to_numpy()
        positions = np.arange(len(ids))
        if not np.array_equal(ids, positions) and np.array_equal(np.sort(ids), positions):
            raise DataError(
                f"{path} refers to nodes by position, but {nodes.path} has the ids 0, 1, ... in "
                f"another order; sort its rows by id, or give a table of edges with ids"
            )
    notes.append(f"{path} refers to nodes by position: node i is row i of {nodes.path}")


def _report_dropped(
    what: str, known: np.ndarray, path: Path, nodes: Features, notes: _Notes
) -> None:
    """Note how many edges or labels are dropped; warn for more than half, raise for all."""
    n_dropped = int(np.sum(~known))
    if n_dropped == 0:
        return
    sentence = (
        f"{n_dropped:,} of {len(known):,} {what} of {path} dropped: their nodes are not in "
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
    """The class code of every node, and the training, validation and test nodes."""
    n_nodes = nodes.X.shape[0]
    y = np.full(n_nodes, -1)
    split = np.full(n_nodes, None, object) if nodes.split is None else nodes.split
    if labels is not None:
        check_unique(labels.ids)
        if labels.ids.are_positions and n_nodes != len(labels.codes):
            hint = ""
            if (
                suffix_of(labels.ids.table.path) in TEXT_SUFFIXES
                and len(labels.codes) == n_nodes + 1
            ):
                hint = ", and if the first row is a header, a name that is not a number"
            raise DataError(
                f"{labels.ids.table.path} has {len(labels.codes)} labels and no node ids, but "
                f"{nodes.path} has {n_nodes} nodes; give one label per node{hint}"
            )
        [(rows, known)] = _positions([labels.ids], nodes, drop_unknown)
        y[rows[known]] = labels.codes[known]
        if labels.split is not None:
            split[rows[known]] = labels.split[known]
        _report_dropped("labels", known[labels.codes >= 0], labels.ids.table.path, nodes, notes)
        n_labeled = int(np.sum(y >= 0))
        kinds = "distinct values" if labels.are_numbers else "classes"
        notes.append(f"{n_labeled:,} nodes labelled, in {len(labels.class_names):,} {kinds}")
    train, validation, test = (np.flatnonzero((split == part) & (y >= 0)) for part in SPLIT)
    unused = int(np.sum(y >= 0)) - len(train) - len(validation) - len(test)
    if unused and len(train) + len(validation) + len(test):
        notes.append(f"{unused:,} labelled nodes are in no part of the split and are not used")
    return y, train, validation, test


def _check_distances(nodes: Features) -> None:
    """Raise if a feature is not finite, or so large that distances would overflow."""
    X: Any = nodes.X
    largest = np.sqrt(np.finfo(X.dtype).max / (4 * X.shape[1]))
    fine = np.abs(X.data if sp.issparse(X) else X) < largest  # False for NaN
    wrong = ~fine if sp.issparse(X) else ~fine.all(axis=1)
    if wrong.any():
        first = np.argmax(wrong)
        row = int(X.tocoo().row[first] if sp.issparse(X) else first)
        raise DataError(
            f"{nodes.ids.table.place(row)}: features must be finite and less than {largest:.0e} "
            f"for nearest neighbours"
        )


def _positions(
    columns: Sequence[NodeIds], nodes: Features, drop_unknown: bool
) -> list[tuple[np.ndarray, np.ndarray]]:
    """For every column of ids: positions among the nodes, and a mask of the known ids."""
    found = []
    for ids in columns:
        rows = ids.positions_in(nodes.ids)
        known = rows >= 0
        if not known.all() and not drop_unknown:
            first = int(np.argmax(~known))
            n_unknown = np.sum(~known)
            problem = f"{ids.describe(first)} is not in {nodes.path} ({n_unknown} unknown in all)"
            raise UnknownNodeError(problem, _off_by_one_hint(columns, nodes))
        found.append((rows, known))
    return found


def _off_by_one_hint(columns: Sequence[NodeIds], nodes: Features) -> str:
    """A hint if the largest position is exactly one beyond the rows of the features."""
    if not (columns[0].are_positions or nodes.ids.are_positions):
        return ""
    positions = np.concatenate([ids.values.to_numpy() for ids in columns])
    n_nodes = nodes.X.shape[0]
    if positions.max() != n_nodes:
        return ""
    if positions.min() > 0:
        return f" (the {n_nodes} rows are nodes 0 to {n_nodes - 1}; these ids seem to start at 1)"
    if nodes.has_numbered_header:
        return " (one row is missing; if the first row is not a header, add one)"
    return " (exactly one row is missing)"
