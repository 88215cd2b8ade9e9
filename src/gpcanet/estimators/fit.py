"""W and Z of a problem: what GPCA computes, apart from the estimator around it.

The columns of F and Z are independent of each other, so both are computed one block of columns at
a time, and X^T F and F W are summed over chunks of rows. Nothing here holds more than a block.
"""

from __future__ import annotations

import math
import os
import tempfile
from typing import Any, NamedTuple

import numpy as np

from ..linalg import (
    column_blocks,
    estimate_trace,
    leading_eigenpairs,
    leading_eigenpairs_of,
    parallel_map,
    parallel_sum,
    row_chunks,
    times_power_of_two,
)
from .memory_plan import format_bytes, parse_bytes
from .problem import Problem


class Eigenpairs(NamedTuple):
    """Leading eigenpairs of X^T (I + alpha L)^-1 X, and the trace of that matrix if known."""

    values: np.ndarray
    vectors: np.ndarray  # W, one eigenvector per column
    trace: float | None


class Embedding(NamedTuple):
    """Z with the accuracy of its solves.

    ``residual_product`` is tr(Z^T (X W - (I + alpha L) Z)), which is 0 for exact solves. It and
    ``residual`` are NaN after a fixed number of steps, where they are not computed.
    """

    Z: np.ndarray
    n_iter: int
    residual: float
    residual_product: float


class Fit:
    """Computes W and Z of a problem.

    Parameters
    ----------
    problem : Problem
    """

    def __init__(self, problem: Problem) -> None:
        P = problem.propagation()
        self.problem, self.solver, self.X = problem, problem.solver(P), problem.features
        self._row_weights = P.row_weights
        self._block_size = problem.memory_plan.columns_per_block

    def run(self) -> tuple[Eigenpairs, Embedding]:
        """W and Z."""
        whole = not self.X.is_sparse and self._block_size >= self.X.shape[1]
        if self.problem.strategy == "formed" and whole:
            return self._run_at_once()
        eigenpairs = self.eigenpairs()
        return eigenpairs, self.embed(eigenpairs.vectors)

    def eigenpairs(self) -> Eigenpairs:
        """W, by the strategy of the problem."""
        d, k = self.X.shape[1], self.problem.n_components
        if self.problem.strategy == "lanczos":
            limit, tol = self.problem.parameters.memory_limit, self.problem.tol
            # LAPACK and copies take less memory than six such matrices.
            may_form = limit is None or 6 * 8 * d * d <= parse_bytes(limit)
            advice = f"use eigen_solver='formed', which computes a matrix of {d:,} x {d:,} numbers"
            found = leading_eigenpairs_of(
                self.apply, d, int(k), tol=tol, may_form=may_form, advice=advice
            )
            return Eigenpairs(*found, None)
        M = np.empty((d, d), self.X.dtype)
        for block in column_blocks(d, self._block_size):
            M[:, block] = self._products(block)
        return eigenpairs_of(M, k)

    def apply(self, V: np.ndarray) -> np.ndarray:
        """X^T (I + alpha L)^-1 X V."""
        F = self.solver.apply(self.X @ V)
        return self.X.transposed_dot(self._weighted(F))

    def _products(self, block: slice) -> np.ndarray:
        """A block of columns of X^T F."""
        solution = self.solver.solve(self.X.columns(block), with_residual=False)
        if self.X.is_sparse:
            return self.X.transposed_dot(self._weighted(solution.F))

        def product(rows: slice) -> np.ndarray:
            return self.X.rows(rows).T @ self._weighted(solution.rows(rows), rows)

        total = np.zeros((self.X.shape[1], block.stop - block.start))
        return parallel_sum(product, self._row_chunks(self.X.shape[1]), total)

    def _run_at_once(self) -> tuple[Eigenpairs, Embedding]:
        """W and Z from one solve for all columns: Z = F W needs no second one."""
        d = self.X.shape[1]
        solution = self.solver.solve(self.X.values, self.X.shift)

        def products(rows: slice) -> np.ndarray:
            F = self._weighted(solution.rows(rows), rows)
            both = np.full((2, d, d), np.nan, F.dtype)
            np.matmul(self.X.rows(rows).T, F, out=both[0])
            if solution.has_residual:
                np.matmul(F.T, solution.residual_rows(rows), out=both[1])
            return both

        gram, residuals = parallel_sum(products, self._row_chunks(d), np.zeros((2, d, d)))
        solution.drop_residual()
        eigenpairs = eigenpairs_of(gram.astype(self.X.dtype), self.problem.n_components)
        W = eigenpairs.vectors
        Z = self._empty_result(W.shape[1])

        def project(rows: slice) -> None:
            Z[rows] = solution.rows(rows) @ W

        parallel_map(project, self._row_chunks(d))
        product = float(np.einsum("ik,ij,jk", W, residuals, W)) * (1 + self.solver.alpha)
        return eigenpairs, Embedding(Z, solution.n_iter, solution.residual, product)

    def embed(self, W: np.ndarray) -> Embedding:
        """Z = (I + alpha L)^-1 X W."""
        W = W.astype(self.X.dtype, copy=False)
        Z = self._empty_result(W.shape[1])
        n_iter, residual, product = 0, 0.0, 0.0
        for block in column_blocks(W.shape[1], self._block_size):
            steps, reached, more = self._embed_block(W[:, block], Z[:, block])
            n_iter, product = max(n_iter, steps), product + more
            residual = float(np.maximum(residual, reached))  # keeps a NaN
        return Embedding(Z, n_iter, residual, product)

    def _embed_block(self, W: np.ndarray, Z: np.ndarray) -> tuple[int, float, float]:
        solution = self.solver.solve(self.X @ W)

        def write(rows: slice) -> float:
            Z[rows] = F = solution.rows(rows)
            if not solution.has_residual:
                return math.nan
            residual = solution.residual_rows(rows)
            return float(np.einsum("ij,ij", self._weighted(F, rows), residual, dtype=np.float64))

        product = parallel_sum(write, self._row_chunks(W.shape[1]))
        return solution.n_iter, solution.residual, product * (1 + self.solver.alpha)

    def eigen_residual(self, eigenpairs: Eigenpairs, Z: np.ndarray) -> float:
        """Largest ||X^T D z_i - lambda_i w_i|| / lambda_1 over all components i.

        If X^T D (I + alpha L)^-1 X is not symmetric, W belongs to its symmetric part, of which Z
        determines only the projection onto the subspace spanned by W.
        """
        W = eigenpairs.vectors.astype(np.float64)
        product = self.X.transposed_dot(self._weighted(Z)).astype(np.float64)
        if not self.problem.parameters.is_self_adjoint:
            product = W.T @ product
            product, W = (product + product.T) / 2, np.eye(W.shape[1])
        largest = float(np.linalg.norm(product - W * eigenpairs.values, axis=0).max())
        scale = float(eigenpairs.values[0])
        return largest / scale if scale > 0 else largest

    def objective(self, eigenpairs: Eigenpairs, embedding: Embedding) -> float:
        """||X - Z W^T||^2 + alpha tr(Z^T L Z), in the inner product of P."""
        # It is ||X||^2 - 2 tr(Z^T X W) + tr(Z^T (I + alpha L) Z). The last term is tr(Z^T X W) less
        # the residual product, and tr(Z^T X W) is the sum of the eigenvalues for any Z = F W.
        if math.isnan(embedding.residual_product):
            return math.nan
        total = self.X.squared_norm(self._row_weights)
        explained = float(eigenpairs.values.sum(dtype=np.float64))
        return max(total - explained - embedding.residual_product, 0.0)  # not below 0 by rounding

    def learned(self, eigenpairs: Eigenpairs, embedding: Embedding) -> dict[str, Any]:
        """The learned attributes of a fitted GPCA."""
        if eigenpairs.trace is None:
            values = eigenpairs.values.astype(np.float64, copy=False)
            trace = estimate_trace(self.apply, values, eigenpairs.vectors)
            eigenpairs = eigenpairs._replace(trace=trace)
        return learned_attributes(
            eigenpairs,
            self.X.mean,
            self.objective(eigenpairs, embedding),
            exponent=self.problem.exponent,
            dtype=self.problem.result_dtype,
            n_iter=embedding.n_iter,
            residual=embedding.residual,
        )

    def _weighted(self, F: np.ndarray, rows: slice = slice(None)) -> np.ndarray:
        return F if self._row_weights is None else self._row_weights[rows, None] * F

    def _row_chunks(self, width: int) -> Any:
        return row_chunks(self.X.shape[0], width, self.X.dtype)

    def _empty_result(self, k: int) -> np.ndarray:
        shape, dtype = (self.X.shape[0], k), self.problem.result_dtype
        on_disk = self.problem.memory_plan.on_disk
        return unnamed_array(shape, dtype) if on_disk else np.empty(shape, dtype)


