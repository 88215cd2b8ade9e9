"""GPCA on a Dask cluster: graphs and features in files, columns solved by workers."""

from .build import build_store
from .cluster import connect, local_cluster
from .embedding_parts import EmbeddingParts
from .gpca import GPCA
from .plan import Plan
from .store import Store
from .writing import write_dataset

__all__ = [
    "GPCA",
    "EmbeddingParts",
    "Plan",
    "Store",
    "build_store",
    "connect",
    "local_cluster",
    "write_dataset",
]
