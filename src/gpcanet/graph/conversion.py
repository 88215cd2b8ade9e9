"""Graphs of other libraries (scipy, torch, networkx, PyG, tables) -> entries."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..errors import InputError, InputTypeError
from ..utils.checks import as_array
from .assembly import Entries, GraphWarning, is_real
from .node_ids import factorize, find_positions, id_array, join_ids, unique_ids

#: Names of the column that holds edge weights; case is ignored.
WEIGHT_NAMES = ("weight", "weights", "edge_weight", "edge_weights")

# -- matrices ---------------------------------------------------------------------------------


def matrix_entries(matrix: Any, node_ids: Any) -> Entries:
    """Entries of an adjacency matrix, each position once."""
    if hasattr(matrix, "iloc"):
        node_ids = _frame_ids(matrix) if node_ids is None else node_ids
        matrix = matrix.to_numpy()
    if np.ma.isMaskedArray(matrix):
        matrix = matrix.filled(0)
    if not sp.issparse(matrix) and not is_torch_sparse(matrix):
        matrix = to_numpy(matrix, "adjacency")
    shape = tuple(matrix.shape)
    if len(shape) != 2:
        raise InputError(
            f"adjacency of shape {shape} must have two dimensions; give a scipy or dense matrix or "
            f"a sparse tensor, or use one of the methods Graph.from_*"
        )
    if is_torch_sparse(matrix):
        matrix = _from_torch(matrix)
    if not is_real(matrix.dtype):
        raise InputTypeError(
            f"adjacency of dtype {matrix.dtype} must hold real numbers; convert it first"
        )
    if shape[0] != shape[1]:
        raise InputError(
            f"adjacency of shape {shape} must be square, one row and one column per node; for a "
            f"list of edges use Graph.from_edge_index; in cross-validation pass a Graph, because "
            f"scikit-learn splits the rows of a matrix"
        )
    if sp.issparse(matrix):
        csr = _sum_duplicates(matrix)
        nodes = np.arange(csr.shape[0], dtype=np.int32)
        rows, columns, values = np.repeat(nodes, np.diff(csr.indptr)), csr.indices, csr.data
    else:
        rows, columns = np.nonzero(matrix)
        values = matrix[rows, columns]
    weights = None if np.all(values == 1) else values.astype(np.float64, copy=False)
    return Entries(rows, columns, weights, shape[0], node_ids)


def _frame_ids(matrix: Any) -> np.ndarray | None:
    """Node ids of an adjacency DataFrame; None for the default index."""
    rows, columns = id_array(matrix.index), id_array(matrix.columns)
    if not np.array_equal(rows, columns):
        raise InputError(
            "an adjacency DataFrame must have the same ids in the same order as index and columns; "
            "reindex it, or pass a plain matrix with node_ids="
        )
    return None if np.array_equal(rows, np.arange(len(rows))) else rows


def _from_torch(tensor: Any) -> sp.coo_array:
    coo = tensor.detach().cpu().to_sparse_coo().coalesce()
    values = coo.values()
    if not values.is_complex():
        values = values.bool() if (values == 1).all() else values.double()
    return sp.coo_array((values.numpy(), tuple(coo.indices().numpy())), shape=tuple(coo.shape))


def _sum_duplicates(matrix: Any) -> sp.csr_array:
    """Canonical CSR; shares the arrays of a matrix that is canonical CSR already."""
    if matrix.format in ("coo", "bsr"):  # their conversion to CSR sums duplicates
        coo = matrix.tocoo(copy=False)
        values = coo.data.astype(_sum_dtype(coo.data), copy=False)
        matrix = sp.coo_array((values, (coo.row, coo.col)), shape=coo.shape)
    csr = sp.csr_array(matrix)
    if not csr.has_sorted_indices:
        csr = csr.sorted_indices()
    if not csr.has_canonical_format:
        csr = csr.astype(_sum_dtype(csr.data))
        csr.sum_duplicates()
    return csr


def _sum_dtype(values: np.ndarray) -> Any:
    """A dtype in which duplicates can be summed; small integers would overflow."""
    if values.dtype == bool:
        return bool
    return np.int32 if np.all(values == 1) else np.float64


# -- lists of edges ---------------------------------------------------------------------------


def edge_index_entries(
    edge_index: Any, weights: Any, n_nodes: int | None, node_ids: Any, *, undirected: bool = False
) -> Entries:
    """Entries of an edge_index; without n_nodes the largest position determines it."""
    pairs = to_numpy(edge_index, "edge_index")
    if pairs.ndim != 2 or pairs.shape[0] != 2:
        raise InputError(
            f"edge_index of shape {pairs.shape} must have shape (2, n_edges); "
            f"transpose a list of pairs"
        )
    if pairs.shape[1] == 0:
        pairs = pairs.astype(np.int64)  # numpy reads an empty list as floats
    if not np.issubdtype(pairs.dtype, np.integer):
        raise InputTypeError(
            f"edge_index of dtype {pairs.dtype} must hold integers, the positions of nodes; "
            f"for node ids use Graph.from_edges"
        )
    if n_nodes is None:
        n_nodes = max(int(pairs.max()) + 1, 0) if pairs.shape[1] else 0
    values = None if weights is None else to_numpy(weights, "weights")
    return Entries(pairs[0], pairs[1], values, n_nodes, node_ids, undirected)


def pyg_weights(data: Any) -> Any:
    """Edge weights of a PyG Data: ``edge_weight``, or an ``edge_attr`` with one column.

    PyG's ``from_networkx`` calls them ``weight``.
    """
    for name in ("edge_weight", "weight"):
        if getattr(data, name, None) is not None:
            return getattr(data, name)
    attributes = getattr(data, "edge_attr", None)
    if attributes is None:
        return None
    values = to_numpy(attributes, "edge_attr")
    n_columns = 1 if values.ndim == 1 else values.shape[-1]
    if n_columns == 1 and values.dtype.kind == "f":  # integers are probably edge types
        values = values.reshape(-1)
        if np.all(np.isfinite(values) & (values >= 0)):
            return values
    warnings.warn(
        f"edge_attr of shape {tuple(values.shape)} and dtype {values.dtype} was ignored: only one "
        f"column of finite floats of at least 0 is used as weights; set edge_weight to use it",
        GraphWarning,
        stacklevel=3,
    )
    return None


def find_weight_column(names: Sequence[str]) -> str | None:
    """Return the name of the weight column of an edge table; None if there is none."""
    found = [name for name in names if isinstance(name, str) and name.lower() in WEIGHT_NAMES]
    if len(found) > 1:
        raise InputError(
            f"columns {', '.join(map(repr, found))} could each hold the weights; name one of them"
        )
    return found[0] if found else None


def table_entries(frame: Any, source: str, target: str, weight: str | None, nodes: Any) -> Entries:
    """Entries of a table with one row per edge, its ids converted to positions."""
    present = _column_names(frame)
    for column in [source, target, *([weight] if weight else [])]:
        if column not in present:
            raise InputError(f"column {column!r} is not in the edge table; it has {present}")
    for column in (source, target):
        if present.count(column) > 1:
            raise InputError(f"column {column!r} occurs twice in the edge table; rename one")
    if source == target:
        raise InputError(f"source and target are both column {source!r}; name two columns")
    weight = weight or find_weight_column(present)
    ends = [id_array(_column(frame, column)) for column in (source, target)]
    weights = None if weight is None else np.asarray(_column(frame, weight))
    if weight is None:
        unused = [name for name in present if name not in (source, target)]
        numeric = [name for name in unused if is_real(np.asarray(_column(frame, name)).dtype)]
        if numeric:
            warnings.warn(
                f"column {', '.join(map(repr, numeric))} of the edge table was ignored; use "
                f"weight={numeric[0]!r} if it holds edge weights, or drop it",
                GraphWarning,
                stacklevel=3,
            )
    if len(ends[0]) != len(ends[1]):
        raise InputError(
            f"columns {source!r} and {target!r} have {len(ends[0])} and {len(ends[1])} ids; "
            f"each row needs both"
        )
    mentioned = join_ids(*ends)
    if nodes is None:
        node_ids, codes = factorize(mentioned)
    else:
        node_ids = unique_ids(nodes)
        codes = find_positions(node_ids, mentioned, "the edge table", "nodes")
    rows, columns = codes[: len(ends[0])], codes[len(ends[0]) :]
    return Entries(rows, columns, weights, len(node_ids), node_ids, undirected=True)


def _column_names(frame: Any) -> list[Any]:
    """Column names of a mapping or a pandas, polars or Arrow table."""
    if hasattr(frame, "collect"):  # polars
        raise InputTypeError("the edge table is lazy; collect() it first")
    for attribute in ("column_names", "columns"):  # Arrow; pandas and polars
        if hasattr(frame, attribute):
            return list(getattr(frame, attribute))
    if hasattr(frame, "keys"):
        return list(frame.keys())
    raise InputTypeError(
        f"edge table of type {type(frame).__name__} must be a pandas, polars or Arrow table or a "
        f"mapping of columns; for pairs of positions use Graph.from_edge_index"
    )


def _column(frame: Any, name: str) -> Any:
    values = frame[name]
    # The items of an Arrow column are Arrow scalars unless converted.
    return values.to_pylist() if hasattr(values, "to_pylist") else values


def networkx_entries(graph: Any, weight: str | None) -> Entries:
    """Entries of a networkx graph, nodes in its order; ``weight`` names an edge attribute."""
    if not hasattr(graph, "is_directed"):
        raise InputTypeError(
            f"{type(graph).__name__} is not a networkx graph; for matrices use Graph, for pairs of "
            f"positions Graph.from_edge_index"
        )
    if weight == "weight":  # the default
        attributes = {name for *_, data in graph.edges(data=True) for name in data}
        weight = find_weight_column(sorted(attributes, key=str))
    ids = list(graph.nodes)
    position = {name: i for i, name in enumerate(ids)}
    edges = list(graph.edges(data=weight) if weight else graph.edges(data=False))
    rows = np.array([position[edge[0]] for edge in edges], dtype=np.int64)
    columns = np.array([position[edge[1]] for edge in edges], dtype=np.int64)
    weights = None
    if weight and any(edge[2] is not None for edge in edges):
        weights = np.array([1.0 if edge[2] is None else edge[2] for edge in edges])
    return Entries(rows, columns, weights, len(ids), ids)


# -- arrays of other libraries ----------------------------------------------------------------


def to_numpy(values: Any, name: str) -> np.ndarray:
    """A numpy array from an array-like or a torch tensor on any device."""
    if hasattr(values, "detach"):
        values = values.detach().cpu()
        values = (values.float() if "bfloat16" in str(values.dtype) else values).numpy()
    return as_array(values, name)


def is_torch_sparse(values: Any) -> bool:
    return "sparse" in str(getattr(values, "layout", ""))


# -- two graphs -------------------------------------------------------------------------------


def union_entries(first: Any, second: Any) -> Entries:
    """Edges of two Graphs: the nodes of the first, then those that only the second one has."""
    if (first.node_ids is None) != (second.node_ids is None):
        raise InputError("one of the graphs has node ids and the other has none; give both ids")
    places, ids = np.arange(second.n_nodes), None
    n_nodes = max(first.n_nodes, second.n_nodes)
    if first.node_ids is not None:
        known = {name: i for i, name in enumerate(first.node_ids.tolist())}
        names = second.node_ids.tolist()
        new = np.array([i for i, name in enumerate(names) if name not in known], np.int64)
        ids = join_ids(first.node_ids, second.node_ids[new])
        known |= {names[i]: first.n_nodes + k for k, i in enumerate(new)}
        places, n_nodes = np.array([known[name] for name in names]), len(ids)
    rows, columns, weights = [], [], []
    for graph, positions in ((first, np.arange(first.n_nodes)), (second, places)):
        rows.append(np.repeat(positions, np.diff(graph.indptr)))
        columns.append(positions[graph.indices])
        weights.append(np.ones(len(graph.indices)) if graph.weights is None else graph.weights)
    is_weighted = first.is_weighted or second.is_weighted
    return Entries(
        np.concatenate(rows),
        np.concatenate(columns),
        np.concatenate(weights) if is_weighted else None,
        n_nodes,
        ids,
        undirected=True,
    )
