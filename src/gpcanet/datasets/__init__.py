"""Attributed graphs with labels: published datasets by name, and generated ones."""

from ..errors import DataError, DataUnavailableError
from .catalogue import about, load, names
from .dataset import About, Dataset
from .synthetic import block_model, neighbor_graph

__all__ = [
    "About",
    "DataError",
    "DataUnavailableError",
    "Dataset",
    "about",
    "block_model",
    "load",
    "names",
    "neighbor_graph",
]
