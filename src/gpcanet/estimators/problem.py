"""The one specification of a fit, from checked parameters and rows to a solver and a memory plan.

GPCA, GPCAPath and the memory estimate all go through :class:`Problem`.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, fields, replace
from functools import cached_property
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..errors import InputError
from ..graph import Graph
from ..linalg import (
    HALF_ALPHA,
    CenteredFeatures,
    Method,
    Propagation,
    Solver,
    choose_method,
    extreme_exponent,
    times_power_of_two,
)
from ..utils.checks import check_choice, check_number
from ..utils.labels import UNLABELED
from ._alignment import align_to_rows, row_subgraph
from .memory_plan import (
    REORDERED_STEPS,
    FitSize,
    MemoryPlan,
    Strategy,
    parse_bytes,
    plan_memory,
    reordering_pays,
)
from .training_nodes import TrainingNodes, check_keep
from .validation import check_ghost_labels, check_training_rows, set_row_attributes

#: Largest alpha. Beyond it rounding errors hide the effect of alpha.
LARGEST_ALPHA = 1e6

#: Default number of components. More did not improve classification accuracy.
DEFAULT_COMPONENTS = 128

#: Lanczos multiplies about this many vectors per component, and this many in addition.
VECTORS_PER_COMPONENT, MORE_VECTORS = 5, 120

#: Time to solve for a vector of Lanczos, in float64 and a narrow block, relative to a column in
#: float32.
NARROW_SOLVE = 3

#: Density from which a sparse X is converted to a dense array.
DENSE_SHARE = 0.05

#: Largest size of that dense array.
DENSE_BYTES = 2**29


@dataclass(frozen=True)
class Parameters:
    """The parameters of :class:`GPCA`, apart from the number of components."""

    alpha: float = 10.0
    beta: float = 0.0
    normalization: Any = "sym"
    ghost: Any = "balanced"
    solver: Any = "auto"
    n_iter: int | None = None
    tol: float | None = None
    max_iter: int = 1000
    eigen_solver: str = "auto"
    precision: str = "full"
    memory_limit: int | str | None = None
    keep_training_nodes: bool | None = None

    @classmethod
    def of(cls, estimator: Any, **values: Any) -> Parameters:
        """The parameters of an estimator, checked; ``values`` replace or add some."""
        names = {field.name for field in fields(cls)} & estimator.get_params(deep=False).keys()
        own = {name: getattr(estimator, name) for name in names}
        parameters = cls(**(own | values))
        parameters.check()
        return parameters

    def check(self) -> None:
        """Raise an InputError if a value is not allowed."""
        check_number("alpha", self.alpha, 0, LARGEST_ALPHA, advice="use 0 to ignore the graph")
        check_number("beta", self.beta, 0, 1, advice="use 0 to ignore labels")
        check_choice("normalization", self.normalization, ("sym", "rw"))
        check_choice("ghost", self.ghost, ("balanced", "paper"))
        check_choice("solver", self.solver, ("auto", "direct", "chebyshev", "cg", "fixed-point"))
        check_choice("eigen_solver", self.eigen_solver, ("auto", "formed", "lanczos"))
        check_choice("precision", self.precision, ("full", "half"))
        if self.precision == "half" and (
            self.solver in ("direct", "cg") or self.eigen_solver == "lanczos"
        ):
            raise InputError(
                f"precision='half' requires solver='chebyshev' or 'fixed-point' and "
                f"eigen_solver='formed', not {self.solver!r} and {self.eigen_solver!r}"
            )
        if self.half and not self.is_self_adjoint:
            raise InputError("precision='half' with normalization='rw' requires ghost='balanced'")
        if self.memory_limit is not None:
            parse_bytes(self.memory_limit)
        check_keep(self.keep_training_nodes)
        check_number("max_iter", self.max_iter, 1, integer=True, advice="the default is 1000")
        if self.tol is not None:
            check_number("tol", self.tol, 1e-15, 0.5, advice="use tol=None for the default")
        if self.n_iter is not None:
            check_number("n_iter", self.n_iter, 0, integer=True, advice="the paper uses n_iter=5")
            if self.solver != "fixed-point":
                raise InputError(
                    f"n_iter={self.n_iter} requires solver='fixed-point'; {self.solver!r} iterates "
                    f"until tol is reached"
                )

    @property
    def half(self) -> bool:
        """Whether the solves run in half precision."""
        return self.precision == "half" and self.alpha <= HALF_ALPHA

    @property
    def is_self_adjoint(self) -> bool:
        """Whether X^T D (I + alpha L)^-1 X is symmetric."""
        return not (self.normalization == "rw" and self.ghost == "paper" and self.beta > 0)

    @property
    def iterates(self) -> bool:
        """Whether enough propagation steps are made for a node ordering to pay off."""
        few = self.n_iter is not None and self.n_iter < REORDERED_STEPS
        return self.alpha > 0 and self.solver != "direct" and not few

    @property
    def n_blocks(self) -> int:
        """Blocks of the size of X that a solve holds at a time."""
        to_tolerance = self.solver == "fixed-point" and self.n_iter is None
        n_blocks = {"cg": 6, "direct": 4}.get(self.solver, 3 if to_tolerance else 2)
        if self.normalization == "rw" and self.solver in ("auto", "chebyshev"):
            n_blocks = 4  # a solve may be repeated on its residual
        return n_blocks + (2 if self.beta > 0 else 0)  # rows of labelled nodes, at most all

    def propagation(
        self, graph: Graph, labels: np.ndarray | None, dtype: Any, *, reorder: bool
    ) -> Propagation:
        """P of a graph; labels are used if beta > 0."""
        return Propagation(
            graph.indptr, graph.indices, graph.weights, normalization=self.normalization,
            labels=labels if self.beta > 0 else None, beta=float(self.beta), ghost=self.ghost,
            dtype=dtype, reorder=reorder,
        )  # fmt: skip

    def make_solver(self, P: Propagation, method: Method, result_dtype: Any) -> Solver:
        """Solver of (I + alpha L) F = X; the default tolerance depends on the dtype of F."""
        return Solver(
            P, float(self.alpha), method=method, tol=self.tol or default_tol(result_dtype),
            n_iter=self.n_iter, max_iter=self.max_iter, half=self.half,
        )  # fmt: skip

    def check_lanczos(self, d: int, n_components: int | float) -> None:
        """Raise an InputError if eigen_solver="lanczos" cannot compute so many components."""
        if isinstance(n_components, float):
            raise InputError(
                f"n_components={n_components} requires all eigenvalues; use eigen_solver='formed', "
                f"or an integer"
            )
        if n_components >= d:
            raise InputError(
                f"eigen_solver='lanczos' computes fewer than all {d} components, not "
                f"{n_components}; use eigen_solver='formed'"
            )
        if not self.is_self_adjoint:
            raise InputError(
                f"eigen_solver='lanczos' requires a symmetric matrix, which normalization='rw', "
                f"ghost='paper' and beta={self.beta} do not give; use eigen_solver='formed' or "
                f"ghost='balanced'"
            )


def check_n_components(n_components: Any, X: Any, eigen_solver: str = "auto") -> int | float:
    """The number of components of these features, or a share of the trace in (0, 1)."""
    most = min(X.shape)
    if n_components is None:
        # Lanczos does not compute all eigenvectors.
        most -= eigen_solver == "lanczos" and most == X.shape[1] > 1
        return min(most, DEFAULT_COMPONENTS)
    if isinstance(n_components, Real) and not isinstance(n_components, Integral):
        if 0 < float(n_components) < 1:
            return float(n_components)
        if not float(n_components).is_integer():
            raise InputError(
                f"n_components={n_components} must be an integer, or a number in (0, 1): the "
                f"share of the trace that the components must reach"
            )
    advice = f"X with {X.shape[0]} rows and {X.shape[1]} features has at most {most} components"
    check_number("n_components", n_components, 1, most, integer=True, advice=advice)
    return int(n_components)


class TrainingData(NamedTuple):
    """Features, graph and labels of ``fit``, checked and matched with each other."""

    X: Any
    graph: Graph
    nodes: np.ndarray | None  # position of each row in the graph; None for row i = node i
    labels: np.ndarray | None  # class codes or targets of the ghost edges
    has_graph: bool
    matched_by_id: bool

    @classmethod
    def check(
        cls, estimator: Any, X: Any, y: Any, graph: Any, nodes: Any, *, beta: float
    ) -> TrainingData:
        """Check the arguments of ``fit``; labels are read only if beta > 0."""
        has_graph = graph is not None
        X, graph, nodes, index = check_training_rows(estimator, X, graph, nodes)
        labels = None
        if beta > 0:
            if y is None:
                raise InputError(
                    f"beta={beta} adds ghost edges between labelled nodes, but y is None; pass y "
                    f"with {UNLABELED} for unlabelled nodes, or use beta=0"
                )
            y = align_to_rows(y, graph, nodes, index, "y")
            labels = check_ghost_labels(y, X.shape[0])
        set_row_attributes(estimator, graph, index, has_graph=has_graph)
        return cls(X, graph, nodes, labels, has_graph, estimator.matched_by_id_)

    @property
    def row_graph(self) -> Graph:
        """The graph on the rows of X, in their order."""
        return row_subgraph(self.graph, self.nodes)

    def attributes(self, *, beta: float, keep: bool | None) -> dict[str, Any]:
        """Learned attributes that depend on the data alone."""
        labels = self.labels if beta > 0 else None
        kept = TrainingNodes.kept(self.graph, self.nodes, self.X, labels, keep=keep)
        return {
            "n_nodes_in_": self.graph.n_nodes if self.has_graph else None,
            "matched_by_id_": self.matched_by_id,
            "training_nodes_": kept,
        }


class Problem:
    """The linear systems and eigenproblem of a fit, and its memory plan.

    Parameters
    ----------
    parameters : Parameters
    graph : Graph
        Graph on the rows of X, in their order.
    X : ndarray or csr_array of shape (n, d)
    labels : ndarray, optional
        Class codes or targets per row, as for :class:`Propagation`; used if beta > 0.
    n_components : int or float
        Number of components, or the share of the trace that they must reach.
    strategy : {"formed", "lanczos", "transform"}, optional
        By default the one that suits X.
    mean : ndarray of shape (d,), optional
        By default the column means of X.
    known : Propagation, optional
        P of this graph for beta = 0, if it exists already.

    Attributes
    ----------
    dtype : dtype
        Precision of the computation.
    result_dtype : dtype
        Precision of the results.
    exponent : int
        X is divided by 2**exponent, so that squares neither overflow nor underflow.
    """

    def __init__(
        self,
        parameters: Parameters,
        graph: Graph,
        X: Any,
        labels: np.ndarray | None = None,
        *,
        n_components: int | float,
        strategy: Strategy | None = None,
        mean: np.ndarray | None = None,
        known: Propagation | None = None,
    ) -> None:
        self.parameters, self.graph, self.X, self.labels = parameters, graph, X, labels
        self.n_components, self.mean, self._known = n_components, mean, known
        self.result_dtype = self.dtype = X.dtype
        self.strategy: Strategy = strategy or self._choose_strategy()
        if self.strategy == "lanczos":
            self.dtype = np.dtype(np.float64)
        elif parameters.half:
            self.dtype = np.dtype(np.float32)

    def _choose_strategy(self) -> Strategy:
        parameters, d, k = self.parameters, self.X.shape[1], self.n_components
        if parameters.eigen_solver == "lanczos":
            parameters.check_lanczos(d, k)
            return "lanczos"
        is_auto = parameters.eigen_solver == "auto" and not isinstance(k, float)
        may_choose = is_auto and parameters.precision == "full" and parameters.is_self_adjoint
        if not sp.issparse(self.X):  # it would be copied in float64 and read many times
            may_choose &= self.X.size * 8 <= DENSE_BYTES and parameters.memory_limit is None
        if not may_choose or 8 * k > d:
            return "formed"
        work = VECTORS_PER_COMPONENT * k + MORE_VECTORS
        if self.X.dtype == np.float32 and self.method != "direct":
            work *= NARROW_SOLVE
        return "lanczos" if work < d else "formed"

    def at(self, alpha: float, beta: float) -> Problem:
        """The same problem with other values of alpha and beta.

        The centred features and the choice of the method are computed once and shared.
        """
        self.features, self.method  # noqa: B018
        other = copy.copy(self)
        vars(other).pop("memory_plan", None)
        other.parameters = replace(self.parameters, alpha=alpha, beta=beta)
        return other

    @cached_property
    def exponent(self) -> int:
        return extreme_exponent(self.X, self.dtype, self.mean)

    @cached_property
    def features(self) -> CenteredFeatures:
        """X, scaled, in the precision of the computation, and centred."""
        X = times_power_of_two(self.X, -self.exponent).astype(self.dtype, copy=False)
        if self._becomes_dense:
            X = X.toarray()
        mean = None if self.mean is None else times_power_of_two(self.mean, -self.exponent)
        return CenteredFeatures(X, mean, keep=self.memory_plan.keep_centered)

    @cached_property
    def _becomes_dense(self) -> bool:
        if self.strategy != "formed" or not sp.issparse(self.X):
            return False
        size = self.X.shape[0] * self.X.shape[1]
        is_dense = self.X.nnz >= DENSE_SHARE * size
        return bool(is_dense and size * self.dtype.itemsize <= DENSE_BYTES)

    @cached_property
    def memory_plan(self) -> MemoryPlan:
        """Block size, node ordering and where Z is kept."""
        limit = self.parameters.memory_limit
        return plan_memory(self.sizes(), None if limit is None else parse_bytes(limit))

    def sizes(self) -> FitSize:
        """The sizes that the memory of the fit depends on."""
        X, parameters, item = self.X, self.parameters, self.dtype.itemsize
        n, d = X.shape
        n_components = min(n, d) if isinstance(self.n_components, float) else self.n_components
        is_sparse = sp.issparse(X)
        work_item = 2 if parameters.half else item
        stored, copies = X.nnz if is_sparse else X.size, 0
        if self._becomes_dense:
            copies = n * d * item
        elif X.dtype != self.dtype or not (is_sparse or X.flags.c_contiguous):
            copies = stored * item
        if self.exponent:  # X and Z are copied
            copies += (stored + n * n_components) * X.dtype.itemsize
        n_entries = len(self.graph.indices)
        return FitSize(
            n_nodes=n,
            n_features=d,
            n_components=n_components,
            n_entries=n_entries,
            entry_bytes=4 if self.graph.weights is None else 4 + item,
            item=item,
            work_item=work_item,
            x_copy=copies,
            sparse_entries=stored if is_sparse and not self._becomes_dense else None,
            reorders=parameters.iterates and reordering_pays(n, n_entries, d * work_item),
            strategy=self.strategy,
            blocks=parameters.n_blocks,
            refines=parameters.solver in ("auto", "chebyshev") and work_item == 4,
        )

    def propagation(self) -> Propagation:
        if self._known is not None and self.parameters.beta == 0:
            return self._known
        reorder = self.memory_plan.reorder
        return self.parameters.propagation(self.graph, self.labels, self.dtype, reorder=reorder)

    @cached_property
    def method(self) -> Method:
        """Method of the linear solver; ``auto`` depends on the graph alone."""
        if self.parameters.solver != "auto":
            return self.parameters.solver
        return choose_method(
            self.parameters.propagation(self.graph, None, self.dtype, reorder=False)
        )

    @property
    def tol(self) -> float:
        return self.parameters.tol or default_tol(self.result_dtype)

    def solver(self, P: Propagation) -> Solver:
        return self.parameters.make_solver(P, self.method, self.result_dtype)


def default_tol(dtype: Any) -> float:
    """Default tolerance of the solves; float32 stalls near 3e-6."""
    return 1e-5 if np.dtype(dtype) == np.float32 else 1e-6
