"""Graph: a validated, immutable, undirected graph.

All inputs are brought to one form by the same rules:

1. Self-loops are dropped. (GPCA adds a self-loop of weight 1 to every node.)
2. Entries of weight 0 are not edges.
3. Repeated entries of the same direction add their weights; in an unweighted input, a repeated
   edge is one edge.
4. The weight of an edge is the larger weight of its two directions. A symmetric matrix stays
   unchanged, and an edge listed once means the same as an edge listed in both directions.
5. A row of an edge table is an undirected edge. Of rows with the same two nodes, in either order,
   the largest weight is kept.

``summary()`` reports what the rules changed. A directed matrix, ``edge_index`` or networkx graph
also issues a GraphWarning.
"""

from __future__ import annotations

import os
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from ..errors import InputError
from .assembly import Entries, assemble, count_of, csr_arrays
from .conversion import (
    edge_index_entries,
    matrix_entries,
    networkx_entries,
    pyg_weights,
    table_entries,
    union_entries,
)
from .node_ids import check_positions, find_positions, id_array
from .stored import stored_state


class Graph:
    """Undirected graph with optional edge weights and node ids.

    Parameters
    ----------
    adjacency : {array-like, sparse matrix} of shape (n_nodes, n_nodes)
        Adjacency matrix: any scipy format, a dense array, a DataFrame with the node ids as index
        and columns, or a sparse torch tensor. Weights must be finite and non-negative. If all
        weights are 1 (or booleans), the graph is unweighted.
    node_ids : array-like of shape (n_nodes,), default=None
        Unique ids of the nodes.

    Attributes
    ----------
    indptr, indices : ndarray
        CSR structure of the symmetric adjacency matrix: both directions of every edge, sorted,
        read-only.
    weights : ndarray or None
        Edge weights in the order of ``indices``; None for an unweighted graph.
    node_ids : ndarray or None
        Ids of the nodes; dates and times are stored as Python objects.

    See Also
    --------
    Graph.from_edge_index : From two rows of node positions.
    Graph.from_edges : From a table with one row per edge.
    Graph.from_networkx : From a networkx graph.
    Graph.from_pyg : From a PyG ``Data``.
    Graph.from_csr : From the arrays of a CSR matrix.
    Graph.open : From the files of a store.

    Notes
    -----
    scikit-learn does not split a Graph in cross-validation. It does split matrices and networkx
    graphs, which fails; convert these to a Graph first.

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
        # The entries get no name here, so that assemble can free them.
        state = assemble(matrix_entries(adjacency, node_ids), symmetric_source="adjacency")
        self.__setstate__(state)

    # -- constructors ---------------------------------------------------------------------

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
        """Create a graph from two rows of node positions.

        Parameters
        ----------
        edge_index : {array-like, Tensor} of shape (2, n_entries)
            Positions of the two ends of every entry.
        weights : {array-like, Tensor} of shape (n_entries,), default=None
            Edge weights; None for an unweighted graph.
        n_nodes : int, default=None
            Number of nodes. If None, it is the largest position plus one.
        node_ids : array-like of shape (n_nodes,), default=None
            Unique ids of the nodes.
        each_once : bool, default=False
            Whether a column is an undirected edge, as a row of a table in ``from_edges``: the
            order of its ends has no meaning, and repeated edges keep the largest weight.

        Examples
        --------
        >>> Graph.from_edge_index([[0, 1, 1, 2], [1, 0, 2, 1]], n_nodes=4)
        Graph(n_nodes=4, n_edges=2, weighted=False)
        """
        entries = edge_index_entries(edge_index, weights, n_nodes, node_ids, undirected=each_once)
        source = None if each_once else "edge_index"
        return cls._from_state(assemble(entries, symmetric_source=source))

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
        """Create a graph from a table with one row per edge and node ids of any type.

        Parameters
        ----------
        frame : pandas, polars or Arrow table, or mapping of columns
            The edges. Of rows with the same two nodes, in either order, the largest weight is
            kept; if weights are counts, sum them beforehand.
        source, target : str
            Columns with the ids of the two ends.
        weight : str, default=None
            Column with weights. If None, a column called weight, weights, edge_weight or
            edge_weights in any case, if there is one.
        nodes : array-like, default=None
            All node ids in the order wanted, including nodes without edges. If None, the ids in
            the table, sorted.

        Examples
        --------
        >>> graph = Graph.from_edges({"source": ["b", "a"], "target": ["c", "b"]})
        >>> graph.node_ids.tolist()
        ['a', 'b', 'c']
        """
        return cls._from_state(assemble(table_entries(frame, source, target, weight, nodes)))

    @classmethod
    def from_networkx(cls, graph: Any, *, weight: str | None = "weight") -> Graph:
        """Create a graph from a networkx graph, in its order of nodes and with its node ids.

        Parameters
        ----------
        graph : networkx graph
        weight : str, default="weight"
            Edge attribute with weights; the default also finds weights, edge_weight and
            edge_weights in any case. Edges without the attribute have weight 1; if no edge has
            it, or if None, the graph is unweighted.
        """
        entries = networkx_entries(graph, weight)
        source = "networkx graph" if graph.is_directed() else None
        return cls._from_state(assemble(entries, symmetric_source=source))

    @classmethod
    def from_pyg(cls, data: Any) -> Graph:
        """Create a graph from a ``torch_geometric.data.Data``.

        Uses ``edge_index``, ``edge_weight`` and ``num_nodes``. Without ``edge_weight``, an
        ``edge_attr`` with one column of non-negative floats holds the weights; any other
        ``edge_attr`` is ignored with a warning.
        """
        edge_index = getattr(data, "edge_index", None)
        if edge_index is None:
            raise InputError(
                f"{type(data).__name__} has no edge_index; set it (for a heterogeneous graph, use "
                f"to_homogeneous())"
            )
        return cls.from_edge_index(edge_index, pyg_weights(data), n_nodes=data.num_nodes)

    @classmethod
    def from_csr(
        cls,
        indptr: np.ndarray,
        indices: np.ndarray,
        weights: np.ndarray | None = None,
        *,
        node_ids: Any = None,
        validate: bool = True,
    ) -> Graph:
        """Create a graph from the arrays of a CSR adjacency matrix.

        Parameters
        ----------
        indptr : ndarray of shape (n_nodes + 1,)
        indices : ndarray of shape (n_entries,)
        weights : ndarray of shape (n_entries,), default=None
            Edge weights; None for an unweighted graph.
        node_ids : array-like of shape (n_nodes,), default=None
            Unique ids of the nodes.
        validate : bool, default=True
            If False, the arrays must be those of another Graph. They are used without a check
            or a copy and become read-only; arrays mapped from files stay mapped.
        """
        if not validate:
            arrays = {"indptr": indptr, "indices": indices, "weights": weights}
            return cls._from_state({**arrays, "node_ids": node_ids, "_changes": []})
        values = np.ones(len(indices), bool) if weights is None else weights
        shape = (len(indptr) - 1,) * 2
        try:
            matrix = sp.csr_array((values, indices, indptr), shape=shape)
            matrix.check_format(full_check=True)
        except ValueError as error:
            raise InputError(f"indptr, indices and weights are not a CSR matrix: {error}") from None
        return cls(matrix, node_ids=node_ids)

    @classmethod
    def open(cls, folder: str | os.PathLike[str]) -> Graph:
        """Map the graph of a ``gpcanet.distributed.Store``; its arrays are not read into memory."""
        return cls._from_state(stored_state(Path(folder)))

    @classmethod
    def without_edges(cls, n_nodes: int) -> Graph:
        """Create a graph of n_nodes isolated nodes; GPCA on it is PCA."""
        empty = np.empty(0, np.int64)
        return cls._from_state(assemble(Entries(empty, empty, None, n_nodes)))

    @classmethod
    def _from_state(cls, state: dict[str, Any]) -> Graph:
        graph = cls.__new__(cls)
        graph.__setstate__(state)
        return graph

    # -- properties -----------------------------------------------------------------------

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return len(self.indptr) - 1

    @property
    def n_edges(self) -> int:
        """Number of undirected edges."""
        return len(self.indices) // 2

    @property
    def is_weighted(self) -> bool:
        """Whether edges have weights."""
        return self.weights is not None

    @property
    def adjacency(self) -> sp.csr_array:
        """Symmetric adjacency matrix with float64 weights, as a new csr_array."""
        ones = np.ones(len(self.indices))
        # The weights of a store may be float32.
        return self._matrix(ones if self.weights is None else self.weights).astype(np.float64)

    @property
    def n_isolated(self) -> int:
        """Number of nodes without edges."""
        return int(np.count_nonzero(np.diff(self.indptr) == 0))

    @cached_property
    def n_connected_components(self) -> int:
        """Number of connected components, including isolated nodes."""
        # A broadcast value saves scipy's copy to float64. On a symmetric matrix "strong" gives
        # the same components as "weak", without a transpose.
        ones = self._matrix(np.broadcast_to(1.0, len(self.indices)))
        return int(connected_components(ones, connection="strong", return_labels=False))

    def summary(self) -> str:
        """Return one line: sizes, components, isolated nodes, and what assembly changed."""
        parts = [
            count_of(self.n_nodes, "node"),
            count_of(self.n_edges, "edge"),
            "weighted" if self.is_weighted else "unweighted",
            count_of(self.n_connected_components, "component"),
            count_of(self.n_isolated, "isolated node"),
        ]
        parts += [f"{count_of(n, noun)} {change}" for n, noun, change in self._changes if n]
        return ", ".join(parts)

    def __repr__(self) -> str:
        return f"Graph(n_nodes={self.n_nodes}, n_edges={self.n_edges}, weighted={self.is_weighted})"

    # -- nodes ----------------------------------------------------------------------------

    def subgraph(self, nodes: Any) -> Graph:
        """Return the subgraph induced by these node positions, in this order.

        For all nodes in order, this is the graph itself.
        """
        nodes = check_positions(nodes, self.n_nodes)
        if np.array_equal(nodes, np.arange(self.n_nodes)):
            return self
        values = np.ones(len(self.indices), bool) if self.weights is None else self.weights
        matrix = self._matrix(values)[nodes][:, nodes].sorted_indices()
        ids = None if self.node_ids is None else self.node_ids[nodes]
        return self.from_csr(*csr_arrays(matrix), node_ids=ids, validate=False)

    def union(self, other: Graph) -> Graph:
        """Return the graph with the nodes and edges of both: these nodes first, then new ones.

        Nodes are matched by id, or by position if neither graph has ids. An edge of both graphs
        has the larger weight; an unweighted edge has weight 1.

        Examples
        --------
        >>> graph = Graph.from_edges({"source": ["a", "b"], "target": ["b", "c"]})
        >>> larger = graph.union(Graph.from_edges({"source": ["d"], "target": ["a"]}))
        >>> larger.n_edges, larger.node_ids.tolist()
        (3, ['a', 'b', 'c', 'd'])
        """
        state = assemble(union_entries(self, other))
        return self._from_state({**state, "_changes": []})  # an edge of both is not a repeated one

    def _matrix(self, values: np.ndarray) -> sp.csr_array:
        """Matrix with these values at the edges; shares the indices of this graph."""
        # With an int64 indptr, scipy would also copy the indices to int64.
        narrow = len(self.indices) <= np.iinfo(np.int32).max
        indptr = self.indptr.astype(np.int32) if narrow else self.indptr
        return sp.csr_array((values, self.indices, indptr), shape=(self.n_nodes, self.n_nodes))

    def positions(self, ids: Any) -> np.ndarray:
        """Return the positions of the nodes with these ids."""
        if self.node_ids is None:
            raise InputError("this graph has no node_ids; its nodes are 0 .. n_nodes - 1")
        return find_positions(self.node_ids, id_array(ids), "ids", "the graph")

    # -- immutability: a copy is the graph itself -----------------------------------------

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise AttributeError(f"Graph is immutable; build a new one instead of setting {name!r}")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"Graph is immutable; {name!r} cannot be deleted")

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
        return self is other or self._has_equal(other, "indptr", "indices", "weights", "node_ids")

    def __hash__(self) -> int:
        return hash((self.n_nodes, self.n_edges))

    def is_same(self, other: Graph) -> bool:
        """Whether nodes have the same edges, and the same ids if both graphs have ids.

        Weights are compared in the lower of their precisions, as a store may have rounded them. Two
        graphs without edges are the same only if they are one object: an equal number of
        nodes does not show that the nodes are the same.
        """
        if self is other:
            return True
        names = ["indptr", "indices"]
        if self.node_ids is not None and other.node_ids is not None:
            names.append("node_ids")
        if self.n_edges == 0 or not self._has_equal(other, *names):
            return False
        one, two = self.weights, other.weights
        if one is None or two is None:
            return one is two
        dtype = min(one.dtype, two.dtype, key=lambda dtype: dtype.itemsize)
        return np.array_equal(one.astype(dtype, copy=False), two.astype(dtype, copy=False))

    def _has_equal(self, other: Graph, *names: str) -> bool:
        return all(np.array_equal(getattr(self, name), getattr(other, name)) for name in names)
