"""GPCANet: graph-regularised PCA, node embeddings in closed form.

After Zhao and Akoglu, "Connecting Graph Convolutional Networks and Graph-Regularized PCA".
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from .estimators import (
        GPCA,
        GPCAClassifier,
        GPCAPath,
        GPCARegressor,
        GraphImputer,
        load_model,
        save_model,
    )
    from .explorer import Explorer, explore
    from .graph import Graph, GraphWarning

__all__ = [
    "GPCA",
    "Explorer",
    "GPCAClassifier",
    "GPCAPath",
    "GPCARegressor",
    "Graph",
    "GraphImputer",
    "GraphWarning",
    "__version__",
    "explore",
    "load_model",
    "save_model",
]

_HOME = {
    "Explorer": "explorer",
    "GPCA": "estimators.gpca",
    "GPCAClassifier": "estimators.classifier",
    "GPCAPath": "estimators.path",
    "GPCARegressor": "estimators.regressor",
    "Graph": "graph",
    "GraphImputer": "estimators.imputer",
    "GraphWarning": "graph",
    "explore": "explorer",
    "load_model": "estimators.serialization",
    "save_model": "estimators.serialization",
}


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used: ``gpcanet --help`` need not wait for scipy."""
    if name not in _HOME:
        raise AttributeError(f"module 'gpcanet' has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_HOME[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted(__all__)
