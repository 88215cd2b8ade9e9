"""GPCA in PyTorch: layers, models, an initialiser for every GNN, and the loop that trains them.

Needs the extra ``nn``: torch, torch-geometric, safetensors and pymetis.
"""

from ..errors import TrainingDivergedError
from ..outcome import Training
from .conv import GCNConv, GPCAConv
from .data import NodeData
from .init import gpca_init_
from .layers import register_layer
from .models import GCN, GPCANet
from .parts import partition
from .propagation import GraphPropagation
from .random_init import he_init_, orthogonal_init_, xavier_init_
from .report import InitReport, LayerReport
from .training import Settings, train

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
    "Training",
    "TrainingDivergedError",
    "gpca_init_",
    "he_init_",
    "orthogonal_init_",
    "partition",
    "register_layer",
    "train",
    "xavier_init_",
]
