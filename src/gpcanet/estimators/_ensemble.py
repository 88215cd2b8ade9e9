"""The members of GPCAClassifier together: their mean, its evaluation, and weights of labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.class_weight import compute_class_weight

from ..errors import InputError
from ..graph import Graph
from ._alignment import row_subgraph
from ._embeddings import EmbeddingGrid, degree_columns
from ._label_propagation import LabelPropagation
from ._model_selection import (
    Candidate,
    Fold,
    HeadFitter,
    Member,
    apply_head,
    join_columns,
    make_candidates,
    make_folds,
    select_members,
    usual_candidates,
)
from ._problem import TrainingData
from .heads import expected_calibration_error, fit_temperature, with_temperature
from .training_nodes import TrainingNodes
from .validation import as_user_errors, check_weights

#: What a classifier may use beside its embeddings and logistic regressions.
USES = ("features", "degree", "statistics", "boosting", "correct", "smooth", "priors")

#: Standard errors by which a step of correct-and-smooth must improve the accuracy, and by which
#: the accuracy is reduced that limits the correction of the class frequencies.
STANDARD_ERRORS = 2.0

#: Largest change of a class frequency at the end of its estimation, and number of its iterations.
PRIOR_TOL, PRIOR_ITER = 1e-6, 500

#: Combinations of the two steps of correct-and-smooth, in the order in which they are tried.
LABEL_STEPS = ((False, False), (True, False), (False, True), (True, True))


@dataclass(eq=False)
class FittedMember:
    """One member of the average: a head on one of the embeddings."""

    settings: Candidate
    embedding: int  # position in gpca_ and scalers_
    temperature: float
    head: Any


class Evaluation(NamedTuple):
    """Result on held-out labels, and the chosen steps of correct-and-smooth.

    ``skill`` is the accuracy beyond chance, reduced by two standard errors, as a share of what is
    possible.
    """

    steps: tuple[bool, bool]
    temperature: float = 1.0
    score: float = float("nan")
    calibration_error: float = float("nan")
    skill: float = 0.0


def mean_probabilities(
    members: list[FittedMember],
    embeddings: list[np.ndarray],
    scaled: list[Any],
    degrees: Any,
    statistics: np.ndarray | None,
) -> np.ndarray:
    """Mean of the calibrated probabilities of all members, from the rows of each embedding."""
    found = []
    for member in members:
        i = member.embedding
        columns = {
            "features": scaled[i],
            "degree": None if degrees is None else degrees[i],
            "statistics": statistics,
        }
        others = join_columns([columns[name] for name in member.settings.others])
        probabilities = apply_head(member.head, embeddings[i], others)
        found.append(with_temperature(probabilities, member.temperature))
    return np.mean(found, axis=0)


def fit_ensemble(
    classifier: Any, data: TrainingData, held_out: np.ndarray | None, sample_weight: Any
) -> dict[str, Any]:
    """Select and fit the members of a GPCAClassifier; its learned attributes.

    ``held_out`` is the mask of the validation rows; None for cross-validation.
    """
    assert data.labels is not None
    graph, nodes, codes, classes = data.graph, data.nodes, data.labels, classifier.classes_
    with as_user_errors():
        seed = check_random_state(classifier.random_state).randint(2**31)
    if held_out is None:
        train = np.flatnonzero(codes >= 0)
        folds = make_folds(codes, classifier.cv, np.random.default_rng(seed), nodes)
    else:
        train = np.flatnonzero((codes >= 0) & ~held_out)
        folds = [Fold(train, np.flatnonzero(held_out))]
    weights = label_weights(sample_weight, classifier.class_weight, codes, train, classes)
    has_edges = row_subgraph(graph, nodes).n_edges > 0
    candidates = make_candidates(classifier, data.X, len(train), len(classes), has_edges=has_edges)
    grid = EmbeddingGrid(classifier.make_gpca(0.0), [one.alpha for one in candidates], data)
    priority = np.random.default_rng(seed).random(graph.n_nodes)
    fitter = HeadFitter(grid, weights, priority if nodes is None else priority[nodes])
    if folds:
        members, folds = select_members(candidates, fitter, folds, classifier.n_members)
    else:
        usual = usual_candidates(candidates)[: classifier.n_members]
        members = [Member(candidate, 1.0, []) for candidate in usual]
    grid.keep_only({member.candidate.embedding for member in members})
    evaluation = evaluate(fitter, members, folds, (classifier.correct, classifier.smooth))
    priors = classifier.priors
    if priors == "auto":
        priors = classifier.class_weight is None
    return fit_members(fitter, members, train, evaluation, classifier.keep_training_nodes, priors)


def predict_ensemble(
    classifier: Any, X: Any, graph: Graph, nodes: np.ndarray | None, codes: np.ndarray | None
) -> np.ndarray:
    """Probabilities by a fitted GPCAClassifier; ``codes`` are the training labels, if known."""
    scaled = [scaler.transform(X) for scaler in classifier.scalers_]
    embeddings = [
        gpca.transform(rows, graph=graph, nodes=nodes)
        for gpca, rows in zip(classifier.gpca_, scaled, strict=True)
    ]
    subgraph, used = row_subgraph(graph, nodes), classifier.used_
    table = degrees = None
    if "statistics" in used:
        table = classifier.statistics_.transform(subgraph, X)
    if "degree" in used:
        degrees = [degree_columns(subgraph, [gpca.alpha])[0] for gpca in classifier.gpca_]
    mean = mean_probabilities(classifier.members_, embeddings, scaled, degrees, table)
    steps = ("correct" in used, "smooth" in used)
    if codes is not None and any(steps):
        mean = LabelPropagation(subgraph, codes).apply(mean, *steps)
    return with_priors(with_temperature(mean, classifier.temperature_), classifier.prior_ratios_)


def evaluate(
    fitter: HeadFitter, members: list[Member], folds: list[Fold], wanted: tuple[Any, Any]
) -> Evaluation:
    """Choose the steps of correct-and-smooth and the temperature on held-out labels.

    ``wanted`` has True, False or "auto" for each of the two steps.
    """
    variants = [
        steps
        for steps in LABEL_STEPS
        if all(one in ("auto", used) for one, used in zip(wanted, steps, strict=True))
    ]
    if not folds:
        return Evaluation(variants[0])
    grid = fitter.grid
    found: dict[tuple[bool, bool], list[np.ndarray]] = {steps: [] for steps in variants}
    for i, fold in enumerate(folds):
        each = [
            with_temperature(
                fitter.everywhere(one.candidate, one.heads[i], fold.train), one.temperature
            )
            for one in members
        ]
        labels = LabelPropagation(grid.row_graph, grid.training_codes(fold.train))
        for steps in variants:
            after = labels.apply(np.mean(each, axis=0), *steps)
            found[steps].append(after[fold.held_out])
    held_out = np.concatenate([fold.held_out for fold in folds])
    codes = grid.codes[held_out]
    weights = None if fitter.weights is None else fitter.weights[held_out]
    joined = {steps: np.concatenate(parts) for steps, parts in found.items()}
    chosen = variants[0]
    for steps in variants[1:]:
        if is_clearly_better(joined[steps], joined[chosen], codes):
            chosen = steps
    temperature = fit_temperature(joined[chosen], codes, weights)
    probabilities = with_temperature(joined[chosen], temperature)
    score = float(np.average(probabilities.argmax(axis=1) == codes, weights=weights))
    return Evaluation(
        chosen,
        temperature,
        score,
        expected_calibration_error(probabilities, codes, weights),
        _skill(score, probabilities.argmax(axis=1), codes),
    )


def _skill(accuracy: float, predicted: np.ndarray, codes: np.ndarray) -> float:
    n_classes = max(predicted.max(), codes.max()) + 1
    shares = [np.bincount(of, minlength=n_classes) / len(codes) for of in (predicted, codes)]
    chance = float(shares[0] @ shares[1])
    if chance == 1:
        return 0.0
    reduced = accuracy - STANDARD_ERRORS * np.sqrt(accuracy * (1 - accuracy) / len(codes))
    return max(0.0, float(reduced - chance) / (1 - chance))


def prior_ratios(
    probabilities: np.ndarray, codes: np.ndarray, weights: np.ndarray | None, skill: float
) -> np.ndarray:
    """Estimated frequency of each class among unlabelled nodes, relative to the training labels.

    The estimate is that of Saerens, Latinne and Decaestecker (2002): the frequencies that the
    probabilities have on average after they are adjusted to them. The part 1 - ``skill`` of it is
    the frequencies of the training labels. Training nodes count with their labels.

    Parameters
    ----------
    probabilities : ndarray of shape (n_rows, n_classes)
    codes : ndarray of shape (n_rows,)
        Classes of the training nodes, -1 for all others.
    """
    labeled = codes >= 0
    shares = None if weights is None else weights[labeled]
    counts = np.bincount(codes[labeled], shares, minlength=probabilities.shape[1])
    known, unlabeled = counts / counts.sum(), probabilities[~labeled]
    part = skill * len(unlabeled) / len(codes)
    ratios = np.ones(len(known))
    if part == 0 or not known.all():
        return ratios
    for _ in range(PRIOR_ITER):
        adjusted = unlabeled * ratios
        adjusted /= adjusted.sum(axis=1, keepdims=True)
        before, ratios = ratios, part * adjusted.mean(axis=0) / known + 1 - part
        if np.abs((ratios - before) * known).max() < PRIOR_TOL:
            break
    return ratios


def with_priors(probabilities: np.ndarray, ratios: np.ndarray) -> np.ndarray:
    """Probabilities for other class frequencies."""
    adjusted = probabilities * ratios
    return adjusted / adjusted.sum(axis=1, keepdims=True)


def fit_members(
    fitter: HeadFitter,
    members: list[Member],
    train: np.ndarray,
    evaluation: Evaluation,
    keep: bool | None,
    priors: bool,
) -> dict[str, Any]:
    """Fit the members on all training labels; the learned attributes of the classifier."""
    grid, data = fitter.grid, fitter.grid.data
    pairs = list(dict.fromkeys(member.candidate.embedding for member in members))
    fitted = [grid.fitted(*pair, train) for pair in pairs]
    kept = [
        FittedMember(
            candidate,
            pairs.index(candidate.embedding),
            temperature,
            fitter.fit(candidate, train, len(train), heads[0] if heads else None),
        )
        for candidate, temperature, heads in members
    ]
    names = {name for member in kept for name in member.settings.others}
    names |= {"boosting" for member in kept if member.settings.head == "boosting"}
    names |= {
        name for name, used in zip(("correct", "smooth"), evaluation.steps, strict=True) if used
    }
    table = fitter.table() if "statistics" in names else None
    scaled = [grid.scaled(scaling) for scaling, _ in pairs]
    degrees = [grid.degree(alpha) for _, alpha in pairs] if "degree" in names else None
    mean = mean_probabilities(kept, [Z for _, Z in fitted], scaled, degrees, table)
    codes = grid.training_codes(train)
    if any(evaluation.steps):
        mean = LabelPropagation(grid.row_graph, codes).apply(mean, *evaluation.steps)
    mean = with_temperature(mean, evaluation.temperature)
    ratios = np.ones(mean.shape[1])
    if priors:
        ratios = prior_ratios(mean, codes, fitter.weights, evaluation.skill)
        names |= {"priors"} if np.any(ratios != 1) else set()
    labels = codes if any(evaluation.steps) else None
    return {
        "scalers_": [grid.scaler(scaling) for scaling, _ in pairs],
        "gpca_": [gpca for gpca, _ in fitted],
        "n_iter_": max(gpca.n_iter_ for gpca, _ in fitted),
        "members_": kept,
        "used_": tuple(name for name in USES if name in names),
        "statistics_": None if table is None else fitter.statistics,
        "training_nodes_": TrainingNodes.kept(data.graph, data.nodes, data.X, labels, keep=keep),
        "temperature_": evaluation.temperature,
        "prior_ratios_": ratios,
        "validation_score_": evaluation.score,
        "calibration_error_": evaluation.calibration_error,
        "label_distributions_": with_priors(mean, ratios),
    }


def is_clearly_better(probabilities: np.ndarray, others: np.ndarray, codes: np.ndarray) -> bool:
    """Whether probabilities predict more of the classes right than others do.

    The difference of the accuracies must exceed two standard errors.
    """
    gained = (probabilities.argmax(axis=1) == codes) * 1.0 - (others.argmax(axis=1) == codes)
    return bool(gained.mean() > STANDARD_ERRORS * gained.std() / np.sqrt(len(gained)))


def label_weights(
    sample_weight: Any,
    class_weight: Any,
    codes: np.ndarray,
    train: np.ndarray,
    classes: np.ndarray,
) -> np.ndarray | None:
    """Weight of each labelled row by sample_weight and class_weight; None if all are equal."""
    if sample_weight is None and class_weight is None:
        return None
    weights = np.ones(len(codes))
    if sample_weight is not None:
        weights = check_weights(sample_weight, len(codes)).astype(np.float64)
        if not weights[train].any():
            raise InputError("sample_weight is zero for all training labels; give some a weight")
    if class_weight is not None:
        with as_user_errors():
            by_class = compute_class_weight(class_weight, classes=classes, y=classes[codes[train]])
        weights = weights * np.where(codes >= 0, by_class[codes], 0.0)
    return weights
