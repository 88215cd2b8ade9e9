"""GraphImputer: missing features filled in from the neighbours of a node."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin

from ..errors import InputError
from ..graph import Graph
from ..linalg import HarmonicExtension
from ..utils.checks import check_choice, check_number
from ._alignment import row_subgraph
from .training_nodes import TrainingNodes, check_keep, check_new_rows
from .validation import check_training_rows, forget_fit, set_row_attributes

#: Size of a block of columns that is filled at a time, in bytes of float64, and its smallest
#: width. Small blocks stay in the cache.
BLOCK_BYTES, BLOCK_COLUMNS = 2**22, 32


class GraphImputer(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Fill missing features by their harmonic extension over the graph.

    In every column, known values stay as they are, and each NaN becomes the weighted mean of the
    values of its neighbours, of which some may be missing as well: the values f at the unknown
    nodes u and the known nodes k satisfy ``L_uu f_u = -L_uk f_k`` with the Laplacian L = D - A of
    the graph. This is the solution with the smallest ``tr(f^T L f)``. Columns are independent of
    each other and may lack different values.

    Parameters
    ----------
    fallback : {"mean", "median"}, default="mean"
        What replaces a NaN if no node of its connected component has a value in this column: the
        mean or the median of the known values of the column in ``fit``. Without a graph, this is
        the case for every NaN, as in :class:`sklearn.impute.SimpleImputer`.
    shrinkage : float or "auto", default=0.0
        Weight of the mean or median of the column, next to those of the edges: a missing value is
        the weighted mean of its neighbours and of this statistic. 0 is the harmonic extension.
        ``auto`` is ``(1 - r) / r`` times the mean weight of an edge for every column, with r the
        correlation of known values along edges, and the statistic alone if r is below 0.01. It
        has the smaller squared error if neighbours have only a little in common.
    keep_empty_features : bool, default=False
        Whether a column without any value in ``fit`` is filled with 0. If False, it is an error.
    tol : float, default=1e-8
        Largest difference between a filled value and the weighted mean that it should be,
        relative to the largest difference between a known value of the column and their mean.
    keep_training_nodes : bool, optional
        Whether to keep X and the graph, so that ``transform`` can fill in new nodes from their own
        rows and edges, as in :class:`GPCA`. By default they are kept if ``nodes`` is passed or
        rows have ids.

    Attributes
    ----------
    statistics_ : ndarray of shape (n_features,)
        Mean or median of the known values of each column.
    shrinkage_ : ndarray of shape (n_features,)
        Weight of this statistic; inf if neighbours are not used.
    n_missing_ : int
        Number of NaN in ``fit``.
    n_unreachable_ : int
        Number of those without a known value in their connected component.
    training_nodes_ : TrainingNodes or None
        Rows and graph of ``fit``, if they were kept.
    n_nodes_in_, matched_by_id_, n_features_in_, feature_names_in_
        As in :class:`GPCA`.

    See Also
    --------
    GPCA : Embeds the filled features.

    Notes
    -----
    ``graph`` and ``nodes`` are matched with the rows of X as in :class:`GPCA`. ``transform`` uses
    the known values of the X it is given, and of training rows that were kept. In a sparse X
    the stored NaN are missing, and entries that are not stored are known to be 0. Columns of
    whole numbers or booleans get fractions: encode categories first
    (:class:`sklearn.preprocessing.OneHotEncoder`), and round afterwards if necessary.

    Examples
    --------
    >>> import numpy as np
    >>> from gpcanet import Graph, GraphImputer
    >>> graph = Graph.from_edge_index([[0, 1, 2], [1, 2, 3]], n_nodes=5, each_once=True)
    >>> X = np.array([[1.0, 0.0], [np.nan, 1.0], [np.nan, np.nan], [4.0, 5.0], [np.nan, 2.0]])
    >>> GraphImputer().fit_transform(X, graph=graph)
    array([[1. , 0. ],
           [2. , 1. ],
           [3. , 3. ],
           [4. , 5. ],
           [2.5, 2. ]])
    """

    # Requested by default in metadata routing, without a call of set_fit_request.
    __metadata_request__fit = {"graph": True, "nodes": True}
    __metadata_request__transform = {"graph": True, "nodes": True}

    def __init__(
        self,
        *,
        fallback: str = "mean",
        shrinkage: float | str = 0.0,
        keep_empty_features: bool = False,
        tol: float = 1e-8,
        keep_training_nodes: bool | None = None,
    ) -> None:
        self.fallback = fallback
        self.shrinkage = shrinkage
        self.keep_empty_features = keep_empty_features
        self.tol = tol
        self.keep_training_nodes = keep_training_nodes

    def fit(self, X: Any, y: Any = None, *, graph: Any = None, nodes: Any = None) -> Self:
        """Learn the mean or median of every column.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_nodes, n_features)
            Features; NaN where missing.
        y : None
            Not used.
        graph, nodes
            As in :meth:`GPCA.fit`.

        Returns
        -------
        self : GraphImputer
        """
        self._fit(X, graph, nodes)
        return self

    def fit_transform(
        self, X: Any, y: Any = None, *, graph: Any = None, nodes: Any = None
    ) -> np.ndarray | sp.csr_array:
        """Fit, and return X with its missing values filled in."""
        return self._fill(*self._fit(X, graph, nodes))

    def transform(
        self, X: Any, *, graph: Any = None, nodes: Any = None
    ) -> np.ndarray | sp.csr_array:
        """Return a copy of X with its missing values filled in.

        An imputer that was fitted with a graph requires one here.
        """
        rows, n_rows = check_new_rows(self, X, graph, nodes, allow_nan=True)
        self.check_parameters()
        return self._fill(rows.X, rows.row_graph)[:n_rows]

    def check_parameters(self) -> None:
        """Raise if a parameter has a value that is not allowed."""
        check_choice("fallback", self.fallback, ("mean", "median"))
        if self.shrinkage != "auto":
            check_number("shrinkage", self.shrinkage, 0, advice="use shrinkage='auto' to choose it")
        check_keep(self.keep_training_nodes)
        check_number("tol", self.tol, 1e-14, 0.5, advice="the default is 1e-8")

    def _fit(self, X: Any, graph: Any, nodes: Any) -> tuple[Any, Graph]:
        """Learn from X; return it, checked, and the graph on its rows."""
        forget_fit(self)
        self.check_parameters()
        has_graph = graph is not None
        X, graph, nodes, index = check_training_rows(self, X, graph, nodes, allow_nan=True)
        set_row_attributes(self, graph, index, has_graph=has_graph)
        rows = row_subgraph(graph, nodes)
        self.statistics_ = self._statistics(X)
        self.n_missing_ = int(np.isnan(X.data if sp.issparse(X) else X).sum())
        extension = self._extension(rows)
        self.n_unreachable_ = sum(
            int(extension.unreachable(np.isnan(block)).sum()) for _, block in _blocks(X)
        )
        self.shrinkage_ = np.full(X.shape[1], 0.0 if self.shrinkage == "auto" else self.shrinkage)
        if self.shrinkage == "auto":  # also columns that are complete now may lack values later
            for columns, block in _blocks(X, all_columns=True):
                self.shrinkage_[columns] = extension.shrinkage(block)
        self.training_nodes_ = TrainingNodes.kept(
            graph, nodes, X, None, keep=self.keep_training_nodes
        )
        return X, rows

    def _statistics(self, X: Any) -> np.ndarray:
        """Mean or median of the known values of every column."""
        statistics = np.empty(X.shape[1])
        by_column = X.tocsc() if sp.issparse(X) else X
        for column in range(X.shape[1]):
            values = by_column[:, [column]].toarray()[:, 0] if sp.issparse(X) else X[:, column]
            known = values[~np.isnan(values)].astype(np.float64)
            if len(known) == 0 and self.keep_empty_features:
                known = np.zeros(1)
            if len(known) == 0:
                name: Any = column
                if hasattr(self, "feature_names_in_"):
                    name = self.feature_names_in_[column]
                raise InputError(
                    f"every value in column {name!r} of X is NaN; drop the column, or use "
                    f"keep_empty_features=True to fill it with 0"
                )
            # Divided before the sum, which may overflow.
            exponent = np.frexp(np.abs(known).max(initial=0))[1]
            scaled = np.ldexp(known, -exponent)
            statistic = np.mean(scaled) if self.fallback == "mean" else np.median(scaled)
            statistics[column] = np.ldexp(statistic, exponent)
        return statistics

    def _extension(self, graph: Graph) -> HarmonicExtension:
        return HarmonicExtension(graph.indptr, graph.indices, graph.weights, tol=self.tol)

    def _fill(self, X: Any, graph: Graph) -> Any:
        """A copy of X with its NaN filled over the graph on its rows."""
        result = X.copy()
        extension = self._extension(graph)
        for columns, block in _blocks(X):
            statistics = self.statistics_[columns]
            filled = extension.fill(block, self.shrinkage_[columns], statistics)
            filled = np.where(np.isnan(filled), statistics, filled)
            if not sp.issparse(X):
                result[:, columns] = filled
                continue
            entries = np.flatnonzero(np.isnan(X.data) & np.isin(X.indices, columns))
            rows = np.searchsorted(X.indptr, entries, side="right") - 1
            places = np.searchsorted(columns, X.indices[entries])
            result.data[entries] = filled[rows, places]
        return result

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "training_nodes_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _blocks(X: Any, *, all_columns: bool = False) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Positions and dense values of the columns with NaN, some at a time."""
    if all_columns:
        columns = np.arange(X.shape[1])
    elif sp.issparse(X):
        columns = np.unique(X.indices[np.isnan(X.data)])
    else:
        columns = np.flatnonzero(np.isnan(X).any(axis=0))
    width = max(BLOCK_COLUMNS, BLOCK_BYTES // (8 * X.shape[0]))
    for begin in range(0, len(columns), width):
        chosen = columns[begin : begin + width]
        yield chosen, X[:, chosen].toarray() if sp.issparse(X) else X[:, chosen]
