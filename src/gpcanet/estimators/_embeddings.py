"""Embeddings of GPCAClassifier for all feature scalings and alphas, from shared passes.

With many features, the components of all alphas are computed in one subspace of the features. It
is spanned by approximate leading components for alpha = 0 and for a usual alpha.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.linalg

from ..graph import Graph
from ..linalg import (
    HALF_ALPHA,
    CenteredFeatures,
    Propagation,
    Solver,
    is_large_block,
    one_blas_thread,
    products_and_rows,
    solutions_by_columns,
    times_power_of_two,
)
from ..utils.labels import UNLABELED
from ._alignment import row_subgraph
from .feature_scaler import FeatureScaler
from .fit import Eigenpairs, Fit, eigenpairs_of
from .gpca import GPCA
from .memory_plan import reordering_pays
from .problem import Parameters, Problem, TrainingData, check_n_components

#: Parameters of GPCA. If one of them is not at its default, every alpha is fitted separately.
SEPARATE_PARAMETERS = (
    "beta", "normalization", "solver", "n_iter", "tol", "max_iter", "eigen_solver", "precision",
    "memory_limit",
)  # fmt: skip

#: alphas whose leading components span the subspace for all alphas.
SUBSPACE_ALPHAS = (0.0, 10.0)

#: Steps of the subspace iteration.
SUBSPACE_STEPS = 2

#: Tolerance of the solves that all alphas share, and of the embeddings that are kept.
SHARED_TOL = 1e-3


class EmbeddingGrid:
    """Embeddings for pairs of a feature scaling and an alpha.

    For the labelled rows they are cached; for all rows they are computed on request.

    Parameters
    ----------
    template : GPCA
        Its parameters, apart from alpha, are those of all embeddings.
    alphas : list of float
    data : TrainingData
        Labels are the class codes of all labelled rows.
    """

    def __init__(self, template: GPCA, alphas: list[float], data: TrainingData) -> None:
        assert data.labels is not None
        self.data, self.codes = data, data.labels
        self._template, self._alphas = template, sorted(set(alphas))
        self._uses_labels = template.beta > 0
        default = GPCA()
        n_components = check_n_components(template.n_components, data.X)
        self._shares = len(self._alphas) > 1 and not isinstance(n_components, float)
        self._shares &= all(
            getattr(template, name) == getattr(default, name) for name in SEPARATE_PARAMETERS
        )
        self._labeled = np.flatnonzero(self.codes >= 0)
        self._position = np.cumsum(self.codes >= 0) - 1  # row -> position among labelled rows
        self._cached: dict[tuple[Any, ...], np.ndarray] = {}
        self._fitted: dict[tuple[Any, ...], tuple[GPCA, np.ndarray]] = {}
        self._eigenpairs: dict[tuple[str, float], Eigenpairs] = {}  # within the subspace
        self._subspaces: dict[str, np.ndarray] = {}  # by scaling; missing if it is the whole space
        self._degrees: dict[float, np.ndarray] = {}
        self._scalers: dict[str, FeatureScaler] = {}
        self._scaled: tuple[str, Any] = ("none", data.X)
        self._problem: Problem | None = None  # of that scaling; it refers to the scaled X

    @cached_property
    def row_graph(self) -> Graph:
        return row_subgraph(self.data.graph, self.data.nodes)

    @cached_property
    def propagation(self) -> Propagation:
        """P of the rows without ghost edges, in the precision of X."""
        return propagation_of(self.row_graph, self.data.X)

    def scaler(self, scaling: str) -> FeatureScaler:
        if scaling not in self._scalers:
            self._scalers[scaling] = FeatureScaler(scaling).fit(self.data.X)
        return self._scalers[scaling]

    def scaled(self, scaling: str) -> Any:
        """X with this scaling; only the last scaling is cached."""
        if self._scaled[0] != scaling:
            self._problem, self._scaled = None, ("none", self.data.X)  # frees the last one
            self._scaled = scaling, self.scaler(scaling).transform(self.data.X)
        return self._scaled[1]

    def degree(self, alpha: float) -> np.ndarray:
        """The column of ``degree_columns`` for an alpha."""
        if not self._degrees:
            found = degree_columns(self.propagation, self._alphas)
            self._degrees = dict(zip(self._alphas, found, strict=True))
        return self._degrees[alpha]

    def training_codes(self, train: np.ndarray) -> np.ndarray:
        """Class codes of all rows, UNLABELED except for the training rows."""
        codes = np.full(len(self.codes), UNLABELED)
        codes[train] = self.codes[train]
        return codes

    def rows(self, scaling: str, alpha: float, train: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Z of some labelled rows. Ghost edges connect training rows only."""
        key = self._key(scaling, alpha, train)
        if key not in self._cached:
            if self._shares:
                self._share(scaling)
            else:
                self._cached[key] = self.fitted(scaling, alpha, train)[1][self._labeled]
                if key[2] is not None:  # the rows of other folds are not needed again
                    del self._fitted[key]
        return self._cached[key][self._position[rows]]

    def fitted(self, scaling: str, alpha: float, train: np.ndarray) -> tuple[GPCA, np.ndarray]:
        """The fitted GPCA and Z of all rows."""
        key = self._key(scaling, alpha, train)
        if key not in self._fitted:
            self._fitted[key] = self._fit(scaling, alpha, train)
        return self._fitted[key]

    def forget(self, pair: tuple[str, float]) -> None:
        """Forget the embeddings of all rows for a pair of scaling and alpha."""
        for key in [key for key in self._fitted if key[:2] == pair]:
            del self._fitted[key]

    def keep_only(self, pairs: list[tuple[str, float]]) -> None:
        """Forget all embeddings except those of some pairs of scaling and alpha."""
        for cache in (self._cached, self._fitted):
            for key in [key for key in cache if key[:2] not in pairs]:
                del cache[key]

    def _key(self, scaling: str, alpha: float, train: np.ndarray) -> tuple[Any, ...]:
        return scaling, alpha, train.tobytes() if self._uses_labels else None

    def _fit(self, scaling: str, alpha: float, train: np.ndarray) -> tuple[GPCA, np.ndarray]:
        X, data = self.scaled(scaling), self.data
        gpca = GPCA(**{**self._template.get_params(), "alpha": alpha})
        if not self._shares:
            labels = self.training_codes(train) if self._uses_labels else None
            return gpca, gpca.fit_transform(X, labels, graph=data.graph, nodes=data.nodes)
        if (scaling, alpha) not in self._eigenpairs:
            self._share(scaling)
        gpca.tol = SHARED_TOL
        problem = self._shared_problem(scaling).at(alpha, 0.0)
        found = self._eigenpairs[scaling, alpha]
        if scaling in self._subspaces:
            found = found._replace(vectors=self._subspaces[scaling] @ found.vectors)
        P, k = self.propagation, len(found.values)
        if 0 < alpha <= HALF_ALPHA and P.dtype == np.float32 and is_large_block(P, k):
            problem.parameters = replace(problem.parameters, precision="half")
            gpca.precision = "half"  # predictions use the same solver
        fit = Fit(problem)
        embedding = fit.embed(found.vectors)
        learned = fit.learned(found, embedding)
        learned |= data._replace(X=X).attributes(beta=0.0, keep=gpca.keep_training_nodes)
        gpca.__dict__.update(learned, n_features_in_=X.shape[1])
        return gpca, times_power_of_two(embedding.Z, problem.exponent)

    def _shared_problem(self, scaling: str) -> Problem:
        """The problem of the largest alpha with this scaling."""
        X = self.scaled(scaling)
        if self._problem is None:
            k = int(check_n_components(self._template.n_components, X))
            parameters = Parameters.of(self._template, alpha=self._alphas[-1], tol=SHARED_TOL)
            P = self.propagation
            self._problem = Problem(
                parameters, self.row_graph, X, n_components=k, strategy="formed", known=P
            )
        return self._problem

    def _share(self, scaling: str) -> None:
        """Compute the components of all alphas, and Z of the labelled rows."""
        problem, P = self._shared_problem(scaling), self.propagation
        features, k = problem.features, int(problem.n_components)
        d = features.shape[1]
        Q = B = None
        with one_blas_thread():
            if len(SUBSPACE_ALPHAS) * k < d:
                Q = _leading_subspace(features, P, k)
                B = np.ascontiguousarray(features @ Q, dtype=problem.dtype)
                self._subspaces[scaling] = Q
            products, solved = self._products_and_rows(features, B)
            for alpha, product, F in zip(self._alphas, products, solved, strict=True):
                values, vectors, trace = eigenpairs_of((product + product.T) / 2, k)
                Z = F @ vectors.astype(F.dtype)
                self._cached[scaling, alpha, None] = times_power_of_two(Z, problem.exponent)
                found = Eigenpairs(values, vectors, trace if Q is None else None)
                self._eigenpairs[scaling, alpha] = found

    def _products_and_rows(
        self, X: CenteredFeatures, B: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """B^T F and the labelled rows of F = (I + alpha L)^-1 B for all alphas.

        If B is None, it is X.
        """
        P, alphas = self.propagation, self._alphas
        shift = None
        if B is None and is_large_block(P, X.shape[1]) and not X.is_sparse:
            B, shift = X.values, X.shift  # without a centred copy
        elif B is None:
            B = X.columns(slice(0, X.shape[1]))
        if is_large_block(P, B.shape[1]):
            return products_and_rows(P, B, shift, alphas, SHARED_TOL, self._labeled)
        positive = [alpha for alpha in alphas if alpha > 0]
        w = B.shape[1]
        products = np.zeros((len(alphas), w, w))
        solved = np.empty((len(alphas), len(self._labeled), w), B.dtype)
        if alphas[0] == 0:
            products[0], solved[0] = B.T @ B, B[self._labeled]
        offset = len(alphas) - len(positive)
        for part, blocks in solutions_by_columns(P, B, positive, SHARED_TOL):
            for i, F in enumerate(blocks, offset):
                products[i, :, part], solved[i, :, part] = B.T @ F, F[self._labeled]
        return products, solved


def propagation_of(graph: Graph, X: Any) -> Propagation:
    """P of a graph in the precision of X, reordered if that pays off for blocks of its size."""
    n, d = X.shape
    reorder = reordering_pays(n, len(graph.indices), d * X.dtype.itemsize)
    return Propagation(graph.indptr, graph.indices, graph.weights, dtype=X.dtype, reorder=reorder)


def degree_columns(P: Propagation, alphas: list[float]) -> np.ndarray:
    """(I + alpha L)^-1 1 for ascending alphas, of shape (n_alphas, n_nodes, 1).

    It grows with the degree. Embeddings without centring of X would contain a multiple of it.
    """
    ones = np.ones((P.n_nodes, 1), P.dtype)
    positive = [alpha for alpha in alphas if alpha > 0]
    found = [ones] * (len(alphas) - len(positive))
    if positive:
        [(_, solved)] = solutions_by_columns(P, ones, positive, SHARED_TOL)
        found += list(solved)
    return np.array(found)


def _leading_subspace(X: CenteredFeatures, P: Propagation, k: int) -> np.ndarray:
    """Orthonormal columns close to the k leading components of each of SUBSPACE_ALPHAS."""
    start = np.random.default_rng(0).standard_normal((X.shape[1], k)).astype(X.dtype)
    spans = []
    for alpha in SUBSPACE_ALPHAS:
        solver = Solver(P, alpha, tol=0.01) if alpha else None
        Q = start
        for step in range(SUBSPACE_STEPS):
            F = X @ (orthonormal(Q) if step else Q)
            Q = X.transposed_dot(F if solver is None else solver.apply(F))
        spans.append(Q)
    return orthonormal(np.hstack(spans))


def orthonormal(A: np.ndarray) -> np.ndarray:
    """Orthonormal columns with the span of A; numpy's qr would compute in double precision."""
    return scipy.linalg.qr(A, mode="economic", check_finite=False)[0]
