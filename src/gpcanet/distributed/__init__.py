"""GPCA on a Dask cluster: graphs and features in files, columns solved by workers."""

from .cluster import connect, local_cluster
from .gpca import GPCA
from .parts import EmbeddingParts
from .plan import Plan, make_plan
from .store import Store

__all__ = [
    "GPCA",
    "EmbeddingParts",
    "Plan",
    "Store",
    "connect",
    "local_cluster",
    "make_plan",
]
