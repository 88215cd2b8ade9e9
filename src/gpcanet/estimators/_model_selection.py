"""Model selection of GPCAClassifier: candidates, folds, cross-validation and choice."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..errors import InputError
from ..graph import Graph
from ..utils.labels import UNLABELED
from ..utils.progress import report_progress
from ._alignment import row_subgraph
from .gpca import GPCA
from .heads import FeatureScaler, Head, correct_and_smooth

#: Values tried for feature_scaling="auto", the default first.
FEATURE_SCALINGS = ("l2", "none", "tfidf")

#: Values tried for normalize_embedding="auto", the default first.
EMBEDDING_NORMS = (False, True)

#: Values tried for C="auto", the default first.
INVERSE_PENALTIES = (0.3, 1.0, 0.1, 3.0, 10.0)


class Candidate(NamedTuple):
    """One combination of the settings that are chosen on held-out labels."""

    alphas: tuple[float, ...]  # their probabilities are averaged
    feature_scaling: str
    normalize_embedding: bool
    C: float


class Fold(NamedTuple):
    """Rows of labelled nodes for training and for evaluation."""

    train: np.ndarray
    held_out: np.ndarray


def make_candidates(classifier: Any, X: Any) -> list[Candidate]:
    """All candidates that the parameters of a GPCAClassifier allow for X, the default first."""
    alphas = tuple(float(alpha) for alpha in np.atleast_1d(np.asarray(classifier.alpha)))
    middle_first = sorted(range(len(alphas)), key=lambda i: abs(i - len(alphas) // 2))
    groups = [alphas] if classifier.combine == "average" else [(alphas[i],) for i in middle_first]
    scalings: tuple[str, ...] = FEATURE_SCALINGS
    lowest = (X.data if sp.issparse(X) else X).min(initial=0)
    if lowest < 0:
        scalings = tuple(scaling for scaling in scalings if scaling != "tfidf")
        if classifier.feature_scaling == "tfidf":
            raise InputError(
                f"feature_scaling='tfidf' needs X without negative values, but X has {lowest:g}; "
                f"use 'l2' or 'none'"
            )

    def values(parameter: str, tried: tuple[Any, ...]) -> tuple[Any, ...]:
        value = getattr(classifier, parameter)
        return tried if isinstance(value, str) and value == "auto" else (value,)

    return [
        Candidate(alphas=group, feature_scaling=scaling, normalize_embedding=norm, C=C)
        for scaling, group, norm, C in itertools.product(
            values("feature_scaling", scalings),
            groups,
            values("normalize_embedding", EMBEDDING_NORMS),
            values("C", INVERSE_PENALTIES),
        )
    ]


def make_folds(
    codes: np.ndarray, n_folds: int, rng: np.random.Generator, nodes: np.ndarray | None = None
) -> list[Fold]:
    """Stratified folds of the labelled rows.

    The fold of a node depends on its position in the graph (``nodes``), not on the order of the
    rows or the names of the classes. If no class has two nodes, there are no folds.
    """
    # StratifiedKFold would hold out the only node of a class, which then has no training node,
    # and raises if every class has fewer nodes than there are folds.
    fold_of = np.full(len(codes), -1)
    n_assigned = 0
    rows = np.arange(len(codes)) if nodes is None else np.argsort(nodes)
    rows = rows[codes[rows] >= 0]
    for code in dict.fromkeys(codes[rows].tolist()):
        members = rng.permutation(rows[codes[rows] == code])
        if len(members) > 1:
            # Each class starts at the fold after the last one, so that folds have equal size.
            fold_of[members] = (n_assigned + np.arange(len(members))) % n_folds
            n_assigned += len(members)
    labeled = np.flatnonzero(codes >= 0)
    return [
        Fold(labeled[fold_of[labeled] != fold], np.flatnonzero(fold_of == fold))
        for fold in np.unique(fold_of[fold_of >= 0])
    ]


def select_candidate(
    candidates: list[Candidate], accuracy: Callable[[Candidate], float], n_held_out: int
) -> tuple[Candidate, float]:
    """Return the candidate to use and its accuracy.

    It is the best candidate if that beats the first by more than one standard error, else the
    first: on a few dozen labels, the best of many candidates is mostly the luckiest.
    """
    scores = {}
    for candidate in candidates:
        scores[candidate] = accuracy(candidate)
        report_progress("trying settings", len(scores), len(candidates))
    best, chosen = max(scores, key=scores.__getitem__), candidates[0]
    if is_clearly_better(scores[best], scores[chosen], n_held_out):
        chosen = best
    return chosen, scores[chosen]


def is_clearly_better(accuracy: float, other: float, n_held_out: int) -> bool:
    """Whether an accuracy on n_held_out nodes exceeds another by more than a standard error."""
    return accuracy > other + math.sqrt(accuracy * (1 - accuracy) / n_held_out)


class CandidateEvaluator:
    """Fits candidates on training labels and evaluates them on held-out labels.

    Embeddings are cached for the labelled nodes. Embeddings of all nodes are cached only for
    candidates whose probabilities were computed for all nodes.

    Parameters
    ----------
    embed : callable
        ``embed(X, codes)`` yields alpha, the fitted GPCA and the embedding of X for every alpha.
    X, codes, graph, nodes
        Features, class codes (-1 for unlabelled), and the position of each row in the graph.
    uses_labels : bool
        Whether embeddings depend on the training labels.
    """

    def __init__(
        self,
        embed: Callable[[Any, np.ndarray], Iterable[tuple[float, GPCA, np.ndarray]]],
        X: Any,
        codes: np.ndarray,
        graph: Graph,
        nodes: np.ndarray | None,
        *,
        uses_labels: bool,
    ) -> None:
        self.X, self.codes = X, codes
        self.graph, self.nodes = graph, nodes
        self._embed, self._uses_labels = embed, uses_labels
        self._labeled = np.flatnonzero(codes >= 0)
        self._labeled_position = np.cumsum(codes >= 0) - 1  # row -> position among labelled rows
        self._labeled_embeddings: dict[tuple[Any, ...], tuple[GPCA, np.ndarray]] = {}
        self._full_embeddings: dict[tuple[str, float], np.ndarray] = {}
        self._scalers: dict[str, FeatureScaler] = {}
        self._scaled: tuple[str, Any] = ("none", X)

    def accuracy(
        self, candidate: Candidate, folds: Iterable[Fold], *, smooth: bool = False
    ) -> float:
        """Cross-validated accuracy, optionally with correct-and-smooth."""
        correct = []
        for train, held_out in folds:
            if smooth:
                probabilities = self.probabilities(candidate, train, smooth=True)[held_out]
            else:
                probabilities = np.mean(
                    [
                        self._head(candidate, alpha, train).predict_proba(
                            self._labeled_rows(candidate, alpha, train, held_out)
                        )
                        for alpha in candidate.alphas
                    ],
                    axis=0,
                )
            correct.append(probabilities.argmax(axis=1) == self.codes[held_out])
        return float(np.mean(np.concatenate(correct)))

    def fitted(self, candidate: Candidate, alpha: float, train: np.ndarray) -> tuple[GPCA, Head]:
        """GPCA and head for one alpha, fitted on these labelled rows."""
        gpca, _ = self._labeled_embedding(candidate.feature_scaling, alpha, train)
        return gpca, self._head(candidate, alpha, train)

    def probabilities(self, candidate: Candidate, train: np.ndarray, *, smooth: bool) -> np.ndarray:
        """Class probabilities of all rows, from training on these labelled rows."""
        probabilities = []
        for alpha in candidate.alphas:
            gpca, head = self.fitted(candidate, alpha, train)
            key = candidate.feature_scaling, alpha
            Z = self._full_embeddings.get(key)
            if Z is None:
                scaled = self.scaled(candidate.feature_scaling)
                Z = gpca.transform(scaled, graph=self.graph, nodes=self.nodes)
            if not self._uses_labels:  # then all folds share the embedding
                self._full_embeddings[key] = Z
            probabilities.append(head.predict_proba(Z))
        mean = np.mean(probabilities, axis=0)
        if not smooth:
            return mean
        graph = row_subgraph(self.graph, self.nodes)
        return correct_and_smooth(graph, mean, self.training_codes(train))

    def _head(self, candidate: Candidate, alpha: float, train: np.ndarray) -> Head:
        head = Head(candidate.C, unit_rows=candidate.normalize_embedding)
        return head.fit(self._labeled_rows(candidate, alpha, train, train), self.codes[train])

    def _labeled_rows(
        self, candidate: Candidate, alpha: float, train: np.ndarray, rows: np.ndarray
    ) -> np.ndarray:
        _, Z = self._labeled_embedding(candidate.feature_scaling, alpha, train)
        return Z[self._labeled_position[rows]]

    def _labeled_embedding(
        self, scaling: str, alpha: float, train: np.ndarray
    ) -> tuple[GPCA, np.ndarray]:
        labels = train.tobytes() if self._uses_labels else None
        if (scaling, alpha, labels) not in self._labeled_embeddings:
            for each, gpca, Z in self._embed(self.scaled(scaling), self.training_codes(train)):
                self._labeled_embeddings[scaling, each, labels] = gpca, Z[self._labeled]
        return self._labeled_embeddings[scaling, alpha, labels]

    def training_codes(self, train: np.ndarray) -> np.ndarray:
        """Class codes of all rows, -1 except for the training rows."""
        codes = np.full(len(self.codes), UNLABELED)
        codes[train] = self.codes[train]
        return codes

    def scaler(self, scaling: str) -> FeatureScaler:
        if scaling not in self._scalers:
            self._scalers[scaling] = FeatureScaler(scaling).fit(self.X)
        return self._scalers[scaling]

    def scaled(self, scaling: str) -> Any:
        """X with this scaling; only the last scaling is cached."""
        if self._scaled[0] != scaling:
            self._scaled = scaling, self.scaler(scaling).transform(self.X)
        return self._scaled[1]
