"""The propagation matrix P as an object that knows P @ F, and nothing else of it.

P = (1 - beta) A~ + beta G, where A~ is the normalised adjacency with self-loops and G the
ghost edges that labels add (paper, eq. 17). G is never formed: it is a diagonal plus a factor
with one entry per labelled node.

Inside, everything is written in the *walk variable*. With D the degrees (self-loop included),
the symmetric D^-1/2 (A + I) D^-1/2 acting on F is the random walk D^-1 (A + I) acting on
D^-1/2 F. So one kernel, which only adds neighbours' rows and divides by the degree, serves both
normalisations and needs no stored edge values where the graph has none. The walk is
self-adjoint in the inner product weighted by D, which is why the operator carries ``mass``.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import scipy.sparse as sp

from ...errors import InputError
from .ghost import GhostFactor

if TYPE_CHECKING:
    from .kernels import Source

Array = Any  # numpy.ndarray or torch.Tensor: the solvers use only what both offer

Normalization = Literal["sym", "rw"]
GhostForm = Literal["balanced", "paper"]

#: Multiplications from which a compiled kernel pays for being loaded. scipy does about a thousand
#: million a second, so below this a whole solve stays under a second anyway.
FUSED_WORK = 16_000_000

#: What enters is read where it lies, unless a block of its own takes no more than this: then it is
#: written down once, in the order and precision of the steps, which take up to a fifth less time.
FETCHED_BYTES = 2**28

CACHE_LINE_BYTES = 64


class BlockOperator(ABC):
    """What a block solver asks of P. Only ``matmul`` must be written.

    A subclass works on any array type with numpy's operators, torch tensors included.
    """

    #: Row weights of the inner product in which P is self-adjoint; None for all ones.
    mass: Array | None = None

    #: Whether P is self-adjoint in that inner product.
    self_adjoint: bool = True

    @abstractmethod
    def matmul(self, F: Array) -> Array:
        """P F, as a new block."""

    def enter(self, X: Array, shift: Array | None = None) -> Array:
        """X - shift in the variable that ``step`` works on.

        It may be X itself, or something read only where it is used: good as the second argument
        of ``step``, for ``scaled`` and for ``dots``.
        """
        return X if shift is None else X - shift

    def fetch(self, entered: Array) -> Array:
        """What entered, in the form that is quickest to read many times."""
        return entered

    def leave(self, F: Array, entered: Array) -> Array:
        """The way back of a block that was made from ``entered``; may overwrite F."""
        return F

    def rows(self, F: Array, entered: Array, begin: int, end: int) -> Array:
        """Rows begin to end of what ``leave`` would return, leaving F as it is."""
        return F[begin:end]

    def step(
        self, F: Array, X: Array, out: Array, a: float, b: float, c: float, stay: float = 0.0
    ) -> Array:
        """a P F + b X + c out + stay F; may overwrite and return ``out``, unread if c == 0."""
        result = self.matmul(F)
        result *= a
        result += b * X
        if c != 0:
            result += c * out
        if stay != 0:
            result += stay * F
        return result

    def scaled(self, X: Array, factor: float) -> Array:
        """factor * X as a new block."""
        return X * factor

    def dots(self, U: Array, V: Array) -> Array:
        """The inner product of each column of U with the same column of V."""
        product = U * V
        return (product if self.mass is None else self.mass[:, None] * product).sum(0)

    def norms(self, block: Array, squares: Array | None = None) -> Array:
        """A norm of each column in which (I + alpha L)^-1 is at most 1, whatever alpha is.

        ``squares`` is dots(block, block), if it is known.
        """
        return (self.dots(block, block) if squares is None else squares) ** 0.5

    def combine_(self, Y: Array, y_scale: Array | float, Z: Array, z_scale: Array | float) -> Array:
        """Y <- y_scale * Y + z_scale * Z, column by column."""
        Y *= y_scale
        Y += z_scale * Z
        return Y


class Propagation(BlockOperator):
    """P of one graph for numpy blocks.

    Parameters
    ----------
    indptr, indices, weights : ndarray
        The symmetric adjacency in CSR form without self-loops; ``weights=None`` for all ones.
    normalization : {"sym", "rw"}
        D^-1/2 (A + I) D^-1/2 or D^-1 (A + I).
    labels : ndarray of int, optional
        A class code per node, -1 for none. Needed for ghost edges (``beta > 0``).
    beta : float
        Share of the ghost edges in P.
    ghost : {"balanced", "paper"}
        In the paper's form the ghost row of an unlabelled node is zero, which adds a ridge to
        just those nodes. The balanced form gives such a node a ghost edge to itself instead,
        so that every ghost row sums to one.
    dtype : float32 or float64
        Precision of the step.
    reorder : bool
        Lay nodes out anew inside, neighbours near each other: worth it on a graph of a million
        entries or more from a few steps on. Unseen from outside but for rounding.

    Examples
    --------
    >>> import numpy as np
    >>> P = Propagation(np.array([0, 1, 2]), np.array([1, 0]))  # a single edge
    >>> P @ np.array([[1.0], [3.0]])
    array([[2.],
           [2.]])
    """

    mass: np.ndarray

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
        if reorder:
            from .ordering import locality_order, permute

            self._order = _read_only(locality_order(indptr, indices))
            indptr, indices, weights = permute(indptr, indices, weights, self._order)
            labels = None if labels is None else labels[self._order]
        self.indptr, self.indices = _read_only(indptr), _read_only(indices)
        self.n_nodes = len(indptr) - 1
        self.shape = (self.n_nodes, self.n_nodes)
        self.dtype = np.dtype(dtype)
        self.normalization = normalization

        degrees = self._degrees(weights)
        with np.errstate(over="ignore"):
            self.mass = degrees.astype(self.dtype)
        if not np.all(np.isfinite(self.mass)):
            raise InputError(
                f"weights add up to {degrees.max():.1e} at a node, too much for {self.dtype}; "
                f"scale them down or use float64 features"
            )
        self.weights = None
        if weights is not None:
            self.weights = _read_only(weights.astype(self.dtype, copy=False))
        self._to_walk = (degrees**-0.5).astype(self.dtype) if normalization == "sym" else None
        self._row_scale = ((1 - beta) / degrees).astype(self.dtype)
        self._diagonal = np.zeros(self.n_nodes, self.dtype)
        self._ghost: GhostFactor | None = None
        self._matrix: sp.csr_array | None = None
        self._always_fused = False
        if beta > 0:
            self._add_ghost_edges(labels, beta, ghost, degrees)

    def _degrees(self, weights: np.ndarray | None) -> np.ndarray:
        if weights is None:
            return np.diff(self.indptr) + 1.0
        adjacency = sp.csr_array((weights, self.indices, self.indptr), shape=self.shape)
        return adjacency.sum(axis=1, dtype=np.float64) + 1.0

    def _add_ghost_edges(
        self, labels: np.ndarray | None, beta: float, form: GhostForm, degrees: np.ndarray
    ) -> None:
        if labels is None:
            labels = np.full(self.n_nodes, -1)
        if form == "balanced":
            self._diagonal[labels < 0] = beta
        nodes = np.flatnonzero(labels >= 0)
        if len(nodes) == 0:
            return
        _, codes = np.unique(labels[nodes], return_inverse=True)
        degree = degrees[nodes]
        # Each class is a projector on one vector q. Its two halves below already contain the
        # change to the walk variable; they are proportional by D exactly when the ghost part
        # is self-adjoint there.
        if self.normalization == "sym":
            size = np.bincount(codes)[codes]
            left, right = (degree * size) ** -0.5, (degree / size) ** 0.5
        elif form == "balanced":
            size = np.bincount(codes, weights=degree)[codes]
            left, right = size**-0.5, degree * size**-0.5
        else:  # the walk's own plain class mean, as the authors' code has it
            size = np.bincount(codes)[codes]
            left = right = np.asarray(size**-0.5)
            self.self_adjoint = bool(np.ptp(degree) == 0)
        self._ghost = GhostFactor(nodes, codes, beta * left, right, self.n_nodes, self.dtype)

    # -- as a matrix ----------------------------------------------------------------------

    def __matmul__(self, F: np.ndarray) -> np.ndarray:
        """P @ F in the caller's own variable."""
        block = np.ascontiguousarray(F, dtype=self.dtype).reshape(self.n_nodes, -1)
        entered = self.scaled(self.enter(block), 1.0)
        return self.leave(self.matmul(entered), entered).reshape(F.shape)

    @property
    def row_weights(self) -> np.ndarray | None:
        """Row weights of the objective that P belongs to: None (ones) for sym, D for rw."""
        if self.normalization == "sym":
            return None
        return self.mass if self._order is None else self.mass[self.place]

    # -- as an operator of the solvers, in the walk variable ------------------------------

    def enter(self, X: np.ndarray, shift: np.ndarray | None = None) -> np.ndarray | Source:
        if self.is_fused(X.shape[1]):
            return self.source(X, shift)
        X = np.asarray(X, dtype=self.dtype)
        X = X if shift is None else X - shift.astype(self.dtype)
        X = X if self._order is None else X[self._order]
        return np.ascontiguousarray(X if self._to_walk is None else X * self._to_walk[:, None])

    def source(
        self, X: np.ndarray, shift: np.ndarray | None, column_scale: np.ndarray | None = None
    ) -> Source:
        """X as it enters, read where it lies."""
        from .kernels import Source

        d = X.shape[1]
        order = np.arange(self.n_nodes) if self._order is None else self._order
        return Source(
            _read_only(np.ascontiguousarray(X, dtype=self.dtype)),
            _read_only(order),
            np.zeros(d, self.dtype) if shift is None else shift.astype(self.dtype),
            np.ones(self.n_nodes, self.dtype) if self._to_walk is None else self._to_walk,
            np.ones(d, self.dtype) if column_scale is None else column_scale,
        )

    def fetch(self, entered: np.ndarray | Source) -> np.ndarray | Source:
        if isinstance(entered, np.ndarray) or entered.values.nbytes > FETCHED_BYTES:
            return entered
        return self.scaled(entered, 1.0)

    def leave(self, F: np.ndarray, entered: np.ndarray | Source) -> np.ndarray:
        if self._order is not None:
            return self.rows(F, entered, 0, self.n_nodes)
        if self._to_walk is not None:
            F /= self._to_walk[:, None]
        return F

    def rows(self, F: np.ndarray, entered: np.ndarray | Source, begin: int, end: int) -> np.ndarray:
        if self._order is None:
            here = slice(begin, end)
            return F[here] if self._to_walk is None else F[here] / self._to_walk[here, None]
        places = self.place[begin:end]
        rows = F[places]
        if self._to_walk is not None:
            rows /= self._to_walk[places, None]
        return rows

    @cached_property
    def place(self) -> np.ndarray:
        """Position inside of each of the caller's rows."""
        place = np.arange(self.n_nodes)
        if self._order is not None:
            place[self._order] = np.arange(self.n_nodes)
        return place

    def is_fused(self, width: int) -> bool:
        """Whether a step on a block this wide is worth loading the compiled kernel for."""
        return self._always_fused or (len(self.indices) + self.n_nodes) * width >= FUSED_WORK

    def for_parts_of(self, width: int) -> Propagation:
        """The same operator, compiled for however narrow blocks if that is worth it for so wide."""
        return self._twin(_always_fused=self.is_fused(width))

    def matmul(self, F: np.ndarray) -> np.ndarray:
        return self.step(F, F, np.empty_like(F), 1.0, 0.0, 0.0)

    def step(
        self,
        F: np.ndarray,
        X: Array,
        out: np.ndarray,
        a: float,
        b: float,
        c: float,
        stay: float = 0.0,
    ) -> np.ndarray:
        if self.is_fused(F.shape[1]):
            self.compiled_step(F, X, out, a, b, c, stay)
        else:
            product = self.sparse_part @ F
            product *= a
            if b != 0:
                product += b * X
            if c != 0:
                product += c * out
            if stay != 0:
                product += stay * F
            out = product
        if self._ghost is not None:
            self._ghost.add_to_(out, F, a)
        return out

    def compiled_step(self, F: Array, X: Array, out: Array, *factors: float) -> None:
        """The step without the ghost factor, for blocks in any precision that kernels take."""
        from . import kernels

        with kernels.parallel_launch():
            kernels.step(
                self.indptr, self.indices, self.weights, self._row_scale, self._diagonal,
                F, X, out, *(self.dtype.type(factor) for factor in factors),
            )  # fmt: skip

    def scaled(self, X: np.ndarray | Source, factor: float) -> np.ndarray:
        result = zero_block(X.shape, self.dtype)
        if factor == 0:
            return result
        if isinstance(X, np.ndarray):
            return np.multiply(X, self.dtype.type(factor), out=result)
        from . import kernels

        with kernels.parallel_launch():
            kernels.rescale(X, np.full(X.shape[1], factor, self.dtype), result)
        return result

    def dots(self, U: np.ndarray | Source, V: np.ndarray | Source) -> np.ndarray:
        if self.is_fused(U.shape[1]):
            from . import kernels

            parts = np.zeros((kernels.N_PARTS, U.shape[1]))
            with kernels.parallel_launch():
                kernels.partial_dots(U, V, self.mass, parts)
            return parts.sum(axis=0)
        return np.asarray(np.einsum("i,ij,ij->j", self.mass, U, V, dtype="f8"))

    def norms(self, block: np.ndarray | Source, squares: np.ndarray | None = None) -> np.ndarray:
        # Rows of the random walk are means. Its norm weighted by D would hardly count an error
        # at a node of small degree.
        return super().norms(block, squares) if self.normalization == "sym" else self.extents(block)

    def extents(self, block: np.ndarray | Source) -> np.ndarray:
        """Largest absolute value of each column."""
        if isinstance(block, np.ndarray) and not self.is_fused(block.shape[1]):
            return np.maximum(block.max(axis=0), -block.min(axis=0)).astype(np.float64)
        return largest_values(block)

    def combine_(
        self,
        Y: np.ndarray,
        y_scale: np.ndarray | float,
        Z: np.ndarray,
        z_scale: np.ndarray | float,
    ) -> np.ndarray:
        if not self.is_fused(Y.shape[1]):
            return super().combine_(
                Y, np.asarray(y_scale, self.dtype), Z, np.asarray(z_scale, self.dtype)
            )
        from . import kernels

        per_column = [np.broadcast_to(s, Y.shape[1]).astype(self.dtype) for s in (y_scale, z_scale)]
        with kernels.parallel_launch():
            kernels.combine(Y, per_column[0], Z, per_column[1])
        return Y

    # -- for factorisations ---------------------------------------------------------------

    @property
    def sparse_part(self) -> sp.csr_array:
        """P in the walk variable without the ghost factor, as a sparse matrix."""
        if self._matrix is None:
            ones = np.ones(len(self.indices), self.dtype) if self.weights is None else self.weights
            adjacency = sp.csr_array((ones, self.indices, self.indptr), shape=self.shape)
            self._matrix = (
                sp.diags_array(self._row_scale) @ adjacency
                + sp.diags_array(self._row_scale + self._diagonal)
            ).tocsr()
        return self._matrix

    def weighted_entries(self) -> tuple[np.ndarray, np.ndarray]:
        """D P in the walk variable without the ghost factor, which is symmetric.

        Returned are the entries off its diagonal, in the order of ``indices``, and the diagonal.
        """
        share = self.mass * self._row_scale
        off_diagonal = np.repeat(share, np.diff(self.indptr))
        if self.weights is not None:
            off_diagonal *= self.weights
        return off_diagonal, share + self.mass * self._diagonal

    @property
    def ghost_factors(self) -> tuple[np.ndarray, np.ndarray] | None:
        """(U, V), n x classes, such that P is ``sparse_part`` + U V^T; None without ghosts."""
        return None if self._ghost is None else self._ghost.dense()

    def without_ghost_factor(self) -> Propagation:
        """The same operator less U V^T, which is self-adjoint whatever the ghost form."""
        return self._twin(_ghost=None, self_adjoint=True)

    def _twin(self, **changes: Any) -> Propagation:
        twin = object.__new__(Propagation)
        twin.__dict__.update(self.__dict__, **changes)
        return twin


def largest_values(block: np.ndarray | Source) -> np.ndarray:
    """Largest absolute value of each column, by the compiled kernel; 16 bits as uint16."""
    from . import kernels

    n, d = block.shape
    parts = np.zeros((kernels.N_PARTS, d))
    with kernels.parallel_launch():
        kernels.partial_extents(block, n, parts)
    return parts.max(axis=0)


def zero_block(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Zeros that begin where a cache line does.

    numpy's large arrays begin 16 bytes later, so that rows of 128 bytes reach into three lines
    each, where two would hold them.
    """
    n_bytes = math.prod(shape) * np.dtype(dtype).itemsize
    memory = np.zeros(n_bytes + CACHE_LINE_BYTES, np.uint8)
    begin = -memory.ctypes.data % CACHE_LINE_BYTES
    return memory[begin : begin + n_bytes].view(dtype).reshape(shape)


def _read_only(array: np.ndarray) -> np.ndarray:
    # numba compiles anew for arrays that may be written; those of a Graph may not.
    view = array.view()
    view.flags.writeable = False
    return view
