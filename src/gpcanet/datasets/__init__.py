"""Attributed graphs with labels: read from files, or generated."""

from .dataset import Dataset
from .planetoid import load_planetoid
from .synthetic import block_model, neighbor_graph

__all__ = ["Dataset", "block_model", "load_planetoid", "neighbor_graph"]
