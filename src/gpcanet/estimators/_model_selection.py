"""Model selection of GPCAClassifier: candidates, folds, their ranking, and the best of them."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..errors import InputError
from ..utils.labels import UNLABELED
from ..utils.progress import report_progress
from ._boosting import BoostedTrees
from ._embeddings import EmbeddingGrid
from ._node_statistics import NodeStatistics
from .feature_scaler import scale_ratio
from .heads import HEAD_TOL, RANKING_TOL, Head, fit_temperature, safe_log, with_temperature

#: Values tried for feature_scaling="auto".
FEATURE_SCALINGS = ("l2", "none", "tfidf", "standard")

#: Ratio of the standard deviations of two columns from which "standard" is tried. Below it, the
#: other scalings are as accurate.
DIFFERENT_SCALES = 10.0

#: Values tried for normalize_embedding="auto".
EMBEDDING_NORMS = (False, True)

#: Values tried for C="auto".
INVERSE_PENALTIES = (0.1, 1.0, 10.0)

#: Columns that may be used beside the embedding.
OTHERS = ("features", "degree", "statistics")

#: Smallest number of training labels for which boosting, and X or statistics beside the embedding,
#: are tried.
MANY_LABELS = 500

#: Largest number of features for which neighbourhood statistics and boosting are tried.
FEW_FEATURES = 64

#: Largest number of labels times classes for which boosting is tried.
BOOSTING_WORK = 200_000

#: Largest number of features times trees per iteration for which boosting is tried.
BOOSTING_COLUMNS = 128

#: Largest number of training labels in the first and in the second ranking. The first one keeps
#: twice as many candidates as there are members.
RANKING_LABELS = (2_000, 20_000)

#: Held-out labels that suffice for a ranking; further labels and folds are not used.
HELD_OUT_LABELS = 5_000


@dataclass(frozen=True)
class Candidate:
    """One combination of the settings that are chosen on held-out labels."""

    head: str  # "logistic" or "boosting"
    feature_scaling: str
    alpha: float
    normalize_embedding: bool = False
    C: float = 1.0
    others: tuple[str, ...] = ()  # columns beside the embedding: "features", "degree", "statistics"

    @property
    def embedding(self) -> tuple[str, float]:
        return self.feature_scaling, self.alpha


class Fold(NamedTuple):
    """Rows of labelled nodes for training and for evaluation."""

    train: np.ndarray
    held_out: np.ndarray


class Member(NamedTuple):
    """A selected candidate, its temperature, and its heads of the folds in the ranking."""

    candidate: Candidate
    temperature: float
    heads: list[Any]


def make_candidates(
    classifier: Any, X: Any, n_train: int, n_classes: int, *, has_edges: bool
) -> list[Candidate]:
    """All candidates that the parameters of a GPCAClassifier allow for X."""
    excluded = set()
    is_chosen = classifier.feature_scaling != "auto"
    if is_chosen or sp.issparse(X) or scale_ratio(X) < DIFFERENT_SCALES:
        excluded.add("standard")
    lowest = (X.data if sp.issparse(X) else X).min(initial=0)
    if lowest < 0:
        excluded.add("tfidf")
        if classifier.feature_scaling == "tfidf":
            raise InputError(
                f"feature_scaling='tfidf' needs X without negative values, but X has {lowest:g}; "
                f"use 'l2', 'standard' or 'none'"
            )
    scalings = tuple(scaling for scaling in FEATURE_SCALINGS if scaling not in excluded)

    def values(parameter: str, tried: tuple[Any, ...]) -> tuple[Any, ...]:
        value = getattr(classifier, parameter)
        return tried if isinstance(value, str) and value == "auto" else (value,)

    many, few_features = n_train >= MANY_LABELS, X.shape[1] <= FEW_FEATURES
    features = values("features", (False, True) if many else (False,))
    statistics = values("statistics", (False, True) if many and few_features else (False,))
    n_trees = 1 if n_classes == 2 else n_classes
    cheap = n_train * n_classes <= BOOSTING_WORK and X.shape[1] * n_trees <= BOOSTING_COLUMNS
    cheap &= many and few_features
    boosting = values("boosting", (False, True) if cheap else (False,))
    alphas = sorted({float(alpha) for alpha in np.atleast_1d(np.asarray(classifier.alpha))})
    alphas = alphas if has_edges else alphas[:1]  # without edges all give the same embedding
    scalings = values("feature_scaling", scalings)
    others = [
        tuple(name for name, used in zip(OTHERS, used_ones, strict=True) if used)
        for used_ones in itertools.product(
            features, values("degree", (False, True) if has_edges else (False,)), statistics
        )
    ]
    found: list[Candidate] = []
    if True in boosting:
        raw = "none" if "none" in scalings else scalings[0]
        tried = (True, classifier.degree is True, True in statistics)
        columns = tuple(name for name, used in zip(OTHERS, tried, strict=True) if used)
        found += [Candidate("boosting", raw, alphas[len(alphas) // 2], others=columns)]
    if False in boosting:
        unit_rows = values("normalize_embedding", EMBEDDING_NORMS)
        penalties = values("C", INVERSE_PENALTIES)
        found += [
            Candidate("logistic", scaling, alpha, unit, C, columns)
            for scaling, columns, unit, C, alpha in itertools.product(
                scalings, others, unit_rows, penalties, alphas
            )
            # The degree is not tried beside rows of unit norm, which have lost the part that
            # depends on it, beside statistics, which contain it, and for alpha = 0, where its
            # column is constant.
            if classifier.degree != "auto"
            or "degree" not in columns
            or not (unit or "statistics" in columns or alpha == 0)
        ]
    return found


def stratified_folds(
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


class HeadFitter:
    """Fits the heads of candidates and applies them to rows.

    Parameters
    ----------
    grid : EmbeddingGrid
    weights : ndarray of shape (n_rows,), optional
        Weights of the training labels.
    priority : ndarray of shape (n_rows,)
        A random number per node. A subsample of a class has its nodes with the smallest numbers.
    """

    def __init__(
        self, grid: EmbeddingGrid, weights: np.ndarray | None, priority: np.ndarray
    ) -> None:
        self.grid, self.weights, self.statistics = grid, weights, NodeStatistics()
        self.priority = priority
        self._subsamples: dict[tuple[bytes, int], np.ndarray] = {}
        self._table: np.ndarray | None = None

    def fit(
        self,
        candidate: Candidate,
        train: np.ndarray,
        n_labels: int,
        start: Any = None,
        *,
        tol: float = HEAD_TOL,
    ) -> Any:
        """The head of a candidate, fitted on at most ``n_labels`` of these labelled rows."""
        rows = self.subsample(train, n_labels)
        Z = self.grid.rows(*candidate.embedding, train, rows)
        codes, weights = self.grid.codes[rows], None
        if self.weights is not None:
            weights = self.weights[rows]
        others = self.others(candidate, rows)
        if candidate.head == "boosting":
            return BoostedTrees.fit_classes(join_dense(Z, others), codes, weights)
        head = Head(candidate.C, unit_rows=candidate.normalize_embedding)
        return head.fit(Z, codes, weights, others=others, start=start, tol=tol)

    def known_codes(self, train: np.ndarray) -> np.ndarray:
        """Class codes of the training rows; UNLABELED for all others and for weights of 0."""
        codes = self.grid.training_codes(train)
        return codes if self.weights is None else np.where(self.weights > 0, codes, UNLABELED)

    def held_out(self, candidate: Candidate, head: Any, fold: Fold) -> np.ndarray:
        """Probabilities of the held-out rows of a fold."""
        Z = self.grid.rows(*candidate.embedding, fold.train, fold.held_out)
        return apply_head(head, Z, self.others(candidate, fold.held_out))

    def column(self, name: str, scaling: str, alpha: float) -> Any:
        """One of the columns beside an embedding, for all rows."""
        if name == "features":
            return self.grid.scaled(scaling)
        return self.grid.degree(alpha) if name == "degree" else self.table()

    def others(self, candidate: Candidate, rows: Any) -> Any:
        """The columns beside the embedding; None if there are none."""
        columns = [self.column(name, *candidate.embedding)[rows] for name in candidate.others]
        return join_columns(columns)

    def table(self) -> np.ndarray:
        """The statistics of all rows."""
        if self._table is None:
            graph, X = self.grid.row_graph, self.grid.data.X
            self._table = self.statistics.fit(graph, X).transform(graph, X)
        return self._table

    def subsample(self, train: np.ndarray, size: int) -> np.ndarray:
        """At most ``size`` rows: the same share of each class, and at least one row."""
        if len(train) <= size:
            return train
        key = (train.tobytes(), size)
        if key not in self._subsamples:
            self._subsamples[key] = self._subsample(train, size)
        return self._subsamples[key]

    def _subsample(self, train: np.ndarray, size: int) -> np.ndarray:
        codes = self.grid.codes[train]
        order = np.lexsort((self.priority[train], codes))
        counts = np.bincount(codes)
        rank = np.empty(len(train))
        rank[order] = np.arange(len(train)) - np.repeat(np.cumsum(counts) - counts, counts)
        share = np.lexsort((self.priority[train], rank / counts[codes]))
        return np.sort(train[share[: max(size, np.count_nonzero(counts))]])


def join_columns(columns: list[Any]) -> Any:
    """One matrix of all columns, sparse if one of them is sparse; None without columns."""
    if len(columns) < 2:
        return columns[0] if columns else None
    if any(sp.issparse(part) for part in columns):
        return sp.hstack(columns, format="csr")
    return np.hstack(columns)


def apply_head(head: Any, Z: np.ndarray, others: Any) -> np.ndarray:
    """Probabilities of the rows of Z and of the columns beside it."""
    if isinstance(head, BoostedTrees):
        return head.predict_proba(join_dense(Z, others))
    return head.predict_proba(Z, others)


def join_dense(Z: np.ndarray, others: Any) -> np.ndarray:
    """Z and the columns beside it as one table."""
    return np.hstack([Z, others.toarray() if sp.issparse(others) else others])


def select_members(
    candidates: list[Candidate], fitter: HeadFitter, folds: list[Fold], n_members: int
) -> tuple[list[Member], list[Fold]]:
    """The best candidates by their scores on held-out labels, and the folds that were used.

    The score of a candidate is its accuracy plus the geometric mean of the probabilities of the
    true classes, calibrated by one temperature. Candidates that are worse than the best by more
    than one standard error of its score are dropped. With many labels or folds, all candidates are
    first ranked on a part of them, and the best ``2 * n_members`` are ranked again. Rankings fit
    heads to a loose tolerance; those of the members are then fitted further.
    """
    size = sum(len(fold.held_out) for fold in folds) / len(folds)
    enough = folds[: max(1, math.ceil(HELD_OUT_LABELS / size))]
    enough = [
        fold._replace(held_out=fitter.subsample(fold.held_out, HELD_OUT_LABELS)) for fold in enough
    ]
    rankings = [(enough, RANKING_LABELS[1])]
    if len(enough) > 2 or max(len(fold.train) for fold in enough) > RANKING_LABELS[0]:
        rankings.insert(0, (enough[:2], RANKING_LABELS[0]))
    for part, n_labels in rankings:
        members, scores = _evaluate(candidates, fitter, part, n_labels)
        order = np.argsort(-scores.mean(axis=1), kind="stable")
        best = scores[order[0]]
        least = best.mean() - best.std() / math.sqrt(len(best))
        order = order[scores[order].mean(axis=1) >= least]
        candidates = [candidates[i] for i in sorted(order[: 2 * n_members])]

    def fitted_further(member: Member) -> Member:
        if member.candidate.head == "boosting":
            return member
        heads = [
            fitter.fit(member.candidate, fold.train, RANKING_LABELS[1], head)
            for fold, head in zip(enough, member.heads, strict=True)
        ]
        return member._replace(heads=heads)

    return [fitted_further(members[i]) for i in order[:n_members]], enough


def usual_candidates(candidates: list[Candidate]) -> list[Candidate]:
    """The candidates in order of their distance from C = 1 and alpha = 10; needs no labels."""

    def distance(candidate: Candidate) -> tuple[float, float]:
        alpha = max(candidate.alpha, 1e-6)
        return abs(math.log(candidate.C)), abs(math.log(alpha / 10))

    return sorted(candidates, key=distance)


def _evaluate(
    candidates: list[Candidate], fitter: HeadFitter, folds: list[Fold], n_labels: int
) -> tuple[list[Member], np.ndarray]:
    """The fitted candidates, and the score of each on every held-out node."""
    held_out = np.concatenate([fold.held_out for fold in folds])
    codes, rows = fitter.grid.codes[held_out], np.arange(len(held_out))
    weights = None if fitter.weights is None else fitter.weights[held_out]
    members: list[Member] = []
    scores = []
    for candidate in candidates:
        # Neighbours in the list often differ in alpha only; then their coefficients are similar.
        starts = [None] * len(folds)
        if members and replace(members[-1].candidate, alpha=candidate.alpha) == candidate:
            starts = members[-1].heads
        heads = [
            fitter.fit(candidate, fold.train, n_labels, start, tol=RANKING_TOL)
            for fold, start in zip(folds, starts, strict=True)
        ]
        probabilities = np.concatenate(
            [
                fitter.held_out(candidate, head, fold)
                for head, fold in zip(heads, folds, strict=True)
            ]
        )
        temperature = fit_temperature(probabilities, codes, weights)
        likelihood = safe_log(with_temperature(probabilities, temperature)[rows, codes])
        mean = float(np.average(likelihood, weights=weights))
        # The geometric mean, linearised, so that every node has a score of its own.
        score = (probabilities.argmax(axis=1) == codes) + math.exp(mean) * (1 + likelihood - mean)
        scores.append(score if weights is None else score * weights / weights.mean())
        members.append(Member(candidate, temperature, heads))
        report_progress("trying settings", len(members), len(candidates))
    return members, np.array(scores)
