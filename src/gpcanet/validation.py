"""Checks at the doors of the estimators. A message says what came, what is allowed, what to do."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from numbers import Integral, Real
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import assert_all_finite
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d, validate_data

from .entries import check_positions, id_array, is_missing
from .errors import InputError, InputTypeError, UserError
from .graph import Graph, as_graph

UNLABELED = -1


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
    """Give errors of scikit-learn's checks of user input a type of our own, message unchanged."""
    try:
        yield
    except UserError:
        raise
    except ValueError as error:
        raise InputError(str(error)) from None
    except TypeError as error:
        raise InputTypeError(str(error)) from None


def check_features(estimator: Any, X: Any, *, reset: bool) -> Any:
    """X as a finite float array or csr_array, its width and names kept or compared."""
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


def check_graph(graph: Any, nodes: Any, n_rows: int) -> tuple[Graph, np.ndarray | None]:
    """The graph and the position of each row of X in it; None means row i is node i."""
    if nodes is None:
        graph = as_graph(graph, n_rows)
        if graph.n_nodes != n_rows:
            raise InputError(
                f"X has {n_rows} rows but the graph has {graph.n_nodes} nodes; they must match, "
                f"or nodes= must give the position of each row in the graph (in "
                f"cross-validation: nodes=np.arange(len(X)), which is split along with X)"
            )
        return graph, None
    graph = as_graph(graph, None)
    nodes = check_positions(nodes, graph.n_nodes)
    if len(nodes) != n_rows:
        raise InputError(f"{len(nodes)} nodes for {n_rows} rows of X; give one position per row")
    if np.array_equal(nodes, np.arange(graph.n_nodes)):
        return graph, None
    return graph, nodes


def check_labels(y: Any, n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Class codes per row (-1 for unlabelled) and the classes.

    -1 marks an unlabelled node; in an object array (say of strings) a missing value does, too.
    """
    if isinstance(y, list | tuple) and any(isinstance(label, str) for label in y):
        y = id_array(y)  # numpy would turn the -1 of ["a", -1] into a class "-1"
    with as_user_errors():
        y = column_or_1d(y, warn=True)
    if y.dtype.kind == "U" and str(UNLABELED) in y:
        raise InputError(
            f"y is an array of text with '{UNLABELED}' in it; mark unlabelled nodes by None in an "
            f"array of dtype object"
        )
    if len(y) != n_rows:
        raise InputError(
            f"y has {len(y)} labels for {n_rows} rows of X; give one per row, "
            f"{UNLABELED} where unknown"
        )
    if y.dtype == object:
        labelled = np.array([not is_missing(label) and label != UNLABELED for label in y], bool)
    else:
        with as_user_errors():
            assert_all_finite(y, input_name="y")
        labelled = y != UNLABELED if y.dtype.kind in "iuf" else np.ones(n_rows, bool)
    known = y[labelled]
    if len(known) == 0:
        raise InputError(f"y has no labelled node: all are {UNLABELED}; at least one is needed")
    if y.dtype == object and len({isinstance(label, str) for label in known}) > 1:
        raise InputTypeError("y mixes text and numbers; give all labels as one or the other")
    with as_user_errors():
        check_classification_targets(known)
    codes = np.full(n_rows, UNLABELED)
    classes, codes[labelled] = np.unique(known, return_inverse=True)
    return codes, classes


def check_held_out(validation: Any, codes: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """A mask of the validation rows, all of them labelled and no class theirs alone."""
    with as_user_errors():
        chosen = column_or_1d(validation)
    if chosen.dtype != bool and not np.issubdtype(chosen.dtype, np.integer):
        raise InputTypeError(f"validation of dtype {chosen.dtype} must be a mask or row positions")
    if chosen.dtype == bool and len(chosen) != len(codes):
        raise InputError(f"validation mask has {len(chosen)} values for {len(codes)} rows of X")
    if chosen.dtype != bool and len(chosen) and (chosen.min() < 0 or chosen.max() >= len(codes)):
        worst = chosen.min() if chosen.min() < 0 else chosen.max()
        raise InputError(f"validation row {worst} is out of range for {len(codes)} rows of X")
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
