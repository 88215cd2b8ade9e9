"""Graph: the one validated, immutable holder of an undirected graph.

However the edges arrive, they are brought to one form by the same rules:

1. Self-loops are dropped. (The method adds its own, of weight 1, to every node.)
2. Entries of weight 0 are no edges.
3. Repeated entries of the same direction add their weights; where edges have no weights, a
   repeated edge is one edge.
4. The two directions are joined by the larger weight, so that a symmetric matrix stays as it
   is, and an edge listed once means the same as one listed both ways.

What the rules changed is kept and shown by ``summary()``; a matrix, ``edge_index`` or networkx
graph that was directed also warns, because that is seldom meant.
"""

from __future__ import annotations

import warnings
from functools import cached_property
from numbers import Integral
from typing import Any, NoReturn

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from .entries import (
    check_positions,
    factorize,
    find_positions,
    id_array,
    is_torch_sparse,
    join_entries,
    join_ids,
    matrix_entries,
    to_numpy,
    unique_ids,
)


class GraphWarning(UserWarning):
    """The graph was legal, but perhaps not what was meant."""


class Graph:
    """An undirected graph, weighted or not, with node ids if its source had any.

    Parameters
    ----------
    adjacency : sparse array, sparse matrix or array-like of shape (n_nodes, n_nodes)
        Any scipy format, a dense array, or a sparse torch tensor. Weights must be finite and
        not negative. All weights 1 (or booleans) make an unweighted graph.
    node_ids : array-like of length n_nodes, optional
        What the nodes are called; unique.

    Attributes
    ----------
    indptr, indices : ndarray
        CSR structure, both directions of every edge, sorted, read-only.
    weights : ndarray or None
        Weights in the order of ``indices``; None for an unweighted graph.
    node_ids : ndarray or None

    See Also
    --------
    Graph.from_edge_index, Graph.from_edges, Graph.from_networkx, Graph.from_pyg

    Examples
    --------
    >>> import numpy as np
    >>> from gpcanet import Graph
    >>> graph = Graph(np.array([[0, 1, 0], [1, 0, 0], [0, 0, 0]]))
    >>> graph
    Graph(n_nodes=3, n_edges=1, weighted=False)
    >>> print(graph.summary())
    3 nodes, 1 edge, unweighted, 2 components, 1 isolated node
    """

    indptr: np.ndarray
    indices: np.ndarray
    weights: np.ndarray | None
    node_ids: np.ndarray | None
    _changes: list[tuple[int, str, str]]

    def __init__(self, adjacency: Any, *, node_ids: Any = None) -> None:
        rows, columns, weights, shape = matrix_entries(adjacency)
        if shape[0] != shape[1]:
            raise ValueError(
                f"adjacency of shape {shape} must be square, one row and one column per node; "
                f"for a list of edges use Graph.from_edge_index"
            )
        self._assemble(rows, columns, weights, shape[0], node_ids, warn_if_directed="adjacency")

    # -- other sources --------------------------------------------------------------------

    @classmethod
    def from_edge_index(
        cls,
        edge_index: Any,
        weights: Any = None,
        *,
        n_nodes: int | None = None,
        each_once: bool = False,
    ) -> Graph:
        """A graph from two rows of node positions, as numpy or torch hold them.

        Parameters
        ----------
        edge_index : array-like or tensor of shape (2, n_entries)
        weights : array-like or tensor of shape (n_entries,), optional
        n_nodes : int, optional
            By default the largest position decides, so isolated last nodes need it.
        each_once : bool
            Edges are listed in one direction only, which then is no reason to warn.

        Examples
        --------
        >>> Graph.from_edge_index([[0, 1, 1, 2], [1, 0, 2, 1]], n_nodes=4)
        Graph(n_nodes=4, n_edges=2, weighted=False)
        """
        pairs = to_numpy(edge_index)
        if pairs.ndim != 2 or pairs.shape[0] != 2:
            raise ValueError(
                f"edge_index of shape {pairs.shape} must have shape (2, n_edges); "
                f"transpose a list of pairs"
            )
        if pairs.shape[1] and not np.issubdtype(pairs.dtype, np.integer):
            raise TypeError(
                f"edge_index of dtype {pairs.dtype} must hold integers, the positions of nodes; "
                f"for names of nodes use Graph.from_edges"
            )
        pairs = pairs.astype(np.int64, copy=False)
        if n_nodes is None:
            n_nodes = max(int(pairs.max()) + 1, 0) if pairs.shape[1] else 0
        values = None if weights is None else to_numpy(weights)
        return cls._from_entries(
            pairs[0],
            pairs[1],
            values,
            n_nodes,
            None,
            warn_if_directed=None if each_once else "edge_index",
        )

    @classmethod
    def from_edges(
        cls,
        frame: Any,
        *,
        source: str = "source",
        target: str = "target",
        weight: str | None = None,
        nodes: Any = None,
    ) -> Graph:
        """A graph from a table with a row per edge and node ids of any kind.

        Parameters
        ----------
        frame : DataFrame or mapping of columns
        source, target : str
            Columns with the ids of the two ends; a row means an edge in both directions.
        weight : str, optional
            Column with weights. By default the column "weight", if there is one.
        nodes : array-like, optional
            All ids in the order wanted, which also admits nodes without edges. By default the
            ids in the table, sorted, so that the order of its rows does not matter.

        Examples
        --------
        >>> graph = Graph.from_edges({"source": ["b", "a"], "target": ["c", "b"]})
        >>> graph.node_ids.tolist()
        ['a', 'b', 'c']
        """
        if not hasattr(frame, "keys"):
            raise TypeError(
                f"edge table of type {type(frame).__name__} must be a DataFrame or a mapping of "
                f"columns; for pairs of positions use Graph.from_edge_index"
            )
        present = list(frame.keys())
        for column in [source, target, *([weight] if weight else [])]:
            if column not in present:
                raise ValueError(f"column {column!r} is not in the edge table; it has {present}")
        weight = weight or ("weight" if "weight" in present else None)
        ends = [id_array(frame[column]) for column in (source, target)]
        values = None if weight is None else np.asarray(frame[weight])
        if len(ends[0]) != len(ends[1]):
            raise ValueError(
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
        return cls._from_entries(rows, columns, values, len(node_ids), node_ids)

    @classmethod
    def from_networkx(cls, graph: Any, *, weight: str | None = "weight") -> Graph:
        """A graph from networkx, its nodes in networkx's order and under their names.

        ``weight`` names an edge attribute; edges without it weigh 1, and if no edge has it the
        graph is unweighted.
        """
        names = list(graph.nodes)
        position = {name: i for i, name in enumerate(names)}
        edges = list(graph.edges(data=weight) if weight else graph.edges(data=False))
        rows = np.array([position[edge[0]] for edge in edges], dtype=np.int64)
        columns = np.array([position[edge[1]] for edge in edges], dtype=np.int64)
        values = None
        if weight and any(edge[2] is not None for edge in edges):
            values = np.array([1.0 if edge[2] is None else edge[2] for edge in edges])
        return cls._from_entries(
            rows, columns, values, len(names), names,
            warn_if_directed="networkx graph" if graph.is_directed() else None,
        )  # fmt: skip

    @classmethod
    def from_pyg(cls, data: Any) -> Graph:
        """A graph from a ``torch_geometric.data.Data``: edge_index, edge_weight, num_nodes."""
        edge_index = getattr(data, "edge_index", None)
        if edge_index is None:
            raise ValueError(
                f"{type(data).__name__} has no edge_index; give it one (a heterogeneous graph "
                f"gets it by to_homogeneous())"
            )
        return cls.from_edge_index(
            edge_index, getattr(data, "edge_weight", None), n_nodes=data.num_nodes
        )

    @classmethod
    def without_edges(cls, n_nodes: int) -> Graph:
        """n isolated nodes, on which GPCA is PCA."""
        nothing = np.empty(0, np.int64)
        return cls._from_entries(nothing, nothing, None, n_nodes, None)

    # -- assembly -------------------------------------------------------------------------

    @classmethod
    def _from_entries(cls, *entries: Any, warn_if_directed: str | None = None) -> Graph:
        graph = cls.__new__(cls)
        graph._assemble(*entries, warn_if_directed=warn_if_directed)
        return graph

    def _assemble(
        self,
        rows: np.ndarray,
        columns: np.ndarray,
        weights: np.ndarray | None,
        n_nodes: int,
        node_ids: Any,
        *,
        warn_if_directed: str | None = None,
    ) -> None:
        if not isinstance(n_nodes, Integral):
            raise TypeError(f"n_nodes={n_nodes!r} must be an integer")
        joined = join_entries(rows, columns, weights, int(n_nodes))
        if warn_if_directed and (joined.one_way or joined.unequal):
            what = "weights differ by direction"
            if joined.one_way:
                what = f"{_count(joined.one_way, 'edge')} in one direction only"
            warnings.warn(
                f"the {warn_if_directed} is directed ({what}); it was made undirected by "
                f"joining both directions, the larger weight counting",
                GraphWarning,
                stacklevel=3 if warn_if_directed == "adjacency" else 4,
            )
        ids = None if node_ids is None else unique_ids(node_ids)
        if ids is not None and len(ids) != n_nodes:
            raise ValueError(f"{len(ids)} node_ids for {n_nodes} nodes; give one id per node")
        self._set_matrix(joined.matrix, ids)
        self.__dict__["_changes"] = [
            (joined.self_loops, "self-loop", "dropped"),
            (joined.repeated, "repeated edge", "merged"),
            (joined.one_way if warn_if_directed else 0, "one-way edge", "made two-way"),
            (joined.unequal, "weight", "raised to that of the other direction"),
        ]

    def _set_matrix(self, matrix: sp.csr_array, node_ids: np.ndarray | None) -> None:
        """Take over a symmetric matrix with sorted indices."""
        self.__setstate__(
            {
                # One dtype each, so that one compiled kernel serves every graph.
                "indptr": matrix.indptr.astype(np.int64, copy=False),
                "indices": matrix.indices.astype(np.int32, copy=False),
                "weights": None if np.all(matrix.data == 1) else matrix.data,
                "node_ids": node_ids,
                "_changes": [],
            }
        )

    # -- what it is -----------------------------------------------------------------------

    @property
    def n_nodes(self) -> int:
        return len(self.indptr) - 1

    @property
    def n_edges(self) -> int:
        """Number of undirected edges."""
        return len(self.indices) // 2

    @property
    def is_weighted(self) -> bool:
        return self.weights is not None

    @property
    def adjacency(self) -> sp.csr_array:
        """A fresh symmetric CSR array of float64 weights."""
        data = np.ones(len(self.indices)) if self.weights is None else self.weights.copy()
        return sp.csr_array(
            (data, self.indices.copy(), self.indptr.copy()), shape=(self.n_nodes, self.n_nodes)
        )

    @property
    def n_isolated(self) -> int:
        """Number of nodes without an edge."""
        return int(np.count_nonzero(np.diff(self.indptr) == 0))

    @cached_property
    def n_components(self) -> int:
        """Number of connected components, isolated nodes included."""
        return int(connected_components(self.adjacency, directed=False, return_labels=False))

    def summary(self) -> str:
        """One line: sizes, components, isolated nodes, and what assembly changed."""
        parts = [
            _count(self.n_nodes, "node"),
            _count(self.n_edges, "edge"),
            "weighted" if self.is_weighted else "unweighted",
            _count(self.n_components, "component"),
            _count(self.n_isolated, "isolated node"),
        ]
        parts += [f"{_count(n, what)} {done}" for n, what, done in self._changes if n]
        return ", ".join(parts)

    def __repr__(self) -> str:
        return f"Graph(n_nodes={self.n_nodes}, n_edges={self.n_edges}, weighted={self.is_weighted})"

    # -- parts of it ----------------------------------------------------------------------

    def subgraph(self, nodes: Any) -> Graph:
        """The graph on these node positions, in this order, with the edges among them."""
        nodes = check_positions(nodes, self.n_nodes)
        values = np.ones(len(self.indices), bool) if self.weights is None else self.weights
        matrix = sp.csr_array((values, self.indices, self.indptr), shape=(self.n_nodes,) * 2)
        part = matrix[nodes][:, nodes].sorted_indices()
        graph = self.__class__.__new__(self.__class__)
        graph._set_matrix(part, None if self.node_ids is None else self.node_ids[nodes])
        return graph

    def positions(self, ids: Any) -> np.ndarray:
        """Where in this graph the nodes with these ids are."""
        if self.node_ids is None:
            raise ValueError("this graph has no node_ids; its nodes are 0 .. n_nodes - 1")
        return find_positions(self.node_ids, id_array(ids), "ids", "the graph")

    # -- immutability: copies are the graph itself ----------------------------------------

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise AttributeError(f"Graph is immutable; build a new one instead of setting {name!r}")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"Graph is immutable; {name!r} stays")

    def __setstate__(self, state: dict[str, Any]) -> None:
        for value in state.values():
            if isinstance(value, np.ndarray):
                value.flags.writeable = False
        self.__dict__.update(state)

    def __copy__(self) -> Graph:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Graph:
        return self

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Graph):
            return NotImplemented
        return self is other or all(
            np.array_equal(getattr(self, name), getattr(other, name))
            for name in ("indptr", "indices", "weights", "node_ids")
        )

    def is_same(self, other: Graph) -> bool:
        """Whether what is known of nodes there holds here: equal, and with edges to tell by.

        Graphs without edges are equal whenever they have as many nodes, which says nothing.
        """
        return self is other or (self.n_edges > 0 and self == other)

    def __hash__(self) -> int:
        return hash((self.n_nodes, self.n_edges))


