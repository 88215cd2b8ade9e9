"""Undirected graphs: every kind of input becomes one validated, immutable CSR with node ids."""

from .argument import as_graph
from .assembly import GraphWarning
from .graph import Graph

__all__ = ["Graph", "GraphWarning", "as_graph"]
