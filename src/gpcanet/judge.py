"""How well a candidate setting of GPCAClassifier does on labels it has not seen."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from .alignment import part_of
from .gpca import GPCA
from .graph import Graph
from .head import CorrectAndSmooth, FeatureScaler, Head
from .labels import UNLABELED
from .selection import Candidate, Fold


class Judge:
    """Embeds and classifies by a candidate, learning from some labelled nodes and not others.

    Embeddings are made once and kept for the labelled nodes, on which candidates are judged;
    whole embeddings are kept only where all probabilities were asked for.

    Parameters
    ----------
    fit : callable
        From scaled features and labels, the fitted GPCA and the embedding of every alpha.
    X, codes, graph, nodes
        Features, class codes (-1 for unlabelled), and where the rows are in the graph.
    sees_labels : bool
        Whether embeddings depend on labels, and so on which of them may be learnt from.
    """

    def __init__(
        self,
        fit: Callable[[Any, np.ndarray], Iterable[tuple[float, GPCA, np.ndarray]]],
        X: Any,
        codes: np.ndarray,
        graph: Graph,
        nodes: np.ndarray | None,
        *,
        sees_labels: bool,
    ) -> None:
        self.X, self.codes, self.graph, self.nodes = X, codes, graph, nodes
        self._fit, self._sees_labels = fit, sees_labels
        self._labelled = np.flatnonzero(codes >= 0)
        self._row_of = np.cumsum(codes >= 0) - 1  # node -> its row among the labelled ones
        self._embeddings: dict[tuple[Any, ...], tuple[GPCA, np.ndarray]] = {}
        self._whole: dict[tuple[str, float], np.ndarray] = {}
        self._scalers: dict[str, FeatureScaler] = {}
        self._scaled: tuple[str, Any] = ("none", X)

    def accuracy(
        self, candidate: Candidate, folds: Iterable[Fold], *, smooth: bool = False
    ) -> float:
        right = []
        for fold in folds:
            if smooth:
                probabilities = self.probabilities(candidate, fold.train, smooth=True)
                judged = probabilities[fold.held_out]
            else:
                judged = np.mean(
                    [
                        self._head(candidate, alpha, fold.train).predict_proba(
                            self._labelled_rows(candidate, alpha, fold.train, fold.held_out)
                        )
                        for alpha in candidate.alphas
                    ],
                    axis=0,
                )
            right.append(judged.argmax(axis=1) == self.codes[fold.held_out])
        return float(np.mean(np.concatenate(right)))

    def model(self, candidate: Candidate, alpha: float, train: np.ndarray) -> tuple[GPCA, Head]:
        """The embedding and the head that learn from these labelled nodes."""
        gpca = self._embedding(candidate.feature_scaling, alpha, train)[0]
        return gpca, self._head(candidate, alpha, train)

    def probabilities(self, candidate: Candidate, train: np.ndarray, *, smooth: bool) -> np.ndarray:
        """Class probabilities of all nodes."""
        total = []
        for alpha in candidate.alphas:
            gpca, head = self.model(candidate, alpha, train)
            # Folds share an embedding that has seen no labels.
            Z = self._whole.get((candidate.feature_scaling, alpha))
            if Z is None:
                scaled = self.scaled(candidate.feature_scaling)
                Z = gpca.transform(scaled, graph=self.graph, nodes=self.nodes)
            if not self._sees_labels:
                self._whole[candidate.feature_scaling, alpha] = Z
            total.append(head.predict_proba(Z))
        mean = np.mean(total, axis=0)
        if not smooth:
            return mean
        return CorrectAndSmooth(part_of(self.graph, self.nodes))(mean, self._only(train))

    def _head(self, candidate: Candidate, alpha: float, train: np.ndarray) -> Head:
        head = Head(candidate.C, unit_rows=candidate.normalize_embedding)
        return head.fit(self._labelled_rows(candidate, alpha, train, train), self.codes[train])

    def _labelled_rows(
        self, candidate: Candidate, alpha: float, train: np.ndarray, wanted: np.ndarray
    ) -> np.ndarray:
        Z = self._embedding(candidate.feature_scaling, alpha, train)[1]
        return Z[self._row_of[wanted]]

    def _embedding(self, scaling: str, alpha: float, train: np.ndarray) -> tuple[GPCA, np.ndarray]:
        seen = train.tobytes() if self._sees_labels else None
        if (scaling, alpha, seen) not in self._embeddings:
            for each, gpca, Z in self._fit(self.scaled(scaling), self._only(train)):
                self._embeddings[scaling, each, seen] = gpca, Z[self._labelled]
        return self._embeddings[scaling, alpha, seen]

    def _only(self, train: np.ndarray) -> np.ndarray:
        codes = np.full(len(self.codes), UNLABELED)
        codes[train] = self.codes[train]
        return codes

    def scaler(self, scaling: str) -> FeatureScaler:
        if scaling not in self._scalers:
            self._scalers[scaling] = FeatureScaler(scaling).fit(self.X)
        return self._scalers[scaling]

    def scaled(self, scaling: str) -> Any:
        """X after this scaling; the last one is kept."""
        if self._scaled[0] != scaling:
            self._scaled = scaling, self.scaler(scaling).transform(self.X)
        return self._scaled[1]
