"""GPCAClassifier: semi-supervised node classification with model selection."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from ..errors import InputError, InputTypeError
from ..utils.checks import check_choice, check_number
from ._ensemble import USES, fit_ensemble, predict_ensemble
from ._model_selection import FEATURE_SCALINGS
from ._multilabel import fit_indicators
from ._predictor import GraphPredictor
from .problem import TrainingData
from .validation import (
    check_held_out,
    check_labels,
    forget_fit,
    is_indicator_matrix,
    positive_weights,
)

#: Parameters that are True, False or "auto".
SWITCHES = ("normalize_embedding", *USES)


class GPCAClassifier(ClassifierMixin, GraphPredictor):
    """Semi-supervised node classifier: GPCA embeddings and an average of classifiers on them.

    Candidates are all combinations of the parameters below that are lists or ``"auto"``. Each is
    evaluated on held-out labels: in cross-validation, or on a validation set passed to ``fit``.
    The prediction is the mean of the probabilities of the best ``n_members`` candidates, without
    those that are clearly worse than the best one.

    Several labels per node, given as a matrix of indicators, are predicted by the regressions of
    :class:`GPCARegressor`. Then only ``n_components``, ``alpha``, ``feature_scaling``,
    ``boosting``, ``correct`` and ``class_weight`` have an effect.

    Parameters
    ----------
    n_components : int, default=None
        Number of components of the embedding. If None, 128, or all if there are fewer.
    alpha : float or sequence of float, default=(0, 0.5, 2, 5, 10, 20, 50)
        Strength of the graph regularisation, as in :class:`GPCA`. With several alphas and more
        than ``2 * n_components`` features, all components are computed in one subspace of the
        features, and all solves to a tolerance of 1e-3.
    n_members : int, default=10
        Number of candidates whose probabilities are averaged; 1 selects the best one.
    feature_scaling : {"auto", "l2", "none", "tfidf", "standard"}, default="auto"
        Scaling of X: rows to unit norm, none, tf-idf for counts (tried only if X has no negative
        values), or columns to unit variance (tried only if X is dense and the standard deviations
        of its columns differ by a factor of 10 or more).
    normalize_embedding : bool or "auto", default="auto"
        Whether to scale the rows of the embedding to unit norm.
    C : float or "auto", default="auto"
        Inverse of the regularisation strength of the logistic regression; "auto" tries 0.1,
        1 and 10.
    features : bool or "auto", default="auto"
        Whether X itself is used beside its embedding; tried with at least 500 training labels.
    degree : bool or "auto", default="auto"
        Whether a column that grows with the degree is used beside the embedding:
        ``(I + alpha L)^-1 1``.
    statistics : bool or "auto", default="auto"
        Whether the degree and statistics of the neighbours' features are used beside the
        embedding; tried with at least 500 training labels and at most 64 features.
    boosting : bool or "auto", default="auto"
        Whether gradient boosting is used in place of logistic regression; tried with at least 500
        training labels, at most 64 features, at most 200,000 labels times classes and at most
        128 features times classes; two classes count as one.
    correct, smooth : bool or "auto", default="auto"
        The two steps of correct-and-smooth, which propagate the errors on training labels and
        then the labels themselves over the graph. "auto" uses a step if held-out labels are
        predicted clearly better with it. They have an effect on the graph of ``fit`` only.
    priors : bool or "auto", default="auto"
        Whether the probabilities are adjusted to class frequencies that are estimated on the
        unlabelled nodes. Labels are often chosen by class, so their frequencies are others. The
        adjustment is smaller if fewer held-out labels are predicted. "auto" adjusts unless
        ``class_weight`` is set.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, as in scikit-learn.
    cv : int, default=5
        Number of cross-validation folds.
    random_state : int, RandomState instance or None, default=0
        Determines the folds, and subsamples of many labels.
    keep_training_nodes : bool, default=None
        Whether the fitted object, also when saved, keeps X and the graph, so that new nodes can be
        predicted from their own rows and edges. By default they are kept if ``nodes`` is passed
        or rows have ids.
    beta, normalization, ghost, solver, n_iter, tol, max_iter, eigen_solver, precision, memory_limit
        As in :class:`GPCA`; the memory limit holds for one embedding at a time. With
        ``beta > 0``, held-out labels add no ghost edges, so every fold has its own embeddings. If
        one of them is set, every embedding is a separate fit of :class:`GPCA`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The class labels, or the names or positions of the columns of indicators.
    transduction_ : ndarray of shape (n_nodes,) or (n_nodes, n_classes)
        Predicted label, or indicators, of every row of X in ``fit``.
    label_distributions_ : ndarray of shape (n_nodes, n_classes)
        Predicted class probabilities of every row of X in ``fit``.
    selected_ : list of dict
        The settings of each member, the best one first.
    used_ : tuple of str
        Which of ``features``, ``degree``, ``statistics``, ``boosting``, ``correct``, ``smooth``
        and ``priors`` are used.
    temperature_ : float
        The averaged probabilities are calibrated by raising them to the power 1 / temperature.
    prior_ratios_ : ndarray of shape (n_classes,)
        Factors of the probabilities; see ``priors``.
    validation_score_, calibration_error_ : float
        Accuracy and expected calibration error on held-out labels, without ``priors``; NaN if no
        label could be held out.
    gpca_, scalers_ : list
        The fitted embeddings of the members, and the feature scaling of each.
    members_, statistics_, multilabel_, training_nodes_ : object
        What else predictions need.
    n_iter_ : int
        Largest number of solver iterations of the embeddings.
    n_nodes_in_, matched_by_id_, n_features_in_, feature_names_in_
        As in :class:`GPCA`.

    See Also
    --------
    GPCA : The embedding.

    Notes
    -----
    ``graph`` may be a :class:`Graph` or anything that converts to one. In cross-validation with
    scikit-learn, pass a :class:`Graph` and ``nodes=np.arange(len(X))``: scikit-learn splits
    ``nodes`` along with X, and would also split a matrix or a networkx graph.

    Examples
    --------
    >>> import numpy as np
    >>> from gpcanet import GPCAClassifier, Graph
    >>> X = np.array([[1.0, 0.2], [0.1, 0.3], [-1.1, 0.1], [0.0, -0.3]])
    >>> graph = Graph.from_edge_index([[0, 1, 2, 3], [1, 0, 3, 2]])
    >>> y = np.array([0, -1, 1, -1])  # two of four nodes are labelled
    >>> GPCAClassifier().fit(X, y, graph=graph).transduction_
    array([0, 0, 1, 1])
    """

    __metadata_request__fit = {"graph": True, "nodes": True, "validation": True}
    __metadata_request__predict_proba = {"graph": True, "nodes": True}

    def __init__(
        self,
        n_components: int | None = None,
        *,
        alpha: float | Sequence[float] = (0.0, 0.5, 2.0, 5.0, 10.0, 20.0, 50.0),
        n_members: int = 10,
        feature_scaling: str = "auto",
        normalize_embedding: bool | str = "auto",
        C: float | str = "auto",
        features: bool | str = "auto",
        degree: bool | str = "auto",
        statistics: bool | str = "auto",
        boosting: bool | str = "auto",
        correct: bool | str = "auto",
        smooth: bool | str = "auto",
        priors: bool | str = "auto",
        class_weight: Any = None,
        cv: int = 5,
        random_state: Any = 0,
        beta: float = 0.0,
        normalization: str = "sym",
        ghost: str = "balanced",
        solver: str = "auto",
        n_iter: int | None = None,
        tol: float | None = None,
        max_iter: int = 1000,
        eigen_solver: str = "auto",
        precision: str = "full",
        memory_limit: int | str | None = None,
        keep_training_nodes: bool | None = None,
    ) -> None:
        self.n_components = n_components
        self.alpha = alpha
        self.n_members = n_members
        self.feature_scaling = feature_scaling
        self.normalize_embedding = normalize_embedding
        self.C = C
        self.features = features
        self.degree = degree
        self.statistics = statistics
        self.boosting = boosting
        self.correct = correct
        self.smooth = smooth
        self.priors = priors
        self.class_weight = class_weight
        self.cv = cv
        self.random_state = random_state
        self.beta = beta
        self.normalization = normalization
        self.ghost = ghost
        self.solver = solver
        self.n_iter = n_iter
        self.tol = tol
        self.max_iter = max_iter
        self.eigen_solver = eigen_solver
        self.precision = precision
        self.memory_limit = memory_limit
        self.keep_training_nodes = keep_training_nodes

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        graph: Any = None,
        nodes: Any = None,
        validation: Any = None,
    ) -> Self:
        """Fit the embeddings and the classifier.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_nodes, n_features)
            Node features.
        y : array-like of shape (n_nodes,), or {array-like, sparse matrix} (n_nodes, n_labels)
            Labels; -1 for unlabelled nodes. Missing values (None, NaN, masked, empty text, and
            the words NA and null) also mean unlabelled. If the graph has node ids, a Series is
            matched by its index. A matrix has indicators: 1 if a node has a label, 0 if not.
        sample_weight : array-like of shape (n_nodes,), default=None
            Weights of the labels in the training and in the evaluation of candidates; a label of
            weight 0 is not propagated either. They do not change the embeddings.
        graph : Graph or object that converts to one, default=None
            The graph; None for no edges.
        nodes : array-like of int, default=None
            Position of each row of X in the graph, if X has only some of its nodes.
        validation : array-like of bool or int, default=None
            Labelled rows, as a mask or positions, that are used to choose parameters and not
            for training. If None, parameters are chosen by cross-validation.

        Returns
        -------
        self : object
            Fitted estimator.
        """
        if is_indicator_matrix(y):
            forget_fit(self)
            self.check_parameters()
            learned = fit_indicators(self, X, y, sample_weight, graph, nodes, validation)
            self.__dict__.update(learned)
            return self
        with_graph = graph is not None
        X, graph, nodes, (y, sample_weight, validation) = self.check_fit(
            X, graph, nodes, y=y, sample_weight=sample_weight, validation=validation
        )
        codes, self.classes_ = check_labels(y, X.shape[0])
        if len(self.classes_) < 2:
            raise InputError(
                f"y has only the class {self.classes_.tolist()[0]!r}; at least 2 are needed"
            )
        held_out = None
        if validation is not None:
            held_out = check_held_out(validation, codes, self.classes_)
        data = TrainingData(X, graph, nodes, codes, with_graph, self.matched_by_id_)
        self.multilabel_ = None
        self.__dict__.update(fit_ensemble(self, data, held_out, sample_weight))
        self.transduction_ = self.classes_[self.label_distributions_.argmax(axis=1)]
        return self

    def predict_proba(self, X: Any, *, graph: Any = None, nodes: Any = None) -> np.ndarray:
        """Predict class probabilities for the nodes of any graph.

        If ``fit`` has kept the training nodes, X may hold new nodes alone; ``graph`` contains these
        and the training nodes, as in :meth:`GPCA.transform`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_nodes, n_features)
        graph : Graph or object that converts to one, default=None
            Required if ``fit`` was given a graph.
        nodes : array-like of int, default=None
            Position of each row of X in the graph, if X has only some of its nodes.

        Returns
        -------
        probabilities : ndarray of shape (n_nodes, n_classes)
            In the order of ``classes_``.
        """
        check_is_fitted(self)
        if self.multilabel_ is not None:
            return self.multilabel_.predict_proba(X, graph, nodes)
        (X, graph, nodes, codes), n_rows = self.check_predict(X, graph, nodes)
        return predict_ensemble(self, X, graph, nodes, codes)[:n_rows]

    def predict(self, X: Any, *, graph: Any = None, nodes: Any = None) -> np.ndarray:
        """Predict the class labels for the nodes of any graph.

        The parameters are those of ``predict_proba``.

        Returns
        -------
        y : ndarray of shape (n_nodes,)
        """
        probabilities = self.predict_proba(X, graph=graph, nodes=nodes)
        if self.multilabel_ is not None:
            return (probabilities > 0.5).astype(np.int64)
        return self.classes_[probabilities.argmax(axis=1)]

    def score(
        self, X: Any, y: Any, sample_weight: Any = None, *, graph: Any = None, nodes: Any = None
    ) -> float:
        """Return the accuracy on the labelled nodes of y, or the share with all labels right.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_nodes, n_features)
        y : array-like
            True labels as in ``fit``; unlabelled nodes are ignored.
        sample_weight : array-like of shape (n_nodes,), default=None
        graph, nodes
            As in ``predict_proba``.

        Returns
        -------
        score : float
        """
        check_is_fitted(self)
        if self.multilabel_ is not None:
            return self.multilabel_.score(X, y, sample_weight, graph, nodes)
        predicted = self.predict(X, graph=graph, nodes=nodes)
        y, weights = self.check_score(X, y, sample_weight, graph, nodes, len(predicted))
        codes, classes = check_labels(y, len(predicted))
        if (classes.dtype.kind in "USO") != (self.classes_.dtype.kind in "USO"):
            raise InputTypeError(
                f"y has labels such as {classes.tolist()[0]!r}, but the classes are "
                f"{self.classes_.tolist()[0]!r} and others; give text for text, numbers for numbers"
            )
        labeled = codes >= 0
        correct = predicted[labeled] == classes[codes[labeled]]
        return float(np.average(correct, weights=positive_weights(weights[labeled])))

    @property
    def selected_(self) -> list[dict[str, Any]]:
        """The settings of each member, the best one first; empty for several labels per node."""
        return [asdict(member.settings) for member in self.members_]

    def check_parameters(self) -> None:
        """Raise if a parameter has a value that is not allowed."""
        check_number("n_members", self.n_members, 1, integer=True, advice="10 is the default")
        check_choice("feature_scaling", self.feature_scaling, ("auto", *FEATURE_SCALINGS))
        if not (isinstance(self.C, str) and self.C == "auto"):
            check_number("C", self.C, 1e-12, advice="use C='auto' to choose it by accuracy")
        check_number("cv", self.cv, 2, integer=True, advice="5 is the default")
        balanced = isinstance(self.class_weight, str) and self.class_weight == "balanced"
        if not (balanced or self.class_weight is None or isinstance(self.class_weight, dict)):
            raise InputError(
                f"class_weight={self.class_weight!r} must be None, 'balanced' or a dict from "
                f"classes to weights"
            )
        if isinstance(self.class_weight, dict):
            for name, weight in self.class_weight.items():
                advice = "use 0 to ignore the class"
                check_number(f"class_weight of {name!r}", weight, 0, advice=advice)
        self.check_common(SWITCHES)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.classifier_tags.multi_label = True
        return tags
