"""GPCARegressor: semi-supervised regression on the nodes of a graph."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score

from ..errors import InputError
from ._stacked_ridge import StackedRidge
from .validation import check_targets, positive_weights


class GPCARegressor(RegressorMixin, StackedRidge):
    """Semi-supervised node regressor: GPCA embeddings and ridge regression.

    For every alpha and feature scaling, a ridge regression maps the embedding to the targets. The
    prediction is the sum of all, with the non-negative weights that fit the leave-one-out
    predictions of the known values best; most weights are 0. Gradient boosting takes part in the
    sum where features are few. Then the residuals of the known values are propagated over the
    graph if that predicts left-out ones.

    Parameters
    ----------
    n_components : int, default=None
        Number of components of the embeddings. If None, 128, or all if there are fewer.
    alpha : float or sequence of float, default=(0.0, 0.5, 2.0, 5.0, 10.0, 20.0, 50.0)
        Strengths of the graph regularisation, as in :class:`GPCA`.
    feature_scaling : {"auto", "standard", "l2", "none"}, default="auto"
        Columns of X to unit variance, rows to unit norm, or neither; "auto" uses both of the
        first two.
    boosting : bool or "auto", default="auto"
        Whether gradient boosting on X and means over neighbours takes part. "auto" tries it with
        at least 200 known values and at most 100 features.
    propagate_residuals : bool or "auto", default="auto"
        Whether to add propagated residuals of the known values to the predictions. "auto" does so
        if it reduces the error of left-out values by more than one standard error. This has an
        effect on the graph of ``fit`` only.
    normalization, tol, max_iter, precision, memory_limit
        As in :class:`GPCA`; the memory limit holds for one embedding at a time.
    keep_training_nodes : bool, default=None
        Whether the fitted object, also when saved, keeps X and the graph, so that new nodes can be
        predicted from their own rows and edges. By default they are kept if ``nodes`` is passed
        or rows have ids.

    Attributes
    ----------
    fitted_values_ : ndarray of shape (n_nodes,) or (n_nodes, n_targets)
        Prediction for every row of X in ``fit``, including those with unknown targets.
    left_out_r2_ : float
        R^2 of the left-out predictions of the known values, the mean over targets.
    alphas_ : list
        The alphas of the embeddings in the sum; None stands for X itself.
    feature_scalings_ : list
        Their feature scalings.
    gpca_ : list
        Their fitted GPCA.
    weights_ : ndarray of shape (n_embeddings, n_targets)
        Their weights.
    boosting_, propagate_residuals_ : bool
        Whether boosted trees and propagated residuals are part of the predictions.
    coefficients_, intercept_, trees_, tree_weights_, residual_alpha_, residual_gains_
        The regressions.
    target_exponents_ : ndarray of shape (n_targets,)
        The regressions are those of the targets divided by 2 to these powers, which are 0 unless
        squares of the target could overflow or underflow.
    n_targets_ : int or None
        Number of targets; None if y has one dimension.
    training_nodes_ : object or None
        Rows, residuals and graph of ``fit`` that predictions need.
    n_iter_ : int
        Largest number of solver iterations of the embeddings.
    n_nodes_in_, matched_by_id_, n_features_in_, feature_names_in_
        As in :class:`GPCA`.

    See Also
    --------
    GPCA : The embedding.
    GPCAClassifier : The same for classes.

    Examples
    --------
    >>> import numpy as np
    >>> from gpcanet import GPCARegressor, Graph
    >>> X = np.arange(6.0)[:, None]
    >>> graph = Graph(np.eye(6, k=1) + np.eye(6, k=-1))  # a path
    >>> y = np.array([1.0, np.nan, 5.0, 7.0, np.nan, 11.0])  # two of six values are unknown
    >>> GPCARegressor().fit(X, y, graph=graph).fitted_values_.round(1)
    array([ 1.,  3.,  5.,  7.,  9., 11.])
    """

    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, *, graph: Any = None, nodes: Any = None
    ) -> Self:
        """Fit the embeddings and the regressions.

        Parameters
        ----------
        X, graph, nodes
            As in :meth:`GPCA.fit`.
        y : array-like of shape (n_nodes,) or (n_nodes, n_targets)
            Targets; NaN where unknown. If the graph has node ids, a Series or DataFrame is matched
            by its index.
        sample_weight : array-like of shape (n_nodes,), default=None
            Weights of the known values in the regressions. The embeddings do not depend on them.

        Returns
        -------
        self : GPCARegressor
        """
        X, graph, nodes, (y, weights) = self.check_fit(
            X, graph, nodes, y=y, sample_weight=sample_weight
        )
        Y = check_targets(y, X.shape[0])
        self.n_targets_ = None if np.asarray(y).ndim == 1 else Y.shape[1]
        predicted, _ = self.fit_targets(X, Y, weights, graph, nodes)
        self.fitted_values_ = self._shaped(predicted)
        return self

    def predict(self, X: Any, *, graph: Any = None, nodes: Any = None) -> np.ndarray:
        """Predict the targets for the nodes of any graph.

        The arguments are those of :meth:`GPCA.transform`: if ``fit`` has kept the training nodes,
        X may hold new nodes alone.

        Returns
        -------
        y : ndarray of shape (n_nodes,) or (n_nodes, n_targets)
        """
        return self._shaped(self.predict_targets(X, graph, nodes))

    def score(
        self, X: Any, y: Any, sample_weight: Any = None, *, graph: Any = None, nodes: Any = None
    ) -> float:
        """Return R^2 on the known values of y, the mean over targets.

        NaN in y are ignored. The other arguments are those of ``fit`` and ``predict``.
        """
        predicted = self.predict_targets(X, graph, nodes)
        n_rows = len(predicted)
        y, weights = self.check_score(X, y, sample_weight, graph, nodes, n_rows)
        Y = check_targets(y, n_rows)
        if Y.shape != predicted.shape:
            raise InputError(
                f"y has {Y.shape[1]} targets, but the model was fitted with {predicted.shape[1]}"
            )
        Y, predicted = (np.ldexp(of, -self.target_exponents_) for of in (Y, predicted))
        scores = [
            r2_score(y[known], of_target[known], sample_weight=positive_weights(weights[known]))
            for y, of_target, known in zip(Y.T, predicted.T, ~np.isnan(Y.T), strict=True)
        ]
        return float(np.mean(scores))

    def _shaped(self, predicted: np.ndarray) -> np.ndarray:
        return predicted[:, 0] if self.n_targets_ is None else predicted
