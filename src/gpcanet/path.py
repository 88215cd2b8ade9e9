"""GPCAPath: one fit for a whole grid of alpha and beta."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from .alignment import RowIndex, align_to_rows, check_graph, part_of
from .budget import Plan
from .errors import InputError
from .fitting import Fit
from .gpca import GPCA, LARGEST_ALPHA, default_tol, is_better_dense
from .linalg import (
    CenteredFeatures,
    FactoredProducts,
    GhostForm,
    Grid,
    Propagation,
    Resolvents,
    extreme_exponent,
    is_small,
    leading_eigenpairs_by_blocks,
    parallel_map,
    plan_sharing,
    times_power_of_two,
    whole_eigenpairs,
)
from .seen import SeenNodes
from .validation import check_features, check_number

#: Least angle between computed and true components that rounding allows Lanczos to reach.
LEAST_ANGLE = 1e-9

#: Entries of X times components, summed over all pairs, from which compiled products save as much
#: as it takes to load them: 0.4 s, and 2 s more when they are compiled at their very first use.
COMPILED_WORK = 45_000_000

#: Entries of a factor up to which they are quicker: a graph without any structure fills in, and
#: SuperLU then works on dense parts of it. Cora's has 20,000.
FACTOR_ENTRIES = 800_000

#: Lanczos finds a few eigenvectors of a dense matrix sooner than LAPACK finds all of them if the
#: matrix has at least this many rows, and this many times as many rows as there are eigenvectors.
LANCZOS_ROWS, LANCZOS_SHARE = 300, 6


class GPCAPath(BaseEstimator):
    """The components of :class:`GPCA` for many values of alpha and beta at once.

    Meant for choosing them: all values share their passes over the graph, and every alpha
    between the smallest and the largest is to be had afterwards. The components are those of
    separate fits, to the same tolerance.

    Parameters
    ----------
    n_components : int, optional
        Width of the embeddings. By default 128, or all there are if fewer.
    alphas : sequence of float
        The values that ``fit`` prepares; every alpha between them can be asked for.
    betas : sequence of float
        The values of beta that can be asked for.
    tol : float, optional
        As in :class:`GPCA`. Block Lanczos also iterates until the estimated angle between the
        subspaces spanned by computed and true components is below it.
    normalization, ghost, max_iter
        As in :class:`GPCA`. Pairs that would take more than ``max_iter`` steps together are
        fitted one by one.

    Attributes
    ----------
    way_ : {"moments", "samples", "separate", "lanczos"}
        How the components were found: from moments of P, from solves at a few alphas (both in
        one pass for all alphas), each by itself where that is quicker, or by block Lanczos where
        there are many features and few components.
    n_nodes_in_ : int or None
        Number of nodes of the graph in ``fit``; None if it was given no graph.
    matched_by_id_ : bool
        Whether rows of a DataFrame were matched with the ids of the nodes.
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn.

    Notes
    -----
    X is kept for ``embedding``, a large or sparse one without a copy: leave it as it is.
    Components of values that ``fit`` did not prepare are found when they are asked for, and kept.

    Examples
    --------
    >>> import numpy as np
    >>> from gpcanet import GPCAPath, Graph
    >>> X = np.array([[1.0, 0.2], [0.9, 0.0], [-1.1, 0.1], [-0.8, -0.3]])
    >>> graph = Graph.from_edge_index([[0, 1, 2, 3], [1, 0, 3, 2]])
    >>> path = GPCAPath(n_components=1, alphas=(1.0, 10.0)).fit(X, graph=graph)
    >>> path.embedding(alpha=5.0).round(2)
    array([[ 0.97],
           [ 0.95],
           [-0.98],
           [-0.93]])
    """

    __metadata_request__fit = {"graph": True, "nodes": True}

    def __init__(
        self,
        n_components: int | None = None,
        *,
        alphas: Sequence[float] = (1.0, 5.0, 10.0, 20.0, 50.0),
        betas: Sequence[float] = (0.0,),
        normalization: str = "sym",
        ghost: str = "balanced",
        tol: float | None = None,
        max_iter: int = 1000,
    ) -> None:
        self.n_components = n_components
        self.alphas = alphas
        self.betas = betas
        self.normalization = normalization
        self.ghost = ghost
        self.tol = tol
        self.max_iter = max_iter

    def fit(self, X: Any, y: Any = None, *, graph: Any = None, nodes: Any = None) -> Self:
        """Find the components for all alphas and betas.

        Parameters
        ----------
        X : array-like or sparse of shape (n_nodes, n_features)
        y : array-like of shape (n_nodes,), optional
            Labels, -1 for unlabelled nodes. Read only for betas above 0.
        graph : Graph or what becomes one, optional
        nodes : array-like of int, optional
            Position of each row of X in the graph, if X holds only some of its nodes.
        """
        alphas, betas = self._check_parameters()
        index, with_graph = RowIndex.of(X), graph is not None
        X = check_features(self, X, reset=True)
        self._graph, self._nodes = check_graph(graph, nodes, X.shape[0], index=index)
        self._part = part_of(self._graph, self._nodes)
        self.n_nodes_in_ = self._graph.n_nodes if with_graph else None
        self.matched_by_id_ = index is not None and self._graph.node_ids is not None
        y = align_to_rows(y, self._graph, self._nodes, index, "y")
        model = self._unfitted(max(alphas), max(betas))
        self._k, self._labels = model._width(X), model._labels(y, X.shape[0])
        self._dtype, self._range, self._betas = X.dtype, (min(alphas), max(alphas)), betas
        wide = model._use_lanczos(X, self._k)
        inside = np.float64 if wide else X.dtype
        self._rows, self._exponent = X, extreme_exponent(X, inside)
        X = times_power_of_two(X, -self._exponent)
        if wide:
            X = X.astype(np.float64, copy=False)
        elif sp.issparse(X) and is_better_dense(X, X.dtype.itemsize):
            X = X.toarray()
        self._X = CenteredFeatures(X)
        self._pairs: dict[tuple[float, float], tuple[np.ndarray, np.ndarray]] = {}
        self._resolvents: Resolvents | None = None
        self._products: FactoredProducts | None = None
        pairs = list(itertools.product(alphas, betas))
        self.way_ = "lanczos" if wide else "separate"
        if not wide:
            self.way_ = self._share(alphas, betas)
        elif sp.issparse(X) and len(pairs) * self._k * X.nnz >= COMPILED_WORK:
            P = self._propagation(self._unfitted(max(alphas), 0.0), reorder=False)
            products = FactoredProducts(self._X, P) if is_small(P) else None
            if products is not None and products.n_entries <= FACTOR_ENTRIES:
                self._products = products
        self._prepare(pairs)
        return self

    def components(self, alpha: float, beta: float = 0.0) -> np.ndarray:
        """W^T of shape (n_components, n_features), as ``GPCA.components_``."""
        return np.ascontiguousarray(self._pair(alpha, beta)[1].T, dtype=self._dtype)

    def eigenvalues(self, alpha: float, beta: float = 0.0) -> np.ndarray:
        """Eigenvalues of X^T (I + alpha L)^-1 X, as ``GPCA.eigenvalues_``."""
        values = self._pair(alpha, beta)[0].astype(np.float64)
        return times_power_of_two(values, 2 * self._exponent)

    def embedding(self, alpha: float, beta: float = 0.0) -> np.ndarray:
        """Z of the nodes of ``fit``, as ``GPCA.fit_transform``; takes one solve of its width."""
        return self.fitted(alpha, beta)[1]

    def gpca(self, alpha: float, beta: float = 0.0) -> GPCA:
        """A fitted GPCA of these values, to transform other nodes or to be saved."""
        return self.fitted(alpha, beta)[0]

    # -- the fit --------------------------------------------------------------------------

    def _share(self, alphas: list[float], betas: list[float]) -> str:
        """Make one pass for all pairs where that pays, and say which way was taken."""
        model = self._unfitted(max(alphas), 0.0)
        P = self._propagation(model)
        solver = model._solver(P, self._dtype)
        if self._X.is_sparse:
            return "separate"
        ghost: GhostForm = self.ghost  # type: ignore[assignment]
        grid = Grid(tuple(alphas), tuple(betas), ghost, solver.tol)
        direct = solver.method == "direct"
        plan = plan_sharing(
            P, self._X.shape[1], self._labels, grid, direct=direct, max_iter=self.max_iter
        )
        if plan.way != "separate":

            def propagation(beta: float) -> Propagation:
                return self._propagation(self._unfitted(max(alphas), beta)) if beta else P

            centred = self._X.columns(slice(0, self._X.shape[1]))
            self._resolvents = Resolvents(propagation, centred, self._labels, grid, plan)
        return plan.way

    def _prepare(self, pairs: list[tuple[float, float]]) -> None:
        if self._resolvents is not None:
            found = parallel_map(lambda pair: self._from_resolvents(*pair), pairs)
        elif self._products is not None:
            found = parallel_map(lambda pair: self._from_products(*pair), pairs)
        elif self.way_ == "lanczos" and self._fit_of(*pairs[0])[1].solver.method == "direct":
            self._X.transposed_dot(np.zeros((self._X.shape[0], 1)))  # is kept, for all threads
            found = parallel_map(lambda pair: self._by_itself(*pair), pairs)
        else:  # uses all cores by itself
            found = [self._by_itself(*pair) for pair in pairs]
        self._pairs.update(zip(pairs, found, strict=True))

    def _from_resolvents(self, alpha: float, beta: float) -> tuple[np.ndarray, np.ndarray]:
        assert self._resolvents is not None
        M = self._resolvents.matrix(alpha, beta)
        if len(M) < max(LANCZOS_ROWS, LANCZOS_SHARE * self._k):
            return whole_eigenpairs(M, self._k)
        M = (M + M.T) / 2
        return leading_eigenpairs_by_blocks(lambda V: M @ V, len(M), self._k, angle=self._angle)

    def _from_products(self, alpha: float, beta: float) -> tuple[np.ndarray, np.ndarray]:
        assert self._products is not None
        P = self._propagation(self._unfitted(alpha, beta), reorder=False)
        M = self._products.matrix(P, alpha)
        return leading_eigenpairs_by_blocks(
            M, self._X.shape[1], self._k, angle=self._angle, squared=M.squared
        )

    @property
    def _angle(self) -> float:
        return max(self.tol or default_tol(self._dtype), LEAST_ANGLE)

    def _by_itself(self, alpha: float, beta: float) -> tuple[np.ndarray, np.ndarray]:
        fit = self._fit_of(alpha, beta)[1]
        if self.way_ == "lanczos":
            return leading_eigenpairs_by_blocks(
                fit.apply, self._X.shape[1], self._k, angle=self._angle
            )
        fitted = fit.formed(self._k)
        return fitted.eigenvalues, fitted.W

    # -- what is asked for ----------------------------------------------------------------

    def _pair(self, alpha: float, beta: float) -> tuple[np.ndarray, np.ndarray]:
        check_is_fitted(self)
        low, high = self._range
        check_number("alpha", alpha, low, high, advice="fit the path with alphas that enclose it")
        check_number("beta", beta, 0, 1, advice="use beta=0 to ignore labels")
        pair = float(alpha), float(beta)
        if pair[1] not in self._betas:
            known = ", ".join(f"{value:g}" for value in self._betas)
            raise InputError(f"beta={beta} must be one of {known}; fit the path with it in betas")
        if pair not in self._pairs:
            self._prepare([pair])
        return self._pairs[pair]

    def fitted(self, alpha: float, beta: float = 0.0) -> tuple[GPCA, np.ndarray]:
        """``gpca`` and ``embedding`` for the price of one."""
        values, W = self._pair(alpha, beta)
        model, fit = self._fit_of(float(alpha), float(beta))
        fitted = fit.embedded(values, W.astype(self._X.dtype, copy=False))
        residual = max(fitted.residual, fit.eigen_residual(fitted))
        fitted = fitted._replace(residual=residual)
        for name in ("n_features_in_", "feature_names_in_", "n_nodes_in_", "matched_by_id_"):
            if hasattr(self, name):
                setattr(model, name, getattr(self, name))
        model._learn(fit, fitted, self._exponent)
        labels = self._labels if beta > 0 else None
        model._seen = None
        if self._nodes is not None or labels is not None:
            rows = None if self._nodes is None else self._rows
            model._seen = SeenNodes(self._graph, self._nodes, rows, labels)
        return model, times_power_of_two(fitted.Z, self._exponent)

    def _fit_of(self, alpha: float, beta: float) -> tuple[GPCA, Fit]:
        model = self._unfitted(alpha, beta)
        P = self._propagation(model)
        columns = self._plan(model).columns_per_block
        return model, Fit(
            model._solver(P, self._dtype), self._X, P.row_weights, columns, self._dtype
        )

    def _plan(self, model: GPCA) -> Plan:
        is_wide = self.way_ == "lanczos"
        return model._plan(self._part, self._X.values, self._k, self._X.dtype, lanczos=is_wide)

    def _propagation(self, model: GPCA, *, reorder: bool | None = None) -> Propagation:
        labels = self._labels if model.beta > 0 else None
        if reorder is None:
            reorder = self._plan(model).reorder
        return model._propagation(self._part, labels, self._X.dtype, reorder=reorder)

    def _unfitted(self, alpha: float, beta: float) -> GPCA:
        return GPCA(
            self.n_components,
            alpha=alpha,
            beta=beta,
            normalization=self.normalization,
            ghost=self.ghost,
            tol=self.tol,
            max_iter=self.max_iter,
        )

    # -- doors ----------------------------------------------------------------------------

    def _check_parameters(self) -> tuple[list[float], list[float]]:
        alphas = _numbers("alphas", self.alphas, LARGEST_ALPHA, "use 0 to ignore the graph")
        betas = _numbers("betas", self.betas, 1, "use 0 to ignore labels")
        self._unfitted(alphas[0], betas[0])._check_parameters()
        return alphas, betas

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _numbers(name: str, values: Any, high: float, advice: str) -> list[float]:
    """Each value once, in the order given."""
    listed = np.atleast_1d(np.asarray(values, dtype=object))
    if listed.ndim != 1 or len(listed) == 0:
        raise InputError(f"{name}={values!r} must be a list of numbers, at least one")
    for value in listed:
        check_number(name, value, 0, high, advice=advice)
    return list(dict.fromkeys(float(value) for value in listed))
