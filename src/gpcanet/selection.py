"""How GPCAClassifier decides what it was not told: folds, candidates, one rule."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from .linalg import report


class Candidate(NamedTuple):
    """One way to classify: everything that held-out labels may decide."""

    alphas: tuple[float, ...]  # averaged
    feature_scaling: str
    normalize_embedding: bool
    C: float


class Fold(NamedTuple):
    """Positions of labelled nodes to learn from and to be judged on."""

    train: np.ndarray
    held_out: np.ndarray


def make_folds(
    codes: np.ndarray, n_folds: int, rng: np.random.Generator, nodes: np.ndarray | None = None
) -> list[Fold]:
    """Split the labelled rows by class, so that no training part ever lacks a class.

    The only node of a class is always in training. Without any class of two nodes there is
    nothing to hold out, and the list is empty. The folds of a node depend on its position in the
    graph (``nodes``), not on the order of the rows or on the names of the classes.
    """
    fold_of = np.full(len(codes), -1)
    dealt = 0
    rows = np.arange(len(codes)) if nodes is None else np.argsort(nodes)
    rows = rows[codes[rows] >= 0]
    for code in dict.fromkeys(codes[rows].tolist()):
        members = rng.permutation(rows[codes[rows] == code])
        if len(members) > 1:
            # Each class goes on where the last one stopped: folds of equal size.
            fold_of[members] = (dealt + np.arange(len(members))) % n_folds
            dealt += len(members)
    labelled = np.flatnonzero(codes >= 0)
    return [
        Fold(labelled[fold_of[labelled] != fold], np.flatnonzero(fold_of == fold))
        for fold in np.unique(fold_of[fold_of >= 0])
    ]


def choose(
    candidates: Iterable[Candidate], accuracy_of: Callable[[Candidate], float], n_judged: int
) -> tuple[Candidate, float]:
    """The best candidate, if it beats the first by more than one standard error; else the first.

    A few dozen labels cannot tell dozens of candidates apart: the best of them is mostly the
    luckiest. So the first, a setting that does well everywhere, must be beaten clearly.
    """
    scores = {}
    for candidate in (candidates := list(candidates)):
        scores[candidate] = accuracy_of(candidate)
        report("trying settings", len(scores), len(candidates))
    default = next(iter(scores))
    best = max(scores, key=scores.__getitem__)
    chosen = best if is_clearly_better(scores[best], scores[default], n_judged) else default
    return chosen, scores[chosen]


def is_clearly_better(accuracy: float, other: float, n_judged: int) -> bool:
    """Whether an accuracy measured on n nodes exceeds another by more than a standard error."""
    return accuracy > other + math.sqrt(accuracy * (1 - accuracy) / n_judged)
