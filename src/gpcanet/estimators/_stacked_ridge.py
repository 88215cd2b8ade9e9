"""StackedRidge: what GPCARegressor and the classifier of several labels share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..errors import InputError
from ..graph import Graph
from ..linalg import extreme_exponent
from ..utils.checks import check_choice
from ..utils.progress import report_progress
from ._alignment import row_subgraph
from ._node_statistics import node_table
from ._predictor import GraphPredictor
from ._stacking import (
    Stack,
    embed,
    left_out_r2,
    predict_stacked,
    propagate,
    residual_gains,
    sorted_folds,
)
from .feature_scaler import FeatureScaler
from .gpca import GPCA
from .training_nodes import TrainingNodes

#: Values tried for feature_scaling="auto".
SCALINGS = ("standard", "l2")

#: Largest number of features or of labelled nodes, and largest size in bytes, for a ridge
#: regression on X itself.
MAX_RIDGE_SIZE, MAX_RIDGE_BYTES = 2000, 2**28

#: Boosting is tried with at least this number of labels and at most this number of features.
MIN_BOOSTING_LABELS, MAX_BOOSTING_FEATURES = 200, 100


class StackedRidge(GraphPredictor):
    """Stacked ridge regressions on GPCA embeddings of several alphas and feature scalings."""

    def __init__(
        self,
        n_components: int | None = None,
        *,
        alpha: float | Sequence[float] = (0.0, 0.5, 2.0, 5.0, 10.0, 20.0, 50.0),
        feature_scaling: str = "auto",
        boosting: bool | str = "auto",
        propagate_residuals: bool | str = "auto",
        normalization: str = "sym",
        tol: float | None = None,
        max_iter: int = 1000,
        precision: str = "full",
        memory_limit: int | str | None = None,
        keep_training_nodes: bool | None = None,
    ) -> None:
        self.n_components = n_components
        self.alpha = alpha
        self.feature_scaling = feature_scaling
        self.boosting = boosting
        self.propagate_residuals = propagate_residuals
        self.normalization = normalization
        self.tol = tol
        self.max_iter = max_iter
        self.precision = precision
        self.memory_limit = memory_limit
        self.keep_training_nodes = keep_training_nodes

    def check_parameters(self) -> None:
        """Raise if a parameter has a value that is not allowed."""
        check_choice("feature_scaling", self.feature_scaling, ("auto", "none", *SCALINGS))
        self.check_common(("boosting", "propagate_residuals"))

    # -- fit ------------------------------------------------------------------------------

    def fit_targets(
        self,
        X: Any,
        Y: np.ndarray,
        weights: np.ndarray | None,
        graph: Graph,
        nodes: np.ndarray | None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Learn from checked arrays; returns predictions of all rows, and left-out predictions.

        Y has NaN where a target is unknown. The left-out predictions are NaN there, and those of
        target t are divided by ``2**target_exponents_[t]``, as all else that is learned.
        """
        weights = np.ones(len(Y)) if weights is None else weights
        Y = np.where((weights > 0)[:, None], Y, np.nan)
        if np.isnan(Y).all(axis=0).any():
            raise InputError(
                "sample_weight is 0 for all known values of a target; give at least one of them a "
                "positive weight"
            )
        # Without this, squares of large or small targets would leave the range of float64.
        self.target_exponents_ = np.array(
            [extreme_exponent(y[~np.isnan(y)], np.float64) for y in Y.T], np.intc
        )
        Y = np.ldexp(Y, -self.target_exponents_)
        labeled = np.flatnonzero(~np.isnan(Y).all(axis=1))
        stack = Stack(labeled, Y[labeled], weights[labeled])
        subgraph, folds = row_subgraph(graph, nodes), sorted_folds(Y[labeled], X[labeled])
        for embedded in self._embeddings(X, graph, nodes, len(labeled)):
            stack.add(*embedded)
        table = node_table(X, subgraph) if self._tries_boosting(X, Y) else None
        stack.combine(table, folds)
        self.feature_scalings_ = [one.scaling for one in stack.used]
        self.gpca_ = [one.gpca for one in stack.used]
        self.alphas_ = [None if one.gpca is None else one.gpca.alpha for one in stack.used]
        self.weights_ = stack.stack_weights
        self.trees_, self.tree_weights_ = stack.trees, stack.tree_weights
        self.boosting_ = bool(self.tree_weights_.any())
        self.coefficients_, self.intercept_ = stack.linear()
        embeddings = [
            embed(X, one.scaling, one.gpca, graph, nodes) if one.Z is None else one.Z
            for one in stack.used
        ]
        predicted = predict_stacked(embeddings, self.coefficients_, self.intercept_, X.shape[0])
        predicted += self._predict_by_trees(table)
        left_out = np.full(Y.shape, np.nan)
        left_out[labeled] = stack.left_out
        residuals = Y - left_out
        self.residual_alpha_, self.residual_gains_ = 0.0, np.zeros(Y.shape[1])
        if self.propagate_residuals is not False and subgraph.n_edges and len(labeled) > 1:
            alpha, gains, smoothed = residual_gains(
                subgraph, residuals, labeled, stack.weights, folds,
                required=self.propagate_residuals is True,
            )  # fmt: skip
            if gains.any():
                self.residual_alpha_, self.residual_gains_ = alpha, gains
                left_out[labeled] += gains * smoothed
                predicted += gains * propagate(subgraph, residuals, alpha)
        self.propagate_residuals_ = bool(self.residual_gains_.any())
        self.left_out_r2_ = left_out_r2(Y[labeled], left_out[labeled], stack.weights)
        kept = residuals if self.propagate_residuals_ else None
        self.training_nodes_ = TrainingNodes.kept(
            graph, nodes, X, kept, keep=self.keep_training_nodes
        )
        self.n_iter_ = max([1, *(gpca.n_iter_ for gpca in self.gpca_ if gpca is not None)])
        return np.ldexp(predicted, self.target_exponents_), left_out

    def _embeddings(
        self, X: Any, graph: Graph, nodes: np.ndarray | None, n_labeled: int
    ) -> Iterator[tuple[FeatureScaler, GPCA | None, Any]]:
        """Yield feature scaling, fitted GPCA and embedding; X itself first, with None."""
        alphas = np.unique(np.asarray(self.alpha, dtype=float)).tolist()
        if row_subgraph(graph, nodes).n_edges == 0:
            alphas = alphas[:1]  # all alphas give the same embedding
        kinds = SCALINGS if self.feature_scaling == "auto" else (self.feature_scaling,)
        done, d = 0, X.shape[1]
        for kind in kinds:
            scaling = FeatureScaler(kind).fit(X)
            scaled = scaling.transform(X)
            if min(d, n_labeled) <= MAX_RIDGE_SIZE and 8 * d * n_labeled <= MAX_RIDGE_BYTES:
                yield scaling, None, scaled
            for alpha in alphas:
                gpca = self.make_gpca(alpha)
                yield scaling, gpca, gpca.fit_transform(scaled, graph=graph, nodes=nodes)
                done += 1
                report_progress("embedding", done, len(alphas) * len(kinds))

    def _tries_boosting(self, X: Any, Y: np.ndarray) -> bool:
        if isinstance(self.boosting, bool):
            return self.boosting
        enough = int(np.sum(~np.isnan(Y), axis=0).min()) >= MIN_BOOSTING_LABELS
        return enough and X.shape[1] <= MAX_BOOSTING_FEATURES

    @property
    def n_embeddings(self) -> int:
        """Number of embeddings that ``fit`` tries."""
        n_scalings = len(SCALINGS) if self.feature_scaling == "auto" else 1
        return n_scalings * int(np.size(np.asarray(self.alpha)))

    # -- predict --------------------------------------------------------------------------

    def predict_targets(self, X: Any, graph: Any, nodes: Any) -> np.ndarray:
        """Predictions for the nodes of any graph, of shape (n_nodes, n_targets)."""
        rows, n_rows = self.check_predict(X, graph, nodes)
        X, graph, nodes, residuals = rows
        embeddings = [
            embed(X, scaling, gpca, graph, nodes)
            for scaling, gpca in zip(self.feature_scalings_, self.gpca_, strict=True)
        ]
        predicted = predict_stacked(embeddings, self.coefficients_, self.intercept_, X.shape[0])
        if self.boosting_:
            predicted += self._predict_by_trees(node_table(X, rows.row_graph))
        if residuals is not None and self.propagate_residuals_:
            smoothed = propagate(rows.row_graph, residuals, self.residual_alpha_)
            predicted += self.residual_gains_ * smoothed
        return np.ldexp(predicted[:n_rows], self.target_exponents_)

    def _predict_by_trees(self, table: np.ndarray | None) -> np.ndarray:
        """The share of the boosted trees in the predictions; 0 without trees."""
        if table is None or not self.boosting_:
            return np.zeros(len(self.tree_weights_))
        columns = [
            np.zeros(len(table)) if trees is None else weight * trees.predict(table)
            for trees, weight in zip(self.trees_, self.tree_weights_, strict=True)
        ]
        return np.column_stack(columns)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.multi_output = True
        return tags
