"""Validation of features, labels, weights and validation rows."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import assert_all_finite
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, column_or_1d, validate_data

from ..errors import InputError, InputTypeError, UserError
from ..graph import Graph
from ..graph.node_ids import id_array
from ..utils.checks import as_array
from ..utils.labels import UNLABELED, is_missing, labeled_mask, missing_words_note
from ._alignment import RowIndex, align_to_rows, check_graph, row_subgraph


class LabelWarning(UserWarning):
    """The labels are valid, but may not be what the user meant."""


@contextmanager
def as_user_errors() -> Iterator[None]:
    """Convert errors of scikit-learn's input checks to UserErrors of one line."""
    try:
        yield
    except UserError:
        raise
    except (ValueError, TypeError) as error:
        kind = InputError if isinstance(error, ValueError) else InputTypeError
        raise kind(_without_values(str(error))) from None


def _without_values(message: str) -> str:
    """A message of scikit-learn on one line, without the array that some contain."""
    before, separator, array = message.partition(":\narray=")
    if separator:  # the array is followed by advice
        message = f"{before}. {array.rpartition('].')[2]}"
    return " ".join(message.partition("\n[")[0].split())


def check_features(estimator: Any, X: Any, *, reset: bool, allow_nan: bool = False) -> Any:
    """Return X as a finite float array or canonical csr_array; NaN only with ``allow_nan``.

    Sets the number and names of features on the estimator (``reset``), or compares them.
    """
    if np.ma.is_masked(X):
        raise InputError(
            "X has masked values; fill them in (gpcanet.GraphImputer on X.filled(np.nan)) or drop "
            "these nodes"
        )
    _check_columns(X)
    with as_user_errors():
        X = validate_data(
            estimator,
            X,
            reset=reset,
            accept_sparse="csr",
            dtype=[np.float64, np.float32],
            ensure_all_finite=False,  # check_finite reports the position
            ensure_min_samples=2 if reset else 1,
        )
    check_finite(X, allow_nan=allow_nan)
    if not sp.issparse(X):
        return X
    X = sp.csr_array(X)
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return X


def check_training_rows(
    estimator: Any, X: Any, graph: Any, nodes: Any, *, allow_nan: bool = False
) -> tuple[Any, Graph, np.ndarray | None, RowIndex | None]:
    """Check X, graph and nodes of ``fit``; returns them and the index of X."""
    index = RowIndex.of(X)
    X = check_features(estimator, X, reset=True, allow_nan=allow_nan)
    graph, nodes = check_graph(graph, nodes, X.shape[0], index=index)
    return X, graph, nodes, index


def is_learned(name: str) -> bool:
    """Whether an attribute is learned in fit, by the naming rule of scikit-learn."""
    return name.endswith("_") and not name.startswith("_")


def forget_fit(estimator: Any) -> None:
    """Delete the learned attributes: after a fit that fails, an estimator is not fitted."""
    for name in set(filter(is_learned, vars(estimator))) - set(estimator.get_params(deep=False)):
        delattr(estimator, name)


def set_row_attributes(
    estimator: Any, graph: Graph, index: RowIndex | None, *, has_graph: bool
) -> None:
    """Set the attributes of an estimator that depend on X and graph alone, after all checks."""
    estimator.n_nodes_in_ = graph.n_nodes if has_graph else None
    estimator.matched_by_id_ = index is not None and graph.node_ids is not None


def match_rows(X: Any, y: Any, graph: Any, test: Any = None) -> tuple[Graph, Any, Any]:
    """Return the graph on the rows of X, in their order, and y and a mask in the same order."""
    index = RowIndex.of(X)
    graph, nodes = check_graph(graph, None, X.shape[0], index=index)
    rows = graph, nodes, index
    aligned = align_to_rows(y, *rows, "y"), align_held_out(test, *rows, "test")
    return row_subgraph(graph, nodes), *aligned


