"""Alignment of the rows of X and y with the nodes of a graph.

Rows of an array are matched by position: row i is node i, or node ``nodes[i]``. Rows of a pandas
object are matched by id if the graph has node ids; an index that does not match is an error. With
``nodes``, X and y may have an index of other ids, by which they are matched with each other.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import InputError
from ..graph import Graph, as_graph
from ..graph.node_ids import check_positions, find_positions, id_array


class RowIndex:
    """The index of a pandas object: one id per row."""

    def __init__(self, index: Any) -> None:
        self.ids = id_array(index)
        # pandas' default index does not identify nodes.
        self.is_default = (
            type(index).__name__ == "RangeIndex"
            and index.start == 0
            and index.step == 1
            and index.name is None
        )

    @classmethod
    def of(cls, values: Any) -> RowIndex | None:
        """The index of a DataFrame or Series; None for other types."""
        return cls(values.index) if hasattr(values, "iloc") else None


def check_graph(
    graph: Any,
    nodes: Any,
    n_rows: int,
    *,
    index: RowIndex | None = None,
    fitted: Any = None,
) -> tuple[Graph, np.ndarray | None]:
    """Return the Graph and the node position of each row of X; None if row i is node i.

    Parameters
    ----------
    graph, nodes
        Arguments of the estimator's method.
    n_rows : int
        Number of rows of X.
    index : RowIndex, optional
        Index of X.
    fitted : estimator, optional
        Fitted estimator; its ``n_nodes_in_`` and ``matched_by_id_`` are compared.
    """
    if fitted is not None and fitted.n_nodes_in_ is not None and graph is None:
        hint = ""
        if hasattr(fitted, "predict"):
            hint = (
                "; scikit-learn does not pass it to predict, so instead of a named scorer use "
                "scoring=lambda e, X, y: ... e.predict(X, graph=graph)"
            )
        raise InputError(
            f"this {type(fitted).__name__} was fitted with a graph; pass graph= here, too "
            f"(graph=Graph.without_edges({n_rows}) for rows without edges){hint}"
        )
    is_networkx = hasattr(graph, "is_directed")
    graph = as_graph(graph, None if nodes is not None else n_rows)
    if is_networkx and index is None and nodes is None and _is_shuffled_range(graph.node_ids):
        raise InputError(
            "the nodes of the networkx graph are 0, 1, ... in another order, so row i of X may "
            "mean node i or the i-th node; give X as a DataFrame with the nodes as index, or pass "
            "graph=Graph.from_networkx(graph) and the rows of X in the order of its node_ids"
        )
    by_position = graph.node_ids is None and index is not None and not index.is_default
    if by_position and nodes is None and getattr(fitted, "matched_by_id_", False):
        raise InputError(
            f"this {type(fitted).__name__} was fitted on rows matched by node id, but this graph "
            f"has no node ids; give it node_ids=, or pass X.to_numpy() in the order of its nodes"
        )
    if nodes is not None:
        nodes = check_positions(nodes, graph.n_nodes)
        if len(nodes) != n_rows:
            raise InputError(
                f"{len(nodes)} nodes for {n_rows} rows of X; give one position per row"
            )
    if graph.node_ids is not None and index is not None:
        nodes = _locate(graph, nodes, index)
    if nodes is None and graph.n_nodes != n_rows:
        raise InputError(
            f"X has {n_rows} rows but the graph has {graph.n_nodes} nodes; they must match, "
            f"or nodes= must give the position of each row in the graph (in "
            f"cross-validation: nodes=np.arange(len(X)), which is split along with X)"
        )
    return graph, nodes


def row_subgraph(graph: Graph, nodes: np.ndarray | None) -> Graph:
    """The subgraph induced by the rows of X, in row order."""
    return graph if nodes is None else graph.subgraph(nodes)


def _locate(graph: Graph, nodes: np.ndarray | None, index: RowIndex) -> np.ndarray | None:
    """Positions of the rows by their ids; raise if they contradict ``nodes``."""
    assert graph.node_ids is not None
    is_numbered = np.array_equal(graph.node_ids, np.arange(graph.n_nodes))
    if index.is_default and not is_numbered:
        if nodes is not None:
            return nodes
        raise InputError(
            f"X has pandas' default index 0, 1, ... but the graph has node ids such as "
            f"{graph.node_ids[:1].tolist()[0]!r}; set X.index to the node ids, or pass "
            f"X.to_numpy() with its rows in the order of graph.node_ids"
        )
    if nodes is not None and _has_no_node_ids(index, graph):
        return nodes
    found = find_positions(graph.node_ids, index.ids, "X.index", "the graph")
    counts = np.bincount(found)
    if counts.max() > 1:
        repeated = graph.node_ids[[counts.argmax()]].tolist()[0]
        raise InputError(f"X.index has {repeated!r} more than once; give one row per node")
    if nodes is not None and not np.array_equal(found, nodes):
        row = int(np.argmax(found != nodes))
        raise InputError(
            f"row {row} of X has the index {index.ids[[row]].tolist()[0]!r}, but nodes= has node "
            f"{graph.node_ids[nodes[[row]]].tolist()[0]!r}; drop nodes=, or pass X.to_numpy()"
        )
    return found


def _has_no_node_ids(index: RowIndex, graph: Graph) -> bool:
    return set(graph.node_ids.tolist()).isdisjoint(index.ids.tolist())  # type: ignore[union-attr]


def _is_shuffled_range(ids: np.ndarray | None) -> bool:
    if ids is None or ids.dtype.kind not in "iu":
        return False
    numbers = np.arange(len(ids))
    return not np.array_equal(ids, numbers) and np.array_equal(np.sort(ids), numbers)


def align_to_rows(
    values: Any, graph: Graph, nodes: np.ndarray | None, index: RowIndex | None, name: str
) -> Any:
    """Return a pandas Series in the order of the rows of X; other types unchanged."""
    own = RowIndex.of(values)
    if own is None or graph.node_ids is None:
        return values
    if own.is_default and (index is None or index.is_default):
        return values  # neither has ids: matched by position
    if index is not None and np.array_equal(own.ids, index.ids):
        return values
    is_positional = nodes is not None and (index is None or _has_no_node_ids(index, graph))
    if is_positional and _has_no_node_ids(own, graph):
        if index is None or set(own.ids.tolist()).isdisjoint(index.ids.tolist()):
            return values
        return values.iloc[find_positions(own.ids, index.ids, "X", f"{name}.index")]
    row_ids = graph.node_ids if nodes is None else graph.node_ids[nodes]
    if len(own.ids) == len(row_ids) and np.array_equal(own.ids, row_ids):
        return values
    advice = f"give {name} the index of X, or pass {name}.to_numpy() in the order of its rows"
    if len(own.ids) != len(row_ids):
        raise InputError(f"{name} has {len(own.ids)} values for {len(row_ids)} rows of X; {advice}")
    if own.is_default:
        raise InputError(f"{name} has pandas' default index, but X has node ids; {advice}")
    if index is None:
        raise InputError(
            f"the index of {name} is not the node ids of the rows of X in their order, and X has "
            f"no index to match it with; give X as a DataFrame with node ids as index (in a "
            f"pipeline: set_output(transform='pandas')), or pass {name}.to_numpy()"
        )
    return values.iloc[find_positions(own.ids, row_ids, "X", f"{name}.index")]
