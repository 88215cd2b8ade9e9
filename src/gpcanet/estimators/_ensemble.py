"""The members of GPCAClassifier together: their mean, its evaluation, and weights of labels."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.class_weight import compute_class_weight

from ..errors import InputError
from ..graph import Graph
from ._alignment import row_subgraph
from ._embeddings import EmbeddingGrid, degree_columns, propagation_of
from ._label_propagation import LabelPropagation
from ._model_selection import (
    Candidate,
    Fold,
    HeadFitter,
    Member,
    apply_head,
    join_columns,
    make_candidates,
    select_members,
    stratified_folds,
    usual_candidates,
)
from .heads import expected_calibration_error, fit_temperature, with_temperature
from .problem import TrainingData
from .training_nodes import TrainingNodes
from .validation import as_user_errors

#: What a classifier may use beside its embeddings and logistic regressions.
USES = ("features", "degree", "statistics", "boosting", "correct", "smooth", "priors")

#: Number of standard errors by which a step of correct-and-smooth must improve the accuracy. The
#: accuracy that limits the correction of the class frequencies is reduced by as many.
STANDARD_ERRORS = 2.0

#: Change of the class frequencies at which their estimation stops, and its largest number of
#: iterations.
PRIOR_TOL, PRIOR_ITER = 1e-6, 500

#: Largest number of unlabelled nodes that are used to estimate the class frequencies.
PRIOR_ROWS = 50_000

#: Combinations of the two steps of correct-and-smooth, in the order in which they are tried.
LABEL_STEPS = ((False, False), (True, False), (False, True), (True, True))


#: Number of rows to which the heads are applied at a time.
ROWS = 2**16


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


def add_probabilities(
    total: np.ndarray, members: list[FittedMember], Z: np.ndarray, columns: dict[str, Any]
) -> None:
    """Add the calibrated probabilities of members on one embedding, by blocks of rows."""
    for begin in range(0, len(Z), ROWS):
        rows = slice(begin, begin + ROWS)
        for member in members:
            others = join_columns([columns[name][rows] for name in member.settings.others])
            probabilities = apply_head(member.head, Z[rows], others)
            total[rows] += with_temperature(probabilities, member.temperature)


def fit_ensemble(
    classifier: Any,
    data: TrainingData,
    held_out: np.ndarray | None,
    sample_weight: np.ndarray | None,
) -> dict[str, Any]:
    """Select and fit the members of a GPCAClassifier; its learned attributes.

    ``held_out`` is the mask of the validation rows; None for cross-validation. Validation rows
    that all have the weight 0 count equally.
    """
    assert data.labels is not None
    graph, nodes, codes, classes = data.graph, data.nodes, data.labels, classifier.classes_
    with as_user_errors():
        seed = check_random_state(classifier.random_state).randint(2**31)
    if held_out is None:
        train = np.flatnonzero(codes >= 0)
        folds = stratified_folds(codes, classifier.cv, np.random.default_rng(seed), nodes)
    else:
        train = np.flatnonzero((codes >= 0) & ~held_out)
        folds = [Fold(train, np.flatnonzero(held_out))]
    weights = label_weights(sample_weight, classifier.class_weight, codes, train, classes)
    priority = np.random.default_rng(seed).random(graph.n_nodes)
    priority = priority if nodes is None else priority[nodes]
    label_priority = priority
    if weights is not None:
        if held_out is not None and not weights[held_out].any():
            weights = np.where(held_out, 1.0, weights)
        folds = folds_with_weight(folds, weights)
        label_priority = priority + (weights == 0)  # subsamples begin with positive weights
    has_edges = row_subgraph(graph, nodes).n_edges > 0
    candidates = make_candidates(classifier, data.X, len(train), len(classes), has_edges=has_edges)
    grid = EmbeddingGrid(classifier.make_gpca(0.0), [one.alpha for one in candidates], data)
    fitter = HeadFitter(grid, weights, label_priority)
    if folds:
        members, folds = select_members(candidates, fitter, folds, classifier.n_members)
    else:
        usual = usual_candidates(candidates)[: classifier.n_members]
        members = [Member(candidate, 1.0, []) for candidate in usual]
    pairs = embeddings_of(members)
    grid.keep_only(pairs)
    kept, gpcas, means = fit_members(fitter, members, train, folds)
    steps = classifier.correct, classifier.smooth
    evaluation = evaluate(fitter, means[1:], folds, steps)
    names = {name for member in kept for name in member.settings.others}
    names |= {"boosting" for member in kept if member.settings.head == "boosting"}
    names |= {
        name for name, used in zip(("correct", "smooth"), evaluation.steps, strict=True) if used
    }
    mean, codes = means[0], fitter.known_codes(train)
    if any(evaluation.steps):
        mean = LabelPropagation(grid.propagation, codes).apply(mean, *evaluation.steps)
    mean = with_temperature(mean, evaluation.temperature)
    ratios = np.ones(mean.shape[1])
    if classifier.priors is True or (classifier.priors == "auto" and not classifier.class_weight):
        ratios = prior_ratios(mean, codes, weights, evaluation.skill, priority)
        names |= {"priors"} if np.any(ratios != 1) else set()
    keep = classifier.keep_training_nodes
    labels = codes if any(evaluation.steps) else None
    return {
        "scalers_": [grid.scaler(scaling) for scaling, _ in pairs],
        "gpca_": gpcas,
        "n_iter_": max(gpca.n_iter_ for gpca in gpcas),
        "members_": kept,
        "used_": tuple(name for name in USES if name in names),
        "statistics_": fitter.statistics if "statistics" in names else None,
        "training_nodes_": TrainingNodes.kept(graph, nodes, data.X, labels, keep=keep),
        "temperature_": evaluation.temperature,
        "prior_ratios_": ratios,
        "validation_score_": evaluation.score,
        "calibration_error_": evaluation.calibration_error,
        "label_distributions_": with_priors(mean, ratios),
    }


def embeddings_of(members: list[Member]) -> list[tuple[str, float]]:
    """Scaling and alpha of the embeddings of members, the best first, grouped by scaling."""
    pairs = list(dict.fromkeys(member.candidate.embedding for member in members))
    scalings = [scaling for scaling, _ in pairs]
    return sorted(pairs, key=lambda pair: scalings.index(pair[0]))


def fit_members(
    fitter: HeadFitter, members: list[Member], train: np.ndarray, folds: list[Fold]
) -> tuple[list[FittedMember], list[Any], list[np.ndarray]]:
    """Fit the members on all training labels.

    Also returns the fitted embeddings, and the mean probabilities of all rows: by the members, and
    by their heads of every fold. One embedding of all rows is in memory at a time.
    """
    grid, pairs = fitter.grid, embeddings_of(members)
    n_classes, shape = int(grid.codes.max()) + 1, len(grid.codes)
    means = [np.zeros((shape, n_classes), grid.data.X.dtype) for _ in range(1 + len(folds))]
    kept: dict[int, FittedMember] = {}
    gpcas = []
    for i, pair in enumerate(pairs):
        gpca, Z = grid.fitted(*pair, train)
        gpcas.append(gpca)
        own = {j: one for j, one in enumerate(members) if one.candidate.embedding == pair}
        names = {name for one in own.values() for name in one.candidate.others}
        columns = {name: fitter.column(name, *pair) for name in names}
        for j, (candidate, temperature, heads) in own.items():
            head = fitter.fit(candidate, train, len(train), heads[0] if heads else None)
            kept[j] = FittedMember(candidate, i, temperature, head)
        add_probabilities(means[0], [kept[j] for j in own], Z, columns)
        for n, fold in enumerate(folds):
            of_fold = [replace(kept[j], head=one.heads[n]) for j, one in own.items()]
            add_probabilities(means[1 + n], of_fold, grid.fitted(*pair, fold.train)[1], columns)
        grid.forget(pair)
        del Z, columns
    for mean in means:
        mean /= len(members)
    return [kept[j] for j in range(len(members))], gpcas, means


def predict_ensemble(
    classifier: Any, X: Any, graph: Graph, nodes: np.ndarray | None, codes: np.ndarray | None
) -> np.ndarray:
    """Probabilities by a fitted GPCAClassifier; ``codes`` are the training labels, if known."""
    subgraph, used, members = row_subgraph(graph, nodes), classifier.used_, classifier.members_
    steps = ("correct" in used, "smooth" in used)
    columns, P = {}, propagation_of(subgraph, X)
    if "statistics" in used:
        columns["statistics"] = classifier.statistics_.transform(subgraph, X)
    mean = np.zeros((X.shape[0], len(classifier.classes_)), X.dtype)
    for i, (scaler, gpca) in enumerate(zip(classifier.scalers_, classifier.gpca_, strict=True)):
        columns["features"] = scaler.transform(X)
        if "degree" in used:
            columns["degree"] = degree_columns(P, [gpca.alpha])[0]
        Z = gpca.transform(columns["features"], graph=graph, nodes=nodes)
        add_probabilities(mean, [one for one in members if one.embedding == i], Z, columns)
    mean /= len(members)
    if codes is not None and any(steps):
        mean = LabelPropagation(P, codes).apply(mean, *steps)
    return with_priors(with_temperature(mean, classifier.temperature_), classifier.prior_ratios_)


def evaluate(
    fitter: HeadFitter, means: list[np.ndarray], folds: list[Fold], wanted: tuple[Any, Any]
) -> Evaluation:
    """Choose the steps of correct-and-smooth and the temperature on held-out labels.

    ``means`` has the probabilities of all rows by the heads of each fold, ``wanted`` True, False or
    "auto" for each of the two steps.
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
    for mean, fold in zip(means, folds, strict=True):
        labels = LabelPropagation(grid.propagation, fitter.known_codes(fold.train))
        parts = labels.held_out(mean, fold.held_out, variants)
        for steps, part in zip(variants, parts, strict=True):
            found[steps].append(part)
    held_out = np.concatenate([fold.held_out for fold in folds])
    codes = grid.codes[held_out]
    weights = None if fitter.weights is None else fitter.weights[held_out]
    joined = {steps: np.concatenate(parts) for steps, parts in found.items()}
    chosen = variants[0]
    for steps in variants[1:]:
        if is_clearly_better(joined[steps], joined[chosen], codes, weights):
            chosen = steps
    temperature = fit_temperature(joined[chosen], codes, weights)
    probabilities = with_temperature(joined[chosen], temperature)
    predicted = probabilities.argmax(axis=1)
    score = float(np.average(predicted == codes, weights=weights))
    return Evaluation(
        chosen,
        temperature,
        score,
        expected_calibration_error(probabilities.max(axis=1), predicted == codes, weights),
        _skill(score, predicted, codes),
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
    probabilities: np.ndarray,
    codes: np.ndarray,
    weights: np.ndarray | None,
    skill: float,
    priority: np.ndarray | None = None,
) -> np.ndarray:
    """Estimated frequency of each class among unlabelled nodes, relative to the training labels.

    The estimate is that of Saerens, Latinne and Decaestecker (2002): the frequencies that equal the
    mean of the probabilities adjusted to them. They are averaged with the frequencies of the
    training labels, which have the weight 1 - ``skill``. Training nodes count with their labels.

    Parameters
    ----------
    probabilities : ndarray of shape (n_rows, n_classes)
    codes : ndarray of shape (n_rows,)
        Classes of the training nodes, -1 for all others.
    priority : ndarray of shape (n_rows,), optional
        If there are many unlabelled nodes, those with the smallest priority are used.
    """
    labeled = codes >= 0
    shares = None if weights is None else weights[labeled]
    counts = np.bincount(codes[labeled], shares, minlength=probabilities.shape[1])
    known, rows = counts / counts.sum(), np.flatnonzero(~labeled)
    part = skill * len(rows) / len(codes)
    if priority is not None and len(rows) > PRIOR_ROWS:
        rows = rows[np.argsort(priority[rows])[:PRIOR_ROWS]]
    unlabeled = probabilities[rows]
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
    adjusted /= adjusted.sum(axis=1, keepdims=True)
    return adjusted


