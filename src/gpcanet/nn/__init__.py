"""GPCA in PyTorch: layers, models, an initialiser for every GNN, and the loop that trains them.

Needs the extra ``nn``: torch, torch-geometric, safetensors and pymetis.
"""

from ..errors import TrainingDivergedError
from ..utils.training_result import TrainingResult
from .conv import GCNConv, GPCAConv
from .init.gpca import gpca_init_
from .init.layers import register_layer
from .init.random import he_init_, orthogonal_init_, xavier_init_
from .init.report import InitReport, LayerReport
from .models import GCN, GPCANet
from .propagation import GraphPropagation
from .training.data import NodeData
from .training.loop import Settings, train
from .training.partition import partition

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
    "xavier_init_",
]
