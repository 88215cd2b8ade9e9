"""The propagation matrix P as an operator on blocks of columns.

P = (1 - beta) A~ + beta G, where A~ is the normalised adjacency matrix with self-loops and G are
the ghost edges added by labels (eq. 17 of the paper). G is a diagonal plus a low-rank factor with
one row per labelled node, and is never formed.

Solvers work in the scaled variable D^-1/2 F, D being the degrees with self-loops. In it the
symmetric D^-1/2 (A + I) D^-1/2 becomes the random walk D^-1 (A + I), so one kernel, which adds the
rows of neighbours and divides by the degree, serves both normalisations and needs no edge values
on unweighted graphs. The random walk is self-adjoint in the inner product weighted by D.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import scipy.sparse as sp

from ...errors import InputError
from ..parallel import parallel_rows
from .blocks import Block, zero_block
from .ghost import GhostFactor, GhostForm, ghost_factors, labeled_node_mask

Normalization = Literal["sym", "rw"]

#: Multiplications of a step from which the compiled kernel is used. Below it scipy's product
#: takes less time than loading the kernel.
FUSED_WORK = 16_000_000

#: Size up to which X is copied into the order, scale and precision of the steps. A larger X is
#: read in place, which makes steps up to a fifth slower.
MATERIALIZED_BYTES = 2**28


class Propagation:
    """P of a graph.

    Parameters
    ----------
    indptr, indices, weights : ndarray
        Symmetric adjacency matrix in CSR form without self-loops; ``weights=None`` for an
        unweighted graph.
    normalization : {"sym", "rw"}
        D^-1/2 (A + I) D^-1/2 or D^-1 (A + I).
    labels : ndarray, optional
        Class codes of shape (n,), -1 for unlabelled nodes, or targets of shape (n, t), NaN where
        unknown. Used if beta > 0.
    beta : float
        Share of the ghost edges in P.
    ghost : {"balanced", "paper"}
        In the form of the paper, the ghost row of an unlabelled node is zero, which adds a ridge
        penalty to these nodes only. In the balanced form such a node has a ghost edge to itself,
        so every ghost row sums to one.
    dtype : {float32, float64}
        Precision of the steps.
    reorder : bool
        Whether to store the nodes in an order in which neighbours are close. It changes results
        by rounding only, and pays off for ten or more steps on a million entries.

    Attributes
    ----------
    mass : ndarray of shape (n,)
        Degrees, the diagonal of the inner product in which P is self-adjoint.
    self_adjoint : bool
        Whether P is self-adjoint in that inner product.
    position : ndarray of int or None
        Internal position of each node; None if nodes are not reordered.
    ghost : GhostFactor or None
        The low-rank part of the ghost edges.

    Examples
    --------
    >>> import numpy as np
    >>> P = Propagation(np.array([0, 1, 2]), np.array([1, 0]))  # a single edge
    >>> P @ np.array([[1.0], [3.0]])
    array([[2.],
           [2.]])
    """

    def __init__(
        self,
        indptr: np.ndarray,
        indices: np.ndarray,
        weights: np.ndarray | None = None,
        *,
        normalization: Normalization = "sym",
        labels: np.ndarray | None = None,
        beta: float = 0.0,
        ghost: GhostForm = "balanced",
        dtype: Any = np.float64,
        reorder: bool = False,
    ) -> None:
        self._order: np.ndarray | None = None
        self.position: np.ndarray | None = None
        if reorder:
            from .ordering import locality_order, permute, positions_of

            self._order = _read_only(locality_order(indptr, indices))
            self.position = positions_of(self._order)
            arrays = indptr, indices, weights, self._order, self.position
            indptr, indices, weights = permute(*arrays)
            labels = None if labels is None else labels[self._order]
        self.indptr, self.indices = _read_only(indptr), _read_only(indices)
        self.n_nodes = len(indptr) - 1
        self.shape = (self.n_nodes, self.n_nodes)
        self.dtype = np.dtype(dtype)
        self.normalization = normalization

        degrees = degrees_of(self.indptr, weights)
        with np.errstate(over="ignore"):
            self.mass = degrees.astype(self.dtype)
        if not np.all(np.isfinite(self.mass)):
            raise InputError(
                f"the weights of a node sum to {degrees.max():.1e}, which overflows {self.dtype}; "
                f"scale them down or use float64 features"
            )
        self.weights = None
        if weights is not None:
            self.weights = _read_only(weights.astype(self.dtype, copy=False))
        self._scale = (degrees**-0.5).astype(self.dtype) if normalization == "sym" else None
        self._row_scale = ((1 - beta) / degrees).astype(self.dtype)
        self._diagonal = np.zeros(self.n_nodes, self.dtype)
        self.ghost: GhostFactor | None = None
        self._matrix: sp.csr_array | None = None
        self._always_fused = False
        self.self_adjoint = True
        if beta > 0:
            self._add_ghost_edges(labels, beta, ghost, degrees)

    def _add_ghost_edges(
        self, labels: np.ndarray | None, beta: float, form: GhostForm, degrees: np.ndarray
    ) -> None:
        if labels is None:
            labels = np.full(self.n_nodes, -1)
        if form == "balanced":
            self._diagonal[~labeled_node_mask(labels)] = beta
        mass = None if self.normalization == "sym" else degrees
        nodes, left, right = ghost_factors(labels, mass, form)
        if len(nodes) == 0:
            return
        degree = degrees[nodes]
        if mass is None:  # U V^T becomes D^-1/2 U V^T D^1/2 in the scaled variable
            left = sp.diags_array(degree**-0.5) @ left
            right = sp.diags_array(degree**0.5) @ right
        else:
            right = sp.diags_array(degree) @ right
            of_equal_degrees = labels.ndim == 1 and bool(np.ptp(degree) == 0)
            self.self_adjoint = form == "balanced" or of_equal_degrees
        self.ghost = GhostFactor(nodes, beta * left, right, self.n_nodes, self.dtype)

    # -- in the variable of the caller ----------------------------------------------------

    def __matmul__(self, F: np.ndarray) -> np.ndarray:
        """P @ F in the variable of the caller."""
        block = np.ascontiguousarray(F, dtype=self.dtype).reshape(self.n_nodes, -1)
        internal = self.scaled(self.to_internal(block), 1.0)
        return self.from_internal(self.matmul(internal), internal).reshape(F.shape)

    @property
    def row_weights(self) -> np.ndarray | None:
        """Row weights of the objective that belongs to P: None for sym, D for rw."""
        if self.normalization == "sym":
            return None
        return self.mass if self.position is None else self.mass[self.position]

    # -- in the scaled variable -----------------------------------------------------------

    def to_internal(self, X: np.ndarray, shift: np.ndarray | None = None) -> Block:
        """X - shift in the scaled variable: the second argument of ``step``.

        The result may be X itself, or a LazyBlock.
        """
        if self.is_fused(X.shape[1]):
            return self.lazy_block(X, shift)
        X = np.asarray(X, dtype=self.dtype)
        X = X if shift is None else X - shift.astype(self.dtype)
        X = X if self._order is None else X[self._order]
        return np.ascontiguousarray(X if self._scale is None else X * self._scale[:, None])

    def lazy_block(self, X: np.ndarray, shift: np.ndarray | None) -> Block:
        """X - shift in the scaled variable, computed when it is read."""
        from .kernels import LazyBlock

        d = X.shape[1]
        order = np.arange(self.n_nodes) if self._order is None else self._order
        if X.dtype == np.float16 and self.dtype == np.float32:  # the kernels convert it
            values = np.ascontiguousarray(X).view(np.uint16)
        else:
            values = np.ascontiguousarray(X, dtype=self.dtype)
        return LazyBlock(
            _read_only(values),
            _read_only(order),
            np.zeros(d, self.dtype) if shift is None else shift.astype(self.dtype),
            np.ones(self.n_nodes, self.dtype) if self._scale is None else self._scale,
            np.ones(d, self.dtype),
        )

    def materialize(self, block: Block) -> Block:
        """The result of ``to_internal`` in the form that is fastest to read many times."""
        if isinstance(block, np.ndarray) or block.values.nbytes > MATERIALIZED_BYTES:
            return block
        return self.scaled(block, 1.0)

    def from_internal(self, F: np.ndarray, source: Block) -> np.ndarray:
        """F, computed from ``source``, in the variable of the caller; may modify F."""
        if self.position is not None:
            return self.rows(F, source, 0, self.n_nodes)
        if self._scale is not None:
            F /= self._scale[:, None]
        return F

    def rows(self, F: np.ndarray, source: Block, begin: int, end: int) -> np.ndarray:
        """Rows ``begin`` to ``end`` of ``from_internal``; does not modify F."""
        rows = slice(begin, end) if self.position is None else self.position[begin:end]
        return F[rows] if self._scale is None else F[rows] / self._scale[rows, None]

    def is_fused(self, width: int) -> bool:
        """Whether blocks of this width use the compiled kernels."""
        return self._always_fused or (len(self.indices) + self.n_nodes) * width >= FUSED_WORK

    def for_blocks_of(self, width: int) -> Propagation:
        """The same operator; narrow blocks use the compiled kernels if ``width`` columns do."""
        return self._copy(_always_fused=self.is_fused(width))

    def matmul(self, F: np.ndarray) -> np.ndarray:
        """P F as a new block."""
        return self.step(F, F, np.empty_like(F), 1.0, 0.0, 0.0)

    def step(
        self,
        F: np.ndarray,
        X: Block,
        out: np.ndarray,
        a: float,
        b: float,
        c: float,
        own: float = 0.0,
    ) -> np.ndarray:
        """a P F + b X + c out + own F; may overwrite ``out``, which is not read if c is 0."""
        if self.is_fused(F.shape[1]):
            self.compiled_step(F, X, out, a, b, c, own)
        else:
            product = self.sparse_part @ F
            product *= a
            if b != 0:
                product += b * X
            if c != 0:
                product += c * out
            if own != 0:
                product += own * F
            out = product
        if self.ghost is not None:
            self.ghost.add_to_(out, F, a)
        return out

    def compiled_step(self, F: Block, X: Block, out: Block, *factors: float) -> None:
        """The step without the ghost factor, for blocks in any precision of the kernels."""
        from . import kernels

        graph = self.indptr, self.indices, self.weights, self._row_scale, self._diagonal
        numbers = (self.dtype.type(factor) for factor in factors)
        parallel_rows(kernels.step, self.n_nodes, *graph, F, X, out, *numbers)

    def scaled(self, X: Block, factor: float) -> np.ndarray:
        """factor * X as a new block."""
        result = zero_block(X.shape, self.dtype)
        if factor == 0:
            return result
        if isinstance(X, np.ndarray):
            return np.multiply(X, self.dtype.type(factor), out=result)
        from . import kernels

        scale = np.full(X.shape[1], factor, self.dtype)
        parallel_rows(kernels.rescale, self.n_nodes, X, scale, result)
        return result

    def dots(self, U: Block, V: Block) -> np.ndarray:
        """Inner product of each column of U with the same column of V."""
        if self.is_fused(U.shape[1]):
            return column_dots(U, V, self.mass)
        return np.asarray(np.einsum("i,ij,ij->j", self.mass, U, V, dtype="f8"))

    def norms(self, block: Block, squares: np.ndarray | None = None) -> np.ndarray:
        """Norm of each column, in which the norm of (I + alpha L)^-1 is at most 1.

        ``squares`` is ``dots(block, block)`` if that is known.
        """
        # Rows of the random walk are averages, so it is bounded in the maximum norm. The 2-norm
        # weighted by D would hardly count errors at nodes of small degree.
        if self.normalization == "rw":
            return self.max_abs(block)
        return np.sqrt(self.dots(block, block) if squares is None else squares)

    def max_abs(self, block: Block) -> np.ndarray:
        """Largest absolute value of each column."""
        if isinstance(block, np.ndarray) and not self.is_fused(block.shape[1]):
            return np.maximum(block.max(axis=0), -block.min(axis=0)).astype(np.float64)
        return column_max_abs(block)

    def combine_(
        self,
        Y: np.ndarray,
        y_scale: np.ndarray | float,
        Z: np.ndarray,
        z_scale: np.ndarray | float,
    ) -> np.ndarray:
        """Y <- y_scale * Y + z_scale * Z, with scales per column."""
        if not self.is_fused(Y.shape[1]):
            Y *= np.asarray(y_scale, self.dtype)
            Y += np.asarray(z_scale, self.dtype) * Z
            return Y
        from . import kernels

        scales = [np.broadcast_to(s, Y.shape[1]).astype(self.dtype) for s in (y_scale, z_scale)]
        parallel_rows(kernels.combine, self.n_nodes, Y, scales[0], Z, scales[1])
        return Y

    # -- as a matrix ----------------------------------------------------------------------

    @property
    def sparse_part(self) -> sp.csr_array:
        """P in the scaled variable without the ghost factor, as a sparse matrix."""
        if self._matrix is None:
            ones = np.ones(len(self.indices), self.dtype) if self.weights is None else self.weights
            adjacency = sp.csr_array((ones, self.indices, self.indptr), shape=self.shape)
            self._matrix = (
                sp.diags_array(self._row_scale) @ adjacency
                + sp.diags_array(self._row_scale + self._diagonal)
            ).tocsr()
        return self._matrix

    @property
    def dense_ghost_factors(self) -> tuple[np.ndarray, np.ndarray] | None:
        """(U, V) of shape (n, rank) such that P = ``sparse_part`` + U V^T, or None."""
        return None if self.ghost is None else self.ghost.dense()

    def without_ghost_factor(self) -> Propagation:
        """The operator without U V^T, which is self-adjoint for both forms of ghost edges."""
        return self._copy(ghost=None, self_adjoint=True)

    def _copy(self, **changes: Any) -> Propagation:
        copy = object.__new__(Propagation)
        copy.__dict__.update(self.__dict__, **changes)
        return copy


def degrees_of(indptr: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
    """Sums of the weights of all rows with their self-loops, in float64.

    ``indptr`` and ``weights`` may be those of some consecutive rows.
    """
    counts = np.diff(indptr)
    if weights is None:
        return counts + 1.0
    # Not by scipy, which would copy the indices of large graphs to int64. The last part of
    # reduceat ends at the end of the weights, hence the slice; an empty part would not be 0.
    degrees = np.ones(len(counts))
    rows = np.flatnonzero(counts)
    if len(rows):
        first = indptr[0]
        starts = indptr[rows] - first
        degrees[rows] += np.add.reduceat(weights[: indptr[-1] - first], starts, dtype=np.float64)
    return degrees


def column_dots(U: Block, V: Block, mass: np.ndarray) -> np.ndarray:
    """Inner products of the columns by the compiled kernel; float16 is passed as uint16."""
    from . import kernels

    parts = np.zeros((kernels.N_PARTS, U.shape[1]))
    parallel_rows(kernels.partial_dots, len(parts), len(mass), U, V, mass, parts, min_rows=1)
    return parts.sum(axis=0)


def column_max_abs(block: Block) -> np.ndarray:
    """Largest absolute value of each column by the compiled kernel."""
    from . import kernels

    parts = np.zeros((kernels.N_PARTS, block.shape[1]))
    n = block.shape[0]
    parallel_rows(kernels.partial_max_abs, len(parts), n, block, parts, min_rows=1)
    return parts.max(axis=0)


def _read_only(array: np.ndarray) -> np.ndarray:
    # numba compiles separate code for writeable arrays; those of a Graph are read-only.
    view = array.view()
    view.flags.writeable = False
    return view
