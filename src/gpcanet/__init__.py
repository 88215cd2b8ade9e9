"""Graph-regularised PCA: node embeddings in closed form.

After Zhao and Akoglu, "Connecting Graph Convolutional Networks and Graph-Regularized PCA".
"""

from .classifier import GPCAClassifier
from .entries import GraphWarning
from .gpca import GPCA
from .graph import Graph

__all__ = ["GPCA", "GPCAClassifier", "Graph", "GraphWarning"]
__version__ = "0.1.0"
