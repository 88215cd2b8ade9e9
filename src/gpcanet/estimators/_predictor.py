"""GraphPredictor: what the classifier and the regressors share."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from ..errors import InputError
from ..graph import Graph
from ..utils.checks import check_number
from ._alignment import RowIndex, align_to_rows, check_graph
from .gpca import GPCA
from .problem import LARGEST_ALPHA, Parameters
from .training_nodes import JoinedRows, check_keep, check_new_rows
from .validation import (
    align_held_out,
    check_training_rows,
    check_weights,
    forget_fit,
    set_row_attributes,
)


class GraphPredictor(BaseEstimator):
    """Checks of parameters and arguments of the estimators that predict y."""

    __metadata_request__fit = {"graph": True, "nodes": True}
    __metadata_request__predict = {"graph": True, "nodes": True}
    __metadata_request__score = {"graph": True, "nodes": True}

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "training_nodes_")

    alpha: Any
    keep_training_nodes: bool | None

    def make_gpca(self, alpha: float = 1.0) -> GPCA:
        """An unfitted GPCA with the parameters of this estimator and this alpha."""
        own = self.get_params(deep=False)
        names = [name for name in GPCA().get_params() if name in own]
        # Predictions add the training rows themselves.
        keep = False if self.keep_training_nodes is False else None
        return GPCA(**{name: own[name] for name in names}).set_params(
            alpha=alpha, keep_training_nodes=keep
        )

    def check_common(self, switches: tuple[str, ...]) -> None:
        """Raise if alpha, a switch or a parameter of GPCA has a value that is not allowed."""
        alphas = np.atleast_1d(np.asarray(self.alpha, dtype=object))
        if alphas.ndim != 1 or len(alphas) == 0:
            raise InputError(f"alpha={self.alpha!r} must be a number or a list of numbers")
        for alpha in alphas:
            check_number("alpha", alpha, 0, LARGEST_ALPHA, advice="use 0 to ignore the graph")
        for name in switches:
            value = getattr(self, name)
            if not (isinstance(value, bool) or (isinstance(value, str) and value == "auto")):
                raise InputError(f"{name}={value!r} must be True, False or 'auto'")
        check_keep(self.keep_training_nodes)
        Parameters.of(self.make_gpca(float(alphas[0])))

    def check_parameters(self) -> None:
        """Raise if a parameter has a value that is not allowed; each estimator has its own."""
        raise NotImplementedError

    def check_fit(
        self, X: Any, graph: Any, nodes: Any, **others: Any
    ) -> tuple[Any, Graph, np.ndarray | None, list[Any]]:
        """Check the arguments of ``fit``; ``others`` are only aligned to the rows.

        ``validation`` may also be positions of rows, which stay as they are.
        """
        forget_fit(self)
        self.check_parameters()
        if others["y"] is None:
            raise InputError("requires y to be passed, but the target y is None")
        has_graph = graph is not None
        X, graph, nodes, index = check_training_rows(self, X, graph, nodes)
        aligned = []
        for name, values in others.items():
            align = align_held_out if name == "validation" else align_to_rows
            found = None if values is None else align(values, graph, nodes, index, name)
            if name == "sample_weight" and found is not None:
                found = check_weights(found, X.shape[0])
            aligned.append(found)
        set_row_attributes(self, graph, index, has_graph=has_graph)
        return X, graph, nodes, aligned

    def check_predict(self, X: Any, graph: Any, nodes: Any) -> tuple[JoinedRows, int]:
        """Check the arguments of ``predict``; the rows with training rows, and their number."""
        return check_new_rows(self, X, graph, nodes)

    def check_score(
        self, X: Any, y: Any, sample_weight: Any, graph: Any, nodes: Any, n_rows: int
    ) -> tuple[Any, np.ndarray]:
        """y and weights of the rows of X."""
        index = RowIndex.of(X)
        rows = check_graph(graph, nodes, n_rows, index=index)
        weights = np.ones(n_rows)
        if sample_weight is not None:
            sample_weight = align_to_rows(sample_weight, *rows, index, "sample_weight")
            weights = check_weights(sample_weight, n_rows)
        return align_to_rows(y, *rows, index, "y"), weights
