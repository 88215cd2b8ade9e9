"""The output layer in closed form: ridge or logistic regression from its input to the labels."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from scipy.special import logsumexp
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import KFold, StratifiedKFold
from torch import Tensor

from ...errors import InputError, InputTypeError
from ...utils.checks import check_choice
from ..tensors import dtype_name
from .linear_part import LinearPart

#: Regression of the output layer.
HeadKind = Literal["logistic", "ridge"]

#: Inverse strengths of the L2 penalty, for features of root mean square 1. Ridge needs a finer
#: grid, because its optimum is narrower.
PENALTIES: dict[HeadKind, tuple[float, ...]] = {
    "logistic": (1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0),
    "ridge": (1e-3, 3e-3, 1e-2, 3e-2, 1e-1, 3e-1, 1.0, 3.0, 10.0, 100.0),
}

#: Factors of the scores of a ridge regression for classes. The one with the smallest loss is used.
FACTORS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)

#: Folds of the cross-validation that chooses the penalty without validation nodes.
N_FOLDS = 5

#: Largest number of iterations of a logistic regression.
MAX_ITER = 1000


class Weights(NamedTuple):
    """Weight of shape (in_channels, out_channels) and intercept of shape (out_channels,)."""

    weight: np.ndarray
    intercept: np.ndarray


@dataclass(frozen=True)
class OutputHead:
    """Regression for the output layer, with the labels and the rows that it uses.

    ``y`` has one class code per row, or one row of zeros and ones (multi-label) or continuous
    values. Without ``validation`` rows a cross-validation chooses the penalty.
    """

    regression: HeadKind
    y: np.ndarray
    train: np.ndarray
    validation: np.ndarray

    @classmethod
    def of(cls, regression: HeadKind, y: Any, train_mask: Any, val_mask: Any) -> OutputHead:
        """Check labels and masks; raise an error that says what is missing."""
        check_choice("head", regression, tuple(PENALTIES))
        for name, value in (("y", y), ("train_mask", train_mask)):
            if value is None:
                raise InputError(f"head={regression!r} needs labels; give {name}")
        y = y if isinstance(y, Tensor) else torch.as_tensor(np.asarray(y))
        if y.dim() == 2 and y.shape[1] == 1 and not y.is_floating_point():
            y = y.flatten()  # the format of OGB
        if y.dim() not in (1, 2):
            raise InputError(f"y has shape {tuple(y.shape)}; give one label per row")
        train = to_rows(train_mask, len(y), "train_mask")
        validation = to_rows([] if val_mask is None else val_mask, len(y), "val_mask")
        if len(train) == 0:
            raise InputError("train_mask selects no row; select at least one training node")
        if len(both := np.intersect1d(train, validation)):
            raise InputError(f"node {both[0]} is in train_mask and in val_mask; use it in one only")
        values = y.detach().cpu().double().numpy()
        known = values[np.concatenate([train, validation])]
        if y.dim() == 1 and not y.is_floating_point():
            if known.min() < 0:
                raise InputError(
                    "y is negative at a training or validation node, which means unlabelled; "
                    "remove the node from the mask"
                )
            return cls(regression, values.astype(np.int64), train, validation)
        if regression == "logistic" and (y.dim() == 1 or not np.isin(known, (0, 1)).all()):
            raise InputTypeError(
                f"head='logistic' needs integer class codes or a matrix of zeros and ones, but y "
                f"has shape {tuple(y.shape)} and dtype {dtype_name(y)}; use head='ridge' for "
                f"continuous values"
            )
        if not np.isfinite(known).all():
            raise InputError(
                "y contains NaN or infinite values at a training or validation node; remove the "
                "node from the mask"
            )
        return cls(regression, values.reshape(len(values), -1), train, validation)

    @property
    def has_classes(self) -> bool:
        """Whether y holds class codes."""
        return self.y.ndim == 1

    @property
    def n_outputs(self) -> int:
        """Number of classes or of columns of y."""
        if not self.has_classes:
            return self.y.shape[1]
        return int(self.y[np.concatenate([self.train, self.validation])].max()) + 1

    def fit(self, part: LinearPart, n_out: int, *, has_bias: bool) -> Weights:
        """Regress the labels of the training rows on F of a layer, for ``n_out`` outputs.

        The penalty has the smallest loss on the validation rows, or in a cross-validation on the
        training rows. For classes the loss is the cross-entropy. The scores of a ridge regression
        are not logits: they are first multiplied by the best factor.
        """
        self._check_layer(part.layer.name, part.H.shape[0], n_out)
        used = np.concatenate([self.train, self.validation])
        rows, y = part.aggregated_rows(used), self.y[used]
        if self.regression == "ridge" and self.has_classes:
            y = np.equal(y[:, None], np.arange(n_out)).astype(np.float64)
        scale = math.sqrt(np.mean(np.square(rows[: len(self.train)]))) or 1.0
        rows /= scale
        splits = list(self._splits(y))

        factors = FACTORS if self.regression == "ridge" and self.has_classes else (1.0,)

        def held_out_loss(penalty: float) -> float:
            losses = np.zeros(len(factors))
            for train, held_out in splits:
                fitted = self._regress(rows[train], y[train], penalty, has_bias)
                scores = rows[held_out] @ fitted.weight + fitted.intercept
                losses += [self._loss(factor * scores, y[held_out]) for factor in factors]
            return float(losses.min())

        penalty = min(PENALTIES[self.regression], key=held_out_loss) if splits else 1.0
        train = slice(len(self.train))
        weight, intercept = self._regress(rows[train], y[train], penalty, has_bias)
        return Weights(weight / scale, intercept)

    def _check_layer(self, layer: str, n_rows: int, n_out: int) -> None:
        if n_rows != len(self.y):
            raise InputError(
                f"y has {len(self.y)} rows, but the output of layer {layer} has {n_rows}; give one "
                f"row of y per row of the output, or use head=None if these rows are edges"
            )
        if not self.has_classes:
            if self.y.shape[1] != n_out:
                raise InputError(
                    f"y has {self.y.shape[1]} columns, but layer {layer} has {n_out} outputs; give "
                    f"one column per output, or integer class codes"
                )
            return
        if n_out == 1:
            raise InputError(
                f"layer {layer} has one output, but y holds class codes; use one output per class, "
                f"or give y as a float column of zeros and ones"
            )
        if self.n_outputs > n_out:
            raise InputError(
                f"y has class {self.n_outputs - 1}, but layer {layer} has {n_out} outputs; use one "
                f"output per class"
            )
        missing = np.setdiff1d(np.arange(n_out), self.y[self.train])
        if len(missing):
            raise InputError(
                f"class {missing[0]} has no training node, so the output layer cannot be set; add "
                f"one, or use head=None"
            )

    def _splits(self, y: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Pairs of training and held-out rows; none if there are too few training rows."""
        n = len(self.train)
        if len(self.validation):
            yield np.arange(n), np.arange(n, len(y))
            return
        codes = self.y[self.train] if self.has_classes else None
        smallest = n if codes is None else int(np.bincount(codes).min())
        if smallest >= 2:
            folds = KFold if codes is None else StratifiedKFold
            yield from folds(min(N_FOLDS, smallest), shuffle=True, random_state=0).split(
                np.empty(n), codes
            )

    def _regress(self, F: np.ndarray, y: np.ndarray, penalty: float, has_bias: bool) -> Weights:
        if self.regression == "ridge":
            model = Ridge(1 / penalty, fit_intercept=has_bias).fit(F, y)
            return Weights(np.atleast_2d(model.coef_).T, np.full(y.shape[1], model.intercept_))
        if not self.has_classes:
            columns = [_logistic(F, column, penalty, has_bias) for column in y.T]
            return Weights(
                np.hstack([column.weight for column in columns]),
                np.concatenate([column.intercept for column in columns]),
            )
        weight, intercept = _logistic(F, y, penalty, has_bias)
        if weight.shape[1] > 1:
            return Weights(weight, intercept)
        # For two classes sklearn returns the difference of the scores.
        return Weights(np.hstack([-weight, weight]) / 2, np.append(-intercept, intercept) / 2)

    def _loss(self, scores: np.ndarray, y: np.ndarray) -> float:
        if self.has_classes:
            codes = y.argmax(axis=1) if y.ndim == 2 else y
            of_class = scores[np.arange(len(codes)), codes]
            return float(np.mean(logsumexp(scores, axis=1) - of_class))
        if self.regression == "ridge":
            return float(np.mean(np.square(scores - y)))
        return float(np.mean(np.logaddexp(0, scores) - y * scores))


