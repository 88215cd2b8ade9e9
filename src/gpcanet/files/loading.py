"""Edges, features and labels in files, joined by node id into a Dataset."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..datasets.dataset import Dataset
from ..errors import DataError, DataWarning
from ..graph import Graph
from .column_roles import ID_LIKE, ColumnRoles, check_distinct_columns
from .edges import Edges, read_edges
from .features import AnnDataSlots, Features, read_features
from .id_columns import check_unique, to_common_type
from .joining import Notes, append_known_nodes, join_graph, join_labels
from .labels import Labels, read_labels
from .tables import Table


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
    one_hot: Sequence[str] | Mapping[str, Sequence[str] | None] = (),
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
        without ids, node i is row i. Tables may also be a folder of files with the same columns
        (subfolders such as ``year=2020`` give a column) or a pattern such as ``part-*.csv``.
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
        Columns of the edges; ``source`` and ``target`` also in upper or lower case. ``weight`` is
        by default "weight", if there is such a column.
    label_column : str, default=None
        Column of labels, in ``labels`` if given, otherwise in ``features``. By default "label", or
        the only column of ``labels``. Empty cells, -1, NA and similar words mean unlabelled.
    split_column : str, default=None
        Column of either file with "train", "validation" or "test". By default "split", if there is
        such a column.
    ignore : sequence of str, default=()
        Columns of ``features`` that are not features.
    one_hot : sequence of str, default=()
        Columns of ``features`` whose values are categories: each becomes a column of 0 and 1,
        ``column=value``. Categorical columns of pandas and polars are encoded without being named.
        A mapping may also give the categories.
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
    White space around names and text in CSV and TSV files is not part of them. There, ids are
    integers if all of them in all files are written as integers; if all of a column end in ``.0``,
    they count as such.

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
    for parameter, value in {"edges": edges, "neighbors": neighbors}.items():
        if obsp is not None and value is not None:
            raise DataError(f"obsp and {parameter} are both given; give one of them")
    roles = ColumnRoles(
        id_column,
        label_column,
        split_column,
        tuple(ignore),
        label_is_number=numeric_labels,
        one_hot=one_hot if isinstance(one_hot, Mapping) else dict.fromkeys(one_hot),
    )
    node_labels = None
    if labels is not None:
        node_labels = read_labels(
            Path(labels), replace(roles, ignore=(), one_hot={}, id_is_optional=True)
        )
        name = roles.for_table(node_labels.ids.table).id
        roles = replace(roles, id_is_optional=node_labels.ids.name == name)
    nodes = read_features(
        _as_path(features),
        roles,
        labels=node_labels,
        keep_missing=keep_missing,
        slots=AnnDataSlots(layer, obsm, obsp),
    )
    links = None if edges is None else read_edges(_as_path(edges), source, target, weight)
    nodes, links, node_labels = _convert_ids(nodes, links, nodes.labels)
    check_unique(nodes.ids)
    notes = Notes()
    if nodes.has_numbered_header:
        notes.append(f"{nodes.path}: the first row (0, 1, 2, ...) is the header")
    elif not nodes.has_header:
        notes.append(f"{nodes.path} has no header: the first row is a node")
    if nodes.ids.are_positions:
        notes.append(f"{nodes.path} has no column of node ids: node i is row i, counted from 0")
    if nodes.label_note is not None:
        notes.append(nodes.label_note)
    notes += [
        f"{nodes.path}: column {name!r} is not used as a feature, because its name is that of a "
        f"label or split; rename it to use it"
        for name in nodes.reserved
    ]
    if nodes.graph_note is not None and edges is None and neighbors is None:
        notes.append(nodes.graph_note)
    similar = [repr(n) for n in (() if nodes.names is None else nodes.names) if ID_LIKE.search(n)]
    if similar and nodes.table is not None:
        notes.append(
            f"{nodes.path}: {', '.join(similar)} is a feature, although its name is that of an id; "
            f"ignore the column if it is one"
        )
    if nodes.encoded:
        listed = ", ".join(map(repr, nodes.encoded))
        notes.append(f"{nodes.path}: the categories of {listed} are columns of 0 and 1")
    if isinstance(links, Edges):
        notes += _first_row_notes(links.source.table, "an edge")
        notes += [links.note] if links.note else []
    if node_labels is not None:
        notes += _first_row_notes(node_labels.ids.table, "a label")
        notes += [f"labels: {node_labels.note}"] if node_labels.note else []
        if node_labels.ids.are_positions and labels is not None:
            notes.append(f"{labels} has no column of node ids: label i belongs to node i")
    path = nodes.path if edges is None else _as_path(edges)
    combined, own_nodes = nodes, np.arange(nodes.X.shape[0])
    if known is not None and isinstance(links, Edges):
        combined, links = append_known_nodes(nodes, links, known, notes)
    graph = neighborhood = join_graph(combined, links, path, neighbors, drop_unknown, notes)
    if combined is not nodes:
        graph = neighborhood.subgraph(own_nodes)
    y, train, validation, test = join_labels(nodes, node_labels, drop_unknown, notes)
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


def _as_path(path: str | os.PathLike[str]) -> Path:
    return path if isinstance(path, Path) else Path(path)  # subclasses have their own text


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
