"""From features and a solver to W and Z: what GPCA computes, apart from the estimator around it.

Columns of F and of Z are independent of each other, so that both can be made a block of columns
at a time, and X^T F and F W are summed up over chunks of rows. Nothing here holds more than a
block, whatever the size of X.
"""

from __future__ import annotations

import itertools
import math
import os
import tempfile
from typing import Any, NamedTuple

import numpy as np

from .budget import tell_bytes
from .linalg import (
    CenteredFeatures,
    Solver,
    leading_eigenpairs,
    leading_eigenpairs_of,
    parallel_map,
    parallel_sum,
    row_chunks,
)


class Fitted(NamedTuple):
    """W with its eigenvalues, Z, and how well the solves went.

    ``misfit`` is tr(Z^T (X W - (I + alpha L) Z)): zero for an exact solve. It and the residual are
    NaN after a given number of steps, where measuring them would take one more.
    """

    eigenvalues: np.ndarray
    W: np.ndarray
    Z: np.ndarray
    n_iter: int
    residual: float
    misfit: float


class Fit:
    """One fit: X, the solver, and how much of it may be in memory at a time.

    Parameters
    ----------
    solver : Solver
    X : CenteredFeatures
    row_weights : ndarray, optional
        Row weights of the objective; None for ones.
    columns_per_block : int
        Columns solved for together.
    result_dtype : dtype
        Precision of Z.
    on_disk : bool
        Whether Z is an array mapped to an unnamed temporary file instead of memory.
    """

    def __init__(
        self,
        solver: Solver,
        X: CenteredFeatures,
        row_weights: np.ndarray | None,
        columns_per_block: int,
        result_dtype: Any,
        *,
        on_disk: bool = False,
    ) -> None:
        self.solver, self.X, self.row_weights = solver, X, row_weights
        self.columns_per_block, self.result_dtype = columns_per_block, result_dtype
        self.on_disk = on_disk

    def formed(self, k: int) -> Fitted:
        """W from the d x d matrix X^T F, whole."""
        d = self.X.shape[1]
        if not self.X.is_sparse and self.columns_per_block >= d:
            return self._formed_at_once(k)
        M = np.empty((d, d), self.X.dtype)
        for block in _blocks(d, self.columns_per_block):
            M[:, block] = self._products(block)
        return self.embedded(*leading_eigenpairs(M, k))

    def _products(self, block: slice) -> np.ndarray:
        """Some columns of X^T F."""
        solution = self.solver.run(self.X.columns(block))
        if self.X.is_sparse:
            return self.X.transposed_dot(self._weighted(solution.F))

        def product(rows: slice) -> np.ndarray:
            return self.X.rows(rows).T @ self._weighted(solution.rows(rows), rows)

        total = np.zeros((self.X.shape[1], block.stop - block.start))
        return parallel_sum(product, self._row_chunks(self.X.shape[1]), total)

    def _formed_at_once(self, k: int) -> Fitted:
        n, d = self.X.shape
        solution = self.solver.solve(self.X.values, self.X.shift)

        def products(rows: slice) -> np.ndarray:
            F = self._weighted(solution.rows(rows), rows)
            both = np.full((2, d, d), np.nan, F.dtype)
            np.matmul(self.X.rows(rows).T, F, out=both[0])
            if solution.measured:
                np.matmul(F.T, solution.rest_rows(rows), out=both[1])
            return both

        gram, misfits = parallel_sum(products, self._row_chunks(d), np.zeros((2, d, d)))
        solution.drop_rest()
        values, W = leading_eigenpairs(gram.astype(self.X.dtype), k)
        Z = self._result(n, k)

        def project(rows: slice) -> None:
            Z[rows] = solution.rows(rows) @ W

        parallel_map(project, self._row_chunks(d))
        misfit = np.einsum("ik,ij,jk", W, misfits, W) * (1 + self.solver.alpha)
        return Fitted(values, W, Z, solution.n_iter, solution.residual, float(misfit))

    def lanczos(self, k: int, *, may_form: bool) -> Fitted:
        """W from products with X^T (I + alpha L)^-1 X: F is not held, nor a d x d matrix.

        Where the eigenvalues leave no other way, such a matrix is held after all if it ``may``.
        """
        found = leading_eigenpairs_of(self.apply, self.X.shape[1], k, may_form=may_form)
        return self.embedded(*found)

    def apply(self, V: np.ndarray) -> np.ndarray:
        """X^T (I + alpha L)^-1 X V."""
        F = self.solver.apply(self.X @ V)
        return self.X.transposed_dot(self._weighted(F))

    def embed(self, W: np.ndarray) -> tuple[np.ndarray, int, float, float]:
        """Z = (I + alpha L)^-1 X W, its most steps, largest residual, and misfit."""
        Z = self._result(self.X.shape[0], W.shape[1])
        n_iter, residual, misfit = 0, 0.0, 0.0
        for block in _blocks(W.shape[1], self.columns_per_block):
            steps, reached, more = self._embed_block(W[:, block], Z[:, block])
            n_iter, misfit = max(n_iter, steps), misfit + more
            residual = float(np.maximum(residual, reached))  # which keeps a NaN
        return Z, n_iter, residual, misfit

    def _embed_block(self, W: np.ndarray, Z: np.ndarray) -> tuple[int, float, float]:
        solution = self.solver.solve(self.X @ W)

        def write(rows: slice) -> float:
            Z[rows] = F = solution.rows(rows)
            if not solution.measured:
                return math.nan
            rest = solution.rest_rows(rows)
            return float(np.einsum("ij,ij", self._weighted(F, rows), rest, dtype=np.float64))

        misfit = parallel_sum(write, self._row_chunks(W.shape[1]))
        return solution.n_iter, solution.residual, misfit * (1 + self.solver.alpha)

    def embedded(self, values: np.ndarray, W: np.ndarray) -> Fitted:
        """The rest, once W is known."""
        Z, n_iter, residual, misfit = self.embed(W)
        return Fitted(values, W, Z, n_iter, residual, misfit)

    def eigen_residual(self, fitted: Fitted) -> float:
        """Largest ||X^T D Z_i - lambda_i W_i|| / lambda_1 over all components i.

        Where X^T D (I + alpha L)^-1 X is not symmetric, W belongs to its symmetric part, of which
        only the part within the subspace spanned by W is known from Z.
        """
        W = fitted.W.astype(np.float64)
        product = self.X.transposed_dot(self._weighted(fitted.Z)).astype(np.float64)
        if not self.solver.P.self_adjoint:
            product = W.T @ product
            product, W = (product + product.T) / 2, np.eye(W.shape[1])
        largest = float(np.linalg.norm(product - W * fitted.eigenvalues, axis=0).max())
        scale = float(fitted.eigenvalues[0])
        return largest / scale if scale > 0 else largest

    def objective(self, fitted: Fitted) -> float:
        """||X - Z W^T||^2 + alpha tr(Z^T L Z) at Z and W, in the inner product of P."""
        # It is ||X||^2 - 2 tr(Z^T X W) + tr(Z^T (I + alpha L) Z). The last term is
        # tr(Z^T X W) - misfit, and tr(Z^T X W) = tr(W^T F^T X W) the sum of the eigenvalues: true
        # for any Z = F W, not only for the optimal one.
        if math.isnan(fitted.misfit):
            return math.nan
        total = self.X.squared_norm(self.row_weights)
        value = total - float(fitted.eigenvalues.sum(dtype=np.float64)) - fitted.misfit
        return max(value, 0.0)  # a sum of squares, but for rounding

    def _weighted(self, F: np.ndarray, rows: slice = slice(None)) -> np.ndarray:
        return F if self.row_weights is None else self.row_weights[rows, None] * F

    def _row_chunks(self, width: int) -> Any:
        return row_chunks(self.X.shape[0], width, self.X.dtype)

    def _result(self, n: int, k: int) -> np.ndarray:
        if self.on_disk:
            return unnamed_array((n, k), self.result_dtype)
        return np.empty((n, k), self.result_dtype)


def unnamed_array(shape: tuple[int, int], dtype: Any) -> np.ndarray:
    """An array in a temporary file that vanishes with it."""
    n_bytes = shape[0] * shape[1] * np.dtype(dtype).itemsize
    try:
        with tempfile.TemporaryFile() as file:
            if hasattr(os, "posix_fallocate"):  # a full disk is an error now, a crash later
                os.posix_fallocate(file.fileno(), 0, n_bytes)
            return np.memmap(file, dtype, "w+", shape=shape)
    except OSError as error:
        raise OSError(
            error.errno,
            f"no room for {tell_bytes(n_bytes, up=True)} of results in {tempfile.gettempdir()} "
            f"({error.strerror}); name another folder in TMPDIR",
        ) from None


def _blocks(n_columns: int, most: int) -> list[slice]:
    """Columns in as few parts of at most so many as it takes, all about equally wide."""
    n_blocks = -(-n_columns // most)
    edges = [n_columns * i // n_blocks for i in range(n_blocks + 1)]
    return [slice(begin, end) for begin, end in itertools.pairwise(edges)]
