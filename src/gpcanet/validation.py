"""Input validation for the estimators.

Each message says what was given, what is allowed and what to do.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from numbers import Integral, Real
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import assert_all_finite
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d, validate_data

from .entries import id_array
from .errors import InputError, InputTypeError, UserError
from .labels import UNLABELED, labeled_mask, missing_words_note


class LabelWarning(UserWarning):
    """The labels were legal, but perhaps not what was meant."""


def check_number(
    name: str, value: Any, low: float, high: float = math.inf, *, advice: str, integer: bool = False
) -> None:
    """Raise unless low <= value <= high."""
    kind = Integral if integer else Real
    if not isinstance(value, kind) or isinstance(value, bool):
        wanted = "an integer" if integer else "a number"
        raise InputTypeError(f"{name}={value!r} must be {wanted}; {advice}")
    if not low <= float(value) <= high or math.isinf(float(value)):
        limits = f"at least {low:g}"
        if high < math.inf:
            limits = f"in [{low:g}, {high:g}]"
        elif not integer:
            limits = f"finite and {limits}"
        raise InputError(f"{name}={value} must be {limits}; {advice}")


def check_choice(name: str, value: Any, choices: tuple[str, ...]) -> None:
    if not isinstance(value, str) or value not in choices:
        raise InputError(f"{name}={value!r} must be one of {', '.join(map(repr, choices))}")


@contextmanager
def as_user_errors() -> Iterator[None]:
    """Give errors of scikit-learn's checks of user input a type of our own."""
    try:
        yield
    except UserError:
        raise
    except ValueError as error:
        raise InputError(" ".join(str(error).split())) from None
    except TypeError as error:
        raise InputTypeError(" ".join(str(error).split())) from None


def check_features(estimator: Any, X: Any, *, reset: bool) -> Any:
    """X as a finite float array or csr_array, its width and names kept or compared."""
    _check_columns(X)
    with as_user_errors():
        X = validate_data(
            estimator,
            X,
            reset=reset,
            accept_sparse="csr",
            dtype=[np.float64, np.float32],
            ensure_all_finite=False,  # check_finite says where
            ensure_min_samples=2 if reset else 1,
        )
    check_finite(X)
    if not sp.issparse(X):
        return X
    X = sp.csr_array(X)
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return X


def _check_columns(X: Any) -> None:
    """Raise if a column of a table holds no numbers, naming it."""
    names = getattr(X, "column_names", getattr(X, "columns", None))
    if names is None or not hasattr(X, "__getitem__"):
        return
    for name in dict.fromkeys(names):  # columns of the same name come as a table of their own
        values = np.asarray(X[name])
        if values.dtype.kind in "biuf":
            continue
        try:
            values.astype(np.float64)  # as scikit-learn will do with an object column
        except (ValueError, TypeError):
            first = next((v for v in values.ravel().tolist() if _is_no_number(v)), None)
            raise InputError(
                f"column {name!r} of X holds {first!r}, not numbers; drop it, or encode it as "
                f"numbers (sklearn.preprocessing.OneHotEncoder)"
            ) from None


def _is_no_number(value: Any) -> bool:
    try:
        float(value)
    except (ValueError, TypeError):
        return True
    return False


def check_finite(X: Any) -> None:
    """Raise on NaN or infinity, saying where the first one is."""
    values = X.data if sp.issparse(X) else X
    # A sum is finite unless an entry is not (or it overflows, which the slow look clears up).
    with np.errstate(all="ignore"):
        if np.isfinite(np.sum(values, dtype=np.float64)):
            return
    wrong = ~np.isfinite(values)
    if not wrong.any():
        return
    if sp.issparse(X):
        entry = int(np.argmax(wrong))
        row = int(np.searchsorted(np.asarray(X.indptr), entry, side="right")) - 1
        column, value = int(X.indices[entry]), values[entry]
    else:
        row, column = (int(i) for i in np.unravel_index(np.argmax(wrong), X.shape))
        value = X[row, column]
    what = "NaN" if np.isnan(value) else "infinity (inf)"
    raise InputError(
        f"X contains {what} at row {row}, column {column} ({wrong.sum()} NaN or infinite values "
        f"in all); fill them in (sklearn.impute.SimpleImputer) or drop these nodes"
    )


