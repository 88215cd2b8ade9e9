"""Graph: the one validated, immutable holder of an undirected graph.

However the edges arrive, they are brought to one form by the same rules:

1. Self-loops are dropped. (The method adds its own, of weight 1, to every node.)
2. Entries of weight 0 are no edges.
3. Repeated entries of the same direction add their weights; where edges have no weights, a
   repeated edge is one edge.
4. The two directions are joined by the larger weight, so that a symmetric matrix stays as it
   is, and an edge listed once means the same as one listed both ways.
5. In a table a row is an undirected edge. Rows that name the same two nodes, in either order,
   are one edge with the largest of their weights.

What the rules changed is kept and shown by ``summary()``; a matrix, ``edge_index`` or networkx
graph that was directed also warns, because that is seldom meant.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, NoReturn

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from .entries import (
    Entries,
    assemble,
    check_positions,
    count_of,
    csr_arrays,
    find_positions,
    id_array,
)
from .errors import InputError, InputTypeError
from .sources import (
    edge_index_entries,
    is_torch_sparse,
    matrix_entries,
    networkx_entries,
    pyg_weights,
    table_entries,
    to_numpy,
)


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
        self.__setstate__(assemble(matrix_entries(adjacency, node_ids), directed="adjacency"))

    # -- other sources --------------------------------------------------------------------

    @classmethod
    def from_edge_index(
        cls,
        edge_index: Any,
        weights: Any = None,
        *,
        n_nodes: int | None = None,
        node_ids: Any = None,
        each_once: bool = False,
    ) -> Graph:
        """A graph from two rows of node positions, as numpy or torch hold them.

        Parameters
        ----------
        edge_index : array-like or tensor of shape (2, n_entries)
        weights : array-like or tensor of shape (n_entries,), optional
        n_nodes : int, optional
            By default the largest position decides, so isolated last nodes need it.
        node_ids : array-like of length n_nodes, optional
            What the nodes are called; unique.
        each_once : bool
            A column is an undirected edge, as a row of a table in ``from_edges``: the order of
            its ends means nothing, and of repeated edges the largest weight is kept.

        Examples
        --------
        >>> Graph.from_edge_index([[0, 1, 1, 2], [1, 0, 2, 1]], n_nodes=4)
        Graph(n_nodes=4, n_edges=2, weighted=False)
        """
        entries = edge_index_entries(edge_index, weights, n_nodes, node_ids, undirected=each_once)
        return cls._of(assemble(entries, directed=None if each_once else "edge_index"))

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
        frame : pandas, polars or Arrow table, or mapping of columns
        source, target : str
            Columns with the ids of the two ends. Rows that name the same two nodes, in either
            order, are one edge with the largest of their weights; add weights up beforehand
            if they are counts.
        weight : str, optional
            Column with weights. By default the column called weight, weights, edge_weight or
            edge_weights in letters of either case, if there is one.
        nodes : array-like, optional
            All ids in the order wanted, which also admits nodes without edges. By default the
            ids in the table, sorted, so that the order of its rows does not matter.

        Examples
        --------
        >>> graph = Graph.from_edges({"source": ["b", "a"], "target": ["c", "b"]})
        >>> graph.node_ids.tolist()
        ['a', 'b', 'c']
        """
        return cls._of(assemble(table_entries(frame, source, target, weight, nodes)))

    @classmethod
    def from_networkx(cls, graph: Any, *, weight: str | None = "weight") -> Graph:
        """A graph from networkx, its nodes in networkx's order and under their names.

        ``weight`` names an edge attribute; the default also finds weights, edge_weight and
        edge_weights in letters of either case. Edges without it weigh 1, and if no edge has it
        the graph is unweighted.
        """
        entries = networkx_entries(graph, weight)
        directed = "networkx graph" if graph.is_directed() else None
        return cls._of(assemble(entries, directed=directed))

    @classmethod
    def from_pyg(cls, data: Any) -> Graph:
        """A graph from a ``torch_geometric.data.Data``: edge_index, edge_weight, num_nodes.

        Without ``edge_weight``, an ``edge_attr`` of one column of floats of at least 0 holds the
        weights; any other one is left out with a warning.
        """
        edge_index = getattr(data, "edge_index", None)
        if edge_index is None:
            raise InputError(
                f"{type(data).__name__} has no edge_index; give it one (a heterogeneous graph "
                f"gets it by to_homogeneous())"
            )
        return cls.from_edge_index(edge_index, pyg_weights(data), n_nodes=data.num_nodes)

    @classmethod
    def without_edges(cls, n_nodes: int) -> Graph:
        """n isolated nodes, on which GPCA is PCA."""
        nothing = np.empty(0, np.int64)
        return cls._of(assemble(Entries(nothing, nothing, None, n_nodes)))

    @classmethod
    def _trusted(
        cls,
        indptr: np.ndarray,
        indices: np.ndarray,
        weights: np.ndarray | None,
        node_ids: np.ndarray | None = None,
    ) -> Graph:
        """A graph that takes over the arrays of another one, neither checked nor copied.

        Arrays mapped from files stay so. They become read-only.
        """
        arrays = {"indptr": indptr, "indices": indices, "weights": weights}
        return cls._of({**arrays, "node_ids": node_ids, "_changes": []})

    @classmethod
    def _of(cls, state: dict[str, Any]) -> Graph:
        graph = cls.__new__(cls)
        graph.__setstate__(state)
        return graph

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
        ones = np.ones(len(self.indices))
        return self._matrix(ones if self.weights is None else self.weights).copy()

    @property
    def n_isolated(self) -> int:
        """Number of nodes without an edge."""
        return int(np.count_nonzero(np.diff(self.indptr) == 0))

    @cached_property
    def n_components(self) -> int:
        """Number of connected components, isolated nodes included."""
        # scipy turns values into float64, so it is given one that only looks like an array of
        # them. "strong" means the same on a symmetric matrix and does without its transpose.
        ones = self._matrix(np.broadcast_to(1.0, len(self.indices)))
        return int(connected_components(ones, connection="strong", return_labels=False))

    def summary(self) -> str:
        """One line: sizes, components, isolated nodes, and what assembly changed."""
        parts = [
            count_of(self.n_nodes, "node"),
            count_of(self.n_edges, "edge"),
            "weighted" if self.is_weighted else "unweighted",
            count_of(self.n_components, "component"),
            count_of(self.n_isolated, "isolated node"),
        ]
        parts += [f"{count_of(n, what)} {done}" for n, what, done in self._changes if n]
        return ", ".join(parts)

    def __repr__(self) -> str:
        return f"Graph(n_nodes={self.n_nodes}, n_edges={self.n_edges}, weighted={self.is_weighted})"

    # -- parts of it ----------------------------------------------------------------------

    def subgraph(self, nodes: Any) -> Graph:
        """The graph on these node positions, in this order, with the edges among them."""
        nodes = check_positions(nodes, self.n_nodes)
        values = np.ones(len(self.indices), bool) if self.weights is None else self.weights
        part = self._matrix(values)[nodes][:, nodes].sorted_indices()
        ids = None if self.node_ids is None else self.node_ids[nodes]
        return self._trusted(*csr_arrays(part), ids)

    def _matrix(self, values: np.ndarray) -> sp.csr_array:
        """These values in the places of the edges; shares the indices of this graph."""
        # Beside an indptr of 8 bytes scipy makes a copy of the indices in 8 bytes, too.
        narrow = len(self.indices) <= np.iinfo(np.int32).max
        indptr = self.indptr.astype(np.int32) if narrow else self.indptr
        return sp.csr_array((values, self.indices, indptr), shape=(self.n_nodes, self.n_nodes))

    def positions(self, ids: Any) -> np.ndarray:
        """Where in this graph the nodes with these ids are."""
        if self.node_ids is None:
            raise InputError("this graph has no node_ids; its nodes are 0 .. n_nodes - 1")
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
        """Whether nodes have the same edges, and the same ids if both graphs have ids.

        Graphs without edges are equal whenever they have as many nodes, which says nothing.
        """
        if self is other:
            return True
        names = ["indptr", "indices", "weights"]
        if self.node_ids is not None and other.node_ids is not None:
            names.append("node_ids")
        return self.n_edges > 0 and all(
            np.array_equal(getattr(self, name), getattr(other, name)) for name in names
        )

    def __hash__(self) -> int:
        return hash((self.n_nodes, self.n_edges))


def as_graph(source: Any, n_nodes: int | None) -> Graph:
    """Whatever a user may hand to ``fit(..., graph=)`` as a Graph; None has no edges."""
    if isinstance(source, Graph):
        return source
    if source is None:
        if n_nodes is None:
            raise InputError("nodes says where rows of X are in a graph; give the graph, too")
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
    if not sp.issparse(source) and not is_torch_sparse(source):
        source = to_numpy(source)
        is_pairs = source.ndim == 2 and source.shape[0] == 2 and n_nodes != 2
        if is_pairs and np.issubdtype(source.dtype, np.integer):
            if n_nodes is None:
                raise InputError(
                    "with nodes=, an edge_index does not say how many nodes there are; give "
                    "graph=Graph.from_edge_index(edge_index, n_nodes=...)"
                )
            return Graph.from_edge_index(source, n_nodes=n_nodes)
    return Graph(source)
