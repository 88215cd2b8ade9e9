"""GPCAPath: the components for a grid of alpha and beta, computed together."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from ..errors import InputError
from ..linalg import Grid, Resolvents, parallel_map, sharing_pays, times_power_of_two
from ..utils.checks import check_number
from .fit import Eigenpairs, Fit, eigenpairs_of
from .gpca import GPCA
from .memory_plan import Strategy
from .problem import LARGEST_ALPHA, Parameters, Problem, TrainingData, check_n_components
from .validation import forget_fit

#: Number of features up to which the matrix X^T F is formed for every pair.
SHARED_FEATURES = 1000


class GPCAPath(BaseEstimator):
    """The components of :class:`GPCA` for a grid of alpha and beta.

    For choosing alpha and beta: where possible all pairs share their passes over the graph, and
    components for every alpha between the smallest and the largest are available afterwards. The
    components are those of separate fits, to the same tolerance.

    Parameters
    ----------
    n_components : int, optional
        Number of components. None means 128, or min(n_nodes, n_features) if that is smaller.
    alphas : sequence of float
        The values that ``fit`` computes; every alpha between them can be requested later.
    betas : sequence of float
        The values of beta.
    normalization, ghost, tol, max_iter, keep_training_nodes
        As in :class:`GPCA`.

    Attributes
    ----------
    strategy_ : {"samples", "separate"}
        ``samples`` interpolates X^T (I + alpha L)^-1 X between solves at a few alphas, in one
        pass over the graph for all alphas. ``separate`` fits every pair, where that is faster.
    n_components_ : int
        Number of components.
    n_nodes_in_, matched_by_id_, n_features_in_, feature_names_in_
        As in :class:`GPCA`.

    Notes
    -----
    X is kept for ``embedding`` without a copy if it is large or sparse: do not modify it.
    Components for other values are computed on request, and kept.

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
        keep_training_nodes: bool | None = None,
    ) -> None:
        self.n_components = n_components
        self.alphas = alphas
        self.betas = betas
        self.normalization = normalization
        self.ghost = ghost
        self.tol = tol
        self.max_iter = max_iter
        self.keep_training_nodes = keep_training_nodes

    def fit(self, X: Any, y: Any = None, *, graph: Any = None, nodes: Any = None) -> Self:
        """Compute the components for all alphas and betas.

        Parameters
        ----------
        X, y, graph, nodes
            As in :meth:`GPCA.fit`; y is used only for betas above 0.

        Returns
        -------
        self : GPCAPath
        """
        forget_fit(self)
        alphas = _check_numbers("alphas", self.alphas, LARGEST_ALPHA, "use 0 to ignore the graph")
        betas = _check_numbers("betas", self.betas, 1, "use 0 to ignore labels")
        parameters = Parameters.of(self, alpha=max(alphas), beta=max(betas))
        self._data = data = TrainingData.check(self, X, y, graph, nodes, beta=max(betas))
        k = check_n_components(self.n_components, data.X)
        if isinstance(k, float):
            raise InputError(
                f"n_components={k} must be an integer: a path has one width for all pairs"
            )
        # Formed matrices of several pairs share their solves, so Lanczos is for many features.
        strategy: Strategy | None = None if data.X.shape[1] > SHARED_FEATURES else "formed"
        self._problem = Problem(
            parameters, data.row_graph, data.X, data.labels, n_components=k, strategy=strategy
        )
        self.n_components_ = k
        self._range, self._betas = (min(alphas), max(alphas)), betas
        self._resolvents = self._share(alphas, betas)
        self._eigenpairs: dict[tuple[float, float], Eigenpairs] = {}
        self._compute(list(itertools.product(alphas, betas)))
        self.strategy_ = "separate" if self._resolvents is None else "samples"
        return self

    def components(self, alpha: float, beta: float = 0.0) -> np.ndarray:
        """W^T of shape (n_components, n_features), as ``GPCA.components_``."""
        W = self._eigenpairs_at(alpha, beta).vectors
        return np.ascontiguousarray(W.T, dtype=self._problem.result_dtype)

    def eigenvalues(self, alpha: float, beta: float = 0.0) -> np.ndarray:
        """Eigenvalues of X^T (I + alpha L)^-1 X, as ``GPCA.eigenvalues_``."""
        values = self._eigenpairs_at(alpha, beta).values.astype(np.float64)
        return times_power_of_two(values, 2 * self._problem.exponent)

    def embedding(self, alpha: float, beta: float = 0.0) -> np.ndarray:
        """Z of the nodes of ``fit``, as ``GPCA.fit_transform``; takes one solve."""
        return self.fitted(alpha, beta)[1]

    def gpca(self, alpha: float, beta: float = 0.0) -> GPCA:
        """A fitted GPCA with these values, to transform other nodes or to save."""
        return self.fitted(alpha, beta)[0]

    def fitted(self, alpha: float, beta: float = 0.0) -> tuple[GPCA, np.ndarray]:
        """``gpca`` and ``embedding`` in the time of one of them."""
        eigenpairs = self._eigenpairs_at(alpha, beta)
        alpha, beta = float(alpha), float(beta)
        fit = Fit(self._problem.at(alpha, beta))
        embedding = fit.embed(eigenpairs.vectors)
        residual = max(embedding.residual, fit.eigen_residual(eigenpairs, embedding.Z))
        model = GPCA(
            self.n_components, alpha=alpha, beta=beta, normalization=self.normalization,
            ghost=self.ghost, tol=self.tol, max_iter=self.max_iter,
            keep_training_nodes=self.keep_training_nodes,
        )  # fmt: skip
        seen = {
            name: getattr(self, name)
            for name in ("n_features_in_", "feature_names_in_")
            if hasattr(self, name)
        }
        learned = fit.learned(eigenpairs, embedding._replace(residual=residual))
        kept = self._data.attributes(beta=beta, keep=self.keep_training_nodes)
        model.__dict__.update(seen | learned | kept)
        return model, times_power_of_two(embedding.Z, self._problem.exponent)

    def _share(self, alphas: list[float], betas: list[float]) -> Resolvents | None:
        """The products of all pairs from shared solves; None if separate fits are faster."""
        if self._problem.strategy != "formed" or self._problem.features.is_sparse:
            return None
        problem, X = self._problem.at(max(alphas), 0.0), self._problem.features
        P = problem.propagation()
        grid = Grid(tuple(alphas), tuple(betas), self.ghost, problem.tol)  # type: ignore[arg-type]
        d, labels, direct = X.shape[1], problem.labels, problem.method == "direct"
        if not sharing_pays(P, d, labels, grid, direct=direct, max_iter=self.max_iter):
            return None
        return Resolvents(
            lambda beta: problem.at(max(alphas), beta).propagation() if beta else P,
            X.columns(slice(0, d)),
            labels,
            grid,
        )

    def _compute(self, pairs: list[tuple[float, float]]) -> None:
        """Compute and keep the eigenpairs of these pairs of alpha and beta."""

        def separate(pair: tuple[float, float]) -> Eigenpairs:
            return Fit(self._problem.at(*pair)).eigenpairs()

        if self._resolvents:
            k, matrix = self.n_components_, self._resolvents.matrix
            found = parallel_map(lambda pair: eigenpairs_of(matrix(*pair), k), pairs)
        elif self._problem.strategy == "lanczos" and self._problem.method == "direct":
            found = parallel_map(separate, pairs)
        else:  # a fit is parallel itself
            found = [separate(pair) for pair in pairs]
        self._eigenpairs.update(zip(pairs, found, strict=True))

    def _eigenpairs_at(self, alpha: float, beta: float) -> Eigenpairs:
        check_is_fitted(self)
        low, high = self._range
        check_number("alpha", alpha, low, high, advice="fit the path with alphas that enclose it")
        check_number("beta", beta, 0, 1, advice="use 0 to ignore labels")
        pair = float(alpha), float(beta)
        if pair[1] not in self._betas:
            known = ", ".join(f"{value:g}" for value in self._betas)
            raise InputError(f"beta={beta} must be one of {known}; fit the path with it in betas")
        if pair not in self._eigenpairs:
            self._compute([pair])
        return self._eigenpairs[pair]

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "strategy_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _check_numbers(name: str, values: Any, high: float, advice: str) -> list[float]:
    """Each value once, in the given order."""
    listed = np.atleast_1d(np.asarray(values, dtype=object))
    if listed.ndim != 1 or len(listed) == 0:
        raise InputError(f"{name}={values!r} must be a list of at least one number")
    for value in listed:
        check_number(name, value, 0, high, advice=advice)
    return list(dict.fromkeys(float(value) for value in listed))
