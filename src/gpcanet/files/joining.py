"""Edges and labels joined with the nodes by id."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import scipy.sparse as sp

from ..errors import DataError, ParameterError, UnknownNodeError
from ..graph import Graph
from ..graph.assembly import count_of
from ..graph.neighbors import neighbor_graph
from ..utils.labels import SPLIT
from .edges import Edges, check_adjacency
from .features import Features
from .id_columns import NodeIds, check_unique
from .labels import Labels
from .paths import TEXT_SUFFIXES, suffix_of


class Notes(list[str]):
    """Sentences about what was assumed or dropped; some of them are also warnings."""

    def __init__(self) -> None:
        super().__init__()
        self.warnings: list[str] = []

    def warn(self, sentence: str) -> None:
        self.append(sentence)
        self.warnings.append(sentence)


def join_graph(
    nodes: Features,
    edges: Any,
    path: Path,
    neighbors: int | None,
    drop_unknown: bool,
    notes: Notes,
) -> Graph:
    n_nodes = len(nodes.ids.values)
    node_ids = None if nodes.ids.are_positions else np.asarray(nodes.ids.values.to_numpy())
    if neighbors is not None:
        if edges is not None:
            raise DataError("edges and neighbors are both given; give one of them")
        if not isinstance(neighbors, Integral) or not 1 <= neighbors < n_nodes:
            limits = f"must be an integer from 1 to {n_nodes - 1}"
            reason = f"{limits}: {nodes.path} has {n_nodes} nodes"
            raise ParameterError("neighbors", repr(neighbors), reason)
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
        raise DataError(nodes.graph_note or f"{nodes.path} has no edges; give edges or neighbors")
    if matrix.shape[0] != n_nodes:
        raise DataError(
            f"{path}: the adjacency matrix has {matrix.shape[0]} rows, but {nodes.path} has "
            f"{n_nodes} nodes; give one row per node"
        )
    check_adjacency(path, matrix)
    return Graph(matrix, node_ids=node_ids)


def _note_positions(path: Path, nodes: Features, notes: Notes) -> None:
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
    what: str, known: np.ndarray, path: Path, nodes: Features, notes: Notes
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


def join_labels(
    nodes: Features, labels: Labels | None, drop_unknown: bool, notes: Notes
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
        nouns = ("distinct value", None) if labels.are_numbers else ("class", "classes")
        kinds = count_of(len(labels.class_names), *nouns)
        notes.append(f"{count_of(n_labeled, 'node')} labelled, in {kinds}")
    train, validation, test = (np.flatnonzero((split == part) & (y >= 0)) for part in SPLIT)
    unused = int(np.sum(y >= 0)) - len(train) - len(validation) - len(test)
    if unused and len(train) + len(validation) + len(test):
        notes.append(f"{unused:,} labelled nodes are in no part of the split and are not used")
    return y, train, validation, test


def append_known_nodes(
    nodes: Features, edges: Edges, known: Graph, notes: list[str]
) -> tuple[Features, Edges]:
    """Append the ids of the known nodes that the edges name to those of the nodes.

    Nodes and edges are unchanged if there are none, or if the ids are positions. Integers become
    text if the ids of the known nodes are text.
    """
    if known.node_ids is None or nodes.ids.are_positions or edges.source.are_positions:
        return nodes, edges
    ids = pa.array(known.node_ids.tolist())
    own, source, target = (
        column if column.is_text else replace(column, values=column.values.cast(ids.type))
        for column in (nodes.ids, edges.source, edges.target)
    )
    ends = pc.unique(pa.chunked_array([*source.values.chunks, *target.values.chunks]))
    is_own = pc.is_in(ends, value_set=own.values.combine_chunks())
    is_known = pc.is_in(ends, value_set=ids.cast(ends.type))
    named = ends.filter(pc.and_(pc.invert(is_own), is_known))
    if len(named) == 0:
        return nodes, edges
    if ids.type != ends.type:
        raise DataError(
            f"{nodes.path} has text for node ids, such as {own.example_of_text()}, but the model "
            f"has integers; use one type"
        )
    notes.append(f"edges name {count_of(len(named), 'training node')} of the model")
    own = replace(own, values=pa.chunked_array([*own.values.chunks, named]))
    return replace(nodes, ids=own), replace(edges, source=source, target=target)


def _check_distances(nodes: Features) -> None:
    """Raise if a feature is not finite, or so large that distances would overflow."""
    X: Any = nodes.X
    largest = np.sqrt(np.finfo(X.dtype).max / (4 * X.shape[1]))
    fine = np.abs(X.data if sp.issparse(X) else X) < largest  # False for NaN
    wrong = ~fine if sp.issparse(X) else ~fine.all(axis=1)
    if wrong.any():
        first = np.argmax(wrong)
        row = int(X.tocoo().row[first] if sp.issparse(X) else first)
        if np.isnan(X.data[first] if sp.issparse(X) else X[row]).any():
            raise DataError(
                f"{nodes.ids.table.place(row)}: a feature is missing; nearest neighbours need all "
                f"features, and --impute needs --edges"
            )
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
        found.append((rows, rows >= 0))
    unknown = [(ids, ~known) for ids, (_, known) in zip(columns, found, strict=True)]
    unknown = [(ids, missing) for ids, missing in unknown if missing.any()]
    if unknown and not drop_unknown:
        first, missing = min(unknown, key=lambda pair: int(pair[1].argmax()))
        names = [ids.values.to_numpy()[missing] for ids, missing in unknown]
        problem = (
            f"{first.describe(int(missing.argmax()))} is not in {nodes.path} "
            f"({len(np.unique(np.concatenate(names)))} unknown in all)"
        )
        raise UnknownNodeError(problem, _off_by_one_hint(columns, nodes))
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
