"""The embeddings that cells of GPCA share: made once for all that want them."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from gpcanet.datasets import Dataset
from gpcanet.estimators._heads import FeatureScaler
from gpcanet.estimators.gpca import GPCA
from gpcanet.estimators.path import GPCAPath
from gpcanet.linalg import Propagation, Solver, leading_eigenpairs

from .cells import Cell, Setup
from .data import Source
from .entries import PUBLIC, Plan

#: Options that an embedding depends on, but for alpha and the width: a wider one serves all.
SHARED = ("beta", "normalization", "n_iter", "ghost", "triangle", "scaling")


#: The widest of the paper's pool; narrower ones are its leading columns.
WIDEST = 256


def embedding_key(cell: Cell) -> tuple[Any, ...]:
    """Equal for cells that share one embedding, or one path of them."""
    setup = cell.setup
    split = cell.split if setup["beta"] else PUBLIC  # without labels it sees no split
    alpha = setup["alpha"] if "n_iter" in dict(setup.options) else None  # one path has all alphas
    return setup.dataset, split, alpha, _width(setup), *(setup.get(name) for name in SHARED)


def _width(setup: Setup) -> int:
    """What is made for a cell must not depend, even in its rounding, on who else wants it."""
    return max(setup["hidden"], WIDEST) if "n_iter" in dict(setup.options) else setup["hidden"]


class Embeddings:
    """Z for each of some cells with the same ``embedding_key``."""

    def __init__(self, cells: list[Cell], source: Source) -> None:
        first = cells[0].setup
        data = source.split(first.dataset, cells[0].split)
        y = data.visible_labels(validation=False) if first["beta"] else None
        X = FeatureScaler(first.get("scaling", "none")).fit(data.X).transform(data.X)
        width = min(_width(first), *X.shape)
        how = first.some("normalization", "ghost")
        self._made: dict[float, np.ndarray] = {}
        if "n_iter" not in dict(first.options):
            # All of the pool's: how a path is made depends on its alphas.
            pool = Plan("ours", "full", first.dataset).values("alpha", [])
            alphas = sorted({float(a) for a in (*pool, *(cell.setup["alpha"] for cell in cells))})
            betas = (float(first["beta"]),)
            self._path: GPCAPath | None = GPCAPath(width, alphas=alphas, betas=betas, **how)
            self._path.fit(X, y, graph=data.graph)
            return
        self._path = None
        alpha = float(first["alpha"])
        if first.get("triangle") == "upper":
            self._made[alpha] = one_triangle_embedding(data, X, y, width, first.some(
                "alpha", "beta", "normalization", "n_iter", "ghost"
            ))  # fmt: skip
            return
        gpca = GPCA(
            width, alpha=alpha, beta=first["beta"], solver="fixed-point", n_iter=first["n_iter"],
            **how,
        )  # fmt: skip
        self._made[alpha] = gpca.fit_transform(X, y, graph=data.graph)

    def of(self, cell: Cell) -> np.ndarray:
        """The leading columns are those of a narrower embedding."""
        alpha, beta = float(cell.setup["alpha"]), float(cell.setup["beta"])
        if alpha not in self._made:
            assert self._path is not None
            self._made[alpha] = self._path.embedding(alpha, beta)
        return self._made[alpha][:, : cell.setup["hidden"]]


def one_triangle_embedding(
    data: Dataset, X: Any, y: np.ndarray | None, k: int, how: dict[str, Any]
) -> np.ndarray:
    """F W as in the authors' code, whose eigensolver reads only the upper triangle of X^T F.

    With the random walk that matrix is not symmetric, so the W of either triangle is that of no
    objective; it is what their published numbers come from.
    """
    P = Propagation(
        data.graph.indptr, data.graph.indices, data.graph.weights,
        normalization=how["normalization"], labels=y, beta=how["beta"], ghost=how["ghost"],
    )  # fmt: skip
    centred = (X.toarray() if sp.issparse(X) else X).astype(np.float64)
    centred -= centred.mean(axis=0)
    F = Solver(P, float(how["alpha"]), method="fixed-point", n_iter=how["n_iter"]).apply(centred)
    return F @ upper_triangle_vectors(centred.T @ F, k)


def upper_triangle_vectors(M: np.ndarray, k: int) -> np.ndarray:
    """The k leading eigenvectors of the symmetric matrix with M's upper triangle."""
    return leading_eigenpairs(np.triu(M) + np.triu(M, 1).T, k)[1]
