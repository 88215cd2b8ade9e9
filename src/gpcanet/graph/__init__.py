"""Undirected graphs: every kind of input becomes one validated, immutable CSR with node ids."""

from .assembly import GraphWarning
from .graph import Graph, as_graph

__all__ = ["Graph", "GraphWarning", "as_graph"]