def to_rows(mask: Any, n_rows: int, name: str) -> np.ndarray:
    """Convert a mask or positions to sorted positions."""
    values = mask.detach().cpu().numpy() if isinstance(mask, Tensor) else np.asarray(mask)
    if values.size == 0:
        return np.empty(0, np.int64)
    if values.dtype == bool and values.shape == (n_rows,):
        return np.flatnonzero(values)
    if values.dtype.kind not in "iu" or values.ndim != 1:
        raise InputError(
            f"{name} has shape {values.shape} and dtype {values.dtype}, but y has {n_rows} rows; "
            f"give one bool per row, or positions of rows"
        )
    if not 0 <= values.min() <= values.max() < n_rows:
        raise InputError(f"{name} has a position outside of 0 to {n_rows - 1}; y has {n_rows} rows")
    rows, counts = np.unique(values, return_counts=True)
    if counts.max() > 1:
        raise InputError(
            f"{name} has position {rows[counts.argmax()]} more than once; give every position "
            f"once, or a mask of bools"
        )
    return rows


def _logistic(F: np.ndarray, y: np.ndarray, penalty: float, has_bias: bool) -> Weights:
    """Logistic regression; a label that does not vary gets its smoothed log-odds as intercept."""
    if y.min() == y.max():
        odds = (y.sum() + 0.5) / (len(y) - y.sum() + 0.5)
        return Weights(np.zeros((F.shape[1], 1)), np.array([math.log(odds) if has_bias else 0.0]))
    model = LogisticRegression(C=penalty, fit_intercept=has_bias, max_iter=MAX_ITER)
    with warnings.catch_warnings():
        # Training may start from weights that have not converged.
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(F, y)
    return Weights(model.coef_.T, np.full(len(model.coef_), model.intercept_))
