"""GPCA in PyTorch: layers, models, initialisers of graph networks, and training.

Requires the extra ``nn``: torch, torch-geometric, safetensors and pymetis.
"""

from ..errors import TrainingDivergedError
from ..utils.training_result import TrainingResult
from .conv import GCNConv, GPCAConv
from .init.effective_rank import effective_rank
from .init.gpca import gpca_init_
from .init.lsuv import lsuv_init_
from .init.random import g_init_, he_init_, orthogonal_init_, xavier_init_
from .init.report import InitReport, LayerReport
from .init.rules import register_layer
from .init.spog import spog_init_
from .init.virgo import virgo_init_
from .models import GCN, GPCANet
from .propagation import GraphPropagation
from .serialization import load_model, save_model
from .trained_network import TrainedNetwork
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
    "TrainedNetwork",
    "TrainingDivergedError",
    "TrainingResult",
    "effective_rank",
    "g_init_",
    "gpca_init_",
    "he_init_",
    "load_model",
    "lsuv_init_",
    "orthogonal_init_",
    "partition",
    "register_layer",
    "save_model",
    "spog_init_",
    "train",
    "train_many",
    "virgo_init_",
    "xavier_init_",
]
