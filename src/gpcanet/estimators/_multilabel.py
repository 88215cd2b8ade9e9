"""Several labels per node: the part of GPCAClassifier for matrices of indicators."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from scipy.special import expit, logit
from sklearn.linear_model import LogisticRegression
from sklearn.utils.class_weight import compute_class_weight

from ..errors import InputError
from ._stacked_ridge import StackedRidge
from .validation import as_user_errors, check_indicators, positive_weights

#: Learned attributes that the classifier has, too.
SHARED_ATTRIBUTES = (
    "classes_", "gpca_", "label_distributions_", "training_nodes_", "n_iter_", "n_nodes_in_",
    "matched_by_id_", "n_features_in_", "feature_names_in_",
)  # fmt: skip


class MultiLabelModel(StackedRidge):
    """Scores of the labels by stacked ridge regressions on the indicators, calibrated.

    A logistic regression on the left-out scores of each label turns them into probabilities;
    the ``class_weight`` of ``fit`` is that of these regressions, for the classes 0 and 1.
    """

    def fit(
        self, X: Any, y: Any, sample_weight: Any, class_weight: Any, graph: Any, nodes: Any
    ) -> Self:
        names = getattr(y, "columns", None)
        X, graph, nodes, (y, weights) = self.check_fit(
            X, graph, nodes, y=y, sample_weight=sample_weight
        )
        Y = check_indicators(y, X.shape[0])
        self.classes_ = np.arange(Y.shape[1]) if names is None else np.asarray(names)
        scores, left_out = self.fit_targets(X, Y, weights, graph, nodes)
        weights = np.ones(len(Y)) if weights is None else weights
        fitted = [
            _calibrate(s, y, weights, class_weight) for s, y in zip(left_out.T, Y.T, strict=True)
        ]
        self.slopes_, self.offsets_ = np.array(fitted).T
        self.label_distributions_ = self._probabilities(scores)
        return self

    def predict_proba(self, X: Any, graph: Any, nodes: Any) -> np.ndarray:
        return self._probabilities(self.predict_targets(X, graph, nodes))

    def score(self, X: Any, y: Any, sample_weight: Any, graph: Any, nodes: Any) -> float:
        predicted = self.predict_proba(X, graph, nodes) > 0.5
        y, weights = self.check_score(X, y, sample_weight, graph, nodes, len(predicted))
        Y = check_indicators(y, len(predicted))
        if Y.shape != predicted.shape:
            raise InputError(
                f"y has {Y.shape[1]} labels per node, but the model was fitted with "
                f"{predicted.shape[1]}"
            )
        known = ~np.isnan(Y).any(axis=1)
        correct = np.all(predicted == Y, axis=1)[known]
        return float(np.average(correct, weights=positive_weights(weights[known])))

    def _probabilities(self, scores: np.ndarray) -> np.ndarray:
        return expit(scores * self.slopes_ + self.offsets_)


def fit_indicators(
    classifier: Any, X: Any, y: Any, sample_weight: Any, graph: Any, nodes: Any, validation: Any
) -> dict[str, Any]:
    """The learned attributes of a GPCAClassifier for a matrix of indicators."""
    if validation is not None or classifier.beta > 0 or classifier.feature_scaling == "tfidf":
        raise InputError(
            "a matrix y of indicators is not supported with validation, beta > 0 or "
            "feature_scaling='tfidf'; leave these arguments out"
        )
    given = classifier.get_params(deep=False)
    names = [name for name in MultiLabelModel().get_params() if name in given]
    model = MultiLabelModel(**{name: given[name] for name in names})
    model.set_params(propagate_residuals=classifier.correct)
    model.fit(X, y, sample_weight, classifier.class_weight, graph, nodes)
    used = {"boosting": model.boosting_, "correct": model.propagate_residuals_}
    learned = {name: value for name, value in vars(model).items() if name in SHARED_ATTRIBUTES}
    return learned | {
        "multilabel_": model,
        "members_": [],
        "used_": tuple(name for name, is_used in used.items() if is_used),
        "transduction_": (model.label_distributions_ > 0.5).astype(np.int64),
    }


def _calibrate(
    scores: np.ndarray, y: np.ndarray, weights: np.ndarray, class_weight: Any
) -> tuple[float, float]:
    """Slope and offset of the log odds of a label as a function of its left-out scores."""
    known = ~np.isnan(scores)
    s, y, weights = scores[known], y[known], weights[known]
    spread = float(np.std(s))
    if len(np.unique(y)) < 2 or spread == 0:
        share = (weights @ y + 0.5) / (weights.sum() + 1)
        return 0.0, float(logit(share))
    if class_weight is not None:
        with as_user_errors():
            by_class = compute_class_weight(class_weight, classes=np.arange(2), y=y.astype(int))
        weights = weights * by_class[y.astype(int)]
    model = LogisticRegression(C=1e4).fit((s / spread)[:, None], y, sample_weight=weights)
    return max(float(model.coef_[0, 0]), 0.0) / spread, float(model.intercept_[0])