def learned_attributes(
    eigenpairs: Eigenpairs,
    mean: np.ndarray,
    objective: float,
    *,
    exponent: int,
    dtype: Any,
    n_iter: int,
    residual: float,
) -> dict[str, Any]:
    """The learned attributes of a fitted GPCA, scaled back to the units of X."""
    values = eigenpairs.values.astype(np.float64, copy=False)
    trace = eigenpairs.trace
    assert trace is not None
    return {
        "mean_": times_power_of_two(mean.astype(dtype, copy=False), exponent),
        "components_": np.ascontiguousarray(eigenpairs.vectors.T, dtype=dtype),
        "n_components_": len(values),
        "eigenvalues_": times_power_of_two(values, 2 * exponent),
        "explained_variance_ratio_": values / trace if trace > 0 else np.zeros(len(values)),
        "objective_": float(times_power_of_two(objective, 2 * exponent)),
        "n_iter_": n_iter,
        "residual_": residual,
    }


def eigenpairs_of(M: np.ndarray, k: int | float) -> Eigenpairs:
    """Leading eigenpairs of a matrix; a fraction k is the share of the trace they must reach."""
    trace = float(np.trace(M, dtype=np.float64))
    if not isinstance(k, float):
        return Eigenpairs(*leading_eigenpairs(M, k), trace)
    values, vectors = leading_eigenpairs(M, len(M))
    reached = np.cumsum(values, dtype=np.float64)
    k = min(int(np.searchsorted(reached, k * trace)) + 1, len(values))
    return Eigenpairs(values[:k], vectors[:, :k], trace)


def unnamed_array(shape: tuple[int, int], dtype: Any) -> np.ndarray:
    """An array in a temporary file that is removed together with the array."""
    n_bytes = shape[0] * shape[1] * np.dtype(dtype).itemsize
    try:
        with tempfile.TemporaryFile() as file:
            if hasattr(os, "posix_fallocate"):  # a full disk is an error now, not a crash later
                os.posix_fallocate(file.fileno(), 0, n_bytes)
            return np.memmap(file, dtype, "w+", shape=shape)
    except OSError as error:
        raise OSError(
            error.errno,
            f"no room for {format_bytes(n_bytes, up=True)} of results in {tempfile.gettempdir()} "
            f"({error.strerror}); set TMPDIR to another folder",
        ) from None
