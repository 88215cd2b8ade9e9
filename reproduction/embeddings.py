"""GPCA embeddings, computed once for all cells that use them."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from gpcanet.datasets import Dataset
from gpcanet.estimators.feature_scaler import FeatureScaler
from gpcanet.estimators.gpca import GPCA
from gpcanet.estimators.path import GPCAPath
from gpcanet.linalg import Propagation, Solver, leading_eigenpairs

from .cells import PUBLIC, Cell, Setup
from .loading import DatasetLoader
from .pools import SettingPool

#: Options that an embedding depends on, besides alpha and the number of components.
SHARED_OPTIONS = ("beta", "normalization", "n_iter", "ghost", "triangle", "scaling")

#: Largest number of components in the paper's pool; smaller embeddings are its leading columns.
MAX_COMPONENTS = 256


def embedding_key(cell: Cell) -> tuple[Any, ...]:
    """Equal for cells that share one embedding, or one path of embeddings."""
    setup = cell.setup
    split = cell.split if setup["beta"] else PUBLIC  # the split matters only with labels
    alpha = setup["alpha"] if _is_iterative(setup) else None  # a path has all alphas
    options = (setup.get(name) for name in SHARED_OPTIONS)
    return setup.dataset, split, alpha, _n_components(setup), *options


def _is_iterative(setup: Setup) -> bool:
    """Whether the setup names a number of iterations; otherwise the solve is exact."""
    return "n_iter" in setup


def _n_components(setup: Setup) -> int:
    """The same for all cells of a group, so that rounding does not depend on the other cells."""
    return max(setup["hidden"], MAX_COMPONENTS) if _is_iterative(setup) else setup["hidden"]


class Embeddings:
    """The embeddings of cells with the same ``embedding_key``."""

    def __init__(self, cells: list[Cell], loader: DatasetLoader) -> None:
        first = cells[0].setup
        data = loader.split(first.dataset, cells[0].split)
        y = data.visible_labels(validation=False) if first["beta"] else None
        X = FeatureScaler(first.get("scaling", "none")).fit(data.X).transform(data.X)
        k = min(_n_components(first), *X.shape)
        options = first.subset("normalization", "ghost")
        self._by_alpha: dict[float, np.ndarray] = {}
        self._path: GPCAPath | None = None
        alpha = float(first["alpha"])
        if not _is_iterative(first):
            # The whole pool, because the result of a path depends on its alphas in rounding.
            pool = SettingPool("ours", "full", first.dataset).values("alpha", [])
            alphas = sorted({float(a) for a in (*pool, *(cell.setup["alpha"] for cell in cells))})
            self._path = GPCAPath(k, alphas=alphas, betas=(float(first["beta"]),), **options)
            self._path.fit(X, y, graph=data.graph)
        elif first.get("triangle") == "upper":
            self._by_alpha[alpha] = one_triangle_embedding(data, X, y, k, first)
        else:
            gpca = GPCA(
                k, alpha=alpha, beta=first["beta"], solver="fixed-point", n_iter=first["n_iter"],
                **options,
            )  # fmt: skip
            self._by_alpha[alpha] = gpca.fit_transform(X, y, graph=data.graph)

    def embedding(self, cell: Cell) -> np.ndarray:
        """The embedding of a cell: the leading columns of the shared one."""
        alpha, beta = float(cell.setup["alpha"]), float(cell.setup["beta"])
        if alpha not in self._by_alpha:
            assert self._path is not None
            self._by_alpha[alpha] = self._path.embedding(alpha, beta)
        return self._by_alpha[alpha][:, : cell.setup["hidden"]]


def one_triangle_embedding(
    data: Dataset, X: Any, y: np.ndarray | None, k: int, setup: Setup
) -> np.ndarray:
    """F W as in the authors' code, whose eigensolver reads only the upper triangle of X^T F.

    With random-walk normalisation this matrix is not symmetric, so W depends on the triangle and
    solves no optimisation problem. The published numbers were computed this way.
    """
    P = Propagation(
        data.graph.indptr, data.graph.indices, data.graph.weights,
        normalization=setup["normalization"], labels=y, beta=setup["beta"], ghost=setup["ghost"],
    )  # fmt: skip
    centered = (X.toarray() if sp.issparse(X) else X).astype(np.float64)
    centered -= centered.mean(axis=0)
    solver = Solver(P, float(setup["alpha"]), method="fixed-point", n_iter=setup["n_iter"])
    F = solver.apply(centered)
    return F @ upper_triangle_vectors(centered.T @ F, k)


def upper_triangle_vectors(M: np.ndarray, k: int) -> np.ndarray:
    """The k leading eigenvectors of the symmetric matrix with the upper triangle of M."""
    return leading_eigenpairs(np.triu(M) + np.triu(M, 1).T, k)[1]
