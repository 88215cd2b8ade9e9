"""The ``graph`` argument of the estimators -> Graph."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from ..errors import InputError, InputTypeError
from .conversion import is_torch_sparse, to_numpy
from .graph import Graph
from .node_ids import id_array


def as_graph(source: Any, n_nodes: int | None) -> Graph:
    """Convert the ``graph`` argument of an estimator to a Graph; None has no edges."""
    if isinstance(source, Graph):
        return source
    if source is None:
        if n_nodes is None:
            raise InputError("nodes= gives positions in a graph; pass graph=, too")
        return Graph.without_edges(n_nodes)
    if hasattr(source, "edge_index") or hasattr(source, "edge_types"):
        return Graph.from_pyg(source)
    if hasattr(source, "is_directed") and hasattr(source, "nodes"):
        return Graph.from_networkx(source)
    if hasattr(source, "iloc") and np.array_equal(id_array(source.index), id_array(source.columns)):
        return Graph(source)
    if hasattr(source, "columns"):
        raise InputTypeError(
            "graph is a table; build Graph.from_edges(table) first, and give X its node_ids as "
            "index, or its rows in their order"
        )
    if np.ma.isMaskedArray(source):
        return Graph(source)
    if not sp.issparse(source) and not is_torch_sparse(source):
        source = to_numpy(source, "graph")
        is_pairs = source.ndim == 2 and source.shape[0] == 2 and n_nodes != 2
        if is_pairs and np.issubdtype(source.dtype, np.integer):
            if n_nodes is None:
                raise InputError(
                    "with nodes=, the number of nodes cannot be read from an edge_index; pass "
                    "graph=Graph.from_edge_index(edge_index, n_nodes=...)"
                )
            return Graph.from_edge_index(source, n_nodes=n_nodes)
    return Graph(source)
