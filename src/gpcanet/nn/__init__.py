"""GPCA in PyTorch: layers, models, initialisers of graph networks, and training.

Requires the extra ``nn``: torch, torch-geometric, safetensors and pymetis.
"""

from ..errors import TrainingDivergedError
from ..utils.training_result import TrainingResult
from .conv import GCNConv, GPCAConv
from .init.gpca import gpca_init_
from .init.random import he_init_, orthogonal_init_, xavier_init_
from .init.report import InitReport, LayerReport
from .init.rules import register_layer
from .models import GCN, GPCANet
from .propagation import GraphPropagation
from .training.data import NodeData
from .training.loop import train
from .training.many import train_many
from .training.partition import partition
from .training.settings import Settings

__all__ = [
    "GCN",
    "GCNConv",
    "GPCAConv",
    "GPCANet",
    "GraphPropagation",
    "InitReport",
    "LayerReport",
    "NodeData",
    "Settings",
    "TrainingDivergedError",
    "TrainingResult",
    "gpca_init_",
    "he_init_",
    "orthogonal_init_",
    "partition",
    "register_layer",
    "train",
    "train_many",
    "xavier_init_",
]