def align_held_out(
    values: Any, graph: Graph, nodes: np.ndarray | None, index: RowIndex | None, name: str
) -> Any:
    """Bring a mask of held-out rows into the order of X; positions of rows stay as they are."""
    values = _filled_mask(values)
    if values is None or np.asarray(values).dtype != bool:
        return values
    return align_to_rows(values, graph, nodes, index, name)


def _check_columns(X: Any) -> None:
    """Raise if a column of a table is not numeric."""
    if (what := _dates_in(X)) is not None:
        raise InputTypeError(f"X has {what}; convert them to numbers")
    names = getattr(X, "column_names", getattr(X, "columns", None))
    if names is None or not hasattr(X, "__getitem__"):
        return
    for name in dict.fromkeys(names):  # X[name] has all columns of that name
        values = np.asarray(X[name])
        if (what := _dates_in(values)) is not None:
            raise InputTypeError(
                f"column {name!r} of X has {what}; convert them to numbers or drop the column"
            )
        for value in [] if values.dtype.kind in "biuf" else values.ravel().tolist():
            try:
                float(np.nan if is_missing(value) else value)
            except (ValueError, TypeError):
                raise InputError(
                    f"column {name!r} of X holds {value!r}, not numbers; drop it, or encode it as "
                    f"numbers (sklearn.preprocessing.OneHotEncoder)"
                ) from None


def _dates_in(values: Any) -> str | None:
    """What an array holds if that is dates or durations; numpy would convert them to integers."""
    dtype = getattr(values, "dtype", None)
    return {"M": "dates", "m": "durations"}.get(dtype.kind) if isinstance(dtype, np.dtype) else None


def check_finite(X: Any, *, allow_nan: bool = False) -> None:
    """Raise if X has infinite values or NaN, with the position of the first."""
    values = X.data if sp.issparse(X) else X
    # A finite sum means finite entries. If it overflows, the entries are checked one by one.
    with np.errstate(all="ignore"):
        if np.isfinite(np.sum(values, dtype=np.float64)):
            return
    wrong = np.isinf(values) if allow_nan else ~np.isfinite(values)
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
    counted = "infinite values" if allow_nan else "NaN or infinite values"
    advice = "correct them"
    if not allow_nan:
        advice = "fill them in (gpcanet.GraphImputer, sklearn.impute.SimpleImputer)"
    raise InputError(
        f"X contains {what} at row {row}, column {column} ({wrong.sum()} {counted} in all); "
        f"{advice} or drop these nodes"
    )


