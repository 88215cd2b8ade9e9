"""GPCAClassifier: semi-supervised node classification in one object."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from .alignment import RowIndex, align_to_rows, check_graph, part_of
from .errors import InputError, InputTypeError
from .gpca import GPCA, LARGEST_ALPHA
from .graph import Graph
from .head import CorrectAndSmooth
from .judge import Judge
from .labels import UNLABELED
from .path import GPCAPath
from .seen import SeenNodes
from .selection import Candidate, Fold, choose, is_clearly_better, make_folds
from .validation import (
    as_user_errors,
    check_choice,
    check_features,
    check_held_out,
    check_labels,
    check_number,
    check_weights,
)

# What is tried where nothing is given, the default first (see selection.choose).
FEATURE_SCALINGS = ("l2", "none", "tfidf")
EMBEDDING_NORMS = (False, True)
INVERSE_PENALTIES = (0.3, 1.0, 0.1, 3.0, 10.0)

SETTINGS_OF_A_PATH = ("n_components", "normalization", "ghost", "tol", "max_iter")

#: What GPCAPath has no say in: set to something else, each alpha is fitted by itself.
SETTINGS_OF_ONE_FIT = ("solver", "n_iter", "eigen_solver", "precision", "memory_limit")


class GPCAClassifier(ClassifierMixin, BaseEstimator):
    """GPCA embeddings with a logistic head, its settings decided on held-out labels.

    Whatever is left at ``"auto"`` is decided by accuracy on labelled nodes that are held out in
    turn (or on a validation set handed to ``fit``). A default setting is kept unless another
    one beats it by more than a standard error.

    Parameters
    ----------
    n_components : int, optional
        Width of the embedding. By default 128, or all there are if fewer.
    alpha : float or sequence of float
        Strength of the graph, as in :class:`GPCA`.
    combine : {"average", "select"}
        With several alphas: average their probabilities, or decide for one alpha.
    feature_scaling : {"auto", "l2", "none", "tfidf"}
        Scaling of the rows of X: to unit length, none, or tf-idf for counts of words and the
        like (tried only where no value is negative).
    normalize_embedding : {"auto"} or bool
        Whether rows of Z are brought to unit length.
    C : {"auto"} or float
        Inverse penalty of the logistic head.
    correct_and_smooth : {"auto"} or bool
        Whether known labels are spread over the graph on top of the head's probabilities. Acts
        only on the nodes of ``fit``, where the labels are.
    cv : int
        Number of parts in which labelled nodes are held out.
    random_state : int, RandomState or None
        Deals labelled nodes to the parts.
    beta, normalization, ghost, solver, n_iter, tol, max_iter, eigen_solver, precision, memory_limit
        As in :class:`GPCA`, the limit for one embedding at a time. With ``beta > 0`` held-out
        labels add no ghost edges, so every part needs embeddings of its own.

    Attributes
    ----------
    classes_ : ndarray
    transduction_ : ndarray of shape (n_nodes,)
        Predicted label of every node of ``fit``.
    label_distributions_ : ndarray of shape (n_nodes, n_classes)
        Its probabilities.
    alphas_, feature_scaling_, normalize_embedding_, C_, correct_and_smooth_
        What was decided.
    validation_score_ : float
        Accuracy on held-out labels of what was decided; NaN if nothing could be held out.
    gpca_ : list of GPCA
        The embeddings, one for each of ``alphas_``.
    n_iter_ : int
        Most steps any of their solvers took.
    n_nodes_in_ : int or None
        Number of nodes of the graph in ``fit``; None if it was given no graph.
    matched_by_id_ : bool
        Whether rows of a DataFrame were matched with the ids of the nodes.
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn.

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

    def fit(
        self, X: Any, y: Any, *, graph: Any = None, nodes: Any = None, validation: Any = None
    ) -> Self:
        """Embed, decide, and train the head.

        Parameters
        ----------
        X : array-like or sparse of shape (n_nodes, n_features)
        y : array-like of shape (n_nodes,)
            Labels, -1 for unlabelled nodes. A missing value (None, NaN, empty text) and what
            pandas and R write for one (NA, null) mean unlabelled as well. A Series is matched
            by its index where the graph has node ids.
        graph : Graph or what becomes one, optional
        nodes : array-like of int, optional
            Position of each row of X in the graph, if X holds only some of its nodes.
        validation : array-like of bool or of int, optional
            Labelled rows that only decide and never train: a mask, or positions.
        """
        self._check_parameters()
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
            train_codes = codes
            with as_user_errors():
                seed = check_random_state(self.random_state).randint(2**31)
            folds = make_folds(codes, self.cv, np.random.default_rng(seed), nodes)
        else:
            if np.asarray(validation).dtype == bool:  # a mask has a value per row
                validation = align_to_rows(validation, graph, nodes, index, "validation")
            held_out = check_held_out(validation, codes, self.classes_)
            train_codes = np.where(held_out, UNLABELED, codes)
            folds = [Fold(np.flatnonzero(train_codes >= 0), np.flatnonzero(held_out))]

        def embed(scaled: Any, y: np.ndarray) -> Iterator[tuple[float, GPCA, np.ndarray]]:
            return self._embed(scaled, y, graph, nodes)

        judge = Judge(embed, X, codes, graph, nodes, sees_labels=self.beta > 0)
        chosen = self._decide(judge, folds)
        self._learn(judge, chosen, train_codes)
        return self

    def predict_proba(self, X: Any, *, graph: Any = None, nodes: Any = None) -> np.ndarray:
        """Class probabilities of the nodes of any graph, in the order of ``classes_``."""
        check_is_fitted(self)
        index = RowIndex.of(X)
        X = check_features(self, X, reset=False)
        n_rows = X.shape[0]
        graph, nodes = check_graph(graph, nodes, n_rows, index=index, fitted=self)
        scaled = self._scaler.transform(X)
        codes, seen = None, None if self._labelled is None else self._labelled.on(graph)
        if seen is not None:
            scaled, nodes, codes = seen.beside(scaled, nodes)
        probabilities = np.mean(
            [
                head.predict_proba(gpca.transform(scaled, graph=graph, nodes=nodes))
                for gpca, head in zip(self.gpca_, self._heads, strict=True)
            ],
            axis=0,
        )
        if codes is not None:
            probabilities = CorrectAndSmooth(part_of(graph, nodes))(probabilities, codes)
        return probabilities[:n_rows]

    def predict(self, X: Any, *, graph: Any = None, nodes: Any = None) -> np.ndarray:
        """The most probable class of each node of any graph."""
        probabilities = self.predict_proba(X, graph=graph, nodes=nodes)
        return self.classes_[probabilities.argmax(axis=1)]

    def score(
        self, X: Any, y: Any, sample_weight: Any = None, *, graph: Any = None, nodes: Any = None
    ) -> float:
        """Accuracy on the labelled nodes of y."""
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
        known = codes >= 0
        right = predicted[known] == classes[codes[known]]
        if sample_weight is None:
            return float(np.mean(right))
        sample_weight = align_to_rows(sample_weight, *rows, index, "sample_weight")
        return float(np.average(right, weights=check_weights(sample_weight, n_rows)[known]))

    # -- the fit --------------------------------------------------------------------------

    def _decide(self, judge: Judge, folds: list[Fold]) -> Candidate:
        candidates = self._candidates(judge.X)
        chosen, score = candidates[0], float("nan")
        smooth = self.correct_and_smooth is True
        if folds:
            n_judged = sum(len(fold.held_out) for fold in folds)
            chosen, score = choose(candidates, lambda c: judge.accuracy(c, folds), n_judged)
            if self.correct_and_smooth is not False:
                smoothed = judge.accuracy(chosen, folds, smooth=True)
                smooth = smooth or is_clearly_better(smoothed, score, n_judged)
                score = smoothed if smooth else score
        self.alphas_ = chosen.alphas
        self.feature_scaling_ = chosen.feature_scaling
        self.normalize_embedding_ = chosen.normalize_embedding
        self.C_ = chosen.C
        self.correct_and_smooth_ = smooth
        self.validation_score_ = score
        return chosen

    def _learn(self, judge: Judge, chosen: Candidate, train_codes: np.ndarray) -> None:
        train = np.flatnonzero(train_codes >= 0)
        models = [judge.model(chosen, alpha, train) for alpha in self.alphas_]
        self._scaler = judge.scaler(chosen.feature_scaling)
        self.gpca_ = [gpca for gpca, _ in models]
        self._heads = [head for _, head in models]
        self.n_iter_ = max(gpca.n_iter_ for gpca in self.gpca_)
        # Training labels are needed at prediction time only for correct-and-smooth.
        self._labelled: SeenNodes | None = None
        if self.correct_and_smooth_:
            rows = None if judge.nodes is None else judge.scaled(chosen.feature_scaling)
            self._labelled = SeenNodes(judge.graph, judge.nodes, rows, train_codes)
        distributions = judge.probabilities(chosen, train, smooth=self.correct_and_smooth_)
        self.label_distributions_ = distributions
        self.transduction_ = self.classes_[distributions.argmax(axis=1)]

    def _candidates(self, X: Any) -> list[Candidate]:
        alphas = tuple(float(alpha) for alpha in np.atleast_1d(np.asarray(self.alpha)))
        middle_first = sorted(range(len(alphas)), key=lambda i: abs(i - len(alphas) // 2))
        groups = [alphas] if self.combine == "average" else [(alphas[i],) for i in middle_first]
        scalings: tuple[str, ...] = FEATURE_SCALINGS
        lowest = (X.data if sp.issparse(X) else X).min(initial=0)
        if lowest < 0:
            scalings = tuple(scaling for scaling in scalings if scaling != "tfidf")
            if self.feature_scaling == "tfidf":
                raise InputError(
                    f"feature_scaling='tfidf' needs X without negative values, but there is "
                    f"{lowest:g}; use 'l2' or 'none'"
                )
        return [
            Candidate(alphas=group, feature_scaling=scaling, normalize_embedding=norm, C=C)
            for scaling, group, norm, C in itertools.product(
                _given_or(self.feature_scaling, scalings),
                groups,
                _given_or(self.normalize_embedding, EMBEDDING_NORMS),
                _given_or(self.C, INVERSE_PENALTIES),
            )
        ]

    def _embed(
        self, X: Any, y: np.ndarray, graph: Graph, nodes: np.ndarray | None
    ) -> Iterator[tuple[float, GPCA, np.ndarray]]:
        """The embedding of every alpha, by one path where that is quicker.

        It is where X has many features. Elsewhere what a path shares is X^T F, and every Z is a
        solve more, while a fit by itself has Z as soon as it has W.
        """
        alphas = [float(alpha) for alpha in np.unique(np.asarray(self.alpha))]
        first = self._gpca(alphas[0])
        own = {name: getattr(self, name) for name in SETTINGS_OF_ONE_FIT}
        is_free = all(value == getattr(GPCA(), name) for name, value in own.items())
        if len(alphas) > 1 and is_free and first._use_lanczos(X, first._width(X)):
            shared = {name: getattr(self, name) for name in SETTINGS_OF_A_PATH}
            path = GPCAPath(alphas=alphas, betas=(self.beta,), **shared)
            path.fit(X, y, graph=graph, nodes=nodes)
            for alpha in alphas:
                yield alpha, *path.fitted(alpha, self.beta)
            return
        for alpha in alphas:
            gpca = self._gpca(alpha)
            yield alpha, gpca, gpca.fit_transform(X, y, graph=graph, nodes=nodes)

    def _gpca(self, alpha: float) -> GPCA:
        shared = {name: getattr(self, name) for name in GPCA().get_params() if name != "alpha"}
        return GPCA(alpha=alpha, **shared)

    # -- doors ----------------------------------------------------------------------------

    def _check_parameters(self) -> None:
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
            check_number("C", self.C, 1e-12, advice="use C='auto' to have it decided")
        check_number("cv", self.cv, 2, integer=True, advice="5 is the default")
        self._gpca(float(alphas[0]))._check_parameters()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _given_or(value: Any, tried: tuple[Any, ...]) -> tuple[Any, ...]:
    return tried if isinstance(value, str) and value == "auto" else (value,)