def check_labels(y: Any, n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Class codes per row (-1 for unlabelled) and the classes.

    Unlabelled is what :func:`gpcanet.labels.is_unlabeled` says: -1, a missing value, empty text.
    """
    if isinstance(y, list | tuple) and any(isinstance(label, str) for label in y):
        y = id_array(y)  # numpy would turn the -1 of ["a", -1] into text
    with as_user_errors():
        y = column_or_1d(y, warn=True)
    if len(y) != n_rows:
        raise InputError(
            f"y has {len(y)} labels for {n_rows} rows of X; give one per row, "
            f"{UNLABELED} where unknown"
        )
    labelled = labeled_mask(y)
    if y.dtype.kind in "OUT" and (note := missing_words_note(y.tolist())) is not None:
        warnings.warn(f"y: {note}", LabelWarning, stacklevel=3)
    known = y[labelled]
    if len(known) == 0:
        raise InputError(f"y has no labelled node: all are {UNLABELED}; at least one is needed")
    if y.dtype == object:
        if len({isinstance(label, str) for label in known}) > 1:
            raise InputTypeError("y mixes text and numbers; give all labels as one or the other")
        if not isinstance(known[0], str):
            known = np.asarray(known.tolist())
    with as_user_errors():
        if known.dtype.kind == "f":
            assert_all_finite(known, input_name="y")
        check_classification_targets(known)
    codes = np.full(n_rows, UNLABELED)
    classes, codes[labelled] = np.unique(known, return_inverse=True)
    return codes, classes


def check_weights(sample_weight: Any, n_rows: int) -> np.ndarray:
    """A finite weight of at least 0 per row, not all of them 0."""
    with as_user_errors():
        weights = column_or_1d(sample_weight)
        assert_all_finite(weights, input_name="sample_weight")
    if len(weights) != n_rows or not np.any(weights > 0) or np.any(weights < 0):
        raise InputError(
            f"sample_weight must have a number of at least 0 for each of {n_rows} rows of X, and "
            f"one above 0; it has {len(weights)} values"
        )
    return weights


def check_held_out(validation: Any, codes: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """A mask of the validation rows, all of them labelled and no class theirs alone."""
    if str(getattr(validation, "dtype", "")) == "boolean":  # pandas' own, which may be missing
        validation = validation.fillna(False).astype(bool)
    with as_user_errors():
        chosen = column_or_1d(validation)
    if chosen.dtype != bool and not np.issubdtype(chosen.dtype, np.integer):
        raise InputTypeError(f"validation of dtype {chosen.dtype} must be a mask or row positions")
    if chosen.dtype == bool and len(chosen) != len(codes):
        raise InputError(f"validation mask has {len(chosen)} values for {len(codes)} rows of X")
    if chosen.dtype != bool and len(chosen) and (chosen.min() < 0 or chosen.max() >= len(codes)):
        worst = chosen.min() if chosen.min() < 0 else chosen.max()
        raise InputError(f"validation row {worst} is out of range for {len(codes)} rows of X")
    if chosen.dtype != bool and len(np.unique(chosen)) < len(chosen):
        raise InputError(
            "validation names a row more than once; give each position once, or a mask of booleans"
        )
    held_out = np.zeros(len(codes), bool)
    held_out[chosen] = True
    unlabelled = int(np.sum(codes[held_out] < 0))
    if unlabelled or not held_out.any():
        raise InputError(
            f"validation names {held_out.sum()} rows, {unlabelled} of them unlabelled; it must "
            f"name at least one, and all must be labelled in y"
        )
    only = np.setdiff1d(codes[held_out], codes[~held_out])
    if len(only):
        raise InputError(
            f"class {classes.tolist()[only[0]]!r} is in validation only; training needs at least "
            f"one node of every class"
        )
    return held_out
