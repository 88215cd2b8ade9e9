"""GPCAMultiLabelClassifier: node classification with any number of labels per node."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from scipy.special import expit, logit
from sklearn.base import ClassifierMixin
from sklearn.linear_model import LogisticRegression

from ._stacked_ridge import StackedRidge
from .validation import check_indicators


class GPCAMultiLabelClassifier(ClassifierMixin, StackedRidge):
    """Semi-supervised node classifier for label indicators: any number of labels per node.

    The scores of the labels are those of :class:`GPCARegressor` on the indicators. A logistic
    regression on the left-out scores of each label turns them into probabilities.

    Parameters
    ----------
    n_components, alpha, feature_scaling, boosting, propagate_residuals, normalization, tol, \
max_iter, precision, memory_limit, keep_training_nodes
        As in :class:`GPCARegressor`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_labels,)
        The labels: names of the columns of a DataFrame y, or positions of columns.
    transduction_ : ndarray of shape (n_nodes, n_labels)
        Predicted indicators of every row of X in ``fit``.
    label_distributions_ : ndarray of shape (n_nodes, n_labels)
        Predicted probability of every label for every row of X in ``fit``.
    slopes_, offsets_ : ndarray of shape (n_labels,)
        The logistic regressions.

    Examples
    --------
    >>> import numpy as np
    >>> from gpcanet import GPCAMultiLabelClassifier
    >>> X = np.array([[0, 0], [0, 1], [1, 0], [1, 1]] * 10)
    >>> y = X.astype(float)
    >>> y[-4:] = np.nan  # unlabelled
    >>> GPCAMultiLabelClassifier().fit(X, y).transduction_[-4:]
    array([[0, 0],
           [0, 1],
           [1, 0],
           [1, 1]])
    """

    __metadata_request__predict_proba = {"graph": True, "nodes": True}

    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, *, graph: Any = None, nodes: Any = None
    ) -> Self:
        """Fit the embeddings and the classifiers of all labels.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_nodes, n_features)
            Node features.
        y : {array-like, sparse matrix} of shape (n_nodes, n_labels)
            Indicators: 1 if a node has a label, 0 if not, NaN or -1 where that is unknown.
        sample_weight : array-like of shape (n_nodes,), default=None
            Weights of the known rows.
        graph : Graph or object that converts to one, default=None
            The graph; None for no edges.
        nodes : array-like of int, default=None
            Position of each row of X in the graph, if X has only some of its nodes.

        Returns
        -------
        self : object
            Fitted estimator.
        """
        names = getattr(y, "columns", None)
        X, y, weights, graph, nodes = self.check_fit(X, y, sample_weight, graph, nodes)
        Y = check_indicators(y, X.shape[0])
        self.classes_ = np.arange(Y.shape[1]) if names is None else np.asarray(names)
        scores, left_out = self.fit_targets(X, Y, weights, graph, nodes)
        fitted = [_calibrate(s, y, weights) for s, y in zip(left_out.T, Y.T, strict=True)]
        self.slopes_, self.offsets_ = np.array(fitted).T
        self.label_distributions_ = self._probabilities(scores)
        self.transduction_ = (self.label_distributions_ > 0.5).astype(np.int64)
        return self

    def predict_proba(self, X: Any, *, graph: Any = None, nodes: Any = None) -> np.ndarray:
        """Predict the probability of every label for the nodes of any graph.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_nodes, n_features)
        graph : Graph or object that converts to one, default=None
            Required if ``fit`` was given a graph.
        nodes : array-like of int, default=None
            Position of each row of X in the graph, if X has only some of its nodes.

        Returns
        -------
        probabilities : ndarray of shape (n_nodes, n_labels)
        """
        return self._probabilities(self.predict_targets(X, graph, nodes))

    def predict(self, X: Any, *, graph: Any = None, nodes: Any = None) -> np.ndarray:
        """Predict label indicators; the parameters are those of ``predict_proba``.

        Returns
        -------
        y : ndarray of shape (n_nodes, n_labels)
        """
        return (self.predict_proba(X, graph=graph, nodes=nodes) > 0.5).astype(np.int64)

    def score(
        self, X: Any, y: Any, sample_weight: Any = None, *, graph: Any = None, nodes: Any = None
    ) -> float:
        """Return the share of rows with known labels for which all labels are predicted."""
        predicted = self.predict(X, graph=graph, nodes=nodes)
        Y = check_indicators(y, len(predicted))
        known = ~np.isnan(Y).any(axis=1)
        correct = np.all(predicted == Y, axis=1)[known]
        weights = None if sample_weight is None else np.asarray(sample_weight)[known]
        return float(np.average(correct, weights=weights))

    def _probabilities(self, scores: np.ndarray) -> np.ndarray:
        return expit(scores * self.slopes_ + self.offsets_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.single_output = False
        tags.classifier_tags.multi_label = True
        tags.classifier_tags.multi_class = False
        return tags


def _calibrate(scores: np.ndarray, y: np.ndarray, weights: np.ndarray) -> tuple[float, float]:
    """Slope and offset of the log odds of a label as a function of its left-out scores."""
    known = ~np.isnan(scores)
    s, y, weights = scores[known], y[known], weights[known]
    spread = float(np.std(s))
    if len(np.unique(y)) < 2 or spread == 0:
        share = (weights @ y + 0.5) / (weights.sum() + 1)
        return 0.0, float(logit(share))
    model = LogisticRegression(C=1e4).fit((s / spread)[:, None], y, sample_weight=weights)
    return max(float(model.coef_[0, 0]), 0.0) / spread, float(model.intercept_[0])
