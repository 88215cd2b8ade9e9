"""The scikit-learn estimators, and files of fitted models."""

from .classifier import GPCAClassifier
from .gpca import GPCA
from .imputer import GraphImputer
from .path import GPCAPath
from .regressor import GPCARegressor
from .serialization import load_model, save_model

__all__ = [
    "GPCA",
    "GPCAClassifier",
    "GPCAPath",
    "GPCARegressor",
    "GraphImputer",
    "load_model",
    "save_model",
]