def as_graph(source: Any, n_nodes: int | None) -> Graph:
    """Whatever a user may hand to ``fit(..., graph=)`` as a Graph; None has no edges."""
    if isinstance(source, Graph):
        return source
    if source is None:
        if n_nodes is None:
            raise ValueError("nodes says where rows of X are in a graph; give the graph, too")
        return Graph.without_edges(n_nodes)
    if hasattr(source, "edge_index") or hasattr(source, "edge_types"):
        return Graph.from_pyg(source)
    if hasattr(source, "is_directed") and hasattr(source, "nodes"):
        return Graph.from_networkx(source)
    if hasattr(source, "columns"):
        raise TypeError(
            "graph is a table; build Graph.from_edges(table) first and bring the rows of X into "
            "the order of its node_ids"
        )
    if not sp.issparse(source) and not is_torch_sparse(source):
        source = to_numpy(source)
        is_pairs = source.ndim == 2 and source.shape[0] == 2 and n_nodes != 2
        if is_pairs and np.issubdtype(source.dtype, np.integer):
            if n_nodes is None:
                raise ValueError(
                    "with nodes=, an edge_index does not say how many nodes there are; give "
                    "graph=Graph.from_edge_index(edge_index, n_nodes=...)"
                )
            return Graph.from_edge_index(source, n_nodes=n_nodes)
    return Graph(source)


def _count(n: int, what: str) -> str:
    return f"{n:,} {what}{'' if n == 1 else 's'}"
