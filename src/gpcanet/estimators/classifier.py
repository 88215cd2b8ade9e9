"""GPCAClassifier: semi-supervised node classification with model selection."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from ..errors import InputError, InputTypeError
from ..utils.checks import check_choice, check_number
from ._alignment import RowIndex, align_to_rows, check_graph, row_subgraph
from ._embeddings import EmbeddingGrid, degree_columns
from ._ensemble import (
    USES,
    evaluate,
    fit_members,
    label_weights,
    mean_probabilities,
    with_priors,
)
from ._label_propagation import LabelPropagation
from ._model_selection import (
    FEATURE_SCALINGS,
    Fold,
    HeadFitter,
    Member,
    make_candidates,
    make_folds,
    select_members,
    usual_candidates,
)
from ._problem import LARGEST_ALPHA, Parameters, TrainingData
from .gpca import GPCA
from .heads import with_temperature
from .training_nodes import check_keep, join_training_rows
from .validation import as_user_errors, check_features, check_held_out, check_labels, check_weights

#: Parameters that are True, False or "auto".
SWITCHES = ("normalize_embedding", *USES)


class GPCAClassifier(ClassifierMixin, BaseEstimator):
    """Semi-supervised node classifier: GPCA embeddings and an average of classifiers on them.

    Candidates are all combinations of the parameters below that are lists or ``"auto"``. Each is
    evaluated on held-out labels: in cross-validation, or on a validation set passed to ``fit``.
    The prediction is the mean of the probabilities of the best ``n_members`` candidates, without
    those that are clearly worse than the best one.

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
    feature_scaling : {"auto", "l2", "none", "tfidf"}, default="auto"
        Scaling of the rows of X: to unit norm, none, or tf-idf for counts (tried only if X has no
        negative values).
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
        training labels, at most 64 features and at most 200,000 labels times classes.
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
        The class labels.
    transduction_ : ndarray of shape (n_nodes,)
        Predicted label of every row of X in ``fit``.
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
    gpca_ : list of GPCA
        The fitted embeddings of the members.
    scalers_ : list
        The fitted feature scaling of each embedding.
    members_ : list
        The fitted members.
    statistics_ : object or None
        The standardisation of the statistics, if they are used.
    training_nodes_ : object or None
        Rows, labels and graph of ``fit`` that predictions need.
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
    __metadata_request__predict = {"graph": True, "nodes": True}
    __metadata_request__predict_proba = {"graph": True, "nodes": True}
    __metadata_request__score = {"graph": True, "nodes": True}

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
        y : array-like of shape (n_nodes,)
            Labels; -1 for unlabelled nodes. Missing values (None, NaN, masked, empty text, and
            the words NA and null) also mean unlabelled. If the graph has node ids, a Series is
            matched by its index.
        sample_weight : array-like of shape (n_nodes,), default=None
            Weights of the labels in the training and in the evaluation of candidates. They do not
            change the embeddings.
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
        self.check_parameters()
        index, with_graph = RowIndex.of(X), graph is not None
        X = check_features(self, X, reset=True)
        if y is None:
            raise InputError("requires y to be passed, but the target y is None")
        graph, nodes = check_graph(graph, nodes, X.shape[0], index=index)
        self.n_nodes_in_ = graph.n_nodes if with_graph else None
        self.matched_by_id_ = index is not None and graph.node_ids is not None
        codes, self.classes_ = check_labels(align_to_rows(y, graph, nodes, index, "y"), X.shape[0])
        if len(self.classes_) < 2:
            raise InputError(
                f"y has the one class {self.classes_.tolist()[0]!r}; at least 2 are needed"
            )
        with as_user_errors():
            seed = check_random_state(self.random_state).randint(2**31)
        if validation is None:
            train = np.flatnonzero(codes >= 0)
            folds = make_folds(codes, self.cv, np.random.default_rng(seed), nodes)
        else:
            if np.asarray(validation).dtype == bool:  # a mask has one value per row
                validation = align_to_rows(validation, graph, nodes, index, "validation")
            held_out = check_held_out(validation, codes, self.classes_)
            train = np.flatnonzero((codes >= 0) & ~held_out)
            folds = [Fold(train, np.flatnonzero(held_out))]
        if sample_weight is not None:
            sample_weight = align_to_rows(sample_weight, graph, nodes, index, "sample_weight")
        weights = label_weights(sample_weight, self.class_weight, codes, train, self.classes_)
        data = TrainingData(X, graph, nodes, codes, with_graph, self.matched_by_id_)
        has_edges = row_subgraph(graph, nodes).n_edges > 0
        candidates = make_candidates(self, X, len(train), len(self.classes_), has_edges=has_edges)
        grid = EmbeddingGrid(make_gpca(self, 0.0), [one.alpha for one in candidates], data)
        priority = np.random.default_rng(seed).random(graph.n_nodes)
        fitter = HeadFitter(grid, weights, priority if nodes is None else priority[nodes])
        if folds:
            members, folds = select_members(candidates, fitter, folds, self.n_members)
        else:
            usual = usual_candidates(candidates)[: self.n_members]
            members = [Member(candidate, 1.0, []) for candidate in usual]
        grid.keep_only({member.candidate.embedding for member in members})
        evaluation = evaluate(fitter, members, folds, (self.correct, self.smooth))
        self.__dict__.update(
            fit_members(
                fitter, members, train, evaluation, self.keep_training_nodes, self._uses_priors
            )
        )
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
        index = RowIndex.of(X)
        X = check_features(self, X, reset=False)
        n_rows = X.shape[0]
        graph, nodes = check_graph(graph, nodes, n_rows, index=index, fitted=self)
        X, graph, nodes, codes = join_training_rows(self.training_nodes_, X, graph, nodes)
        scaled = [scaler.transform(X) for scaler in self.scalers_]
        embeddings = [
            gpca.transform(rows, graph=graph, nodes=nodes)
            for gpca, rows in zip(self.gpca_, scaled, strict=True)
        ]
        subgraph = row_subgraph(graph, nodes)
        table = None if self.statistics_ is None else self.statistics_.transform(subgraph, X)
        degrees = None
        if "degree" in self.used_:
            degrees = [degree_columns(subgraph, [gpca.alpha])[0] for gpca in self.gpca_]
        mean = mean_probabilities(self.members_, embeddings, scaled, degrees, table)
        steps = ("correct" in self.used_, "smooth" in self.used_)
        if codes is not None and any(steps):
            mean = LabelPropagation(subgraph, codes).apply(mean, *steps)
        return with_priors(with_temperature(mean, self.temperature_), self.prior_ratios_)[:n_rows]

    def predict(self, X: Any, *, graph: Any = None, nodes: Any = None) -> np.ndarray:
        """Predict the class labels for the nodes of any graph.

        The parameters are those of ``predict_proba``.

        Returns
        -------
        y : ndarray of shape (n_nodes,)
        """
        probabilities = self.predict_proba(X, graph=graph, nodes=nodes)
        return self.classes_[probabilities.argmax(axis=1)]

    def score(
        self, X: Any, y: Any, sample_weight: Any = None, *, graph: Any = None, nodes: Any = None
    ) -> float:
        """Return the accuracy on the labelled nodes of y.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_nodes, n_features)
        y : array-like of shape (n_nodes,)
            True labels; -1 or missing for unlabelled nodes, which are ignored.
        sample_weight : array-like of shape (n_nodes,), default=None
        graph, nodes
            As in ``predict_proba``.

        Returns
        -------
        score : float
        """
        index = RowIndex.of(X)
        predicted = self.predict(X, graph=graph, nodes=nodes)
        n_rows = len(predicted)
        rows = check_graph(graph, nodes, n_rows, index=index)
        codes, classes = check_labels(align_to_rows(y, *rows, index, "y"), n_rows)
        if (classes.dtype.kind in "US") != (self.classes_.dtype.kind in "USO"):
            raise InputTypeError(
                f"y has labels such as {classes.tolist()[0]!r}, but the classes are "
                f"{self.classes_.tolist()[0]!r} and others; give text for text, numbers for numbers"
            )
        labeled = codes >= 0
        correct = predicted[labeled] == classes[codes[labeled]]
        if sample_weight is None:
            return float(np.mean(correct))
        sample_weight = align_to_rows(sample_weight, *rows, index, "sample_weight")
        return float(np.average(correct, weights=check_weights(sample_weight, n_rows)[labeled]))

    @property
    def _uses_priors(self) -> bool:
        return self.priors is True or (self.priors == "auto" and self.class_weight is None)

    @property
    def selected_(self) -> list[dict[str, Any]]:
        """The settings of each member, the best one first."""
        return [asdict(member.settings) for member in self.members_]

    def check_parameters(self) -> None:
        """Raise if a parameter has a value that is not allowed."""
        alphas = np.atleast_1d(np.asarray(self.alpha, dtype=object))
        if alphas.ndim != 1 or len(alphas) == 0:
            raise InputError(f"alpha={self.alpha!r} must be a number or a list of numbers")
        for alpha in alphas:
            check_number("alpha", alpha, 0, LARGEST_ALPHA, advice="use alpha=0 to ignore the graph")
        check_number("n_members", self.n_members, 1, integer=True, advice="10 is the default")
        check_choice("feature_scaling", self.feature_scaling, ("auto", *FEATURE_SCALINGS))
        for name in SWITCHES:
            value = getattr(self, name)
            if not (isinstance(value, bool) or (isinstance(value, str) and value == "auto")):
                raise InputError(f"{name}={value!r} must be True, False or 'auto'")
        if not (isinstance(self.C, str) and self.C == "auto"):
            check_number("C", self.C, 1e-12, advice="use C='auto' to choose it by accuracy")
        check_keep(self.keep_training_nodes)
        check_number("cv", self.cv, 2, integer=True, advice="5 is the default")
        balanced = isinstance(self.class_weight, str) and self.class_weight == "balanced"
        if not (balanced or self.class_weight is None or isinstance(self.class_weight, dict)):
            raise InputError(
                f"class_weight={self.class_weight!r} must be None, 'balanced' or a dict from "
                f"classes to weights"
            )
        Parameters.of(make_gpca(self, float(alphas[0])))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def make_gpca(classifier: GPCAClassifier, alpha: float) -> GPCA:
    """An unfitted GPCA with the parameters of a classifier and this alpha."""
    own = ("alpha", "keep_training_nodes")
    names = [name for name in GPCA().get_params() if name not in own]
    # The classifier adds the training rows itself.
    keep = False if classifier.keep_training_nodes is False else None
    parameters = {name: getattr(classifier, name) for name in names}
    return GPCA(alpha=alpha, keep_training_nodes=keep, **parameters)