def check_labels(y: Any, n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Return class codes per row (-1 for unlabelled) and the classes.

    A label of -1, a missing or masked value, or empty text means unlabelled.
    """
    if isinstance(y, np.ma.MaskedArray):
        y = y.tolist()  # a masked label becomes None
    if hasattr(y, "iloc") and y.shape[1:] == (1,):
        y = y.iloc[:, 0]  # a table of one column
    if hasattr(y, "astype") and not isinstance(getattr(y, "dtype", np.dtype("O")), np.dtype):
        y = y.astype(object)  # scikit-learn would convert pandas' integers that may be missing
    if isinstance(y, list | tuple) and any(isinstance(label, str) for label in y):
        y = id_array(y)  # numpy would turn the -1 of ["a", -1] into text
    if is_indicator_matrix(y):
        raise InputError(
            f"y should be a 1d array, got an array of shape {np.shape(y)} instead; it was one "
            f"label per node in fit"
        )
    with as_user_errors():
        y = column_or_1d(y, warn=True)
    if len(y) != n_rows:
        raise InputError(
            f"y has {len(y)} labels for {n_rows} rows of X; give one per row, "
            f"{UNLABELED} where unknown"
        )
    labeled = labeled_mask(y)
    if y.dtype.kind in "OUT" and (note := missing_words_note(y.tolist())) is not None:
        warnings.warn(f"y: {note}", LabelWarning, stacklevel=3)
    known = y[labeled]
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
        if _has_fractions(known):
            raise InputError(
                "Unknown label type: continuous; classes must be integers or text; use "
                "GPCARegressor to predict numbers"
            )
        check_classification_targets(known)
    codes = np.full(n_rows, UNLABELED)
    classes, codes[labeled] = np.unique(known, return_inverse=True)
    return codes, classes


def is_indicator_matrix(y: Any) -> bool:
    """Whether y has several columns, as label indicators have."""
    shape: Any = as_array(y, "y").shape if isinstance(y, list | tuple) else getattr(y, "shape", ())
    return len(shape) == 2 and shape[1] > 1


def _check_numbers(y: Any) -> None:
    """Raise if targets are text, dates, durations or complex numbers."""
    names = getattr(y, "column_names", getattr(y, "columns", None))
    columns = [as_array(y, "y")] if names is None else [y[name] for name in dict.fromkeys(names)]
    for column in map(np.asarray, columns):
        what = _dates_in(column) or ("complex numbers" if column.dtype.kind == "c" else None)
        if what is not None:
            raise InputTypeError(f"y has {what}; convert them to real numbers")
    values = np.asarray(y)
    if values.dtype.kind in "OUS":
        text = next((value for value in values.ravel() if isinstance(value, str)), None)
        if text is not None:
            raise InputError(
                f"y has the text {str(text)!r}; give numbers, NaN where unknown, or use "
                f"GPCAClassifier for classes"
            )


def check_targets(y: Any, n_rows: int) -> np.ndarray:
    """Return numeric targets as a float64 copy of shape (n_rows, n_targets), NaN where unknown.

    Missing and masked values mean unknown, -1 does not. Infinite values are not allowed, and every
    target needs a known value.
    """
    if sp.issparse(y):
        y = y.toarray()
    _check_numbers(y)
    if isinstance(y, np.ma.MaskedArray):
        y = np.ma.filled(y.astype(np.float64), np.nan)
    if hasattr(y, "to_numpy"):  # pandas' own missing values become NaN
        y = y.to_numpy(dtype=np.float64, na_value=np.nan) if hasattr(y, "iloc") else y.to_numpy()
    with as_user_errors():
        y = check_array(
            y, dtype=np.float64, ensure_2d=False, ensure_all_finite=False, ensure_min_samples=0,
            input_name="y", copy=True,
        )  # fmt: skip
    y = np.atleast_1d(y)
    y = y.reshape(len(y), -1)
    if len(y) != n_rows:
        raise InputError(
            f"y has {len(y)} values for {n_rows} rows of X; give one per row, NaN where unknown"
        )
    if np.isinf(y).any():
        row, column = (int(i) for i in np.argwhere(np.isinf(y))[0])
        raise InputError(f"y contains infinity at row {row}, column {column}; give finite numbers")
    unknown = np.isnan(y).all(axis=0)
    if unknown.any():
        which = "y" if y.shape[1] == 1 else f"column {int(np.argmax(unknown))} of y"
        raise InputError(f"{which} has no known value: all are NaN; at least one is needed")
    return y


def check_indicators(y: Any, n_rows: int) -> np.ndarray:
    """Return a matrix of label indicators as floats 0 and 1, NaN where unknown (-1 or NaN)."""
    y = check_targets(y, n_rows)
    wrong = ~(np.isin(y, (UNLABELED, 0, 1)) | np.isnan(y))
    if wrong.any():
        row, column = (int(i) for i in np.argwhere(wrong)[0])
        raise InputError(
            f"y contains {y[row, column]:g} at row {row}, column {column}; label indicators must "
            f"be 0, 1, or NaN or {UNLABELED} where unknown"
        )
    y = np.where(y == UNLABELED, np.nan, y)
    if np.isnan(y).all(axis=0).any():
        column = int(np.argmax(np.isnan(y).all(axis=0)))
        raise InputError(f"column {column} of y has no known value; at least one is needed")
    return y


def check_ghost_labels(y: Any, n_rows: int) -> np.ndarray:
    """Return the labels of ghost edges: class codes of shape (n,), or targets of shape (n, t).

    y with one column is classes, as in scikit-learn's ``type_of_target``, unless it has fractions.
    A matrix of 0, 1 and -1 holds label indicators, any other matrix continuous targets.
    """
    array = y.toarray() if sp.issparse(y) else y if np.ma.isMaskedArray(y) else as_array(y, "y")
    if array.ndim < 2 or array.shape[1:] == (1,):
        return check_targets(y, n_rows) if _has_fractions(array) else check_labels(y, n_rows)[0]
    targets = check_targets(y, n_rows)
    is_indicator = bool(np.all(np.isnan(targets) | np.isin(targets, (UNLABELED, 0, 1))))
    return check_indicators(y, n_rows) if is_indicator else targets


def _has_fractions(values: np.ndarray) -> bool:
    if values.dtype.kind == "O":  # with None or pandas' NA, or text
        values = np.array([value for value in values.ravel() if isinstance(value, float)], float)
    return values.dtype.kind == "f" and bool(
        np.any(np.isfinite(values) & (values != np.floor(values)))
    )


def check_weights(sample_weight: Any, n_rows: int) -> np.ndarray:
    """Return one finite, non-negative weight per row, at least one above 0, in float64."""
    with as_user_errors():
        weights = column_or_1d(sample_weight)
        if weights.dtype.kind not in "biufO":
            raise InputTypeError(f"sample_weight of dtype {weights.dtype} must hold numbers")
        weights = weights.astype(np.float64)
        assert_all_finite(weights, input_name="sample_weight")
    if len(weights) != n_rows or not np.any(weights > 0) or np.any(weights < 0):
        raise InputError(
            f"sample_weight must have a number of at least 0 for each of {n_rows} rows of X, not "
            f"all of them zero; it has {len(weights)} values"
        )
    return weights


def positive_weights(weights: np.ndarray) -> np.ndarray:
    """The weights of the known rows of y; raise if none is positive."""
    if not weights.any():
        raise InputError(
            "no row of y is known and has a positive weight; give at least one to compute a score"
        )
    return weights


def _filled_mask(mask: Any) -> Any:
    """A nullable boolean mask of pandas as a plain one, its missing values False."""
    if str(getattr(mask, "dtype", "")) in ("boolean", "bool[pyarrow]"):
        return mask.fillna(False).astype(bool)
    return mask


def check_held_out(
    rows: Any, codes: np.ndarray, classes: np.ndarray, name: str = "validation"
) -> np.ndarray:
    """Return a mask of the held-out rows; raise unless they are labelled and leave every class a
    training row.

    ``name`` is that of the argument.
    """
    n_rows = len(codes)
    with as_user_errors():
        chosen = column_or_1d(rows)
    if chosen.dtype == bool:
        if len(chosen) != n_rows:
            raise InputError(f"{name} mask has {len(chosen)} values for {n_rows} rows of X")
    elif not np.issubdtype(chosen.dtype, np.integer):
        raise InputTypeError(f"{name} of dtype {chosen.dtype} must be a mask or row positions")
    elif len(chosen) and (chosen.min() < 0 or chosen.max() >= n_rows):
        worst = chosen.min() if chosen.min() < 0 else chosen.max()
        raise InputError(f"{name} row {worst} is out of range for {n_rows} rows of X")
    elif len(np.unique(chosen)) < len(chosen):
        raise InputError(f"{name} has a row more than once; give each position once, or a mask")
    held_out = np.zeros(n_rows, bool)
    held_out[chosen] = True
    unlabeled = int(np.sum(codes[held_out] < 0))
    if unlabeled or not held_out.any():
        raise InputError(
            f"{name} has {held_out.sum()} rows, {unlabeled} of them unlabelled; give at least "
            f"one row, and only rows that are labelled in y"
        )
    missing = np.setdiff1d(codes[held_out], codes[~held_out])
    if len(missing):
        raise InputError(
            f"class {classes.tolist()[missing[0]]!r} is in {name} only; training needs at "
            f"least one node of every class"
        )
    return held_out
