"""GPCAClassifier: semi-supervised node classification with model selection."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from ..errors import InputError, InputTypeError
from ..graph import Graph
from ..utils.checks import check_choice, check_number
from ._alignment import RowIndex, align_to_rows, check_graph, row_subgraph
from ._model_selection import (
    FEATURE_SCALINGS,
    Candidate,
    CandidateEvaluator,
    Fold,
    is_clearly_better,
    make_candidates,
    make_folds,
    select_candidate,
)
from ._problem import LARGEST_ALPHA, Parameters, check_n_components
from .gpca import GPCA
from .heads import correct_and_smooth
from .path import GPCAPath
from .training_nodes import TrainingNodes, check_keep, join_training_rows
from .validation import as_user_errors, check_features, check_held_out, check_labels, check_weights

#: Parameters that GPCAPath shares with GPCA.
PATH_PARAMETERS = ("n_components", "normalization", "ghost", "tol", "max_iter")

#: Parameters that GPCAPath does not have; if one is set, every alpha is fitted separately.
SEPARATE_PARAMETERS = ("solver", "n_iter", "eigen_solver", "precision", "memory_limit")


class GPCAClassifier(ClassifierMixin, BaseEstimator):
    """Semi-supervised node classifier: GPCA embeddings and logistic regression.

    Parameters set to ``"auto"`` are chosen by their accuracy on held-out labels: in
    cross-validation, or on a validation set passed to ``fit``. The default value is kept unless
    another one is better by more than one standard error.

    Parameters
    ----------
    n_components : int, default=None
        Number of components of the embedding. If None, 128, or all if there are fewer.
    alpha : float or sequence of float, default=(5.0, 10.0, 20.0)
        Strength of the graph regularisation, as in :class:`GPCA`.
    combine : {"average", "select"}, default="average"
        With several alphas: average their probabilities, or choose one alpha.
    feature_scaling : {"auto", "l2", "none", "tfidf"}, default="auto"
        Scaling of the rows of X: to unit norm, none, or tf-idf for counts (tried only if X has no
        negative values).
    normalize_embedding : bool or "auto", default="auto"
        Whether to scale the rows of the embedding to unit norm.
    C : float or "auto", default="auto"
        Inverse of the regularisation strength of the logistic regression.
    correct_and_smooth : bool or "auto", default="auto"
        Whether to propagate the training labels over the graph and correct the predicted
        probabilities by them. This has an effect on the graph of ``fit`` only.
    cv : int, default=5
        Number of cross-validation folds.
    random_state : int, RandomState instance or None, default=0
        Determines the folds.
    keep_training_nodes : bool, default=None
        Whether the fitted object, also when saved, keeps X and the graph, so that new nodes can be
        predicted from their own rows and edges. By default they are kept if ``nodes`` is passed
        or rows have ids.
    beta, normalization, ghost, solver, n_iter, tol, max_iter, eigen_solver, precision, memory_limit
        As in :class:`GPCA`; the memory limit holds for one embedding at a time. With
        ``beta > 0``, held-out labels add no ghost edges, so every fold has its own embeddings.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The class labels.
    transduction_ : ndarray of shape (n_nodes,)
        Predicted label of every row of X in ``fit``.
    label_distributions_ : ndarray of shape (n_nodes, n_classes)
        Predicted class probabilities of every row of X in ``fit``.
    alphas_, feature_scaling_, normalize_embedding_, C_, correct_and_smooth_
        The chosen values.
    validation_score_ : float
        Accuracy of the chosen values on held-out labels; NaN if no label could be held out.
    gpca_ : list of GPCA
        The fitted embeddings, one for each of ``alphas_``.
    heads_ : list
        The fitted logistic regressions, one for each of ``alphas_``.
    scaler_ : object
        The fitted feature scaling.
    training_nodes_ : object or None
        Rows, labels and graph of ``fit`` that predictions need.
    n_iter_ : int
        Largest number of solver iterations of the embeddings.
    n_nodes_in_ : int or None
        Number of nodes of the graph in ``fit``; None if no graph was passed.
    matched_by_id_ : bool
        Whether the rows of a DataFrame were matched with the node ids of the graph.
    n_features_in_ : int
        Number of features seen during ``fit``.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of features seen during ``fit``. Defined only if X has string feature names.

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
        alpha: float | Sequence[float] = (5.0, 10.0, 20.0),
        combine: str = "average",
        feature_scaling: str = "auto",
        normalize_embedding: bool | str = "auto",
        C: float | str = "auto",
        correct_and_smooth: bool | str = "auto",
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
        self.combine = combine
        self.feature_scaling = feature_scaling
        self.normalize_embedding = normalize_embedding
        self.C = C
        self.correct_and_smooth = correct_and_smooth
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
        self, X: Any, y: Any, *, graph: Any = None, nodes: Any = None, validation: Any = None
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
        if validation is None:
            train = np.flatnonzero(codes >= 0)
            with as_user_errors():
                seed = check_random_state(self.random_state).randint(2**31)
            folds = make_folds(codes, self.cv, np.random.default_rng(seed), nodes)
        else:
            if np.asarray(validation).dtype == bool:  # a mask has one value per row
                validation = align_to_rows(validation, graph, nodes, index, "validation")
            held_out = check_held_out(validation, codes, self.classes_)
            train = np.flatnonzero((codes >= 0) & ~held_out)
            folds = [Fold(train, np.flatnonzero(held_out))]
        embed = partial(self._embed, graph=graph, nodes=nodes)
        evaluator = CandidateEvaluator(embed, X, codes, graph, nodes, uses_labels=self.beta > 0)
        chosen = self._select(evaluator, folds)
        self._learn(evaluator, chosen, train)
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
        X = self.scaler_.transform(X)
        probabilities = np.mean(
            [
                head.predict_proba(gpca.transform(X, graph=graph, nodes=nodes))
                for gpca, head in zip(self.gpca_, self.heads_, strict=True)
            ],
            axis=0,
        )
        if codes is not None and self.correct_and_smooth_:
            subgraph = row_subgraph(graph, nodes)
            probabilities = correct_and_smooth(subgraph, probabilities, codes)
        return probabilities[:n_rows]

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

    def check_parameters(self) -> None:
        """Raise if a parameter has a value that is not allowed."""
        alphas = np.atleast_1d(np.asarray(self.alpha, dtype=object))
        if alphas.ndim != 1 or len(alphas) == 0:
            raise InputError(f"alpha={self.alpha!r} must be a number or a list of numbers")
        for alpha in alphas:
            check_number("alpha", alpha, 0, LARGEST_ALPHA, advice="use alpha=0 to ignore the graph")
        check_choice("combine", self.combine, ("average", "select"))
        check_choice("feature_scaling", self.feature_scaling, ("auto", *FEATURE_SCALINGS))
        for name in ("normalize_embedding", "correct_and_smooth"):
            value = getattr(self, name)
            if not (isinstance(value, bool) or (isinstance(value, str) and value == "auto")):
                raise InputError(f"{name}={value!r} must be True, False or 'auto'")
        if not (isinstance(self.C, str) and self.C == "auto"):
            check_number("C", self.C, 1e-12, advice="use C='auto' to choose it by accuracy")
        check_keep(self.keep_training_nodes)
        check_number("cv", self.cv, 2, integer=True, advice="5 is the default")
        Parameters.of(make_gpca(self, float(alphas[0])))

    # -- fit ------------------------------------------------------------------------------

    def _select(self, evaluator: CandidateEvaluator, folds: list[Fold]) -> Candidate:
        """Choose the settings on the held-out labels of the folds."""
        candidates = make_candidates(self, evaluator.X)
        chosen, score = candidates[0], float("nan")
        smooth = self.correct_and_smooth is True
        if folds:
            n_held_out = sum(len(fold.held_out) for fold in folds)
            accuracy = partial(evaluator.accuracy, folds=folds)
            chosen, score = select_candidate(candidates, accuracy, n_held_out)
            if self.correct_and_smooth is not False:
                smoothed = accuracy(chosen, smooth=True)
                smooth = smooth or is_clearly_better(smoothed, score, n_held_out)
                score = smoothed if smooth else score
        self.alphas_ = chosen.alphas
        self.feature_scaling_ = chosen.feature_scaling
        self.normalize_embedding_ = chosen.normalize_embedding
        self.C_ = chosen.C
        self.correct_and_smooth_ = smooth
        self.validation_score_ = score
        return chosen

    def _learn(self, evaluator: CandidateEvaluator, chosen: Candidate, train: np.ndarray) -> None:
        """Fit the chosen settings on all training labels."""
        fitted = [evaluator.fitted(chosen, alpha, train) for alpha in self.alphas_]
        self.scaler_ = evaluator.scaler(chosen.feature_scaling)
        self.gpca_ = [gpca for gpca, _ in fitted]
        self.heads_ = [head for _, head in fitted]
        self.n_iter_ = max(gpca.n_iter_ for gpca in self.gpca_)
        # Training labels are needed at prediction time only for correct-and-smooth.
        codes = evaluator.training_codes(train) if self.correct_and_smooth_ else None
        self.training_nodes_ = TrainingNodes.kept(
            evaluator.graph, evaluator.nodes, evaluator.X, codes, keep=self.keep_training_nodes
        )
        distributions = evaluator.probabilities(chosen, train, smooth=self.correct_and_smooth_)
        self.label_distributions_ = distributions
        self.transduction_ = self.classes_[distributions.argmax(axis=1)]

    def _embed(
        self, X: Any, y: np.ndarray, *, graph: Graph, nodes: np.ndarray | None
    ) -> Iterator[tuple[float, GPCA, np.ndarray]]:
        """Yield alpha, the fitted GPCA and the embedding for every alpha.

        With many features, one GPCAPath for all alphas is faster. With few, a separate fit
        computes Z along with W, while a path needs one more solve for each Z.
        """
        alphas = [float(alpha) for alpha in np.unique(np.asarray(self.alpha))]
        first = make_gpca(self, alphas[0])
        has_defaults = all(
            getattr(self, name) == getattr(GPCA(), name) for name in SEPARATE_PARAMETERS
        )
        k = check_n_components(first.n_components, X)
        strategy = Parameters.of(first).strategy(X, k)
        if len(alphas) > 1 and has_defaults and strategy == "lanczos":
            shared = {name: getattr(self, name) for name in PATH_PARAMETERS}
            keep = first.keep_training_nodes
            path = GPCAPath(alphas=alphas, betas=(self.beta,), keep_training_nodes=keep, **shared)
            path.fit(X, y, graph=graph, nodes=nodes)
            for alpha in alphas:
                yield alpha, *path.fitted(alpha, self.beta)
            return
        for alpha in alphas:
            gpca = make_gpca(self, alpha)
            yield alpha, gpca, gpca.fit_transform(X, y, graph=graph, nodes=nodes)

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
