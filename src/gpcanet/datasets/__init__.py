"""Attributed graphs with labels: published datasets by name, and generated ones."""

from ..errors import DataError, DataUnavailableError
from ..graph.neighbors import neighbor_graph
from .catalogue import about, load, names
from .dataset import About, Dataset
from .splits import first_per_class, random_split
from .synthetic import block_model

__all__ = [
    "About",
    "DataError",
    "DataUnavailableError",
    "Dataset",
    "about",
    "block_model",
    "first_per_class",
    "load",
    "names",
    "neighbor_graph",
    "random_split",
]