def is_clearly_better(
    probabilities: np.ndarray,
    others: np.ndarray,
    codes: np.ndarray,
    weights: np.ndarray | None = None,
) -> bool:
    """Whether probabilities predict more of the classes right than others do.

    The difference of the accuracies must exceed two standard errors.
    """
    gained = (probabilities.argmax(axis=1) == codes) * 1.0 - (others.argmax(axis=1) == codes)
    shares = np.full(len(gained), 1 / len(gained)) if weights is None else weights / weights.sum()
    mean = float(shares @ gained)
    return mean > STANDARD_ERRORS * float(np.linalg.norm(shares * (gained - mean)))


def folds_with_weight(folds: list[Fold], weights: np.ndarray) -> list[Fold]:
    """The folds without held-out labels of weight 0; folds that lose all labels are dropped."""
    folds = [fold._replace(held_out=fold.held_out[weights[fold.held_out] > 0]) for fold in folds]
    return [fold for fold in folds if len(fold.held_out) and weights[fold.train].any()]


def label_weights(
    sample_weight: np.ndarray | None,
    class_weight: Any,
    codes: np.ndarray,
    train: np.ndarray,
    classes: np.ndarray,
) -> np.ndarray | None:
    """Weight of each labelled row by sample_weight and class_weight; None if all are equal."""
    if sample_weight is None and class_weight is None:
        return None
    weights = np.ones(len(codes)) if sample_weight is None else sample_weight
    if class_weight is not None:
        with as_user_errors():
            by_class = compute_class_weight(class_weight, classes=classes, y=classes[codes[train]])
        weights = weights * np.where(codes >= 0, by_class[codes], 0.0)
    if not weights[train].any():
        raise InputError(
            "the weights of all training labels are zero; give some a positive sample_weight and "
            "class_weight"
        )
    return weights
