"""Values of the features by which nodes can be coloured."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..linalg import column_variances

#: Size of the features on the page, before compression. Beyond it, those that vary least are left
#: out.
FEATURE_BYTES = 2**24

#: Bytes of a feature in addition to its values: its name, and where its values begin.
NAME_BYTES = 24

#: Largest number of nodes whose positions fit in two bytes.
SHORT_NODES = 2**16


class FeatureColumns(NamedTuple):
    """Columns of X as arrays of the page.

    ``values`` has one column after the other. If ``starts`` is empty, it has the values of all
    nodes. Otherwise it has those that are not 0, ``nodes`` has their nodes, and column i is
    ``values[starts[i] : starts[i + 1]]``.
    """

    features: np.ndarray
    starts: np.ndarray
    nodes: np.ndarray
    values: np.ndarray


def feature_columns(X: Any, shown: np.ndarray, first: np.ndarray) -> FeatureColumns:
    """Columns of the rows ``shown``: ``first``, then those with the largest variance.

    Columns are left out if all take more than FEATURE_BYTES, except those in ``first``. Values
    that are 0 are left out if that takes less room.
    """
    X = X if len(shown) == X.shape[0] else X[shown]
    n, d = X.shape
    node_type = np.dtype(np.uint16 if n <= SHORT_NODES else np.uint32)
    variances = column_variances(X)
    if sp.issparse(X):
        X = sp.csc_array(X)  # of canonical format, as X was
        counts = np.diff(X.indptr)
    else:
        counts = np.count_nonzero(X, axis=0)
    short = counts * (node_type.itemsize + 4)
    is_short = bool(short.sum() < 4 * n * d)
    sizes = NAME_BYTES + (short if is_short else np.full(d, 4 * n))

    order = np.argsort(-variances, kind="stable")
    order = np.concatenate([first, order[~np.isin(order, first)]])
    n_fitting = int(np.searchsorted(np.cumsum(sizes[order]), FEATURE_BYTES, side="right"))
    features = order[: max(len(first), n_fitting)]
    if not is_short:
        none = np.empty(0, np.uint32)
        chosen = X[:, features].toarray() if sp.issparse(X) else X[:, features]
        return FeatureColumns(features, none, none, _single(chosen.T.ravel()))
    chosen = sp.csc_array(X[:, features])
    chosen.eliminate_zeros()
    starts, nodes = chosen.indptr.astype(np.uint32), chosen.indices.astype(node_type)
    return FeatureColumns(features, starts, nodes, _single(chosen.data))


def _single(values: np.ndarray) -> np.ndarray:
    """Values in float32; those beyond its range become its largest."""
    largest = np.finfo(np.float32).max
    return np.clip(values, -largest, largest).astype(np.float32)
